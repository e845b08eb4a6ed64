//! Random runs of simulations: events that can happen to every agent, and the changes of phase that occur.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::sim::SimAgent;
use super::sim::Transition;

/// Number of runs of [`explored`], and of the events in each.
const SHORT_RUNS: usize = 40_000;
const SHORT_RUN: Range<usize> = 1..24;
/// Number of end states that are kept per phase. It is a prime, so that it has no divisor in common with the number
/// of phases.
const MOST_ENDS: usize = 101;

/// An event that can happen to every agent.
#[derive(Clone, Debug)]
pub enum CommonEvent {
    /// A step of the agent; nodeagent takes a turn before each effect that is marked true.
    Turn(Vec<bool>),
    /// A turn of nodeagent.
    NodeAgent,
    /// The effect with this number, counted from now, fails; the flag says whether it takes effect all the same.
    Fail(usize, bool),
    /// The disk accepts no record, or accepts records again.
    FullDisk(bool),
    /// The process dies and starts again.
    Restart,
    /// This number of milliseconds passes.
    Sleep(u64),
}

/// Random events, mostly steps. `naps` are pauses that make a difference to the agent.
pub fn any_common_event(naps: &[u64]) -> impl Strategy<Value = CommonEvent> + use<> {
    prop_oneof![
        20 => prop::collection::vec(prop::bool::weighted(0.3), 0..8).prop_map(CommonEvent::Turn),
        12 => Just(CommonEvent::NodeAgent),
        1 => (0..8_usize, any::<bool>()).prop_map(|(after, done)| CommonEvent::Fail(after, done)),
        1 => prop::bool::weighted(0.4).prop_map(CommonEvent::FullDisk),
        1 => Just(CommonEvent::Restart),
        1 => prop::sample::select(naps.to_vec()).prop_map(CommonEvent::Sleep),
    ]
}

/// Applies an event; the agent itself moves only in its steps. Its simulation checks the invariants.
pub fn play_common_event<A: SimAgent>(sim: &mut A, event: CommonEvent) {
    match event {
        CommonEvent::Turn(nodeagent) => {
            sim.turn_beside(&mut nodeagent.into_iter());
        }
        CommonEvent::NodeAgent => sim.nodeagent_turn(),
        CommonEvent::Fail(after, done) => (sim.faults.after, sim.faults.when_done) = (Some(after), done),
        CommonEvent::FullDisk(is_full) => sim.faults.takes_no_record = is_full,
        CommonEvent::Restart => sim.reload(),
        CommonEvent::Sleep(millis) => sim.now.boot_ms += millis,
    }
}

/// The changes of phase in many short random runs, the same in each test run. Each run starts from the end of an
/// earlier one, chosen so that all phases are equally often the start.
pub fn explored<S: Strategy, A: SimAgent + Clone>(
    start: A,
    any_event: S,
    mut play: impl FnMut(&mut A, S::Value),
) -> BTreeSet<Transition> {
    let (mut runner, any_run) = (TestRunner::deterministic(), prop::collection::vec(any_event, SHORT_RUN));
    let mut seen = BTreeSet::new();
    let mut ends = BTreeMap::from([(A::phase(&start.state), vec![start])]);
    for run in 0..SHORT_RUNS {
        let of_phase = ends.values().nth(run % ends.len()).unwrap();
        let mut sim = of_phase[run % of_phase.len()].clone();
        for event in any_run.new_tree(&mut runner).unwrap().current() {
            play(&mut sim, event);
        }
        seen.append(&mut sim.seen);
        let of_phase = ends.entry(A::phase(&sim.state)).or_default();
        if of_phase.len() < MOST_ENDS { of_phase.push(sim) } else { of_phase[run % MOST_ENDS] = sim }
    }
    seen
}
