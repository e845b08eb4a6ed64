//! The sets of flags with which both programs run.

/// The flags that permit the eviction of certain pods.
const PERMISSIONS: [&str; 3] = ["--force", "--ignore-daemonsets", "--delete-emptydir-data"];

/// Flags that are tried without any permission, and with all of them.
const OTHERS: [&[&str]; 8] = [
    &["--pod-selector=app=web"],
    &["--pod-selector=app in (db, queue),tier!=back"],
    &["--pod-selector=!tier"],
    &["--skip-wait-for-delete-timeout=1"],
    &["--skip-wait-for-delete-timeout=100000"],
    &["--disable-eviction"],
    &["--grace-period=5", "--timeout=1m"],
    &["--pod-selector=app,tier notin (front)", "--skip-wait-for-delete-timeout=1", "--chunk-size=2"],
];

/// All sets of flags.
pub(crate) fn sets() -> Vec<Vec<&'static str>> {
    let permitted = |bits: usize| {
        let flags = PERMISSIONS.iter().enumerate();
        flags.filter(move |(bit, _)| bits & (1 << bit) != 0).map(|(_, flag)| *flag).collect::<Vec<_>>()
    };
    let mut sets: Vec<_> = (0..8).map(permitted).collect();
    for other in OTHERS {
        sets.push(other.to_vec());
        sets.push([&permitted(7), other].concat());
    }
    sets
}
