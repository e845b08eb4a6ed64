//! Who may be down for a drain: the rules of the slots.
//!
//! `slots.limit` nodes of a group hold a slot at a time. Each node writes one entry, its own, into one table that all
//! share (a ConfigMap: key = name of the node), and never touches another one's: with a node's own credentials it could
//! not. What is read here was read from the API server by somebody else; what is decided here is written by somebody
//! else, with the version of the whole table that it was decided on. So of two nodes that decide at once one is told of a
//! conflict, reads again, and decides anew.
//!
//! An entry is never free by time alone: a node that is down for long holds its slot, or the whole group would follow
//! it (kured #1497). Who takes a slot although an entry is there that nobody needs any more names that entry in its own,
//! as passed over. A node that finds its entry passed over has lost the slot. Each node judges for itself which entries
//! nobody needs: what others have passed over still counts for it, or one node could send two others down together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::OWNER;

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
    /// Entries of other nodes that did not count when this slot was taken.
    pub passed_over: Vec<PassedOver>,
}

/// An entry of another node, as it was when its slot was taken to be free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Name of its node.
    pub node: String,
    /// UID of its node.
    pub node_uid: String,
    /// Its Renewal then: an entry with a greater one was written later, and is not meant.
    pub renewal: u64,
}

/// The table as it was read or written last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotTable {
    /// The version that a write is based on; `None` when there is no table yet.
    pub version: Option<String>,
    /// The entries that can be read.
    pub holders: Vec<Holder>,
    /// The nodes whose entries cannot be read, by name. Such an entry counts while its node is out of service.
    pub unreadable: Vec<String>,
    /// Entries of nodes that run a version which kept the slots elsewhere, in a Lease; they count like the others.
    /// `None`: there is no such Lease any more.
    pub old: Option<Vec<Holder>>,
}

impl SlotTable {
    /// What is written in the place of this node.
    pub fn of(&self, node: &str) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.node == node)
    }

    /// The entry by which this node holds a slot: it has written it itself, and nobody has passed over it.
    pub fn held_by(&self, own: &NodeView) -> Option<&Holder> {
        self.of(&own.name).filter(|holder| holder.node_uid == own.uid && !self.is_passed_over(holder))
    }

    /// Another node has taken a slot although this entry is there: it is none any more.
    pub fn is_passed_over(&self, holder: &Holder) -> bool {
        self.passed_over(&holder.node, &holder.node_uid).is_some_and(|passed| holder.renewal <= passed)
    }

    /// The greatest Renewal of this node that another node has passed over.
    fn passed_over(&self, node: &str, uid: &str) -> Option<u64> {
        let others = self.holders.iter().filter(|holder| holder.node != node);
        let passed = others.flat_map(|holder| &holder.passed_over);
        let passed = passed.filter(|passed| passed.node == node && passed.node_uid == uid);
        passed.map(|passed| passed.renewal).max()
    }

    /// Something is written in this node's place, whatever it is.
    pub fn has_place_of(&self, node: &NodeView) -> bool {
        self.of(&node.name).is_some() || self.unreadable.contains(&node.name)
    }

    /// The entries of other nodes. What a Node of this name left that was deleted since is in this node's place, and
    /// overwritten.
    pub fn others<'a>(&'a self, own: &'a NodeView) -> impl Iterator<Item = &'a Holder> {
        self.holders.iter().chain(self.old.iter().flatten()).filter(|holder| holder.node != own.name)
    }

    /// Writes the place of a node.
    pub fn put(&mut self, node: &str, entry: Option<Holder>) {
        self.holders.retain(|holder| holder.node != node);
        self.unreadable.retain(|name| name != node);
        self.holders.extend(entry);
    }

    /// Names of the nodes that hold a slot, or may.
    pub fn names(&self) -> Vec<String> {
        let held = self.holders.iter().filter(|holder| !self.is_passed_over(holder));
        let readable = held.chain(self.old.iter().flatten()).map(|holder| &holder.node);
        readable.chain(&self.unreadable).cloned().collect()
    }

    /// This node's next entry: it counts on, so that what was passed over before is not this one.
    pub(crate) fn next_entry(&self, own: &NodeView, boot_id: &str, passed_over: Vec<PassedOver>) -> Holder {
        let known = self.of(&own.name).filter(|holder| holder.node_uid == own.uid);
        let known = known.map(|holder| holder.renewal);
        let renewal = known.max(self.passed_over(&own.name, &own.uid)).unwrap_or(0).saturating_add(1);
        Holder {
            node: own.name.clone(),
            node_uid: own.uid.clone(),
            boot_id: boot_id.to_owned(),
            renewal,
            passed_over,
        }
    }

    /// What this node has passed over and what is still there as it was: the rest need not be named any longer.
    pub(crate) fn still_passed_over(&self, own: &Holder) -> Vec<PassedOver> {
        let is_there = |passed: &&PassedOver| {
            let found = self.of(&passed.node).filter(|holder| holder.node_uid == passed.node_uid);
            found.is_some_and(|holder| holder.renewal <= passed.renewal)
        };
        own.passed_over.iter().filter(is_there).cloned().collect()
    }
}

/// What an observer has seen over time, on its own clock. Bounded by the nodes and entries that were seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Nodes that are not Ready, since when, by UID.
    down: BTreeMap<String, Moment>,
    /// Entries whose Renewal stands still while their node is in service, by the name of the node.
    still: BTreeMap<String, Still>,
}

/// An entry whose Renewal stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Still {
    node_uid: String,
    renewal: u64,
    /// When it was seen so first.
    since: Moment,
    /// When it was seen so last: what happened since then nobody knows.
    until: Moment,
}

impl Watched {
    /// Takes a list of all nodes in.
    pub fn see_nodes(&mut self, nodes: &[NodeView], now: Moment) {
        let since = |node: &NodeView| self.down.get(&node.uid).copied().unwrap_or(now);
        self.down =
            nodes.iter().filter(|node| !node.ready).map(|node| (node.uid.clone(), since(node))).collect();
        let serving: BTreeSet<&str> =
            nodes.iter().filter(|node| is_in_service(node)).map(|node| node.name.as_str()).collect();
        self.still.retain(|node, _| serving.contains(node.as_str()));
    }

    /// Takes the entries in, with the nodes as they were listed last.
    pub fn see_table(&mut self, table: &SlotTable, nodes: &[NodeView], now: Moment) {
        let mut still = BTreeMap::new();
        for holder in table.holders.iter().chain(table.old.iter().flatten()) {
            if nodes.iter().any(|node| node.name == holder.node && is_in_service(node)) {
                let seen =
                    |still: &&Still| still.node_uid == holder.node_uid && still.renewal == holder.renewal;
                let since = self.still.get(&holder.node).filter(seen).map_or(now, |still| still.since);
                let (node_uid, renewal) = (holder.node_uid.clone(), holder.renewal);
                still.insert(holder.node.clone(), Still { node_uid, renewal, since, until: now });
            }
        }
        self.still = still;
    }

    /// Until when a node that is not Ready may just be rebooting; `None` for one that is Ready.
    pub(crate) fn may_return_until(&self, uid: &str, down_max: Duration) -> Option<Moment> {
        self.down.get(uid).map(|since| *since + down_max)
    }

    fn stands_still(&self, node: &str) -> bool {
        self.still.get(node).is_some_and(|still| still.until.since(still.since) >= STANDS_STILL)
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
    /// There is room, if these entries are passed over.
    Free(Vec<PassedOver>),
    /// These have all the slots.
    Taken(Vec<String>),
}

/// The group as a node sees it. `nodes` must have been listed after the table was read, or a node that joined in
/// between would look as if it were gone.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The table.
    pub table: &'a SlotTable,
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
    /// Whether this node may have a slot now.
    pub fn room_for(&self, own: &NodeView, now: Moment) -> Room {
        let taken = self.taken_by_others(own, now);
        if taken.len() >= usize::try_from(self.limit).unwrap_or(usize::MAX) {
            return Room::Taken(taken.into_iter().map(str::to_owned).collect());
        }
        let abandoned = self.table.holders.iter().filter(|holder| holder.node != own.name);
        let abandoned = abandoned.filter(|holder| self.is_abandoned(holder));
        Room::Free(
            abandoned
                .map(|holder| PassedOver {
                    node: holder.node.clone(),
                    node_uid: holder.node_uid.clone(),
                    renewal: holder.renewal,
                })
                .collect(),
        )
    }

    /// Names of the nodes besides this one that have a slot, or may be down for a drain. One that holds a slot and is
    /// down counts once.
    fn taken_by_others<'a>(&'a self, own: &'a NodeView, now: Moment) -> BTreeSet<&'a str> {
        let held = self.table.others(own).filter(|holder| !self.is_abandoned(holder));
        let others = || self.nodes.iter().filter(|node| node.name != own.name);
        let is_unreadable = |node: &&NodeView| self.table.unreadable.contains(&node.name);
        let unreadable = others().filter(is_unreadable).filter(|node| !is_in_service(node));
        let down = others().filter(|node| self.watched.is_down(&node.uid, now, self.down_max));
        held.map(|holder| &holder.node)
            .chain(unreadable.chain(down).map(|node| &node.name))
            .map(String::as_str)
            .collect()
    }

    /// Nobody needs the entry: its node is gone, or is in service and does not renew it, or has another UID. What names
    /// another UID than its node has is of a Node that was deleted, or a lie, and counts like one that cannot be read.
    pub fn is_abandoned(&self, holder: &Holder) -> bool {
        let node = self.nodes.iter().find(|node| node.name == holder.node);
        node.is_none_or(|node| {
            let is_its_own = node.uid == holder.node_uid;
            is_in_service(node) && (!is_its_own || self.watched.stands_still(&holder.node))
        })
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
