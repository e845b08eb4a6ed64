//! One round, and its judge.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DrainStatus, Operation, Source, agent,
};
use serde_json::Value;
use system::{Device, FaultyServer, Place, Traces};

use crate::PROGRAM;
use crate::class::{AGENTS, Class, Strike};
use crate::random::Random;

/// Time limit of a wait: steps take longer on a busy machine, an empty node is not believed for a minute after an
/// outage, and the return of a node is retried with pauses of up to 40 s.
const PATIENCE: Duration = Duration::from_mins(5);

/// Poll interval: short compared with a step, long enough to leave the processor to the agents.
const LOOK: Duration = Duration::from_millis(15);

/// Identity of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Round {
    pub(crate) class: Class,
    pub(crate) seed: u64,
}

/// Result of a round.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Number of faults that happened.
    pub(crate) faults: usize,
    /// The violation that was found.
    pub(crate) wrong: Option<String>,
}

impl Round {
    /// Runs the round.
    pub(crate) fn run(self, place: &Place) -> Verdict {
        let mut verdict = Verdict::default();
        let result = Under::start(self, place).and_then(|mut under| {
            let result = under.go();
            verdict.faults = under.struck;
            under.mend();
            if let Err(error) = &result {
                under.keep(&format!("{error:#}"));
            }
            result
        });
        verdict.wrong = result.err().map(|error| format!("{error:#}"));
        verdict
    }
}

/// A running round.
struct Under<'a> {
    round: Round,
    place: &'a Place,
    device: Device,
    server: Option<FaultyServer>,
    strikes: std::vec::IntoIter<(Duration, Strike)>,
    next: Option<(Duration, Strike)>,
    random: Random,
    began: Instant,
    struck: usize,
    is_read_only: bool,
    /// The other node has the slot, so we must not go down.
    is_held_by_other: bool,
    /// Number of recorded actions that were checked.
    seen: usize,
    /// Commands that a boot has carried out, each with the number of its recorded actions at that time.
    done_by_boot: BTreeMap<u32, usize>,
    /// Commands (of poweroffs) that may be refused with a message after a boot.
    may_be_refused: Vec<u32>,
    /// Commands that were given before device-op had recorded the previous one as done: they count as done together
    /// with it.
    may_be_served: Vec<u32>,
}

/// The test's own time; it decides nothing for the agents.
#[expect(clippy::disallowed_methods, reason = "a test's own time, not the agents'")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a blocking test has nothing else to do")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

impl<'a> Under<'a> {
    fn start(round: Round, place: &'a Place) -> Result<Self> {
        place.prepare(false)?;
        let mut random = Random::new(round.seed);
        let (mut device, server) = match round.class {
            Class::ServerAnswers(_) => {
                let server = place.faulty_server()?;
                let folder = std::env::temp_dir();
                (place.device_through(PROGRAM, &server.kubeconfig(&folder)?)?, Some(server))
            }
            Class::Nothing
            | Class::Kill(_)
            | Class::ServerStopped
            | Class::AnotherHolder
            | Class::Boot
            | Class::BootWithRun
            | Class::PersistReadOnly => (place.device(PROGRAM)?, None),
        };
        let usual = ["device-op.retry=1s", "drain.retry-pause=1s"];
        for setting in usual.iter().chain(round.class.settings()) {
            device.set(setting);
        }
        let strikes = round.class.strikes(&mut random);
        let mut strikes = strikes.into_iter();
        let next = strikes.next();
        Ok(Self {
            round,
            place,
            device,
            server,
            strikes,
            next,
            random,
            began: now(),
            struck: 0,
            is_read_only: false,
            is_held_by_other: false,
            seen: 0,
            done_by_boot: BTreeMap::new(),
            may_be_refused: Vec::new(),
            may_be_served: Vec::new(),
        })
    }

    fn go(&mut self) -> Result<()> {
        self.device.start_all()?;
        let operation = self.random.one_of(&[
            Operation::Reboot,
            Operation::Reboot,
            Operation::Shutdown,
            Operation::Poweroff,
        ]);
        let operation = operation.context("an operation")?;
        self.device.controller().command(operation, 0, false)?;
        self.until("the first counter is recorded", |under| {
            Ok(under.device.recorded_counter(operation).map(|_| ()))
        })?;
        self.began = now();
        for counter in [1, 2] {
            self.one_command(operation, counter)?;
        }
        self.until("no fault is left", |under| Ok(under.next.is_none().then_some(())))?;
        self.device.controller().command(operation, 2, false)?;
        self.until("the device is as if nothing had been commanded", |under| {
            Ok(under.is_at_rest().then_some(()))
        })?;
        self.until_returned()?;
        [1, 2].into_iter().try_for_each(|counter| self.check_count(operation, counter))
    }

    /// Gives the command and waits until it is done. Half of the time the command is given twice, and half of the time
    /// it is withdrawn when it is done, before the next one comes.
    fn one_command(&mut self, operation: Operation, counter: u32) -> Result<()> {
        if counter > 1 && self.done(operation) != Some(counter - 1) {
            self.may_be_served.push(counter);
        }
        self.device.controller().command(operation, counter, true)?;
        if self.random.once_in(2) {
            self.device.controller().command(operation, counter, true)?;
        }
        let what = format!("{operation} {counter} is done");
        self.until(&what, |under| {
            let is_done = under.lines_of(counter)? > 0 || under.is_over_without_a_line(operation, counter);
            Ok(is_done.then_some(()))
        })?;
        if self.random.once_in(2) {
            self.device.controller().command(operation, counter, false)?;
        }
        Ok(())
    }

    /// Counter of the last command that device-op counts as carried out.
    fn done(&self, operation: Operation) -> Option<u32> {
        let status = self.device.item::<DeviceOpStatus>(agent::ZEDAGENT)?;
        status.done.get(&Source::Controller)?.get(operation)
    }

    /// True if the command needs no recorded action: it was done by the boot or with the previous command, or refused
    /// after the boot with a message. device-op has recorded it and has nothing more to do.
    fn is_over_without_a_line(&self, operation: Operation, counter: u32) -> bool {
        if self.may_be_served.contains(&counter) && self.done(operation) == Some(counter) {
            return true;
        }
        let is_expected = self.done_by_boot.contains_key(&counter) || self.may_be_refused.contains(&counter);
        let is_recorded = self.device.recorded_counter(operation) == Some(counter);
        let status = self.device.item::<DeviceOpStatus>(agent::ZEDAGENT);
        let is_over = status.is_some_and(|status| match status.state {
            DeviceOpState::Idle => true,
            DeviceOpState::Failed => self.may_be_refused.contains(&counter),
            DeviceOpState::Deferred | DeviceOpState::HandedOver => false,
        });
        is_expected && is_recorded && is_over
    }

    fn lines_of(&self, counter: u32) -> Result<usize> {
        Ok(self.device.actions()?.iter().filter(|line| line.counter == counter).count())
    }

    /// Checks that the command was carried out once, whatever happened; by a boot only if it was not done before, and
    /// not again after that.
    fn check_count(&self, operation: Operation, counter: u32) -> Result<()> {
        let lines = self.lines_of(counter)?;
        let wanted = match self.done_by_boot.get(&counter) {
            Some(before) => *before..=*before,
            None if self.may_be_refused.contains(&counter) || self.may_be_served.contains(&counter) => 0..=1,
            None => 1..=1,
        };
        ensure!(
            wanted.contains(&lines),
            "{operation} {counter} was carried out {lines} times, not {wanted:?}"
        );
        Ok(())
    }

    /// Causes the faults that are due, and checks that no forbidden action happens.
    fn supervise(&mut self) -> Result<()> {
        self.look_at_new_lines()?;
        while let Some((at, strike)) = self.next.filter(|(at, _)| self.began.elapsed() >= *at) {
            self.strike(strike).with_context(|| format!("{strike:?} at {at:?}"))?;
            self.struck += 1;
            self.next = self.strikes.next();
        }
        Ok(())
    }

    fn strike(&mut self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(agent) => self.device.kill(agent),
            Strike::Start(agent) => {
                // A boot in between has started the agent already.
                self.device.kill(agent);
                self.device.start(agent)?;
            }
            Strike::Cut => self.place.proxy.cut(),
            Strike::Mend => self.place.proxy.mend(),
            Strike::Answer(fault) => self.answer(Some(fault)),
            Strike::AnswerWell => self.answer(None),
            Strike::OtherRenews(renewal) => {
                // Our node may have been faster: then the other node does not get the slot.
                if self.place.traces()?.holders.is_empty() {
                    self.place.let_other_hold(renewal)?;
                    self.is_held_by_other = true;
                }
            }
            Strike::OtherLetsGo => {
                if std::mem::take(&mut self.is_held_by_other) {
                    self.place.free_slots()?;
                }
            }
            Strike::Boot { keeps_run } => self.boot(keeps_run)?,
            Strike::ReadOnly(wanted) => self.remount(wanted)?,
        }
        Ok(())
    }

    fn answer(&self, fault: Option<system::Fault>) {
        if let Some(server) = &self.server {
            server.set(fault);
        }
    }

    fn remount(&mut self, read_only: bool) -> Result<()> {
        let persist = self.device.path("/persist");
        if !self.is_read_only && read_only {
            mount(&["--bind"], &[&persist, &persist])?;
            // The mount is busy while one of our agents has a file open for writing.
            let until = now() + Duration::from_secs(10);
            while let Err(busy) = mount(&["-o", "remount,bind,ro"], &[&persist]) {
                ensure!(now() < until, "{busy:#}");
                pause(LOOK);
            }
        } else if self.is_read_only && !read_only {
            let status = Command::new("umount").arg("--lazy").arg(&persist).status()?;
            ensure!(status.success(), "umount: {status}");
        }
        self.is_read_only = read_only;
        Ok(())
    }

    /// All agents die at the same moment; before that, the effect of a boot on the accepted commands is noted.
    fn boot(&mut self, keeps_run: bool) -> Result<()> {
        for agent in AGENTS {
            self.device.kill(agent);
        }
        self.note_what_the_boot_does()?;
        if keeps_run {
            self.device.boot_with_run()?;
        } else {
            self.device.boot()?;
        }
        AGENTS.into_iter().try_for_each(|agent| self.device.start(agent))
    }

    /// A reboot counts as done by any boot after it was accepted. A shutdown and a poweroff count as done if
    /// nodeagent's durable record says Acting; otherwise a shutdown is still pending, and a poweroff is refused with a
    /// message.
    fn note_what_the_boot_does(&mut self) -> Result<()> {
        let record = self.json("/persist/status/zedagent/OperationRecord/global.json");
        let acting = self.json("/persist/status/nodeagent/ActionRecord/global.json");
        let boot_id = self.device.boot_id()?;
        let accepted = || {
            let waiting = record["Waiting"].as_array().into_iter().flatten();
            waiting.chain([&record["HandedOver"]]).filter(|accepted| accepted.is_object())
        };
        for entry in accepted() {
            let counter = u32::try_from(entry["Counter"].as_u64().unwrap_or_default())?;
            let is_acting = acting["BootId"] == boot_id.as_str()
                && acting["Counter"] == entry["Counter"]
                && acting["Command"].as_str().is_some_and(|command| entry["Operation"] == command);
            let lines = self.lines_of(counter)?;
            match entry["Operation"].as_str() {
                Some("reboot" | "Reboot") => drop(self.done_by_boot.insert(counter, lines)),
                _ if is_acting || lines > 0 => drop(self.done_by_boot.insert(counter, lines)),
                Some("poweroff" | "Poweroff") => self.may_be_refused.push(counter),
                _ => {}
            }
        }
        Ok(())
    }

    fn json(&self, path: &str) -> Value {
        let bytes = std::fs::read(self.device.path(path)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Checks that no device goes down with pods on it, undrained, or while another node has the only slot.
    fn look_at_new_lines(&mut self) -> Result<()> {
        let lines = self.device.actions()?;
        if lines.len() > self.seen {
            self.seen = lines.len();
            let left = self.place.pods_left()?;
            let outcome = self.device.report().and_then(|report| report.outcome);
            let action = lines.last().map(|line| (&line.action, line.counter));
            ensure!(left.is_empty(), "{action:?} with pods on the node: {left:?}, outcome {outcome:?}");
            ensure!(!self.is_held_by_other, "{action:?} while another node holds the only slot");
        }
        Ok(())
    }

    /// True if no agent has anything to do any more.
    fn is_at_rest(&self) -> bool {
        let action = self.device.item::<DeviceAction>(agent::NODEAGENT).map(|action| action.state);
        let status = self.device.item::<DeviceOpStatus>(agent::ZEDAGENT).map(|status| status.state);
        let report = self.device.report().unwrap_or_default();
        self.device.status() == DrainStatus::NotRequested
            && report.phase == "Idle"
            && report.requests.is_empty()
            && status == Some(DeviceOpState::Idle)
            && action == Some(DeviceActionState::Idle)
    }

    fn until_returned(&mut self) -> Result<()> {
        let wanted = Traces { is_cordoned: false, cordoned_by: String::new(), holders: String::new() };
        let mut seen = None;
        let returned = self.until("the node has returned", |under| {
            pause(Duration::from_millis(100));
            let traces = under.place.traces()?;
            let is_wanted = traces == wanted;
            seen = Some(traces);
            Ok(is_wanted.then_some(()))
        });
        returned.with_context(|| format!("left behind: {seen:?}"))
    }

    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Result<Option<T>>) -> Result<T> {
        let began = now();
        loop {
            self.supervise()?;
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE {
                bail!("waited {} s in vain until {what}", PATIENCE.as_secs());
            }
            pause(LOOK);
        }
    }

    /// Removes all faults, so that none of them reaches the next round.
    fn mend(&mut self) {
        self.place.proxy.mend();
        self.answer(None);
        if self.is_read_only {
            // Otherwise the folder could not be removed. If this fails, the removal fails with a message.
            drop(self.remount(false));
        }
    }

    fn keep(&self, error: &str) {
        let Some(folder) = std::env::var_os("EBB_ROUNDS_LOGS") else { return };
        let name = format!("{}-{}", self.round.class.name(), self.round.seed);
        let lines = self.device.actions().unwrap_or_default();
        let text = format!("{error}\n{lines:#?}\n{}", self.device.describe());
        let file = std::fs::File::create(Path::new(&folder).join(name));
        // A failed write is ignored: the file is only for people.
        drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
    }
}

fn mount(options: &[&str], paths: &[&std::path::PathBuf]) -> Result<()> {
    let status = Command::new("mount").args(options).args(paths).status()?;
    ensure!(status.success(), "mount {options:?}: {status}");
    Ok(())
}
