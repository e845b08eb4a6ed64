//! Decides when an agent is restarted and when one that hangs is ended. Pure: times are arguments, in milliseconds of
//! a clock that does not run during suspend.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use schemas::Agent;

use super::reaping::ExitKind;
use crate::clock::millis;
use crate::liveness::ENDED_AFTER;
use crate::signals::STOP_LIMIT;

/// The pause before a restart.
pub(super) type Pause = Duration;

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Pause = Duration::from_secs(1);

/// Upper limit of the pause. It applies at once if the agent's flags are wrong.
const LONGEST_PAUSE: Pause = Duration::from_mins(1);

/// An agent that has run for this time has started well: earlier failures do not count any more.
const LIVED_WELL: Duration = Duration::from_mins(1);

/// The agents and the state of each.
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

/// The last sign of life of a process: a change of its touch file, whatever time the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beat {
    touched: Option<u128>,
    at_ms: u64,
    /// The time when it was asked to end because it gave no sign for too long.
    term_sent_ms: Option<u64>,
}

/// An agent that hangs, and the signal for its process.
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
    /// The pause before it is restarted.
    pub(super) pause: Pause,
}

impl Children {
    /// No agent is running yet, and all are due to start.
    pub(super) fn new(agents: &[Agent]) -> Self {
        let child = |&agent| ChildState { agent, failures: 0, state: State::Waits { until_ms: 0 } };
        Self(agents.iter().map(child).collect())
    }

    /// The agents that are due to start.
    pub(super) fn due(&self, now_ms: u64) -> Vec<Agent> {
        self.0
            .iter()
            .filter(|child| child.starts_at().is_some_and(|at| at <= now_ms))
            .map(|child| child.agent)
            .collect()
    }

    /// The time of the next start; None while all agents run.
    pub(super) fn wake_at(&self) -> Option<u64> {
        self.0.iter().filter_map(ChildState::starts_at).min()
    }

    pub(super) fn running(&self) -> Vec<(Agent, Pid)> {
        self.0.iter().filter_map(|child| child.pid().map(|pid| (child.agent, pid))).collect()
    }

    /// Notes that the agent runs as this process.
    pub(super) fn started(&mut self, agent: Agent, pid: Pid, now_ms: u64) {
        if let Some(child) = self.0.iter_mut().find(|child| child.agent == agent) {
            let beat = Beat { touched: None, at_ms: now_ms, term_sent_ms: None };
            child.state = State::Runs { pid, since_ms: now_ms, beat };
        }
    }

    /// The agents that hang, by the times of their touch files. Each is asked to end once, and killed if it does not.
    ///
    /// An agent without a touch file does not count as hung: where the file cannot be created, there is no sign of
    /// life to miss.
    pub(super) fn hung(&mut self, touched: impl Fn(Agent) -> Option<u128>, now_ms: u64) -> Vec<Hung> {
        self.0.iter_mut().filter_map(|child| child.look(touched(child.agent)?, now_ms)).collect()
    }

    /// Notes that the process of an agent could not be created. Returns the pause before the next attempt.
    pub(super) fn did_not_start(&mut self, agent: Agent, now_ms: u64) -> Pause {
        let child = self.0.iter_mut().find(|child| child.agent == agent);
        child.map_or(LONGEST_PAUSE, |child| child.fail(now_ms, None))
    }

    /// Notes that a process has ended; None if it is not an agent.
    pub(super) fn ended(&mut self, pid: Pid, how: ExitKind, now_ms: u64) -> Option<Ended> {
        let child = self.0.iter_mut().find(|child| child.pid() == Some(pid))?;
        let State::Runs { since_ms, .. } = child.state else { return None };
        let lived_ms = now_ms.saturating_sub(since_ms);
        if LIVED_WELL <= Duration::from_millis(lived_ms) {
            child.failures = 0;
        }
        Some(Ended { agent: child.agent, lived_ms, pause: child.fail(now_ms, Some(how)) })
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
            *beat = Beat { touched: Some(touched), at_ms: now_ms, term_sent_ms: None };
            return None;
        }
        let since = |ms: u64| Duration::from_millis(now_ms.saturating_sub(ms));
        let signal = match beat.term_sent_ms {
            None if ENDED_AFTER <= since(beat.at_ms) => Signal::SIGTERM,
            Some(term_sent_ms) if STOP_LIMIT <= since(term_sent_ms) => Signal::SIGKILL,
            None | Some(_) => return None,
        };
        beat.term_sent_ms = Some(now_ms);
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
        self.state = State::Waits { until_ms: now_ms.saturating_add(millis(pause)) };
        pause
    }
}

/// The pause after this number of failures: 1 s, 2 s, 4 s … 60 s.
fn pause_after(failures: u32) -> Pause {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests;
