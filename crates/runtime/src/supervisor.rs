//! The parent process of the agents on hosts without a service manager (`ebb run`).
//!
//! The parent starts the agents as child processes, restarts each that ends, ends one that hangs, and ends all of
//! them when it is requested to stop. It decides nothing about drains. `keeper` decides when an agent is restarted
//! and when it counts as hung.

mod keeper;
mod reaping;

use std::fmt;
use std::fs;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::{AgentLock, Root};
use schemas::Agent;
use tokio::signal::unix::{SignalKind, signal};

use crate::clock;
use crate::error_chain;
use crate::signals::{STOP_LIMIT, SignalError, Stop};
use keeper::{Children, Hung, Pause};

/// Time limit for the agents to end after SIGTERM: their own limit, doubled for a slow machine.
const PATIENCE: Duration = STOP_LIMIT.saturating_mul(2);

/// Time limit for a killed process to end. A process that waits for a disk that does not answer cannot be ended.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Poll interval for the agents' touch files, which are touched every 25 s.
const LOOK: Duration = Duration::from_secs(10);

/// Poll interval while an agent that hangs was asked to end.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The agents as child processes, and the events that wake their parent.
pub struct Supervisor<S> {
    lock: AgentLock,
    /// An agent that hangs was asked to end.
    is_ending_hung: bool,
    start: S,
    keeper: Children,
    stop: Stop,
    child_ended: tokio::signal::unix::Signal,
}

impl<S> fmt::Debug for Supervisor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

impl<S: FnMut(Agent) -> io::Result<Pid>> Supervisor<S> {
    /// A parent whose agents do not run yet. `start` creates the process of an agent. The lock is the parent's own,
    /// because two parents would fight over the agents' locks for ever.
    ///
    /// Call it in a tokio runtime of one thread, the main one: the kernel notifies child processes of the end of the
    /// thread that started them.
    ///
    /// # Errors
    /// A signal cannot be watched.
    pub fn new(agents: &[Agent], lock: AgentLock, start: S) -> Result<Self, SignalError> {
        Ok(Self {
            lock,
            is_ending_hung: false,
            start,
            keeper: Children::new(agents),
            stop: Stop::on_signals()?,
            child_ended: signal(SignalKind::child()).map_err(SignalError::of("SIGCHLD"))?,
        })
    }

    /// Keeps the agents running until SIGTERM or SIGINT, then ends them all.
    pub async fn run(mut self) {
        self.keep_until_stopped().await;
        self.end_all().await;
    }

    async fn keep_until_stopped(&mut self) {
        while !self.stop.is_requested() {
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        for agent in self.keeper.due(clock::awake_millis()) {
            self.start_agent(agent);
        }
        self.wait().await;
        self.reap();
        self.end_hung();
        if let Err(error) = self.lock.keep() {
            tracing::warn!("the lock file of {} was removed: {}", self.lock.agent(), error_chain(&error));
        }
    }

    /// Ends agents that hang, as systemd's watchdog does for its units. They are restarted as after a crash.
    fn end_hung(&mut self) {
        let root: &Root = self.lock.root();
        let touched = |agent: Agent| {
            let time =
                fs::symlink_metadata(root.touch(agent.wire_name())).and_then(|file| file.modified()).ok()?;
            time.duration_since(UNIX_EPOCH).ok().map(|time| time.as_nanos())
        };
        let hung = self.keeper.hung(touched, clock::awake_millis());
        self.is_ending_hung = !hung.is_empty();
        for Hung { agent, pid, silent_ms, signal } in hung {
            let (name, age) = (agent.name(), schemas::age(silent_ms));
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

    /// Waits until a child may have ended, an agent is due to start, or a stop is requested.
    async fn wait(&mut self) {
        let pause = self.keeper.wake_at().map(|at_ms| at_ms.saturating_sub(clock::awake_millis()));
        let look = if self.is_ending_hung { LOOK_AGAIN } else { LOOK };
        let paused =
            tokio::time::sleep(pause.map_or(look, |pause_ms| Duration::from_millis(pause_ms).min(look)));
        tokio::select! {
            biased;
            () = self.stop.requested() => {}
            _ = self.child_ended.recv() => {}
            () = paused => {}
        }
    }

    fn start_agent(&mut self, agent: Agent) {
        let name = agent.name();
        match (self.start)(agent) {
            Ok(pid) => {
                tracing::info!(agent = name, process = pid.as_raw(), "started {name} as process {pid}");
                self.keeper.started(agent, pid, clock::awake_millis());
            }
            Err(error) => {
                let pause = self.keeper.did_not_start(agent, clock::awake_millis());
                tracing::error!(agent = name, "cannot start {name}: {error}; {}", again(pause));
            }
        }
    }

    /// Reaps all children that have ended.
    fn reap(&mut self) {
        while let Some((pid, how)) = reaping::next_ended() {
            // As process 1 of a container, the parent inherits the orphans of its agents' programs.
            let Some(ended) = self.keeper.ended(pid, how, clock::awake_millis()) else { continue };
            let name = ended.agent.name();
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

    /// Asks all agents to end, and kills those that do not.
    async fn end_all(&mut self) {
        self.signal_all(Signal::SIGTERM);
        if self.all_ended_within(PATIENCE).await {
            return;
        }
        for (agent, pid) in self.keeper.running() {
            let name = agent.name();
            tracing::warn!(
                agent = name,
                process = pid.as_raw(),
                "{name} does not end: killing process {pid}"
            );
        }
        self.signal_all(Signal::SIGKILL);
        if !self.all_ended_within(LAST_WAIT).await {
            tracing::error!(
                "a killed agent has not ended (it may wait for a disk that does not answer); its lock is held until it ends"
            );
        }
    }

    fn signal_all(&self, signal: Signal) {
        for (agent, pid) in self.keeper.running() {
            // A child that has ended keeps its process id until it is reaped.
            if let Err(error) = kill(pid, signal) {
                tracing::warn!("cannot send {signal} to {}, process {pid}: {error}", agent.name());
            }
        }
    }

    async fn all_ended_within(&mut self, limit: Duration) -> bool {
        let all_ended = async {
            loop {
                self.reap();
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use schemas::agent;

    use super::*;
    use crate::liveness::ENDED_AFTER;

    /// Processes that end with the test.
    struct Processes(Vec<Child>);

    impl Drop for Processes {
        fn drop(&mut self) {
            for child in &mut self.0 {
                // It may have ended already.
                child.kill().ok();
            }
        }
    }

    /// The agent is a real process that is stopped, and whose touch file stays old. It does not hear SIGTERM, so it is
    /// killed, and started again. Time passes as fast as the parent looks at its agents.
    ///
    /// The parent reaps all children of its process: nextest gives each test one of its own.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_stands_still_is_killed_and_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        pubsub::store::create_folder(&root.lock_folder_of(agent::ZEDKUBE)).unwrap();
        fs::File::create(root.touch(agent::ZEDKUBE)).unwrap();
        let lock = AgentLock::acquire(&root, agent::EBB).unwrap();
        let mut processes = Processes(Vec::new());
        let start = |_| {
            let child = Command::new("sleep").arg("600").spawn()?;
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            kill(pid, Signal::SIGSTOP)?;
            processes.0.push(child);
            Ok(pid)
        };
        let mut parent = Supervisor::new(&[Agent::Zedkube], lock, start).unwrap();
        let began = clock::awake_millis();
        parent.start_agent(Agent::Zedkube);
        let first = parent.keeper.running();
        let an_hour = async {
            for _ in 0..3600 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                clock::testing::pass(Duration::from_secs(1));
                #[expect(clippy::disallowed_methods, reason = "the kernel needs real time to end a process")]
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let is_ended = async {
            while parent.keeper.running() == first {
                parent.turn().await;
            }
        };
        tokio::select! {
            () = an_hour => panic!("it was not ended"),
            () = is_ended => {}
        }
        let lived = Duration::from_millis(clock::awake_millis() - began);
        assert!(ENDED_AFTER <= lived, "it lived for {lived:?}");
        while parent.keeper.running().is_empty() {
            clock::testing::pass(Duration::from_secs(1));
            parent.turn().await;
        }
        assert_ne!(parent.keeper.running(), first);
        drop(parent);
        assert_eq!(processes.0.len(), 2);
    }
}
