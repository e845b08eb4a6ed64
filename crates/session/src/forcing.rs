//! An operator's word: COMPLETE for some or all who ask, or no drains until the next boot.
//!
//! An order is on record before its file is renamed, and carried out after: whatever dies in between, it is neither
//! lost nor carried out twice.

use std::collections::BTreeMap;

use drain::time::Moment;

use crate::attempting;
use crate::effect::Effect;
use crate::policy::Policy;
use crate::requests::{Answer, Request, Requester};
use crate::showing::BETWEEN_ANSWERS;
use crate::state::{Ended, Failed, Outcome, Phase, State};
use crate::step::begin;

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What.
    pub what: Command,
    /// Who says so, and why, in words.
    pub by: String,
}

/// The orders there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The node may go down for this requester; for everybody if that is the operator.
    Complete(Requester),
    /// No drains until the next boot.
    Disable,
    /// Drains again.
    Enable,
}

/// The orders that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forcing {
    /// Recorded; its file is being renamed.
    pub pending: Option<Order>,
    /// COMPLETE for requests that stand or may still come.
    pub complete: Option<Forced>,
    /// No drains.
    pub disabled: Option<Disabled>,
    /// Who forced the answers that stand, and why, by whose request it is.
    pub answered: BTreeMap<Requester, String>,
    /// The last order came when all whom it names had their COMPLETE already: it was spent at once.
    pub needless: Option<Needless>,
}

/// An order that had nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needless {
    /// For whom it was meant; everybody if that is the operator.
    pub requester: Requester,
    /// Who gave it, and why.
    pub by: String,
    /// When it came.
    pub since: Moment,
    /// How the drain had ended.
    pub outcome: Outcome,
}

/// COMPLETE by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// For whom; everybody if that is the operator.
    pub requester: Requester,
    /// Who says so, and why.
    pub by: String,
    /// Since when.
    pub since: Moment,
    /// It has answered a request: others have to ask the cluster again.
    pub used: bool,
    /// Until then it waits for a request.
    pub until: Moment,
}

/// Drains are switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Who says so, and why.
    pub by: String,
    /// Since when.
    pub since: Moment,
}

impl Forcing {
    /// The requester's requests are answered without a drain.
    pub(crate) fn covers(&self, requester: Requester) -> bool {
        let by_force = self
            .complete
            .as_ref()
            .is_some_and(|forced| forced.requester == Requester::Operator || forced.requester == requester);
        self.disabled.is_some() || by_force
    }
}

/// The order's file was read: on record first.
pub(crate) fn ordered(state: &mut State, order: Order, effects: &mut Vec<Effect>) {
    state.forcing.pending = Some(order);
    effects.push(Effect::TakeOverride);
}

/// The file is renamed, so that nobody reads it twice; or it could not be, and then nothing happens.
pub(crate) fn taken(
    state: &mut State,
    renamed: bool,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) {
    let Some(order) = state.forcing.pending.take().filter(|_| renamed) else { return };
    state.forcing.needless = None;
    let Order { what, by } = order;
    match what {
        Command::Complete(requester) if has_all_answers(state, requester) => match outcome(state) {
            outcome @ (Outcome::Drained | Outcome::Forced) => {
                state.forcing.needless = Some(Needless { requester, by, since: now, outcome });
            }
            Outcome::ApiUnreachable | Outcome::NoSchedulablePeer | Outcome::NodeGone => {
                confirm(state, requester, &by, now);
            }
        },
        Command::Complete(requester) => {
            let until = now + policy.force_ttl;
            state.forcing.complete = Some(Forced { requester, by, since: now, used: false, until });
            state.requests.reopen(|request| state.forcing.covers(request.requester));
            enter(state, now, policy, effects);
        }
        Command::Disable => {
            (state.forcing.complete, state.forcing.disabled) = (None, Some(Disabled { by, since: now }));
            state.requests.reopen(|_| true);
            if !state.requests.is_empty() {
                enter(state, now, policy, effects);
            }
        }
        Command::Enable => {
            state.forcing = Forcing::default();
            state.requests.take_forced_back();
            if is_forced(state) {
                state.enter(Phase::Idle, now);
            }
        }
    }
}

/// Whom the order names was told COMPLETE without a drain, an answer that is taken back when its reason is gone. With an
/// operator's word it stands.
fn confirm(state: &mut State, requester: Requester, by: &str, now: Moment) {
    for of in Requester::ANSWERED {
        if (requester == Requester::Operator || requester == of) && state.requests.has_been_told(of) {
            state.requests.answer(of, Answer::Forced);
            state.forcing.answered.insert(of, by.to_owned());
        }
    }
    if !Requester::ANSWERED.into_iter().any(|of| state.requests.has_been_told(of)) {
        state.enter(Phase::Complete { outcome: Outcome::Forced, recheck: None }, now);
    }
}

/// Whom the order names has been told COMPLETE already: an order counts for what it was meant, and must not wait for the
/// next operation.
fn has_all_answers(state: &State, requester: Requester) -> bool {
    let is_meant = |of: Requester| requester == Requester::Operator || requester == of;
    let mut meant = state.requests.iter().filter(|request| is_meant(request.requester)).peekable();
    meant.peek().is_some() && meant.all(|request| matches!(request.answer, Answer::Complete | Answer::Forced))
}

/// Why the answers that stand are COMPLETE.
fn outcome(state: &State) -> Outcome {
    match state.session.ended {
        Some(Ended::Complete(outcome)) => outcome,
        Some(Ended::CordonFailed | Ended::DrainFailed | Ended::Cancelled) | None => Outcome::Forced,
    }
}

/// What was said of requests that are gone, or not forced any more, is over.
fn forget_what_is_over(state: &mut State) {
    let State { forcing, requests, .. } = state;
    forcing.answered.retain(|requester, _| {
        requests.iter().any(|request| request.requester == *requester && request.answer == Answer::Forced)
    });
    if requests.is_empty() {
        forcing.needless = None;
    }
}

/// A request that is covered is answered without a drain, whenever it comes.
pub(crate) fn pursue(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    forget_what_is_over(state);
    if state.forcing.complete.as_ref().is_some_and(|forced| forced.until <= now) {
        state.forcing.complete = None;
    }
    if !is_forced(state) && next_covered(state).is_some() {
        enter(state, now, policy, effects);
    }
}

/// An order that has answered whom it was meant for does not answer who asks after that.
pub(crate) fn spend(state: &mut State) {
    if state.forcing.complete.as_ref().is_some_and(|forced| forced.used) {
        state.forcing.complete = None;
    }
}

/// In force: who is not covered is drained for once all who are have seen their answer, or nobody is left to see it.
pub(crate) fn step(state: &mut State, now: Moment) {
    let is_told = |request: &Request| request.answer == Answer::Forced;
    let is_unseen =
        state.forcing.complete.is_none() && !state.requests.is_empty() && !state.requests.iter().any(is_told);
    if next_covered(state).is_some() || (now < over(state) && !is_unseen) {
        return;
    }
    spend(state);
    if state.requests.next_unanswered().is_some() {
        begin(state, now);
    } else if state.requests.iter().any(|request| request.answer == Answer::Complete) {
        // Some were told so by proof, which has to stay true.
        state.enter(Phase::Complete { outcome: Outcome::Drained, recheck: None }, now);
    } else if state.requests.is_empty() {
        state.enter(Phase::Idle, now);
    } else if let Some(failed) = failed_before(state) {
        state.enter(Phase::Failed(failed), now);
    }
}

/// How the drain had failed for those who ask still, whom the order did not mean.
fn failed_before(state: &State) -> Option<Failed> {
    let text = || "the drain had failed before an operator's order came for somebody else".to_owned();
    state.requests.iter().find_map(|request| match request.answer {
        Answer::FailedCordon => Some(Failed::Cordon(text())),
        Answer::FailedDrain => Some(Failed::Drain(text())),
        Answer::None | Answer::Complete | Answer::Forced => None,
    })
}

/// An order is being carried out: somebody has to see an answer still.
pub fn is_answering(state: &State, now: Moment) -> bool {
    state.forcing.pending.is_some()
        || (is_forced(state) && (next_covered(state).is_some() || now < over(state)))
}

/// The next requester to be answered by force.
pub(crate) fn next_covered(state: &State) -> Option<Requester> {
    let waits =
        |requester: &Requester| state.requests.has_unanswered(*requester) && state.forcing.covers(*requester);
    Requester::ANSWERED.into_iter().find(waits)
}

/// Its answer is shown now.
pub(crate) fn answered(state: &mut State, requester: Requester) {
    state.requests.answer(requester, Answer::Forced);
    let forcing = &mut state.forcing;
    let by_order = forcing.complete.as_ref().map(|forced| &forced.by);
    let by = by_order.or_else(|| forcing.disabled.as_ref().map(|disabled| &disabled.by)).cloned();
    forcing.answered.insert(requester, by.unwrap_or_default());
    if let Some(forced) = &mut forcing.complete {
        forced.used = true;
    }
}

/// The answer shown last has been there for long enough.
pub(crate) fn over(state: &State) -> Moment {
    state.shown.announced_at().unwrap_or(state.since) + BETWEEN_ANSWERS
}

/// The phase is the order's.
pub fn is_forced(state: &State) -> bool {
    matches!(state.phase, Phase::Complete { outcome: Outcome::Forced, .. })
}

/// Whoever else is drained for: it stops before anything is published.
fn enter(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    if state.session.ended.is_none() {
        attempting::drive(state, drain::Event::Cancel, now, policy, effects);
    }
    state.shown.announce_anew();
    state.session.finished = Some(now);
    state.enter(Phase::Complete { outcome: Outcome::Forced, recheck: None }, now);
    // Entering it from itself has to restart its time as well.
    state.since = now;
}
