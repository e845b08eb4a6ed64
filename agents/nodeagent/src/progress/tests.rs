//! The rules of the specification, on a simulated device.

use std::time::Duration;

use runtime::testing::SimAgent;
use schemas::{
    DeviceActionState, DrainRequester, DrainStatus, NodeAgentStatus, NodeDrainStatus, Operation, Source,
};

use super::sim::{Sim, command};
use super::*;
use crate::current_command::Command;
use crate::facts::Outcome;
use crate::policy::STILL_UP;

use DeviceActionState::{Acting, Done, Failed, Idle, Taken};
use Operation::{Poweroff, Reboot, Shutdown};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn from_command_to_action() {
    for operation in [Reboot, Poweroff] {
        let mut sim = Sim::new();
        sim.give(Some(command(operation, 7)));
        assert_eq!(sim.done, ["Taken", "Acting", "reason", "act 0"]);
        assert_eq!((sim.action.command, sim.action.counter), (Some(operation), 7));
        assert_eq!(sim.reason.as_deref(), Some(command(operation, 7).reason.as_str()));
        assert_eq!(sim.status.device_reboot, operation == Reboot);
        assert_eq!(sim.status.device_poweroff, operation == Poweroff);
    }
}

/// D4: EVE's nodeagent starts reboots itself.
#[test]
fn without_a_command_nothing_ever_happens() {
    let mut sim = Sim::new();
    for _ in 0..100 {
        sim.sleep(Duration::from_hours(24 * 7));
    }
    assert!(sim.done.is_empty());
}

#[test]
fn a_command_taken_back_during_the_hooks_is_let_go() {
    for other in [None, Some(command(Reboot, 8)), Some(command(Poweroff, 7))] {
        let mut sim = Sim::new();
        sim.policy.has_hooks = true;
        sim.give(Some(command(Reboot, 7)));
        sim.facts.command = other;
        sim.turn();
        assert_eq!(sim.action.state, DeviceActionState::Idle);
        assert_eq!(sim.running, None, "the hooks are ended");
    }
}

#[test]
fn a_late_end_of_hooks_means_nothing() {
    let mut sim = Sim::new();
    sim.policy.has_hooks = true;
    sim.give(Some(command(Reboot, 7)));
    let late = sim.running.unwrap();
    sim.give(None);
    sim.give(Some(command(Reboot, 8)));
    sim.send(&Event::HooksEnded { serial: late });
    sim.run();
    assert_eq!(sim.action.state, DeviceActionState::Taken);
}

#[test]
fn while_an_image_is_activated_the_device_stays_up() {
    let mut sim = Sim::new();
    sim.facts.is_activating = true;
    sim.give(Some(command(Reboot, 7)));
    sim.sleep(Duration::from_hours(1));
    assert_eq!(sim.done, ["Taken"]);
    let mut taken_back = sim.clone();
    taken_back.give(None);
    assert_eq!(taken_back.action.state, DeviceActionState::Idle);
    sim.facts.is_activating = false;
    sim.run();
    assert_eq!(sim.action.state, DeviceActionState::Acting);
}

/// An agent that does not run cannot take its command back when its answer is revoked.
#[test]
fn a_command_waits_while_what_let_it_go_does_not() {
    for has_hooks in [false, true] {
        let mut sim = Sim::new();
        sim.policy.has_hooks = has_hooks;
        sim.facts.is_released = false;
        sim.give(Some(command(Reboot, 7)));
        sim.sleep(Duration::from_hours(1));
        assert_eq!(sim.done, ["Taken"], "neither hooks nor the point of no return");
        assert_eq!(sim.action.blocked_by, NOT_RELEASED);
        let mut taken_back = sim.clone();
        taken_back.give(None);
        assert_eq!(
            (taken_back.action.state, taken_back.action.blocked_by.as_str()),
            (DeviceActionState::Idle, "")
        );
        sim.facts.is_released = true;
        sim.run();
        if has_hooks {
            sim.facts.is_released = false;
            sim.end_hooks();
            assert_eq!(sim.action.state, DeviceActionState::Taken, "taken back during the hooks");
            sim.facts.is_released = true;
            sim.run();
        }
        assert_eq!(sim.action.state, DeviceActionState::Acting);
        assert_eq!(sim.action.blocked_by, "");
    }
}

#[test]
fn a_reboot_into_another_image_is_another_command() {
    let into = |uuid: &str| Some(Command { image: uuid.to_owned(), ..command(Reboot, 0) });
    let mut sim = Sim::new();
    sim.facts.is_activating = true;
    sim.give(into("a"));
    assert_eq!(sim.action.content_tree_uuid, "a");
    sim.restart();
    assert_eq!(sim.done, ["Taken"], "a restart knows the image");
    sim.facts.command = into("b");
    sim.turn();
    assert_eq!((sim.action.state, sim.action.content_tree_uuid.as_str()), (DeviceActionState::Idle, ""));
    sim.run();
    assert_eq!((sim.action.state, sim.action.content_tree_uuid.as_str()), (DeviceActionState::Taken, "b"));
}

#[test]
fn acting_cannot_be_taken_back() {
    let mut sim = Sim::new();
    sim.give(Some(command(Reboot, 7)));
    sim.give(None);
    assert_eq!(sim.action.state, DeviceActionState::Acting);
    sim.restart();
    assert_eq!(sim.action.state, DeviceActionState::Acting);
    assert_eq!(sim.done, ["Taken", "Acting", "reason", "act 0"], "and after a restart it is waited for");
}

/// nodeagent may stand still for minutes while it writes Acting or the ActionRecord; zedkube may stop, and its node be used
/// again, meanwhile.
#[test]
fn what_is_not_released_any_more_touches_no_device() {
    for restarts in [false, true] {
        let mut sim = Sim::new();
        sim.facts.command = Some(command(Reboot, 7));
        while sim.action.state != Acting {
            sim.turn();
        }
        sim.facts.is_released = false;
        if restarts {
            sim.restart();
        } else {
            sim.run();
        }
        assert_eq!(sim.done, ["Taken", "Acting", "Failed"]);
        assert!(
            sim.action.error.starts_with("cannot reboot: it is not released any more"),
            "{}",
            sim.action.error
        );
        assert_eq!(
            (sim.action.tries, sim.proof.on_disk),
            (0, None),
            "a later boot does not take it as begun"
        );
    }
}

#[test]
fn a_restart_at_taken_goes_on_there() {
    let mut sim = Sim::new();
    sim.policy.has_hooks = true;
    sim.give(Some(command(Reboot, 7)));
    sim.restart();
    assert_eq!(sim.done, ["Taken", "hooks", "hooks"]);
    sim.end_hooks();
    assert_eq!(sim.action.state, DeviceActionState::Acting);
    let mut taken_back = Sim::new();
    taken_back.facts.is_activating = true;
    taken_back.give(Some(command(Reboot, 7)));
    taken_back.facts.command = None;
    taken_back.restart();
    assert_eq!(taken_back.action.state, DeviceActionState::Idle);
}

#[test]
fn a_device_that_stays_up_gets_the_next_means_and_then_fails() {
    for answer in
        [Some(Outcome::Started("begun".to_owned())), Some(Outcome::Failed("exit 1".to_owned())), None]
    {
        let mut sim = Sim::new();
        sim.means = 2;
        sim.give(Some(command(Reboot, 7)));
        for means in 0..2 {
            assert_eq!(sim.done.last().unwrap(), &format!("act {means}"));
            if let Some(answer) = answer.clone() {
                sim.acted(answer);
            }
            if !matches!(answer, Some(Outcome::Failed(_))) {
                sim.sleep(STILL_UP.saturating_sub(SECOND));
                assert_eq!(sim.done.last().unwrap(), &format!("act {means}"), "not yet");
                sim.sleep(SECOND);
            }
        }
        sim.acted(Outcome::NoMeans);
        assert_eq!(sim.action.state, DeviceActionState::Failed);
        assert!(sim.action.error.starts_with("cannot reboot, no means is left: "), "{}", sim.action.error);
        assert_eq!(sim.action.error.matches(';').count(), 1, "both reasons: {}", sim.action.error);
        assert_eq!(sim.reason, None, "the next boot will have another reason");
        sim.give(None);
        assert_eq!((sim.action.state, sim.action.command, sim.action.error.as_str()), (Idle, None, ""));
    }
}

#[test]
fn a_device_without_means_says_what_to_set() {
    let mut sim = Sim::new();
    sim.means = 1;
    sim.give(Some(command(Poweroff, 7)));
    sim.acted(Outcome::Absent("no systemd-logind".to_owned()));
    sim.acted(Outcome::NoMeans);
    assert_eq!(
        sim.action.error,
        "cannot poweroff: this device has no means for it; set device.command (no systemd-logind)"
    );
}

#[test]
fn what_a_device_does_not_have_is_passed_at_once_and_is_no_error() {
    let mut sim = Sim::new();
    sim.means = 2;
    sim.give(Some(command(Reboot, 7)));
    sim.acted(Outcome::Absent("no systemd-logind".to_owned()));
    assert_eq!(sim.done.last().unwrap(), "act 1");
    sim.acted(Outcome::Failed("exit 1".to_owned()));
    sim.acted(Outcome::NoMeans);
    assert_eq!(sim.action.error, "cannot reboot, no means is left: exit 1");
}

/// logind may have waited for an inhibitor: the services that it stops then have the full five minutes.
#[test]
fn the_five_minutes_begin_when_the_device_begins_to_go_down() {
    let mut sim = Sim::new();
    sim.give(Some(command(Reboot, 7)));
    sim.sleep(STILL_UP.saturating_sub(SECOND));
    sim.acted(Outcome::Started("logind has begun".to_owned()));
    sim.sleep(STILL_UP.saturating_sub(SECOND));
    assert_eq!(sim.done.last().unwrap(), "act 0", "not yet");
    sim.sleep(SECOND);
    assert_eq!(sim.done.last().unwrap(), "act 1");
    sim.acted(Outcome::NoMeans);
    assert_eq!(
        sim.action.error,
        "cannot reboot, no means is left: logind has begun, but the device is still up after 5 minutes"
    );
}

#[test]
fn what_gave_no_answer_is_said() {
    for (operation, words) in [
        (Reboot, "no answer, and the device is still up after 5 minutes"),
        (Shutdown, "it has not ended within 5 minutes"),
    ] {
        let mut sim = Sim::new();
        sim.give(Some(command(operation, 7)));
        sim.sleep(STILL_UP);
        sim.acted(Outcome::NoMeans);
        assert!(sim.action.error.ends_with(words), "{}", sim.action.error);
    }
}

#[test]
fn the_reason_outlives_a_restart_without_its_command() {
    let mut sim = Sim::new();
    sim.give(Some(command(Reboot, 7)));
    let reason = sim.reason.clone();
    sim.facts.command = None;
    sim.restart();
    sim.sleep(STILL_UP);
    assert_eq!(sim.done.last().unwrap(), "act 1", "the next means");
    assert_eq!(sim.reason, reason);
}

#[test]
fn a_late_answer_of_a_means_is_no_answer_of_the_next() {
    let mut sim = Sim::new();
    sim.give(Some(command(Reboot, 7)));
    let late = sim.running.unwrap();
    sim.sleep(STILL_UP);
    sim.send(&Event::Acted { serial: late, outcome: Outcome::NoMeans });
    assert_eq!(sim.action.state, DeviceActionState::Acting);
}

#[test]
fn a_shutdown_is_done_and_lasts_until_it_is_cleared() {
    let mut sim = Sim::new();
    sim.give(Some(command(Shutdown, 7)));
    assert_eq!(sim.done, ["Taken", "Acting", "act 0"], "the device stays up, so no reason is left");
    assert!(sim.status.device_shutdown && !sim.status.all_domains_halted);
    sim.acted(Outcome::Done);
    for _ in 0..2 {
        assert_eq!(sim.action.state, DeviceActionState::Done);
        assert!(sim.status.device_shutdown && sim.status.all_domains_halted);
        sim.restart();
    }
    sim.give(None);
    assert_eq!(sim.action.state, DeviceActionState::Idle);
    assert!(!sim.status.all_domains_halted);
}

/// device-op may have taken its command back just too late, and publishes it again.
#[test]
fn a_shutdown_that_is_done_is_not_done_again() {
    let mut sim = Sim::new();
    sim.give(Some(command(Shutdown, 7)));
    sim.acted(Outcome::Done);
    sim.give(None);
    assert_eq!((sim.action.state, sim.action.shutdown_done), (DeviceActionState::Idle, Some(7)));
    sim.restart();
    sim.give(Some(command(Shutdown, 7)));
    assert_eq!(sim.done, ["Taken", "Acting", "act 0", "Done", "Idle", "Taken", "Done"]);
    assert!(sim.status.all_domains_halted);
    sim.give(Some(command(Shutdown, 8)));
    assert_eq!(sim.action.state, DeviceActionState::Acting, "another command is carried out");
}

#[test]
fn a_dry_run_only_acts_once_and_stands() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        sim.policy = Policy { has_hooks: true, dry_run: true, ..sim.policy };
        sim.give(Some(command(operation, 7)));
        assert_eq!(sim.done, ["Taken", "Acting", "act 0"], "no hooks, no reason");
        nothing_is_under_way(&sim.status);
        sim.acted(Outcome::Done);
        nothing_is_under_way(&sim.status);
        sim.restart();
        assert_eq!(sim.done, ["Taken", "Acting", "act 0", "Done"]);
        nothing_is_under_way(&sim.status);
        sim.give(Some(command(operation, 8)));
        sim.acted(Outcome::Done);
        assert_eq!((sim.action.counter, sim.action.state), (8, DeviceActionState::Done));
    }
}

#[track_caller]
fn nothing_is_under_way(status: &NodeAgentStatus) {
    let shown =
        [status.device_reboot, status.device_shutdown, status.device_poweroff, status.all_domains_halted];
    assert_eq!(shown, [false; 4], "a dry run does nothing");
}

#[test]
fn a_dry_run_that_is_switched_meanwhile_begins_anew() {
    for dry_run in [false, true] {
        let mut sim = Sim::new();
        sim.means = 3;
        sim.policy.dry_run = dry_run;
        sim.give(Some(command(Shutdown, 7)));
        sim.policy.dry_run = !dry_run;
        let mut done = sim.clone();
        done.acted(Outcome::Done);
        assert_eq!(done.status.all_domains_halted, !dry_run, "what was begun counts");
        sim.acted(Outcome::Failed("exit 1".to_owned()));
        assert_eq!(sim.done.last().unwrap(), "act 0");
        sim.acted(Outcome::Failed("exit 2".to_owned()));
        sim.acted(Outcome::NoMeans);
        assert_eq!(sim.action.error, "cannot shutdown, no means is left: exit 2");
    }
}

#[test]
fn whether_a_drain_is_in_progress_follows_every_look() {
    let mut sim = Sim::new();
    for (status, expected) in [(DrainStatus::Requested, true), (DrainStatus::Complete, false)] {
        sim.facts.drain = Some(NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp });
        sim.run();
        assert_eq!(sim.status.wait_drain_in_progress, expected, "{status}");
    }
}

/// A `/run` that is kept over a boot, with Acting in it, must not reboot the device in each boot again.
#[test]
fn what_another_boot_began_is_over() {
    for state in [Taken, Acting, Done, Failed] {
        let mut sim = Sim::new();
        sim.facts.is_activating = state == Taken;
        sim.give(Some(command(Reboot, 7)));
        match state {
            Done => sim.acted(Outcome::Done),
            Failed => sim.acted(Outcome::NoMeans),
            Idle | Taken | Acting => {}
        }
        assert_eq!(sim.action.state, state);
        sim.facts.is_activating = false;
        sim.boot("boot-2");
        let expected = DeviceAction {
            schema_version: 1,
            boot_id: "boot-2".to_owned(),
            since: sim.action.since,
            ..DeviceAction::default()
        };
        assert_eq!(sim.action, expected, "{state:?}");
        assert_eq!(sim.done, ["Idle"], "and nothing is used");
    }
}

/// A `device.command` that restarts only userspace is used again after each start of nodeagent, up to a limit.
#[test]
fn a_means_is_not_used_again_by_a_restart() {
    let mut sim = Sim::new();
    sim.means = 2;
    sim.give(Some(command(Reboot, 7)));
    for _ in 0..4 {
        sim.sleep(SECOND);
        sim.restart();
    }
    assert_eq!(sim.done, ["Taken", "Acting", "reason", "act 0"]);
    sim.sleep(STILL_UP.saturating_sub(5 * SECOND));
    assert_eq!(sim.done.last().unwrap(), "act 0", "not yet");
    sim.sleep(SECOND);
    assert_eq!(sim.done.last().unwrap(), "act 1", "the rest of its time is over");
    // The answer of the first process is lost; that it began is not.
    sim.restart();
    sim.sleep(STILL_UP);
    sim.acted(Outcome::NoMeans);
    assert_eq!(sim.action.state, Failed);
    assert!(sim.action.error.ends_with("no answer, and the device is still up after 5 minutes"));
}

/// An operation that logind has begun has its full time, also over a restart.
#[test]
fn the_time_of_what_was_begun_outlives_a_restart() {
    let mut sim = Sim::new();
    sim.give(Some(command(Reboot, 7)));
    sim.sleep(4 * Duration::from_mins(1));
    sim.acted(Outcome::Started("logind has begun".to_owned()));
    sim.restart();
    sim.sleep(STILL_UP.saturating_sub(SECOND));
    assert_eq!(sim.done.last().unwrap(), "act 0");
    sim.sleep(SECOND);
    assert_eq!(sim.done.last().unwrap(), "act 1");
}

#[test]
fn a_command_is_begun_three_times_in_one_boot() {
    let mut sim = Sim::new();
    sim.means = 1;
    for tries in 1..=5 {
        sim.done.clear();
        sim.give(Some(command(Reboot, 7)));
        if tries <= DeviceAction::MOST_TRIES {
            assert_eq!((sim.action.state, sim.action.tries), (Acting, tries));
            sim.restart();
            sim.sleep(STILL_UP);
            sim.acted(Outcome::NoMeans);
        } else {
            assert_eq!(sim.done, ["Taken", "Failed"]);
            assert!(sim.action.error.contains("3 times in this boot"), "{}", sim.action.error);
        }
        assert_eq!((sim.action.state, sim.proof.on_disk.clone()), (Failed, None));
        sim.give(None);
        sim.restart();
    }
    for other in
        [command(Reboot, 8), command(Poweroff, 7), Command { source: Source::Person, ..command(Reboot, 7) }]
    {
        sim.give(Some(other));
        assert_eq!((sim.action.state, sim.action.tries), (Acting, 1), "another command");
        sim.acted(Outcome::NoMeans);
        sim.give(None);
    }
}

/// A shutdown has only one means, and its end was not seen: it is begun again, but not before its time is over.
#[test]
fn a_shutdown_whose_end_was_not_seen_is_begun_again_after_its_time() {
    let mut sim = Sim::new();
    sim.give(Some(command(Shutdown, 7)));
    for tries in 1..=DeviceAction::MOST_TRIES {
        assert_eq!((sim.action.state, sim.action.tries), (Acting, tries));
        sim.restart();
        sim.sleep(STILL_UP);
    }
    sim.acted(Outcome::NoMeans);
    assert_eq!(sim.action.state, Failed);
    assert_eq!(sim.done.iter().filter(|done| *done == "act 0").count(), 3);
}

#[test]
fn the_proof_is_on_disk_before_the_device_is_touched() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        sim.facts.is_activating = true;
        sim.give(Some(Command { source: Source::Host, ..command(operation, 7) }));
        assert_eq!(sim.proof.on_disk, None, "Taken is no proof");
        sim.facts.is_activating = false;
        sim.run();
        let proof = sim.proof.on_disk.clone().unwrap();
        assert_eq!((proof.source, proof.command, proof.counter), (Source::Host, Some(operation), 7));
        assert_eq!((proof.boot_id.as_str(), proof.tries), ("boot-1", 1));
    }
}

#[test]
fn without_a_proof_nothing_is_done_but_on_an_operators_word() {
    let mut sim = Sim::new();
    sim.faults.takes_no_record = true;
    for _ in 0..5 {
        sim.give(Some(command(Poweroff, 7)));
        assert_eq!(sim.done, ["Taken", "Acting", "Failed"]);
        assert!(sim.action.error.starts_with("cannot poweroff: ActionRecord: disk full; "));
        assert_eq!((sim.action.state, sim.action.tries, sim.reason.clone()), (Failed, 0, None));
        sim.give(None);
        sim.done.clear();
    }
    sim.give(Some(Command { without_record: true, ..command(Poweroff, 7) }));
    assert_eq!(sim.done, ["Taken", "Acting", "reason", "act 0"]);
    let mut again = Sim::new();
    again.faults.takes_no_record = true;
    again.give(Some(command(Poweroff, 7)));
    again.give(None);
    again.faults.takes_no_record = false;
    again.give(Some(command(Poweroff, 7)));
    assert_eq!(again.action.state, Acting, "a disk that takes it again");
}

/// A crash after Failed is published and before the record is removed.
#[test]
fn what_has_failed_leaves_no_proof() {
    let mut sim = Sim::new();
    sim.give(Some(command(Poweroff, 7)));
    let proof = sim.proof.clone();
    sim.acted(Outcome::NoMeans);
    sim.proof = proof;
    sim.restart();
    assert_eq!((sim.action.state, sim.proof.on_disk.clone()), (Failed, None));
}

/// The disk takes no writes when a failure is to be noted: that is tried again with pauses, and nothing waits for it.
#[test]
fn a_record_that_cannot_be_removed_is_removed_later() {
    let mut sim = Sim::new();
    sim.give(Some(command(Poweroff, 7)));
    let proof = sim.proof.on_disk.clone();
    sim.keeps_record = true;
    sim.acted(Outcome::NoMeans);
    assert_eq!((sim.action.state, &sim.proof.on_disk), (Failed, &proof));
    sim.give(None);
    assert_eq!((sim.action.state, &sim.proof.on_disk), (Idle, &proof));
    sim.sleep(60 * SECOND);
    assert_eq!(sim.proof.on_disk, proof, "still");
    sim.keeps_record = false;
    sim.sleep(30 * SECOND);
    assert_eq!(sim.proof.on_disk, None);
}

#[test]
fn the_means_are_told_while_nothing_is_commanded() {
    let mut sim = Sim::new();
    assert_eq!(sim.action.means, None, "not known yet");
    for means in [vec![], vec!["device.command".to_owned()]] {
        sim.send(&Event::MeansFound(means.clone()));
        sim.run();
        assert_eq!((sim.action.state, sim.action.means.clone()), (Idle, Some(means)));
    }
}

#[test]
fn a_shutdown_of_another_source_is_another_shutdown() {
    let mut sim = Sim::new();
    sim.give(Some(command(Shutdown, 7)));
    sim.acted(Outcome::Done);
    sim.give(Some(Command { source: Source::Person, ..command(Shutdown, 7) }));
    assert_eq!(sim.action.state, Acting);
}
