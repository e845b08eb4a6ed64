//! The slots as one look shows them, for an operator: which are in use, and what counts against the limit.
//!
//! [`crate::slots::Group`] decides who may have a slot, and knows what was seen over time. Here nothing is decided, and
//! only the API server's own times are known.

use std::time::Duration;

use drain::view::NodeView;

use crate::OWNER;
use crate::slots::{Holder, SlotTable, is_out_for};

/// What counts against the limit of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey<'a> {
    /// Nodes without an entry that counts that are down for less than `slots.down-max`: they count as well.
    pub down: Vec<&'a NodeView>,
    /// Nodes without an entry that counts that zedkube has taken out of service: they count as well. Their entry was lost,
    /// with the ConfigMap or by an order.
    pub cordoned: Vec<&'a NodeView>,
    /// Nodes that count against the limit, each once: holders that exist, nodes that are down, and nodes that are cordoned
    /// by zedkube.
    pub taken: usize,
}

/// What the table of a group ([`crate::Policy::slots_group`]) and the nodes show. `nodes` must have been listed after the
/// table was read, or a node that joined in between would look as if it were gone.
pub fn survey<'a>(
    table: &SlotTable,
    nodes: &'a [NodeView],
    group: Option<&str>,
    down_max: Duration,
) -> Survey<'a> {
    let counting: Vec<&Holder> =
        table.holders.iter().filter(|holder| !table.is_passed_over(holder)).collect();
    // What a Node of this name has left that was deleted counts like what cannot be read.
    let is_of = |holder: &Holder, node: &NodeView| {
        holder.node == node.name && (holder.node_uid == node.uid || is_in_use(node))
    };
    let holds = |node: &NodeView| {
        counting.iter().any(|holder| is_of(holder, node))
            || is_in_use(node) && table.unreadable.contains(&node.name)
    };
    let is_down = |node: &&NodeView| down_for(node).is_some_and(|lasting| lasting < down_max) && !holds(node);
    let down: Vec<&NodeView> = nodes.iter().filter(is_down).collect();
    let is_out = |node: &&NodeView| is_out_for(node, group) && !holds(node) && !is_down(node);
    let cordoned: Vec<&NodeView> = nodes.iter().filter(is_out).collect();
    let taken = down.len() + cordoned.len() + nodes.iter().filter(|node| holds(node)).count();
    Survey { down, cordoned, taken }
}

/// The node is down, or zedkube has taken it out of service: another one that goes down now makes two.
pub fn is_in_use(node: &NodeView) -> bool {
    !node.ready || node.cordoned_by.as_deref() == Some(OWNER)
}

/// For how long the node is not Ready, by the API server's clock; zero when that is not known. `None` for one that is.
pub fn down_for(node: &NodeView) -> Option<Duration> {
    let lasting = node.unhealthy.as_ref().filter(|unhealthy| unhealthy.condition == "NotReady");
    (!node.ready).then(|| lasting.map_or(Duration::ZERO, |unhealthy| unhealthy.lasting))
}
