//! What stands of an operation, from what the files hold.

use device_op::{Accepted, Failure};

use super::*;

const REBOOT: Kind = (Source::Person, Operation::Reboot);
const POWEROFF: Kind = (Source::Person, Operation::Poweroff);

/// `published` with its DesiredState, the recorded counter, the accepted ones with `!` for the one handed over.
fn standing(published: Option<(u32, bool)>, recorded: Option<u32>, accepted: &[(Kind, u32)]) -> Standing {
    let command =
        |(counter, desired_state)| DeviceOpsCmd { counter, desired_state, ..DeviceOpsCmd::default() };
    let waiting = accepted.iter().map(|&(kind, counter)| Accepted::new(kind, counter));
    Standing {
        published: published.map(command),
        recorded,
        record: OperationRecord { waiting: waiting.collect(), ..OperationRecord::default() },
        ..Standing::default()
    }
}

#[test]
fn what_stands() {
    for (published, recorded, accepted, expected) in [
        (None, None, &[][..], Stand::Nothing),
        (None, Some(7), &[], Stand::Nothing),
        (Some((8, true)), Some(7), &[], Stand::Given(8)),
        (Some((8, false)), Some(7), &[], Stand::Nothing),
        // Done.
        (Some((8, true)), Some(8), &[], Stand::Nothing),
        // Only recorded, when that has happened.
        (Some((8, true)), None, &[], Stand::Nothing),
        (Some((8, true)), Some(8), &[(REBOOT, 8)], Stand::Accepted(8)),
        (Some((8, true)), Some(7), &[(REBOOT, 8)], Stand::Accepted(8)),
        (Some((9, true)), Some(8), &[(REBOOT, 8)], Stand::Given(9)),
        // Taken back, and device-op has not read it yet.
        (Some((8, false)), Some(8), &[(REBOOT, 8)], Stand::Accepted(8)),
        (None, Some(8), &[(REBOOT, 8)], Stand::Accepted(8)),
        (Some((8, true)), Some(8), &[(POWEROFF, 3)], Stand::Nothing),
        // Another source's command with the same counter.
        (Some((8, true)), Some(7), &[((Source::Controller, Operation::Reboot), 8)], Stand::Given(8)),
        (None, Some(8), &[((Source::Controller, Operation::Reboot), 8)], Stand::Nothing),
    ] {
        let found = standing(published, recorded, accepted).of(REBOOT);
        assert_eq!(found, expected, "{published:?} {recorded:?} {accepted:?}");
    }
}

#[test]
fn a_failure_and_an_end_are_seen() {
    let mut seen = standing(Some((8, true)), Some(8), &[(REBOOT, 8)]);
    seen.record.failed = Some(Failure::default());
    assert_eq!(seen.of(REBOOT), Stand::Failed(8));
    seen.record.failed = None;
    seen.action = DeviceAction {
        command: Some(REBOOT.1),
        source: REBOOT.0,
        counter: 8,
        state: DeviceActionState::Done,
        ..DeviceAction::default()
    };
    assert_eq!(seen.of(REBOOT), Stand::Nothing, "a dry run is over, and the device still runs");
    seen.action.counter = 7;
    assert_eq!(seen.of(REBOOT), Stand::Accepted(8), "it was another one that is over");
}

#[test]
fn how_far_it_is_in_words() {
    let mut seen = standing(None, Some(8), &[(POWEROFF, 3), (REBOOT, 8)]);
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
