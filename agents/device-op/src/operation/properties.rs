//! Invariants that hold whatever happens in whatever order, between any two writes of device-op and nodeagent.

use std::path::Path;

use diagram::check_diagram;
use proptest::prelude::*;
use runtime::freeze::Freeze;
use runtime::testing::{Around, SimAgent, SimFaults, any_around, any_run, explored, play_around};
use schemas::{DrainStatus, Operation, Source};

use super::sim::{Plan, RETRY_MS, Sim};
use crate::facts::{Commanded, Kind, Recorded, all_kinds};

/// What may happen around device-op.
#[derive(Clone, Debug)]
enum Happening {
    Around(Around),
    Say(Kind, u32, bool),
    Remove(Kind),
    Garble(Kind),
    NoFolder(Kind),
    Cancel(Kind, u32),
    /// The brake goes on or off.
    Freeze(bool),
    Answer(DrainStatus),
    LoseRequest,
    NodeAgentDies,
    NodeAgentStarts,
    /// An operator's word stands in the report, or does not any more.
    OperatorsWord(bool),
    Boot,
}

/// Two sources are enough to be in each other's way.
fn any_kind() -> impl Strategy<Value = Kind> {
    let source = prop::sample::select(vec![Source::Controller, Source::Controller, Source::Person]);
    (source, prop::sample::select(Operation::ALL.as_slice()))
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let answer = prop::sample::select(DrainStatus::ALL.as_slice());
    prop_oneof![
        36 => any_around(&[1, 1000, RETRY_MS]).prop_map(Happening::Around),
        1 => Just(Happening::Boot),
        4 => (any_kind(), 1..4_u32, prop::bool::weighted(0.8))
            .prop_map(|(kind, counter, desired)| Happening::Say(kind, counter, desired)),
        2 => any_kind().prop_map(Happening::Remove),
        1 => any_kind().prop_map(Happening::Garble),
        1 => any_kind().prop_map(Happening::NoFolder),
        1 => (any_kind(), 1..4_u32).prop_map(|(kind, counter)| Happening::Cancel(kind, counter)),
        1 => prop::bool::weighted(0.3).prop_map(Happening::Freeze),
        3 => answer.prop_map(Happening::Answer),
        6 => Just(Happening::Answer(DrainStatus::Complete)),
        1 => Just(Happening::LoseRequest),
        1 => Just(Happening::NodeAgentDies),
        2 => Just(Happening::NodeAgentStarts),
        1 => any::<bool>().prop_map(Happening::OperatorsWord),
    ]
}

/// Plays one happening; device-op itself moves only in its turns. The invariants are in the simulation.
fn play(sim: &mut Sim, happening: Happening, boots: &mut u32) {
    match happening {
        Happening::Around(around) => play_around(sim, around),
        Happening::Say(kind, counter, desired_state) => sim.write(kind, counter, desired_state),
        Happening::Remove(kind) => {
            sim.commands.insert(kind, Commanded::Absent);
        }
        Happening::Garble(kind) => {
            sim.commands.insert(kind, Commanded::Unreadable);
        }
        Happening::NoFolder(kind) => {
            sim.commands.insert(kind, Commanded::NoFolder);
        }
        Happening::Cancel(kind, counter) => {
            sim.cancelled.insert(kind, counter);
        }
        Happening::Freeze(is_on) => {
            sim.freeze = is_on.then(|| Freeze { words: "frozen".to_owned(), ends_in_ms: None });
        }
        Happening::Answer(status) => sim.zedkube.answer(status),
        Happening::LoseRequest => {
            // Only while nothing goes down: what a person removes by hand under a rebooting device is theirs.
            if sim.command.is_none() && sim.plan == Plan::Look {
                sim.zedkube.request = None;
            }
        }
        Happening::NodeAgentDies => (sim.nodeagent.is_running, sim.plan) = (false, Plan::Look),
        Happening::NodeAgentStarts => sim.nodeagent.is_running = true,
        Happening::OperatorsWord(stands) => sim.zedkube.needs_no_pause = stands,
        Happening::Boot => {
            *boots += 1;
            sim.plan = Plan::Look;
            sim.power_cycle(&format!("boot {boots}"));
        }
    }
}

/// A device to which all this has happened. Whatever was left: it comes to rest.
fn played(happenings: Vec<Happening>) -> Sim {
    let mut sim = Sim::new();
    let mut boots = 1;
    for happening in happenings {
        play(&mut sim, happening, &mut boots);
    }
    sim.faults = SimFaults::default();
    sim.nodeagent.is_running = true;
    sim.freeze = None;
    for _ in 0..20 {
        sim.run();
        sim.answer(DrainStatus::Complete);
        sim.nodeagent_turn();
    }
    sim
}

#[test]
fn the_state_diagram_shows_what_step_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/states-device-op.md");
    let mut boots = 1;
    let play = |sim: &mut Sim, happening| play(sim, happening, &mut boots);
    check_diagram(&page, &explored(Sim::new(), any_happening(), play));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(happenings in any_run(any_happening())) {
        let sim = played(happenings);
        // A drained device with a living nodeagent serves every command.
        for kind in all_kinds() {
            if let Commanded::Given(command) = &sim.commands[&kind] {
                prop_assert_eq!(sim.counters[&kind], Recorded::Counter(command.counter));
            }
        }
    }
}
