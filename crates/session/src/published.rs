//! The content of NodeDrainStatus, and since when it is shown.

use std::time::Duration;

use drain::time::Moment;
use schemas::{DrainRequester, DrainStatus};

use crate::policy::Policy;

/// Pause between the terminal statuses for two requesters.
pub(crate) const BETWEEN_ANSWERS: Duration = Duration::from_secs(5);

/// Shortest time between REQUESTED and a terminal status: an agent that never saw an in-progress status would miss the
/// change (D18).
const AFTER_REQUESTED: Duration = Duration::from_secs(1);

/// Shortest time between zedkube's start and a terminal status: EVE's agents connect again only after 10 s, and must
/// find an in-progress status first (D18).
const AFTER_START_BESIDE_ZEDBOX: Duration = Duration::from_secs(12);

/// The content of NodeDrainStatus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedStatus {
    /// The status.
    pub status: DrainStatus,
    /// The requester's number in the status.
    pub requested_by: DrainRequester,
    /// When REQUESTED was first shown in this drain.
    requested: Option<Moment>,
    /// When the last terminal status was shown.
    announced: Option<Moment>,
    /// When this zedkube process started.
    started: Moment,
}

impl Default for PublishedStatus {
    fn default() -> Self {
        let (status, requested_by) = (DrainStatus::Unknown, DrainRequester::None);
        Self { status, requested_by, requested: None, announced: None, started: Moment(0) }
    }
}

impl PublishedStatus {
    /// Nothing is shown yet; zedkube starts at `now`.
    pub(crate) fn at_start(now: Moment) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The status that the previous process showed.
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

    /// Lets the next terminal status come without a pause after the last one.
    pub(crate) fn announce_anew(&mut self) {
        self.announced = None;
    }

    /// Forgets when REQUESTED and the last answer were shown, because a new drain begins.
    pub(crate) fn forget_times(&mut self) {
        (self.requested, self.announced) = (None, None);
    }

    /// Shows a status that is no answer to a requester.
    pub(crate) fn show(&mut self, status: DrainStatus, requested_by: DrainRequester, now: Moment) {
        if status == DrainStatus::Requested {
            self.requested.get_or_insert(now);
        }
        (self.status, self.requested_by) = (status, requested_by);
    }

    /// Shows a terminal status, the answer to one requester.
    pub(crate) fn announce(&mut self, status: DrainStatus, requester: DrainRequester, now: Moment) {
        (self.status, self.requested_by, self.announced) = (status, requester, Some(now));
    }

    /// When the next terminal status may be shown; `None` if it may be shown now.
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
