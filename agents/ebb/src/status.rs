//! `ebb status`: shows the drain state of this node and the reason, from the agents' files. Needs no running agent and
//! no cluster.

mod head;
mod text;
pub(crate) mod times;
mod watch;

use std::process::ExitCode;

use jiff::tz::TimeZone;
use pubsub::{Persistence, Presence, Root, TopicKey, presence, read_item, read_items};
use runtime::clock;
use runtime::liveness::silent_for;
use schemas::{
    Agent, BaseOsHold, CommandFreeze, DeviceAction, DeviceOpStatus, NodeAgentStatus, NodeDrainReport,
    NodeDrainStatus, SentinelState, SentinelStatus, Topic, agent,
};
use serde::Serialize;

use crate::cli::StatusArguments;
use crate::history::{self, Told};
use crate::operator::{missing_right, quoted};
use crate::{freeze, screen};
use kubectl_ebb::screen::Page;

use head::Code;
use times::Clock;

/// Prints the status as text or as JSON, with `--watch` until Ctrl-C. The exit code is that of [`Code`].
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let root = Root::new(&arguments.root);
    if let Some(missing) = missing_right(&root) {
        screen::say(&format!("error: {missing}"));
        return Ok(Code::NoRights.into());
    }
    if arguments.watch {
        return kubectl_ebb::in_runtime(watch::watch(&root, arguments.pods));
    }
    let seen = StatusView::read(&root);
    let clock = Clock::new(clock::wall(), TimeZone::system());
    let (lines, code) = drawn(&seen, &clock, Page::for_terminal(arguments.pods), arguments.pods);
    if arguments.json {
        screen::json(&seen)?;
    } else {
        screen::lines_of_page(&lines);
    }
    Ok(code.into())
}

/// The lines of the status on this page, and what the exit code says.
fn drawn(seen: &StatusView, clock: &Clock, page: Page, all_pods: bool) -> (Vec<String>, Code) {
    let troubles = head::troubles(seen, clock, all_pods);
    let code = head::code(seen, &troubles);
    (text::render(seen, troubles, clock, page, all_pods).lines(&all_of_it()), code)
}

/// The command that shows all lines, once: this one with `--pods`.
fn all_of_it() -> String {
    let words = std::env::args_os().filter(|word| word != "--watch" && word != "-w");
    let words: Vec<String> = words.map(|word| quoted(&word)).collect();
    format!("{} --pods", words.join(" "))
}

/// All facts of `ebb status`, in the order of `ebb status --json`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StatusView {
    /// Topic NodeDrainStatus of zedkube; null if there is none.
    pub(crate) status: Option<NodeDrainStatus>,
    /// The status as a word, such as `CORDONED`.
    pub(crate) status_name: String,
    /// Topic NodeDrainReport of zedkube; null if there is none.
    pub(crate) report: Option<NodeDrainReport>,
    /// Topic CommandFreeze of ebb, if it is in force.
    pub(crate) freeze: Option<CommandFreeze>,
    pub(crate) device_op: Option<DeviceOpStatus>,
    pub(crate) device_action: Option<DeviceAction>,
    /// `WaitDrainInProgress` of NodeAgentStatus.
    pub(crate) wait_drain_in_progress: Option<bool>,
    /// `RebootReason` of NodeAgentStatus: why the machine went down before this boot.
    pub(crate) reboot_reason: Option<String>,
    pub(crate) base_os: Option<BaseOsHold>,
    /// Topic SentinelStatus; null if there is none, or if the host is not asked.
    pub(crate) sentinel: Option<SentinelStatus>,
    /// The drain before the present one, or the last one; null if none is kept.
    pub(crate) last_drain: Option<Told>,
    /// While a drain goes on: how long the last ones took, newest first.
    pub(crate) took_millis: Vec<u64>,
    /// The four agents, and the sentinel where it has said something.
    pub(crate) agents: Vec<AgentSeen>,
    /// Files that could not be read, each with the reason.
    pub(crate) refused: Vec<String>,
}

/// State of an agent's process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AgentSeen {
    /// EVE's name.
    pub(crate) name: &'static str,
    /// True if its lock is held, its process lives, or one of its topics is served.
    pub(crate) running: bool,
    /// Process id, if the process lives and is known.
    pub(crate) pid: Option<u32>,
    /// Seconds since its loop last showed progress: more than 45 means that it hangs. Null if not known.
    pub(crate) silent_seconds: Option<u64>,
}

impl AgentSeen {
    /// True if it runs and makes progress.
    pub(crate) fn works(&self) -> bool {
        self.running && head::hangs(self).is_none()
    }
}

impl StatusView {
    /// True if zedkube works, so that what it has reported is so now.
    pub(crate) fn has_zedkube(&self) -> bool {
        self.agents.iter().any(|agent| agent.name == agent::ZEDKUBE && agent.works())
    }

    /// True if the device does not really go down.
    fn is_dry_run(&self) -> bool {
        self.device_action.as_ref().is_some_and(DeviceAction::is_dry_run)
    }

    /// Reads all files below the root.
    pub(crate) fn read(root: &Root) -> Self {
        let mut seen = Self::now(root);
        seen.look_back(root);
        seen
    }

    /// Reads the files below the root that tell what is so now.
    pub(crate) fn now(root: &Root) -> Self {
        let mut refused = Vec::new();
        let status: Option<NodeDrainStatus> = global(root, agent::ZEDKUBE, &mut refused);
        let nodeagent = nodeagent(root, &mut refused);
        let mut seen = Self {
            status_name: status.map(|status| status.status.constant().to_owned()).unwrap_or_default(),
            status,
            report: global(root, agent::ZEDKUBE, &mut refused),
            freeze: freeze::in_effect(root, clock::wall()),
            device_op: global(root, agent::ZEDAGENT, &mut refused),
            device_action: global(root, agent::NODEAGENT, &mut refused),
            wait_drain_in_progress: nodeagent.as_ref().map(|status| status.wait_drain_in_progress),
            reboot_reason: nodeagent.map(|status| status.reboot_reason),
            base_os: global(root, agent::BASEOSMGR, &mut refused),
            sentinel: global(root, agent::SENTINEL, &mut refused)
                .filter(|sentinel: &SentinelStatus| sentinel.state != SentinelState::Off),
            last_drain: None,
            took_millis: Vec::new(),
            agents: Vec::new(),
            refused: Vec::new(),
        };
        let sentinel = seen.sentinel.is_some().then_some(Agent::Sentinel);
        for agent in Agent::ALL.into_iter().chain(sentinel) {
            seen.agents.push(agent_seen(root, agent.wire_name(), &mut refused));
        }
        seen.refused = refused;
        seen
    }

    /// Reads what is kept of other drains.
    fn look_back(&mut self, root: &Root) {
        let present = self.report.as_ref().filter(|report| report.phase != "Idle");
        let id = present.map(|report| report.drain_id.clone()).unwrap_or_default();
        match history::past(root, &id, text::is_draining(present)) {
            Ok(past) => (self.last_drain, self.took_millis) = (past.last, past.took_millis),
            Err(refusal) => self.refused.push(refusal.to_string()),
        }
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

/// Reads NodeAgentStatus. Its key is the name of the agent.
fn nodeagent(root: &Root, refused: &mut Vec<String>) -> Option<NodeAgentStatus> {
    let read = read_items::<NodeAgentStatus>(root, agent::NODEAGENT, Persistence::Volatile);
    refused.extend(read.refused.iter().map(ToString::to_string));
    read.items.into_values().next()
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
