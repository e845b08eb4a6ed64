//! Random runs of simulations: what may happen around every agent, and which changes of phase occur.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::sim::SimAgent;
use super::sim::Transition;

/// The longest run.
const MOST_HAPPENINGS: usize = 120;

/// The runs of [`explored`], and how many happenings each has.
const SHORT_RUNS: usize = 20_000;
const SHORT_RUN: Range<usize> = 1..24;
/// So many ends of them are kept of each phase; a number that no count of phases divides.
const MOST_ENDS: usize = 101;

/// What may happen around every agent.
#[derive(Clone, Debug)]
pub enum Around {
    /// One turn of the agent; nodeagent does something before the effects that are true.
    Turn(Vec<bool>),
    /// nodeagent does one thing.
    NodeAgent,
    /// The effect of this number, counted from now, fails; done or not.
    Fail(usize, bool),
    /// The disk takes no record, or does again.
    FullDisk(bool),
    /// The process dies and starts again.
    Restart,
    /// So many milliseconds pass.
    Sleep(u64),
}

/// Mostly turns. `naps` are pauses that make a difference to the agent.
pub fn any_around(naps: &[u64]) -> impl Strategy<Value = Around> + use<> {
    prop_oneof![
        20 => prop::collection::vec(prop::bool::weighted(0.3), 0..8).prop_map(Around::Turn),
        12 => Just(Around::NodeAgent),
        1 => (0..8_usize, any::<bool>()).prop_map(|(after, done)| Around::Fail(after, done)),
        1 => prop::bool::weighted(0.4).prop_map(Around::FullDisk),
        1 => Just(Around::Restart),
        1 => prop::sample::select(naps.to_vec()).prop_map(Around::Sleep),
    ]
}

/// Plays one; the agent itself moves only in its turns. The invariants are in its simulation.
pub fn play_around<A: SimAgent>(sim: &mut A, around: Around) {
    match around {
        Around::Turn(nodeagent) => {
            sim.turn_beside(&mut nodeagent.into_iter());
        }
        Around::NodeAgent => sim.nodeagent_turn(),
        Around::Fail(after, done) => (sim.faults.after, sim.faults.when_done) = (Some(after), done),
        Around::FullDisk(is_full) => sim.faults.takes_no_record = is_full,
        Around::Restart => sim.reload(),
        Around::Sleep(millis) => sim.now.boot_ms += millis,
    }
}

/// Random runs of an agent.
pub fn any_run<S: Strategy>(any_happening: S) -> impl Strategy<Value = Vec<S::Value>> {
    prop::collection::vec(any_happening, 1..MOST_HAPPENINGS)
}

/// The changes of phase in many short random runs, which are the same ones each time. Each run goes on from where an
/// earlier one has ended, so that all phases are left equally often.
pub fn explored<S: Strategy, A: SimAgent + Clone>(
    start: A,
    any_happening: S,
    mut play: impl FnMut(&mut A, S::Value),
) -> BTreeSet<Transition> {
    let (mut runner, any_run) =
        (TestRunner::deterministic(), prop::collection::vec(any_happening, SHORT_RUN));
    let mut seen = BTreeSet::new();
    let mut ends = BTreeMap::from([(A::phase(&start.state), vec![start])]);
    for run in 0..SHORT_RUNS {
        let of_phase = ends.values().nth(run % ends.len()).unwrap();
        let mut sim = of_phase[run % of_phase.len()].clone();
        for happening in any_run.new_tree(&mut runner).unwrap().current() {
            play(&mut sim, happening);
        }
        seen.append(&mut sim.seen);
        let of_phase = ends.entry(A::phase(&sim.state)).or_default();
        if of_phase.len() < MOST_ENDS { of_phase.push(sim) } else { of_phase[run % MOST_ENDS] = sim }
    }
    seen
}
