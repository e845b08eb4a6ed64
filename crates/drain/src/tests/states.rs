//! The diagrams of `docs/reference/states-drain.md` show what happens: no transition more, and none less.
//!
//! `UPDATE_DIAGRAMS=1` rewrites them; the words behind each arrow stay.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::tests::properties::{any_event, any_policy};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/states-drain.md");

/// So many random runs reach each transition.
const RUNS: usize = 16_000;

/// The arrows of one diagram.
type Arrows = BTreeSet<(String, String)>;

thread_local! {
    static OF_PODS: RefCell<Arrows> = RefCell::default();
}

/// A pod enters a stage. Called by the machine itself: within one step a pod can go through several stages.
pub(crate) fn note(from: Option<&Stage>, to: &Stage) {
    if from.map(std::mem::discriminant) != Some(std::mem::discriminant(to)) {
        let arrow = (from.map_or("[*]", Stage::name), to.name());
        OF_PODS.with_borrow_mut(|arrows| arrows.insert((arrow.0.to_owned(), arrow.1.to_owned())));
    }
}

fn name_of(state: &State) -> &'static str {
    match state {
        State::Idle => "Idle",
        State::Draining(_) => "Draining",
        State::Verifying(..) => "Verifying",
        State::Ended(_, Outcome::Drained) => "Drained",
        State::Ended(_, Outcome::NodeGone) => "NodeGone",
        State::Ended(_, Outcome::Failed(_)) => "Failed",
    }
}

/// Random runs, the same ones each time. The arrows of the attempt, and those of the pods.
fn explore() -> [Arrows; 2] {
    OF_PODS.take();
    let mut of_attempt = BTreeSet::new();
    let mut runner = TestRunner::deterministic();
    let run = (prop::collection::vec((any_event(), 0..20_000_u64), 1..40), any_policy());
    for _ in 0..RUNS {
        let (events, policy) = run.new_tree(&mut runner).expect("a run").current();
        let (mut state, mut now) = (State::Idle, Moment(1_000_000));
        for (event, millis) in events {
            now = now + Duration::from_millis(millis);
            let before = name_of(&state);
            let is_over = matches!(state, State::Ended(..));
            let event = aimed(event, &state, millis);
            state = step(state, event, now, &policy).0;
            if !is_over && state != State::Idle && name_of(&state) != before {
                of_attempt.insert((before.to_owned(), name_of(&state).to_owned()));
            }
        }
    }
    [of_attempt, OF_PODS.take()]
}

/// The event, made to concern the attempt that runs: purely random ones mostly miss. `random` decides whether the pods of
/// the last snapshot stay.
fn aimed(event: Event, state: &State, random: u64) -> Event {
    let (State::Draining(attempt) | State::Verifying(attempt, _)) = state else {
        return event;
    };
    match event {
        Event::Answer { uid, answer, .. } => {
            let sent = attempt.pods().values().find(|track| track.is_in_flight());
            let uid = sent.map_or(uid, |track| track.id().uid.clone());
            Event::Answer { attempt: attempt.number(), uid, answer }
        }
        Event::Snapshot(snapshot) if !random.is_multiple_of(4) => {
            let known = attempt.snapshot().map(|known| known.pods.clone()).unwrap_or_default();
            let is_new = |pod: &PodView| snapshot.pods.iter().all(|other| other.id.uid != pod.id.uid);
            let mut pods: Vec<PodView> = known.into_iter().filter(is_new).collect();
            pods.extend(snapshot.pods.iter().cloned());
            pods.sort_by(|a, b| a.id.cmp(&b.id));
            Event::Snapshot(Arc::new(Snapshot { pods, node: Some(node(true)), ..Snapshot::clone(&snapshot) }))
        }
        Event::Relisted { result, .. } => Event::Relisted { attempt: attempt.number(), result },
        Event::Start { .. }
        | Event::Resume { .. }
        | Event::Cancel
        | Event::Snapshot(_)
        | Event::Found { .. }
        | Event::Unseen { .. }
        | Event::ApiAway
        | Event::ApiBack
        | Event::Tick => event,
    }
}

#[test]
fn the_diagrams_show_what_happens() {
    let [of_attempt, of_pods] = explore();
    diagram::check_diagrams(Path::new(PAGE), &[&of_attempt, &of_pods]);
}
