//! This node's entry in the slot table: read, taken, confirmed after each cordon, renewed and released.
//!
//! Level-triggered: `Wanted` says what the session needs from the table, one call is in flight at a time, and each
//! write is based on the version that was read. After any failure the table is read again.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;
use schemas::OtherHolders;

use crate::OWNER;
use crate::context::StepContext;
use crate::effect::Effect;
use crate::event::{CallError, SlotError};
use crate::policy::Policy;
use crate::slots::{Admission, Group, Holder, Observations, SlotTable};

/// How often a holder increases the Renewal of its entry.
const RENEW: Duration = Duration::from_mins(1);

/// First pause before the table is read again: after a change of the table, a write conflict, a call that failed, or a
/// write that gave us no slot. It is different for each node, so that waiting nodes do not all come back at once, and
/// doubles for as long as nothing comes of it, up to [`AGAIN`].
const AFTER_OTHERS: Duration = Duration::from_millis(200);

/// Longest pause before the table is read again. Also the pause while all slots are taken and the table is not watched.
const AGAIN: Duration = Duration::from_secs(15);

/// A node that needs nothing from the table reads its changes at most so often: holders change it every minute.
const AT_REST: Duration = Duration::from_secs(5);

/// The table is read again after this time, with a list or a sample of nodes, whether a change was seen or not: after a
/// backup was restored, a watch from a version of the future stays silent. At rest that is once an hour.
const READ_AGAIN: Duration = Duration::from_mins(45);

/// A list of nodes that is older does not show that a node is in service.
const LIST_LASTS: Duration = Duration::from_mins(2);

/// A list of nodes of which the answer is older does not decide about a slot: other nodes may be down since.
const LIST_DECIDES: Duration = Duration::from_secs(5);

/// A slot that becomes free is tried for within so much time for each node of the cluster, and within [`LONGEST_SPREAD`]:
/// only a few of those that wait for it ask for it before one of them has it.
const SPREAD: Duration = Duration::from_millis(20);

/// The longest time for that.
const LONGEST_SPREAD: Duration = Duration::from_secs(10);

/// A node in service that has not written its entry for this long may have been passed over, by a node that may have
/// released its own slot since; an entry that is younger cannot have been, whatever another node says. It is shorter than
/// the limit of the other nodes, 5 min ([`crate::slots::STANDS_STILL`]).
const MAY_BE_PASSED_OVER: Duration = Duration::from_mins(4);

/// What a list of nodes shows of the other ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Our Node is the only one.
    pub is_alone: bool,
    /// How many others come before ours by name: in an outage nodes go down one after another.
    pub before: u32,
}

/// This node's entry, and what is known of the slot table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotLease {
    /// The table as last read or written; `None` if it is not known, or not any more.
    pub table: Option<SlotTable>,
    /// What was observed of nodes and entries over time.
    pub observed: Observations,
    /// The nodes that hold the slots that this node waits for; empty if it does not wait, or they are not known.
    pub taken_by: Vec<String>,
    /// The nodes that had an entry when that was decided.
    taken_with: Vec<String>,
    /// Whether other nodes had a slot when the API server last answered.
    pub others: OtherHolders,
    /// The other nodes of the last list.
    pub neighbours: Neighbours,
    /// Why the last call failed; empty if it succeeded.
    pub error: String,
    /// Nodes whose entries say that ours was abandoned.
    pub passed_over_by: Vec<String>,
    /// Our entry was written after the cordon of the present attempt.
    pub(crate) confirmed: bool,
    /// When the last accepted write of our entry was sent; not known after a restart.
    written_at: Option<Moment>,
    /// Other nodes may have judged our entry abandoned: it gives no slot until we have taken one again.
    is_doubtful: bool,
    /// A list of nodes that was asked for after this serial is newer than the table.
    known_at: u32,
    /// The table was changed since it was last asked for, or may have been.
    is_outdated: bool,
    /// The table as its watch shows it; `None` while the watch does not live.
    watched: Option<SlotTable>,
    /// When this node tries for a slot that has become free.
    try_at: Option<Moment>,
    in_flight: Option<Call>,
    /// When the table was last asked for.
    read_at: Moment,
    /// When the last list of nodes was read.
    listed_at: Moment,
    /// Number of tries in a row of which nothing came.
    in_vain: u32,
    next: Moment,
    renew_at: Moment,
}

/// A call that is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    serial: u32,
    /// The purpose of a write; `None` if the call is a read.
    writes: Option<Wanted>,
    sent_at: Moment,
    /// The watch has shown the table meanwhile: the answer may be older.
    is_overtaken: bool,
}

/// What the session needs from the slot table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Only to know its content.
    Knowledge,
    /// A new entry of ours.
    Take,
    /// Our entry, written once more after the cordon.
    Confirm,
    /// Our entry, with a greater Renewal.
    Renew,
    /// No entry of ours.
    GiveBack,
}

/// All nodes of the cluster, as last read, and which of them is ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes<'a> {
    pub(crate) own: Option<&'a NodeView>,
    pub(crate) all: &'a [NodeView],
    /// The serial of the effect that asked for the list.
    pub(crate) asked: u32,
}

/// The result of [`SlotLease::pursue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pursued {
    /// A call is in flight, or something else has to happen first.
    Waits,
    /// Call again at this time.
    At(Moment),
    /// A new list of all nodes is needed first.
    NeedsList,
    /// Our entry is gone or passed over although this node needs it: an operator released it, or another node judged it
    /// abandoned.
    Lost,
}

impl SlotLease {
    /// This node has a slot, as far as is known.
    pub(crate) fn is_held(&self, own: Option<&NodeView>) -> bool {
        self.entry(own).is_some()
    }

    /// The entry by which this node has a slot.
    pub(crate) fn entry(&self, own: Option<&NodeView>) -> Option<&Holder> {
        let own = own.filter(|_| !self.is_doubtful)?;
        self.table.as_ref()?.written_by(own)
    }

    /// True if the table has anything under this node's name, also an entry that was passed over or cannot be read: it
    /// has to be removed.
    pub(crate) fn has_place(&self, own: Option<&NodeView>) -> bool {
        own.zip(self.table.as_ref()).is_some_and(|(own, table)| table.has_place_of(own))
    }

    /// Names of the nodes that have a slot, as far as is known.
    pub fn holders(&self) -> Vec<String> {
        let known = || self.table.as_ref().map(SlotTable::names).unwrap_or_default();
        if self.taken_by.is_empty() { known() } else { self.taken_by.clone() }
    }

    /// True if the table was read or written at least once in this process.
    pub(crate) fn was_known(&self) -> bool {
        self.known_at > 0
    }

    /// True if the table is not known, or was changed since it was read.
    pub(crate) fn is_unknown(&self) -> bool {
        self.table.is_none() || self.is_outdated
    }

    /// True if the table is known, and a change of it is seen without a call.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some() && !self.is_unknown()
    }

    /// True if entries of other nodes take all slots of the table, which is watched: a slot that becomes free is seen. One
    /// that a node without an entry takes, because it is not Ready, is not.
    pub(crate) fn will_be_seen_free(&self, own: Option<&NodeView>, policy: &Policy) -> bool {
        let is_full = |(table, own)| !has_room(table, own, policy);
        self.is_watched() && self.table.as_ref().zip(own).is_some_and(is_full)
    }

    /// True if it is time to renew the entry, or to read the table again.
    pub(crate) fn is_renewal_due(&self, now: Moment) -> bool {
        now >= self.renew_at
    }

    /// When the entry has to be renewed.
    pub(crate) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// True if this call is in flight.
    pub(crate) fn awaits(&self, serial: u32) -> bool {
        self.in_flight.is_some_and(|call| call.serial == serial)
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> Option<u32> {
        self.in_flight.map(|call| call.serial)
    }

    /// Notes the table as its watch shows it. One that is newer than what is known needs no read.
    pub(crate) fn seen(
        &mut self,
        table: &SlotTable,
        is_waiting: bool,
        nodes: Nodes<'_>,
        context: &StepContext<'_>,
    ) {
        self.watched = Some(table.clone());
        if let Some(call) = &mut self.in_flight {
            call.is_overtaken = true;
        } else if !self.agrees_with_watch(nodes, context) {
            self.changed(is_waiting, nodes.own, context);
        }
    }

    /// Notes that the watch on the table has failed, or is over. True if it lived.
    pub(crate) fn unseen(&mut self) -> bool {
        self.watched.take().is_some()
    }

    /// Takes the table over from its watch, if that is newer. False if it cannot be seen which of them is: the table was
    /// deleted, or restored from a backup.
    fn agrees_with_watch(&mut self, nodes: Nodes<'_>, context: &StepContext<'_>) -> bool {
        let (Some(table), Some(watched)) = (&self.table, &self.watched) else { return false };
        if !table.is_before(watched) {
            let is_same = table.uid == watched.uid && table.version == watched.version;
            return is_same || watched.is_before(table);
        }
        let watched = watched.clone();
        self.is_outdated = false;
        self.next = context.now;
        self.read_content(&watched, nodes, context);
        true
    }

    /// Notes that the table was changed, or may have been.
    pub(crate) fn changed(&mut self, is_waiting: bool, own: Option<&NodeView>, context: &StepContext<'_>) {
        let soon = context.now + pause(1, own, context);
        if !is_waiting {
            self.is_outdated = true;
            self.next = self.next.max(soon).max(self.read_at + AT_REST);
        } else if self.in_flight.is_none() {
            self.is_outdated = true;
            let spaced = soon.max(self.read_at + pause(self.in_vain, own, context));
            self.next = if self.next > context.now { self.next.min(spaced) } else { spaced };
        }
    }

    /// Notes a list of nodes.
    pub(crate) fn listed(&mut self, is_waiting: bool, nodes: Nodes<'_>, context: &StepContext<'_>) {
        self.observed.see_nodes(nodes.all, context.now);
        self.observed.see_out(nodes.all, context.policy.slots_group.as_deref());
        self.listed_at = context.now;
        if let Some(table) = self.table.as_ref().filter(|_| self.is_watched()) {
            self.observed.see_table(table, Some(nodes.all), context.now);
        }
        self.read_if_old(is_waiting, nodes.own, context);
        self.see_others(nodes, context);
    }

    /// Has the table read again if that was long ago.
    pub(crate) fn read_if_old(
        &mut self,
        is_waiting: bool,
        own: Option<&NodeView>,
        context: &StepContext<'_>,
    ) {
        if context.now.since(self.read_at) >= READ_AGAIN {
            self.changed(is_waiting, own, context);
        }
    }

    /// Notes whether another node has a slot or may be down, by the last list of nodes and the table.
    ///
    /// A node that carries our annotation or is not Ready may be down for a drain, whatever the table says. A list in
    /// which all nodes are in service does not prove that no node has a slot: a node that has just taken one is still in
    /// service. An entry that looks abandoned does not prove it either: its node may just have been unreachable.
    fn see_others(&mut self, nodes: Nodes<'_>, context: &StepContext<'_>) {
        let Some(own) = nodes.own else { return };
        let holds = self.table.as_ref().map(|table| {
            // A list that is older than the table does not show the nodes that have joined since.
            let is_list_older = nodes.asked <= self.known_at;
            let exists = |holder: &Holder| nodes.all.iter().any(|node| node.name == holder.node);
            let is_unreadable =
                |node: &NodeView| node.uid != own.uid && table.unreadable.contains(&node.name);
            table.others(own).any(|holder| is_list_older || exists(holder))
                || nodes.all.iter().any(is_unreadable)
        });
        let is_listed = nodes.all.iter().any(|node| node.uid == own.uid);
        let mut others = nodes.all.iter().filter(|node| node.uid != own.uid);
        if !nodes.all.is_empty() {
            let before = others.clone().filter(|node| node.name < own.name).count();
            self.neighbours = Neighbours {
                before: u32::try_from(before).unwrap_or(u32::MAX),
                is_alone: is_listed && others.clone().next().is_none(),
            };
        }
        let may_be_down = others.any(|node| {
            // A drain that lasts longer has an entry in the table.
            let is_news = context.now.since(self.listed_at) < context.policy.down_max;
            (is_news && node.cordoned_by.as_deref() == Some(OWNER))
                || self.observed.is_down(&node.uid, context.now, context.policy.down_max)
        });
        let may_be_down = may_be_down || self.observed.lost().any(|node| *node != own.name);
        self.others = match holds {
            Some(true) => OtherHolders::Hold,
            _ if may_be_down => OtherHolders::Hold,
            Some(false) => OtherHolders::Nobody,
            None if self.neighbours.is_alone => OtherHolders::Nobody,
            None => self.others,
        };
    }

    /// Notes the answer to a call. `renews`: in this phase an entry is renewed by a write.
    pub(crate) fn answered(
        &mut self,
        serial: u32,
        result: &Result<SlotTable, SlotError>,
        nodes: Nodes<'_>,
        renews: bool,
        context: &StepContext<'_>,
    ) {
        let Some(call) = self.in_flight.filter(|call| call.serial == serial) else { return };
        self.in_flight = None;
        match result {
            Ok(table) => {
                self.known(call, table, nodes, renews, context);
            }
            Err(call_error) => {
                self.table = None;
                self.came_to_nothing(nodes.own, context);
                if let SlotError::Failed(
                    CallError::Unreachable(text)
                    | CallError::Denied(text)
                    | CallError::Elsewhere(text)
                    | CallError::Busy(text)
                    | CallError::Other(text),
                ) = call_error
                {
                    self.error.clone_from(text);
                }
            }
        }
    }

    fn known(
        &mut self,
        call: Call,
        table: &SlotTable,
        nodes: Nodes<'_>,
        renews: bool,
        context: &StepContext<'_>,
    ) {
        if call.writes.is_some() {
            self.written_at = Some(call.sent_at);
            self.is_doubtful &= call.writes != Some(Wanted::Take);
            self.in_vain = 0;
        }
        self.error.clear();
        self.next = context.now;
        // A renewal that is due stays due after a read; otherwise the next read is due in one minute.
        if call.writes.is_some() || !renews {
            self.renew_at = context.now + RENEW;
        }
        self.read_content(table, nodes, context);
        self.confirmed |= call.writes == Some(Wanted::Confirm);
        if !self.agrees_with_watch(nodes, context) && call.is_overtaken {
            self.is_outdated = true;
            self.next = self.read_at + AT_REST;
        }
    }

    fn read_content(&mut self, table: &SlotTable, nodes: Nodes<'_>, context: &StepContext<'_>) {
        let written = nodes.own.and_then(|own| table.written_by(own));
        self.passed_over_by = written.map(|entry| table.passed_over_by(entry)).unwrap_or_default();
        self.is_doubtful |=
            self.is_old(context.now) && written.is_some_and(|entry| table.is_passed_over(entry));
        let is_recent = context.now.since(self.listed_at) < LIST_LASTS;
        self.observed.see_table(table, is_recent.then_some(nodes.all), context.now);
        self.known_at = context.serial();
        self.table = Some(table.clone());
        self.see_others(nodes, context);
    }

    /// A try gave us nothing: the next one follows after a longer pause.
    fn came_to_nothing(&mut self, own: Option<&NodeView>, context: &StepContext<'_>) {
        self.in_vain = self.in_vain.saturating_add(1);
        self.next = context.now + pause(self.in_vain, own, context);
    }

    /// Nothing is needed from the table now.
    pub(crate) fn rest(&mut self) {
        self.taken_by.clear();
        self.in_vain = 0;
        self.try_at = None;
    }

    /// Starts the call that is due, if none is in flight. `is_in_service`: this drain has not cordoned the node yet.
    pub(crate) fn pursue(
        &mut self,
        wanted: Wanted,
        nodes: Nodes<'_>,
        boot_id: &str,
        is_in_service: bool,
        context: &mut StepContext<'_>,
    ) -> Pursued {
        let Some(own) = nodes.own.filter(|_| self.in_flight.is_none()) else { return Pursued::Waits };
        if context.now < self.next {
            return Pursued::At(self.next);
        }
        let Some(table) = self.table.clone() else {
            return self.read(context);
        };
        match wanted {
            Wanted::Knowledge => self.read(context),
            Wanted::Take if self.is_outdated => self.read(context),
            Wanted::Take => self.take(&table, own, nodes, boot_id, context),
            Wanted::GiveBack => self.write(&table, own, wanted, None, context),
            Wanted::Confirm | Wanted::Renew => {
                if is_in_service {
                    self.doubt_if_old(context.now);
                }
                let Some(held) = self.entry(Some(own)) else {
                    return Pursued::Lost;
                };
                let entry = table.next_entry(own, boot_id, table.still_passed_over(held));
                self.write(&table, own, wanted, Some(entry), context)
            }
        }
    }

    /// While this node is in service, other nodes may judge its entry abandoned if it is old. Once the node is cordoned,
    /// they do not.
    pub(crate) fn doubt_if_old(&mut self, now: Moment) {
        self.is_doubtful |= self.is_old(now);
    }

    /// Our entry was not written for so long, or that is not known, that other nodes may have judged it abandoned.
    fn is_old(&self, now: Moment) -> bool {
        self.written_at.is_none_or(|written| now.since(written) >= MAY_BE_PASSED_OVER)
    }

    fn read(&mut self, context: &mut StepContext<'_>) -> Pursued {
        let serial = context.send(|serial| Effect::ReadSlots { serial });
        self.in_flight = Some(Call { serial, writes: None, sent_at: context.now, is_overtaken: false });
        self.read_at = context.now;
        self.is_outdated = false;
        Pursued::Waits
    }

    /// Takes a slot if one is free. A list of nodes is needed that is newer than the table: a node that joined and took a
    /// slot in between must not look as if it did not exist, and a node that has cordoned itself and then lost its entry
    /// with the table must not look as if it were in service.
    fn take(
        &mut self,
        table: &SlotTable,
        own: &NodeView,
        nodes: Nodes<'_>,
        boot_id: &str,
        context: &mut StepContext<'_>,
    ) -> Pursued {
        let is_new = nodes.asked > self.known_at && context.now.since(self.listed_at) < LIST_DECIDES;
        if !is_new && self.is_watched() && !self.taken_by.is_empty() {
            return self.wait(table, own, nodes, context);
        }
        if !is_new {
            return Pursued::NeedsList;
        }
        self.try_at = None;
        match self.group(table, nodes.all, context.policy).admit(own, context.now) {
            Admission::Free(passed_over) => {
                self.taken_by.clear();
                let entry = table.next_entry(own, boot_id, passed_over);
                self.write(table, own, Wanted::Take, Some(entry), context)
            }
            Admission::Taken(by) => {
                (self.taken_by, self.taken_with) = (by, table.names());
                if self.is_watched() {
                    return Pursued::Waits;
                }
                self.in_vain = self.in_vain.saturating_add(1);
                self.is_outdated = true;
                self.next = context.now + AGAIN;
                Pursued::At(self.next)
            }
        }
    }

    /// Waits for a slot while the table is watched. A new list of nodes is worth its cost if the table has entries of other
    /// nodes than when the last list did not give this node a slot, and has room.
    fn wait(
        &mut self,
        table: &SlotTable,
        own: &NodeView,
        nodes: Nodes<'_>,
        context: &StepContext<'_>,
    ) -> Pursued {
        if !has_room(table, own, context.policy) || table.names() == self.taken_with {
            self.try_at = None;
            return Pursued::Waits;
        }
        let spread = spread(nodes.all.len(), own, context);
        let at = *self.try_at.get_or_insert(context.now + spread);
        if context.now < at { Pursued::At(at) } else { Pursued::NeedsList }
    }

    fn group<'a>(&'a self, table: &'a SlotTable, nodes: &'a [NodeView], policy: &'a Policy) -> Group<'a> {
        let (limit, down_max) = (policy.slots_limit, policy.down_max);
        let name = policy.slots_group.as_deref();
        Group { table, nodes, observed: &self.observed, limit, down_max, name }
    }

    /// Writes our entry; the answer comes as an event.
    fn write(
        &mut self,
        table: &SlotTable,
        own: &NodeView,
        wanted: Wanted,
        entry: Option<Holder>,
        context: &mut StepContext<'_>,
    ) -> Pursued {
        let (based_on, node) = (table.version.clone(), own.name.clone());
        let serial = context.send(|serial| Effect::WriteSlots { serial, based_on, node, entry });
        self.in_flight =
            Some(Call { serial, writes: Some(wanted), sent_at: context.now, is_overtaken: false });
        Pursued::Waits
    }
}

/// True if the entries of other nodes leave a slot.
fn has_room(table: &SlotTable, own: &NodeView, policy: &Policy) -> bool {
    table.others(own).count() < usize::try_from(policy.slots_limit).unwrap_or(usize::MAX)
}

/// The time after which this node, one of so many, tries for a slot that has become free.
fn spread(nodes: usize, own: &NodeView, context: &StepContext<'_>) -> Duration {
    let longest = SPREAD.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX)).min(LONGEST_SPREAD);
    drain::retry::within(longest, context.serial(), &own.uid)
}

/// The pause after so many tries in vain, a little different for each node.
fn pause(in_vain: u32, own: Option<&NodeView>, context: &StepContext<'_>) -> Duration {
    let uid = own.map(|own| own.uid.as_str()).unwrap_or_default();
    let doubled = AFTER_OTHERS.saturating_mul(1 << in_vain.saturating_sub(1).min(7)).min(AGAIN);
    drain::retry::pause(context.serial(), Some(doubled), uid)
}
