//! Keeping out of the way of EVE's zedbox, which kills its process when it meets a second publisher of its topics.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use pubsub::Root;
use thiserror::Error;

/// EVE's zedbox is running.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "EVE's zedbox is running here ({} names process {pid}): it publishes the same topics; give --beside-zedbox only \
     if this zedbox was built without this agent",
    path.display()
)]
pub struct ZedboxError {
    path: PathBuf,
    pid: i32,
}

/// Refuses while `ROOT/run/zedbox.pid` names a living process.
pub fn check_zedbox(root: &Root) -> Result<(), ZedboxError> {
    let path = root.join("/run/zedbox.pid");
    match pid_in(&path) {
        Some(pid) if is_alive(pid) => Err(ZedboxError { path, pid: pid.as_raw() }),
        Some(_) | None => Ok(()),
    }
}

/// Zero and negative numbers are no processes: to `kill` they are groups.
fn pid_in(path: &Path) -> Option<Pid> {
    let mut text = String::new();
    File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|&pid| pid > 0).map(Pid::from_raw)
}

/// A process of somebody else lives, too.
fn is_alive(pid: Pid) -> bool {
    matches!(kill(pid, None), Ok(()) | Err(Errno::EPERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_process_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(check_zedbox(&root), Ok(()), "no file");

        std::fs::create_dir(folder.path().join("run")).unwrap();
        // Linux has at most 2^22 processes, so the last one cannot exist.
        let own = std::process::id().to_string();
        for (text, is_refused) in [
            (own.as_str(), true),
            ("1\n", true),
            ("2147483647", false),
            ("0", false),
            ("-1", false),
            ("x", false),
            ("", false),
        ] {
            #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
            std::fs::write(folder.path().join("run/zedbox.pid"), text).unwrap();
            assert_eq!(check_zedbox(&root).is_err(), is_refused, "{text:?}");
        }
    }
}
