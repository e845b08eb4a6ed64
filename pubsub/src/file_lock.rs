//! A write lock on a whole file. The lock belongs to the open file, not to the process: it lasts until the last process
//! that has the file open has ended, also if it inherited the file. Asking for the lock's holder locks nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

/// Only the owner may open a lock file: a process that may read it could hold a read lock on it and so keep the agent
/// from locking it.
const MODE: u32 = 0o600;

/// Purpose for which a lock file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To ask who holds the lock.
    Ask,
    /// To lock the file; it is created if it is missing.
    Lock,
}

/// Opens a lock file without following a symbolic link.
///
/// # Errors
/// The file cannot be opened or created.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let write = access == Access::Lock;
    OpenOptions::new().read(true).write(write).create(write).mode(MODE).custom_flags(flags.bits()).open(path)
}

/// Locks the file; returns false if another process has a lock on it.
///
/// # Errors
/// The file system does not support locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file_write_lock())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The kind of lock that is in the way of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no other lock.
    Nothing,
    /// A write lock, of a process that may write the file.
    WriteLock,
    /// A read lock, of a process that may only read the file.
    ReadLock,
}

/// The lock that keeps us from locking the file. The call itself locks nothing.
///
/// # Errors
/// The file system does not support locks.
pub fn ask(file: &File) -> io::Result<Found> {
    let mut lock = whole_file_write_lock();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(match i32::from(lock.l_type) {
        libc::F_UNLCK => Found::Nothing,
        libc::F_RDLCK => Found::ReadLock,
        _ => Found::WriteLock,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the constants are small; the structure wants 16 bits")]
pub(crate) const fn whole_file_write_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
