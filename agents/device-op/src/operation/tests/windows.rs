//! Tests with a maintenance window: what has to wait for it does not begin outside, and what has begun goes on.

use runtime::testing::{SimAgent, window};
use schemas::CommandState::{Done, Failed, Waiting};
use schemas::{DeviceActionState, DeviceOpState, DeviceOpsCmd, DrainStatus, Operation, Source};

use crate::facts::Commanded;
use crate::operation::sim::{RETRY_MS, Sim, said};
use crate::operation::*;

use Operation::Reboot;
use Source::{Host, Person};

/// A simulation with a window that is closed for the cluster and the host.
fn closed() -> Sim {
    let mut sim = Sim::new();
    opens(&mut sim, false);
    sim
}

fn opens(sim: &mut Sim, is_open: bool) {
    sim.window = Some(window(is_open));
    sim.run();
}

#[test]
fn what_has_to_wait_does_not_begin_outside() {
    for source in Source::ALL {
        let waits = matches!(source, Source::Cluster | Source::Host);
        let mut sim = closed();
        sim.give_by(source, Reboot, 2);
        assert_eq!(sim.zedkube.request.is_none(), waits, "{source}");
        if waits {
            assert_eq!(sim.shown.state, DeviceOpState::Deferred);
            assert_eq!(sim.shown.blocked_by, "outside the window; `ebb reboot --now` does not wait for it");
            assert_eq!(sim.line(source, Reboot), Some((2, Waiting)));
        }
        sim.restart();
        opens(&mut sim, true);
        assert!(sim.zedkube.request.is_some(), "{source}");
        assert_eq!(sim.zedkube.requests_made, 1, "{source}");
    }
}

#[test]
fn a_drain_that_has_begun_goes_on_past_the_end() {
    let mut sim = Sim::new();
    opens(&mut sim, true);
    sim.give_by(Host, Reboot, 2);
    opens(&mut sim, false);
    sim.answer(DrainStatus::Cordoned);
    sim.restart();
    assert_eq!((sim.zedkube.request.is_some(), sim.zedkube.requests_made), (true, 1));
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(DeviceActionState::Acting);
    assert_eq!(sim.command.as_ref().unwrap().0, Reboot);
}

/// A person has removed the file, or the machine stopped before it was written.
#[test]
fn a_request_that_is_lost_is_not_published_again_outside() {
    let mut sim = Sim::new();
    opens(&mut sim, true);
    sim.give_by(Host, Reboot, 2);
    sim.zedkube.request = None;
    opens(&mut sim, false);
    assert_eq!((sim.zedkube.request, sim.shown.state), (None, DeviceOpState::Deferred));
    opens(&mut sim, true);
    assert!(sim.zedkube.request.is_some());
}

/// zedkube's pause between two attempts, and device-op's own after the last one.
#[test]
fn no_further_attempt_begins_outside() {
    for fails in [false, true] {
        let mut sim = Sim::new();
        opens(&mut sim, true);
        sim.give_by(Host, Reboot, 2);
        opens(&mut sim, false);
        if fails {
            sim.answer(DrainStatus::FailedDrain);
            assert_eq!(sim.line(Host, Reboot), Some((2, Failed)));
        } else {
            sim.is_pausing = true;
            sim.answer(DrainStatus::DrainRetrying);
        }
        assert_eq!(
            (sim.zedkube.request, sim.shown.state),
            (None, DeviceOpState::Deferred),
            "the node goes back"
        );
        assert_eq!(
            sim.shown.blocked_by.contains("; the last attempt failed: "),
            fails,
            "{}",
            sim.shown.blocked_by
        );
        sim.is_pausing = false;
        sim.sleep(RETRY_MS);
        assert_eq!(sim.zedkube.request, None, "the window is still closed");
        opens(&mut sim, true);
        assert!(sim.zedkube.request.is_some());
    }
}

/// The person's drain empties the node for the host, too; without it the host waits.
#[test]
fn who_waits_profits_from_a_drain_of_somebody_else_and_does_not_inherit_it() {
    for is_cancelled in [false, true] {
        let mut sim = closed();
        sim.give_by(Host, Reboot, 2);
        sim.give_by(Person, Reboot, 7);
        assert!(sim.zedkube.request.is_some());
        if is_cancelled {
            sim.write((Person, Reboot), 7, false);
            sim.run();
            assert_eq!((sim.zedkube.request, sim.line(Host, Reboot)), (None, Some((2, Waiting))));
        } else {
            sim.answer(DrainStatus::Complete);
            sim.nodeagent(DeviceActionState::Acting);
            sim.boot("boot-2");
            assert_eq!(sim.shown.done[&Host].reboot, Some(2));
        }
    }
}

/// `ebb reboot --at`: also over a restart, and with `--now` at once.
#[test]
fn a_command_waits_for_its_time() {
    let mut sim = Sim::new();
    let Commanded::Given(command) = said(2, true) else { unreachable!() };
    let not_before = (sim.now.wall.timestamp() + jiff::SignedDuration::from_secs(90)).into();
    let command = DeviceOpsCmd { not_before, ..command };
    sim.commands.insert((Person, Reboot), Commanded::Given(command.clone()));
    sim.run();
    assert_eq!((sim.zedkube.request, sim.line(Person, Reboot)), (None, Some((2, Waiting))));
    assert_eq!(
        sim.shown.blocked_by,
        "it is commanded for 2027-01-15T08:01:30Z; `ebb reboot --now` does not wait for that"
    );
    sim.restart();
    let wakes = |sim: &mut Sim| DeviceOp::step(sim.state.clone(), &sim.look(), sim.now, &sim.policy).1;
    assert_eq!(wakes(&mut sim), [Effect::WakeAt(sim.now.boot_ms + 60_000)]);
    let mut urgent = sim.clone();

    sim.now.wall = (sim.now.wall.timestamp() + jiff::SignedDuration::from_secs(60)).into();
    assert_eq!(wakes(&mut sim), [Effect::WakeAt(sim.now.boot_ms + 30_000)]);
    sim.now.wall = not_before;
    sim.run();
    assert!(sim.zedkube.request.is_some());

    urgent
        .commands
        .insert((Person, Reboot), Commanded::Given(DeviceOpsCmd { counter: 3, now: true, ..command }));
    urgent.run();
    assert!(urgent.zedkube.request.is_some());
}

/// The clock of the device jumps, or any boot comes first, which counts as the reboot.
#[test]
fn a_reboot_that_waits_for_its_time_is_done_by_any_boot() {
    let mut sim = Sim::new();
    let Commanded::Given(command) = said(2, true) else { unreachable!() };
    let not_before = "2099-01-01T00:00:00Z".parse().unwrap();
    for operation in [Reboot, Operation::Shutdown] {
        let command = DeviceOpsCmd { not_before, ..command.clone() };
        sim.commands.insert((Person, operation), Commanded::Given(command));
    }
    sim.run();
    sim.boot("boot-2");
    assert_eq!(sim.line(Person, Reboot), Some((2, Done)));
    assert_eq!((sim.line(Person, Operation::Shutdown), sim.zedkube.request), (Some((2, Waiting)), None));
}

#[test]
fn now_does_not_wait() {
    let mut sim = closed();
    let Commanded::Given(command) = said(2, true) else { unreachable!() };
    sim.commands.insert((Host, Reboot), Commanded::Given(DeviceOpsCmd { now: true, ..command }));
    sim.run();
    assert!(sim.zedkube.request.is_some());
}

/// Also where nothing waits: DeviceOpStatus shows the window.
#[test]
fn the_window_is_looked_at_again_when_it_changes_and_each_minute() {
    let mut sim = closed();
    for (left_seconds, wakes_ms) in [(5, 5_000), (3600, 60_000)] {
        let changes_at = sim.now.wall.timestamp() + jiff::SignedDuration::from_secs(left_seconds);
        sim.window.as_mut().unwrap().changes_at = changes_at.into();
        sim.run();
        let (_, effects) = DeviceOp::step(sim.state.clone(), &sim.look(), sim.now, &sim.policy);
        assert_eq!(effects, [Effect::WakeAt(sim.now.boot_ms + wakes_ms)]);
    }
}
