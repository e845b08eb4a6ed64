//! State machine of one drain attempt.
//!
//! Level-triggered: each event updates the attempt, then [`advance`] or [`verify`] decides from the whole attempt.
//! `docs/reference/states-drain.md` has the diagram; a test compares it with the code.
//!
//! Only a fresh list from the server ends an attempt as drained: that a watch shows no pods proves nothing, because
//! caches are late. If pods kept coming, two lists are needed, `drain.settle` apart. After an outage of the API server
//! no list counts for 60 s, because a scheduler with a stale cache binds pods to a cordoned node for up to 44 s (M5 in
//! `docs/reference/measured.md`).

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{Attempt, Relisted};
use crate::event::{Effect, Event};
use crate::outcome::{Failure, Outcome};
use crate::policy::Policy;
use crate::time::Moment;

/// Shortest time between two lists of the final check.
const FINAL_CHECK_SPACING: Duration = Duration::from_secs(1);

/// State of the drain of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// No attempt has begun.
    #[default]
    Idle,
    /// Pods are being evicted.
    Draining(Attempt),
    /// Final check: all pods seem to be gone, and fresh lists must confirm it.
    Verifying(Attempt, FinalCheck),
    /// The attempt has ended. It is kept for the report.
    Ended(Attempt, Outcome),
}

/// Progress of the final check, which confirms that the node is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalCheck {
    /// Earliest time for the next fresh list.
    next: Moment,
    /// Time of the first clean list, if all lists since then were clean.
    clean_since: Option<Moment>,
}

impl FinalCheck {
    /// True if one clean list has come and a second one must follow.
    pub fn is_half_done(&self) -> bool {
        self.clean_since.is_some()
    }
}

/// Consequence of an event for the running attempt.
enum Next {
    /// The attempt is updated; decide from its whole state.
    GoOn,
    /// A fresh list of the final check has shown the node empty.
    Clean,
    /// The attempt has ended.
    End(Outcome),
}

/// Applies an event. Returns the next state and the effects.
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
        // During the final check no pod is left that an answer or findings could be about.
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
        Event::Relisted { attempt: number, result } => go_on(state, now, policy, |attempt, _| {
            if number == attempt.number() {
                relisted(attempt.relisted(result, now, policy))
            } else {
                Next::GoOn
            }
        }),
        // An attempt that already has a snapshot continues with it.
        Event::Unseen { why } => go_on(state, now, policy, |attempt, _| match attempt.snapshot() {
            None => Next::End(Outcome::Failed(Failure::Unseen(why))),
            Some(_) => Next::GoOn,
        }),
        Event::ApiAway => update(state, now, policy, |attempt, _| attempt.go_away(now, policy)),
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
        Relisted::Applied { proves: true } => Next::Clean,
        Relisted::Applied { proves: false } | Relisted::Failed => Next::GoOn,
    }
}

/// Begins an attempt, unless another one runs: a node has one drain at a time.
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

/// Changes the running attempt and decides from its whole state. Without a running attempt nothing changes: an outcome
/// is final.
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
    if check.is_some() && attempt.has_more_to_do(now, policy) {
        attempt.end_final_check();
        check = None;
    }
    match check {
        None => advance(attempt, now, policy),
        Some(check) if matches!(next, Next::Clean) => clean(attempt, check, now, policy),
        Some(check) => verify(attempt, check, now, policy),
    }
}

/// Decides from the whole attempt: end it, begin the final check, or send more evictions.
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
    if !attempt.is_away() && attempt.relist_due(policy).is_some_and(|due| due <= now) {
        effects.push(attempt.ask(false, now, policy));
    }
    effects.push(Effect::WakeAt(attempt.wake_time(now, policy)));
    (State::Draining(attempt), effects)
}

/// Continues the final check, and asks for the next fresh list when it is due.
fn verify(mut attempt: Attempt, mut check: FinalCheck, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = attempt.failure(now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    let mut effects = Vec::new();
    let due = |attempt: &Attempt, check: &FinalCheck| Some(attempt.relist_free()?.max(check.next));
    if due(&attempt, &check).is_some_and(|due| due <= now) {
        check.next = now + FINAL_CHECK_SPACING;
        effects.push(attempt.ask(true, now, policy));
    }
    let next = due(&attempt, &check).unwrap_or(Moment::NEVER);
    effects.push(Effect::WakeAt(next.min(attempt.end_time(now, policy))));
    (State::Verifying(attempt, check), effects)
}

/// Handles a clean list in the final check: the drain ends, or a second list must follow later.
fn clean(attempt: Attempt, mut check: FinalCheck, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
    if let Some(failure) = attempt.failure(now, policy) {
        return end(attempt, Outcome::Failed(failure));
    }
    if attempt.is_away() {
        // The answer was sent before the outage: ignore it, because all clocks stand still during an outage.
        return verify(attempt, check, now, policy);
    }
    let clean_since = *check.clean_since.get_or_insert(now);
    let settled = if attempt.needs_second_check() { clean_since + policy.settle } else { clean_since };
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
