//! The record: phase, attempt and deadlines that a restarted zedkube needs to go on in the same boot.
//!
//! The record contains no pods: they are listed again. It does not count in another boot; the cordon and the slot are on
//! the API server. All times are milliseconds of `CLOCK_BOOTTIME`.

use std::collections::BTreeMap;

use drain::progress;
use drain::time::Moment;
use schemas::{DrainRequester, DrainStatus, Member, OtherHolders};
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::orders::Orders;
use crate::phase::{Cordoning, Phase, Waiting};
use crate::published::PublishedStatus;
use crate::requests::{Request, Requests};
use crate::restoring::Restoring;
use crate::state::{Session, State};

/// Everything that a restart must know. Two states with equal records are the same after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other, each a field in the file"
)]
pub struct Record {
    /// The requests with their answers.
    pub requests: Vec<Request>,
    /// The phase, without fields about calls in flight.
    pub phase: Phase,
    /// When the phase began.
    pub since: Moment,
    /// The present drain, or the last one.
    pub session: Session,
    /// The status that was shown.
    pub status: DrainStatus,
    /// The requester's number in that status.
    pub requested_by: DrainRequester,
    /// The attempt that runs or ran last. Refusals of evictions are not kept, so their times start again.
    pub attempt: Option<drain::Record>,
    /// A cordon of ours was sent in this boot, and its removal is not confirmed.
    pub may_be_cordoned: bool,
    /// The orders of an operator.
    // Its name in the files of earlier versions.
    #[serde(rename = "Forcing")]
    pub orders: Orders,
    /// Since when the API server has not answered; `None` if it answers.
    pub away_since: Option<Moment>,
    /// Whether other nodes had a slot when the API server last answered.
    pub others: OtherHolders,
    /// The API server was asked about the membership in this boot.
    pub has_looked: bool,
    /// Our Node was seen Ready in this boot.
    pub has_been_back: bool,
    /// An unannotated cordon still has to be adopted.
    pub adopts: bool,
    /// The cluster that was asked last ([`State::cluster`]).
    #[serde(rename = "ClusterUID")]
    pub cluster: Option<String>,
}

impl Record {
    /// Whether zedkube can have written this record. If not, it counts as missing, and a drain that is requested begins
    /// again.
    pub fn makes_sense(&self) -> bool {
        let is_named = |request: &Request| request.requester != DrainRequester::Unset;
        self.phase.makes_sense() && self.requests.iter().all(is_named)
    }
}

/// Takes from the state what the record keeps.
pub fn record(state: &State) -> Record {
    let attempt = progress::attempt(&state.drain).map(drain::state::Attempt::record);
    let attempt = attempt.or_else(|| state.left.clone());
    Record {
        requests: state.requests.iter().cloned().collect(),
        phase: kept(&state.phase),
        since: state.since,
        session: state.session.clone(),
        status: state.published.status,
        requested_by: state.published.requested_by,
        attempt: attempt.map(|attempt| drain::Record { refused_since: BTreeMap::new(), ..attempt }),
        may_be_cordoned: state.restoring.may_be_cordoned,
        orders: state.orders.clone(),
        away_since: state.api.away_since.or(state.api.away_before),
        others: state.slots.others,
        has_looked: state.has_looked,
        has_been_back: state.restoring.has_been_back,
        adopts: state.adopts,
        cluster: state.cluster.clone(),
    }
}

/// The phase without calls in flight and texts: equal to the same phase after it was written and read back.
fn kept(phase: &Phase) -> Phase {
    match phase {
        Phase::Waiting(waiting) => Phase::Waiting(Waiting { since: waiting.since, ..Waiting::default() }),
        Phase::Cordoning(Cordoning { attempt, started, began, failures, resumes, .. }) => {
            let (attempt, failures, resumes) = (*attempt, *failures, *resumes);
            let (started, began) = (*started, *began);
            Phase::Cordoning(Cordoning { attempt, started, began, failures, resumes, ..Cordoning::default() })
        }
        Phase::Complete { outcome, .. } => Phase::Complete { outcome: *outcome, recheck: None },
        Phase::Idle | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Failed(_) => phase.clone(),
    }
}

/// The state in which a restarted process goes on. An attempt goes on only after the node was read, because a person may
/// have lifted the cordon meanwhile.
pub fn resume(record: Record, member: Member, boot_id: String, now: Moment) -> State {
    let phase = match record.phase {
        Phase::Attempting { attempt, started } => Phase::Cordoning(Cordoning {
            attempt,
            started,
            began: now,
            resumes: true,
            unseen: true,
            ..Cordoning::default()
        }),
        Phase::Cordoning(cordoning) => Phase::Cordoning(Cordoning { unseen: cordoning.resumes, ..cordoning }),
        phase @ (Phase::Idle
        | Phase::Waiting(_)
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_)) => phase,
    };
    let mut state = State {
        member,
        boot_id,
        requests: Requests::resumed(record.requests),
        phase,
        since: record.since,
        published: PublishedStatus::resumed(record.status, record.requested_by, now),
        api: Api::resumed(record.away_since, now),
        restoring: Restoring::resumed(record.may_be_cordoned, record.has_been_back),
        session: record.session,
        left: record.attempt,
        orders: record.orders,
        adopts: record.adopts,
        cluster: record.cluster,
        has_looked: record.has_looked,
        is_unseen: true,
        ..State::default()
    };
    // Before a request comes that needs the slot.
    state.set_aside();
    state.knowing(record.others)
}
