//! A running `ebb run`: what it says, and its agents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::{Root, lock_holder};
use schemas::agent;
use serde_json::Value;

/// EVE's names of the agents.
pub(crate) const AGENTS: [&str; 4] = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR];

/// Limit for steps that normally take a second or two: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(5);

/// Between two looks at a lock.
const LOOK: Duration = Duration::from_millis(5);

/// Words of the parent about a process that has ended.
const ENDED: &str = " ended after ";

/// Agents that run, with their processes.
pub(crate) type Processes = BTreeMap<String, Pid>;

/// A parent and what it says. Dropping it ends it with its agents.
#[derive(Debug)]
pub(crate) struct Parent {
    child: Child,
    root: Root,
    lines: Receiver<String>,
    said: Vec<String>,
    /// Its records that nobody has waited for yet.
    records: Vec<Value>,
    /// All processes that it said have ended.
    ended: BTreeSet<i64>,
}

impl Parent {
    /// Starts `ebb run` below a folder, with these flags.
    pub(crate) fn start(program: &Path, folder: &Path, flags: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .arg("run")
            .arg("--root")
            .arg(folder)
            .args(["--log-format=json", "--set=cluster.mode=never"])
            .args(flags)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start `ebb run`")?;
        let lines = lines(child.stderr.take().context("no pipe")?);
        Ok(Self {
            child,
            root: Root::new(folder),
            lines,
            said: Vec::new(),
            records: Vec::new(),
            ended: BTreeSet::new(),
        })
    }

    /// The parent's process.
    pub(crate) fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id())?))
    }

    /// The record of the next end of an agent's process.
    pub(crate) fn until_ended(&mut self, agent: &str) -> Result<Value> {
        self.until("the end", agent, |record| is(record, ENDED).then(|| record.clone()))
    }

    /// The next process of an agent that gets the agent's lock.
    pub(crate) fn until_lives(&mut self, agent: &str) -> Result<Pid> {
        loop {
            let pid = self.until("the start", agent, |record| {
                if is(record, "started ") { record["process"].as_i64() } else { None }
            })?;
            if self.gets_lock(agent, pid)? {
                return Ok(Pid::from_raw(i32::try_from(pid)?));
            }
        }
    }

    /// All agents, when they have their locks.
    pub(crate) fn until_all_live(&mut self) -> Result<Processes> {
        AGENTS.iter().map(|agent| Ok(((*agent).to_owned(), self.until_lives(agent)?))).collect()
    }

    /// Sends the parent a signal, waits for its end, and gives how it ended and all that was said.
    pub(crate) fn end(mut self, signal: Signal) -> Result<(ExitStatus, String)> {
        kill(self.pid()?, signal)?;
        self.wait()
    }

    /// Waits for its end and that of its agents, and gives how it ended and all that was said.
    pub(crate) fn wait(&mut self) -> Result<(ExitStatus, String)> {
        self.read_to_the_end()?;
        let status = self.child.wait()?;
        Ok((status, self.said.join("\n")))
    }

    /// The parent's next record about an agent for which this gives something.
    fn until<T>(&mut self, what: &str, agent: &str, look: impl Fn(&Value) -> Option<T>) -> Result<T> {
        loop {
            let find =
                |record: &Value| if record["agent"] == agent::shown(agent) { look(record) } else { None };
            if let Some(at) = self.records.iter().position(|record| find(record).is_some()) {
                return find(&self.records.remove(at)).context("found before");
            }
            if self.read(PATIENCE).is_err() {
                bail!("{what} of {agent} was not said; said was:\n{}", self.said.join("\n"));
            }
        }
    }

    /// Waits until this process runs as the agent; false if it ends before.
    fn gets_lock(&mut self, agent: &str, pid: i64) -> Result<bool> {
        let mut looks = PATIENCE.as_millis() / LOOK.as_millis();
        loop {
            if lock_holder(&self.root, agent)?.and_then(|holder| holder.pid).map(i64::from) == Some(pid) {
                return Ok(true);
            }
            if self.ended.contains(&pid) {
                return Ok(false);
            }
            ensure!(
                0 < looks,
                "{agent}, process {pid}, neither has its lock nor ends:\n{}",
                self.said.join("\n")
            );
            looks -= 1;
            // Nothing tells of a lock that is taken, so this is also the pause between two looks.
            if self.read(LOOK) == Err(RecvTimeoutError::Disconnected) {
                bail!("the parent and its agents are gone; said was:\n{}", self.said.join("\n"));
            }
        }
    }

    fn read(&mut self, limit: Duration) -> Result<(), RecvTimeoutError> {
        let line = self.lines.recv_timeout(limit)?;
        let record: Option<Value> = serde_json::from_str(&line).ok();
        if let Some(record) = record.filter(|record| record["source"] == "ebb-run") {
            let ended = record["process"].as_i64().filter(|_| is(&record, ENDED));
            self.ended.extend(ended);
            self.records.push(record);
        }
        self.said.push(line);
        Ok(())
    }

    /// The agents write to the same pipe: it ends when the last of them has ended.
    fn read_to_the_end(&mut self) -> Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a test that waits for ever says nothing")]
        let end = Instant::now() + PATIENCE;
        loop {
            #[expect(clippy::disallowed_methods, reason = "as above")]
            let left = end.saturating_duration_since(Instant::now());
            match self.read(left) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("not all have ended; said was:\n{}", self.said.join("\n"))
                }
            }
        }
    }
}

impl Drop for Parent {
    /// A process that cannot be killed has ended already.
    fn drop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), self.pid()) {
            if kill(pid, Signal::SIGTERM).is_ok() {
                drop(self.read_to_the_end());
            }
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn lines(pipe: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn is(record: &Value, text: &str) -> bool {
    record["msg"].as_str().is_some_and(|message| message.contains(text))
}
