//! Carries an operator's order out: the requesters that it covers are answered without a drain.

use drain::time::Moment;
use schemas::{DrainOrder, DrainRequester, Outcome};

use crate::context::StepContext;
use crate::event::Order;
use crate::next::Next;
use crate::orders::{Disabled, Forced, Needless, Orders, has_all_answers, is_meant};
use crate::phase::{Failed, Phase};
use crate::requests::{ANSWERED, Answer, Request};
use crate::state::State;

/// Carries out the pending order, once its file is renamed so that it is not read twice. If the file could not be
/// renamed, nothing happens.
pub(crate) fn taken(state: &mut State, renamed: bool, context: &mut StepContext<'_>) {
    let Some(order) = state.orders.pending.take().filter(|_| renamed) else { return };
    state.orders.needless = None;
    let Order { what, by } = order;
    match what {
        DrainOrder::Complete(meant) if has_all_answers(&state.requests, meant) => {
            all_are_answered(state, meant, by, context.now);
        }
        DrainOrder::Complete(requester) => {
            let until = context.now + context.policy.force_ttl;
            state.orders.complete = Some(Forced { requester, by, since: context.now, used: false, until });
            let State { requests, orders, .. } = state;
            requests.reopen(|request| orders.covers(request.requester));
            enter(state, context);
        }
        DrainOrder::Disable => {
            state.orders.complete = None;
            state.orders.disabled = Some(Disabled { by, since: context.now });
            state.requests.reopen(|_| true);
            if !state.requests.is_empty() {
                enter(state, context);
            }
        }
        DrainOrder::Enable => {
            state.orders = Orders::default();
            state.requests.take_forced_back();
            if state.is_forced() {
                state.enter(without_order(state), context.now);
            }
        }
    }
}

/// Handles an order that names only requesters that were answered COMPLETE already. If that answer was given without a
/// drain, zedkube would take it back once its reason is gone; because of the order it is kept.
fn all_are_answered(state: &mut State, meant: DrainRequester, by: String, now: Moment) {
    let outcome = state.session.ended.filter(|ended| ended.may_go_down()).unwrap_or(Outcome::Forced);
    if matches!(outcome, Outcome::Drained | Outcome::Forced) {
        state.orders.needless = Some(Needless { requester: meant, by, since: now, outcome });
        return;
    }
    for of in ANSWERED {
        if is_meant(meant, of) && state.requests.has_been_told(of) {
            state.requests.force(of, &by);
        }
    }
    if !ANSWERED.into_iter().any(|of| state.requests.has_been_told(of)) {
        state.enter(Phase::Complete { outcome: Outcome::Forced, recheck: None }, now);
    }
}

/// Answers a request that an order covers, whenever the request comes.
pub(crate) fn pursue(state: &mut State, context: &mut StepContext<'_>) {
    state.orders.expire(&state.requests, context.now);
    if !state.is_forced() && state.orders.next_covered(&state.requests).is_some() {
        enter(state, context);
    }
}

/// The phase of an order. It ends when all covered requesters have seen their answer, or none is left; then the other
/// requests are drained for.
pub(crate) fn step(state: &mut State, now: Moment) -> Next {
    let is_told = |request: &Request| request.answer == Answer::Forced;
    let is_unseen =
        state.orders.complete.is_none() && !state.requests.is_empty() && !state.requests.iter().any(is_told);
    let is_next = state.orders.next_covered(&state.requests).is_some();
    if is_next || (now < state.forced_answer_over() && !is_unseen) {
        return Next::Stay;
    }
    state.orders.spend();
    if state.requests.next_unanswered().is_some() {
        // Who was answered by a drain before is drained for again: nothing looks after that answer meanwhile.
        Next::BeginAnew
    } else if state.requests.iter().any(|request| request.answer == Answer::Complete) {
        // Some were answered because of a drain, whose result must stay true.
        Next::GoOn(Phase::Complete { outcome: state.session.told.unwrap_or(Outcome::Drained), recheck: None })
    } else if state.requests.is_empty() {
        Next::GoOn(Phase::Idle)
    } else if let Some(failed) = failed_before(state) {
        Next::GoOn(Phase::Failed(failed))
    } else {
        Next::Stay
    }
}

/// The phase that an order which is taken back leaves: COMPLETE for those who were told so without it.
fn without_order(state: &State) -> Phase {
    let is_told = |request: &Request| request.answer == Answer::Complete;
    match state.session.told.filter(|_| state.requests.iter().any(is_told)) {
        Some(outcome) => Phase::Complete { outcome, recheck: None },
        None => Phase::Idle,
    }
}

/// How the drain had failed for the remaining requests, which the order does not cover.
fn failed_before(state: &State) -> Option<Failed> {
    let text = || "the drain had failed before an operator's order for another requester came".to_owned();
    state.requests.iter().find_map(|request| match request.answer {
        Answer::FailedCordon => Some(Failed::Cordon(text())),
        Answer::FailedDrain => Some(Failed::Drain(text())),
        Answer::None | Answer::Complete | Answer::Forced => None,
    })
}

/// Enters the phase of an order. A drain that runs for other requesters is stopped before anything is published.
fn enter(state: &mut State, context: &mut StepContext<'_>) {
    if state.session.ended.is_none() {
        state.drive(drain::Event::Cancel, context);
    }
    state.published.announce_anew();
    state.session.finished = Some(context.now);
    state.enter(Phase::Complete { outcome: Outcome::Forced, recheck: None }, context.now);
    // The time of the phase also restarts if this was the phase before.
    state.since = context.now;
}
