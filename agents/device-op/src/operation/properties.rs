//! The state diagram, drawn from random runs; the simulation checks its invariants on the way.

use std::path::Path;

use diagram::check_diagram;
use proptest::prelude::*;
use runtime::freeze::Freeze;
use runtime::testing::{CommonEvent, any_common_event, explored, play_common_event, window};
use schemas::{DrainStatus, Operation, Source};

use super::sim::{Plan, RETRY_MS, Sim};
use crate::facts::{Commanded, Kind};

#[derive(Clone, Debug)]
enum SimEvent {
    Common(CommonEvent),
    Say(Kind, u32, bool),
    Remove(Kind),
    Garble(Kind),
    NoFolder(Kind),
    Cancel(Kind, u32),
    /// The operator sets or ends a freeze.
    Freeze(bool),
    /// The window opens or closes for the cluster and the host.
    Window(bool),
    /// zedkube begins or ends a pause between two attempts.
    Pause(bool),
    Answer(DrainStatus),
    LoseRequest,
    NodeAgentDies,
    NodeAgentStarts,
    /// The operator's force appears in the report, or disappears.
    OperatorsWord(bool),
    Boot,
}

/// Two sources are enough for conflicts, and one of them waits for the window.
fn any_kind() -> impl Strategy<Value = Kind> {
    let source = prop::sample::select(vec![Source::Cluster, Source::Cluster, Source::Person]);
    (source, prop::sample::select(Operation::ALL.as_slice()))
}

fn any_event() -> impl Strategy<Value = SimEvent> {
    let answer = prop::sample::select(DrainStatus::ALL.as_slice());
    prop_oneof![
        36 => any_common_event(&[1, 1000, RETRY_MS]).prop_map(SimEvent::Common),
        1 => Just(SimEvent::Boot),
        4 => (any_kind(), 1..4_u32, prop::bool::weighted(0.8))
            .prop_map(|(kind, counter, desired)| SimEvent::Say(kind, counter, desired)),
        2 => any_kind().prop_map(SimEvent::Remove),
        1 => any_kind().prop_map(SimEvent::Garble),
        1 => any_kind().prop_map(SimEvent::NoFolder),
        1 => (any_kind(), 1..4_u32).prop_map(|(kind, counter)| SimEvent::Cancel(kind, counter)),
        1 => prop::bool::weighted(0.3).prop_map(SimEvent::Freeze),
        2 => any::<bool>().prop_map(SimEvent::Window),
        1 => any::<bool>().prop_map(SimEvent::Pause),
        3 => answer.prop_map(SimEvent::Answer),
        6 => Just(SimEvent::Answer(DrainStatus::Complete)),
        1 => Just(SimEvent::LoseRequest),
        1 => Just(SimEvent::NodeAgentDies),
        2 => Just(SimEvent::NodeAgentStarts),
        1 => any::<bool>().prop_map(SimEvent::OperatorsWord),
    ]
}

/// Applies one event. device-op itself moves only in its turns. The simulation checks the invariants.
fn play(sim: &mut Sim, event: SimEvent, boots: &mut u32) {
    match event {
        SimEvent::Common(event) => play_common_event(sim, event),
        SimEvent::Say(kind, counter, desired_state) => sim.write(kind, counter, desired_state),
        SimEvent::Remove(kind) => {
            sim.commands.insert(kind, Commanded::Absent);
        }
        SimEvent::Garble(kind) => {
            sim.commands.insert(kind, Commanded::Unreadable);
        }
        SimEvent::NoFolder(kind) => {
            sim.commands.insert(kind, Commanded::NoFolder);
        }
        SimEvent::Cancel(kind, counter) => {
            sim.cancelled.insert(kind, counter);
        }
        SimEvent::Freeze(is_on) => {
            sim.freeze = is_on.then(|| Freeze { words: "frozen".to_owned(), ends_in_ms: None });
        }
        SimEvent::Window(is_open) => sim.window = Some(window(is_open)),
        SimEvent::Pause(is_on) => sim.is_pausing = is_on,
        SimEvent::Answer(status) => sim.zedkube.answer(status),
        SimEvent::LoseRequest => {
            // Only while no operation is under way: a person who removes the request of a rebooting device does so on
            // purpose.
            if sim.command.is_none() && sim.plan == Plan::Look {
                sim.zedkube.request = None;
            }
        }
        SimEvent::NodeAgentDies => (sim.nodeagent.is_running, sim.plan) = (false, Plan::Look),
        SimEvent::NodeAgentStarts => sim.nodeagent.is_running = true,
        SimEvent::OperatorsWord(stands) => sim.zedkube.needs_no_pause = stands,
        SimEvent::Boot => {
            *boots += 1;
            sim.plan = Plan::Look;
            sim.power_cycle(&format!("boot {boots}"));
        }
    }
}

#[test]
fn the_state_diagram_shows_what_step_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/states-device-op.md");
    let mut boots = 1;
    let play = |sim: &mut Sim, event| play(sim, event, &mut boots);
    check_diagram(&page, &explored(Sim::new(), any_event(), play));
}
