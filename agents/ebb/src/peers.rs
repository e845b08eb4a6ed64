//! The agents of this device as a verb meets them: do they run, may we write in their neighbourhood, who are we.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, bail};
use nix::unistd::{User, geteuid};
use pubsub::presence::{is_alive, pid_in};
use pubsub::{
    AgentLock, Holder, LockError, Persistence, Presence, Root, StoreError, TopicKey, presence, read_item,
};
use schemas::{NodeDrainReport, NodeDrainStatus, agent};

use crate::screen;

/// The agent runs, and reads what we write.
///
/// # Errors
/// It does not run; it runs as another user, whose files it would refuse or could not read.
pub(crate) fn require(root: &Root, agent: &str) -> anyhow::Result<()> {
    let presence = seen(root, agent)?;
    if !presence.is_running() {
        bail!(
            "nothing would happen: {agent} does not run here; start it with `ebb {}` or `ebb run`",
            verb(agent)
        );
    }
    let (me, other) = (geteuid().as_raw(), presence.pid().and_then(user_of));
    if let Some(other) = other.filter(|other| *other != me) {
        bail!(
            "nothing would happen: {agent} runs as user {}, and takes no files of user {}; run this as user {}",
            name_of(other),
            name_of(me),
            name_of(other)
        );
    }
    Ok(())
}

/// The lock of another user's agent cannot be asked; its pid file can be read by everybody.
fn seen(root: &Root, agent: &str) -> Result<Presence, StoreError> {
    presence(root, agent).or_else(|error| {
        let is_others = error.io().kind() == ErrorKind::PermissionDenied;
        let pid = pid_in(&root.pid(agent)).filter(|pid| is_others && is_alive(*pid));
        pid.map(Presence::Process).ok_or(error)
    })
}

/// Whether the agent runs. One that cannot be asked counts as running.
pub(crate) fn runs(root: &Root, agent: &str) -> bool {
    presence(root, agent).map_or(true, Presence::is_running)
}

/// Becomes the publisher `agent` (the controller, or the operator) until the lock is dropped.
///
/// # Errors
/// Somebody else publishes as it now; the lock cannot be made.
pub(crate) fn speak_as(root: &Root, agent: &str) -> anyhow::Result<AgentLock> {
    match AgentLock::acquire(root, agent) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { pid, .. }) => bail!(
            "{} publishes as {agent} now, and what is written beside it would not last: {}",
            holder_text(Holder { pid }),
            if agent == agent::CONTROLLER {
                "command it there, or stop it; if it is another `ebb`, try again"
            } else {
                "try again when it has ended"
            }
        ),
        Err(error @ (LockError::Reader { .. } | LockError::Store(_))) => {
            Err(error).with_context(|| format!("cannot publish as {agent} (are you root?)"))
        }
    }
}

/// Says on stderr that nobody will drain the node.
pub(crate) fn warn_without_zedkube(root: &Root) {
    if !runs(root, agent::ZEDKUBE) && !is_eves_zedkube(root) {
        screen::say(
            "Warning: zedkube does not run: nobody drains this node, and after `drain.start.timeout` the device may \
             go down undrained; start it with `ebb zedkube`",
        );
    }
}

/// EVE's zedkube has no lock of ours, and writes a status without a report.
fn is_eves_zedkube(root: &Root) -> bool {
    let (zedkube, volatile, key) = (agent::ZEDKUBE, Persistence::Volatile, TopicKey::global());
    let status = read_item::<NodeDrainStatus>(root, zedkube, volatile, &key);
    let report = read_item::<NodeDrainReport>(root, zedkube, volatile, &key);
    matches!((status, report), (Ok(Some(_)), Ok(None)))
}

/// The name of the user of this process; the number of a user without a name.
pub(crate) fn user() -> String {
    name_of(geteuid().as_raw())
}

/// The name of a user; the number of one without a name.
pub(crate) fn name_of(uid: u32) -> String {
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

fn holder_text(holder: Holder) -> String {
    holder.pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The verb that runs an agent.
fn verb(agent: &str) -> &str {
    match agent {
        agent::ZEDAGENT => "device-op",
        agent::BASEOSMGR => "baseos",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_process_is_told() {
        assert_eq!(user_of(std::process::id()), Some(geteuid().as_raw()));
        assert_eq!(user_of(u32::MAX), None);
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(4_000_000_000), "4000000000");
    }
}
