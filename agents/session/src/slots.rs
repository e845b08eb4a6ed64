//! Who may be down for a drain: the rules of the slots.
//!
//! `slots.limit` nodes of a group hold an entry in one Lease. What is read here was read from the API server by
//! somebody else; what is decided here is written by somebody else, with the version that it was decided on. So of two
//! nodes that decide at once one is told of a conflict, reads again, and decides anew.
//!
//! An entry is never freed by time alone: a node that is down for long holds its slot, or the whole group would follow
//! it (kured #1497).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::state::OWNER;

/// An entry whose Renewal stands still for so long, on the observer's clock and with its node in service, was
/// forgotten. Holders renew every minute.
pub const STANDS_STILL: Duration = Duration::from_mins(5);

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Name of its node.
    pub node: String,
    /// UID of its node: a node that was made anew is another one.
    pub node_uid: String,
    /// The boot in which it was written last.
    pub boot_id: String,
    /// Counts up while the holder lives and needs the slot.
    pub renewal: u64,
}

/// The Lease as it was read or written last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The version that a write is based on; `None` when there is no Lease yet.
    pub version: Option<String>,
    /// The entries.
    pub holders: Vec<Holder>,
}

impl Lease {
    /// The entry of this node.
    pub fn of(&self, uid: &str) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.node_uid == uid)
    }

    /// The entries with this node's in its place, or without one.
    pub fn with(&self, uid: &str, entry: Option<Holder>) -> Vec<Holder> {
        self.holders.iter().filter(|holder| holder.node_uid != uid).cloned().chain(entry).collect()
    }
}

/// Whether other nodes have slots, as it was when the API server last answered. It outlives zedkube and the boot: when the
/// server goes away, the node that has a slot may have taken it down, and two may not be down at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// Not known: treated as if one had a slot.
    #[default]
    Unknown,
    /// None has one, or there are no others.
    Nobody,
    /// At least one has, or may be down for a drain.
    Hold,
}

/// What an observer has seen over time, on its own clock. Bounded by the nodes and entries that were seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Nodes that are not Ready, since when, by UID.
    down: BTreeMap<String, Moment>,
    /// Entries whose Renewal stands still while their node is in service, since when, by UID.
    still: BTreeMap<String, (u64, Moment)>,
}

impl Watched {
    /// Takes a list of all nodes in.
    pub fn see_nodes(&mut self, nodes: &[NodeView], now: Moment) {
        let since = |node: &NodeView| self.down.get(&node.uid).copied().unwrap_or(now);
        self.down =
            nodes.iter().filter(|node| !node.ready).map(|node| (node.uid.clone(), since(node))).collect();
        let serving: BTreeSet<&str> =
            nodes.iter().filter(|node| is_in_service(node)).map(|node| node.uid.as_str()).collect();
        self.still.retain(|uid, _| serving.contains(uid.as_str()));
    }

    /// Takes the entries in, with the nodes as they were listed last.
    pub fn see_lease(&mut self, lease: &Lease, nodes: &[NodeView], now: Moment) {
        let mut still = BTreeMap::new();
        for holder in &lease.holders {
            if nodes.iter().any(|node| node.uid == holder.node_uid && is_in_service(node)) {
                let known = self.still.get(&holder.node_uid);
                let since = known.filter(|(renewal, _)| *renewal == holder.renewal).map(|(_, since)| *since);
                still.insert(holder.node_uid.clone(), (holder.renewal, since.unwrap_or(now)));
            }
        }
        self.still = still;
    }

    /// Until when a node that is not Ready may just be rebooting; `None` for one that is Ready.
    pub(crate) fn may_return_until(&self, uid: &str, down_max: Duration) -> Option<Moment> {
        self.down.get(uid).map(|since| *since + down_max)
    }

    fn stands_still(&self, uid: &str, now: Moment) -> bool {
        self.still.get(uid).is_some_and(|(_, since)| now.since(*since) >= STANDS_STILL)
    }

    pub(crate) fn is_down(&self, uid: &str, now: Moment, down_max: Duration) -> bool {
        self.may_return_until(uid, down_max).is_some_and(|until| now < until)
    }
}

/// Ready, schedulable and without our mark: nothing is being done to it.
fn is_in_service(node: &NodeView) -> bool {
    node.ready && !node.cordoned && node.cordoned_by.as_deref() != Some(OWNER)
}

/// What a node that wants a slot finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room: write these entries, its own among them.
    Free(Vec<Holder>),
    /// These have all the slots.
    Taken(Vec<String>),
}

/// The group as a node sees it. `nodes` must have been listed after the Lease was read, or a node that joined in
/// between would look as if it were gone.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The Lease.
    pub lease: &'a Lease,
    /// All nodes.
    pub nodes: &'a [NodeView],
    /// What was seen of both over time.
    pub watched: &'a Watched,
    /// Setting `slots.limit`, not 0.
    pub limit: u32,
    /// Setting `slots.down-max`.
    pub down_max: Duration,
}

impl Group<'_> {
    /// Whether this node may have a slot now. Entries that nobody needs any more are left out of what is to be written.
    pub fn room_for(&self, own: &Holder, now: Moment) -> Room {
        let kept = || {
            self.lease
                .holders
                .iter()
                .filter(|holder| holder.node_uid != own.node_uid && !self.is_abandoned(holder, now))
        };
        // By UID: a node that holds a slot and is down counts once.
        let down =
            self.nodes.iter().filter(|node| self.watched.is_down(&node.uid, now, self.down_max)).filter_map(
                |node| (node.uid != own.node_uid).then_some((node.uid.as_str(), node.name.as_str())),
            );
        let taken: BTreeMap<&str, &str> =
            kept().map(|holder| (holder.node_uid.as_str(), holder.node.as_str())).chain(down).collect();
        if taken.len() < usize::try_from(self.limit).unwrap_or(usize::MAX) {
            Room::Free(kept().cloned().chain([own.clone()]).collect())
        } else {
            Room::Taken(taken.into_values().map(str::to_owned).collect())
        }
    }

    /// Nobody needs the entry: its node is gone, or is in service and does not renew it.
    pub fn is_abandoned(&self, holder: &Holder, now: Moment) -> bool {
        match self.nodes.iter().find(|node| node.uid == holder.node_uid) {
            None => true,
            Some(node) => is_in_service(node) && self.watched.stands_still(&holder.node_uid, now),
        }
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
