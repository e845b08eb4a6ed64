//! The state diagram, drawn from random runs; the simulation checks its invariants on the way.

use std::path::Path;

use diagram::check_diagram;
use proptest::prelude::*;
use runtime::testing::{CommonEvent, SimAgent, any_common_event, explored, play_common_event};
use schemas::Operation;

use super::sim::{Sim, command};
use super::*;
use crate::facts::Outcome;

#[derive(Clone, Debug)]
enum SimEvent {
    Common(CommonEvent),
    Command(Option<(Operation, u32)>),
    Activating(bool),
    Released(bool),
    Hooks(bool),
    Acted(bool, Outcome),
    Settings(bool, bool),
    Means(usize),
    Boot(bool),
}

fn any_event() -> impl Strategy<Value = SimEvent> {
    let operation = prop::sample::select(Operation::ALL.as_slice());
    let outcome = prop::sample::select(vec![
        Outcome::Started("begun".to_owned()),
        Outcome::Done,
        Outcome::Failed("no".to_owned()),
        Outcome::Absent("nothing".to_owned()),
        Outcome::NoMeans,
    ]);
    prop_oneof![
        20 => any_common_event(&[1, 1000, 300_000]).prop_map(SimEvent::Common),
        4 => prop::option::weighted(0.7, (operation, 1..3_u32)).prop_map(SimEvent::Command),
        2 => any::<bool>().prop_map(SimEvent::Activating),
        2 => prop::bool::weighted(0.7).prop_map(SimEvent::Released),
        3 => prop::bool::weighted(0.8).prop_map(SimEvent::Hooks),
        4 => (prop::bool::weighted(0.8), outcome).prop_map(|(current, outcome)| SimEvent::Acted(current, outcome)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(hooks, dry)| SimEvent::Settings(hooks, dry)),
        1 => (0..2_usize).prop_map(SimEvent::Means),
        1 => any::<bool>().prop_map(SimEvent::Boot),
    ]
}

fn play(sim: &mut Sim, event: SimEvent) {
    let serial = |sim: &Sim, current: bool| if current { sim.running.unwrap_or(0) } else { 0 };
    match event {
        SimEvent::Common(event) => play_common_event(sim, event),
        SimEvent::Command(in_effect) => {
            sim.facts.command = in_effect.map(|(operation, counter)| command(operation, counter));
        }
        SimEvent::Activating(is_activating) => sim.facts.is_activating = is_activating,
        SimEvent::Released(is_released) => sim.facts.is_released = is_released,
        SimEvent::Hooks(current) => {
            let serial = serial(sim, current);
            sim.send(&Event::HooksEnded { serial });
        }
        SimEvent::Acted(current, outcome) => {
            let serial = serial(sim, current);
            sim.send(&Event::Acted { serial, outcome });
        }
        SimEvent::Settings(has_hooks, dry_run) => {
            sim.policy = Policy { has_hooks, dry_run, ..sim.policy };
        }
        SimEvent::Means(count) => {
            sim.send(&Event::MeansFound(vec!["means".to_owned(); count]));
        }
        SimEvent::Boot(is_second) => sim.boot(if is_second { "boot-2" } else { "boot-1" }),
    }
}

#[test]
fn the_state_diagram_shows_what_step_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/states-nodeagent.md");
    let mut start = Sim::new();
    start.means = usize::MAX;
    // A command that was begun too often: a short run does not get that far.
    for _ in 0..DeviceAction::MOST_TRIES {
        start.give(Some(command(Operation::Reboot, 1)));
        start.acted(Outcome::NoMeans);
        start.give(None);
    }
    check_diagram(&page, &explored(start, any_event(), play));
}
