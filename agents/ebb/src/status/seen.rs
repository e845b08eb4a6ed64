//! What the agents' files say now.

use pubsub::{Persistence, Presence, Root, TopicKey, presence, read_item, read_items};
use runtime::clock;
use runtime::liveness::silent_for;
use schemas::{
    BaseOsHold, CommandFreeze, DeviceAction, DeviceOpStatus, NodeAgentStatus, NodeDrainReport,
    NodeDrainStatus, Topic, agent,
};
use serde::Serialize;

use crate::freeze;

/// The four agents, by EVE's names.
const AGENTS: [&str; 4] = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR];

/// Everything that `ebb status` knows; its JSON form is `ebb status --json`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Seen {
    /// Topic NodeDrainStatus of zedkube; null if there is none.
    pub(crate) status: Option<NodeDrainStatus>,
    /// The status as a word, such as `CORDONED`.
    pub(crate) status_name: String,
    /// Topic NodeDrainReport of zedkube; null if there is none.
    pub(crate) report: Option<NodeDrainReport>,
    /// Topic CommandFreeze of ebb, if it is in force.
    pub(crate) freeze: Option<CommandFreeze>,
    /// Topic DeviceOpStatus of zedagent.
    pub(crate) device_op: Option<DeviceOpStatus>,
    /// Topic DeviceAction of nodeagent.
    pub(crate) device_action: Option<DeviceAction>,
    /// `WaitDrainInProgress` of NodeAgentStatus.
    pub(crate) wait_drain_in_progress: Option<bool>,
    /// Topic BaseOsHold of baseosmgr.
    pub(crate) base_os: Option<BaseOsHold>,
    /// The four agents.
    pub(crate) agents: Vec<AgentSeen>,
    /// Files that could not be read, each with the reason.
    pub(crate) refused: Vec<String>,
}

/// Whether an agent runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AgentSeen {
    /// EVE's name.
    pub(crate) name: &'static str,
    /// Its lock is held, its process lives, or a topic of it is served.
    pub(crate) running: bool,
    /// Its process, if it lives and is known.
    pub(crate) pid: Option<u32>,
    /// For so many seconds its loop has shown no progress: more than 45 means that it hangs. Null if that is not known.
    pub(crate) silent_seconds: Option<u64>,
}

impl Seen {
    /// Reads all files below the root.
    pub(crate) fn read(root: &Root) -> Self {
        let mut refused = Vec::new();
        let status: Option<NodeDrainStatus> = global(root, agent::ZEDKUBE, &mut refused);
        let mut seen = Self {
            status_name: status.map(|status| status.status.constant().to_owned()).unwrap_or_default(),
            status,
            report: global(root, agent::ZEDKUBE, &mut refused),
            freeze: freeze::standing(root, clock::wall()),
            device_op: global(root, agent::ZEDAGENT, &mut refused),
            device_action: global(root, agent::NODEAGENT, &mut refused),
            wait_drain_in_progress: wait_drain(root, &mut refused),
            base_os: global(root, agent::BASEOSMGR, &mut refused),
            agents: Vec::new(),
            refused: Vec::new(),
        };
        for name in AGENTS {
            seen.agents.push(agent_seen(root, name, &mut refused));
        }
        seen.refused = refused;
        seen
    }
}

fn global<T: Topic>(root: &Root, agent: &str, refused: &mut Vec<String>) -> Option<T> {
    match read_item(root, agent, Persistence::Volatile, &TopicKey::global()) {
        Ok(item) => item,
        Err(refusal) => {
            refused.push(refusal.to_string());
            None
        }
    }
}

/// NodeAgentStatus has the agent's name as its key.
fn wait_drain(root: &Root, refused: &mut Vec<String>) -> Option<bool> {
    let read = read_items::<NodeAgentStatus>(root, agent::NODEAGENT, Persistence::Volatile);
    refused.extend(read.refused.iter().map(ToString::to_string));
    read.items.values().next().map(|status| status.wait_drain_in_progress)
}

fn agent_seen(root: &Root, name: &'static str, refused: &mut Vec<String>) -> AgentSeen {
    let presence = presence(root, name).unwrap_or_else(|error| {
        refused.push(runtime::error_chain(&error));
        Presence::Away
    });
    let running = presence.is_running();
    let silent = silent_for(root, name).filter(|_| running);
    AgentSeen { name, running, pid: presence.pid(), silent_seconds: silent.map(|silent| silent.as_secs()) }
}
