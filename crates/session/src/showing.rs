//! What NodeDrainStatus shows, and when each requester is answered.
//!
//! In progress the status follows the phase at once. A terminal status is shown once per requester, since EVE's
//! agents look only at the status that carries their own number; between two of them, and after REQUESTED, there
//! is time for a reader to see each.

use std::time::Duration;

use drain::time::Moment;

use crate::forcing;
use crate::membership::Member;
use crate::policy::Policy;
use crate::requests::{Answer, Requester};
use crate::state::{Failed, Outcome, Phase, State};

/// Between the terminal statuses for two requesters.
pub(crate) const BETWEEN_ANSWERS: Duration = Duration::from_secs(5);

/// A terminal status comes no sooner after REQUESTED: an agent that never saw an in-progress status would miss
/// the edge (D18).
const AFTER_REQUESTED: Duration = Duration::from_secs(1);

/// EVE's agents dial again after 10 s, and must find an in-progress status first (D18).
const AFTER_START_BESIDE_ZEDBOX: Duration = Duration::from_secs(12);

/// EVE's DrainStatus, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing was ever published.
    #[default]
    Unknown = 0,
    /// Not a member of a cluster.
    NotSupported = 1,
    /// A member; nobody asks.
    NotRequested = 2,
    /// Asked; preconditions are looked at.
    Requested = 3,
    /// The drain begins.
    Starting = 4,
    /// Cordoned; the first attempt runs.
    Cordoned = 5,
    /// The node could not be cordoned.
    FailedCordon = 6,
    /// An attempt failed; another one follows or runs.
    DrainRetrying = 7,
    /// All attempts failed.
    FailedDrain = 8,
    /// The node may go down.
    Complete = 9,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The status.
    pub status: Status,
    /// The requester's number it carries.
    pub requested_by: Requester,
    /// REQUESTED of this drain was first shown then.
    requested: Option<Moment>,
    /// The last terminal status was shown then.
    announced: Option<Moment>,
    /// zedkube began then.
    started: Moment,
}

impl Default for Shown {
    fn default() -> Self {
        let requested_by = Requester::Operator;
        Self { status: Status::Unknown, requested_by, requested: None, announced: None, started: Moment(0) }
    }
}

impl Shown {
    /// Nothing is shown yet; zedkube begins at `now`.
    pub(crate) fn at_start(now: Moment) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// As a process before this one has shown it.
    pub(crate) fn resumed(status: Status, requested_by: Requester, now: Moment) -> Self {
        let requested = (status == Status::Requested).then_some(now);
        let is_terminal = matches!(status, Status::FailedCordon | Status::FailedDrain | Status::Complete);
        let announced = is_terminal.then_some(now);
        Self { status, requested_by, requested, announced, started: now }
    }

    /// When the last terminal status was shown.
    pub(crate) fn announced_at(&self) -> Option<Moment> {
        self.announced
    }

    /// The next terminal status does not wait for the last one.
    pub(crate) fn announce_anew(&mut self) {
        self.announced = None;
    }

    /// A new drain begins: its REQUESTED and its answers are timed anew.
    pub(crate) fn forget_times(&mut self) {
        (self.requested, self.announced) = (None, None);
    }
}

/// Brings what is shown up to date, answers the next requester if it is time, and says when to come again.
pub(crate) fn show(state: &mut State, now: Moment, policy: &Policy) -> Option<Moment> {
    let status = match &state.phase {
        Phase::Complete { recheck: Some(_), .. } if state.requests.next_unanswered().is_some() => {
            Status::Requested
        }
        Phase::Complete { outcome: Outcome::Forced, .. } => return forced(state, now, policy),
        // Who is told COMPLETE goes down, and a restarted zedkube would not know of it.
        Phase::Complete { .. } if state.is_unrecorded => return None,
        Phase::Complete { .. } => return announce(state, Status::Complete, Answer::Complete, now, policy),
        Phase::Failed(Failed::Cordon(_)) => {
            return announce(state, Status::FailedCordon, Answer::FailedCordon, now, policy);
        }
        Phase::Failed(Failed::Drain(_)) => {
            return announce(state, Status::FailedDrain, Answer::FailedDrain, now, policy);
        }
        Phase::Idle if state.member_now() == Member::No || state.forcing.disabled.is_some() => {
            Status::NotSupported
        }
        Phase::Idle => Status::NotRequested,
        Phase::Waiting(_) => Status::Requested,
        Phase::Cordoning(cordoning) if cordoning.attempt == 1 => {
            if cordoning.resumes && !policy.beside_zedbox { Status::Cordoned } else { Status::Starting }
        }
        Phase::Attempting { attempt: 1, .. } if policy.beside_zedbox => Status::Starting,
        Phase::Attempting { attempt: 1, .. } => Status::Cordoned,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => Status::DrainRetrying,
    };
    let shown = &mut state.shown;
    if status == Status::Requested {
        shown.requested.get_or_insert(now);
    }
    shown.status = status;
    shown.requested_by = state.requests.in_progress();
    None
}

/// Shows the terminal status to the next requester who has not been answered.
fn announce(
    state: &mut State,
    status: Status,
    answer: Answer,
    now: Moment,
    policy: &Policy,
) -> Option<Moment> {
    let Some(requester) = state.requests.next_unanswered() else {
        show_again(state, status, answer);
        return None;
    };
    if let Some(earliest) = too_early(state, now, policy) {
        return Some(earliest);
    }
    let shown = &mut state.shown;
    (shown.status, shown.requested_by, shown.announced) = (status, requester, Some(now));
    state.requests.answer(requester, answer);
    state.requests.next_unanswered().map(|_| now + BETWEEN_ANSWERS)
}

/// All are answered. An order of an operator may have been shown since, to somebody who has not asked: that is over.
fn show_again(state: &mut State, status: Status, answer: Answer) {
    let told = |requester: &Requester| {
        state.requests.iter().any(|request| request.requester == *requester && request.answer == answer)
    };
    let shown = (state.shown.status == status).then_some(state.shown.requested_by).filter(told);
    let last = || Requester::ANSWERED.into_iter().rev().find(told);
    if let Some(requester) = shown.or_else(last) {
        (state.shown.status, state.shown.requested_by) = (status, requester);
    }
}

/// Shows COMPLETE to the next requester whom an operator's word covers; when nobody asks, to whom it was meant for.
fn forced(state: &mut State, now: Moment, policy: &Policy) -> Option<Moment> {
    let next = forcing::next_covered(state);
    let meant_for = || state.forcing.complete.as_ref().map(|forced| forced.requester);
    let requester = match state.shown.announced {
        None => next.or_else(meant_for),
        Some(_) => next,
    };
    let over = forcing::over(state);
    let Some(requester) = requester else {
        if now < over {
            return Some(over);
        }
        if state.forcing.disabled.is_some() {
            (state.shown.status, state.shown.requested_by) = (Status::NotSupported, Requester::Operator);
        }
        return None;
    };
    if let Some(earliest) = too_early(state, now, policy) {
        return Some(earliest);
    }
    let shown = &mut state.shown;
    (shown.status, shown.requested_by, shown.announced) = (Status::Complete, requester, Some(now));
    if next.is_some() {
        forcing::answered(state, requester);
    }
    Some(now + BETWEEN_ANSWERS)
}

/// When the next terminal status may be shown, if that is not yet.
fn too_early(state: &State, now: Moment, policy: &Policy) -> Option<Moment> {
    let shown = &state.shown;
    let after_start = if policy.beside_zedbox { AFTER_START_BESIDE_ZEDBOX } else { Duration::ZERO };
    let earliest = [
        shown.requested.map(|at| at + AFTER_REQUESTED),
        shown.announced.map(|at| at + BETWEEN_ANSWERS),
        Some(shown.started + after_start),
    ];
    earliest.into_iter().flatten().max().filter(|earliest| now < *earliest)
}
