//! What outlives zedkube in this boot: the state, attempt and deadlines that a restarted process goes on in.
//!
//! Never pods: what is on the node is looked at anew. In another boot nothing of it holds: cordon and slot live on the
//! server.

use std::collections::BTreeMap;

use drain::progress;
use drain::time::Moment;

use crate::forcing::Forcing;
use crate::membership::Member;
use crate::requests::{Request, Requester, Requests};
use crate::returning::Returning;
use crate::showing::{Shown, Status};
use crate::slots::Others;
use crate::state::{Api, Cordoning, Phase, Session, State, Waiting};

/// All that is kept. Two states with the same record are the same after a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The standing requests with their answers.
    pub requests: Vec<Request>,
    /// Where the drain is; what is in flight is not kept.
    pub phase: Phase,
    /// Since when.
    pub since: Moment,
    /// The drain, or the last one.
    pub session: Session,
    /// The status that was shown, and whose number it carried.
    pub shown: (Status, Option<Requester>),
    /// The attempt that runs or ran last. Refusals of pods are not kept: their times begin anew.
    pub attempt: Option<drain::Record>,
    /// A cordon of ours was sent in this boot, and its removal was not confirmed.
    pub may_be_cordoned: bool,
    /// What an operator has ordered.
    pub forcing: Forcing,
    /// The API server has been away since then.
    pub away_since: Option<Moment>,
    /// Whether other nodes had a slot when it last answered.
    pub others: Others,
    /// It was asked about the membership in this boot.
    pub has_looked: bool,
    /// An unannotated cordon would be adopted still.
    pub adopts: bool,
}

/// What to keep of the state.
pub fn record(state: &State) -> Record {
    let attempt = progress::attempt(&state.drain).map(drain::state::Attempt::record);
    let attempt = attempt.or_else(|| state.left.clone());
    Record {
        requests: state.requests.iter().cloned().collect(),
        phase: kept(&state.phase),
        since: state.since,
        session: state.session.clone(),
        shown: (state.shown.status, Some(state.shown.requested_by)),
        attempt: attempt.map(|attempt| drain::Record { refused_since: BTreeMap::new(), ..attempt }),
        may_be_cordoned: state.returning.may_be_cordoned,
        forcing: state.forcing.clone(),
        away_since: state.api.away_since.or(state.api.away_before),
        others: state.slots.others,
        has_looked: state.has_looked,
        adopts: state.adopts,
    }
}

/// The phase without what is in flight or only said.
fn kept(phase: &Phase) -> Phase {
    match phase {
        Phase::Waiting(waiting) => Phase::Waiting(Waiting { since: waiting.since, ..Waiting::default() }),
        Phase::Cordoning(cordoning) => Phase::Cordoning(Cordoning {
            in_flight: None,
            next: Moment(0),
            error: String::new(),
            cordoned: false,
            unseen: false,
            ..cordoning.clone()
        }),
        Phase::Complete { outcome, .. } => Phase::Complete { outcome: *outcome, recheck: None },
        Phase::Idle | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Failed(_) => phase.clone(),
    }
}

/// The state to go on in. An attempt goes on after a look at the node: somebody may have lifted the cordon meanwhile.
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
    let (status, requested_by) = record.shown;
    State {
        member,
        boot_id,
        requests: Requests::resumed(record.requests),
        phase,
        since: record.since,
        shown: Shown::resumed(status, requested_by.unwrap_or(Requester::Operator), now),
        api: Api { away_before: record.away_since, next: now, ..Api::default() },
        returning: Returning { may_be_cordoned: record.may_be_cordoned, ..Returning::default() },
        session: record.session,
        left: record.attempt,
        forcing: record.forcing,
        adopts: record.adopts,
        has_looked: record.has_looked,
        ..State::default()
    }
    .knowing(record.others)
}
