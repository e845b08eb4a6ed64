//! A child process that cannot outlive its owner.
//!
//! Each component is the leader of a process group. In the group a shell waits on a pipe whose other end only the owner
//! has. When the owner ends, for whatever reason, the kernel closes the pipe and the shell kills the group.
//! (`PR_SET_PDEATHSIG` would fire when the *thread* that started the child ends, and needs unsafe code to set.)

use std::{
    fs::OpenOptions,
    io::ErrorKind,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

/// Script: puts the watcher into the background and becomes the program, so that the child's id is the program's.
const KILL_GROUP_WITH_OWNER: &str = r#"
exec 3<&0
(while read -r _ <&3; do :; done; kill -KILL 0) >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"#;

/// Script: removes a folder once its owner has ended. If processes in it are still ending, it tries several times.
const REMOVE_WITH_OWNER: &str = r#"
while read -r _; do :; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1" && exit 0
    sleep 0.2
done
"#;

/// A running program in its own process group. Dropping it kills the whole group and waits for its end.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    group: Pid,
}

impl Process {
    /// Starts `program` with `home` as its HOME and no other environment variable; both outputs are appended to `log`.
    pub(crate) fn start(program: &Path, args: &[String], home: &Path, log: &Path) -> Result<Self> {
        let start = || -> Result<Self> {
            let output = OpenOptions::new().create(true).append(true).open(log)?;
            let child = shell(KILL_GROUP_WITH_OWNER)
                .arg(program)
                .args(args)
                .env_clear()
                .env("HOME", home)
                .stdout(output.try_clone()?)
                .stderr(output)
                .spawn()?;
            let group = Pid::from_raw(i32::try_from(child.id())?);
            Ok(Self { child, group })
        };
        start().with_context(|| format!("cannot start `{}`", program.display()))
    }

    /// The id of the program itself.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program alone, not to its watcher.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.group, signal).with_context(|| format!("cannot send {signal} to process {}", self.group))
    }

    /// The exit status of the program, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher keeps the group alive even after the program ended, so the number still names this group.
        match killpg(self.group, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => drop(self.child.wait()),
            // Dropping the child closes the pipe, so the watcher kills the group.
            Err(_) => {}
        }
    }
}

/// A temporary folder that is removed when it is dropped, and also when this process ends in any other way.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    watcher: Child,
}

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("control-plane-").tempdir().context("no temporary folder")?;
        let watcher = shell(REMOVE_WITH_OWNER)
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the shell that removes the temporary folder")?;
        Ok(Self { path: folder.keep(), watcher })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        drop(self.watcher.wait());
    }
}

/// A shell in its own process group (so that Ctrl-C in a terminal reaches only the owner), with a pipe as its input.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "control-plane"]).process_group(0).stdin(Stdio::piped());
    command
}

/// The last lines of a log, for an error message.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
    match std::fs::read_to_string(log) {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => format!("(cannot read `{}`: {error})", log.display()),
    }
}
