//! The rules of the slots: how many nodes of a group may be down for a drain at a time.
//!
//! At most `slots.limit` nodes of a group hold a slot at a time. All nodes share one table, a ConfigMap: its key is a
//! node's name, its value that node's entry. Each node writes its own entry only; with a node's own credentials it could
//! not write another one. This module only decides: the shell reads the table and writes it, and each write names the
//! version of the table that the decision was based on. If two nodes decide at the same time, the second write is
//! refused as a conflict, and that node reads the table and decides again.
//!
//! Time alone never frees an entry: a node that is down for long keeps its slot, or the whole group would follow it
//! (kured #1497). A node that takes a slot although the table has an entry that is not needed any more (an abandoned
//! entry) names that entry in its own as passed over. A node that finds its own entry passed over has lost its slot.
//! Each node judges for itself which entries are abandoned: an entry that others have passed over still counts for it,
//! because otherwise one node could send two others down together. And a node believes that it was passed over only if
//! that can be true ([`crate::slot_lease`]), because otherwise a stolen node could take every other node's slot away.
//!
//! The table can be lost: somebody deletes the ConfigMap, or etcd is restored from a backup. So a Node that carries our
//! cordon counts without an entry as well; and the entries that were lost with the table count until their Nodes were
//! seen back, because a restored Node has lost its cordon, too. This memory survives a boot: a node that is on its way
//! down is Ready for 40 s more, and after a restore nothing in the cluster says that it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;
use schemas::{KnownHolder, KnownHolders};

use crate::OWNER;

/// An entry is abandoned if its Renewal has not changed for this long, by the observer's clock, while its node was in
/// service. Holders renew every minute.
pub const STANDS_STILL: Duration = Duration::from_mins(5);

/// One entry of the slot table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Name of the node.
    pub node: String,
    /// UID of the node: a node that was deleted and created again is another node.
    pub node_uid: String,
    /// The boot in which the node wrote the entry last.
    pub boot_id: String,
    /// A number that the holder increases every minute while it needs the slot.
    pub renewal: u64,
    /// Entries of other nodes that were judged abandoned when this slot was taken.
    pub passed_over: Vec<PassedOver>,
}

/// An entry of another node, as it was when it was judged abandoned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Name of that node.
    pub node: String,
    /// UID of that node.
    pub node_uid: String,
    /// The entry's Renewal at that time: an entry with a greater one was written later and is not passed over.
    pub renewal: u64,
}

/// The slot table, as it was read or written last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotTable {
    /// The version that a write has to be based on; `None` if the table does not exist yet.
    pub version: Option<String>,
    /// UID of the ConfigMap: one that was deleted and created again is another one. Empty if the table does not exist.
    pub uid: String,
    /// The entries that could be read.
    pub holders: Vec<Holder>,
    /// Names of the nodes whose entries could not be read. Such an entry counts while its node is not in service.
    pub unreadable: Vec<String>,
}

impl SlotTable {
    /// The entry under this node's name.
    pub fn of(&self, node: &str) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.node == node)
    }

    /// The entry that this node has written itself.
    pub fn written_by(&self, own: &NodeView) -> Option<&Holder> {
        self.of(&own.name).filter(|holder| holder.node_uid == own.uid)
    }

    /// True if another node says that it has judged this entry abandoned, as it is now, and has taken a slot: then the
    /// entry gives no slot any more. A node that names a greater Renewal says what it cannot have seen.
    pub fn is_passed_over(&self, holder: &Holder) -> bool {
        self.statements_on(holder).any(|(_, renewal)| renewal == holder.renewal)
    }

    /// Names of the other nodes whose entries say that this one was abandoned, as it is now or later.
    pub fn passed_over_by(&self, holder: &Holder) -> Vec<String> {
        let said = self.statements_on(holder).filter(|(_, renewal)| holder.renewal <= *renewal);
        let names: BTreeSet<&String> = said.map(|(by, _)| &by.node).collect();
        names.into_iter().cloned().collect()
    }

    /// What the entries of other nodes say about this one: who, and the Renewal that was judged abandoned.
    fn statements_on<'a>(&'a self, of: &'a Holder) -> impl Iterator<Item = (&'a Holder, u64)> {
        let is_meant = move |passed: &&PassedOver| passed.node == of.node && passed.node_uid == of.node_uid;
        let others = self.holders.iter().filter(|holder| holder.node != of.node);
        others.flat_map(move |by| {
            by.passed_over.iter().filter(is_meant).map(move |passed| (by, passed.renewal))
        })
    }

    /// True if the table has anything under this node's name, readable or not.
    pub fn has_place_of(&self, node: &NodeView) -> bool {
        self.of(&node.name).is_some() || self.unreadable.contains(&node.name)
    }

    /// The entries of other nodes. An entry under this node's own name that a deleted Node of the same name left does
    /// not count as another's; it is overwritten.
    pub fn others<'a>(&'a self, own: &'a NodeView) -> impl Iterator<Item = &'a Holder> {
        self.holders.iter().filter(|holder| holder.node != own.name)
    }

    /// Replaces the entry of a node.
    pub fn put(&mut self, node: &str, entry: Option<Holder>) {
        self.holders.retain(|holder| holder.node != node);
        self.unreadable.retain(|name| name != node);
        self.holders.extend(entry);
    }

    /// True if `later`, which was read after this table, is not what became of it: the table was deleted, or it was
    /// restored from a backup. A `resourceVersion` only grows while an API server keeps its data.
    fn is_lost_in(&self, later: &Self) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        match (&self.version, &later.version) {
            // Without a table only cordons are known ([`Observations::see_out`]).
            (None, _) => !self.holders.is_empty(),
            (Some(_), None) => true,
            (Some(before), Some(after)) => {
                let went_back =
                    number(before).zip(number(after)).is_some_and(|(before, after)| after < before);
                self.uid != later.uid || went_back
            }
        }
    }

    /// True if `later` is certainly what became of this table. A `resourceVersion` only grows while an API server keeps
    /// its data.
    pub(crate) fn is_before(&self, later: &Self) -> bool {
        let number = |table: &Self| table.version.as_ref().and_then(|version| version.parse::<u64>().ok());
        self.uid == later.uid && number(self).zip(number(later)).is_some_and(|(before, after)| before < after)
    }

    /// Names of the nodes that hold a slot, or may hold one. Whether a node that was passed over still holds one is known
    /// to that node alone.
    pub fn names(&self) -> Vec<String> {
        self.holders.iter().map(|holder| &holder.node).chain(&self.unreadable).cloned().collect()
    }

    /// This node's next entry. Its Renewal is greater than that of the last one, so it counts again if that was passed over.
    pub(crate) fn next_entry(&self, own: &NodeView, boot_id: &str, passed_over: Vec<PassedOver>) -> Holder {
        let renewal = self.written_by(own).map_or(0, |holder| holder.renewal).saturating_add(1);
        Holder {
            node: own.name.clone(),
            node_uid: own.uid.clone(),
            boot_id: boot_id.to_owned(),
            renewal,
            passed_over,
        }
    }

    /// The entries that this node has passed over and that have not changed since; the others need not be named any
    /// longer.
    pub(crate) fn still_passed_over(&self, own: &Holder) -> Vec<PassedOver> {
        let is_there = |passed: &&PassedOver| {
            let found = self.of(&passed.node).filter(|holder| holder.node_uid == passed.node_uid);
            found.is_some_and(|holder| holder.renewal <= passed.renewal)
        };
        own.passed_over.iter().filter(is_there).cloned().collect()
    }
}

/// What this node has observed of nodes and entries over time, by its own clock. Its size is bounded by the nodes and
/// entries that were seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// Nodes that are not Ready, by UID, and since when.
    down: BTreeMap<String, Moment>,
    /// Entries whose Renewal does not change while their node is in service, by node name.
    still: BTreeMap<String, Unrenewed>,
    /// The table as it was seen last, and an entry for each node that was seen on its way down since.
    last: SlotTable,
    /// Entries that were lost with the table, by node name.
    lost: BTreeMap<String, LostEntry>,
}

/// An entry that was lost with the table. Its node may be on its way down, or down.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LostEntry {
    node_uid: String,
    /// The boot in which the node wrote the entry.
    boot_id: String,
    /// Since when the node is Ready in that boot; `None` if it is not.
    ready_since: Option<Moment>,
}

impl LostEntry {
    /// Notes the nodes. True if the entry still counts: its node exists, and was not seen Ready in another boot, nor
    /// Ready in the same boot for so long that it cannot be going down any more.
    fn counts_with(&mut self, nodes: &[NodeView], now: Moment) -> bool {
        let Some(node) = nodes.iter().find(|node| node.uid == self.node_uid) else { return false };
        if !node.ready {
            self.ready_since = None;
            return true;
        }
        let is_back = !node.boot_id.is_empty() && node.boot_id != self.boot_id;
        let since = *self.ready_since.get_or_insert(now);
        !is_back && now.since(since) < STANDS_STILL
    }
}

/// An entry whose Renewal does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unrenewed {
    node_uid: String,
    renewal: u64,
    /// When the entry was first seen with this Renewal.
    since: Moment,
    /// When the entry was last seen with this Renewal; later it may have changed unseen.
    until: Moment,
}

impl Observations {
    /// Notes a list of all nodes.
    pub fn see_nodes(&mut self, nodes: &[NodeView], now: Moment) {
        let since = |node: &NodeView| {
            let seen = self.down.get(&node.uid).copied();
            seen.unwrap_or_else(|| now.before(node.silent.unwrap_or_default()))
        };
        self.down =
            nodes.iter().filter(|node| !node.ready).map(|node| (node.uid.clone(), since(node))).collect();
        let serving: BTreeSet<&str> =
            nodes.iter().filter(|node| is_in_service(node)).map(|node| node.name.as_str()).collect();
        self.still.retain(|node, _| serving.contains(node.as_str()));
        self.lost.retain(|_, lost| lost.counts_with(nodes, now));
    }

    /// Notes the nodes that zedkube has cordoned for a drain, with a slot of this group
    /// ([`crate::Policy::slots_group`]): a table that is lost before their entries are read takes them with it.
    pub(crate) fn see_out(&mut self, nodes: &[NodeView], group: Option<&str>) {
        for NodeView { name, uid, boot_id, .. } in nodes.iter().filter(|node| is_out_for(node, group)) {
            if self.last.of(name).is_none() {
                let (node, node_uid, boot_id) = (name.clone(), uid.clone(), boot_id.clone());
                self.last.holders.push(Holder { node, node_uid, boot_id, ..Holder::default() });
            }
        }
    }

    /// Notes the entries; `nodes` is a list of all nodes of now. Without one, it is not known which node is in service, and
    /// no entry stands still for longer.
    pub fn see_table(&mut self, table: &SlotTable, nodes: Option<&[NodeView]>, now: Moment) {
        let mut before = std::mem::take(&mut self.still);
        for holder in &table.holders {
            let seen =
                |still: &Unrenewed| still.node_uid == holder.node_uid && still.renewal == holder.renewal;
            let known = before.remove(&holder.node).filter(seen);
            let is_serving = |node: &NodeView| node.name == holder.node && is_in_service(node);
            let still = match nodes {
                None => known,
                Some(nodes) => nodes.iter().any(is_serving).then(|| Unrenewed {
                    node_uid: holder.node_uid.clone(),
                    renewal: holder.renewal,
                    since: known.map_or(now, |still| still.since),
                    until: now,
                }),
            };
            self.still.extend(still.map(|still| (holder.node.clone(), still)));
        }
        if self.last.is_lost_in(table) {
            for Holder { node, node_uid, boot_id, .. } in std::mem::take(&mut self.last.holders) {
                self.lost.insert(node, LostEntry { node_uid, boot_id, ready_since: None });
            }
        }
        self.lost.retain(|node, _| table.of(node).is_none());
        self.last.clone_from(table);
    }

    /// What has to be known after a restart, so that a table that is lost meanwhile takes no holder with it.
    pub(crate) fn write_down(&self, known: &mut KnownHolders) {
        known.table_uid.clone_from(&self.last.uid);
        known.table_version = self.last.version.clone().unwrap_or_default();
        let holder = |node: &String, node_uid: &String, boot_id: &String| KnownHolder {
            node: node.clone(),
            node_uid: node_uid.clone(),
            boot_id: boot_id.clone(),
        };
        let holders = self.last.holders.iter();
        known.holders = holders.map(|had| holder(&had.node, &had.node_uid, &had.boot_id)).collect();
        known.lost =
            self.lost.iter().map(|(node, lost)| holder(node, &lost.node_uid, &lost.boot_id)).collect();
    }

    /// The observations of a process that wrote this down.
    pub(crate) fn resumed(known: &KnownHolders) -> Self {
        let holder = |KnownHolder { node, node_uid, boot_id }: &KnownHolder| Holder {
            node: node.clone(),
            node_uid: node_uid.clone(),
            boot_id: boot_id.clone(),
            ..Holder::default()
        };
        let lost = |KnownHolder { node, node_uid, boot_id }: &KnownHolder| {
            let (node_uid, boot_id) = (node_uid.clone(), boot_id.clone());
            (node.clone(), LostEntry { node_uid, boot_id, ready_since: None })
        };
        let last = SlotTable {
            version: Some(known.table_version.clone()).filter(|version| !version.is_empty()),
            uid: known.table_uid.clone(),
            holders: known.holders.iter().map(holder).collect(),
            ..SlotTable::default()
        };
        Self { last, lost: known.lost.iter().map(lost).collect(), ..Self::default() }
    }

    /// Forgets the entries that were lost with the table: a person says that their nodes are not on their way down.
    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// The nodes whose entries were lost with the table, and that were not seen back since. Sorted.
    pub fn lost(&self) -> impl Iterator<Item = &String> {
        self.lost.keys()
    }

    /// Until when a node that is not Ready may just be rebooting for a drain; `None` if the node is Ready.
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

/// The node is Ready, schedulable and without our annotation: it is not being drained.
fn is_in_service(node: &NodeView) -> bool {
    node.ready && !node.cordoned && node.cordoned_by.as_deref() != Some(OWNER)
}

/// The answer to a node that wants a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A slot is free, if these abandoned entries are passed over.
    Free(Vec<PassedOver>),
    /// These nodes have all slots.
    Taken(Vec<String>),
}

/// The group of nodes, as this node sees it. `nodes` must be a list that was asked for after the table was read: a node
/// that joined in between would look as if it did not exist.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The slot table.
    pub table: &'a SlotTable,
    /// All nodes.
    pub nodes: &'a [NodeView],
    /// What was observed of nodes and entries over time.
    pub observed: &'a Observations,
    /// Setting `slots.limit`, not 0.
    pub limit: u32,
    /// Setting `slots.down-max`.
    pub down_max: Duration,
    /// [`crate::Policy::slots_group`].
    pub name: Option<&'a str>,
}

/// True if zedkube has taken this node out of service for a drain, with a slot of this group
/// ([`crate::Policy::slots_group`]).
pub fn is_out_for(node: &NodeView, group: Option<&str>) -> bool {
    node.is_cordoned_by(OWNER) && node.slots_group.as_deref() == group
}

impl Group<'_> {
    /// Decides whether this node may take a slot now.
    pub fn admit(&self, own: &NodeView, now: Moment) -> Admission {
        let taken = self.taken_by_others(own, now);
        if taken.len() >= usize::try_from(self.limit).unwrap_or(usize::MAX) {
            return Admission::Taken(taken.into_iter().map(str::to_owned).collect());
        }
        let abandoned = self.table.holders.iter().filter(|holder| holder.node != own.name);
        let abandoned = abandoned.filter(|holder| self.is_abandoned(holder));
        Admission::Free(
            abandoned
                .map(|holder| PassedOver {
                    node: holder.node.clone(),
                    node_uid: holder.node_uid.clone(),
                    renewal: holder.renewal,
                })
                .collect(),
        )
    }

    /// Names of the other nodes that hold a slot or may be down for a drain. A node that holds a slot and is down counts
    /// once.
    fn taken_by_others<'a>(&'a self, own: &'a NodeView, now: Moment) -> BTreeSet<&'a str> {
        let held = self.table.others(own).filter(|holder| !self.is_abandoned(holder));
        let others = || self.nodes.iter().filter(|node| node.name != own.name);
        let is_unreadable = |node: &&NodeView| self.table.unreadable.contains(&node.name);
        let unreadable = others().filter(is_unreadable).filter(|node| !is_in_service(node));
        let is_out = |node: &&NodeView| {
            self.observed.is_down(&node.uid, now, self.down_max) || is_out_for(node, self.name)
        };
        held.map(|holder| &holder.node)
            .chain(unreadable.chain(others().filter(is_out)).map(|node| &node.name))
            .chain(self.observed.lost().filter(|node| **node != own.name))
            .map(String::as_str)
            .collect()
    }

    /// The entry is not needed any more: its node does not exist; or its node is in service, and does not renew the
    /// entry or has another UID. While its node is out of service, an entry with a wrong UID counts: a deleted Node of
    /// this name left it, or it is a lie.
    pub fn is_abandoned(&self, holder: &Holder) -> bool {
        let node = self.nodes.iter().find(|node| node.name == holder.node);
        node.is_none_or(|node| {
            let is_its_own = node.uid == holder.node_uid;
            is_in_service(node) && (!is_its_own || self.observed.stands_still(&holder.node))
        })
    }
}

#[cfg(test)]
mod tests;
