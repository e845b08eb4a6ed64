//! What NodeDrainStatus shows, and since when.

use std::time::Duration;

use drain::time::Moment;
use schemas::{DrainRequester, DrainStatus};

use crate::policy::Policy;

/// Between the terminal statuses for two requesters.
pub(crate) const BETWEEN_ANSWERS: Duration = Duration::from_secs(5);

/// A terminal status comes no sooner after REQUESTED: an agent that never saw an in-progress status would miss
/// the edge (D18).
const AFTER_REQUESTED: Duration = Duration::from_secs(1);

/// EVE's agents dial again after 10 s, and must find an in-progress status first (D18).
const AFTER_START_BESIDE_ZEDBOX: Duration = Duration::from_secs(12);

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The status.
    pub status: DrainStatus,
    /// The requester's number it carries.
    pub requested_by: DrainRequester,
    /// REQUESTED of this drain was first shown then.
    requested: Option<Moment>,
    /// The last terminal status was shown then.
    announced: Option<Moment>,
    /// zedkube began then.
    started: Moment,
}

impl Default for Shown {
    fn default() -> Self {
        let (status, requested_by) = (DrainStatus::Unknown, DrainRequester::None);
        Self { status, requested_by, requested: None, announced: None, started: Moment(0) }
    }
}

impl Shown {
    /// Nothing is shown yet; zedkube begins at `now`.
    pub(crate) fn at_start(now: Moment) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// As a process before this one has shown it.
    pub(crate) fn resumed(status: DrainStatus, requested_by: DrainRequester, now: Moment) -> Self {
        let requested = (status == DrainStatus::Requested).then_some(now);
        let is_terminal = status.is_failed() || status == DrainStatus::Complete;
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

    /// Shows a status that answers nobody.
    pub(crate) fn show(&mut self, status: DrainStatus, requested_by: DrainRequester, now: Moment) {
        if status == DrainStatus::Requested {
            self.requested.get_or_insert(now);
        }
        (self.status, self.requested_by) = (status, requested_by);
    }

    /// Shows a terminal status to a requester.
    pub(crate) fn announce(&mut self, status: DrainStatus, requester: DrainRequester, now: Moment) {
        (self.status, self.requested_by, self.announced) = (status, requester, Some(now));
    }

    /// When the next terminal status may be shown, if that is not yet.
    pub(crate) fn too_early(&self, now: Moment, policy: &Policy) -> Option<Moment> {
        let after_start = if policy.beside_zedbox { AFTER_START_BESIDE_ZEDBOX } else { Duration::ZERO };
        let earliest = [
            self.requested.map(|at| at + AFTER_REQUESTED),
            self.announced.map(|at| at + BETWEEN_ANSWERS),
            Some(self.started + after_start),
        ];
        earliest.into_iter().flatten().max().filter(|earliest| now < *earliest)
    }
}
