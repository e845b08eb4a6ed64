//! The state of this device's agents, for a program that needs one of them: whether an agent runs and accepts our
//! files, who publishes under a name, and which agents request a drain.

use std::fmt;
use std::fs;
use std::io::ErrorKind;

use nix::unistd::geteuid;
use pubsub::presence::{is_alive, pid_in};
use pubsub::{
    AgentLock, LockError, Persistence, Presence, Refusal, Root, StoreError, TopicKey, presence, read_item,
};
use schemas::{Agent, DrainRequester, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, agent};
use text::one_line;
use thiserror::Error;
pub use trust::{user, user_name};

/// Limit in bytes for the reason of a request that is shown.
const MOST_CONTEXT: usize = 200;

/// The reason why an agent would ignore a file that is written for it.
#[derive(Debug, Error)]
pub enum NotListening {
    /// The agent does not run.
    #[error("nothing would happen: {agent} does not run here; start it with `ebb {agent}` or `ebb run`")]
    Away {
        /// The agent.
        agent: Agent,
    },
    /// The agent runs as another user, and would refuse our files or could not read them.
    #[error(
        "nothing would happen: {agent} runs as user {theirs}, and takes no files of user {ours}; run this as user {theirs}"
    )]
    OtherUser {
        /// The agent.
        agent: Agent,
        /// The agent's user.
        theirs: String,
        /// The user of this process.
        ours: String,
    },
    /// It is not known whether the agent runs.
    #[error(transparent)]
    Unknown(#[from] StoreError),
}

/// The reason why this process cannot publish under a name.
#[derive(Debug, Error)]
pub enum CannotSpeak {
    /// Another process publishes under this name.
    #[error("{} publishes as {agent} now, and what is written beside it would not last: {}", process(*pid), remedy(agent))]
    Held {
        /// Wire name of the publisher.
        agent: String,
        /// The id of that process.
        pid: Option<u32>,
    },
    /// The lock cannot be taken.
    #[error("cannot publish as {agent} (are you root?)")]
    Lock {
        /// Wire name of the publisher.
        agent: String,
        /// The error of the lock.
        source: LockError,
    },
}

/// Checks that the agent runs and accepts files of this process.
///
/// # Errors
/// The agent does not run, or it runs as another user, whose files it would refuse or could not read.
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

/// Presence of an agent for a caller of any user. The lock of another user's agent cannot be read; its pid file can.
fn presence_for_all(root: &Root, agent: Agent) -> Result<Presence, StoreError> {
    presence(root, agent.wire_name()).or_else(|error| {
        let is_others = error.io().kind() == ErrorKind::PermissionDenied;
        let pid = pid_in(&root.pid(agent.wire_name())).filter(|pid| is_others && is_alive(*pid));
        pid.map(Presence::Process).ok_or(error)
    })
}

/// True if the agent runs, or if that cannot be found out.
pub fn runs(root: &Root, agent: Agent) -> bool {
    presence(root, agent.wire_name()).map_or(true, Presence::is_running)
}

/// Takes the lock of publisher `agent` (the controller, or the operator) until it is dropped.
///
/// # Errors
/// Another process holds the lock, or the lock cannot be created.
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

/// True if a zedkube, ours or EVE's, answers requests for drains of this node.
pub fn has_zedkube(root: &Root) -> bool {
    runs(root, Agent::Zedkube) || is_eves_zedkube(root)
}

/// True if the running zedkube is EVE's, which has no lock of ours and writes a status without a report.
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

/// A publisher that requests a drain of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    publisher: &'static str,
    /// The request's reason, or why the request cannot be read; such a request counts, too.
    context: Result<String, Refusal>,
}

/// The publishers that request a drain which has not failed, or is kept over boots: after a failed drain zedkube itself
/// uncordons the node, but not for a request that is kept.
pub fn askers(root: &Root) -> Vec<Asker> {
    let report = report(root).unwrap_or_default();
    DrainRequester::PUBLISHERS
        .into_iter()
        .filter_map(|(publisher, _)| asker(root, publisher, &report))
        .collect()
}

/// The request of this publisher, and where its file is. A person's may be kept over boots, below `/persist`; such a one
/// counts instead of one below `/run`, as in zedkube.
///
/// # Errors
/// A file cannot be read.
pub fn request_of(root: &Root, publisher: &str) -> Result<Option<(NodeDrainRequest, Persistence)>, Refusal> {
    let read = |persistence| {
        let request = read_item(root, publisher, persistence, &TopicKey::global())?;
        Ok(request.map(|request| (request, persistence)))
    };
    let kept = if publisher == agent::EBB { read(Persistence::Persistent)? } else { None };
    kept.map_or_else(|| read(Persistence::Volatile), |kept| Ok(Some(kept)))
}

fn asker(root: &Root, publisher: &'static str, report: &NodeDrainReport) -> Option<Asker> {
    let asker = |context| Asker { publisher, context };
    let is_failed = |time| report.line_of(publisher, time).is_some_and(|line| line.answer.is_failed());
    match request_of(root, publisher) {
        Ok(Some((request, persistence))) => {
            let holds = persistence == Persistence::Persistent || !is_failed(request.requested_at);
            holds.then(|| asker(Ok(request.context)))
        }
        Err(refusal) => Some(asker(Err(refusal))),
        // zedkube still lists the request, because it has not noticed yet that it was withdrawn. If zedkube does not
        // run, it will not go on with it.
        Ok(None) if runs(root, Agent::Zedkube) => {
            let is_its =
                |line: &&schemas::RequestLine| line.publisher == publisher && !line.answer.is_failed();
            report.requests.iter().find(is_its).map(|line| asker(Ok(line.context.clone())))
        }
        Ok(None) => None,
    }
}

impl fmt::Display for Asker {
    /// The form is `device-op (reboot)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = agent::shown_asker(self.publisher);
        match &self.context {
            Ok(context) => write!(f, "{name} ({})", one_line(context, MOST_CONTEXT)),
            Err(refusal) => write!(f, "{name}, whose request cannot be read ({refusal})"),
        }
    }
}

/// The effective user of a process; None if it cannot be read. The owner of `/proc/PID` is not used, because it is
/// root for processes with capabilities.
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
    }
}
