//! The state diagram, drawn from random runs; the simulation checks its invariants on the way.

use std::path::Path;

use diagram::check_diagram;
use proptest::prelude::*;
use runtime::testing::{CommonEvent, SimAgent, any_common_event, explored, play_common_event, window};
use schemas::{BaseOsHoldState, DeviceActionState, DrainStatus, Source, SwState};

use super::sim::{A, B, Plan, RETRY_MS, Sim, config, version_of};
use super::*;
use crate::facts::{Content, Running};

#[derive(Clone, Debug)]
enum SimEvent {
    Common(CommonEvent),
    Want(&'static str, u32, bool),
    Remove(&'static str),
    Garble(&'static str),
    Content(&'static str, bool),
    Answer(DrainStatus),
    End(bool, Result<(), String>),
    NodeAgentDies,
    NodeAgentStarts,
    /// nodeagent begins or ends an operation for device-op.
    Other(DeviceActionState),
    /// The operator's force appears in the report, or disappears.
    OperatorsWord(bool),
    /// baseos is killed, and its activate command goes on.
    Kill,
    /// An activate command of an earlier process ends.
    LeftEnds,
    Freeze(bool),
    /// The window opens or closes for the cluster and the host.
    Window(bool),
    /// zedkube begins or ends a pause between two attempts.
    Pause(bool),
    /// The cluster or the controller wants the first image.
    OfCluster(bool),
    CanActivate(bool),
    Boot(u8),
    DryRun(bool),
}

fn any_uuid() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![A, B])
}

fn any_result() -> impl Strategy<Value = Result<(), String>> {
    prop::bool::weighted(0.7).prop_map(|ok| if ok { Ok(()) } else { Err("exit 1".to_owned()) })
}

fn any_event() -> impl Strategy<Value = SimEvent> {
    let answer = prop::sample::select(DrainStatus::ALL.as_slice());
    let states = [
        DeviceActionState::Idle,
        DeviceActionState::Taken,
        DeviceActionState::Acting,
        DeviceActionState::Done,
        DeviceActionState::Failed,
    ];
    prop_oneof![
        36 => any_common_event(&[1, 1000, RETRY_MS]).prop_map(SimEvent::Common),
        4 => (any_uuid(), 1..3_u32, prop::bool::weighted(0.8))
            .prop_map(|(uuid, counter, activate)| SimEvent::Want(uuid, counter, activate)),
        1 => any_uuid().prop_map(SimEvent::Remove),
        1 => any_uuid().prop_map(SimEvent::Garble),
        1 => (any_uuid(), prop::bool::weighted(0.8)).prop_map(|(uuid, is)| SimEvent::Content(uuid, is)),
        2 => answer.prop_map(SimEvent::Answer),
        6 => Just(SimEvent::Answer(DrainStatus::Complete)),
        6 => (prop::bool::weighted(0.9), any_result()).prop_map(|(current, result)| SimEvent::End(current, result)),
        1 => Just(SimEvent::NodeAgentDies),
        2 => Just(SimEvent::NodeAgentStarts),
        2 => prop::sample::select(states.to_vec()).prop_map(SimEvent::Other),
        1 => any::<bool>().prop_map(SimEvent::OperatorsWord),
        2 => Just(SimEvent::Kill),
        2 => Just(SimEvent::LeftEnds),
        1 => prop::bool::weighted(0.3).prop_map(SimEvent::Freeze),
        2 => any::<bool>().prop_map(SimEvent::Window),
        1 => any::<bool>().prop_map(SimEvent::Pause),
        1 => any::<bool>().prop_map(SimEvent::OfCluster),
        1 => prop::bool::weighted(0.8).prop_map(SimEvent::CanActivate),
        1 => (0..4_u8).prop_map(SimEvent::Boot),
        1 => prop::bool::weighted(0.2).prop_map(SimEvent::DryRun),
    ]
}

/// Applies one event. baseos itself moves only in its turns. The simulation checks the invariants.
fn play(sim: &mut Sim, event: SimEvent, boots: &mut u32) {
    match event {
        SimEvent::Common(event) => play_common_event(sim, event),
        SimEvent::Want(uuid, counter, activate) => {
            let config = BaseOsConfig { activate, ..config(uuid, counter) };
            sim.configs.insert(uuid.to_owned(), Configured::Given(config));
        }
        SimEvent::Remove(uuid) => {
            sim.configs.remove(uuid);
        }
        SimEvent::Garble(uuid) => {
            sim.configs.insert(uuid.to_owned(), Configured::Unreadable);
        }
        SimEvent::Content(uuid, is_loaded) => {
            let state = if is_loaded { SwState::LOADED } else { SwState::VERIFIED };
            sim.contents.insert(uuid.to_owned(), Content { state, error: String::new() });
        }
        SimEvent::Answer(status) => sim.zedkube.answer(status),
        SimEvent::End(current, result) => end(sim, current, result),
        SimEvent::NodeAgentDies => (sim.nodeagent.is_running, sim.plan) = (false, Plan::Look),
        SimEvent::NodeAgentStarts => sim.nodeagent.is_running = true,
        SimEvent::Other(state) => other(sim, state),
        SimEvent::OperatorsWord(stands) => sim.zedkube.needs_no_pause = stands,
        SimEvent::Kill => {
            sim.outlives = true;
            sim.reload();
            sim.outlives = false;
        }
        SimEvent::LeftEnds => sim.left_running = None,
        SimEvent::Freeze(is_frozen) => sim.frozen = is_frozen.then(|| "frozen".to_owned()),
        SimEvent::Window(is_open) => sim.window = Some(window(is_open)),
        SimEvent::Pause(is_on) => sim.is_pausing = is_on,
        SimEvent::OfCluster(is) => {
            let source = if is { Source::Cluster } else { Source::Controller };
            sim.sources.insert(A.to_owned(), Origin { source, ..Origin::default() });
        }
        SimEvent::CanActivate(can) => sim.policy.can_activate = can,
        SimEvent::Boot(running) => {
            *boots += 1;
            sim.plan = Plan::Look;
            sim.power_cycle(&format!("boot {boots}"));
            sim.running = match running {
                0 => Running::Untold { system: String::new() },
                1 => Running::Unknown("no answer".to_owned()),
                2 => Running::Version(version_of(A)),
                _ => Running::Version("old".to_owned()),
            };
        }
        SimEvent::DryRun(dry_run) => sim.policy.dry_run = dry_run,
    }
}

fn end(sim: &mut Sim, current: bool, result: Result<(), String>) {
    if !current {
        sim.send(&Event::Ended { serial: u32::MAX, result });
    } else if let Some(serial) = sim.command.take() {
        sim.send(&Event::Ended { serial, result });
    }
}

/// nodeagent takes a command of device-op only from Idle, and not while an image is being activated.
fn other(sim: &mut Sim, state: DeviceActionState) {
    let Some(action) = &sim.nodeagent.action else { return };
    let is_free = action.state == DeviceActionState::Idle && sim.plan == Plan::Look;
    let is_others = action.counter != 0;
    let is_activating = sim.hold.state == BaseOsHoldState::Activating || sim.left_running.is_some();
    let stays = is_activating && state == DeviceActionState::Acting;
    if sim.nodeagent.is_running && (is_free || is_others) && !stays {
        sim.nodeagent_about(state, if state == DeviceActionState::Idle { 0 } else { 7 });
    }
}

#[test]
fn the_state_diagram_shows_what_step_does() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/states-baseos.md");
    let mut boots = 1;
    let play = |sim: &mut Sim, event| play(sim, event, &mut boots);
    check_diagram(&page, &explored(Sim::new(), any_event(), play));
}
