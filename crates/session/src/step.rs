//! The coordinator: the only module that knows all the others.
//!
//! Each event is first noted as a fact by the part that owns it (the requests, whether the API server answers, our
//! Node), then given to the phase, which says where to go next. The rest is level-triggered: what follows from the state
//! as a whole (a drain to begin, a cordon to remove, a probe that is due, a status to publish) is worked out again after
//! every event. The parts do not know each other: what one of them means for another is decided here.

use std::sync::Arc;
use std::time::Duration;

use drain::cordon::NO_SLOT;
use drain::time::Moment;
use drain::view::NodeView;
use schemas::{DrainRequester, DrainStatus, Member, Outcome};

use crate::context::StepContext;
use crate::effect::Effect;
use crate::event::{CallError, Event, NodeList, NodeSample};
use crate::membership::{self, Facts, Listed};
use crate::next::Next;
use crate::orders::Orders;
use crate::phase::{Cordoning, Failed, Phase, Waiting};
use crate::policy::Policy;
use crate::record::record;
use crate::requests::{Answer, Request};
use crate::restoring::is_marked;
use crate::slot_lease::{Nodes, Pursued};
use crate::state::{AttemptRecord, Session, State};
use crate::{
    OWNER, attempting, complete, cordoning, drain_status, elsewhere, order_taken, preconditions, wants,
};

/// Two attempts begin at least so far apart, also with `drain.retry-pause = "0s"`: one that fails at once does not use up the others.
const ATTEMPTS_APART: Duration = Duration::from_secs(30);

/// Longest time for which the server is not asked after a watch has failed, but for a quarter more that differs from
/// node to node: when a server stops, the watches of all nodes fail together.
const UNSEEN_FOR: Duration = Duration::from_secs(4);

/// The nodes are listed so soon after the device's facts have changed or a drain was cancelled: more of that may come at
/// once.
const LIST_SOON: Duration = Duration::from_secs(1);

/// Gives the next state, and the effects to carry out.
pub fn step(mut state: State, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    let before = (headline(&state), record(&state));
    let event = elsewhere::judged(&mut state, event);
    let mut context = StepContext::new(now, policy, state.serial);
    let was_away = state.api.away_since.is_some();
    let was_acting = state.facts.nodeagent.is_acting();
    note(&mut state, &event, &mut context);
    if was_away && state.api.away_since.is_none() {
        // Nobody saw what became of the table meanwhile.
        table_may_have_changed(&mut state, &context);
    }
    if was_acting && !state.facts.nodeagent.is_acting() {
        let next = complete::action_failed(&mut state);
        go(&mut state, next, &mut context);
    }
    stop_if_not_needed(&mut state, &mut context);
    let next = phase(&mut state, event, &mut context);
    go(&mut state, next, &mut context);
    order_taken::pursue(&mut state, &mut context);
    // Again, because each of these may have begun a drain.
    stop_if_not_needed(&mut state, &mut context);
    begin_if_asked(&mut state, &context);
    if !state.wants_own_watch() {
        state.watched_uid = None;
    }
    if !state.wants_slot_watch() {
        state.slots.unseen();
    }
    state.set_aside();
    wants::remember(&mut state, policy);
    let wakes = pursue(&mut state, &mut context);
    state.serial = context.serial();
    let mut effects = context.effects;
    if headline(&state) != before.0 {
        effects.push(Effect::Publish);
    }
    if record(&state) != before.1 {
        effects.push(Effect::Record);
    }
    effects.sort_by_key(Effect::rank);
    effects.extend(wakes.into_iter().flatten().min().map(Effect::WakeAt));
    (state, effects)
}

/// Notes the event as a fact, in every phase.
fn note(state: &mut State, event: &Event, context: &mut StepContext<'_>) {
    match event {
        Event::Requests(standing) => requests(state, standing.clone(), context),
        Event::Facts(facts) => note_facts(state, *facts, context.now),
        Event::NodesSampled { serial, result } => sampled(state, *serial, result, context),
        Event::OwnSeen(node) => own_seen(state, node.as_ref(), context.now),
        Event::OwnWatchFailed if state.watched_uid.take().is_some() => ask_soon(state, context),
        Event::OwnWatchFailed => {}
        Event::NodesListed { serial, result } => looked(state, *serial, result, context),
        Event::Probed { serial, result } => {
            reached(state, *serial, result.as_ref().err(), context);
            if let Ok(node) = result {
                state.own.clone_from(node);
            }
        }
        Event::Cordoned { serial, result } => {
            cordoning::note(state, result);
            if matches!(&state.phase, Phase::Cordoning(Cordoning { in_flight, .. }) if *in_flight == Some(*serial))
            {
                heard(state, result.as_ref().err(), context);
            }
        }
        Event::Uncordoned { serial, result } => {
            if state.restoring.uncordoned(*serial, result, context.now)
                && let Some(node) = &mut state.own
            {
                node.cordoned &= !is_marked(node);
                node.cordoned_by = None;
            }
        }
        Event::Adopted { serial, result } => adopted(state, *serial, result, context),
        Event::MarkedWithoutSlot { serial, result } => marked(state, *serial, result, context),
        Event::Slots { serial, result } => {
            // In Idle and Failed the entry is only read, not renewed.
            let renews =
                state.requests.hold_the_node() && !matches!(state.phase, Phase::Idle | Phase::Failed(_));
            let State { slots, own, nodes, nodes_asked, .. } = state;
            let nodes = Nodes { own: own.as_ref(), all: nodes, asked: *nodes_asked };
            slots.answered(*serial, result, nodes, renews, context);
        }
        Event::SlotsSeen(table) => {
            let is_waiting = state.is_waiting_for_slot();
            let State { slots, own, nodes, nodes_asked, .. } = state;
            let nodes = Nodes { own: own.as_ref(), all: nodes, asked: *nodes_asked };
            slots.seen(table, is_waiting, nodes, context);
        }
        Event::SlotWatchFailed => slots_unseen(state, context),
        Event::Health { serial, result } => state.health.answered(*serial, result, context),
        Event::Override(order) => {
            // The order has to be in the record before its file is renamed.
            state.orders.pending = Some(order.clone());
            context.effects.push(Effect::TakeOverride);
        }
        Event::OverrideTaken { renamed } => order_taken::taken(state, *renamed, context),
        Event::Drain(event) => driver(state, event, context.now),
        Event::Tick => {}
    }
    // An API server that was away for so long that a drain would be given up counts as asked. If the policy is to wait
    // for it, only its answer counts.
    state.has_looked |= state.completes(context.policy.on_unreachable, context.policy)
        && state.api.is_away_for(context.policy.unreachable_timeout, context.now);
}

fn note_facts(state: &mut State, facts: Facts, now: Moment) {
    let Facts { nodeagent, obeys_drains, may_be_kept, .. } = facts;
    if facts != (Facts { nodeagent, obeys_drains, may_be_kept, ..state.facts }) {
        // Only a list can show what they mean.
        state.api.ask_by(now + LIST_SOON);
    }
    state.facts = facts;
    membership(state, None);
}

/// Notes what the watch on our Node shows.
fn own_seen(state: &mut State, seen: Option<&NodeView>, now: Moment) {
    state.watched_uid = seen.map(|node| node.uid.clone());
    match seen.filter(|_| state.is_own_watched()) {
        Some(node) => state.see_own(node),
        // It is gone, or another one has its name: only a list shows which Node is this machine.
        None => state.api.ask_by(now),
    }
}

/// Notes that the watch on the slot table has failed. A node that waits for a slot reads the table from now on.
fn slots_unseen(state: &mut State, context: &StepContext<'_>) {
    if state.slots.unseen() {
        if state.is_waiting_for_slot() {
            table_may_have_changed(state, context);
        }
        ask_soon(state, context);
    }
}

/// A watch has failed: the server may be away.
fn ask_soon(state: &mut State, context: &StepContext<'_>) {
    let uid = state.own.as_ref().map(|own| own.uid.as_str()).unwrap_or_default();
    state.api.ask_by(context.now + drain::retry::pause(context.serial(), Some(UNSEEN_FOR), uid));
}

/// Notes that the slot table has to be read again.
fn table_may_have_changed(state: &mut State, context: &StepContext<'_>) {
    let is_waiting = state.is_waiting_for_slot();
    state.slots.changed(is_waiting, state.own.as_ref(), context);
}

/// Notes what the attempt's driver says about our node and the API server.
fn driver(state: &mut State, event: &drain::Event, now: Moment) {
    match event {
        drain::Event::Snapshot(snapshot) => {
            if let Some(node) = &snapshot.node {
                state.see_own(node);
            }
            state.snapshot = Some(Arc::clone(snapshot));
        }
        drain::Event::ApiAway => state.api.driver_says(true, now),
        drain::Event::ApiBack => state.api.driver_says(false, now),
        drain::Event::Start { .. }
        | drain::Event::Resume { .. }
        | drain::Event::Cancel
        | drain::Event::Answer { .. }
        | drain::Event::Relisted { .. }
        | drain::Event::Found { .. }
        | drain::Event::Unseen { .. }
        | drain::Event::Tick => {}
    }
}

/// Notes the answer to a list of nodes.
fn looked(
    state: &mut State,
    serial: u32,
    result: &Result<NodeList, CallError>,
    context: &mut StepContext<'_>,
) {
    reached(state, serial, result.as_ref().err(), context);
    let Ok(look) = result else { return };
    state.nodes_error.identity = look.own.as_ref().err().map(|none| none.why.clone()).unwrap_or_default();
    elsewhere::forget_what_is_gone(state, look);
    state.nodes.clone_from(&look.nodes);
    state.nodes_asked = serial;
    state.is_list_outdated = false;
    if let Ok(own) = &look.own {
        state.see_own(own);
    }
    let is_waiting = state.is_waiting_for_slot();
    let State { slots, own, nodes, nodes_asked, .. } = state;
    slots.listed(is_waiting, Nodes { own: own.as_ref(), all: nodes, asked: *nodes_asked }, context);
    state.has_looked = true;
    membership(state, Some(Listed { nodes: look.nodes.len(), has_own: look.own.is_ok() }));
}

/// Notes the first nodes, and whether the last list of all nodes is outdated: then another follows at once.
fn sampled(
    state: &mut State,
    serial: u32,
    result: &Result<NodeSample, CallError>,
    context: &mut StepContext<'_>,
) {
    if let Ok(NodeSample { nodes, total, cluster }) = result {
        let mut is_outdated =
            *cluster != state.cluster || total.is_some_and(|total| total != state.nodes.len());
        for node in nodes {
            let known = state.nodes.iter_mut().find(|known| known.uid == node.uid);
            match known {
                Some(known) if !is_outdated => known.clone_from(node),
                Some(_) => {}
                None => is_outdated = true,
            }
        }
        state.is_list_outdated |= is_outdated;
        let is_waiting = state.is_waiting_for_slot();
        state.slots.read_if_old(is_waiting, state.own.as_ref(), context);
    }
    reached(state, serial, result.as_ref().err(), context);
    if state.is_list_outdated {
        state.api.ask_by(context.now);
    }
}

/// Works out the membership again. `no` lets the device go down, so `yes` becomes `no` only while there is no request,
/// and `unknown` only while nothing was done to the node. All other changes are allowed at any time.
fn membership(state: &mut State, listed: Option<Listed>) {
    let next = membership::next(state.member, &state.facts, listed);
    let is_allowed = match (state.member, next) {
        (Member::Yes, Member::No) => state.requests.is_empty(),
        (Member::Unknown, Member::No) => matches!(state.phase, Phase::Idle | Phase::Waiting(_)),
        (Member::Yes | Member::No | Member::Unknown, _) => true,
    };
    if is_allowed {
        state.member = next;
    }
}

/// Notes the answer to a list or a probe.
fn reached(state: &mut State, serial: u32, call_error: Option<&CallError>, context: &mut StepContext<'_>) {
    state.api.note_query(call_error, context.now);
    let pause = wants::pause_before_query(state, context.now, context.policy);
    state.api.answered(serial, context.now + pause);
    state.nodes_error.is_elsewhere = matches!(call_error, Some(CallError::Elsewhere(_)));
    match call_error {
        None => state.nodes_error.refused.clear(),
        Some(
            CallError::Denied(text)
            | CallError::Elsewhere(text)
            | CallError::Busy(text)
            | CallError::Other(text),
        ) => {
            state.nodes_error.refused.clone_from(text);
        }
        Some(CallError::Unreachable(_)) => {}
    }
    heard(state, call_error, context);
}

/// Notes whether the API server was reached, and passes that to the attempt, whose clocks stop during an outage.
fn heard(state: &mut State, call_error: Option<&CallError>, context: &mut StepContext<'_>) {
    if let Some(event) = state.api.heard(call_error, context.now) {
        state.drive(event, context);
    }
}

/// Notes the answer to an adoption: whether the cordon is ours now.
fn adopted(state: &mut State, serial: u32, result: &Result<bool, String>, context: &StepContext<'_>) {
    if state.restoring.answered(serial, result.as_ref().err(), context.now) {
        state.adopts = false;
        if *result == Ok(true)
            && let Some(node) = &mut state.own
        {
            node.cordoned_by = Some(OWNER.to_owned());
        }
        state.restoring.is_foreign = *result == Ok(false);
    }
}

/// Notes the answer to a mark: whether our cordon takes no slot any more.
fn marked(state: &mut State, serial: u32, result: &Result<(), String>, context: &StepContext<'_>) {
    if state.restoring.answered(serial, result.as_ref().err(), context.now)
        && let Some(node) = state.own.as_mut().filter(|node| is_marked(node))
    {
        node.slots_group = Some(NO_SLOT.to_owned());
    }
}

/// Notes the present requests: if the last one was withdrawn, the drain is cancelled; a new one joins the drain, or a
/// new drain begins. A request whose drain has failed asks for nothing any more: an agent that has died leaves one behind.
fn requests(state: &mut State, standing: Vec<Request>, context: &mut StepContext<'_>) {
    let is_answering = state.orders.next_covered(&state.requests).is_some();
    let any_new = state.requests.replace(standing);
    if any_new && !is_answering {
        state.orders.spend();
    }
    match &state.phase {
        Phase::Idle | Phase::Complete { outcome: Outcome::Forced, .. } => {}
        Phase::Failed(_) if state.requests.is_empty() => cancel(state, context),
        Phase::Failed(_) if any_new => begin(state, context),
        Phase::Failed(_) => {}
        _ if !state.requests.hold_the_node() => cancel(state, context),
        // Its slot is given back, and who asks now may go down.
        Phase::Complete { outcome: Outcome::Drained, .. } if any_new && !state.is_set_aside => {
            state.published.forget_times();
            complete::recheck(state, context);
        }
        Phase::Complete { .. } if any_new => {
            state.requests.forget_answers();
            begin(state, context);
        }
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. } => {}
    }
}

/// Gives the event to the phase.
fn phase(state: &mut State, event: Event, context: &mut StepContext<'_>) -> Next {
    match state.phase {
        Phase::Idle | Phase::Failed(_) => Next::Stay,
        Phase::Waiting(_) => preconditions::step(state, &event, context),
        Phase::Cordoning(_) => cordoning::step(state, &event, context),
        Phase::Attempting { .. } => attempting::step(state, event, context),
        Phase::Pausing { failed, until } if until <= context.now => Next::Cordon(failed + 1),
        Phase::Pausing { .. } => Next::Stay,
        Phase::Complete { outcome: Outcome::Forced, .. } => order_taken::step(state, context.now),
        Phase::Complete { .. } => complete::step(state, &event, context),
    }
}

/// Follows the phase's wish, and those that result from it, until none is left.
fn go(state: &mut State, mut next: Next, context: &mut StepContext<'_>) {
    loop {
        next = match next {
            Next::Stay => return,
            Next::Begin => {
                begin(state, context);
                Next::Stay
            }
            Next::BeginAnew => {
                state.requests.forget_answers();
                Next::Begin
            }
            Next::Cordon(attempt) => {
                cordoning::begin(state, attempt, context);
                Next::Stay
            }
            Next::Attempt(cordoning) => attempting::begin(state, &cordoning, context),
            Next::AttemptFailed(cordoning, error) => attempt_failed(state, &cordoning, error, context),
            Next::Finish(outcome) => {
                state.session.finished = Some(context.now);
                Next::GoOn(Phase::Complete { outcome, recheck: None })
            }
            Next::Fail(failed) => {
                state.session.finished = Some(context.now);
                Next::GoOn(Phase::Failed(failed))
            }
            Next::GoOn(phase) => {
                state.enter(phase, context.now);
                Next::Stay
            }
        };
    }
}

/// An attempt has failed: next comes another attempt, or the end of the drain.
fn attempt_failed(
    state: &mut State,
    cordoning: &Cordoning,
    error: String,
    context: &StepContext<'_>,
) -> Next {
    let Cordoning { attempt: number, started, .. } = *cordoning;
    let is_last = number >= context.policy.attempts;
    let text = match number {
        1 => format!("the attempt failed because {error}"),
        _ => format!("{number} attempts failed, the last one because {error}"),
    };
    state.session.attempts.push(AttemptRecord { number, started, ended: context.now, error });
    if is_last {
        Next::Fail(Failed::Drain(text))
    } else {
        let until = (context.now + context.policy.retry_pause).max(started + ATTEMPTS_APART);
        Next::GoOn(Phase::Pausing { failed: number, until })
    }
}

fn begin_if_asked(state: &mut State, context: &StepContext<'_>) {
    let asked = state.requests.next_unanswered().is_some();
    if state.phase == Phase::Idle && asked && state.member_now() != Member::No {
        begin(state, context);
    }
}

/// Stops a drain that is not needed: this device is in no cluster after all. Nothing was done to the node yet.
fn stop_if_not_needed(state: &mut State, context: &mut StepContext<'_>) {
    if matches!(state.phase, Phase::Waiting(_)) && state.member_now() == Member::No {
        cancel(state, context);
    }
}

/// Begins a new drain, for all requests without an answer.
fn begin(state: &mut State, context: &StepContext<'_>) {
    let number = state.session.number + 1;
    state.session = Session { number, started: Some(context.now), ..Session::default() };
    state.drain = drain::State::Idle;
    state.drain_wake = None;
    state.published.forget_times();
    state.slots.confirmed = false;
    state.is_set_aside = false;
    state.api.ask_anew(context.now);
    state.snapshot = None;
    let waiting = Waiting { since: context.now, after: context.serial(), ..Waiting::default() };
    state.enter(Phase::Waiting(waiting), context.now);
}

/// Ends the drain because no request is left: everything in flight is given up, and restoring begins. If the drain had
/// ended before, its outcome stays for the report.
fn cancel(state: &mut State, context: &mut StepContext<'_>) {
    if state.session.ended.is_none() {
        state.session.ended = Some(Outcome::Cancelled);
        state.drive(drain::Event::Cancel, context);
    }
    (state.snapshot, state.is_set_aside) = (None, false);
    state.api.ask_by(context.now + LIST_SOON);
    state.session.finished.get_or_insert(context.now);
    state.enter(Phase::Idle, context.now);
}

/// Starts every call that is due, and brings the status up to date. Gives the times at which the parts want to be called
/// again.
fn pursue(state: &mut State, context: &mut StepContext<'_>) -> [Option<Moment>; 8] {
    [
        pursue_slot(state, context),
        drain_status::show(state, context),
        {
            let wanted = wants::health(state);
            state.health.pursue(wanted, context)
        },
        wants::node_write(state, context.policy).and_then(|write| state.restoring.pursue(write, context)),
        {
            let query = wants::next_query(state);
            state.api.pursue(query, context)
        },
        phase_wake(state, context.policy),
        state.orders.complete.as_ref().map(|forced| forced.until),
        state.drain_wake,
    ]
}

fn pursue_slot(state: &mut State, context: &mut StepContext<'_>) -> Option<Moment> {
    let Some(wanted) = wants::slot(state, context.now, context.policy) else {
        state.slots.rest();
        // A renewal that is due and not wanted all the same (the API server is away, no member any more) waits for an event.
        let is_renewed = state.holds_slot() && context.policy.slots_limit > 0;
        return is_renewed.then(|| state.slots.renew_at()).filter(|at| context.now < *at);
    };
    if state.api.away_since.is_some() {
        return None;
    }
    let is_in_service = wants::is_before_the_cordon(&state.phase);
    let State { slots, own, nodes, nodes_asked, boot_id, .. } = state;
    let nodes = Nodes { own: own.as_ref(), all: nodes, asked: *nodes_asked };
    match slots.pursue(wanted, nodes, boot_id, is_in_service, context) {
        Pursued::Waits => None,
        Pursued::At(moment) => Some(moment),
        Pursued::NeedsList => {
            state.api.ask_by(context.now);
            None
        }
        Pursued::Lost => {
            // This node's slot is lost: no more pods are evicted, and the node queues again. While others have all
            // slots, it is uncordoned.
            state.drive(drain::Event::Cancel, context);
            // A cordon of this very step would be one without a slot.
            context.effects.retain(|effect| !matches!(effect, Effect::Cordon { .. }));
            state.requests.forget_answers();
            begin(state, context);
            Some(context.now)
        }
    }
}

fn phase_wake(state: &State, policy: &Policy) -> Option<Moment> {
    match &state.phase {
        Phase::Waiting(waiting) => policy.wait_limit.map(|limit| waiting.since + limit),
        Phase::Cordoning(cordoning) => cordoning::next_try(cordoning).filter(|_| state.own.is_some()),
        Phase::Pausing { until, .. } => Some(*until),
        Phase::Idle | Phase::Attempting { .. } | Phase::Complete { .. } | Phase::Failed(_) => None,
    }
}

/// The part of the state that readers must see at once: a change of it is published immediately, other changes at the
/// next regular time.
#[derive(PartialEq)]
struct Headline {
    status: DrainStatus,
    requested_by: DrainRequester,
    phase: &'static str,
    member: Member,
    drain: u64,
    attempts: usize,
    orders: Orders,
    holds_slot: bool,
    answers: Vec<(DrainRequester, String, Answer)>,
}

fn headline(state: &State) -> Headline {
    let answer = |request: &Request| (request.requester, request.requested_at.clone(), request.answer);
    Headline {
        status: state.published.status,
        requested_by: state.published.requested_by,
        phase: state.phase.name(),
        member: state.member_now(),
        drain: state.session.number,
        attempts: state.session.attempts.len(),
        orders: state.orders.clone(),
        holds_slot: state.holds_slot(),
        answers: state.requests.iter().map(answer).collect(),
    }
}

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "these tests look at one phase only")]
mod properties;
#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "these tests look at one phase only")]
mod sim;
#[cfg(test)]
mod tests;
