//! One agent as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running agent. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a verb of the program with these arguments and, beside the test's own, these environment variables; what
    /// it logs goes to the file.
    pub fn start(
        program: &Path,
        verb: &str,
        arguments: &[String],
        environment: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .arg(verb)
            .args(arguments)
            .env_remove("KUBECONFIG")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {verb}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has logged so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// Asks it to end, and waits.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        Ok(self.child.wait()?)
    }

    /// Freezes it, as a machine that hangs.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }
}

impl Drop for Process {
    /// What cannot be killed has ended.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
