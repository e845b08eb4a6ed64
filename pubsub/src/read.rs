//! Reads files that another program or person may have written, without trusting them.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// The largest input file that is read: 1 MiB, far above any topic.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Permission bits that let users other than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The owners whose files are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Files of root or of the reading process's own user.
    RootOrSelf,
    /// Files of any user; only where the place is trusted.
    Anybody,
}

/// A file that was refused: its path, the reason, and what would be accepted. One line, for logs and reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason of the refusal.
    pub reason: String,
    /// The form that would be accepted.
    pub accepted: String,
    /// The file itself may be good: it could not be opened or read at the moment, for example because too many files
    /// are open or a disk fails.
    pub is_passing: bool,
}

impl Refusal {
    /// A refusal of the file at `path`.
    pub fn new(path: &Path, reason: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into(), accepted: accepted.into(), is_passing: false }
    }

    /// A refusal because the file could not be opened, read or listed. It counts as passing, except for a missing
    /// permission.
    pub(crate) fn of_io(path: &Path, operation: &str, error: &io::Error, accepted: &str) -> Self {
        let is_passing = error.kind() != io::ErrorKind::PermissionDenied;
        Self { is_passing, ..Self::new(path, format!("cannot be {operation}: {error}"), accepted) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        write!(formatter, "refused `{}`: {}; accepted: {}", path.escape_debug(), self.reason, self.accepted)
    }
}

impl std::error::Error for Refusal {}

/// The content of the regular file at `path`, at most `limit` bytes; `None` if there is no such file.
///
/// The file is opened first, without following a symbolic link at its end and without waiting (a FIFO cannot block the
/// reader). Then the opened file is checked, so it cannot be swapped in between.
pub fn read_checked(path: &Path, limit: u64, owner: Owner) -> Result<Option<Vec<u8>>, Refusal> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused_open(path, &error)),
    };
    let unreadable = |error: io::Error| Refusal::of_io(path, "read", &error, "a readable file");
    check(path, &file.metadata().map_err(unreadable)?, limit, owner)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= limit => Ok(Some(bytes)),
        _ => Err(too_long(path, "more", limit)),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

fn refused_open(path: &Path, error: &io::Error) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => not_regular(path, "a symbolic link"),
        Some(Errno::ENXIO) => not_regular(path, "a socket or a device"),
        _ => Refusal::of_io(path, "opened", error, "a readable file"),
    }
}

fn check(path: &Path, metadata: &Metadata, limit: u64, owner: Owner) -> Result<(), Refusal> {
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(not_regular(path, "a folder"));
    }
    if kind.is_fifo() {
        return Err(not_regular(path, "a pipe"));
    }
    if !kind.is_file() {
        return Err(not_regular(path, "a device"));
    }
    if owner == Owner::RootOrSelf {
        check_owner(path, metadata)?;
    }
    if limit < metadata.len() {
        return Err(too_long(path, &metadata.len().to_string(), limit));
    }
    Ok(())
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
    let me = geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != me {
        let accepted =
            if me == 0 { "owned by root".to_owned() } else { format!("owned by root or user {me}") };
        return Err(Refusal::new(path, format!("owned by user {}", metadata.uid()), accepted));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(Refusal::new(
            path,
            format!("mode {mode:04o} lets group or others write"),
            "writable by its owner alone (chmod go-w)",
        ));
    }
    Ok(())
}

fn not_regular(path: &Path, found: &str) -> Refusal {
    Refusal::new(path, format!("it is {found}"), "a regular file")
}

fn too_long(path: &Path, found: &str, limit: u64) -> Refusal {
    Refusal::new(path, format!("{found} bytes"), format!("at most {limit} bytes"))
}

#[cfg(test)]
mod tests;
