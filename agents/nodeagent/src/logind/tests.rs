//! Tests that need no bus.

use super::*;

fn inhibitor(what: &str, mode: &str) -> Inhibitor {
    (what.to_owned(), "packages".to_owned(), "upgrading".to_owned(), mode.to_owned(), 0, 77)
}

#[test]
fn who_forbids_a_shutdown() {
    for (what, mode, forbids) in [
        ("shutdown", "block", true),
        ("sleep:shutdown:idle", "block", true),
        ("shutdown", "delay", false),
        ("shutdown", "block-weak", false),
        ("sleep:idle", "block", false),
        ("handle-power-key", "block", false),
    ] {
        let found = holders(&[inhibitor(what, mode)]);
        let expected = if forbids { vec!["packages (process 77: upgrading)".to_owned()] } else { Vec::new() };
        assert_eq!(found, expected, "{what} {mode}");
    }
}

#[test]
fn not_all_of_many_are_told() {
    let many = vec![inhibitor("shutdown", "block"); 100];
    assert_eq!(holders(&many).len(), MAX_HOLDERS);
}
