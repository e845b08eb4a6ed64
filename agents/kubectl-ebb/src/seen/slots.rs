//! The slots of the nodes, as far as they may be read.

use std::collections::BTreeMap;

use clap::Args;
use cluster::{Cluster, Holder, SlotMap, Slots, read_slots};
use drain::cordon::NO_SLOT;
use drain::view::NodeView;
use text::one_line;

/// Most groups whose slots are read: a Node may name any.
const MOST_GROUPS: usize = 16;

/// Longest name of a group that is taken from a Node, in bytes: two names of Kubernetes and a slash.
const LONGEST_GROUP: usize = 512;

/// Where the slots are, for nodes that do not say so themselves.
#[derive(Args, Debug)]
pub(crate) struct SlotFlags {
    /// Group whose slots the nodes take, setting slots.group of their devices; a cordon of zedkube names its own group
    #[arg(long, value_name = "NAME", default_value = "default")]
    slots_group: String,
    /// Namespace of the slots, setting slots.namespace of the devices
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    slots_namespace: String,
}

/// What is known of the slot of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The node holds one.
    Held(Table),
    /// It holds none.
    Free(Table),
    /// The slots cannot be read; why.
    Unknown(String),
}

/// A table of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Namespace and name of its ConfigMap.
    pub(super) name: String,
    /// The nodes that hold its slots.
    pub(super) holders: Vec<String>,
}

/// The tables that have been read, by namespace and group.
#[derive(Debug)]
pub(super) struct SlotTables<'a> {
    flags: &'a SlotFlags,
    read: BTreeMap<(String, String), Result<Slots, String>>,
}

impl Slot {
    /// A word for a table.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Held(_) => "held",
            Self::Free(_) => "-",
            Self::Unknown(_) => "?",
        }
    }

    /// Why it is not known.
    pub(super) fn unknown(&self) -> Option<&str> {
        match self {
            Self::Held(_) | Self::Free(_) => None,
            Self::Unknown(why) => Some(why),
        }
    }
}

impl<'a> SlotTables<'a> {
    /// No table is read yet.
    pub(super) fn new(flags: &'a SlotFlags) -> Self {
        Self { flags, read: BTreeMap::new() }
    }

    /// The slot of this node. Reads the table of its group, if it is not read yet.
    pub(super) async fn of(&mut self, cluster: &Cluster, node: &NodeView) -> Slot {
        let group = node.slots_group.as_deref().filter(|group| *group != NO_SLOT);
        let group = group.and_then(|group| one_line(group, LONGEST_GROUP).split_once('/').map(owned));
        let SlotFlags { slots_group, slots_namespace } = self.flags;
        let key = group.unwrap_or_else(|| owned((slots_namespace, slots_group)));
        let map = SlotMap::new(key.0.as_str(), key.1.as_str());
        if !self.read.contains_key(&key) && self.read.len() < MOST_GROUPS {
            let slots = read_slots(cluster, &map).await.map_err(|failure| failure.to_string());
            self.read.insert(key.clone(), slots);
        }
        match self.read.get(&key) {
            Some(Ok(slots)) => of_node(slots, &format!("{}/{}", map.namespace, map.name()), node),
            Some(Err(why)) => Slot::Unknown(why.clone()),
            None => Slot::Unknown(format!("the Nodes name more than {MOST_GROUPS} groups of slots")),
        }
    }
}

fn owned((namespace, group): (&str, &str)) -> (String, String) {
    (namespace.to_owned(), group.to_owned())
}

/// The slot of this node in this table.
fn of_node(slots: &Slots, name: &str, node: &NodeView) -> Slot {
    if slots.unreadable.iter().any(|key| key.node == node.name) {
        return Slot::Unknown(format!("its entry in {name} cannot be read"));
    }
    let holding = || slots.holders.iter().filter(|holder| !is_passed_over(slots, holder));
    let table =
        Table { name: name.to_owned(), holders: holding().map(|holder| holder.node.clone()).collect() };
    // A Node that was created anew does not have the slot of the one before it.
    let is_held = holding().any(|holder| (&holder.node, &holder.node_uid) == (&node.name, &node.uid));
    if is_held { Slot::Held(table) } else { Slot::Free(table) }
}

/// True if another node has taken over the slot of this entry, as it is now.
fn is_passed_over(slots: &Slots, of: &Holder) -> bool {
    let others = slots.holders.iter().filter(|holder| holder.node != of.node);
    others.flat_map(|other| &other.passed_over).any(|passed| {
        (&passed.node, &passed.node_uid, passed.renewal) == (&of.node, &of.node_uid, of.renewal)
    })
}
