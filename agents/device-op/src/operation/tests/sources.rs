//! Tests with several sources: a command is compared only with the counters of its own source, and each command is
//! carried out once or refused with a reason.

use runtime::agent_state::NOT_TAKEN_LIMIT_MS;
use runtime::freeze::Freeze;
use runtime::testing::SimAgent;
use schemas::CommandState::{Recorded as OnlyRecorded, *};
use schemas::{DeviceAction, DeviceActionState, DeviceOpState, DeviceOpsCmd, DrainStatus, Operation, Source};

use crate::facts::{Commanded, Recorded, all_kinds};
use crate::operation::sim::{RETRY_MS, Sim, controllers, said};
use crate::operation::*;

use Operation::{Poweroff, Reboot, Shutdown};
use Source::{Cluster, Controller, Host, Person};

/// The node is drained, the command is released and carried out, and the device boots.
fn boots(sim: &mut Sim, boot_id: &str) {
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(DeviceActionState::Acting);
    sim.boot(boot_id);
}

fn blocked_by(sim: &Sim, part: &str) {
    assert!(sim.shown.blocked_by.contains(part), "{:?} has no {part:?}", sim.shown.blocked_by);
}

/// Seen on a real device: the controller had given 1001, `ebb reboot` took 1002, and after the boot the controller's
/// unchanged 1001 was carried out again.
#[test]
fn what_one_source_says_does_not_make_anothers_command_new() {
    let mut sim = Sim::new();
    sim.give(Reboot, 1001);
    boots(&mut sim, "boot-2");
    sim.give(Reboot, 1001);
    sim.give_by(Person, Reboot, 1002);
    boots(&mut sim, "boot-3");
    sim.give(Reboot, 1001);
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]), "the controller's 1001 is done");
    // The controller's own 1002 is not the operator's 1002.
    sim.give(Reboot, 1002);
    assert!(sim.zedkube.request.is_some());
    let done = |source: Source| sim.shown.done.get(&source).and_then(|done| done.reboot);
    assert_eq!((done(Controller), done(Person), done(Cluster)), (Some(1001), Some(1002), None));
}

/// Also if both have the same counter, in any order of reading.
#[test]
fn two_sources_in_the_same_moment_are_served_by_one_operation() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        for source in Source::ALL {
            sim.write((source, operation), 7, true);
        }
        sim.run();
        assert_eq!(sim.zedkube.requests_made, 1, "{operation}");
        sim.answer(DrainStatus::Complete);
        assert_eq!((sim.shown.source, sim.shown.counter), (Person, 7), "a person's goes first");
        sim.nodeagent(DeviceActionState::Acting);
        sim.nodeagent(DeviceActionState::Done);
        for source in Source::ALL {
            assert_eq!(sim.line(source, operation), Some((7, Done)), "{operation} of {source}");
            assert_eq!(sim.shown.done[&source].get(operation), Some(7));
        }
        let commands = sim.done.iter().filter(|done| done.starts_with("command")).count();
        assert_eq!(commands, 1, "{operation}: {:?}", sim.done);
    }
}

#[test]
fn a_newer_counter_that_waits_for_the_end_is_done_with_it() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        sim.give(operation, 2);
        sim.answer(DrainStatus::Complete);
        sim.nodeagent(DeviceActionState::Acting);
        sim.give(operation, 3);
        sim.nodeagent(DeviceActionState::Done);
        assert_eq!(sim.line(Controller, operation), Some((3, Done)), "{operation}");
        assert_eq!(sim.shown.done[&Controller].get(operation), Some(3), "{operation}");
    }
}

/// Seen on a real device that lost the command: nodeagent was done and had released the command when the next counter
/// came.
#[test]
fn what_is_commanded_after_the_end_is_not_done_with_it() {
    for operation in Operation::ALL {
        // nodeagent's last status says Done, but nodeagent does not run. It goes on to Idle, and device-op sees all
        // of that in one snapshot.
        for case in ["not running", "idle", "one look"] {
            let mut sim = Sim::new();
            sim.give(operation, 2);
            sim.answer(DrainStatus::Complete);
            sim.nodeagent(DeviceActionState::Acting);
            if case == "one look" {
                sim.write(controllers(operation), 3, true);
            }
            sim.nodeagent(DeviceActionState::Done);
            sim.nodeagent.is_running = case == "idle";
            sim.give(operation, 3);
            if case == "idle" {
                let idle = sim.nodeagent.action.clone().unwrap_or_default();
                let shutdown_done = (operation == Shutdown).then_some(2);
                sim.nodeagent.action = Some(DeviceAction {
                    state: DeviceActionState::Idle,
                    command: None,
                    shutdown_done,
                    shutdown_source: Controller,
                    ..idle
                });
                sim.run();
            }
            assert_eq!(sim.line(Controller, operation), Some((3, Waiting)), "{operation}, {case}");
            assert_eq!(sim.shown.done[&Controller].get(operation), Some(2), "{operation}, {case}");
        }
    }
}

#[test]
fn a_boot_does_what_all_sources_asked_for() {
    for operation in [Reboot, Shutdown, Poweroff] {
        let mut sim = Sim::new();
        sim.write((Person, operation), 3, true);
        sim.write((Controller, operation), 2, true);
        sim.run();
        boots(&mut sim, "boot-2");
        assert_eq!(sim.pending(), [], "{operation}");
        assert_eq!(sim.line(Person, operation), Some((3, Done)));
        assert_eq!(sim.line(Controller, operation), Some((2, Done)));
    }
}

#[test]
fn what_one_source_takes_back_goes_on_for_the_other() {
    for is_handed_over in [false, true] {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        sim.give_by(Person, Reboot, 2);
        if is_handed_over {
            sim.answer(DrainStatus::Complete);
            sim.nodeagent(DeviceActionState::Taken);
        }
        assert_eq!(sim.shown.source, Person);
        sim.commands.insert((Person, Reboot), said(2, false));
        sim.run();
        if is_handed_over {
            assert_eq!(sim.command, None, "recalled: what stands is another one's command");
            sim.nodeagent_about(DeviceActionState::Idle, None);
        }
        assert_eq!((sim.line(Person, Reboot), sim.shown.source), (Some((2, TakenBack)), Controller));
        assert!(sim.zedkube.request.is_some());
        sim.answer(DrainStatus::Complete);
        assert!(sim.command.is_some(), "handed over: {is_handed_over}");
    }
}

/// nodeagent's status about one source's command says nothing about another source's command with the same counter.
#[test]
fn a_shutdown_that_was_done_for_one_source_is_not_taken_for_anothers() {
    let mut sim = Sim::new();
    sim.give(Shutdown, 2);
    sim.answer(DrainStatus::Complete);
    sim.nodeagent(DeviceActionState::Acting);
    sim.nodeagent(DeviceActionState::Done);
    sim.say(Shutdown, 2, false);
    let idle =
        DeviceAction { shutdown_done: Some(2), shutdown_source: Controller, ..DeviceAction::default() };
    sim.nodeagent.action = Some(idle);
    sim.run();
    assert_eq!(sim.line(Controller, Shutdown), Some((2, Done)));
    sim.give_by(Person, Shutdown, 2);
    sim.answer(DrainStatus::Complete);
    assert_eq!((sim.shown.source, sim.shown.state), (Person, DeviceOpState::HandedOver));
    assert_eq!(sim.line(Person, Shutdown), Some((2, HandedOver)));
}

#[test]
fn an_operator_takes_anothers_command_back_until_a_new_one_comes() {
    for is_accepted in [true, false] {
        let mut sim = Sim::new();
        if is_accepted {
            sim.give(Reboot, 2);
            assert!(sim.zedkube.request.is_some());
        }
        sim.cancelled.insert(controllers(Reboot), 2);
        sim.give(Reboot, 2);
        assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]), "accepted: {is_accepted}");
        assert_eq!(sim.recorded(Reboot), Recorded::Counter(2));
        if is_accepted {
            assert_eq!(sim.line(Controller, Reboot), Some((2, TakenBack)));
        }
        sim.boot("boot-2");
        sim.cancelled.clear();
        sim.give(Reboot, 2);
        assert_eq!(sim.pending(), [], "it counts as done");
        sim.give(Reboot, 3);
        assert!(sim.zedkube.request.is_some());
    }
}

#[test]
fn first_contact_is_judged_for_each_counter_file() {
    for (source, operation) in all_kinds() {
        let mut sim = Sim::new();
        sim.counters.insert((source, operation), Recorded::Nothing);
        for (each, other) in all_kinds() {
            sim.write((each, other), 2, true);
        }
        sim.run();
        // The host's counter belongs to this boot.
        let (state, new) = if source == Host { (Waiting, 12) } else { (OnlyRecorded, 11) };
        assert_eq!(sim.line(source, operation), Some((2, state)));
        let waits = sim.shown.commands.iter().filter(|line| line.state == Waiting).count();
        assert_eq!(waits, new, "all others are new: {:?}", sim.shown.commands);
        sim.give_by(source, operation, 3);
        assert_eq!(sim.line(source, operation), Some((3, Waiting)));
    }
}

/// Commands that are older than the counters per source may be the controller's or the operator's, so it is not known
/// which of them are done.
#[test]
fn an_upgrade_only_records_what_stands_and_goes_on_with_what_was_accepted() {
    for crashes_after in [None, Some(0), Some(1), Some(2), Some(3)] {
        let mut sim = Sim::new();
        let accepted = Accepted::new(controllers(Shutdown), 4);
        let old = OperationRecord { waiting: vec![accepted], ..OperationRecord::new("boot-1") };
        sim.record.write(Some(old));
        sim.reload();
        sim.write(controllers(Reboot), 1001, true);
        sim.counters.insert(controllers(Reboot), Recorded::Counter(1002));
        sim.write(controllers(Shutdown), 4, true);
        sim.faults.after = crashes_after;
        sim.run();
        assert_eq!(sim.line(Controller, Reboot), Some((1001, OnlyRecorded)), "{crashes_after:?}");
        assert_eq!(sim.recorded(Reboot), Recorded::Counter(1001));
        assert_eq!(sim.line(Controller, Shutdown), Some((4, Waiting)));
        assert_eq!(sim.zedkube.request.unwrap().1, Shutdown, "{crashes_after:?}");
        sim.give(Reboot, 1003);
        assert_eq!(sim.line(Controller, Reboot), Some((1003, Waiting)), "from now on a new one is new");
    }
}

#[test]
fn a_persist_that_was_lost_repeats_nothing() {
    let mut sim = Sim::new();
    for (source, operation) in all_kinds() {
        sim.give_by(source, operation, 2);
    }
    sim.record.write(None);
    sim.counters.values_mut().for_each(|counter| *counter = Recorded::Nothing);
    sim.boot("boot-2");
    // The host's counter is another one after the boot.
    for (source, operation) in all_kinds().filter(|(source, _)| *source != Host) {
        sim.give_by(source, operation, 2);
        assert_eq!(sim.line(source, operation), Some((2, OnlyRecorded)), "{operation} of {source}");
    }
    assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
}

/// EVE's rule: a counter that differs from the recorded one is new, whichever is greater.
#[test]
fn any_other_counter_is_a_new_command_and_the_same_never_is() {
    let mut sim = Sim::new();
    let mut boot = 1;
    for counter in [0, u32::MAX, 7, 5, 7] {
        sim.give(Reboot, counter);
        assert_eq!(sim.line(Controller, Reboot), Some((counter, Waiting)));
        boot += 1;
        boots(&mut sim, &format!("boot-{boot}"));
        sim.give(Reboot, counter);
        assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]), "{counter} is done");
        assert_eq!(sim.line(Controller, Reboot), Some((counter, Done)));
    }
}

/// A folder that was moved away, or whose file system is gone, is ignored; only a removed file is a take-back.
#[test]
fn a_sources_folder_that_vanishes_starts_repeats_and_loses_nothing() {
    for source in [Person, Controller, Cluster, Host] {
        let mut sim = Sim::new();
        sim.give_by(source, Reboot, 2);
        sim.commands.insert((source, Reboot), Commanded::NoFolder);
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{source}: it was accepted, and stands");
        sim.give_by(source, Reboot, 2);
        assert_eq!(sim.zedkube.requests_made, 1);
        sim.commands.insert((source, Reboot), Commanded::Absent);
        sim.run();
        assert_eq!((sim.zedkube.request, sim.pending()), (None, vec![]));
    }
}

fn freeze() -> Freeze {
    Freeze { words: "commands are frozen until Monday".to_owned(), ends_in_ms: Some(5_000) }
}

#[test]
fn nothing_begins_while_commands_are_frozen() {
    for source in Source::ALL {
        let mut sim = Sim::new();
        sim.freeze = Some(freeze());
        sim.give_by(source, Reboot, 2);
        assert_eq!((sim.zedkube.request, sim.shown.state), (None, DeviceOpState::Deferred));
        blocked_by(&sim, "frozen until Monday");
        sim.restart();
        assert_eq!(sim.zedkube.request, None);
        sim.freeze = None;
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{source}: it waited");
    }
}

/// A freeze ends a drain that is in progress, recalls a command that nodeagent has only taken, and lets an operation
/// go on that nodeagent is Acting on.
#[test]
fn a_freeze_stops_all_that_is_not_acting() {
    for (state, goes_on) in
        [(None, false), (Some(DeviceActionState::Taken), false), (Some(DeviceActionState::Acting), true)]
    {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        if let Some(state) = state {
            sim.answer(DrainStatus::Complete);
            sim.nodeagent(state);
        }
        sim.freeze = Some(freeze());
        sim.run();
        if state == Some(DeviceActionState::Taken) {
            sim.nodeagent_about(DeviceActionState::Idle, None);
        }
        assert_eq!(sim.command.is_some(), goes_on, "{state:?}");
        assert_eq!(sim.zedkube.request.is_some(), goes_on, "{state:?}: the node goes back");
        sim.freeze = None;
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{state:?}: it is not lost");
    }
}

#[test]
fn an_operators_now_passes_a_freeze_and_nothing_else() {
    let mut sim = Sim::new();
    sim.freeze = Some(freeze());
    sim.give(Poweroff, 2);
    let Commanded::Given(command) = said(2, true) else { unreachable!() };
    sim.commands.insert((Person, Reboot), Commanded::Given(DeviceOpsCmd { now: true, ..command }));
    sim.run();
    assert_eq!(sim.zedkube.request.unwrap().1, Reboot, "the poweroff is frozen");
    assert_eq!((sim.shown.operation, sim.shown.source), (Some(Reboot), Person));
    assert_eq!(sim.line(Controller, Poweroff), Some((2, Waiting)));
    sim.answer(DrainStatus::FailedDrain);
    assert_eq!((sim.zedkube.request, sim.shown.state), (None, DeviceOpState::Failed), "the pause holds");
    sim.sleep(RETRY_MS);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.command.as_ref().unwrap().0, Reboot);
}

/// The reboot's reason must not lose its author because the command's file is just being written or taken back.
#[test]
fn the_author_of_a_command_is_known_as_long_as_the_command() {
    let mut sim = Sim::new();
    let Commanded::Given(command) = said(2, true) else { unreachable!() };
    let (by, reason) = ("alice".to_owned(), "fan swap".to_owned());
    let command = DeviceOpsCmd { by, reason, ..command };
    sim.commands.insert((Person, Reboot), Commanded::Given(command.clone()));
    sim.run();
    sim.answer(DrainStatus::Complete);
    let ending = "; commanded by alice (fan swap)";
    let has_ending = |sim: &Sim| sim.command.as_ref().unwrap().1.ends_with(ending);
    assert!(has_ending(&sim), "{:?}", sim.command);
    sim.commands.insert((Person, Reboot), Commanded::Unreadable);
    sim.restart();
    assert!(has_ending(&sim), "{:?}", sim.command);
    assert_eq!((sim.shown.by.as_str(), sim.shown.reason.as_str()), ("alice", "fan swap"));

    // Too late: the take-back has another author.
    sim.nodeagent(DeviceActionState::Acting);
    let by = "bob".to_owned();
    let take_back = DeviceOpsCmd { desired_state: false, by, ..command };
    sim.commands.insert((Person, Reboot), Commanded::Given(take_back));
    sim.run();
    assert_eq!(sim.shown.by, "alice");

    sim.boot("boot-2");
    sim.give(Reboot, 2);
    assert_eq!((sim.shown.counter, sim.shown.source, sim.shown.by.as_str()), (2, Controller, ""));
}

#[test]
fn the_end_of_a_freeze_wakes() {
    let mut sim = Sim::new();
    sim.freeze = Some(freeze());
    sim.give(Reboot, 2);
    let (_, effects) = DeviceOp::step(sim.state.clone(), &sim.look(), sim.now, &sim.policy);
    assert_eq!(effects, [Effect::WakeAt(sim.now.boot_ms + 5_000)]);
}

/// nodeagent does not take the command: the node must not stay cordoned, with its slot, for ever.
#[test]
fn what_nodeagent_does_not_take_fails_and_gives_the_node_back() {
    for (is_running, taken, why) in [
        (false, false, "nodeagent has not run for 10 min"),
        (false, true, "nodeagent has not run for 10 min"),
        (true, false, "nodeagent runs, but has not taken the command for 10 min"),
    ] {
        let mut sim = Sim::new();
        sim.give(Reboot, 2);
        sim.answer(DrainStatus::Complete);
        if taken {
            sim.nodeagent(DeviceActionState::Taken);
        }
        sim.nodeagent.is_running = is_running;
        sim.run();
        sim.sleep(NOT_TAKEN_LIMIT_MS - 1);
        assert!(sim.command.is_some(), "{why}");
        sim.sleep(1);
        assert_eq!((sim.command.clone(), sim.zedkube.request), (None, None), "{why}");
        assert_eq!(sim.shown.state, DeviceOpState::Failed);
        blocked_by(&sim, why);
        sim.sleep(RETRY_MS);
        assert!(sim.zedkube.request.is_some(), "{why}: tried again");
    }
}

#[test]
fn what_nodeagent_prepares_may_last() {
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    sim.answer(DrainStatus::Complete);
    sim.sleep(NOT_TAKEN_LIMIT_MS - 1);
    sim.nodeagent(DeviceActionState::Taken);
    sim.sleep(10 * NOT_TAKEN_LIMIT_MS);
    assert!(sim.command.is_some(), "hooks, inhibitors, an activation");
    // The time begins again when nodeagent stops.
    sim.nodeagent.is_running = false;
    sim.run();
    sim.sleep(NOT_TAKEN_LIMIT_MS - 1);
    assert!(sim.command.is_some());
}

/// Every attempt empties the node.
#[test]
fn what_nodeagent_cannot_do_is_tried_less_and_less_often() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut sim = Sim::new();
    sim.give(Reboot, 2);
    let fails = |sim: &mut Sim| {
        sim.answer(DrainStatus::Complete);
        assert!(sim.command.is_some());
        sim.nodeagent(DeviceActionState::Failed);
        sim.nodeagent(DeviceActionState::Idle);
        assert_eq!(sim.zedkube.request, None);
    };
    for pause in [1, 2, 4, 8, 16, 32, 48, 48].map(|halves| halves * RETRY_MS) {
        fails(&mut sim);
        sim.restart();
        sim.sleep(pause - 1);
        assert_eq!(sim.zedkube.request, None, "{pause}");
        sim.sleep(1);
        assert!(sim.zedkube.request.is_some(), "{pause}");
    }
    assert_eq!(48 * RETRY_MS, DAY_MS);
    sim.give(Reboot, 3);
    fails(&mut sim);
    sim.sleep(RETRY_MS);
    assert!(sim.zedkube.request.is_some(), "a new command begins anew");
}

#[test]
fn a_device_without_means_is_not_drained_for_nothing() {
    for operation in Operation::ALL {
        let mut sim = Sim::new();
        let says = |means: Option<Vec<String>>| Some(DeviceAction { means, ..DeviceAction::default() });
        sim.nodeagent.action = says(Some(Vec::new()));
        sim.give(operation, 2);
        let is_held = operation != Shutdown;
        assert_eq!(sim.zedkube.request.is_none(), is_held, "{operation}");
        if is_held {
            blocked_by(&sim, "nodeagent has no means to take this device down");
        }
        sim.nodeagent.action = says(Some(vec!["logind".to_owned()]));
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{operation}: it has one now");
    }
}

mod without_record {
    //! `ebb reboot --without-record`, on a `/persist` that accepts no writes.

    use super::*;

    fn give(sim: &mut Sim, counter: u32) {
        let Commanded::Given(command) = said(counter, true) else { unreachable!() };
        let command = DeviceOpsCmd { without_record: true, ..command };
        sim.commands.insert((Person, Reboot), Commanded::Given(command));
        for _ in 0..4 {
            sim.run_a_few_steps();
        }
    }

    #[test]
    fn it_is_carried_out_although_nothing_can_be_recorded() {
        for (is_first_contact, is_new_boot) in [(false, false), (true, false), (false, true)] {
            let mut sim = Sim::new();
            sim.faults.takes_no_record = true;
            if is_first_contact {
                sim.counters.insert((Person, Reboot), Recorded::Nothing);
            }
            if is_new_boot {
                sim.power_cycle("boot-2");
            }
            give(&mut sim, 2);
            assert!(sim.zedkube.request.is_some(), "{is_first_contact} {is_new_boot}");
            assert!(sim.shown.without_record);
            sim.zedkube.answer(DrainStatus::Complete);
            sim.run_a_few_steps();
            sim.run_a_few_steps();
            assert_eq!(sim.command.as_ref().unwrap().0, Reboot);
            assert_eq!((sim.shown.source, sim.shown.counter), (Person, 2));
            sim.reload();
            sim.run_a_few_steps();
            assert!(sim.command.is_some(), "a restart goes on from the record in /run");
            assert_ne!(sim.counters[&(Person, Reboot)], Recorded::Counter(2), "nothing was recorded");
            // Any other boot counts the command as done: `/run` is empty.
            sim.power_cycle("boot-3");
            for _ in 0..4 {
                sim.run_a_few_steps();
            }
            assert_eq!((sim.zedkube.request, sim.command.clone()), (None, None));
        }
    }

    #[test]
    fn it_goes_before_all_others_and_none_is_accepted_beside_it() {
        let mut sim = Sim::new();
        sim.give(Poweroff, 2);
        sim.faults.takes_no_record = true;
        give(&mut sim, 2);
        assert_eq!(sim.shown.operation, Some(Reboot));
        assert_eq!(sim.line(Controller, Poweroff), Some((2, Waiting)));
        sim.write(controllers(Reboot), 9, true);
        sim.run_a_few_steps();
        assert_eq!(sim.line(Controller, Reboot), None, "it could not be kept");
        assert_eq!(sim.recorded(Reboot), Recorded::Counter(1));
        // After the take-back nothing has changed, and nothing has to be written.
        sim.commands.insert((Person, Reboot), said(2, false));
        sim.faults.takes_no_record = false;
        sim.run();
        assert_eq!(sim.line(Controller, Poweroff), Some((2, Waiting)));
        assert_eq!(sim.line(Controller, Reboot), Some((9, Waiting)));
    }
}
