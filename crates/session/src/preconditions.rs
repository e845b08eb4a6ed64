//! The preconditions of the cordon, in their order: the API server answers and knows this machine, the health command
//! passes, this node has a slot, the health command passes again, and another node can take the pods.

use std::time::Duration;

use drain::time::Moment;
use schemas::Outcome;

use crate::context::StepContext;
use crate::event::{CallError, Event, NoNode, NodeList};
use crate::health::Purpose;
use crate::next::Next;
use crate::phase::{Failed, Phase, Stage, Waiting};
use crate::policy::Policy;
use crate::state::State;
use crate::words::waiting_for;

/// A Node that is not in the list may still be joining the cluster, for up to this long: k3s registers it within a
/// minute or two of its first start, image pulls included.
const JOINS_WITHIN: Duration = Duration::from_mins(5);

/// Notes the event, and goes on to the first precondition that is not met.
pub(crate) fn step(state: &mut State, event: &Event, context: &StepContext<'_>) -> Next {
    let Phase::Waiting(mut waiting) = state.phase.clone() else { return Next::Stay };
    let mut next = Next::Stay;
    if let Event::NodesListed { serial, result } = event
        && *serial > waiting.after
    {
        next = looked(&mut waiting, result, context);
    }
    if next == Next::Stay {
        next = advance(state, &mut waiting, context);
    }
    if next == Next::Stay {
        let has_just_failed = event.is_unreachable() && state.api.is_news(context.now);
        next = time_is_over(state, &mut waiting, has_just_failed, context);
    }
    state.enter(Phase::Waiting(waiting), context.now);
    next
}

fn fail(why: &str) -> Next {
    Next::Fail(Failed::Cordon(why.to_owned()))
}

/// Notes a fresh list of nodes.
fn looked(waiting: &mut Waiting, result: &Result<NodeList, CallError>, context: &StepContext<'_>) -> Next {
    match result {
        Ok(look) => {
            waiting.denials = 0;
            waiting.denied.clear();
            waiting.looked = look.own.is_ok();
            joined(waiting, look.own.as_ref().err(), context.now)
        }
        Err(call_error) => {
            waiting.no_peer_since = None;
            match call_error {
                CallError::Unreachable(_) => Next::Stay,
                CallError::Busy(text) => {
                    waiting.denied.clone_from(text);
                    Next::Stay
                }
                CallError::Denied(text) | CallError::Elsewhere(text) | CallError::Other(text) => {
                    waiting.denials = waiting.denials.saturating_add(1);
                    waiting.denied.clone_from(text);
                    if waiting.denials >= context.policy.cordon_tries { fail(text) } else { Next::Stay }
                }
            }
        }
    }
}

/// Notes whether one of the Nodes is this machine. A machine that has just been installed may not be in the list yet.
fn joined(waiting: &mut Waiting, problem: Option<&NoNode>, now: Moment) -> Next {
    let Some(NoNode { why, may_join }) = problem else {
        waiting.unknown = None;
        return Next::Stay;
    };
    let since = waiting.unknown.take().map_or(now, |(since, _)| since);
    waiting.unknown = Some((since, why.clone()));
    let is_waited_for = *may_join && now.since(since) < JOINS_WITHIN;
    if is_waited_for { Next::Stay } else { fail(why) }
}

/// Goes on to the first precondition that is not met yet.
fn advance(state: &mut State, waiting: &mut Waiting, context: &StepContext<'_>) -> Next {
    let policy = context.policy;
    if needs_slot(waiting.stage) {
        state.slots.doubt_if_old(context.now);
    }
    if state.slots.table.is_some() && needs_slot(waiting.stage) && !has_slot(state, policy) {
        enter(waiting, Stage::Slot);
    }
    loop {
        let next = match waiting.stage {
            Stage::Api if waiting.looked => Stage::Health,
            Stage::Health if state.health.is_passed(Purpose::Before, policy) => Stage::Slot,
            Stage::Slot if has_slot(state, policy) => Stage::HealthHeld,
            Stage::HealthHeld if state.health.is_passed(Purpose::Held, policy) => {
                look_again(state, waiting, context);
                Stage::Peers
            }
            Stage::HealthHeld if state.health.failure(Purpose::Held).is_some() => Stage::Releasing,
            Stage::Releasing if state.slots.table.is_some() && !state.has_place() => Stage::Health,
            Stage::Releasing if policy.slots_limit == 0 => Stage::Health,
            // Each list counts only for the moment at which it was taken.
            Stage::Peers if std::mem::take(&mut waiting.looked) => return peers(state, waiting, context),
            Stage::Api
            | Stage::Health
            | Stage::Slot
            | Stage::HealthHeld
            | Stage::Releasing
            | Stage::Peers => return Next::Stay,
        };
        enter(waiting, next);
        waiting.slot_since = (next == Stage::Slot).then_some(context.now);
    }
}

fn enter(waiting: &mut Waiting, stage: Stage) {
    waiting.stage = stage;
    waiting.no_peer_since = None;
}

fn needs_slot(stage: Stage) -> bool {
    matches!(stage, Stage::HealthHeld | Stage::Peers)
}

fn has_slot(state: &State, policy: &Policy) -> bool {
    policy.slots_limit == 0 || state.holds_slot()
}

/// Asks for a new list once the slot is held: in an older one the other nodes may have been on their way down.
fn look_again(state: &mut State, waiting: &mut Waiting, context: &StepContext<'_>) {
    if context.policy.slots_limit > 0 || context.policy.has_health_command {
        (waiting.looked, waiting.after) = (false, context.serial());
        state.api.next = context.now;
    }
}

/// Decides whether another node can take the pods.
fn peers(state: &State, waiting: &mut Waiting, context: &StepContext<'_>) -> Next {
    let policy = context.policy;
    let Some(own) = &state.own else { return Next::Stay };
    if !waiting.denied.is_empty() || state.api.away_since.is_some() {
        return Next::Stay;
    }
    if state.has_peer() {
        return Next::Cordon(1);
    }
    let since = *waiting.no_peer_since.get_or_insert(context.now);
    let until = state.no_peer_until(own, since, policy);
    if !state.completes(policy.on_no_peer, policy) {
        return Next::Stay;
    }
    if until <= context.now {
        return Next::Finish(Outcome::NoSchedulablePeer);
    }
    waiting.undrained_at = Some(until);
    Next::Stay
}

fn time_is_over(
    state: &State,
    waiting: &mut Waiting,
    has_just_failed: bool,
    context: &StepContext<'_>,
) -> Next {
    if let Some(at) = state.unreachable_at(waiting.since, context.policy) {
        if at <= context.now {
            return if has_just_failed { Next::Finish(Outcome::ApiUnreachable) } else { Next::Stay };
        }
        waiting.undrained_at = Some(at);
        waiting.is_patient = state.others_get_time(context.policy);
        waiting.turns_before = state.turns_before(context.policy);
    } else if waiting.no_peer_since.is_none() {
        waiting.undrained_at = None;
    }
    match context.policy.wait_limit {
        Some(limit) if context.now.since(waiting.since) >= limit => {
            let waits_for = waiting_for(state, waiting);
            fail(&format!("gave up after {} s: {waits_for}", limit.as_secs()))
        }
        Some(_) | None => Next::Stay,
    }
}
