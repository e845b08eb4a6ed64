//! Opens files that are no topics, and refuses what is not a regular file.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// The treatment of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Links are followed, for files that the system keeps as links, such as `/etc/os-release`.
    Followed,
    /// A link is an error.
    Refused,
}

/// Opens a regular file for reading. Anything else is an error; so a pipe in its place does not block the agent.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let flags = match links {
        Links::Followed => OFlag::O_NONBLOCK,
        Links::Refused => OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW,
    };
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file; remove it"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        File::create(path("file")).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        symlink("file", path("link")).unwrap();
        symlink("pipe", path("link to a pipe")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        for (name, followed, refused) in [
            ("file", true, true),
            ("link", true, false),
            ("folder", false, false),
            ("pipe", false, false),
            ("link to a pipe", false, false),
            ("dangling", false, false),
            ("nothing", false, false),
        ] {
            assert_eq!(open_regular(&path(name), Links::Followed).is_ok(), followed, "{name}");
            assert_eq!(open_regular(&path(name), Links::Refused).is_ok(), refused, "{name}");
        }
    }
}
