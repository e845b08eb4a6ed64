//! The lock that shows whether an activate command is running, whichever process started it.
//!
//! The command inherits a locked file, and so does every process that it starts. The kernel holds the lock until the
//! last of them has ended, even if baseos is killed. Checking the lock does not take it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::file_lock::{self, Access, Found};
use pubsub::store::create_folder;
use pubsub::{Root, StoreError};
use schemas::agent::BASEOSMGR;
use thiserror::Error;

const FILE_NAME: &str = "activation";
/// Limit for reading the file, which holds one number.
const MOST_BYTES: u64 = 32;

/// The lock of a device's activate command.
#[derive(Debug, Clone)]
pub struct ActivationLock {
    folder: PathBuf,
}

/// The reason why the lock cannot be taken.
#[derive(Debug, Error)]
pub enum ActivationLockError {
    /// An activate command, or a process that it started, is running.
    #[error("an earlier activation is still running")]
    Held,
    /// The folder cannot be created.
    #[error(transparent)]
    Folder(#[from] StoreError),
    /// The file cannot be created or locked.
    #[error("cannot lock {path:?}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl ActivationLock {
    /// The lock below a root.
    pub fn of(root: &Root) -> Self {
        Self { folder: root.lock_folder_of(BASEOSMGR) }
    }

    /// Locks the file for a command that is about to start and whose time ends at `until_ms`, in milliseconds of this
    /// boot's clock. The command has to inherit the file. Dropping the file releases the lock, unless the command
    /// holds a copy.
    pub fn take(&self, until_ms: u64) -> Result<File, ActivationLockError> {
        create_folder(&self.folder)?;
        let path = self.path();
        let failed = |source| ActivationLockError::Io { path: path.clone(), source };
        let mut file = file_lock::open(&path, Access::Lock).map_err(failed)?;
        if !file_lock::try_lock(&file).map_err(failed)? {
            return Err(ActivationLockError::Held);
        }
        let written = file.set_len(0).and_then(|()| file.write_all(until_ms.to_string().as_bytes()));
        written.map_err(failed)?;
        Ok(file)
    }

    /// The end of the time of the running command, in milliseconds of this boot's clock; None if no command is
    /// running.
    pub fn held_until(&self) -> io::Result<Option<u64>> {
        let file = match file_lock::open(&self.path(), Access::Ask) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file_lock::ask(&file)? == Found::Nothing {
            return Ok(None);
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        // If the number cannot be read, the time counts as over.
        Ok(Some(text.trim().parse().unwrap_or(0)))
    }

    /// True if a command is running, or if that cannot be found out.
    pub fn is_held(&self) -> bool {
        self.held_until().map_or(true, |until| until.is_some())
    }

    /// Removes the file after the command has ended and its result is known. Processes that it left running are its
    /// own matter.
    pub fn forget(&self) -> io::Result<()> {
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Kills every process that has inherited the file, and returns their number.
    pub fn kill_holders(&self) -> io::Result<usize> {
        let wanted = fs::symlink_metadata(self.path())?;
        #[cfg(feature = "program-stand-in")]
        if let Some(kill) = crate::program::stand_in::kill() {
            return Ok(kill(&self.path()));
        }
        let is_it = |path: &Path| {
            fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
        };
        let own = Pid::this();
        let mut killed = 0;
        for process in fs::read_dir("/proc")?.flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw);
            let Some(pid) = pid.filter(|pid| *pid != own) else { continue };
            let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            let holds = files.into_iter().any(|file| is_it(&file.path()));
            if holds && kill(pid, Signal::SIGKILL).is_ok() {
                killed += 1;
            }
        }
        Ok(killed)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE_NAME)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::program;
    use crate::settings::Command;

    fn sh(script: &str) -> Command {
        Command { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), script.to_owned()] }
    }

    /// Polls until the condition is true; there is no event for it.
    async fn once(is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("it becomes so");
    }

    /// If baseos is killed, its command and the processes that the command started go on.
    #[tokio::test]
    async fn a_lock_lasts_as_long_as_what_has_inherited_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let lock = ActivationLock::of(&root);
        assert_eq!(lock.held_until().unwrap(), None);
        let file = lock.take(7000).unwrap();
        assert!(matches!(lock.take(8000), Err(ActivationLockError::Held)));
        // The shell ends at once; the process that it started does not, and its process group is not killed.
        let ended = program::run_holding(&sh("sleep 600 & exit 0"), &[], Duration::from_mins(1), file).await;
        assert_eq!(ended, Ok(String::new()));
        assert_eq!(lock.held_until().unwrap(), Some(7000));
        assert!(lock.is_held() && matches!(lock.take(8000), Err(ActivationLockError::Held)));
        assert_eq!(lock.kill_holders().unwrap(), 1);
        once(|| !lock.is_held()).await;
        drop(lock.take(9000).unwrap());
        lock.forget().unwrap();
        lock.forget().unwrap();
        assert_eq!(lock.held_until().unwrap(), None);
    }

    #[tokio::test]
    async fn what_was_forgotten_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ActivationLock::of(&Root::new(folder.path()));
        let file = lock.take(7000).unwrap();
        lock.forget().unwrap();
        assert!(!lock.is_held());
        drop(lock.take(8000).unwrap());
        drop(file);
    }

    #[test]
    fn a_lock_that_cannot_be_asked_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ActivationLock::of(&Root::new(folder.path()));
        fs::create_dir_all(&lock.folder).unwrap();
        std::os::unix::fs::symlink("elsewhere", lock.path()).unwrap();
        assert!(lock.is_held() && lock.take(1).is_err());
    }
}
