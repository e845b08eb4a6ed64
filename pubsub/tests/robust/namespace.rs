//! Mounts and limits for one process alone: a user and mount namespace that ends with the process.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use nix::mount::{MsFlags, mount};

use crate::again::{relay, role, through};
use crate::place::temporary;

/// Command that makes a process root among its own mounts.
const MOUNTS: &[&str] = &["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];

/// True if the calling test runs in namespaces of its own and has to do its work. If false, the test was run again in
/// such namespaces.
pub(crate) fn is_inside(test: &str) -> bool {
    if role().is_some() {
        return true;
    }
    let folder = temporary();
    let output = through(MOUNTS, test, "inside", folder.path()).output().unwrap();
    relay(&output);
    false
}

/// Mounts a small file system in memory over `folder`.
pub(crate) fn mount_memory(folder: &Path, options: &str) {
    fs::create_dir_all(folder).unwrap();
    mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
}

/// Mounts one folder over another.
pub(crate) fn bind(from: &Path, over: &Path) {
    mount(Some(from), over, None::<&OsStr>, MsFlags::MS_BIND, None::<&OsStr>).unwrap();
}

/// Makes the file system at `folder` read-only, as the kernel does when a disk fails, or writable again.
pub(crate) fn remount(folder: &Path, is_read_only: bool) {
    let mut flags = MsFlags::MS_REMOUNT;
    flags.set(MsFlags::MS_RDONLY, is_read_only);
    mount(None::<&OsStr>, folder, None::<&OsStr>, flags, None::<&OsStr>).unwrap();
}

/// Sets a limit of this user namespace, not of the machine.
pub(crate) fn set_limit(name: &str, limit: u64) -> io::Result<()> {
    let path = Path::new("/proc/sys/user").join(name);
    OpenOptions::new().write(true).open(path)?.write_all(limit.to_string().as_bytes())
}
