//! The state machine of one drain attempt.
//!
//! Level-triggered: each event brings the attempt up to date, then [`advance`] or [`prove`] looks at the whole of it.
//! `docs/reference/states-drain.md` has the diagram; a test holds it to the code.

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{Attempt, Relisted};
use crate::event::{Effect, Event};
use crate::outcome::{Failure, Outcome};
use crate::policy::Policy;
use crate::time::Moment;

/// Proofs lie at least this far apart.
const PROOF_SPACING: Duration = Duration::from_secs(1);

/// Where the drain of the node is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// Nothing to do.
    #[default]
    Idle,
    /// Pods are being moved away.
    Draining(Attempt),
    /// The node looks empty; fresh lists have to prove it.
    Verifying(Attempt, FinalCheck),
    /// Over. The attempt stays for the report.
    Ended(Attempt, Outcome),
}

/// How far the proof is that the node is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalCheck {
    /// When the next fresh list may be asked for.
    next: Moment,
    /// The first of the clean lists in a row.
    clean_since: Option<Moment>,
}

impl FinalCheck {
    /// A clean list has come, and another one has to follow.
    pub fn is_half_done(&self) -> bool {
        self.clean_since.is_some()
    }
}

/// The consequence of an event for the attempt that runs.
enum Next {
    /// The attempt is up to date; look at the whole of it.
    GoOn,
    /// A fresh list shows the node clean.
    Clean,
    /// It is over.
    End(Outcome),
}

/// The next state, and what to do.
pub fn step(state: State, event: Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    match event {
        Event::Start { attempt, api_back } => {
            begin(state, Attempt::new(attempt, now, policy.attempt_timeout, api_back), now, policy)
        }
        Event::Resume { attempt, api_back, record } => {
            begin(state, Attempt::resumed(attempt, now, api_back, *record), now, policy)
        }
        Event::Cancel if matches!(state, State::Idle) => (State::Idle, vec![]),
        Event::Cancel => (State::Idle, vec![Effect::Abort]),
        Event::Snapshot(snapshot) => {
            update(state, now, policy, |attempt, _| attempt.watched(snapshot, now, policy))
        }
        // While the end is proven no pod is left that an answer or findings could be about.
        Event::Answer { attempt: number, uid, answer } => update(state, now, policy, |attempt, check| {
            if check.is_none() && number == attempt.number() {
                attempt.answered(&uid, answer, now, policy);
            }
        }),
        Event::Found { attempt: number, findings } => update(state, now, policy, |attempt, check| {
            if check.is_none() && number == attempt.number() {
                attempt.find(findings);
            }
        }),
        Event::Relisted { attempt: number, result: look } => go_on(state, now, policy, |attempt, _| {
            if number == attempt.number() {
                relisted(attempt.relisted(look, now, policy))
            } else {
                Next::GoOn
            }
        }),
        // An attempt that has seen the node once goes on with what it knows.
        Event::Unseen { why } => go_on(state, now, policy, |attempt, _| match attempt.snapshot() {
            None => Next::End(Outcome::Failed(Failure::Unseen(why))),
            Some(_) => Next::GoOn,
        }),
        Event::ApiAway => update(state, now, policy, |attempt, _| attempt.go_away(now)),
        Event::ApiBack => update(state, now, policy, |attempt, check| {
            attempt.come_back(now, policy);
            if let Some(check) = check {
                check.clean_since = None;
            }
        }),
        Event::Tick => update(state, now, policy, |_, _| {}),
    }
}

fn relisted(relisted: Relisted) -> Next {
    match relisted {
        Relisted::NodeGone => Next::End(Outcome::NodeGone),
        Relisted::Uncordoned => Next::End(Outcome::Failed(Failure::Uncordoned)),
        Relisted::TakenIn { proves: true } => Next::Clean,
        Relisted::TakenIn { proves: false } | Relisted::InVain => Next::GoOn,
    }
}

/// Begins an attempt, unless one runs already: one drain at a time.
fn begin(state: State, attempt: Attempt, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    match state {
        State::Idle | State::Ended(..) => advance(attempt, now, policy),
        State::Draining(_) | State::Verifying(..) => (state, vec![]),
    }
}

fn update(
    state: State,
    now: Moment,
    policy: &Policy,
    change: impl FnOnce(&mut Attempt, Option<&mut FinalCheck>),
) -> (State, Vec<Effect>) {
    go_on(state, now, policy, |attempt, check| {
        change(attempt, check);
        Next::GoOn
    })
}

/// Changes the attempt that runs, and looks at the whole of it. Without one nothing changes: an outcome is final.
fn go_on(
    state: State,
    now: Moment,
    policy: &Policy,
    change: impl FnOnce(&mut Attempt, Option<&mut FinalCheck>) -> Next,
) -> (State, Vec<Effect>) {
    let (mut attempt, mut check) = match state {
        State::Draining(attempt) => (attempt, None),
        State::Verifying(attempt, check) => (attempt, Some(check)),
        State::Idle | State::Ended(..) => return (state, vec![]),
    };
    let next = change(&mut attempt, check.as_mut());
    if let Next::End(outcome) = next {
        return end(attempt, outcome);
    }
    match check.filter(|_| !attempt.has_more_to_do(now, policy)) {
        None => advance(attempt, now, policy),
        Some(check) if matches!(next, Next::Clean) => clean(attempt, check, now, policy),
        Some(check) => verify(attempt, check, now, policy),
    }
}

/// Looks at the whole attempt: over, to be proven, or more to send.
fn advance(mut attempt: Attempt, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if !attempt.is_away() {
        attempt.tick(now, policy);
    }
    if let Some(failure) = attempt.failure(now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    if attempt.may_act() && !attempt.has_more_to_do(now, policy) {
        return verify(attempt, FinalCheck { next: now, clean_since: None }, now, policy);
    }
    let mut effects = Vec::new();
    if attempt.may_act() {
        effects = attempt.send(now, policy);
        if let Some(inquiry) = attempt.inquire(now) {
            effects.push(Effect::Inquire { attempt: attempt.number(), inquiry: Arc::new(inquiry) });
        }
    }
    if !attempt.is_away() && attempt.relist_due().is_some_and(|due| due <= now) {
        effects.push(attempt.ask(false, now, policy));
    }
    effects.push(Effect::WakeAt(attempt.wake_time(now, policy)));
    (State::Draining(attempt), effects)
}

/// Stays in Verifying, and asks for the next fresh list when it is due.
fn verify(mut attempt: Attempt, mut check: FinalCheck, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = attempt.failure(now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    let mut effects = Vec::new();
    let due = |attempt: &Attempt, check: &FinalCheck| Some(attempt.relist_free()?.max(check.next));
    if due(&attempt, &check).is_some_and(|due| due <= now) {
        check.next = now + PROOF_SPACING;
        effects.push(attempt.ask(true, now, policy));
    }
    let next = due(&attempt, &check).unwrap_or(Moment::NEVER);
    effects.push(Effect::WakeAt(next.min(attempt.end_time(now, policy))));
    (State::Verifying(attempt, check), effects)
}

/// A fresh list proves the node drained: enough, or once more later?
fn clean(attempt: Attempt, mut check: FinalCheck, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = attempt.failure(now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    if attempt.is_away() {
        // An answer from before the outage: the clocks stand still and nothing is concluded.
        return verify(attempt, check, now, policy);
    }
    let clean_since = *check.clean_since.get_or_insert(now);
    let settled = if attempt.needs_second_proof() { clean_since + policy.settle } else { clean_since };
    let enough = settled.max(attempt.scheduler_is_fresh_at());
    if enough <= now {
        return end(attempt, Outcome::Drained);
    }
    check.next = check.next.max(enough);
    verify(attempt, check, now, policy)
}

fn end(attempt: Attempt, outcome: Outcome) -> (State, Vec<Effect>) {
    (State::Ended(attempt, outcome), vec![Effect::Abort])
}
