//! A device: a root folder, real agent processes that work below it, and the content of its files.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey, lock_holder, read_item};
use schemas::{Topic, agent};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::site::{Said, program, said};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_mins(5);

/// Dropping it kills its agents.
pub(crate) struct Device {
    folder: TempDir,
    pub(crate) root: Root,
    agents: Vec<Child>,
}

impl Device {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = Root::new(folder.path());
        Ok(Self { folder, root, agents: Vec::new() })
    }

    /// Starts an agent and waits until it runs.
    pub(crate) async fn start(&mut self, verb: &str, name: &str, flags: &[&str]) -> Result<()> {
        let mut command = self.command(&[verb]);
        command.args([
            "--log-format",
            "text",
            "--set",
            "device.dry-run=true",
            "--set",
            "baseos.dry-run=true",
        ]);
        self.agents.push(command.args(flags).spawn()?);
        self.until(&format!("{name} runs"), || lock_holder(&self.root, name).ok().flatten()).await?;
        Ok(())
    }

    pub(crate) async fn start_device_op(&mut self) -> Result<()> {
        self.start("device-op", agent::ZEDAGENT, &[]).await
    }

    /// Ends the agent that was started last.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let mut child = self.agents.pop().context("no agent runs")?;
        child.kill().await?;
        Ok(())
    }

    /// The agent that was started last hangs from now on.
    pub(crate) fn pause(&self) -> Result<()> {
        let id = self.agents.last().and_then(Child::id).context("no agent runs")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGSTOP)?;
        Ok(())
    }

    /// Runs `ebb` with these words and this root.
    pub(crate) async fn ebb(&self, words: &[&str]) -> Result<Said> {
        said(timeout(PATIENCE, self.command(words).output()).await.context("the program did not end")??)
    }

    /// Runs `ebb`, which has to succeed, and reads its document.
    pub(crate) async fn json(&self, words: &[&str]) -> Result<Value> {
        let said = self.ebb(&[words, &["--json"]].concat()).await?;
        anyhow::ensure!(said.code == 0, "{words:?}: {said:?}");
        Ok(serde_json::from_str(&said.out)?)
    }

    /// Starts `ebb` with these words and this root.
    pub(crate) fn spawn(&self, words: &[&str]) -> Result<Child> {
        Ok(self.command(words).spawn()?)
    }

    /// Sends the signal, and waits for the end.
    pub(crate) async fn signal(&self, child: Child, signal: Signal) -> Result<Said> {
        kill(Pid::from_raw(i32::try_from(child.id().context("it has ended")?)?), signal)?;
        self.finish(child).await
    }

    /// Waits for its end.
    pub(crate) async fn finish(&self, child: Child) -> Result<Said> {
        said(timeout(PATIENCE, child.wait_with_output()).await.context("the program did not end")??)
    }

    /// `ebb` refuses these words with this exit code and this part of its text, and prints no data.
    pub(crate) async fn refuses(&self, words: &[&str], code: i32, part: &str) -> Result<()> {
        let said = self.ebb(words).await?;
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{words:?}: {said:?}");
        assert!(said.err.contains(part), "{words:?}: {said:?}");
        Ok(())
    }

    /// Waits until the look finds something.
    pub(crate) async fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> Result<T> {
        let wait = async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.with_context(|| format!("in vain until {what}"))
    }

    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute)
    }

    pub(crate) fn item<T: Topic>(&self, agent: &str, key: &str) -> Option<T> {
        let key = TopicKey::parse(key).ok()?;
        read_item(&self.root, agent, Persistence::Volatile, &key).ok().flatten()
    }

    /// A file that an agent keeps on `/persist`.
    pub(crate) fn record<T: Topic>(&self, agent: &str) -> Option<T> {
        read_item(&self.root, agent, Persistence::Persistent, &TopicKey::global()).ok().flatten()
    }

    /// Publishes an item as this agent, which must not run.
    pub(crate) fn publish<T: Topic>(&self, agent: &str, key: &str, value: &T) -> Result<()> {
        let lock = AgentLock::acquire(&self.root, agent)?;
        let mut publisher = Publisher::open(&self.root, agent, Persistence::Volatile, &lock)?;
        publisher.publish(&TopicKey::parse(key)?, value)?;
        Ok(())
    }

    /// Writes a file as an operator would.
    pub(crate) fn write(&self, absolute: &str, text: &str) -> Result<()> {
        let path = self.path(absolute);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        std::fs::write(path, text)?;
        Ok(())
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = program();
        command.args(words).arg("--root").arg(self.folder.path());
        command
    }
}
