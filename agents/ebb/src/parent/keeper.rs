//! When an agent is started again. Pure: times are arguments, in milliseconds of the boot clock.

use std::time::Duration;

use nix::unistd::Pid;

use super::reaping::How;
use crate::agents::Kind;

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
pub(super) struct Keeper(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    kind: Kind,
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Runs { pid: Pid, since_ms: u64 },
    Waits { until_ms: u64 },
}

/// An agent that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) kind: Kind,
    pub(super) lived_ms: u64,
    /// It is started again after this.
    pub(super) pause: Pause,
}

impl Keeper {
    /// None runs yet, and all are due.
    pub(super) fn new(kinds: &[Kind]) -> Self {
        let kept = |&kind| Kept { kind, failures: 0, state: State::Waits { until_ms: 0 } };
        Self(kinds.iter().map(kept).collect())
    }

    /// Who is to be started now.
    pub(super) fn due(&self, now_ms: u64) -> Vec<Kind> {
        self.0
            .iter()
            .filter(|kept| kept.starts_at().is_some_and(|at| at <= now_ms))
            .map(|kept| kept.kind)
            .collect()
    }

    /// When the next one is to be started; none while all run.
    pub(super) fn wake_at(&self) -> Option<u64> {
        self.0.iter().filter_map(Kept::starts_at).min()
    }

    /// The processes that run.
    pub(super) fn running(&self) -> Vec<(Kind, Pid)> {
        self.0.iter().filter_map(|kept| kept.pid().map(|pid| (kept.kind, pid))).collect()
    }

    /// An agent runs as this process.
    pub(super) fn started(&mut self, kind: Kind, pid: Pid, now_ms: u64) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.kind == kind) {
            kept.state = State::Runs { pid, since_ms: now_ms };
        }
    }

    /// No process could be made of an agent. Gives the pause before the next try.
    pub(super) fn did_not_start(&mut self, kind: Kind, now_ms: u64) -> Pause {
        let kept = self.0.iter_mut().find(|kept| kept.kind == kind);
        kept.map_or(LONGEST_PAUSE, |kept| kept.fail(now_ms, None))
    }

    /// A process has ended; nothing when it is no agent.
    pub(super) fn ended(&mut self, pid: Pid, how: How, now_ms: u64) -> Option<Ended> {
        let kept = self.0.iter_mut().find(|kept| kept.pid() == Some(pid))?;
        let State::Runs { since_ms, .. } = kept.state else { return None };
        let lived_ms = now_ms.saturating_sub(since_ms);
        if LIVED_WELL <= Duration::from_millis(lived_ms) {
            kept.failures = 0;
        }
        Some(Ended { kind: kept.kind, lived_ms, pause: kept.fail(now_ms, Some(how)) })
    }
}

impl Kept {
    fn pid(&self) -> Option<Pid> {
        match self.state {
            State::Runs { pid, .. } => Some(pid),
            State::Waits { .. } => None,
        }
    }

    fn starts_at(&self) -> Option<u64> {
        match self.state {
            State::Runs { .. } => None,
            State::Waits { until_ms } => Some(until_ms),
        }
    }

    fn fail(&mut self, now_ms: u64, how: Option<How>) -> Pause {
        self.failures = self.failures.saturating_add(1);
        let pause =
            if how.is_some_and(How::is_bad_flag) { LONGEST_PAUSE } else { pause_after(self.failures) };
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
