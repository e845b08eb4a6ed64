//! Speaking in the name of an agent, which must not run: two publishers of one topic would undo each other's work.

use anyhow::{Context, bail};
use pubsub::{AgentLock, Holder, LockError, TopicPlace, TopicSocket, lock_holder};

use super::find::served_of;
use super::shown;

/// Becomes the agent until the lock is dropped.
///
/// # Errors
/// It runs: its lock is held, or one of its sockets is served (EVE's agents have no lock of ours). The lock cannot be made.
pub(super) fn speak_for(place: &TopicPlace) -> anyhow::Result<AgentLock> {
    let (root, agent) = (place.root(), place.agent());
    if let Some(Holder { pid }) = lock_holder(root, agent)? {
        bail!(running(agent, pid));
    }
    if let Some((topic, TopicSocket::Served(peer))) = served_of(root, agent).into_iter().next() {
        let pid = peer.and_then(|peer| peer.pid);
        bail!("{} (it serves {})", running(agent, pid), shown::path(&topic.socket()));
    }
    match AgentLock::acquire(root, agent) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { pid, .. }) => bail!(running(agent, pid)),
        Err(error @ (LockError::Reader { .. } | LockError::Store(_))) => {
            Err(error).with_context(|| format!("cannot write in the name of {agent} (are you root?)"))
        }
    }
}

fn running(agent: &str, pid: Option<u32>) -> String {
    let process = pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
    format!(
        "{agent} runs{process}, and what is written beside it would not last: stop it first, or ask it for what you want \
         (`ebb request`, `ebb force`, `ebb reboot`, `ebb update`)"
    )
}
