//! The state of nodeagent, as device-op and baseos see it.

use pubsub::{Persistence, Presence, Root, TopicKey, presence, read_item};
use schemas::{DeviceAction, DeviceActionState, ZedkubeSeen, agent};
use text::one_line;

use crate::clock::{Moment, millis};
use crate::error_chain;
use crate::liveness::hung_for;

/// Limit in bytes for the texts of nodeagent that are shown.
const MOST_WORDS: usize = 512;

/// Limit for nodeagent to take a command, or the reboot into an image, in milliseconds. Normally it takes one within a
/// second. After the limit the requester gives up, so that the node is uncordoned and its slot released. It is as long
/// as zedkube may be away by default (`drain.start.timeout`).
pub const NOT_TAKEN_LIMIT_MS: u64 = 10 * 60 * 1000;

/// Poll interval for the lock of another agent while an agent waits for it, in milliseconds: a lock that is released
/// causes no event.
pub const LOOK_AT_LOCK_MS: u64 = 1000;

/// When nodeagent has not taken a command for too long, in milliseconds of this boot's clock; see
/// [`NodeAgentView::not_taken`].
pub fn not_taken_at(since: Option<u64>, now: Moment) -> Option<u64> {
    since.map(|since| since.saturating_add(NOT_TAKEN_LIMIT_MS).max(now.boot_ms))
}

/// True if the agent runs ([`pubsub::presence()`]), or if that cannot be found out.
pub fn is_running(root: &Root, agent: &str) -> bool {
    presence(root, agent).map_or_else(
        |error| {
            tracing::debug!("{}", error_chain(&error));
            true
        },
        Presence::is_running,
    )
}

/// The state of zedkube, from its presence and its touch file. `None`, a presence that cannot be found out, counts as
/// running, so that the device waits.
pub fn zedkube_seen(root: &Root, presence: Option<Presence>) -> ZedkubeSeen {
    match presence {
        Some(Presence::Away) => ZedkubeSeen::Away,
        Some(Presence::Served(_)) => ZedkubeSeen::Served,
        Some(Presence::Locked(_) | Presence::Process(_)) | None => hung_for(root, agent::ZEDKUBE)
            .map_or(ZedkubeSeen::Running, |silent| ZedkubeSeen::Hung { silent_ms: millis(silent) }),
    }
}

/// True if nodeagent is past the point of no return in the boot with this id: it takes the machine down, by a command
/// that was held back until the gate let it pass.
pub fn nodeagent_takes_down(root: &Root, boot_id: &str) -> bool {
    // Where it cannot be read, nobody may take it that the machine goes down.
    let action =
        read_item::<DeviceAction>(root, agent::NODEAGENT, Persistence::Volatile, &TopicKey::global());
    action.ok().flatten().is_some_and(|action| action.takes_down(boot_id))
}

/// Snapshot of nodeagent. The lock is checked before the file is read: if nodeagent does not run, its file cannot
/// change any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAgentView {
    /// nodeagent runs ([`pubsub::presence()`]), or that cannot be found out.
    pub is_running: bool,
    /// nodeagent's DeviceAction; None if the file cannot be read. Without a file nodeagent is idle.
    pub action: Option<DeviceAction>,
}

impl NodeAgentView {
    /// Reads the lock, then the file. If the lock cannot be read, nodeagent counts as running. If the file cannot be
    /// read, the action is unknown: the last good value could say Idle while the device is going down. An action of
    /// another boot than `boot_id` counts as Idle, because `/run` may be kept over a boot.
    pub fn read(root: &Root, boot_id: &str) -> Self {
        let is_running = is_running(root, agent::NODEAGENT);
        let key = TopicKey::global();
        let action = read_item::<DeviceAction>(root, agent::NODEAGENT, Persistence::Volatile, &key);
        if let Err(refusal) = &action {
            tracing::debug!("{refusal}");
        }
        let is_of_boot = |action: &DeviceAction| action.boot_id == boot_id;
        let mut action = action.ok().map(|action| action.filter(is_of_boot).unwrap_or_default());
        if let Some(action) = &mut action {
            action.error = one_line(&action.error, MOST_WORDS);
        }
        Self { is_running, action }
    }

    /// Counts how long nodeagent has not prepared what was handed over to it (`is_about` knows its action). `since` is
    /// when that began. Returns at the limit why the command failed, and what to do.
    pub fn not_taken(
        &self,
        is_about: impl Fn(&DeviceAction) -> bool,
        since: &mut Option<u64>,
        now_ms: u64,
    ) -> Option<String> {
        let is_prepared = self.action.as_ref().is_some_and(|action| match action.state {
            DeviceActionState::Taken => self.is_running && is_about(action),
            // Another operation takes the device down.
            DeviceActionState::Acting => true,
            DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
        });
        if is_prepared {
            *since = None;
            return None;
        }
        let since = *since.get_or_insert(now_ms);
        if now_ms.saturating_sub(since) < NOT_TAKEN_LIMIT_MS {
            return None;
        }
        let minutes = NOT_TAKEN_LIMIT_MS / 60_000;
        Some(if self.is_running {
            format!(
                "nodeagent runs, but has not taken the command for {minutes} min: see its log, restart it"
            )
        } else {
            format!("nodeagent has not run for {minutes} min: start it with `ebb nodeagent`")
        })
    }

    /// True if nodeagent reports that it has no means to take the device down.
    pub fn has_no_means(&self) -> bool {
        let means = self.action.as_ref().and_then(|action| action.means.as_ref());
        means.is_some_and(Vec::is_empty)
    }

    /// nodeagent's state; None if it cannot be read.
    pub fn state(&self) -> Option<DeviceActionState> {
        self.action.as_ref().map(|action| action.state)
    }
}

#[cfg(test)]
mod tests {
    use pubsub::AgentLock;

    use super::*;

    #[test]
    fn nodeagent_is_idle_busy_unknown_or_takes_the_machine_down() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let view = NodeAgentView::read(&root, "boot-1");
        assert_eq!(view, NodeAgentView { is_running: false, action: Some(DeviceAction::default()) });

        let lock = AgentLock::acquire(&root, agent::NODEAGENT).unwrap();
        let topic = folder.path().join("run/nodeagent/DeviceAction");
        std::fs::create_dir_all(&topic).unwrap();
        let long = format!(r#"{{"State":"Failed","BootId":"boot-1","Error":"{}"}}"#, "x".repeat(900_000));
        let dry_run = r#"{"State":"Acting","BootId":"boot-1","Means":["dry run"]}"#;
        assert!(!nodeagent_takes_down(&root, "boot-1"));
        for (text, state, takes_down) in [
            (r#"{"State":"Acting","Command":"reboot"}"#, Some(DeviceActionState::Idle), false),
            (r#"{"State":"Acting","BootId":"boot-1"}"#, Some(DeviceActionState::Acting), true),
            (dry_run, Some(DeviceActionState::Acting), false),
            (r#"{"State":"Done","BootId":"boot-1"}"#, Some(DeviceActionState::Done), false),
            (r#"{"State":"Acting","BootId":"boot-0"}"#, Some(DeviceActionState::Idle), false),
            (&long, Some(DeviceActionState::Failed), false),
            ("{", None, false),
            (r#"{"State":"Nonsense"}"#, None, false),
        ] {
            #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
            std::fs::write(topic.join("global.json"), text).unwrap();
            let view = NodeAgentView::read(&root, "boot-1");
            assert_eq!((view.is_running, view.state()), (true, state), "{text:.50}");
            assert_eq!(nodeagent_takes_down(&root, "boot-1"), takes_down, "{text:.50}");
            assert!(view.action.is_none_or(|action| action.error.len() < 2 * MOST_WORDS));
        }
        drop(lock);
        assert!(!NodeAgentView::read(&root, "boot-1").is_running);
        let lock = AgentLock::acquire(&root, agent::NODEAGENT).unwrap();
        std::fs::remove_file(root.lock(agent::NODEAGENT)).unwrap();
        assert!(NodeAgentView::read(&root, "boot-1").is_running, "its lock file is removed, it lives");
        std::os::unix::fs::symlink("elsewhere", root.lock(agent::NODEAGENT)).unwrap();
        assert!(NodeAgentView::read(&root, "boot-1").is_running, "a lock that cannot be asked");
        drop(lock);
    }
}
