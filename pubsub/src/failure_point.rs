//! Places where a test may kill the process. Compiled for tests only (feature `failure-points`); a build without the
//! feature has none of them and listens to no environment variable.

/// The number of the place at which the process kills itself with SIGKILL, from 1.
#[cfg(feature = "failure-points")]
pub const KILL_AT: &str = "EBB_KILL_AT";

/// A file to which each place that is reached is appended as a line.
#[cfg(feature = "failure-points")]
pub const LIST_IN: &str = "EBB_FAILURE_POINTS";

/// The process has come to this place. `name` says what comes next or was done, and on what.
#[cfg(feature = "failure-points")]
pub fn reached(name: std::fmt::Arguments<'_>) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    static REACHED: AtomicU64 = AtomicU64::new(0);
    let number = REACHED.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(list) = std::env::var_os(LIST_IN) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
        // A test that cannot list its places finds none, and fails.
        drop(file.and_then(|mut file| file.write_all(format!("{number} {name}\n").as_bytes())));
    }
    if std::env::var(KILL_AT).is_ok_and(|at| at == number.to_string()) {
        // It cannot fail: a process may always kill itself.
        nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL).unwrap_or(());
    }
}

/// Counts the places inside of a write too, when it is set.
#[cfg(feature = "failure-points")]
pub const INSIDE: &str = "EBB_FAILURE_INSIDE";

/// A place inside of one durable write. It counts only for a test that asks for such places: to anybody else a write is one
/// effect.
#[cfg(feature = "failure-points")]
pub fn inside(name: std::fmt::Arguments<'_>) {
    if std::env::var_os(INSIDE).is_some() {
        reached(name);
    }
}

/// Nothing, without the feature.
#[cfg(not(feature = "failure-points"))]
#[inline]
pub fn reached(_: std::fmt::Arguments<'_>) {}

/// Nothing, without the feature.
#[cfg(not(feature = "failure-points"))]
#[inline]
pub fn inside(_: std::fmt::Arguments<'_>) {}
