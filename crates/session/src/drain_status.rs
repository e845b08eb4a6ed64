//! Keeps NodeDrainStatus up to date.
//!
//! While a drain goes on, the status follows the phase at once. A terminal status is shown once per requester, because
//! EVE's agents look only at a status with their own number; between two of them, and after REQUESTED, there is a pause
//! so that each reader sees each.

use drain::time::Moment;
use schemas::{DrainRequester, DrainStatus, Member, Outcome};

use crate::context::StepContext;
use crate::phase::{Failed, Phase};
use crate::published::BETWEEN_ANSWERS;
use crate::requests::{ANSWERED, Answer};
use crate::state::State;

/// Brings the status up to date, and answers the next requester if it is time. Gives the time of the next call.
pub(crate) fn show(state: &mut State, context: &StepContext<'_>) -> Option<Moment> {
    let beside_zedbox = context.policy.beside_zedbox;
    let status = match &state.phase {
        Phase::Complete { recheck: Some(_), .. } if state.requests.next_unanswered().is_some() => {
            DrainStatus::Requested
        }
        Phase::Complete { outcome: Outcome::Forced, .. } => return forced(state, context),
        // After COMPLETE the device goes down, and a restarted zedkube would not know that it was answered.
        Phase::Complete { .. } if state.is_unrecorded => return None,
        Phase::Complete { .. } => return announce(state, Answer::Complete, context),
        Phase::Failed(Failed::Cordon(_)) => return announce(state, Answer::FailedCordon, context),
        Phase::Failed(Failed::Drain(_)) => return announce(state, Answer::FailedDrain, context),
        Phase::Idle if state.member_now() == Member::No || state.orders.disabled.is_some() => {
            DrainStatus::NotSupported
        }
        Phase::Idle => DrainStatus::NotRequested,
        Phase::Waiting(_) => DrainStatus::Requested,
        Phase::Cordoning(cordoning) if cordoning.attempt == 1 => {
            if cordoning.resumes && !beside_zedbox {
                DrainStatus::Cordoned
            } else {
                DrainStatus::Starting
            }
        }
        Phase::Attempting { attempt: 1, .. } if beside_zedbox => DrainStatus::Starting,
        Phase::Attempting { attempt: 1, .. } => DrainStatus::Cordoned,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => DrainStatus::DrainRetrying,
    };
    state.published.show(status, state.requests.in_progress(), context.now);
    None
}

/// Shows the terminal status to the next requester without an answer.
fn announce(state: &mut State, answer: Answer, context: &StepContext<'_>) -> Option<Moment> {
    let Some(requester) = state.requests.next_unanswered() else {
        show_again(state, answer, context.now);
        return None;
    };
    if let Some(earliest) = state.published.too_early(context.now, context.policy) {
        return Some(earliest);
    }
    state.published.announce(answer.status(), requester, context.now);
    state.requests.answer(requester, answer);
    if let Phase::Complete { outcome, .. } = state.phase {
        state.session.told = Some(outcome);
    }
    state.requests.next_unanswered().map(|_| context.now + BETWEEN_ANSWERS)
}

/// Shows the answer again when all requesters have theirs: an operator's order may since have shown another status, to a
/// requester that had not asked.
fn show_again(state: &mut State, answer: Answer, now: Moment) {
    let told = |requester: &DrainRequester| {
        state.requests.iter().any(|request| request.requester == *requester && request.answer == answer)
    };
    let published =
        (state.published.status == answer.status()).then_some(state.published.requested_by).filter(told);
    let last = || ANSWERED.into_iter().rev().find(told);
    if let Some(requester) = published.or_else(last) {
        state.published.show(answer.status(), requester, now);
    }
}

/// Shows COMPLETE to the next requester that an order covers; if there is no request, to the requester that the order
/// names.
fn forced(state: &mut State, context: &StepContext<'_>) -> Option<Moment> {
    let next = state.orders.next_covered(&state.requests);
    let meant_for = || state.orders.complete.as_ref().map(|forced| forced.requester);
    let requester = match state.published.announced_at() {
        None => next.or_else(meant_for),
        Some(_) => next,
    };
    let over = state.forced_answer_over();
    let Some(requester) = requester else {
        if context.now < over {
            return Some(over);
        }
        if state.orders.disabled.is_some() {
            state.published.show(DrainStatus::NotSupported, DrainRequester::None, context.now);
        }
        return None;
    };
    if let Some(earliest) = state.published.too_early(context.now, context.policy) {
        return Some(earliest);
    }
    state.published.announce(DrainStatus::Complete, requester, context.now);
    if next.is_some() {
        state.orders.answered(requester, &mut state.requests);
    }
    Some(context.now + BETWEEN_ANSWERS)
}
