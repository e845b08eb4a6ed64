//! The state machine of one drain attempt.
//!
//! Level-triggered: each event brings the state up to date, then `advance` looks at the whole of it. An event
//! that means nothing in a state is listed there and ignored, so that a new one must be placed by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::clocks::{away, back, end_time, look_due, wake_time};
use crate::ending::{failure, has_more_to_do};
use crate::escalation::escalate;
use crate::findings::{Findings, Inquiry};
use crate::looks::Looked;
use crate::policy::{Policy, STALE_SCHEDULER};
use crate::record::Record;
use crate::sending::send;
use crate::state::{Attempt, Failure, Outcome, Proof, State};
use crate::time::Moment;
use crate::tracking::{record, see};
use crate::view::{Picture, PodId};
use crate::{asking, looks, terminating, turns, volumes};

/// Proofs lie at least this far apart.
const PROOF_SPACING: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Begin. The node has been cordoned just before.
    Start {
        /// The attempt's number.
        attempt: u32,
        /// When the API server last came back after it had been away, if it ever had.
        api_back: Option<Moment>,
    },
    /// Go on with an attempt that another process began. The node is cordoned.
    Resume {
        /// The attempt's number.
        attempt: u32,
        /// When the API server last came back after it had been away, if it ever had.
        api_back: Option<Moment>,
        /// What that process left.
        record: Box<Record>,
    },
    /// Stop at once.
    Cancel,
    /// The watches show this now.
    Picture(Arc<Picture>),
    /// A call of this attempt was answered.
    Answer {
        /// The attempt that sent it.
        attempt: u32,
        /// The pod's UID.
        uid: String,
        /// What it means.
        answer: Answer,
    },
    /// The fresh look that [`Effect::Prove`] asked for: node and pods from the server, not from a watch, and what is
    /// attached to the node, if that was asked for. One that nobody asked for is ignored.
    Proof {
        /// The attempt that asked.
        attempt: u32,
        /// What was seen, or why nothing could be seen: a whole sentence that names what failed.
        look: Result<Arc<Picture>, String>,
    },
    /// What [`Effect::Inquire`] found out.
    Found {
        /// The attempt that asked.
        attempt: u32,
        /// What was found out.
        findings: Arc<Findings>,
    },
    /// The server does not let us watch what every drain needs, so no picture will come.
    Unseen {
        /// Why, with the missing verb.
        why: String,
    },
    /// The API server does not answer any more.
    ApiAway,
    /// It answers again.
    ApiBack,
    /// The time of an [`Effect::WakeAt`] has come.
    Tick,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Evict the pod; its UID is the precondition. Answered by [`Event::Answer`].
    Evict {
        /// This attempt.
        attempt: u32,
        /// Which pod.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// Delete the pod, with its UID as precondition. Answered by [`Event::Answer`].
    Delete {
        /// This attempt.
        attempt: u32,
        /// Which pod.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// Look freshly at the node and its pods. Answered by exactly one [`Event::Proof`]; no other look of this attempt is
    /// asked for before. It must begin after this effect: an answer that was on its way already proves nothing.
    Prove {
        /// This attempt.
        attempt: u32,
        /// Also at all VolumeAttachments of the node, and at what the claims of its pods are bound to. True for a proof,
        /// unless the policy does not wait for volumes.
        volumes: bool,
    },
    /// Find out why pods do not leave, for the report. Answered by [`Event::Found`].
    Inquire {
        /// This attempt.
        attempt: u32,
        /// The questions.
        inquiry: Arc<Inquiry>,
    },
    /// Send [`Event::Tick`] then. A newer one replaces an older one.
    WakeAt(Moment),
    /// Give up all calls that are in flight.
    Abort,
}

/// The next state, and what to do.
pub fn step(state: State, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    match state {
        State::Idle => idle(&event, now, policy),
        State::Draining(attempt) => draining(attempt, event, now, policy),
        State::Proving(attempt, proof) => proving(attempt, proof, event, now, policy),
        State::Ended(attempt, outcome) => ended(attempt, outcome, &event, now, policy),
    }
}

fn idle(event: &Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    match event {
        Event::Start { attempt, api_back } => {
            advance(Attempt::new(*attempt, now, policy.attempt_timeout, *api_back), now, policy)
        }
        Event::Resume { attempt, api_back, record } => {
            advance(Attempt::resumed(*attempt, now, *api_back, record), now, policy)
        }
        Event::Cancel
        | Event::Picture(_)
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Unseen { .. }
        | Event::ApiAway
        | Event::ApiBack
        | Event::Tick => (State::Idle, vec![]),
    }
}

fn ended(
    attempt: Attempt,
    outcome: Outcome,
    event: &Event,
    now: Moment,
    policy: &Policy,
) -> (State, Vec<Effect>) {
    match event {
        Event::Start { attempt: number, api_back } => {
            advance(Attempt::new(*number, now, policy.attempt_timeout, *api_back), now, policy)
        }
        Event::Resume { attempt, api_back, record } => {
            advance(Attempt::resumed(*attempt, now, *api_back, record), now, policy)
        }
        Event::Cancel => (State::Idle, vec![Effect::Abort]),
        // Late: an outcome never changes.
        Event::Picture(_)
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Unseen { .. }
        | Event::ApiAway
        | Event::ApiBack
        | Event::Tick => (State::Ended(attempt, outcome), vec![]),
    }
}

fn draining(mut attempt: Attempt, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    match event {
        // One drain at a time.
        Event::Start { .. } | Event::Resume { .. } => return (State::Draining(attempt), vec![]),
        Event::Cancel => return (State::Idle, vec![Effect::Abort]),
        Event::Picture(picture) => see(&mut attempt, picture, now, policy),
        Event::Answer { attempt: number, uid, answer } if number == attempt.number => {
            record(&mut attempt, &uid, answer, now, policy);
        }
        Event::Proof { attempt: number, look } if number == attempt.number => {
            match looks::answered(&mut attempt, look, now, policy) {
                Looked::NodeGone => return end(attempt, Outcome::NodeGone),
                Looked::Uncordoned => return end(attempt, Outcome::Failed(Failure::Uncordoned)),
                Looked::InVain | Looked::TakenIn { .. } => {}
            }
        }
        Event::Found { attempt: number, findings } if number == attempt.number => attempt.findings = findings,
        Event::Unseen { why } if attempt.picture.is_none() => {
            return end(attempt, Outcome::Failed(Failure::Unseen(why)));
        }
        // Late, or what has been seen once goes on.
        Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Unseen { .. }
        | Event::Tick => {}
        Event::ApiAway => away(&mut attempt, now),
        Event::ApiBack => back(&mut attempt, now, policy),
    }
    advance(attempt, now, policy)
}

fn proving(
    mut attempt: Attempt,
    mut proof: Proof,
    event: Event,
    now: Moment,
    policy: &Policy,
) -> (State, Vec<Effect>) {
    match event {
        Event::Start { .. } | Event::Resume { .. } => return (State::Proving(attempt, proof), vec![]),
        Event::Cancel => return (State::Idle, vec![Effect::Abort]),
        Event::Picture(picture) => see(&mut attempt, picture, now, policy),
        Event::Proof { attempt: number, look } if number == attempt.number => {
            match looks::answered(&mut attempt, look, now, policy) {
                Looked::NodeGone => return end(attempt, Outcome::NodeGone),
                Looked::Uncordoned => return end(attempt, Outcome::Failed(Failure::Uncordoned)),
                Looked::TakenIn { proves } if proves && !has_more_to_do(&attempt, now, policy) => {
                    return clean(attempt, proof, now, policy);
                }
                Looked::InVain | Looked::TakenIn { .. } => {}
            }
        }
        Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Unseen { .. }
        | Event::Tick => {}
        Event::ApiAway => away(&mut attempt, now),
        Event::ApiBack => {
            back(&mut attempt, now, policy);
            proof.clean_since = None;
        }
    }
    if has_more_to_do(&attempt, now, policy) {
        return advance(attempt, now, policy);
    }
    prove(attempt, proof, now, policy)
}

/// Looks at the whole attempt: over, to be proven, or more to send.
fn advance(mut attempt: Attempt, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if attempt.away_since.is_none() {
        volumes::expire(&mut attempt, now, policy);
        terminating::leave_the_overdue(&mut attempt, now, policy);
        turns::settle(&mut attempt, now, policy);
        escalate(&mut attempt, now, policy);
    }
    if let Some(failure) = failure(&attempt, now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    let is_seen = attempt.picture.as_ref().is_some_and(|picture| picture.node.is_some());
    let may_act = attempt.away_since.is_none() && attempt.seen_cordoned && !attempt.looks.is_owed;
    // Where the watch says that the node is gone, only a fresh look may believe that.
    if !may_act || !is_seen {
        return wait(attempt, vec![], now, policy);
    }
    if !has_more_to_do(&attempt, now, policy) {
        let proof = Proof { next: now, clean_since: None };
        return prove(attempt, proof, now, policy);
    }
    let mut effects = send(&mut attempt, now, policy);
    if let Some(inquiry) = asking::due(&attempt, now) {
        attempt.asked = Some(now);
        effects.push(Effect::Inquire { attempt: attempt.number, inquiry: Arc::new(inquiry) });
    }
    wait(attempt, effects, now, policy)
}

/// Stays in Draining, with a fresh look when one is due.
fn wait(
    mut attempt: Attempt,
    mut effects: Vec<Effect>,
    now: Moment,
    policy: &Policy,
) -> (State, Vec<Effect>) {
    if attempt.away_since.is_none() && look_due(&attempt).is_some_and(|due| due <= now) {
        effects.push(looks::ask(&mut attempt, false, now, policy));
    }
    effects.push(Effect::WakeAt(wake_time(&attempt, now, policy)));
    (State::Draining(attempt), effects)
}

/// Stays in Proving, and asks for the next fresh list when it is due.
fn prove(mut attempt: Attempt, mut proof: Proof, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = failure(&attempt, now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    let mut effects = Vec::new();
    let due = |attempt: &Attempt, proof: &Proof| {
        let free = looks::free(attempt).filter(|_| attempt.away_since.is_none())?;
        Some(free.max(proof.next))
    };
    if due(&attempt, &proof).is_some_and(|due| due <= now) {
        proof.next = now + PROOF_SPACING;
        effects.push(looks::ask(&mut attempt, true, now, policy));
    }
    let next = due(&attempt, &proof).unwrap_or(Moment::NEVER);
    effects.push(Effect::WakeAt(next.min(end_time(&attempt, now, policy))));
    (State::Proving(attempt, proof), effects)
}

/// A fresh look proves the node drained: enough, or once more later?
fn clean(attempt: Attempt, mut proof: Proof, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = failure(&attempt, now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    if attempt.away_since.is_some() {
        // An answer from before the outage: the clocks stand still and nothing is concluded.
        return prove(attempt, proof, now, policy);
    }
    let clean_since = *proof.clean_since.get_or_insert(now);
    let settled = if attempt.arrivals { clean_since + policy.settle } else { clean_since };
    let fresh_scheduler = attempt.api_back.map_or(Moment(0), |back| back + STALE_SCHEDULER);
    let enough = settled.max(fresh_scheduler);
    if enough <= now {
        return end(attempt, Outcome::Drained);
    }
    proof.next = proof.next.max(enough);
    prove(attempt, proof, now, policy)
}

fn end(attempt: Attempt, outcome: Outcome) -> (State, Vec<Effect>) {
    (State::Ended(attempt, outcome), vec![Effect::Abort])
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
