//! Counters.

use super::*;

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
        let standing = Standing { published, recorded, ..Standing::default() };
        assert_eq!(next_counter(&standing, (OPERATOR, Operation::Reboot)), expected, "{standing:?}");
    }
}
