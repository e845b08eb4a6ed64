//! The rules of the specification, each named after the EVE defect that it avoids, if there is one.

mod sources;
mod windows;

use runtime::settings::Retry;
use runtime::testing::SimAgent;
use schemas::{DeviceAction, DeviceActionState, DeviceOpState, DrainStatus, Member, Operation, Source};

use super::sim::{RETRY_MS, Sim, controllers, said};
use super::*;
use crate::facts::{Commanded, Recorded};
use crate::record::OperationRecord;

use DeviceActionState::{Acting, Done, Failed, Idle, Taken};
use Operation::{Poweroff, Reboot, Shutdown};

/// A device whose reboot 2 has a COMPLETE of zedkube.
fn released() -> Sim {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.command.as_ref().unwrap().0, Reboot);
    sim
}

fn shown(sim: &Sim) -> (Option<Operation>, u32, DeviceOpState) {
    (sim.shown.operation, sim.shown.counter, sim.shown.state)
}

#[test]
fn from_command_to_hand_over() {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    assert_eq!(sim.done, ["record", "counter reboot 2", "record", "request reboot"]);
    assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::Deferred));
    sim.done.clear();
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.done, ["record", "command reboot"]);
    assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::HandedOver));
    assert!(sim.command.unwrap().1.contains("zedkube answered the request"));
}

/// An earlier version recorded the operation alone (`AskedFor`), and a later one the command beside it. Without that the
/// drain, whose pods have left, is requested once more.
#[test]
fn a_drain_that_an_earlier_version_has_requested_goes_on() {
    for (has_attempt, requests_made) in [(true, 1), (false, 2)] {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        let mut earlier = serde_json::to_value(&sim.record.disk).unwrap();
        earlier["AskedFor"] = "reboot".into();
        if !has_attempt {
            earlier.as_object_mut().unwrap().remove("Attempt");
        }
        sim.record.write(serde_json::from_value(earlier).unwrap());
        sim.restart();
        sim.answer(DrainStatus::Complete);
        sim.answer(DrainStatus::Complete);
        assert_eq!(sim.zedkube.requests_made, requests_made, "{has_attempt}");
        assert_eq!(sim.command.as_ref().unwrap().0, Reboot, "{has_attempt}");
    }
}

#[test]
fn a_device_that_is_no_member_asks_nobody() {
    let mut sim = Sim::new();
    sim.zedkube.member = Member::No;
    sim.give(Poweroff, 2);
    assert_eq!(sim.done, ["record", "counter poweroff 2", "record", "command poweroff"]);
}

/// D1: in EVE a second command, or a command at CORDONED, is released.
#[test]
fn no_status_in_progress_and_no_second_command_lets_it_through() {
    for status in DrainStatus::ALL.into_iter().filter(|status| !status.is_failed()) {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        sim.answer(status);
        sim.give(Reboot, 3);
        sim.give(Shutdown, 2);
        assert_eq!(sim.command.is_some(), status == DrainStatus::Complete, "{status}");
    }
}

/// D2: an operation that EVE has deferred once is later carried out without a drain. D3: a command of EVE's local
/// profile server never requests one.
#[test]
fn an_operation_that_was_deferred_still_needs_the_gate() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        sim.give(operation, 2);
        for defer in [DrainStatus::Unknown, DrainStatus::FailedDrain] {
            sim.answer(defer);
            sim.nodeagent_about(Idle, None);
            sim.restart();
            sim.sleep(24 * 3_600_000);
            assert_eq!(sim.command, None, "{operation}");
            assert_eq!(sim.zedkube.request.unwrap().1, operation);
        }
    }
}

/// D9: EVE acts on a change of the status that an unrelated change can cause.
#[test]
fn only_what_the_gate_says_now_counts() {
    let mut sim = released();
    sim.answer(DrainStatus::Unknown);
    assert_eq!(sim.command, None, "the verdict fell back");
    assert_eq!(sim.state.phase, Phase::Deferred);
    sim.answer(DrainStatus::Complete);
    assert!(sim.command.is_some());
    sim.nodeagent(Taken);
    sim.answer(DrainStatus::Unknown);
    assert_eq!(sim.command, None);
    assert_eq!(sim.state.phase, Phase::Recalling(AfterRelease::Defer), "nodeagent still has it");
    sim.nodeagent(Idle);
    assert_eq!(sim.state.phase, Phase::Deferred);
    assert!(sim.zedkube.request.is_some(), "the request stands throughout");
}

/// D18: EVE waits for ever for a change that it has missed.
#[test]
fn an_answer_counts_although_no_drain_was_seen_in_progress() {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    sim.done.clear();
    sim.zedkube.answer = sim.zedkube.request.map(|(requested_at, _)| (requested_at, DrainStatus::Complete));
    sim.restart();
    assert!(sim.done.contains(&"command reboot".to_owned()), "{:?}", sim.done);
}

/// D21: each time that EVE reads an old status it publishes another request, and zedkube starts another drain.
#[test]
fn a_request_that_stands_is_not_made_again() {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    let request = sim.zedkube.request;
    for status in DrainStatus::ALL.into_iter().filter(|status| !status.is_failed()) {
        sim.answer(status);
        sim.give(Reboot, 3 + u32::from(status.code()));
        sim.restart();
        sim.sleep(RETRY_MS);
    }
    assert_eq!((sim.zedkube.request, sim.zedkube.requests_made), (request, 1));
}

/// D11: after a failed drain EVE never tries again.
#[test]
fn a_failed_drain_is_tried_again_later_or_for_a_new_command() {
    for failed in [DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        sim.answer(failed);
        assert_eq!(sim.zedkube.request, None, "withdrawn");
        assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::Failed));
        assert!(!sim.shown.next_try.is_zero());
        let line = sim.shown.commands.first().map(|line| line.reason.clone()).unwrap();
        let (error, next_try) = (&sim.shown.blocked_by, sim.shown.next_try);
        assert_eq!(line, format!("{error}; tried again at {next_try}; a new command tries again at once"));

        let mut later = sim.clone();
        later.sleep(RETRY_MS - 1);
        assert_eq!(later.zedkube.request, None);
        later.restart();
        assert_eq!(later.zedkube.request, None, "a restart does not cut the pause short");
        later.sleep(1);
        assert!(later.zedkube.request.is_some(), "the pause is over");

        let mut commanded = sim.clone();
        commanded.give(Reboot, 3);
        assert!(commanded.zedkube.request.is_some(), "a new counter");
        let mut other = sim.clone();
        other.give(Poweroff, 2);
        assert_eq!(other.zedkube.request.unwrap().1, Poweroff);

        sim.policy.retry = Retry::Never;
        sim.sleep(1000 * RETRY_MS);
        assert_eq!(sim.zedkube.request, None, "0 = wait for a new command");
        sim.give(Reboot, 3);
        assert!(sim.zedkube.request.is_some());
    }
}

/// D11.
#[test]
fn an_operation_that_failed_is_cleared_and_tried_again_later() {
    let mut sim = released();
    sim.nodeagent(Acting);
    sim.nodeagent(Failed);
    assert_eq!(sim.command, None);
    assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::Failed));
    assert!(sim.zedkube.request.is_some(), "nodeagent has not let go yet");
    sim.nodeagent(Idle);
    assert_eq!(sim.zedkube.request, None);
    assert_eq!(sim.shown.blocked_by, "no means");
    sim.sleep(RETRY_MS);
    assert!(sim.zedkube.request.is_some());
}

/// D11.
#[test]
fn an_operators_word_cuts_the_pause_after_a_failed_drain_short() {
    for retry in [Retry::After(std::time::Duration::from_millis(RETRY_MS)), Retry::Never] {
        let mut sim = Sim::new();
        sim.policy.retry = retry;
        sim.give(Reboot, 2);
        sim.answer(DrainStatus::FailedDrain);
        assert_eq!(sim.zedkube.request, None);
        sim.zedkube.needs_no_pause = true;
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{retry:?}");
        sim.answer(DrainStatus::Complete);
        assert!(sim.command.is_some());
        // An operator's force does not help after a failure of nodeagent: the operation would be attempted without
        // end.
        sim.nodeagent(Acting);
        sim.nodeagent(Failed);
        sim.nodeagent(Idle);
        assert_eq!(sim.state.phase, Phase::Failed);
    }
}

#[test]
fn a_pause_is_that_of_the_operation_that_failed() {
    let mut sim = released();
    sim.give(Poweroff, 2);
    sim.nodeagent_about(Failed, sim.record.memory.as_ref().unwrap().handed_over);
    assert_eq!(sim.command, None);
    sim.nodeagent_about(Idle, None);
    assert_eq!(shown(&sim), (Some(Poweroff), 2, DeviceOpState::Deferred), "it has not failed");
    sim.remove(Poweroff);
    assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::Failed));
    assert_eq!(sim.zedkube.request, None);
    sim.sleep(RETRY_MS);
    assert!(sim.zedkube.request.is_some());
}

#[test]
fn a_new_command_does_not_wait_although_the_old_one_is_just_being_recalled() {
    let mut sim = released();
    let first = sim.record.memory.as_ref().unwrap().handed_over;
    sim.nodeagent_about(Failed, first);
    assert!(matches!(sim.state.phase, Phase::Recalling(AfterRelease::Fail(_))));
    sim.give(Reboot, 3);
    let before = sim.zedkube.request;
    sim.nodeagent_about(Idle, None);
    // The old answer was kept while nodeagent was about to go down, whatever came to the node in that time.
    assert_eq!((sim.command.is_some(), sim.zedkube.request > before), (false, true));
    sim.answer(DrainStatus::Complete);
    assert_eq!((sim.command.is_some(), sim.shown.counter), (true, 3));
}

/// D11: the failure is on disk before the command is cleared.
#[test]
fn a_crash_while_a_failed_operation_is_recalled_does_not_try_it_again_at_once() {
    for effects_done in 0..8 {
        let mut sim = released();
        sim.nodeagent(Acting);
        sim.done.clear();
        sim.faults.after = Some(effects_done);
        sim.nodeagent(Failed);
        sim.reload();
        sim.nodeagent_until_rest();
        let cleared = sim.done.iter().position(|done| done == "clear").expect("cleared");
        let is_given = sim.done[cleared..].iter().any(|done| done.starts_with("command"));
        assert!(!is_given, "after {effects_done}: {:?}", sim.done);
        assert_eq!(
            (sim.state.phase.clone(), sim.zedkube.request),
            (Phase::Failed, None),
            "after {effects_done}"
        );
    }
}

/// D14: EVE cannot cancel a command.
#[test]
fn a_command_taken_back_before_the_release_leaves_nothing() {
    for take_back in [Sim::remove, |sim: &mut Sim, operation| sim.say(operation, 2, false)] {
        for answer in [DrainStatus::Unknown, DrainStatus::FailedDrain] {
            let mut sim = Sim::new();
            sim.give(Reboot, 2);
            sim.answer(answer);
            take_back(&mut sim, Reboot);
            assert_eq!((sim.zedkube.request, sim.command.clone(), sim.pending()), (None, None, vec![]));
            assert_eq!(shown(&sim), (None, 0, DeviceOpState::Idle));
            sim.give(Reboot, 2);
            assert_eq!(sim.zedkube.request, None, "its counter is done");
        }
    }
}

/// D14.
#[test]
fn a_take_back_after_the_release_waits_for_nodeagent() {
    let mut sim = released();
    sim.nodeagent(Taken);
    sim.done.clear();
    sim.remove(Reboot);
    assert_eq!(sim.done, ["clear"], "cleared, then nodeagent's file decides");
    let mut dead = sim.clone();
    sim.nodeagent(Idle);
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
    dead.nodeagent.is_running = false;
    dead.run();
    assert_eq!((dead.zedkube.request, dead.pending()), (None, vec![]), "Taken with a free lock");
}

/// D14: on a disk that accepts no writes, the parts of a take-back that need no write are done.
#[test]
fn a_take_back_that_cannot_be_recorded_still_gives_the_node_back() {
    let waiting = || {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        sim
    };
    // Any change of the record that could not be written: another command, or the result of one.
    let not_recorded = |prepare: fn(&mut Sim)| {
        let mut sim = released();
        sim.faults.takes_no_record = true;
        prepare(&mut sim);
        sim.run_a_few_steps();
        sim
    };
    let another = |sim: &mut Sim| {
        sim.commands.insert(controllers(Shutdown), said(2, true));
        sim.run_a_few_steps();
        sim.commands.insert(controllers(Shutdown), Commanded::Absent);
    };
    let done = |sim: &mut Sim| sim.nodeagent_ends(Done);
    let failed = |sim: &mut Sim| sim.nodeagent_ends(Failed);
    let sims = [waiting(), released(), not_recorded(another), not_recorded(done), not_recorded(failed)];
    for (number, mut sim) in sims.into_iter().enumerate() {
        sim.faults.takes_no_record = true;
        sim.commands.insert(controllers(Reboot), Commanded::Absent);
        for _ in 0..3 {
            sim.run_a_few_steps();
            // nodeagent finds the command cleared.
            sim.nodeagent_turn();
        }
        assert_eq!((sim.command.clone(), sim.zedkube.request), (None, None), "{number}");
        sim.reload();
        sim.run_a_few_steps();
        assert_eq!((sim.command.clone(), sim.zedkube.request), (None, None), "{number}");
        sim.faults.takes_no_record = false;
        sim.run();
        assert_eq!((sim.pending(), sim.state.phase.clone()), (vec![], Phase::Idle), "{number}");
    }
}

/// D14.
#[test]
fn a_command_that_was_seen_again_after_a_boot_can_be_taken_back_by_removing_it() {
    for is_accepted_before_it_is_removed in [false, true] {
        let mut sim = Sim::new();
        sim.give(Shutdown, 2);
        sim.boot("boot-2");
        assert!(sim.zedkube.request.is_some());
        if is_accepted_before_it_is_removed {
            sim.give(Shutdown, 2);
            sim.restart();
        }
        sim.remove(Shutdown);
        assert_eq!(sim.zedkube.request.is_some(), !is_accepted_before_it_is_removed);
    }
}

/// D14.
#[test]
fn a_take_back_that_is_too_late_is_refused() {
    for sees_acting_only_after_the_clear in [true, false] {
        let mut sim = released();
        sim.nodeagent(if sees_acting_only_after_the_clear { Taken } else { Acting });
        sim.remove(Reboot);
        sim.nodeagent(Acting);
        assert!(sim.zedkube.request.is_some());
        assert!(sim.shown.blocked_by.contains("too late"), "{}", sim.shown.blocked_by);
        assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::HandedOver));
        // If the device stays up, the take-back takes effect.
        sim.nodeagent(Failed);
        sim.nodeagent(Idle);
        assert_eq!((sim.command.clone(), sim.zedkube.request, sim.pending()), (None, None, vec![]));
    }
}

/// A command that was cleared too late is not published again: nodeagent may have failed meanwhile, and would begin
/// it again.
#[test]
fn a_command_that_was_cleared_needs_the_gate_again() {
    let mut sim = released();
    sim.nodeagent(Taken);
    sim.answer(DrainStatus::Unknown);
    sim.nodeagent(Acting);
    assert_eq!(sim.command, None);
    sim.nodeagent(Failed);
    sim.nodeagent(Idle);
    assert_eq!((sim.command.clone(), sim.state.phase.clone()), (None, Phase::Deferred));
    sim.answer(DrainStatus::Complete);
    assert!(sim.command.is_some());
}

#[test]
fn an_unreadable_nodeagent_is_waited_for() {
    let mut sim = released();
    sim.nodeagent.action = None;
    sim.remove(Reboot);
    assert!(sim.zedkube.request.is_some());
    assert_eq!(sim.command, None);
    sim.nodeagent(Idle);
    assert_eq!(sim.zedkube.request, None);
}

/// The progress of an operation when the power was cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Waiting,
    HandedOver,
    /// nodeagent has taken the command: hooks and inhibitors may last for minutes.
    Taken,
    /// nodeagent's own record is on disk.
    Acting,
}

/// D16: a command must not be lost if nodeagent had taken it and not begun.
#[test]
fn what_a_power_cut_leaves() {
    use schemas::CommandState as State;
    let all = [Before::Waiting, Before::HandedOver, Before::Taken, Before::Acting];
    for (operation, before) in
        Operation::ALL.into_iter().flat_map(|all_of| all.map(|before| (all_of, before)))
    {
        let mut sim = Sim::new();
        sim.give(operation, 2);
        if before != Before::Waiting {
            sim.answer(DrainStatus::Complete);
        }
        match before {
            Before::Waiting | Before::HandedOver => {}
            Before::Taken => sim.nodeagent(Taken),
            Before::Acting => sim.nodeagent(Acting),
        }
        sim.boot("boot-2");
        let expected = match (operation, before) {
            (Reboot, _) | (_, Before::Acting) => State::Done,
            (Shutdown, _) => State::Waiting,
            (Poweroff, _) => State::Failed,
        };
        let is_still_due = expected == State::Waiting;
        assert_eq!(
            sim.line(Source::Controller, operation),
            Some((2, expected)),
            "{operation}, {before:?} before the boot"
        );
        let done = sim.shown.done.get(&Source::Controller).and_then(|done| done.get(operation));
        assert_eq!(done, (expected == State::Done).then_some(2), "carried out, not merely accepted");
        assert_eq!(sim.zedkube.request.is_some(), is_still_due, "{operation}, {before:?}");
        // The boot has removed its file; only `DesiredState` false takes it back now.
        sim.restart();
        assert_eq!(sim.zedkube.request.is_some(), is_still_due);
        sim.answer(DrainStatus::Complete);
        assert_eq!(sim.command.is_some(), is_still_due);
        sim.restart();
        assert_eq!(sim.command.is_some(), is_still_due, "this boot's hand-over is not the last boot's");
        // A controller publishes all commands again after a boot: none of them begins again.
        sim.give(operation, 2);
        assert_eq!(sim.command.is_some(), is_still_due, "{operation}, {before:?}");
        sim.say(operation, 2, false);
        assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
    }
}

/// A device that was just switched on does not switch itself off, and that is shown.
#[test]
fn a_poweroff_that_the_power_came_before_has_failed_until_it_is_commanded_again() {
    let mut sim = Sim::new();
    sim.give(Poweroff, 2);
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(Taken);
    sim.boot("boot-2");
    assert_eq!(shown(&sim), (Some(Poweroff), 2, DeviceOpState::Failed));
    assert!(
        sim.shown.blocked_by.contains("the power was cut before it began: command it again"),
        "{}",
        sim.shown.blocked_by
    );
    sim.sleep(1000 * RETRY_MS);
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]), "it is not tried again");
    let mut later = sim.clone();
    later.boot("boot-3");
    assert_eq!(shown(&later).2, DeviceOpState::Idle, "of an earlier boot it is told only when asked for");
    assert_eq!(later.line(Source::Controller, Poweroff), Some((2, schemas::CommandState::Failed)));
    let mut taken_back = sim.clone();
    taken_back.say(Poweroff, 2, false);
    assert_eq!(shown(&taken_back), (None, 0, DeviceOpState::Idle));
    sim.give(Poweroff, 3);
    assert!(sim.zedkube.request.is_some());
}

/// An ActionRecord of an earlier command with the same counter proves nothing.
#[test]
fn only_the_boot_that_was_told_to_go_down_counts_as_the_proof() {
    let mut sim = Sim::new();
    sim.give(Poweroff, 5);
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(Acting);
    sim.boot("boot-2");
    sim.give(Poweroff, 6);
    sim.say(Poweroff, 6, false);
    sim.give(Poweroff, 5);
    sim.answer(DrainStatus::Complete);
    sim.boot("boot-3");
    assert_eq!(sim.line(Source::Controller, Poweroff), Some((5, schemas::CommandState::Failed)));
}

/// D16.
#[test]
fn a_boot_between_record_and_counter_repeats_no_reboot() {
    let mut sim = Sim::new();
    sim.commands.insert(controllers(Reboot), said(2, true));
    sim.faults.after = Some(1);
    sim.turn();
    assert_eq!((sim.record.memory.is_some(), sim.recorded(Reboot)), (true, Recorded::Counter(1)));
    sim.boot("boot-2");
    assert_eq!(sim.recorded(Reboot), Recorded::Counter(2));
    sim.give(Reboot, 2);
    assert_eq!(sim.zedkube.request, None);
}

/// D16: a crash while the command of a finished shutdown is cleared for the next operation.
#[test]
fn what_is_done_is_not_carried_out_once_more() {
    for effects_done in 0..12 {
        for fails_when_done in [false, true] {
            let mut sim = Sim::new();
            sim.give(Shutdown, 2);
            sim.answer(DrainStatus::Complete);
            sim.nodeagent(Acting);
            sim.nodeagent(Done);
            sim.done.clear();
            (sim.faults.after, sim.faults.when_done) = (Some(effects_done), fails_when_done);
            sim.give(Poweroff, 2);
            sim.reload();
            sim.nodeagent_until_rest();
            sim.answer(DrainStatus::Complete);
            sim.answer(DrainStatus::Complete);
            assert_eq!(sim.command.as_ref().unwrap().0, Poweroff, "after {effects_done}: {:?}", sim.done);
            assert!(
                !sim.done.contains(&"command shutdown".to_owned()),
                "after {effects_done}: {:?}",
                sim.done
            );
        }
    }
}

/// D16: zedkube revokes its answer when nodeagent has already begun.
#[test]
fn a_shutdown_that_is_recalled_too_late_is_not_carried_out_once_more() {
    for restarts in [false, true] {
        let mut sim = Sim::new();
        sim.give(Shutdown, 2);
        sim.answer(DrainStatus::Complete);
        sim.nodeagent(Taken);
        sim.done.clear();
        sim.answer(DrainStatus::Unknown);
        assert_eq!((sim.command.clone(), sim.done.as_slice()), (None, ["clear".to_owned()].as_slice()));
        sim.nodeagent(Acting);
        if restarts {
            sim.reload();
        }
        // nodeagent carried it out and released it between two snapshots.
        let idle = DeviceAction { shutdown_done: Some(2), ..DeviceAction::default() };
        sim.nodeagent.action = Some(idle);
        sim.run();
        assert_eq!(shown(&sim), (Some(Shutdown), 2, DeviceOpState::HandedOver));
        assert!(sim.record.disk.as_ref().unwrap().is_done);
        assert!(sim.zedkube.request.is_some(), "the node is down for it");
        sim.answer(DrainStatus::Complete);
        assert!(!sim.done.contains(&"command shutdown".to_owned()), "{:?}", sim.done);
        sim.say(Shutdown, 2, false);
        assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
    }
}

/// If nodeagent's progress is lost, nodeagent must not find the command of an operation that is done.
#[test]
fn a_nodeagent_that_forgot_does_not_begin_what_is_done() {
    let mut sim = Sim::new();
    sim.give(Shutdown, 2);
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(Acting);
    sim.nodeagent(Done);
    sim.nodeagent_about(Idle, None);
    assert_eq!(sim.command, None);
    assert_eq!(shown(&sim), (Some(Shutdown), 2, DeviceOpState::HandedOver));
    assert!(sim.zedkube.request.is_some(), "the node is down for it");
    sim.say(Shutdown, 2, false);
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
}

#[test]
fn the_first_boot_only_records() {
    let mut sim = Sim::new();
    sim.counters.insert(controllers(Reboot), Recorded::Nothing);
    sim.give(Reboot, 9);
    assert_eq!(sim.done, ["record", "counter reboot 9"]);
    assert_eq!(sim.line(Source::Controller, Reboot), Some((9, schemas::CommandState::Recorded)));
    let words = "reboot 9 of controller: only recorded: it is the first of its kind";
    assert!(sim.shown.blocked_by.starts_with(words), "{}", sim.shown.blocked_by);
    assert!(sim.shown.blocked_by.ends_with("give another counter"), "{}", sim.shown.blocked_by);
    sim.give(Reboot, 10);
    assert!(sim.zedkube.request.is_some());
}

/// Its counter belongs to this boot. A garbled counter file does not make it new again.
#[test]
fn the_first_command_of_the_host_is_carried_out() {
    let mut sim = Sim::new();
    let kind = (Source::Host, Reboot);
    // Before device-op has kept counters for each source, and while another one's command may be old.
    sim.record.write(Some(OperationRecord::new("boot-1")));
    sim.reload();
    sim.counters.values_mut().for_each(|counter| *counter = Recorded::Nothing);
    sim.write(controllers(Reboot), 3, true);
    sim.give_by(Source::Host, Reboot, 9);
    assert!(sim.zedkube.request.is_some());
    assert_eq!(sim.counters.get(&kind), Some(&Recorded::Counter(9)));
    sim.write(kind, 9, false);
    sim.run();
    assert_eq!(sim.zedkube.request, None);
    sim.counters.insert(kind, Recorded::Nothing);
    sim.give_by(Source::Host, Reboot, 9);
    assert_eq!(sim.zedkube.request, None, "it was taken back");
}

#[test]
fn a_command_that_asks_for_nothing_is_only_recorded() {
    let mut sim = Sim::new();
    sim.say(Reboot, 5, false);
    assert_eq!(sim.done, ["counter reboot 5"]);
    sim.give(Reboot, 5);
    assert_eq!(sim.zedkube.request, None);
}

#[test]
fn what_cannot_be_read_says_nothing() {
    let mut sim = Sim::new();
    sim.counters.insert(controllers(Reboot), Recorded::Unreadable);
    sim.give(Reboot, 2);
    assert!(sim.done.is_empty(), "{:?}", sim.done);
    sim.counters.insert(controllers(Reboot), Recorded::Counter(1));
    sim.run();
    assert!(sim.zedkube.request.is_some());
    sim.commands.insert(controllers(Reboot), Commanded::Unreadable);
    sim.restart();
    assert!(sim.zedkube.request.is_some(), "half a file is no take-back");
}

#[test]
fn a_refused_file_is_shown_where_nothing_happens() {
    let refused = "refused `rebootConfig`: it is a pipe";
    let mut sim = Sim::new();
    sim.refused.push(refused.to_owned());
    sim.run();
    assert_eq!((shown(&sim).2, sim.shown.blocked_by.as_str()), (DeviceOpState::Idle, refused));
    sim.give(Poweroff, 2);
    assert!(sim.shown.blocked_by.ends_with(&format!("; {refused}")), "{}", sim.shown.blocked_by);
    sim.answer(DrainStatus::FailedDrain);
    assert!(sim.shown.blocked_by.ends_with(&format!("; {refused}")), "{}", sim.shown.blocked_by);
    sim.sleep(RETRY_MS);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.shown.blocked_by, "", "nothing blocks");
}

#[test]
fn poweroff_before_reboot_before_shutdown_one_at_a_time() {
    let mut sim = Sim::new();
    sim.give(Shutdown, 2);
    sim.give(Poweroff, 2);
    sim.give(Reboot, 2);
    assert_eq!(shown(&sim), (Some(Poweroff), 2, DeviceOpState::Deferred));
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.zedkube.request.unwrap().1, Poweroff, "asked for by its own name");
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.command.as_ref().unwrap().0, Poweroff);
    sim.nodeagent(Taken);
    sim.remove(Poweroff);
    sim.nodeagent(Idle);
    assert!(sim.zedkube.request.is_some(), "others still wait");
    sim.answer(DrainStatus::Complete);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.command.as_ref().unwrap().0, Reboot);
}

#[test]
fn a_newer_command_of_the_same_kind_needs_no_second_drain() {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    let request = sim.zedkube.request;
    sim.give(Reboot, 3);
    assert_eq!(sim.zedkube.request, request);
    assert_eq!(shown(&sim), (Some(Reboot), 3, DeviceOpState::Deferred));
}

/// D28: a COMPLETE for one request does not release another one.
#[test]
fn a_shutdown_that_is_done_hands_its_request_but_not_its_answer_to_the_next() {
    let mut sim = Sim::new();
    sim.give(Shutdown, 2);
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(Acting);
    sim.nodeagent(Done);
    assert!(sim.command.is_some() && sim.zedkube.request.is_some(), "stands until taken back");
    let first = sim.zedkube.request.unwrap();
    sim.done.clear();
    sim.give(Poweroff, 2);
    assert_eq!(sim.command, None);
    sim.nodeagent_about(Idle, None);
    assert!(!sim.done.contains(&"withdraw".to_owned()), "no uncordon in between: {:?}", sim.done);
    let second = sim.zedkube.request.unwrap();
    assert_eq!(second.1, Poweroff);
    assert_ne!(first.0, second.0);
    assert_eq!(sim.command, None, "the old answer does not count");
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.command.as_ref().unwrap().0, Poweroff);
}

#[test]
fn a_dry_run_stands_until_it_is_taken_back() {
    let mut sim = released();
    sim.nodeagent(Acting);
    sim.nodeagent(Done);
    sim.restart();
    assert!(sim.command.is_some() && sim.zedkube.request.is_some());
    assert_eq!(shown(&sim), (Some(Reboot), 2, DeviceOpState::HandedOver));
    sim.remove(Reboot);
    assert_eq!(sim.command, None);
    sim.nodeagent(Idle);
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
}

#[test]
fn a_request_that_somebody_removed_is_made_again() {
    let mut sim = released();
    sim.zedkube.request = None;
    sim.run();
    assert_eq!(sim.command, None, "no command without a standing request");
    assert!(sim.zedkube.request.is_some());
}

#[test]
fn a_restart_goes_on_where_the_files_are() {
    let mut sim = released();
    sim.nodeagent(Taken);
    let command = sim.command.clone();
    sim.restart();
    assert_eq!(sim.command, command);
    sim.nodeagent(Acting);
    sim.restart();
    assert_eq!(sim.state.phase, Phase::Acting);
    sim.answer(DrainStatus::Unknown);
    assert!(sim.command.is_some(), "the gate is not asked any more");
    sim.remove(Reboot);
    assert!(sim.zedkube.request.is_some(), "still too late");
}
