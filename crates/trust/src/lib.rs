//! Decides which files a kubeconfig and its credentials may be read from, and which programs may be run.
//!
//! A user who may write one of them chooses the cluster that the agent obeys, or the program that runs as root. kubectl
//! reads any file; an agent that runs unattended checks owners and modes first.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{User, geteuid};

/// Longest file: no kubeconfig, certificate, key or token is longer, and a wrong path must not fill the memory.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Most symbolic links on a path, as for the kernel: a path with more of them is a loop.
const MOST_LINKS: usize = 40;

/// Permission bit of a folder in which only owners remove or rename files.
const STICKY: u32 = 0o1000;

/// Permission bits that let users other than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Files that may be read, by owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Any user's files, as for kubectl: for a person who names the file.
    #[default]
    Anybody,
    /// Files of root or of this process's user that no other user may write. A symbolic link is followed only if the
    /// same is true for every folder on the way, as for the kubelet's `kubelet-client-current.pem`.
    RootOrSelf,
}

impl Trust {
    /// Reads the whole of an ordinary file of at most 4 MiB. A FIFO or a device is refused and delays nothing.
    ///
    /// # Errors
    /// It cannot be read, or another user may have written it.
    pub fn read(self, path: &Path) -> io::Result<Vec<u8>> {
        let (path, links) = match self {
            Self::Anybody => (path.to_owned(), OFlag::empty()),
            // An ordinary file of root cannot be put anywhere by another user, but a link can.
            Self::RootOrSelf => (follow(path, Folders::OfLinks)?, OFlag::O_NOFOLLOW),
        };
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY | links).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return refuse("it is not a file");
        }
        if self == Self::RootOrSelf {
            accept(&metadata)?;
        }
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= LONGEST) {
            Ok(bytes)
        } else {
            refuse("it is longer than 4 MiB")
        }
    }
}

impl Trust {
    /// Checks whether this program may be run, by the same rules as for a file that is read; and so is every folder on the
    /// way, because the program could be replaced between this check and its start. Call it before each run. A program
    /// that does not exist is not checked.
    ///
    /// # Errors
    /// Another user may have written the program, or may replace it.
    pub fn check_program(self, program: &str) -> io::Result<()> {
        let found = if program.contains('/') { Some(PathBuf::from(program)) } else { in_path(program) };
        let Some(path) = found.filter(|path| self == Self::RootOrSelf && path.exists()) else {
            return Ok(());
        };
        accept(&fs::symlink_metadata(follow(&path, Folders::All)?)?)
    }
}

/// The path of a program without a `/`, as `execvp` finds it.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The user name of this process; the user's number if there is no name.
pub fn user() -> String {
    user_name(geteuid().as_raw())
}

/// The name of a user; the user's number if there is no name.
pub fn user_name(uid: u32) -> String {
    let user = User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
    user.unwrap_or_else(|| uid.to_string())
}

fn accept(metadata: &Metadata) -> io::Result<()> {
    let Some(why) = distrusted(metadata) else { return Ok(()) };
    refuse(&format!("it is {why}; accepted: root's or the own user's, writable by its owner alone"))
}

/// Which folders on the way are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folders {
    /// All, if there is a symbolic link among them.
    OfLinks,
    /// All. In one with the sticky bit, such as `/tmp`, nobody can replace what belongs to root.
    All,
}

/// The path without symbolic links.
fn follow(path: &Path, check: Folders) -> io::Result<PathBuf> {
    let mut to_go: VecDeque<OsString> = names(&std::path::absolute(path)?);
    let mut at = PathBuf::from("/");
    let (mut folders, mut links) = (vec![at.clone()], 0_usize);
    while let Some(name) = to_go.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let metadata = fs::symlink_metadata(&next)?;
        if !metadata.is_symlink() {
            if metadata.is_dir() {
                folders.push(next.clone());
            }
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return refuse("its symbolic links lead in a circle");
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            to_go.push_front(name);
        }
    }
    if links > 0 {
        folders.iter().try_for_each(|folder| check_folder(folder, "a symbolic link leads to it through"))?;
    } else if check == Folders::All {
        let is_sticky = |folder: &PathBuf| {
            fs::symlink_metadata(folder).is_ok_and(|found| found.uid() == 0 && found.mode() & STICKY != 0)
        };
        let mut folders = folders.iter().filter(|folder| !is_sticky(folder));
        folders.try_for_each(|folder| check_folder(folder, "it is in"))?;
    }
    Ok(at)
}

/// The parts of a path, without the root and without `.`.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(name).collect()
}

fn check_folder(folder: &Path, way: &str) -> io::Result<()> {
    let Some(why) = distrusted(&fs::symlink_metadata(folder)?) else { return Ok(()) };
    refuse(&format!(
        "{way} folder `{}`, which is {why}; accepted: root's or the own user's folders, \
         writable by their owner alone",
        folder.display()
    ))
}

/// Reason for which another user may have written the file or folder; `None` if no other user may.
fn distrusted(metadata: &Metadata) -> Option<String> {
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return Some(format!("owned by user {}", metadata.uid()));
    }
    let mode = metadata.mode() & 0o7777;
    (mode & WRITABLE_BY_OTHERS != 0).then(|| format!("writable by others (mode {mode:04o})"))
}

fn refuse<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests;
