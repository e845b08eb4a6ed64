//! The programs that the settings name: the simulator runs them itself, because no process can be started here.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::program::stand_in::{self, Program};
use runtime::settings::Command;

use crate::kernel;
use crate::world::SECOND;

/// `device.command`: takes the device down.
pub(crate) const TAKE_DOWN: &str = "take-down";
/// `device.shutdown`: stops the applications.
pub(crate) const STOP_APPS: &str = "stop-apps";
/// A command of `device.pre`.
pub(crate) const HOOK: &str = "hook";
/// `health.command`.
pub(crate) const HEALTH: &str = "health";
/// `baseos.activate`: writes an image.
pub(crate) const ACTIVATE: &str = "activate";

/// How the runs of a program end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// After so many nanoseconds, with success.
    Works(u64),
    /// After so many nanoseconds, with success, but it has done nothing.
    Lies(u64),
    /// After so many nanoseconds, with an error.
    Fails(u64),
}

impl Fate {
    pub(crate) const fn takes(self) -> u64 {
        match self {
            Self::Works(nanos) | Self::Lies(nanos) | Self::Fails(nanos) => nanos,
        }
    }
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Started {
    /// The number of the device.
    pub(crate) device: usize,
    pub(crate) name: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) fate: Fate,
    /// Tells this run from others.
    pub(crate) number: u64,
}

/// What holds for the programs of a history.
#[derive(Debug)]
struct Programs {
    /// The fates of the next runs by device and name; without one a run works at once.
    fates: BTreeMap<(usize, String), Vec<Fate>>,
    started: Vec<Started>,
    /// The runs that were killed.
    killed: Vec<u64>,
    /// The files that runs hold whose agent has died.
    orphans: Vec<(u64, File)>,
    last: u64,
    /// The targets by which systemd takes machines down, by the machine's number.
    targets: BTreeMap<u32, &'static str>,
}

static PROGRAMS: Mutex<Programs> = Mutex::new(Programs {
    fates: BTreeMap::new(),
    started: Vec::new(),
    killed: Vec::new(),
    orphans: Vec::new(),
    last: 0,
    targets: BTreeMap::new(),
});

fn programs() -> MutexGuard<'static, Programs> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on agents run their programs here.
pub(crate) fn begin() {
    stand_in::install(run, kill_holders);
}

/// The next run of this program on this device ends so, after those that were set before.
pub(crate) fn set_next(device: usize, name: &str, fate: Fate) {
    programs().fates.entry((device, name.to_owned())).or_default().push(fate);
}

/// The programs that were started since the last call.
pub(crate) fn take_started() -> Vec<Started> {
    std::mem::take(&mut programs().started)
}

/// True if the run was killed before its end.
pub(crate) fn was_killed(number: u64) -> bool {
    programs().killed.contains(&number)
}

/// The run has ended: a file that it holds for an agent that has died is closed.
pub(crate) fn ended(number: u64) {
    let orphans = std::mem::take(&mut programs().orphans);
    let (others, over): (Vec<_>, Vec<_>) = orphans.into_iter().partition(|(of, _)| *of != number);
    programs().orphans = others;
    drop(over);
}

/// From now on systemd takes the machine down by this target; with None it does not.
pub(crate) fn set_target(machine: u32, target: Option<&'static str>) {
    let targets = &mut programs().targets;
    match target {
        Some(target) => targets.insert(machine, target),
        None => targets.remove(&machine),
    };
}

/// The target by which systemd takes the machine down.
pub(crate) fn target_of(machine: u32) -> Option<&'static str> {
    programs().targets.get(&machine).copied()
}

/// What `systemctl list-jobs` says on this machine.
fn jobs() -> String {
    let target = target_of(kernel::this_machine());
    target.map_or_else(String::new, |target| {
        format!("7 shutdown.target start waiting\n8 {target} start waiting\n")
    })
}

/// The setting for a program of this device, as TOML.
pub(crate) fn setting(device: usize, name: &str) -> String {
    format!(r#"["{name}", "{device}"]"#)
}

/// Kills the runs that hold the file and whose agent has died. One of four waits for its disk, and does not end.
fn kill_holders(path: &Path) -> usize {
    let of = |found: Metadata| (found.dev(), found.ino());
    let Some(wanted) = fs::metadata(path).ok().map(of) else { return 0 };
    let orphans = std::mem::take(&mut programs().orphans);
    let holds = |(_, file): &(u64, File)| file.metadata().is_ok_and(|found| of(found) == wanted);
    let (held, mut others): (Vec<_>, Vec<_>) = orphans.into_iter().partition(holds);
    let count = held.len();
    for (number, file) in held {
        programs().killed.push(number);
        if kernel::below(4) == 0 {
            others.push((number, file));
        }
    }
    programs().orphans = others;
    kernel::note_change();
    count
}

fn run(command: &Command, environment: &[(&str, String)], file: Option<File>) -> Program {
    if command.program == "systemctl" {
        let jobs = jobs();
        return Box::pin(async { Ok(jobs) });
    }
    let device = command.arguments.first().and_then(|number| number.parse().ok()).unwrap_or_default();
    let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let name = command.program.clone();
    let (number, fate) = {
        let mut programs = programs();
        let next = programs.fates.get_mut(&(device, name.clone()));
        let fate = next.filter(|fates| !fates.is_empty()).map(|fates| fates.remove(0));
        programs.last += 1;
        let (number, fate) = (programs.last, fate.unwrap_or(Fate::Works(SECOND / 10)));
        programs.started.push(Started { device, name, environment, fate, number });
        (number, fate)
    };
    kernel::note_change();
    let process = Process { number, file, has_ended: false };
    Box::pin(async move {
        // All of it moves in here, so that it lives as long as the run.
        let mut process = process;
        tokio::time::sleep(Duration::from_nanos(fate.takes())).await;
        process.end();
        match fate {
            Fate::Works(_) | Fate::Lies(_) => Ok(String::new()),
            Fate::Fails(_) => Err("exit status: 1: it does not work".to_owned()),
        }
    })
}

/// A run that goes on.
#[derive(Debug)]
struct Process {
    number: u64,
    file: Option<File>,
    has_ended: bool,
}

impl Process {
    const fn end(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // Who runs a program kills it if it is no longer wanted; who dies leaves it behind.
        if !kernel::is_this_dead() {
            programs().killed.push(self.number);
        } else if let Some(file) = self.file.take() {
            programs().orphans.push((self.number, file));
        }
    }
}
