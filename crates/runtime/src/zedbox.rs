//! Refuses to run beside EVE's zedbox, which kills its own process when it finds a second publisher of its topics.

use std::path::PathBuf;

use pubsub::Root;
use pubsub::presence::{is_alive, pid_in, process_name};
use thiserror::Error;

/// The name of EVE's process.
const ZEDBOX: &str = "zedbox";

/// EVE's zedbox is running.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "EVE's zedbox is running here ({} names process {pid}): it publishes the same topics; give --beside-zedbox only \
     if this zedbox was built without this agent",
    path.display()
)]
pub struct ZedboxError {
    path: PathBuf,
    pid: u32,
}

/// Returns an error while `ROOT/run/zedbox.pid` names a running process that is zedbox, or that may be because its
/// name cannot be read.
pub fn check_zedbox(root: &Root) -> Result<(), ZedboxError> {
    let path = root.join("/run/zedbox.pid");
    let is_zedbox = |pid: &u32| is_alive(*pid) && process_name(*pid).is_none_or(|name| name == ZEDBOX);
    match pid_in(&path).filter(is_zedbox) {
        Some(pid) => Err(ZedboxError { path, pid }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A process with zedbox's name, as a copy of `sleep`. Kill it.
    pub(crate) fn start_zedbox(folder: &std::path::Path) -> std::process::Child {
        let program = folder.join(ZEDBOX);
        std::fs::copy("/bin/sleep", &program).unwrap();
        let zedbox = std::process::Command::new(program).arg("60").spawn().unwrap();
        while process_name(zedbox.id()).as_deref() != Some(ZEDBOX) {
            std::thread::yield_now();
        }
        zedbox
    }

    #[test]
    fn only_a_living_zedbox_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(check_zedbox(&root), Ok(()), "no file");

        std::fs::create_dir(folder.path().join("run")).unwrap();
        let mut zedbox = start_zedbox(folder.path());
        let (eves, own) = (zedbox.id().to_string(), std::process::id().to_string());
        // Linux has at most 2^22 processes, so the last id cannot exist.
        for (text, is_refused) in [
            (eves.as_str(), true),
            (own.as_str(), false), // The number was given to another program.
            ("1\n", false),
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
        zedbox.kill().unwrap();
        zedbox.wait().unwrap();
    }

    #[test]
    fn a_pipe_in_the_place_of_the_pid_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("run/zedbox.pid"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(check_zedbox(&Root::new(folder.path())), Ok(()));
    }
}
