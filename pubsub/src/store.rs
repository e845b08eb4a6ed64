//! Durable writes: after a crash or a power cut a file holds the old content or the new content, never a mixture.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::OFlag;
use thiserror::Error;

use crate::failure_point;
use crate::read::{MAX_FILE_BYTES, Owner, read_checked};

/// Mode of topic folders: only the owner has access.
const FOLDER_MODE: u32 = 0o700;
/// Mode of topic files: only the owner has access.
const FILE_MODE: u32 = 0o600;
/// Mode of the folder of process ids: all users may list it.
const PUBLIC_FOLDER_MODE: u32 = 0o755;
/// Mode of pid files: all users may read them.
const PUBLIC_FILE_MODE: u32 = 0o644;
/// Start of the names of our temporary files. The names do not end in `.json`, so no reader takes them for items.
const TEMPORARY: &str = ".tmp.";
/// Suffix of the file that keeps the previous content.
pub(crate) const BACKUP_SUFFIX: &str = ".bak";
/// The longest file name of Linux' file systems, in bytes.
const MAX_FILE_NAME: usize = 255;

/// Whether the previous content stays as `<file>.bak`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backup {
    /// The previous content is kept, for topics that survive a boot. It is left out if the name with `.bak` would be
    /// too long.
    Keep,
    /// The previous content is not kept.
    None,
}

/// A file operation that failed: the operation, the path, and the system's error.
#[derive(Debug, Error)]
#[error("cannot {operation} {path:?}")]
pub struct StoreError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl StoreError {
    pub(crate) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_owned(), source }
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The system's error.
    pub fn io(&self) -> &io::Error {
        &self.source
    }
}

/// As [`write_durably`], but without a backup, readable by all users, and for a folder to which others write too. The
/// name of the temporary file is always the same, so that the next write removes what a crash left behind.
pub fn write_public(folder: &Path, file_name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let (temporary, target) = (folder.join(format!("{TEMPORARY}{file_name}")), folder.join(file_name));
    let place = target.display();
    failure_point::reached(format_args!("before writing {place}"));
    write_new(&temporary, &target, bytes, PUBLIC_FILE_MODE)?;
    put_in_place(&temporary, folder, &target)
}

/// Writes `bytes` to `folder/file_name`. When the call returns, they survive a power cut.
///
/// On an error the file has the old content, with one exception: if only the last step failed (the sync of the folder),
/// it has the new content but may lose it. So write again.
pub fn write_durably(folder: &Path, file_name: &str, bytes: &[u8], backup: Backup) -> Result<(), StoreError> {
    let target = folder.join(file_name);
    let place = target.display();
    failure_point::reached(format_args!("before writing {place}"));
    let temporary = write_temporary(folder, &target, bytes)?;
    let kept = match backup {
        Backup::Keep => keep_backup(folder, file_name),
        Backup::None => Ok(()),
    };
    if kept.is_err() {
        discard(&temporary);
    }
    kept?;
    put_in_place(&temporary, folder, &target)
}

/// Renames a temporary file to its target, durably.
fn put_in_place(temporary: &Path, folder: &Path, target: &Path) -> Result<(), StoreError> {
    let place = target.display();
    failure_point::reached(format_args!("before renaming {place}"));
    rename(temporary, target)?;
    failure_point::reached(format_args!("after renaming {place}"));
    sync_folder(folder)?;
    failure_point::reached(format_args!("after syncing {place}"));
    Ok(())
}

/// What became of a file that was to be renamed after it was read.
#[derive(Debug)]
pub enum Renamed {
    /// It has its new name.
    Judged,
    /// Another file had taken its place, which nobody has read: that one is in that place again, or a newer one.
    Another,
    /// Another file had taken its place, and cannot be put back: it has the new name.
    Lost(io::Error),
}

/// Renames an input file that was read and judged. Somebody may have put another file in its place since then:
/// `is_judged` tells by the new name, and another one is put back.
///
/// The rename is made durable if the disk allows it. If it does not, that is logged and no error, because the file has its
/// new name all the same: only a power cut may bring it back to `path`.
///
/// # Errors
/// It is not there any more, or cannot be renamed.
pub fn rename_judged(
    path: &Path,
    target: &Path,
    is_judged: impl FnOnce(&Path) -> bool,
) -> io::Result<Renamed> {
    fs::rename(path, target)?;
    if let Some(Err(error)) = path.parent().map(sync_folder) {
        tracing::warn!("a power cut may bring {} back: {error}: {}", path.display(), error.io());
    }
    if is_judged(target) {
        return Ok(Renamed::Judged);
    }
    // A hard link, unlike a rename, never replaces a newer file that is at `path` by now.
    match fs::hard_link(target, path).and_then(|()| fs::remove_file(target)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Ok(Renamed::Lost(error)),
        Ok(()) | Err(_) => Ok(Renamed::Another),
    }
}

/// Removes a file durably: first its backup, which otherwise would bring the file back, then the file. Returns true if
/// there was one.
pub fn remove_durably(folder: &Path, file_name: &str) -> Result<bool, StoreError> {
    let backup = folder.join(format!("{file_name}{BACKUP_SUFFIX}"));
    // A file whose name is too long for a backup has none.
    let may_be_there = file_name.len() + BACKUP_SUFFIX.len() <= MAX_FILE_NAME;
    if may_be_there && remove_if_there(&backup)? {
        failure_point::reached(format_args!("after removing {}", backup.display()));
        sync_folder(folder)?;
    }
    let path = folder.join(file_name);
    failure_point::reached(format_args!("before removing {}", path.display()));
    let removed = remove_if_there(&path)?;
    if removed {
        failure_point::reached(format_args!("after removing {}", path.display()));
        sync_folder(folder)?;
        failure_point::reached(format_args!("after syncing {}", path.display()));
    }
    Ok(removed)
}

/// Appends `line` (with its newline), or several, to a file durably; creates file and folder if they are missing. A line
/// that a crash cut short is first closed with a newline. After an error nothing is appended, so that the caller can try
/// the same again; only a disk that does not even shorten a file keeps a part.
pub fn append_durably(folder: &Path, file_name: &str, line: &[u8]) -> Result<(), StoreError> {
    create_folder(folder)?;
    let path = folder.join(file_name);
    let failed = |error| StoreError::new("append to", &path, error);
    // A user who may write to the folder may have put a link or a FIFO there meanwhile.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .custom_flags(flags.bits())
        .open(&path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    if ends_inside_a_line(&file).map_err(failed)? {
        file.write_all(b"\n").map_err(failed)?;
    }
    failure_point::reached(format_args!("before appending to {}", path.display()));
    let before = file.metadata().map_err(failed)?.len();
    if let Err(error) = file.write_all(line).and_then(|()| file.sync_all()) {
        if let Err(error) = file.set_len(before) {
            tracing::debug!("a part of a line stays in {}: {error}", path.display());
        }
        return Err(failed(error));
    }
    failure_point::reached(format_args!("after appending to {}", path.display()));
    sync_folder(folder)
}

fn ends_inside_a_line(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let Some(last) = file.metadata()?.len().checked_sub(1) else {
        return Ok(false);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

/// Creates a folder (0700), and the missing folders above it, durably.
pub fn create_folder(folder: &Path) -> Result<(), StoreError> {
    create_folder_with(folder, FOLDER_MODE)
}

/// As [`create_folder`], but all users may list the created folders (0755).
pub(crate) fn create_public_folder(folder: &Path) -> Result<(), StoreError> {
    create_folder_with(folder, PUBLIC_FOLDER_MODE)
}

fn create_folder_with(folder: &Path, mode: u32) -> Result<(), StoreError> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folder_with(parent, mode)?;
    }
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => folder.parent().map_or(Ok(()), sync_folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(StoreError::new("create folder", folder, error)),
    }
}

/// Removes temporary files that a crash left behind: ours, and those of EVE's Go agents (`tmp<digits>`). Only for a
/// folder to which no other process writes. Returns their number.
pub fn remove_leftovers(folder: &Path) -> Result<usize, StoreError> {
    let failed = |error| StoreError::new("list folder", folder, error);
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && is_temporary(&entry.file_name()) && remove_if_there(&entry.path())? {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Makes the present entries of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(place)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| StoreError::new("make durable the folder", place, error))
}

/// True if a file of this name is the unfinished file of a writer.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let ours = name.starts_with(TEMPORARY.as_bytes()) && !name.ends_with(b".json");
    let eves =
        name.strip_prefix(b"tmp").is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit));
    ours || eves
}

/// Creates a file with `bytes`, synced, which will be renamed to `target`. Its name comes from a counter, because the
/// key may be too long.
fn write_temporary(folder: &Path, target: &Path, bytes: &[u8]) -> Result<PathBuf, StoreError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{TEMPORARY}{}.{number}", std::process::id()));
    write_new(&path, target, bytes, FILE_MODE)?;
    Ok(path)
}

/// Creates a file at `path`, synced, which will be renamed to `target`. Errors name `target`: the temporary name means
/// nothing to people, and a new name each time would look like a new failure. A file that a crash left at `path`,
/// perhaps with another mode or as a link, is removed first.
fn write_new(path: &Path, target: &Path, bytes: &[u8], mode: u32) -> Result<(), StoreError> {
    remove_if_there(path).map_err(|error| StoreError::new("write", target, error.source))?;
    let written =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path).and_then(|mut file| {
            write_all(&mut file, target, bytes)?;
            file.sync_all()
        });
    written.map_err(|error| {
        discard(path);
        StoreError::new("write", target, error)
    })
}

/// Writes in two parts, as the kernel may do with any write, so that a test can end the process between them.
#[cfg(feature = "failure-points")]
fn write_all(file: &mut File, target: &Path, bytes: &[u8]) -> io::Result<()> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    failure_point::reached(format_args!("before writing half of {}", target.display()));
    file.write_all(first)?;
    failure_point::reached(format_args!("before writing the rest of {}", target.display()));
    file.write_all(second)?;
    failure_point::reached(format_args!("before writing through {}", target.display()));
    Ok(())
}

#[cfg(not(feature = "failure-points"))]
fn write_all(file: &mut File, _target: &Path, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
}

/// Renames a temporary file to its target; if that fails, the temporary file is removed.
fn rename(temporary: &Path, target: &Path) -> Result<(), StoreError> {
    fs::rename(temporary, target).map_err(|error| {
        discard(temporary);
        StoreError::new("replace", target, error)
    })
}

/// Copies the present content to `<file>.bak`, by a temporary file and rename as well. An empty file, which a crash of
/// another writer may leave, does not replace a good backup.
fn keep_backup(folder: &Path, file_name: &str) -> Result<(), StoreError> {
    let backup_name = format!("{file_name}{BACKUP_SUFFIX}");
    if MAX_FILE_NAME < backup_name.len() {
        return Ok(());
    }
    let Ok(Some(bytes)) = read_checked(&folder.join(file_name), MAX_FILE_BYTES, Owner::Anybody) else {
        return Ok(());
    };
    if bytes.is_empty() {
        return Ok(());
    }
    let backup = folder.join(backup_name);
    let temporary = write_temporary(folder, &backup, &bytes)?;
    failure_point::reached(format_args!("before renaming {}", backup.display()));
    rename(&temporary, &backup)?;
    failure_point::reached(format_args!("after renaming {}", backup.display()));
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::new("remove", path, error)),
    }
}

/// Removes a temporary file after a failure. If that fails too, the next start removes it.
fn discard(temporary: &Path) {
    if let Err(error) = fs::remove_file(temporary) {
        tracing::debug!("cannot remove {temporary:?} after a failed write: {error}");
    }
}

#[cfg(test)]
mod tests;
