//! Mounts and limits of one process alone: a user and mount namespace that ends with it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};

use crate::again::{relay, role, say, through};
use crate::place::temporary;

/// Being root among its own mounts.
const MOUNTS: &[&str] = &["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];
/// Being a root for whom the modes of files count.
const NO_OVERRIDE: &[&str] = &["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"];

/// Whether the calling test is in namespaces of its own, and has to do its work. If not, it was run again in such, or
/// that is not permitted here, which is said.
pub(crate) fn is_inside(test: &str) -> bool {
    is_through(MOUNTS, test)
}

/// The same, but without the right to pass over the modes of files.
pub(crate) fn is_bound_by_modes(test: &str) -> bool {
    is_through(&[MOUNTS, NO_OVERRIDE].concat(), test)
}

fn is_through(program: &[&str], test: &str) -> bool {
    if role().is_some() {
        return true;
    }
    if let Err(reason) = try_out(program) {
        say(&format!("{test} skipped: `{}` is not permitted here: {reason}", program.join(" ")));
        return false;
    }
    let folder = temporary();
    let output = through(program, test, "inside", folder.path()).output().unwrap();
    relay(&output);
    false
}

fn try_out(program: &[&str]) -> Result<(), String> {
    let output = Command::new(program[0]).args(&program[1..]).arg("true").output();
    let output = output.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(errors) }
}

/// A small file system in memory, over `folder`.
pub(crate) fn mount_memory(folder: &Path, options: &str) {
    fs::create_dir_all(folder).unwrap();
    mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
}

/// One folder over another.
pub(crate) fn bind(from: &Path, over: &Path) {
    mount(Some(from), over, None::<&OsStr>, MsFlags::MS_BIND, None::<&OsStr>).unwrap();
}

/// Forbids, or permits, to write through the mount at `folder`.
pub(crate) fn remount(folder: &Path, how: Remount, is_read_only: bool) {
    let mut flags = MsFlags::MS_REMOUNT;
    flags.set(MsFlags::MS_BIND, how == Remount::Mount);
    flags.set(MsFlags::MS_RDONLY, is_read_only);
    mount(None::<&OsStr>, folder, None::<&OsStr>, flags, None::<&OsStr>).unwrap();
}

/// What a mode is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remount {
    /// This way to the file system alone.
    Mount,
    /// The file system, as the kernel does by itself when the disk fails.
    FileSystem,
}

/// Sets a limit of this user namespace, not of the machine.
pub(crate) fn set_limit(name: &str, limit: u64) -> io::Result<()> {
    let path = Path::new("/proc/sys/user").join(name);
    OpenOptions::new().write(true).open(path)?.write_all(limit.to_string().as_bytes())
}
