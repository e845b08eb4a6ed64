//! Which command is taken back, and what became of that.

use device_op::{Accepted, OperationRecord};
use pubsub::Refusal;
use schemas::DeviceAction;

use super::*;

const REBOOT: Kind = (Source::Person, Operation::Reboot);

fn standing(published: Option<(u32, bool)>, recorded: Option<u32>, accepted: Option<u32>) -> Standing {
    let command =
        |(counter, desired_state)| DeviceOpsCmd { counter, desired_state, ..DeviceOpsCmd::default() };
    let handed_over = accepted.map(|counter| Accepted::new(REBOOT, counter));
    Standing {
        published: published.map(command),
        recorded,
        record: OperationRecord { handed_over, ..OperationRecord::default() },
        ..Standing::default()
    }
}

#[test]
fn what_can_be_taken_back() {
    for (published, recorded, accepted, expected) in [
        (Some((8, true)), Some(8), Some(8), Ok(8)),
        (Some((9, true)), Some(8), Some(8), Ok(9)),
        (Some((9, true)), Some(8), None, Ok(9)),
        // Accepted in an earlier boot, or somebody removed the file.
        (None, Some(8), Some(8), Ok(8)),
        (Some((8, false)), Some(8), Some(8), Err("taken back already")),
        (Some((8, true)), Some(8), None, Err("none is pending")),
        (Some((8, true)), None, None, Err("none is pending")),
        (None, None, None, Err("none is pending")),
    ] {
        let standing = standing(published, recorded, accepted);
        match (counter_to_take_back(&standing, REBOOT), expected) {
            (Ok(counter), Ok(expected)) => assert_eq!(counter, expected, "{standing:?}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{found:?} {standing:?}"),
        }
    }
}

#[test]
fn what_cannot_be_read_does_not_stop_a_take_back() {
    let mut standing = standing(Some((8, true)), Some(8), None);
    standing.refused = Some(Refusal::new("/record".as_ref(), "bad", "good"));
    assert_eq!(counter_to_take_back(&standing, REBOOT).unwrap(), 8);
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
        (Some(8), None, acting(8), Some(Became::TakenBack)),
        // device-op has not read it yet: it may still accept the command.
        (Some(7), None, DeviceAction::default(), None),
        (Some(8), Some(8), DeviceAction::default(), None),
        (Some(8), Some(8), acting(8), Some(Became::TooLate)),
        (Some(8), Some(8), acting(7), None),
    ] {
        let seen = Standing { action, ..standing(Some((8, false)), recorded, accepted) };
        assert_eq!(became(&seen, REBOOT, 8), expected, "{seen:?}");
    }
}

#[test]
fn a_command_of_another_source_is_named_with_the_way_to_take_it_back() {
    for (source, there) in [
        (Source::Controller, "take it back at the controller, or here"),
        (Source::Cluster, "remove its annotation"),
        (Source::Host, "remove what asks for it"),
    ] {
        let said = not_ours(Operation::Reboot, &[(source, 1001)]);
        assert!(said.contains(&format!("reboot 1001 is one of source {source}")), "{said}");
        assert!(said.contains(there), "{said}");
        assert!(said.contains(&format!("`ebb cancel reboot --source {source}`")), "{said}");
    }
}
