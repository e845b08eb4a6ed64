//! Tests of the progress of a command, as read from its files.

use super::*;
use crate::record::{Accepted, Failure};

const REBOOT: Kind = (Source::Person, Operation::Reboot);
const POWEROFF: Kind = (Source::Person, Operation::Poweroff);

/// Snapshot with `published` and its DesiredState, the recorded counter, and the accepted commands (`!` marks the one
/// handed over).
fn files(published: Option<(u32, bool)>, recorded: Option<u32>, accepted: &[(Kind, u32)]) -> OperationFiles {
    let command =
        |(counter, desired_state)| DeviceOpsCmd { counter, desired_state, ..DeviceOpsCmd::default() };
    let waiting = accepted.iter().map(|&(kind, counter)| Accepted::new(kind, counter));
    OperationFiles {
        published: published.map(command),
        recorded,
        record: OperationRecord { waiting: waiting.collect(), ..OperationRecord::default() },
        ..OperationFiles::default()
    }
}

#[test]
fn what_stands() {
    for (published, recorded, accepted, expected) in [
        (None, None, &[][..], OperationStatus::Nothing),
        (None, Some(7), &[], OperationStatus::Nothing),
        (Some((8, true)), Some(7), &[], OperationStatus::Given(8)),
        (Some((8, false)), Some(7), &[], OperationStatus::Nothing),
        // The command is done.
        (Some((8, true)), Some(8), &[], OperationStatus::Nothing),
        // The command is only recorded, once its counter is.
        (Some((8, true)), None, &[], OperationStatus::Nothing),
        (Some((8, true)), Some(8), &[(REBOOT, 8)], OperationStatus::Accepted(8)),
        (Some((8, true)), Some(7), &[(REBOOT, 8)], OperationStatus::Accepted(8)),
        (Some((9, true)), Some(8), &[(REBOOT, 8)], OperationStatus::Given(9)),
        // The command was taken back, and device-op has not read it yet.
        (Some((8, false)), Some(8), &[(REBOOT, 8)], OperationStatus::Accepted(8)),
        (None, Some(8), &[(REBOOT, 8)], OperationStatus::Accepted(8)),
        (Some((8, true)), Some(8), &[(POWEROFF, 3)], OperationStatus::Nothing),
        // Another source's command with the same counter.
        (
            Some((8, true)),
            Some(7),
            &[((Source::Controller, Operation::Reboot), 8)],
            OperationStatus::Given(8),
        ),
        (None, Some(8), &[((Source::Controller, Operation::Reboot), 8)], OperationStatus::Nothing),
    ] {
        let found = files(published, recorded, accepted).of(REBOOT);
        assert_eq!(found, expected, "{published:?} {recorded:?} {accepted:?}");
    }
}

#[test]
fn a_failure_and_an_end_are_seen() {
    let mut seen = files(Some((8, true)), Some(8), &[(REBOOT, 8)]);
    seen.record.failed = Some(Failure::default());
    assert_eq!(seen.of(REBOOT), OperationStatus::Failed(8));
    seen.record.failed = None;
    seen.action = DeviceAction {
        command: Some(REBOOT.1),
        source: REBOOT.0,
        counter: 8,
        state: DeviceActionState::Done,
        ..DeviceAction::default()
    };
    assert_eq!(seen.of(REBOOT), OperationStatus::Nothing, "a dry run is over, and the device still runs");
    seen.action.counter = 7;
    assert_eq!(seen.of(REBOOT), OperationStatus::Accepted(8), "it was another one that is over");
}

#[test]
fn how_far_it_is_in_words() {
    let mut seen = files(None, Some(8), &[(POWEROFF, 3), (REBOOT, 8)]);
    assert_eq!(seen.words(REBOOT.1), "it waits behind poweroff 3");
    seen.shown.blocked_by = "the node is being drained".to_owned();
    for (state, expected) in [
        (DeviceOpState::Deferred, "it is held back: the node is being drained"),
        (DeviceOpState::HandedOver, "it is handed over to nodeagent"),
        (DeviceOpState::Idle, "it is held back"),
    ] {
        seen.shown.state = state;
        assert_eq!(seen.words(POWEROFF.1), expected);
    }
}

/// Snapshot with `published` and its DesiredState, the recorded counter, and the command handed over.
fn handed_over(
    published: Option<(u32, bool)>,
    recorded: Option<u32>,
    accepted: Option<u32>,
) -> OperationFiles {
    let handed_over = accepted.map(|counter| Accepted::new(REBOOT, counter));
    let record = OperationRecord { handed_over, ..OperationRecord::default() };
    OperationFiles { record, ..files(published, recorded, &[]) }
}

#[test]
fn what_can_be_taken_back() {
    for (published, recorded, accepted, expected) in [
        (Some((8, true)), Some(8), Some(8), Ok(8)),
        (Some((9, true)), Some(8), Some(8), Ok(9)),
        (Some((9, true)), Some(8), None, Ok(9)),
        // The command was accepted in an earlier boot, or its file was removed by hand.
        (None, Some(8), Some(8), Ok(8)),
        (Some((8, false)), Some(8), Some(8), Err("taken back already")),
        (Some((8, true)), Some(8), None, Err("none is pending")),
        (Some((8, true)), None, None, Err("none is pending")),
        (None, None, None, Err("none is pending")),
    ] {
        let found = handed_over(published, recorded, accepted);
        match (found.counter_to_take_back(REBOOT), expected) {
            (Ok(counter), Ok(expected)) => assert_eq!(counter, expected, "{found:?}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (counter, _) => panic!("{counter:?} {found:?}"),
        }
    }
}

#[test]
fn what_cannot_be_read_does_not_stop_a_take_back() {
    let mut found = handed_over(Some((8, true)), Some(8), None);
    found.refused = Some(Refusal::new("/record".as_ref(), "bad", "good"));
    assert_eq!(found.counter_to_take_back(REBOOT).unwrap(), 8);
}

#[test]
fn what_became_of_it() {
    let acting = |counter| DeviceAction {
        command: Some(REBOOT.1),
        source: REBOOT.0,
        counter,
        state: DeviceActionState::Acting,
        ..DeviceAction::default()
    };
    for (recorded, accepted, action, expected) in [
        (Some(8), None, acting(8), Some(TakenBack::Done)),
        // device-op has not read the take-back yet: it may still accept the command.
        (Some(7), None, DeviceAction::default(), None),
        (Some(8), Some(8), DeviceAction::default(), None),
        (Some(8), Some(8), acting(8), Some(TakenBack::TooLate)),
        (Some(8), Some(8), acting(7), None),
    ] {
        let seen = OperationFiles { action, ..handed_over(Some((8, false)), recorded, accepted) };
        assert_eq!(seen.after_take_back(REBOOT, 8), expected, "{seen:?}");
    }
}

#[test]
fn a_counter_is_one_more_than_any_that_was_used() {
    for (published, recorded, expected) in [
        (None, None, Some(1)),
        (None, Some(7), Some(8)),
        (Some(9), Some(7), Some(10)),
        (Some(3), Some(7), Some(8)),
        (Some(u32::MAX - 1), Some(7), Some(u32::MAX)),
        (Some(u32::MAX), Some(7), None),
        (None, Some(u32::MAX), None),
    ] {
        let published = published.map(|counter| DeviceOpsCmd { counter, ..DeviceOpsCmd::default() });
        let found = OperationFiles { published, recorded, ..OperationFiles::default() };
        assert_eq!(found.next_counter(REBOOT), expected, "{found:?}");
    }
}
