//! `ebb run`: a small parent of the four agents, for hosts without a service manager.
//!
//! It starts them as child processes of its own program, starts each again that ends, and ends them when it is told to
//! stop. It decides nothing about drains; when an agent is started again is decided in `parent/keeper.rs`. Its
//! children end when it dies, however it dies: `parent/child.rs`.

mod child;
mod keeper;
mod reaping;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use nix::sys::signal::{Signal, kill};
use pubsub::{AgentLock, Root};
use runtime::signals::STOP_LIMIT;
use runtime::{AgentFlags, Stop, clock, logs};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use child::{ChildArguments, run_child};
use keeper::{Hung, Keeper, Pause};

use crate::agents::Kind;
use crate::screen;

/// Who logs, and the name of the parent's lock and pid file, `ROOT/run/ebb/lock/ebb-run/pid`. Not `ebb`: that is the agent
/// that asks for drains on the command line.
const NAME: &str = "ebb-run";

/// The agents and our own names of them, in the order in which they are started: who answers before who asks.
const AGENTS: [(Kind, &str); 4] = [
    (Kind::Zedkube, "zedkube"),
    (Kind::DeviceOp, "device-op"),
    (Kind::Nodeagent, "nodeagent"),
    (Kind::Baseos, "baseos"),
];

/// So long the agents have after SIGTERM: their own limit, and as much again for a slow machine.
const PATIENCE: Duration = STOP_LIMIT.saturating_mul(2);

/// So long a killed process is waited for. One that hangs in a disk that does not answer cannot be ended.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Between two looks at the agents' touch files, which are touched every 25 s.
const LOOK: Duration = Duration::from_secs(10);

/// Between two looks when an agent was asked to end because it hangs.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What `ebb run` takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArguments {
    /// Only these agents, where EVE's zedbox runs the others; all four by default
    #[arg(value_name = "AGENT", value_parser = agent)]
    agents: Vec<Kind>,
    #[command(flatten)]
    flags: AgentFlags,
}

/// Keeps the agents running until SIGTERM or SIGINT. Exit code 0 then, and none of them is left; 1 when it could not
/// start.
pub(crate) fn run(arguments: &RunArguments) -> ExitCode {
    match keep(&arguments.chosen(), &arguments.flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::complain(&error);
            ExitCode::FAILURE
        }
    }
}

impl RunArguments {
    fn chosen(&self) -> Vec<Kind> {
        let is_chosen = |kind: &Kind| self.agents.is_empty() || self.agents.contains(kind);
        AGENTS.iter().map(|(kind, _)| *kind).filter(is_chosen).collect()
    }
}

/// The agent of this name, EVE's or ours.
fn agent(name: &str) -> Result<Kind, String> {
    let found = AGENTS.into_iter().find(|(kind, ours)| kind.name() == name || *ours == name);
    let names = || AGENTS.map(|(_, ours)| ours).join(", ");
    found.map(|(kind, _)| kind).ok_or_else(|| format!("no agent; the agents are {}", names()))
}

fn keep(agents: &[Kind], flags: &AgentFlags) -> anyhow::Result<()> {
    logs::init(flags.log_format, NAME)?;
    // Held to the end: two parents would fight over the agents' locks for ever.
    let lock = AgentLock::acquire(&flags.root(), NAME).context("cannot start the agents")?;
    // One thread, the main one: the kernel tells children of the end of the thread that has started them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot wait for signals")?.block_on(async {
        let mut parent = Parent::new(agents, flags, lock)?;
        parent.keep_until_told().await;
        parent.end_all().await;
        Ok(())
    })
}

/// The loop's state, and what wakes it.
struct Parent {
    lock: AgentLock,
    /// An agent was asked to end because it hangs.
    waits_for_end: bool,
    child_arguments: child::Arguments,
    keeper: Keeper,
    stop: Stop,
    child_ended: tokio::signal::unix::Signal,
}

impl Parent {
    fn new(agents: &[Kind], flags: &AgentFlags, lock: AgentLock) -> anyhow::Result<Self> {
        Ok(Self {
            lock,
            waits_for_end: false,
            child_arguments: child::Arguments::new(flags),
            keeper: Keeper::new(agents),
            stop: Stop::on_signals()?,
            child_ended: signal(SignalKind::child()).context("cannot watch for the signal SIGCHLD")?,
        })
    }

    async fn keep_until_told(&mut self) {
        while !self.stop.is_requested() {
            for kind in self.keeper.due(clock::awake_millis()) {
                self.start(kind);
            }
            self.wait().await;
            self.bury();
            self.end_hung();
            if let Err(error) = self.lock.keep() {
                tracing::warn!("the lock file of {NAME} was removed: {}", runtime::error_chain(&error));
            }
        }
    }

    /// Ends who hangs. As systemd's watchdog does it for the units; it is started again as after a crash.
    fn end_hung(&mut self) {
        let root: &Root = self.lock.root();
        let touched = |kind: Kind| {
            let time = fs::symlink_metadata(root.touch(kind.name())).and_then(|file| file.modified()).ok()?;
            time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_nanos())
        };
        let hung = self.keeper.hung(touched, clock::awake_millis());
        self.waits_for_end = !hung.is_empty();
        for Hung { kind, pid, silent_ms, signal } in hung {
            let (name, age) = (kind.name(), schemas::age(silent_ms));
            tracing::error!(
                agent = name,
                process = pid.as_raw(),
                "{name} hangs: its touch file is {age} old; sending {signal} to process {pid}"
            );
            if let Err(error) = kill(pid, signal) {
                tracing::warn!("cannot send {signal} to {name}, process {pid}: {error}");
            }
        }
    }

    /// Until a child may have ended, one is to be started, or somebody asks to stop.
    async fn wait(&mut self) {
        let pause = self.keeper.wake_at().map(|at_ms| at_ms.saturating_sub(clock::awake_millis()));
        let look = if self.waits_for_end { LOOK_AGAIN } else { LOOK };
        let paused =
            tokio::time::sleep(pause.map_or(look, |pause_ms| Duration::from_millis(pause_ms).min(look)));
        tokio::select! {
            biased;
            () = self.stop.requested() => {}
            _ = self.child_ended.recv() => {}
            () = paused => {}
        }
    }

    fn start(&mut self, kind: Kind) {
        let name = kind.name();
        match self.child_arguments.start(kind) {
            Ok(pid) => {
                tracing::info!(agent = name, process = pid.as_raw(), "started {name} as process {pid}");
                self.keeper.started(kind, pid, clock::awake_millis());
            }
            Err(error) => {
                let pause = self.keeper.did_not_start(kind, clock::awake_millis());
                tracing::error!(agent = name, "cannot start {name}: {error}; {}", again(pause));
            }
        }
    }

    /// Collects all that have ended.
    fn bury(&mut self) {
        while let Some((pid, how)) = reaping::next_ended() {
            // Process 1 of a container inherits the orphans of its agents' commands.
            let Some(ended) = self.keeper.ended(pid, how, clock::awake_millis()) else { continue };
            let name = ended.kind.name();
            let lived = Duration::from_millis(ended.lived_ms).as_secs();
            let pause_seconds = ended.pause.as_secs();
            let text = format!("{name} (process {pid}) ended after {lived} s: {how}");
            if self.stop.is_requested() {
                tracing::info!(agent = name, process = pid.as_raw(), "{text}");
            } else if how.is_bad_flag() {
                tracing::error!(
                    agent = name,
                    process = pid.as_raw(),
                    pause_seconds,
                    "{text}; the flags of `ebb run` have a mistake, see above: correct them; {}",
                    again(ended.pause)
                );
            } else {
                tracing::warn!(
                    agent = name,
                    process = pid.as_raw(),
                    pause_seconds,
                    "{text}; {}",
                    again(ended.pause)
                );
            }
        }
    }

    /// Asks all to end, and kills those that do not.
    async fn end_all(&mut self) {
        self.signal_all(Signal::SIGTERM);
        if self.all_ended_within(PATIENCE).await {
            return;
        }
        for (kind, pid) in self.keeper.running() {
            let name = kind.name();
            tracing::warn!(
                agent = name,
                process = pid.as_raw(),
                "{name} does not end: killing process {pid}"
            );
        }
        self.signal_all(Signal::SIGKILL);
        if !self.all_ended_within(LAST_WAIT).await {
            tracing::error!("a killed agent still hangs in the kernel; its lock stays taken until it ends");
        }
    }

    fn signal_all(&self, signal: Signal) {
        for (kind, pid) in self.keeper.running() {
            // A child that has ended keeps its number until it is collected.
            if let Err(error) = kill(pid, signal) {
                tracing::warn!("cannot send {signal} to {}, process {pid}: {error}", kind.name());
            }
        }
    }

    async fn all_ended_within(&mut self, limit: Duration) -> bool {
        let all_ended = async {
            loop {
                self.bury();
                if self.keeper.running().is_empty() {
                    return;
                }
                self.child_ended.recv().await;
            }
        };
        tokio::time::timeout(limit, all_ended).await.is_ok()
    }
}

fn again(pause: Pause) -> String {
    format!("starting it again in {} s", pause.as_secs())
}
