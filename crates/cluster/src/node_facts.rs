//! Trims Nodes to what decisions need.
//!
//! Every field of an object may be missing, and each case has a defined meaning. Nothing here fails or panics.

use std::collections::BTreeMap;
use std::time::Duration;

use drain::cordon::{CORDON_REASON, CORDONED_BY, SLOTS_GROUP};
use drain::view::{NodeCondition, NodeView, Unhealthy};
use jiff::Timestamp;

use crate::failure::words;
use crate::node_commands::{NodeCommand, NodeCommands};
use crate::node_conditions::{DRAIN_IN_PROGRESS, DRAINED, DrainConditions};
use crate::objects::{Condition, Node};
use crate::views::{UNSCHEDULABLE, annotation};

/// EVE's label for a node that only votes and never takes pods.
const TIE_BREAKER: &str = "tie-breaker-node";

/// EVE's label with the device's UUID.
const NODE_UUID: &str = "node-uuid";

/// Most conditions of a Node that are kept for people.
const MOST_CONDITIONS: usize = 16;

/// A Node, trimmed, and the fields that identify its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Fields that decisions need. The duration of an unhealthy condition ends at the time of the answer that contained
    /// it.
    pub view: NodeView,
    /// Label `node-uuid`, empty without one: EVE's UUID of the device.
    pub uuid_label: String,
    /// `status.nodeInfo.machineID`, from `/etc/machine-id` of the machine; empty if the kubelet has not reported it.
    pub machine_id: String,
    /// Annotation `ebb.dev/cordon-reason`; empty without one.
    pub cordon_reason: String,
    /// The commands in its annotations.
    pub commands: NodeCommands,
    /// What its conditions say about a drain.
    pub drain: DrainConditions,
    /// Conditions that make it unhealthy, each with its start.
    pub(crate) faults: Vec<NodeFault>,
}

/// A condition in which the node's containers may not be stopped properly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeFault {
    condition: &'static str,
    /// The condition's `lastTransitionTime`, if it has one.
    since: Option<Timestamp>,
    /// The node controller has set the condition, because it hears nothing of the kubelet.
    is_silence: bool,
}

impl NodeFacts {
    /// Trims the Node; the duration of an unhealthy condition is not computed yet.
    pub(crate) fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let info = status.and_then(|status| status.node_info.as_ref());
        let attached = status.and_then(|status| status.volumes_attached.as_deref()).unwrap_or_default();
        let commands = NodeCommands::of(
            node.metadata.uid.as_deref().unwrap_or_default(),
            node.metadata.annotations.as_ref().unwrap_or(&BTreeMap::new()),
        );
        let facts = Self {
            view: NodeView {
                name: node.metadata.name.clone().unwrap_or_default(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
                cordoned: is_unschedulable(node) || has_taint(node),
                cordoned_by: annotation(&node.metadata, CORDONED_BY).cloned(),
                slots_group: annotation(&node.metadata, SLOTS_GROUP).cloned(),
                is_drain_commanded: commands.has(NodeCommand::Drain),
                ready: is_ready(node),
                tie_breaker: is_tie_breaker(node),
                boot_id: info.and_then(|info| info.boot_id.clone()).unwrap_or_default(),
                unhealthy: None,
                silent: None,
                conditions: troubles(node),
                volumes_attached: attached.iter().filter_map(|volume| volume.name.clone()).collect(),
                volumes_in_use: status.and_then(|status| status.volumes_in_use.clone()).unwrap_or_default(),
            },
            uuid_label: label(node, NODE_UUID).unwrap_or_default().to_owned(),
            machine_id: info.and_then(|info| info.machine_id.clone()).unwrap_or_default(),
            cordon_reason: annotation(&node.metadata, CORDON_REASON).cloned().unwrap_or_default(),
            commands,
            drain: DrainConditions::of(conditions(node)),
            faults: faults(node),
        };
        facts.seen_at(None)
    }

    /// The view at this time of the API server's clock; if the time is not known, all conditions have just begun. Of
    /// two conditions the longer one is used.
    pub(crate) fn at(&self, server_time: Option<Timestamp>) -> NodeView {
        let unhealthy = self.faults.iter().map(|fault| fault.at(server_time));
        let silent =
            self.faults.iter().find(|fault| fault.is_silence).map(|fault| fault.at(server_time).lasting);
        // Of two equal ones the last is used: not Ready.
        let unhealthy = unhealthy.max_by_key(|unhealthy| unhealthy.lasting);
        NodeView { unhealthy, silent, ..self.view.clone() }
    }

    /// The same facts, with the view at this time.
    pub(crate) fn seen_at(self, server_time: Option<Timestamp>) -> Self {
        Self { view: self.at(server_time), ..self }
    }
}

impl NodeFault {
    fn at(self, server_time: Option<Timestamp>) -> Unhealthy {
        let lasting = match (self.since, server_time) {
            (Some(since), Some(now)) => Duration::try_from(now.duration_since(since)).unwrap_or_default(),
            _ => Duration::ZERO,
        };
        Unhealthy { condition: self.condition.to_owned(), lasting }
    }
}

/// `spec.unschedulable`, which a cordon sets. The taint follows some milliseconds later, and may stay longer if its
/// controller is dead.
pub(crate) fn is_unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
}

/// True if ordinary pods can be placed there and start: the node is Ready, not cordoned, not tainted, and no
/// tie-breaker.
pub(crate) fn takes_pods(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let keeps_away =
        taints.iter().any(|taint| matches!(taint.effect.as_deref(), Some("NoSchedule" | "NoExecute")));
    is_ready(node) && !is_unschedulable(node) && !keeps_away && !is_tie_breaker(node)
}

fn has_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key.as_deref() == Some(UNSCHEDULABLE))
}

fn is_ready(node: &Node) -> bool {
    conditions(node).iter().any(|condition| condition.is("Ready") && condition.status() == "True")
}

fn is_tie_breaker(node: &Node) -> bool {
    label(node, TIE_BREAKER) == Some("true")
}

/// The conditions that make the node unhealthy. A node without the condition Ready was never reported by its kubelet.
fn faults(node: &Node) -> Vec<NodeFault> {
    let fault = |condition, found: Option<&Condition>| NodeFault {
        condition,
        since: found.and_then(|found| found.last_transition_time),
        is_silence: condition == "NotReady" && found.is_some_and(|found| found.status() == "Unknown"),
    };
    let find = |kind| conditions(node).iter().find(move |condition: &&Condition| condition.is(kind));
    let mut faults = Vec::new();
    if let Some(read_only) = find("ReadonlyFilesystem").filter(|found| found.status() != "False") {
        faults.push(fault("ReadonlyFilesystem", Some(read_only)));
    }
    if !is_ready(node) {
        faults.push(fault("NotReady", find("Ready")));
    }
    faults
}

/// The conditions that may mean trouble. A drain is none.
fn troubles(node: &Node) -> Vec<NodeCondition> {
    let is_of_drain = |found: &Condition| found.is(DRAIN_IN_PROGRESS) || found.is(DRAINED);
    let may_be = |found: &&Condition| {
        (found.is("Ready") == (found.status() != "True")) && found.kind.is_some() && !is_of_drain(found)
    };
    let of = |found: &Condition| {
        let said = [&found.message, &found.reason].into_iter().flatten().find(|text| !text.is_empty());
        NodeCondition {
            kind: found.kind.clone().unwrap_or_default(),
            since: found.last_transition_time.map(|at| at.to_string()).unwrap_or_default(),
            message: said.map(|text| words(text)).unwrap_or_default(),
        }
    };
    conditions(node).iter().filter(may_be).take(MOST_CONDITIONS).map(of).collect()
}

fn conditions(node: &Node) -> &[Condition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
}

#[cfg(test)]
mod tests;
