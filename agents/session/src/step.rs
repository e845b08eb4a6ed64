//! The state machine of the device around a drain.
//!
//! Each event is first taken in as a fact (who asks, whether the API server answers, what our node looks like),
//! then shown to the phase, one function per phase. The tail is level-triggered: what follows from the state as
//! a whole (a drain to begin, a cordon to take back, a probe that is due, a status to show) is looked at after
//! every event.

use std::sync::Arc;
use std::time::Duration;

use drain::Findings;
use drain::time::Moment;
use drain::view::{NodeView, Picture};

use crate::membership::{Facts, Member};
use crate::policy::Policy;
use crate::requests::{Answer, Request, Requester};
use crate::showing::{Status, show};
use crate::state::{Ended, Outcome, Phase, Session, State, Waiting};
use crate::{attempting, complete, cordoning, looking, returning, waiting};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// These requests stand now.
    Requests(Vec<Request>),
    /// What the device itself knows of its membership.
    Facts(Facts),
    /// A fresh list of all nodes, asked for by [`Effect::Look`].
    Looked {
        /// The effect's serial.
        serial: u32,
        /// What was seen.
        result: Result<Look, Trouble>,
    },
    /// A fresh look at our own node, asked for by [`Effect::Probe`]; `None` when it does not exist.
    Probed {
        /// The effect's serial.
        serial: u32,
        /// What was seen.
        result: Result<Option<NodeView>, Trouble>,
    },
    /// The answer to [`Effect::Cordon`].
    Cordoned {
        /// The effect's serial.
        serial: u32,
        /// The node as it is now, and whether somebody else had cordoned it before.
        result: Result<Cordoned, Trouble>,
    },
    /// The answer to [`Effect::Uncordon`].
    Uncordoned {
        /// The effect's serial.
        serial: u32,
        /// Done (also when there was nothing to do), or why not.
        result: Result<(), String>,
    },
    /// The watches show this now.
    Picture(Arc<Picture>),
    /// The answer to an eviction or deletion of [`Effect::Drain`].
    Answer {
        /// The attempt's serial.
        attempt: u32,
        /// The pod's UID.
        uid: String,
        /// What it means.
        answer: drain::Answer,
    },
    /// The fresh look that a [`drain::Effect::Prove`] asked for.
    Proof {
        /// The effect's serial.
        attempt: u32,
        /// What was seen, or why nothing was.
        look: Result<Arc<Picture>, String>,
    },
    /// What a [`drain::Effect::Inquire`] found out.
    Found {
        /// The attempt's serial.
        attempt: u32,
        /// What was found out.
        findings: Arc<Findings>,
    },
    /// The time of an [`Effect::WakeAt`] has come.
    Tick,
}

/// A fresh list of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// The one that is this machine, or why none is.
    pub own: Result<NodeView, String>,
}

/// A node that is cordoned now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    /// The node.
    pub node: NodeView,
    /// Somebody else had cordoned it.
    pub before: bool,
}

/// Why a call to the API server brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer at all, or one that only says that the server is not well.
    Unreachable(String),
    /// The server does not let us; names the missing verb.
    Denied(String),
    /// Anything else.
    Other(String),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What is shown has changed: publish it before anything else is done.
    Publish,
    /// List all nodes freshly.
    Look {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Read our own node freshly.
    Probe {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Cordon our own node. Never overtakes an uncordon that was sent before.
    Cordon {
        /// Comes back with the answer.
        serial: u32,
    },
    /// Take our cordon back. Never overtakes a cordon that was sent before.
    Uncordon {
        /// Comes back with the answer.
        serial: u32,
    },
    /// An effect of the attempt that runs. Its `WakeAt` never comes here.
    Drain(drain::Effect),
    /// Send [`Event::Tick`] then. A newer one replaces an older one.
    WakeAt(Moment),
}

/// The next state, and what to do.
pub fn step(mut state: State, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    let before = headline(&state);
    let mut effects = Vec::new();
    note(&mut state, &event, now, policy, &mut effects);
    phase(&mut state, event, now, policy, &mut effects);
    begin_if_asked(&mut state, now);
    let wakes = [
        show(&mut state, now, policy),
        returning::pursue(&mut state, now, &mut effects),
        looking::pursue(&mut state, now, &mut effects),
        phase_wake(&state, policy),
        state.drain_wake,
    ];
    if headline(&state) != before {
        effects.insert(0, Effect::Publish);
    }
    effects.extend(wakes.into_iter().flatten().min().map(Effect::WakeAt));
    (state, effects)
}

/// Takes the event in as a fact, whatever the phase.
fn note(state: &mut State, event: &Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    match event {
        Event::Requests(standing) => requests(state, standing.clone(), now, policy, effects),
        Event::Facts(facts) => {
            state.facts = *facts;
            looking::membership(state, None);
        }
        Event::Looked { serial, result } => looking::looked(state, *serial, result, now, policy, effects),
        Event::Probed { serial, result } => looking::probed(state, *serial, result, now, policy, effects),
        Event::Uncordoned { serial, result } => returning::answered(state, *serial, result.clone(), now),
        Event::Picture(picture) => {
            if let Some(node) = &picture.node {
                state.own = Some(node.clone());
            }
            state.picture = Some(Arc::clone(picture));
        }
        Event::Cordoned { result, .. } => cordoning::note(state, result),
        Event::Answer { .. } | Event::Proof { .. } | Event::Found { .. } | Event::Tick => {}
    }
}

fn phase(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    match &state.phase {
        Phase::Idle | Phase::Failed(_) => {}
        Phase::Waiting(_) => waiting::step(state, event, now, policy, effects),
        Phase::Cordoning(_) => cordoning::step(state, event, now, policy, effects),
        Phase::Attempting { .. } => attempting::step(state, event, now, policy, effects),
        Phase::Pausing { .. } => attempting::pause(state, now, effects),
        Phase::Complete { .. } => complete::step(state, event, now, policy, effects),
    }
}

/// Takes the standing requests in: the last one withdrawn cancels, a new one joins or begins anew.
fn requests(
    state: &mut State,
    standing: Vec<Request>,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    let any_new = state.requests.replace(standing);
    match &state.phase {
        Phase::Idle => {}
        _ if state.requests.is_empty() => cancel(state, now, policy, effects),
        Phase::Complete { outcome: Outcome::Drained, .. } if any_new => {
            state.shown.forget_times();
            complete::recheck(state, now, effects);
        }
        Phase::Complete { .. } if any_new => {
            state.requests.forget_answers();
            begin(state, now);
        }
        Phase::Failed(_) if any_new => begin(state, now),
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => {}
    }
}

fn begin_if_asked(state: &mut State, now: Moment) {
    if state.phase == Phase::Idle && !state.requests.is_empty() && state.member != Member::No {
        begin(state, now);
    }
}

/// A new drain begins, for all that ask and were not answered.
pub(crate) fn begin(state: &mut State, now: Moment) {
    let number = state.session.number + 1;
    state.session = Session { number, started: Some(now), ..Session::default() };
    state.drain = drain::State::Idle;
    state.drain_wake = None;
    state.shown.forget_times();
    state.api.asked = None;
    state.api.next = now;
    state.picture = None;
    state.enter(Phase::Waiting(Waiting { since: now, after: state.serial, ..Waiting::default() }), now);
}

/// Nobody asks any more: everything in flight is given up, and the way back begins. What a drain that had ended
/// found stays for the report.
fn cancel(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    if state.session.ended.is_none() {
        state.session.ended = Some(Ended::Cancelled);
        attempting::drive(state, drain::Event::Cancel, now, policy, effects);
    }
    state.picture = None;
    state.api.next = state.api.next.min(now + Duration::from_secs(1));
    state.session.finished.get_or_insert(now);
    state.enter(Phase::Idle, now);
}

/// The drain ends well.
pub(crate) fn finish(state: &mut State, outcome: Outcome, now: Moment) {
    state.session.finished = Some(now);
    state.enter(Phase::Complete { outcome, recheck: None }, now);
}

fn phase_wake(state: &State, policy: &Policy) -> Option<Moment> {
    match &state.phase {
        Phase::Waiting(waiting) => policy.wait_limit.map(|limit| waiting.since + limit),
        Phase::Cordoning(cordoning) if cordoning.in_flight.is_none() => Some(cordoning.next),
        Phase::Pausing { until, .. } => Some(*until),
        Phase::Idle
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => None,
    }
}

/// What others can see of the state at a glance; a change is published at once, everything else at leisure.
#[derive(PartialEq)]
struct Headline {
    status: Status,
    requested_by: Requester,
    phase: &'static str,
    member: Member,
    drain: u64,
    attempts: usize,
    answers: Vec<(Requester, String, Answer)>,
}

fn headline(state: &State) -> Headline {
    let answer = |request: &Request| (request.requester, request.requested_at.clone(), request.answer);
    Headline {
        status: state.shown.status,
        requested_by: state.shown.requested_by,
        phase: state.phase.name(),
        member: state.member,
        drain: state.session.number,
        attempts: state.session.attempts.len(),
        answers: state.requests.iter().map(answer).collect(),
    }
}

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test asks about one state")]
mod properties;
#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test asks about one state")]
mod tests;
