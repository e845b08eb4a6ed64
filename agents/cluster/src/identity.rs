//! Which Node of the cluster is this machine.
//!
//! Draining the wrong node moves somebody else's pods and lets this machine go down with its own: in doubt there is
//! no answer.

use drain::view::NodeView;

use crate::node_facts::NodeFacts;

/// What this machine knows of itself. Empty texts count as not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Setting `node.name`: decides alone.
    pub node_name: Option<String>,
    /// EVE's `EdgeNodeInfo.DeviceID`.
    pub device_id: Option<String>,
    /// EVE's `EdgeNodeInfo.DeviceName`; takes the host name's place where that topic exists.
    pub device_name: Option<String>,
    /// The host name.
    pub host_name: Option<String>,
    /// `/etc/machine-id`.
    pub machine_id: Option<String>,
}

/// Why no Node is known to be this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityProblem {
    /// None of the Nodes is it.
    #[error(
        "no Node of this cluster is this machine (looked for {looked_for}): set node.name, or cluster.mode = never"
    )]
    NoNode {
        /// By what.
        looked_for: String,
    },
    /// More than one says that it is.
    #[error(
        "no Node of this cluster is this machine for sure: label node-uuid={device_id} is on {}; set node.name, or cluster.mode = never", nodes.join(", ")
    )]
    Ambiguous {
        /// The device's UUID.
        device_id: String,
        /// The Nodes.
        nodes: Vec<String>,
    },
    /// The Node with our name is another machine.
    #[error(
        "no Node of this cluster is this machine: Node {node} has our host name and another machine ID; set node.name, or cluster.mode = never"
    )]
    OtherMachine {
        /// The Node.
        node: String,
    },
}

/// The Node that is this machine (`agents.md` 2, "Which node"): by name if one is set; else by label `node-uuid`;
/// else by the device's name, or the host name if the machine ID agrees. `nodes` must be a complete list from the
/// server: an empty answer by label counts only then.
pub fn identify(nodes: &[NodeFacts], identity: &Identity) -> Result<NodeView, IdentityProblem> {
    if let Some(name) = known(identity.node_name.as_ref()) {
        return by_name(nodes, name).map(|node| node.view.clone()).ok_or_else(|| missing("node.name", name));
    }
    if let Some(device_id) = known(identity.device_id.as_ref())
        && let Some(node) = by_label(nodes, device_id)?
    {
        return Ok(node.view.clone());
    }
    if let Some(name) = known(identity.device_name.as_ref()) {
        let name = as_node_name(name);
        return by_name(nodes, &name)
            .map(|node| node.view.clone())
            .ok_or_else(|| missing("device name", &name));
    }
    by_host_name(nodes, identity)
}

/// The name that the node of a device gets: lower case, `_` as `-`.
pub fn as_node_name(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

fn by_name<'a>(nodes: &'a [NodeFacts], name: &str) -> Option<&'a NodeFacts> {
    nodes.iter().find(|node| node.view.name == name)
}

fn by_label<'a>(nodes: &'a [NodeFacts], device_id: &str) -> Result<Option<&'a NodeFacts>, IdentityProblem> {
    let mut found: Vec<_> = nodes.iter().filter(|node| node.uuid_label == device_id).collect();
    if found.len() > 1 {
        let nodes = found.iter().map(|node| node.view.name.clone()).collect();
        return Err(IdentityProblem::Ambiguous { device_id: device_id.to_owned(), nodes });
    }
    Ok(found.pop())
}

fn by_host_name(nodes: &[NodeFacts], identity: &Identity) -> Result<NodeView, IdentityProblem> {
    let Some(name) = known(identity.host_name.as_ref()).map(as_node_name) else {
        return Err(missing("host name", "unknown"));
    };
    let node = by_name(nodes, &name).ok_or_else(|| missing("host name", &name))?;
    match known(identity.machine_id.as_ref()) {
        Some(ours) if !node.machine_id.is_empty() && node.machine_id != ours => {
            Err(IdentityProblem::OtherMachine { node: name })
        }
        _ => Ok(node.view.clone()),
    }
}

fn known(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

fn missing(kind: &str, name: &str) -> IdentityProblem {
    IdentityProblem::NoNode { looked_for: format!("{kind} {name}") }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
