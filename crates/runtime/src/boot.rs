//! The ids of this boot and of this machine.
//!
//! Below a root other than `/`, the files of that root are used if they exist: a test "reboots" a device by writing a
//! new boot id there and emptying `run`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pubsub::Root;
use thiserror::Error;

use crate::regular_file::{Links, open_regular};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID: &str = "/etc/machine-id";
/// Limit in bytes for both files, which hold one UUID.
const MOST_BYTES: u64 = 128;

/// The boot id cannot be read, so no record can be assigned to a boot.
#[derive(Debug, Error)]
#[error("cannot read the boot id from {}", path.display())]
pub struct BootIdError {
    path: PathBuf,
    source: io::Error,
}

/// The kernel's id of this boot. It changes with every boot and never within one.
pub fn boot_id(root: &Root) -> Result<String, BootIdError> {
    let path = place(root, BOOT_ID);
    let failed = |source| BootIdError { path: path.clone(), source };
    let text = first_word(&path).map_err(failed)?;
    text.ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidData, "the file is empty or holds no id")))
}

/// The id of this machine, as in a Node's `nodeInfo.machineID`; `None` if it is not set.
pub fn machine_id(root: &Root) -> Option<String> {
    first_word(&place(root, MACHINE_ID)).ok().flatten()
}

fn place(root: &Root, path: &str) -> PathBuf {
    let own = root.join(path);
    if own.exists() { own } else { PathBuf::from(path) }
}

fn first_word(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    open_regular(path, Links::Followed)?.take(MOST_BYTES).read_to_string(&mut text)?;
    let is_id = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Ok(text.split_whitespace().next().filter(is_id).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_chain;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_files_of_the_root_win() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(boot_id(&root).unwrap(), boot_id(&Root::new("/")).unwrap(), "nothing there: the real one");

        for boot in ["boot-1\n", "boot-2"] {
            write(folder.path(), BOOT_ID, boot);
            assert_eq!(boot_id(&root).unwrap(), boot.trim());
        }
        for (text, id) in [("0123abc\n", Some("0123abc")), ("", None), ("\n", None), ("a{b}", None)] {
            write(folder.path(), MACHINE_ID, text);
            assert_eq!(machine_id(&root).as_deref(), id, "{text:?}");
        }
    }

    #[test]
    fn a_named_pipe_in_place_of_the_file_with_the_boot_id_delays_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for path in [BOOT_ID, MACHINE_ID] {
            let pipe = root.join(path);
            std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
            nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        // A thread, so that the test ends even if the reading does not.
        std::thread::spawn(move || {
            sender.send((boot_id(&root).map_err(|e| error_chain(&e)), machine_id(&root)))
        });
        let read = receiver.recv_timeout(std::time::Duration::from_secs(10));
        let (boot, machine) = read.expect("an answer");
        assert!(boot.unwrap_err().contains("not a regular file"));
        assert_eq!(machine, None);
    }

    #[test]
    fn an_empty_boot_id_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), BOOT_ID, "\n");
        let error = boot_id(&Root::new(folder.path())).unwrap_err();
        assert!(error_chain(&error).contains("holds no id"), "{error}");
    }
}
