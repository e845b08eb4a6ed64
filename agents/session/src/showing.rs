//! What NodeDrainStatus shows, and when each requester is answered.
//!
//! In progress the status follows the phase at once. A terminal status is shown once per requester, since EVE's
//! agents look only at the status that carries their own number; between two of them, and after REQUESTED, there
//! is time for a reader to see each.

use std::time::Duration;

use drain::time::Moment;

use crate::membership::Member;
use crate::policy::Policy;
use crate::requests::{Answer, Requester};
use crate::state::{Failed, Phase, State};

/// Between the terminal statuses for two requesters.
const BETWEEN_ANSWERS: Duration = Duration::from_secs(5);

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
        Phase::Complete { .. } => return announce(state, Status::Complete, Answer::Complete, now, policy),
        Phase::Failed(Failed::Cordon(_)) => {
            return announce(state, Status::FailedCordon, Answer::FailedCordon, now, policy);
        }
        Phase::Failed(Failed::Drain(_)) => {
            return announce(state, Status::FailedDrain, Answer::FailedDrain, now, policy);
        }
        Phase::Idle if state.member == Member::No => Status::NotSupported,
        Phase::Idle => Status::NotRequested,
        Phase::Waiting(_) => Status::Requested,
        Phase::Cordoning(cordoning) if cordoning.attempt == 1 => Status::Starting,
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
    let requester = state.requests.next_unanswered()?;
    let shown = &mut state.shown;
    let after_start = if policy.beside_zedbox { AFTER_START_BESIDE_ZEDBOX } else { Duration::ZERO };
    let earliest = [
        shown.requested.map(|at| at + AFTER_REQUESTED),
        shown.announced.map(|at| at + BETWEEN_ANSWERS),
        Some(shown.started + after_start),
    ];
    let earliest = earliest.into_iter().flatten().max().unwrap_or(now);
    if now < earliest {
        return Some(earliest);
    }
    (shown.status, shown.requested_by, shown.announced) = (status, requester, Some(now));
    state.requests.answer(requester, answer);
    state.requests.next_unanswered().map(|_| now + BETWEEN_ANSWERS)
}
