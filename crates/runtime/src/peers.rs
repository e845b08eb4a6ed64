//! The agents of this device as a program meets them that wants something of one: does it run and read what we write, who
//! publishes under a name, who still asks for a drain.

use std::fmt;
use std::fs;
use std::io::ErrorKind;

use nix::unistd::{User, geteuid};
use pubsub::presence::{is_alive, pid_in};
use pubsub::{
    AgentLock, LockError, Persistence, Presence, Refusal, Root, StoreError, TopicKey, presence, read_item,
};
use schemas::{Agent, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, agent};
use text::one_line;
use thiserror::Error;

/// So much is shown of the reason that a request gives, in bytes.
const MOST_CONTEXT: usize = 200;

/// Why nothing would come of what is written for an agent.
#[derive(Debug, Error)]
pub enum NotListening {
    /// Nobody would read it.
    #[error("nothing would happen: {agent} does not run here; start it with `ebb {agent}` or `ebb run`")]
    Away {
        /// The agent.
        agent: Agent,
    },
    /// It would refuse our files, or could not read them.
    #[error(
        "nothing would happen: {agent} runs as user {theirs}, and takes no files of user {ours}; run this as user {theirs}"
    )]
    OtherUser {
        /// The agent.
        agent: Agent,
        /// Its user.
        theirs: String,
        /// The user of this process.
        ours: String,
    },
    /// Nobody can tell whether it runs.
    #[error(transparent)]
    Unknown(#[from] StoreError),
}

/// Why this process cannot publish under a name.
#[derive(Debug, Error)]
pub enum CannotSpeak {
    /// Somebody else does.
    #[error("{} publishes as {agent} now, and what is written beside it would not last: {}", process(*pid), remedy(agent))]
    Held {
        /// The name.
        agent: String,
        /// The process that does.
        pid: Option<u32>,
    },
    /// The lock cannot be had.
    #[error("cannot publish as {agent} (are you root?)")]
    Lock {
        /// The name.
        agent: String,
        /// What is in the way.
        source: LockError,
    },
}

/// The agent runs, and reads what this process writes.
///
/// # Errors
/// It does not run; it runs as another user, whose files it would refuse or could not read.
pub fn require(root: &Root, agent: Agent) -> Result<(), NotListening> {
    let presence = presence_for_all(root, agent)?;
    if !presence.is_running() {
        return Err(NotListening::Away { agent });
    }
    let (ours, theirs) = (geteuid().as_raw(), presence.pid().and_then(user_of));
    match theirs.filter(|theirs| *theirs != ours) {
        Some(theirs) => {
            Err(NotListening::OtherUser { agent, theirs: user_name(theirs), ours: user_name(ours) })
        }
        None => Ok(()),
    }
}

/// The lock of another user's agent cannot be asked; its pid file can be read by everybody.
fn presence_for_all(root: &Root, agent: Agent) -> Result<Presence, StoreError> {
    presence(root, agent.wire_name()).or_else(|error| {
        let is_others = error.io().kind() == ErrorKind::PermissionDenied;
        let pid = pid_in(&root.pid(agent.wire_name())).filter(|pid| is_others && is_alive(*pid));
        pid.map(Presence::Process).ok_or(error)
    })
}

/// Whether the agent runs. One that cannot be asked counts as running.
pub fn runs(root: &Root, agent: Agent) -> bool {
    presence(root, agent.wire_name()).map_or(true, Presence::is_running)
}

/// Becomes the publisher `agent` (the controller, or the operator) until the lock is dropped.
///
/// # Errors
/// Somebody else publishes as it now; the lock cannot be made.
pub fn speak_as(root: &Root, agent: &str) -> Result<AgentLock, CannotSpeak> {
    AgentLock::acquire(root, agent).map_err(|error| match error {
        LockError::Held { pid, agent, .. } => CannotSpeak::Held { agent, pid },
        source @ (LockError::Reader { .. } | LockError::Store(_)) => {
            CannotSpeak::Lock { agent: agent.to_owned(), source }
        }
    })
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn remedy(agent: &str) -> &'static str {
    if agent == agent::CONTROLLER {
        "command it there, or stop it; if it is another `ebb`, try again"
    } else {
        "try again when it has ended"
    }
}

/// Whether somebody drains this node when it is asked to: our zedkube, or EVE's.
pub fn has_zedkube(root: &Root) -> bool {
    runs(root, Agent::Zedkube) || is_eves_zedkube(root)
}

/// EVE's zedkube has no lock of ours, and writes a status without a report.
fn is_eves_zedkube(root: &Root) -> bool {
    let (zedkube, volatile, key) = (agent::ZEDKUBE, Persistence::Volatile, TopicKey::global());
    let status = read_item::<NodeDrainStatus>(root, zedkube, volatile, &key);
    let report = read_item::<NodeDrainReport>(root, zedkube, volatile, &key);
    matches!((status, report), (Ok(Some(_)), Ok(None)))
}

/// zedkube's report, if there is one that can be read.
pub fn report(root: &Root) -> Option<NodeDrainReport> {
    read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global()).ok().flatten()
}

/// A publisher that asks for a drain of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    publisher: &'static str,
    /// Why it asks, or why its request cannot be read: it asks for something all the same.
    context: Result<String, Refusal>,
}

/// Everybody who asks for a drain that has not failed: zedkube itself gives the node back after one that has.
pub fn askers(root: &Root) -> Vec<Asker> {
    let report = report(root).unwrap_or_default();
    let asker = |publisher| asker(root, publisher, &report);
    [agent::ZEDAGENT, agent::BASEOSMGR, agent::EBB].into_iter().filter_map(asker).collect()
}

fn asker(root: &Root, publisher: &'static str, report: &NodeDrainReport) -> Option<Asker> {
    let asker = |context| Asker { publisher, context };
    let is_failed = |time| report.line_of(publisher, time).is_some_and(|line| line.answer.is_failed());
    match read_item::<NodeDrainRequest>(root, publisher, Persistence::Volatile, &TopicKey::global()) {
        Ok(Some(request)) => (!is_failed(request.requested_at)).then(|| asker(Ok(request.context))),
        Err(refusal) => Some(asker(Err(refusal))),
        // zedkube has not seen yet that it is gone; one that does not run will not go on with it.
        Ok(None) if runs(root, Agent::Zedkube) => {
            let is_its =
                |line: &&schemas::RequestLine| line.publisher == publisher && !line.answer.is_failed();
            report.requests.iter().find(is_its).map(|line| asker(Ok(line.context.clone())))
        }
        Ok(None) => None,
    }
}

impl fmt::Display for Asker {
    /// `device-op (reboot)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = agent::shown(self.publisher);
        match &self.context {
            Ok(context) => write!(f, "{name} ({})", one_line(context, MOST_CONTEXT)),
            Err(refusal) => write!(f, "{name}, whose request cannot be read ({refusal})"),
        }
    }
}

/// The name of the user of this process; the number of a user without a name.
pub fn user() -> String {
    user_name(geteuid().as_raw())
}

/// The name of a user; the number of one without a name.
pub fn user_name(uid: u32) -> String {
    let user = User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
    user.unwrap_or_else(|| uid.to_string())
}

/// The effective user of a process; nothing if it cannot be told. The owner of `/proc/PID` would not do: it is root
/// for processes with capabilities.
fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_process_is_told() {
        assert_eq!(user_of(std::process::id()), Some(geteuid().as_raw()));
        assert_eq!(user_of(u32::MAX), None);
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
    }
}
