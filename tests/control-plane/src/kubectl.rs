//! Runs kubectl with a kubeconfig.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::binaries::Binaries;

/// The control plane's kubectl for one user.
#[derive(Debug, Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    preset: [OsString; 4],
}

impl Kubectl {
    /// `scratch` gets kubectl's discovery cache; in the home folder the cache would grow with every control plane.
    pub(crate) fn new(binaries: &Binaries, kubeconfig: &Path, scratch: &Path) -> Self {
        Self {
            program: binaries.path("kubectl"),
            preset: [
                "--kubeconfig".into(),
                kubeconfig.into(),
                "--cache-dir".into(),
                scratch.join("kubectl-cache").into(),
            ],
        }
    }

    /// A command without its verb and arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // A person's own kubectl settings must not change a test.
        command.args(&self.preset).env_remove("KUBECONFIG").env("KUBECTL_KUBERC", "false");
        command
    }

    /// Runs kubectl and returns its standard output. An error contains the arguments and kubectl's message.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String> {
        self.run_with_input(args, b"")
    }

    /// As [`Kubectl::run`], with text on standard input, for `-f -`.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Result<String> {
        let run = || {
            let mut child = self
                .command()
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            // kubectl reads all of its input before it writes, so neither side can block the other.
            let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
            child.wait_with_output().map(|output| (output, written))
        };
        let (output, written) = run().with_context(|| format!("cannot run `kubectl {}`", args.join(" ")))?;
        ensure!(
            output.status.success(),
            "`kubectl {}` failed ({}): {}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        // Checked only now: a kubectl that fails early leaves its input unread, and its own error is the useful one.
        written.with_context(|| format!("`kubectl {}` did not read its input", args.join(" ")))?;
        Ok(String::from_utf8(output.stdout)?)
    }
}
