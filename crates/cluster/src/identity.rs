//! Finds the Node of the cluster that is this machine.
//!
//! Draining the wrong Node would move another machine's pods, and would let this machine go down with its own. So if
//! there is doubt, the result is an error.

use std::fmt;

use drain::view::NodeView;

use crate::node_facts::NodeFacts;

/// Facts about this machine. Empty texts count as unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Setting `node.name`: if set, no other Node is considered.
    pub node_name: Option<String>,
    /// EVE's `EdgeNodeInfo.DeviceID`.
    pub device_id: Option<String>,
    /// EVE's `EdgeNodeInfo.DeviceName`; used instead of the host name if that topic exists.
    pub device_name: Option<String>,
    /// The host name.
    pub host_name: Option<String>,
    /// `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// The kernel's id of this boot, which all containers of the machine share.
    pub boot_id: Option<String>,
}

/// The property by which a Node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// Setting `node.name`.
    Setting,
    /// Label `node-uuid`.
    Label,
    /// EVE's name of the device.
    DeviceName,
    /// The host name.
    HostName,
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting => "node.name",
            Self::Label => "label node-uuid",
            Self::DeviceName => "device name",
            Self::HostName => "host name",
        })
    }
}

/// The Node that is this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The Node.
    pub node: NodeView,
    /// A contradiction that is weaker than the way in which the Node was found.
    pub doubt: Option<OtherMachine>,
}

/// A Node that reports another machine than this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherMachine {
    /// Name of the Node.
    pub node: String,
    /// The property by which it was found.
    pub found_by: FoundBy,
    /// The machine ID that the Node reports.
    pub theirs: String,
    /// The machine ID of this machine.
    pub ours: String,
    /// Meaning of the Node's boot ID; never that it is this boot.
    pub boot: OtherBoot,
}

/// The meaning of a Node's boot ID that is not this boot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherBoot {
    /// The kubelet has reported another boot: of another machine, or of this one before its last boot.
    Differs,
    /// The kubelet has reported no boot ID, or this boot's is not known.
    Unknown,
}

impl fmt::Display for OtherMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, found_by, theirs, ours, boot } = self;
        let boot = match boot {
            OtherBoot::Differs => "its boot ID is of another boot",
            OtherBoot::Unknown => "no boot ID proves that they are the same",
        };
        write!(
            f,
            "Node {node}, found by {found_by}, has machine ID {theirs}, this machine has {ours}, and {boot}"
        )
    }
}

/// Reason for which no Node could be matched to this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityProblem {
    /// None of the Nodes is this machine.
    #[error(
        "no Node of this cluster is this machine (looked for {looked_for}): set node.name, or cluster.mode = never"
    )]
    NoNode {
        /// The property and the value that were searched.
        looked_for: String,
    },
    /// More than one Node has this device's label.
    #[error(
        "no Node of this cluster is this machine for sure: label node-uuid={device_id} is on {}; set node.name, or cluster.mode = never", nodes.join(", ")
    )]
    Ambiguous {
        /// The device's UUID.
        device_id: String,
        /// Names of the Nodes.
        nodes: Vec<String>,
    },
    /// The Node that was found reports another machine.
    #[error("no Node of this cluster is this machine: {0}; set node.name, or cluster.mode = never")]
    OtherMachine(OtherMachine),
}

/// Finds the Node of this machine: by `node_name` if it is set; otherwise by label `node-uuid`; otherwise by the
/// device's name, or the host name. `nodes` has to be a complete list from the server, because only then the absence of
/// a label counts.
///
/// However the Node was found: if its boot ID is this boot's, that proves it. Otherwise, if both machine IDs are known
/// and differ, the Node is rejected, because a settings file or a host name that was copied to a whole fleet must not
/// make every device drain one node. Only label `node-uuid` is stronger than that, because EVE gives it to exactly one
/// device. A boot ID of another boot rejects nothing: the kubelet reports a new one only some time after the boot.
pub fn identify(nodes: &[NodeFacts], identity: &Identity) -> Result<Identified, IdentityProblem> {
    let (found, found_by) = find(nodes, identity)?;
    let node = found.view.clone();
    match (other_machine(found, found_by, identity), found_by) {
        (None, _) => Ok(Identified { node, doubt: None }),
        (Some(other), FoundBy::Label) => Ok(Identified { node, doubt: Some(other) }),
        (Some(other), FoundBy::Setting | FoundBy::DeviceName | FoundBy::HostName) => {
            Err(IdentityProblem::OtherMachine(other))
        }
    }
}

/// The Node name that is made from a device's name: lower case, `-` for `_`.
pub fn as_node_name(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

fn find<'a>(
    nodes: &'a [NodeFacts],
    identity: &Identity,
) -> Result<(&'a NodeFacts, FoundBy), IdentityProblem> {
    if let Some(name) = known(identity.node_name.as_ref()) {
        return by_name(nodes, name, FoundBy::Setting);
    }
    if let Some(device_id) = known(identity.device_id.as_ref())
        && let Some(node) = by_label(nodes, device_id)?
    {
        return Ok((node, FoundBy::Label));
    }
    if let Some(name) = known(identity.device_name.as_ref()) {
        return by_name(nodes, &as_node_name(name), FoundBy::DeviceName);
    }
    let name = known(identity.host_name.as_ref()).map_or_else(|| "unknown".to_owned(), as_node_name);
    by_name(nodes, &name, FoundBy::HostName)
}

fn by_name<'a>(
    nodes: &'a [NodeFacts],
    name: &str,
    found_by: FoundBy,
) -> Result<(&'a NodeFacts, FoundBy), IdentityProblem> {
    let node = nodes.iter().find(|node| node.view.name == name);
    let missing = || IdentityProblem::NoNode { looked_for: format!("{found_by} {name}") };
    node.map(|node| (node, found_by)).ok_or_else(missing)
}

fn by_label<'a>(nodes: &'a [NodeFacts], device_id: &str) -> Result<Option<&'a NodeFacts>, IdentityProblem> {
    let mut found: Vec<_> = nodes.iter().filter(|node| node.uuid_label == device_id).collect();
    if found.len() > 1 {
        let nodes = found.iter().map(|node| node.view.name.clone()).collect();
        return Err(IdentityProblem::Ambiguous { device_id: device_id.to_owned(), nodes });
    }
    Ok(found.pop())
}

/// The contradiction, if the Node reports another machine and its boot ID does not prove that it is this one.
fn other_machine(node: &NodeFacts, found_by: FoundBy, identity: &Identity) -> Option<OtherMachine> {
    let boot = match known(identity.boot_id.as_ref()) {
        Some(ours) if is_same(ours, &node.view.boot_id) => return None,
        Some(_) if !node.view.boot_id.is_empty() => OtherBoot::Differs,
        Some(_) | None => OtherBoot::Unknown,
    };
    let ours = known(identity.machine_id.as_ref())?;
    let theirs = node.machine_id.trim();
    (!theirs.is_empty() && !is_same(ours, theirs)).then(|| OtherMachine {
        node: node.view.name.clone(),
        found_by,
        theirs: theirs.to_owned(),
        ours: ours.to_owned(),
        boot,
    })
}

fn is_same(ours: &str, theirs: &str) -> bool {
    ours.eq_ignore_ascii_case(theirs.trim())
}

fn known(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
