//! A write lock on a whole file, of the open file and not of the process: it lasts until the last one who has the file open
//! has ended, whoever inherited it, and asking for it takes nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

/// A lock file is its owner's alone: whoever can read it could hold a read lock on it, and keep others from locking it.
pub(crate) const MODE: u32 = 0o600;

/// What a lock file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To ask who has it.
    Ask,
    /// To lock it; made if it is missing.
    Lock,
}

/// Opens a lock file without following a link.
///
/// # Errors
/// It cannot be opened, or made.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let write = access == Access::Lock;
    OpenOptions::new().read(true).write(write).create(write).mode(MODE).custom_flags(flags.bits()).open(path)
}

/// Locks the file; false if somebody else has a lock on it.
///
/// # Errors
/// The file system does not lock files.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file_write_lock())) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Whose lock is in the way of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nobody's.
    Nothing,
    /// That of somebody who may write the file.
    WriteLock,
    /// Somebody's who may only read the file.
    ReadLock,
}

/// Whose lock keeps us from locking the file. Takes nothing.
///
/// # Errors
/// The file system does not lock files.
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
