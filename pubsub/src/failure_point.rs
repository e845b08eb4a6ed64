//! Places where a test may kill the process. For tests only (feature `failure-points`): a build without the feature has
//! no such places and reads no environment variable for them.

/// Environment variable: the number of the place, from 1, at which the process kills itself with SIGKILL.
#[cfg(feature = "failure-points")]
pub const KILL_AT: &str = "EBB_KILL_AT";

/// Environment variable: a file to which each reached place is appended as a line.
#[cfg(feature = "failure-points")]
pub const LIST_IN: &str = "EBB_FAILURE_POINTS";

/// Marks a place. `name` says which operation comes next, or was just done, and on which file.
#[cfg(feature = "failure-points")]
pub fn reached(name: std::fmt::Arguments<'_>) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    static REACHED: AtomicU64 = AtomicU64::new(0);
    let number = REACHED.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(list) = std::env::var_os(LIST_IN) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
        // The write may fail: a test that cannot list its places finds none, and fails.
        drop(file.and_then(|mut file| file.write_all(format!("{number} {name}\n").as_bytes())));
    }
    if std::env::var(KILL_AT).is_ok_and(|at| at == number.to_string()) {
        // `kill` cannot fail here: a process may always kill itself.
        nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL).unwrap_or(());
    }
}

/// Does nothing without the feature.
#[cfg(not(feature = "failure-points"))]
#[inline]
pub fn reached(_: std::fmt::Arguments<'_>) {}
