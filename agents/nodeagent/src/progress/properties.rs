//! Invariants that hold whatever happens in whatever order; they are checked in the simulation.

use proptest::prelude::*;
use schemas::Operation;

use super::sim::{Sim, command};
use super::*;

#[derive(Clone, Debug)]
enum Happening {
    Command(Option<(Operation, u32)>),
    Activating(bool),
    Released(bool),
    Look,
    Hooks(bool),
    Acted(bool, Outcome),
    Settings(bool, bool),
    FullDisk(bool),
    Means(usize),
    Boot(bool),
    Fail(usize),
    Restart,
    Sleep(u64),
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let operation = prop::sample::select(Operation::ALL.as_slice());
    let outcome = prop::sample::select(vec![
        Outcome::Started("begun".to_owned()),
        Outcome::Done,
        Outcome::Failed("no".to_owned()),
        Outcome::Absent("nothing".to_owned()),
        Outcome::NoMeans,
    ]);
    prop_oneof![
        4 => prop::option::weighted(0.7, (operation, 1..3_u32)).prop_map(Happening::Command),
        2 => any::<bool>().prop_map(Happening::Activating),
        2 => prop::bool::weighted(0.7).prop_map(Happening::Released),
        10 => Just(Happening::Look),
        3 => prop::bool::weighted(0.8).prop_map(Happening::Hooks),
        4 => (prop::bool::weighted(0.8), outcome).prop_map(|(current, outcome)| Happening::Acted(current, outcome)),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(hooks, dry)| Happening::Settings(hooks, dry)),
        1 => (0..5_usize).prop_map(Happening::Fail),
        1 => Just(Happening::Restart),
        1 => prop::bool::weighted(0.4).prop_map(Happening::FullDisk),
        1 => (0..2_usize).prop_map(Happening::Means),
        1 => any::<bool>().prop_map(Happening::Boot),
        2 => prop::sample::select(vec![1, 1000, 300_000]).prop_map(Happening::Sleep),
    ]
}

fn play(sim: &mut Sim, happening: Happening) {
    let serial = |sim: &Sim, current: bool| if current { sim.running.unwrap_or(0) } else { 0 };
    match happening {
        Happening::Command(standing) => {
            sim.facts.command = standing.map(|(operation, counter)| command(operation, counter));
        }
        Happening::Activating(is_activating) => sim.facts.is_activating = is_activating,
        Happening::Released(is_released) => sim.facts.is_released = is_released,
        Happening::Look => {
            sim.look();
        }
        Happening::Hooks(current) => {
            let serial = serial(sim, current);
            sim.send(&Event::HooksEnded { serial });
        }
        Happening::Acted(current, outcome) => {
            let serial = serial(sim, current);
            sim.send(&Event::Acted { serial, outcome });
        }
        Happening::Settings(has_hooks, dry_run) => {
            sim.policy = Policy { has_hooks, dry_run, ..sim.policy };
        }
        Happening::FullDisk(is_full) => sim.takes_no_proof = is_full,
        Happening::Means(count) => {
            sim.send(&Event::MeansFound(vec!["means".to_owned(); count]));
        }
        Happening::Boot(is_second) => sim.boot(if is_second { "boot-2" } else { "boot-1" }),
        Happening::Fail(after) => sim.fails_after = Some(after),
        Happening::Restart => sim.restart(),
        Happening::Sleep(millis) => sim.now.boot_ms += millis,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold(happenings in prop::collection::vec(any_happening(), 1..80)) {
        let mut sim = Sim::new();
        sim.means = usize::MAX;
        for happening in happenings {
            play(&mut sim, happening);
        }
    }
}
