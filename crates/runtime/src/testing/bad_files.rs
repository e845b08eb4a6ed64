//! Input files that are bad in every possible way.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use super::device::{TestDevice, write};

/// An input file of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The path on the device.
    pub path: &'a str,
    /// Good contents.
    pub good: &'a str,
    /// Contents of wrong types, and with numbers out of range.
    pub wrong: &'a [&'a str],
}

/// A way in which a file is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFile<'a> {
    /// An empty file.
    Empty,
    /// The first half of the good contents.
    Half,
    /// A file with this text.
    Text(&'a str),
    /// A file with bytes that are not UTF-8.
    NotUtf8,
    /// A file with deeply nested lists.
    Deep,
    /// The good contents, and white space up to 2 MiB.
    Huge,
    /// A folder.
    Folder,
    /// A pipe without a writer.
    Pipe,
    /// A link to a good file.
    Link,
    /// A link to a missing file.
    DanglingLink,
    /// A good file that every user may write.
    WritableByAll,
    /// A good file of another user.
    Foreign,
}

impl<'a> Input<'a> {
    /// All ways in which this file can be bad: an empty TOML file is a good one, and only root can give a file to
    /// another user.
    pub fn bad(&self) -> Vec<BadFile<'a>> {
        let mut all = vec![
            BadFile::Half,
            BadFile::Text("7"),
            BadFile::Text("null"),
            BadFile::Text("[{}]"),
            BadFile::Text("reboot please"),
            BadFile::NotUtf8,
            BadFile::Deep,
            BadFile::Huge,
            BadFile::Folder,
            BadFile::Pipe,
            BadFile::Link,
            BadFile::DanglingLink,
            BadFile::WritableByAll,
        ];
        all.extend(self.wrong.iter().map(|text| BadFile::Text(text)));
        if Path::new(self.path).extension().is_none_or(|extension| extension != "toml") {
            all.push(BadFile::Empty);
        }
        if geteuid().is_root() {
            all.push(BadFile::Foreign);
        }
        all
    }

    /// Writes the good contents, whatever was there before.
    pub fn put_good(&self, device: &TestDevice) {
        self.replace(device, |aside| write(aside, self.good.as_bytes()));
    }

    /// Puts a bad file in place.
    pub fn put_bad(&self, device: &TestDevice, bad: BadFile<'_>) {
        self.replace(device, |aside| self.make(aside, bad));
    }

    /// Replaces the file in one step, so that it is never missing.
    fn replace(&self, device: &TestDevice, make: impl FnOnce(&Path)) {
        let path = device.path(self.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A name that no agent reads.
        let aside = path.with_file_name("aside");
        make(&aside);
        if fs::symlink_metadata(&path).is_err() {
            fs::rename(aside, path).unwrap();
            return;
        }
        renameat2(AT_FDCWD, &aside, AT_FDCWD, &path, RenameFlags::RENAME_EXCHANGE).unwrap();
        fs::remove_file(&aside).or_else(|_| fs::remove_dir(&aside)).unwrap();
    }

    fn make(&self, path: &Path, bad: BadFile<'_>) {
        let good = self.good.as_bytes();
        let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        match bad {
            BadFile::Empty => write(path, b""),
            BadFile::Half => write(path, good.get(..good.len() / 2).unwrap_or_default()),
            BadFile::Text(text) => write(path, text.as_bytes()),
            BadFile::NotUtf8 => write(path, b"{\"\xff\xfe\": \xc0\x80}"),
            BadFile::Deep => write(path, &b"[".repeat(10_000)),
            BadFile::Huge => write(path, &[good, &b" ".repeat(2 * 1024 * 1024)].concat()),
            BadFile::Folder => fs::create_dir(path).unwrap(),
            BadFile::Pipe => mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(),
            BadFile::Link => {
                write(&path.with_file_name("target"), good);
                symlink("target", path).unwrap();
            }
            BadFile::DanglingLink => symlink("nowhere", path).unwrap(),
            BadFile::WritableByAll => {
                write(path, good);
                mode(0o666);
            }
            BadFile::Foreign => {
                write(path, good);
                chown(path, Some(12_345), None).unwrap();
            }
        }
    }
}
