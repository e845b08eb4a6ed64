//! When an agent is started again, and when one that hangs is ended. Pure: times are arguments, in milliseconds of a clock
//! that stands still while the machine is suspended.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use schemas::Agent;

use super::reaping::ExitKind;
use crate::liveness::ENDED_AFTER;
use crate::signals::STOP_LIMIT;

/// The pause before an agent is started again.
pub(super) type Pause = Duration;

/// After the first failure; doubles with each further one.
const FIRST_PAUSE: Pause = Duration::from_secs(1);

/// However often it has failed, and at once when its flags are wrong.
const LONGEST_PAUSE: Pause = Duration::from_mins(1);

/// An agent that has lived so long had started well: its failures before do not count any more.
const LIVED_WELL: Duration = Duration::from_mins(1);

/// The agents and where each stands.
#[derive(Debug)]
pub(super) struct Children(Vec<ChildState>);

#[derive(Debug)]
struct ChildState {
    agent: Agent,
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Runs { pid: Pid, since_ms: u64, beat: Beat },
    Waits { until_ms: u64 },
}

/// The last sign of life of a process: a change of its touch file, whatever clock that shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beat {
    touched: Option<u128>,
    at_ms: u64,
    /// When it was asked to end because there was none for too long.
    asked_ms: Option<u64>,
}

/// An agent that hangs, and what to send to its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hung {
    pub(super) agent: Agent,
    pub(super) pid: Pid,
    pub(super) silent_ms: u64,
    pub(super) signal: Signal,
}

/// An agent that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) agent: Agent,
    pub(super) lived_ms: u64,
    /// It is started again after this.
    pub(super) pause: Pause,
}

impl Children {
    /// None runs yet, and all are due.
    pub(super) fn new(agents: &[Agent]) -> Self {
        let kept = |&agent| ChildState { agent, failures: 0, state: State::Waits { until_ms: 0 } };
        Self(agents.iter().map(kept).collect())
    }

    /// Who is to be started now.
    pub(super) fn due(&self, now_ms: u64) -> Vec<Agent> {
        self.0
            .iter()
            .filter(|kept| kept.starts_at().is_some_and(|at| at <= now_ms))
            .map(|kept| kept.agent)
            .collect()
    }

    /// When the next one is to be started; none while all run.
    pub(super) fn wake_at(&self) -> Option<u64> {
        self.0.iter().filter_map(ChildState::starts_at).min()
    }

    /// The processes that run.
    pub(super) fn running(&self) -> Vec<(Agent, Pid)> {
        self.0.iter().filter_map(|kept| kept.pid().map(|pid| (kept.agent, pid))).collect()
    }

    /// An agent runs as this process.
    pub(super) fn started(&mut self, agent: Agent, pid: Pid, now_ms: u64) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.agent == agent) {
            let beat = Beat { touched: None, at_ms: now_ms, asked_ms: None };
            kept.state = State::Runs { pid, since_ms: now_ms, beat };
        }
    }

    /// Who hangs, as the times of the touch files tell: each is asked to end once, and killed when it does not.
    ///
    /// An agent without a touch file is let alone: where the file cannot be made, it says nothing.
    pub(super) fn hung(&mut self, touched: impl Fn(Agent) -> Option<u128>, now_ms: u64) -> Vec<Hung> {
        self.0.iter_mut().filter_map(|kept| kept.look(touched(kept.agent)?, now_ms)).collect()
    }

    /// No process could be made of an agent. Gives the pause before the next try.
    pub(super) fn did_not_start(&mut self, agent: Agent, now_ms: u64) -> Pause {
        let kept = self.0.iter_mut().find(|kept| kept.agent == agent);
        kept.map_or(LONGEST_PAUSE, |kept| kept.fail(now_ms, None))
    }

    /// A process has ended; nothing when it is no agent.
    pub(super) fn ended(&mut self, pid: Pid, how: ExitKind, now_ms: u64) -> Option<Ended> {
        let kept = self.0.iter_mut().find(|kept| kept.pid() == Some(pid))?;
        let State::Runs { since_ms, .. } = kept.state else { return None };
        let lived_ms = now_ms.saturating_sub(since_ms);
        if LIVED_WELL <= Duration::from_millis(lived_ms) {
            kept.failures = 0;
        }
        Some(Ended { agent: kept.agent, lived_ms, pause: kept.fail(now_ms, Some(how)) })
    }
}

impl ChildState {
    fn pid(&self) -> Option<Pid> {
        match self.state {
            State::Runs { pid, .. } => Some(pid),
            State::Waits { .. } => None,
        }
    }

    fn look(&mut self, touched: u128, now_ms: u64) -> Option<Hung> {
        let State::Runs { pid, beat, .. } = &mut self.state else { return None };
        if beat.touched != Some(touched) {
            *beat = Beat { touched: Some(touched), at_ms: now_ms, asked_ms: None };
            return None;
        }
        let since = |ms: u64| Duration::from_millis(now_ms.saturating_sub(ms));
        let signal = match beat.asked_ms {
            None if ENDED_AFTER <= since(beat.at_ms) => Signal::SIGTERM,
            Some(asked_ms) if STOP_LIMIT <= since(asked_ms) => Signal::SIGKILL,
            None | Some(_) => return None,
        };
        beat.asked_ms = Some(now_ms);
        let silent_ms = now_ms.saturating_sub(beat.at_ms);
        Some(Hung { agent: self.agent, pid: *pid, silent_ms, signal })
    }

    fn starts_at(&self) -> Option<u64> {
        match self.state {
            State::Runs { .. } => None,
            State::Waits { until_ms } => Some(until_ms),
        }
    }

    fn fail(&mut self, now_ms: u64, how: Option<ExitKind>) -> Pause {
        self.failures = self.failures.saturating_add(1);
        let pause =
            if how.is_some_and(ExitKind::is_bad_flag) { LONGEST_PAUSE } else { pause_after(self.failures) };
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.state = State::Waits { until_ms: now_ms.saturating_add(pause_ms) };
        pause
    }
}

/// 1 s, 2 s, 4 s … 60 s.
fn pause_after(failures: u32) -> Pause {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
