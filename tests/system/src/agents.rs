//! One agent as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// A running agent. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a verb of the program with these arguments. Its log goes to the file `log`.
    pub fn start(program: &Path, verb: &str, arguments: &[String], log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .arg(verb)
            .args(arguments)
            .env_remove("KUBECONFIG")
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

    /// The agent's whole log so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// The exit status of the agent, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Process {
    /// If the agent cannot be killed, it has ended already.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
