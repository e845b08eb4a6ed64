//! Our entry in the table of the slots: read, taken, confirmed after each cordon, renewed, given back.
//!
//! Level-triggered like everything else: what is wanted follows from the phase, one call is in flight at a time, and
//! a write is always based on the version that was read. Whatever goes wrong, the table is read again.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::effect::Effect;
use crate::event::Trouble;
use crate::policy::Policy;
use crate::returning;
use crate::slots::{Group, Holder, Others, Room, SlotTable, Watched};
use crate::state::{OWNER, Outcome, Phase, State};
use crate::step::begin;
use crate::waiting::Stage;

/// A holder counts its Renewal up so often.
const RENEW: Duration = Duration::from_mins(1);

/// Between two looks at a table that has no room, and after a call that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// After somebody else was faster, and after the table was seen to change; spread, so that not all who wait come
/// back at once.
const AFTER_OTHERS: Duration = Duration::from_millis(200);

/// A node in service that has not written its entry for so long may have been passed over, and who did may have given
/// its slot back since: before the others' limit.
const MAY_BE_PASSED_OVER: Duration = Duration::from_mins(4);

/// What was read in the Lease of before is believed for so long: until a list of the nodes has come after it.
const OLD_IS_KNOWN: Duration = Duration::from_secs(30);

/// What is known of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leasing {
    /// The table as last read or written; `None` when that is not known (any more).
    pub table: Option<SlotTable>,
    /// What was seen of nodes and entries over time.
    pub watched: Watched,
    /// Who has the slots that we wait for; empty when that is not known, or nobody.
    pub taken_by: Vec<String>,
    /// Whether others had a slot when the API server last answered.
    pub others: Others,
    /// Why the last call failed; empty when it did not.
    pub error: String,
    /// Our entry was written after the cordon that the phase has sent.
    pub(crate) confirmed: bool,
    /// When the write of our entry that was accepted last was sent; not known after a restart.
    written_at: Option<Moment>,
    /// Our entry may be one that others have taken for forgotten: it is not a slot until we have taken one anew.
    is_doubtful: bool,
    /// A list of nodes asked for after this serial is fresher than the table.
    known_at: u32,
    /// When the table was read last.
    read_at: Moment,
    /// Somebody has changed the table since it was asked for.
    is_outdated: bool,
    pub(crate) in_flight: Option<Call>,
    next: Moment,
    renew_at: Moment,
}

/// A call in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) serial: u32,
    /// What it writes; nothing when it reads.
    writes: Option<Wanted>,
    sent_at: Moment,
}

/// What the phase wants of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Only to know.
    Knowledge,
    /// An entry of ours.
    Take,
    /// Our entry, written after the cordon.
    Confirm,
    /// Our entry, counted up.
    Renew,
    /// No entry of ours.
    GiveBack,
}

/// Why a call for the table brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotTrouble {
    /// Somebody else has changed it since it was read.
    Conflict,
    /// Anything else.
    Failed(Trouble),
}

/// We have a slot, as far as is known.
pub fn is_held(state: &State) -> bool {
    entry(state).is_some()
}

/// The entry by which we have a slot.
pub(crate) fn entry(state: &State) -> Option<&Holder> {
    let own = state.own.as_ref().filter(|_| !state.slots.is_doubtful)?;
    state.slots.table.as_ref()?.held_by(own)
}

/// Something is in our place of the table, also what was passed over or cannot be read: it has to go back.
pub(crate) fn has_place(state: &State) -> bool {
    let own = state.own.as_ref();
    own.zip(state.slots.table.as_ref()).is_some_and(|(own, table)| table.has_place_of(own))
}

/// Names of the nodes that have a slot, as far as is known.
pub fn holders(state: &State) -> Vec<String> {
    let known = state.slots.table.as_ref().map(SlotTable::names).unwrap_or_default();
    if known.is_empty() { state.slots.taken_by.clone() } else { known }
}

/// We wait for a slot and others have them all: the shell watches the table.
pub fn is_waiting(state: &State) -> bool {
    let waits = matches!(&state.phase, Phase::Waiting(waiting) if waiting.stage == Stage::Slot);
    waits && !state.slots.taken_by.is_empty()
}

/// The shell watches the table: we wait for a slot, or have to know who has one in case the API server goes away.
/// Costs a call when it begins, and one for each change of the table (a holder changes it once a minute).
pub fn wants_watch(state: &State) -> bool {
    match &state.phase {
        Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => is_waiting(state) || state.slots.known_at > 0,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            false
        }
    }
}

/// Somebody has changed the table.
pub(crate) fn changed(state: &mut State, now: Moment) {
    if !is_waiting(state) {
        state.slots.is_outdated = true;
        state.slots.next = state.slots.next.max(now + spread(state));
    } else if state.slots.in_flight.is_none() {
        state.slots.table = None;
        state.slots.next = now + spread(state);
    }
}

/// Takes in what was just seen of other nodes, in a list of them or in the table: has one of them a slot?
///
/// One that carries our mark or is not Ready may be down for a drain, whatever the table says. A list in which all are in
/// service does not say that nobody has a slot: who has just taken one is in service still. Nor does an entry that looks
/// forgotten: its node may just have been away.
pub(crate) fn see_others(state: &mut State, now: Moment, policy: &Policy) {
    let Some(own) = &state.own else { return };
    let holds = state.slots.table.as_ref().map(|table| {
        // A list from before the table was read does not show who has joined since.
        let is_list_older = state.nodes_asked <= state.slots.known_at;
        let exists = |holder: &Holder| state.nodes.iter().any(|node| node.name == holder.node);
        let is_unreadable = |node: &NodeView| node.uid != own.uid && table.unreadable.contains(&node.name);
        table.others(own).any(|holder| is_list_older || exists(holder))
            || state.nodes.iter().any(is_unreadable)
    });
    let is_listed = state.nodes.iter().any(|node| node.uid == own.uid);
    let mut others = state.nodes.iter().filter(|node| node.uid != own.uid);
    let is_alone = is_listed && others.clone().next().is_none();
    let may_be_down = others.any(|node| {
        let is_marked = node.cordoned_by.as_deref() == Some(OWNER);
        is_marked || state.slots.watched.is_down(&node.uid, now, policy.down_max)
    });
    state.slots.others = match holds {
        Some(true) => Others::Hold,
        _ if may_be_down => Others::Hold,
        Some(false) => Others::Nobody,
        None if is_alone => Others::Nobody,
        None => state.slots.others,
    };
}

fn group<'a>(state: &'a State, table: &'a SlotTable, policy: &Policy) -> Group<'a> {
    Group {
        table,
        nodes: &state.nodes,
        watched: &state.slots.watched,
        limit: policy.slots_limit,
        down_max: policy.down_max,
    }
}

/// Takes the answer to a call in.
pub(crate) fn answered(
    state: &mut State,
    serial: u32,
    result: &Result<SlotTable, SlotTrouble>,
    now: Moment,
    policy: &Policy,
) {
    let Some(call) = state.slots.in_flight.filter(|call| call.serial == serial) else { return };
    state.slots.in_flight = None;
    match result {
        Ok(table) => {
            known(state, call, table, now);
            see_others(state, now, policy);
        }
        Err(trouble) => {
            state.slots.table = None;
            match trouble {
                SlotTrouble::Conflict => state.slots.next = now + spread(state),
                SlotTrouble::Failed(
                    Trouble::Unreachable(text) | Trouble::Denied(text) | Trouble::Other(text),
                ) => {
                    state.slots.error.clone_from(text);
                    state.slots.next = now + AGAIN;
                }
            }
        }
    }
}

fn known(state: &mut State, call: Call, table: &SlotTable, now: Moment) {
    let mut table = table.clone();
    if call.writes.is_some() {
        // The answer to a write does not say what is in the Lease of before.
        table.old = state.slots.table.take().and_then(|before| before.old);
        state.slots.written_at = Some(call.sent_at);
        state.slots.is_doubtful &= call.writes != Some(Wanted::Take);
    } else {
        state.slots.read_at = now;
    }
    state.slots.watched.see_table(&table, &state.nodes, now);
    // Who has to renew still does after a read. Idle or Failed nobody renews: the next read is due a minute from now.
    let renews = state.requests.hold_the_node() && !matches!(state.phase, Phase::Idle | Phase::Failed(_));
    let is_renewed = call.writes.is_some() || !renews;
    let slots = &mut state.slots;
    slots.known_at = state.serial;
    slots.error.clear();
    slots.next = now;
    slots.renew_at = if is_renewed { now + RENEW } else { slots.renew_at };
    slots.table = Some(table);
    slots.confirmed |= call.writes == Some(Wanted::Confirm);
}

/// Starts the call that is due, if none is in flight; says when to come again.
pub(crate) fn pursue(
    state: &mut State,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let Some(wanted) = wanted(state, now, policy) else {
        state.slots.taken_by.clear();
        return (is_held(state) && policy.slots_limit > 0).then_some(state.slots.renew_at);
    };
    if state.slots.in_flight.is_some() || state.own.is_none() || state.api.away_since.is_some() {
        return None;
    }
    if now < state.slots.next {
        return Some(state.slots.next);
    }
    let Some(table) = state.slots.table.clone() else {
        return read(state, now, effects);
    };
    match wanted {
        Wanted::Knowledge => read(state, now, effects),
        Wanted::Take => take(state, &table, now, policy, effects),
        Wanted::GiveBack => send(state, &table, wanted, None, now, effects),
        Wanted::Confirm | Wanted::Renew => {
            let own = state.own.clone()?;
            if is_before_the_cordon(&state.phase) {
                doubt_if_old(state, now);
            }
            if let Some(held) = table.held_by(&own).filter(|_| !state.slots.is_doubtful) {
                let passed_over = table.still_passed_over(held);
                let entry = table.next_entry(&own, &state.boot_id, passed_over);
                return send(state, &table, wanted, Some(entry), now, effects);
            }
            lost(state, now, policy, effects);
            Some(now)
        }
    }
}

fn wanted(state: &State, now: Moment, policy: &Policy) -> Option<Wanted> {
    let held = is_held(state);
    let known = state.slots.table.is_some();
    if returning::wants_slot_back(state, policy) {
        return Some(Wanted::GiveBack);
    }
    if policy.slots_limit == 0 {
        return None;
    }
    match &state.phase {
        Phase::Waiting(waiting) if waiting.stage == Stage::GivingBack && (has_place(state) || !known) => {
            Some(Wanted::GiveBack)
        }
        Phase::Waiting(waiting) if waiting.stage == Stage::Slot && !held => Some(Wanted::Take),
        Phase::Cordoning(cordoning) if cordoning.cordoned && !state.slots.confirmed => Some(Wanted::Confirm),
        Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
            if state.requests.hold_the_node() =>
        {
            let is_due = if held { now >= state.slots.renew_at } else { has_slot_by_now(state) };
            let is_unknown = !held && matches!(state.phase, Phase::Waiting(_)) && is_unknown(state);
            is_due.then_some(Wanted::Renew).or_else(|| is_unknown.then_some(Wanted::Knowledge))
        }
        // Whether a boot before this one has left an entry; while that waits for the node to be well, whether somebody
        // else has released it; and who else has one.
        Phase::Idle | Phase::Failed(_) if state.member_now() != crate::Member::No => {
            let is_due = is_unknown(state) || (held && now >= state.slots.renew_at);
            is_due.then_some(Wanted::Knowledge)
        }
        Phase::Idle
        | Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => None,
    }
}

/// The table was not read since it was changed.
fn is_unknown(state: &State) -> bool {
    state.slots.table.is_none() || state.slots.is_outdated
}

/// In these phases we have a slot, whether or not the table could be read lately.
fn has_slot_by_now(state: &State) -> bool {
    match &state.phase {
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        Phase::Complete { outcome, .. } => *outcome == Outcome::Drained,
        Phase::Waiting(waiting) => matches!(waiting.stage, Stage::HealthHeld | Stage::Peers),
        Phase::Idle | Phase::Failed(_) => false,
    }
}

/// Nothing of this drain has cordoned the node yet, or nobody has confirmed the slot since.
fn is_before_the_cordon(phase: &Phase) -> bool {
    match phase {
        Phase::Waiting(_) => true,
        Phase::Cordoning(cordoning) => !cordoning.resumes,
        Phase::Idle
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => false,
    }
}

/// A node that is in service with a slot: others may have taken its entry for forgotten. Once it is cordoned nobody does.
pub(crate) fn doubt_if_old(state: &mut State, now: Moment) {
    let written = state.slots.written_at;
    state.slots.is_doubtful |= written.is_none_or(|written| now.since(written) >= MAY_BE_PASSED_OVER);
}

fn read(state: &mut State, now: Moment, effects: &mut Vec<Effect>) -> Option<Moment> {
    let serial = state.next_serial();
    state.slots.in_flight = Some(Call { serial, writes: None, sent_at: now });
    state.slots.is_outdated = false;
    effects.push(Effect::ReadSlots { serial });
    None
}

/// Takes a slot if there is room. With entries of others, the nodes have to be listed after the table was read: who
/// joined and took a slot in between must not look as if it were gone.
fn take(
    state: &mut State,
    table: &SlotTable,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let own = state.own.clone()?;
    // A change of the Lease of before does not change the version of the table.
    if table.old.is_some() && now.since(state.slots.read_at) > OLD_IS_KNOWN {
        return read(state, now, effects);
    }
    let has_others = table.others(&own).next().is_some() || !table.unreadable.is_empty();
    if has_others && state.nodes_asked <= state.slots.known_at {
        state.api.next = state.api.next.min(now);
        return None;
    }
    match group(state, table, policy).room_for(&own, now) {
        Room::Free(passed_over) => {
            state.slots.taken_by.clear();
            let entry = table.next_entry(&own, &state.boot_id, passed_over);
            send(state, table, Wanted::Take, Some(entry), now, effects)
        }
        Room::Taken(by) => {
            state.slots.taken_by = by;
            state.slots.table = None;
            state.slots.next = now + AGAIN;
            Some(state.slots.next)
        }
    }
}

/// Writes our place in the table. Comes back with the answer.
fn send(
    state: &mut State,
    table: &SlotTable,
    wanted: Wanted,
    entry: Option<Holder>,
    now: Moment,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let node = state.own.as_ref()?.name.clone();
    let serial = state.next_serial();
    state.slots.in_flight = Some(Call { serial, writes: Some(wanted), sent_at: now });
    effects.push(Effect::WriteSlots { serial, based_on: table.version.clone(), node, entry });
    None
}

/// Our entry is gone or passed over although we need it: somebody released it, or took it for forgotten. No pod leaves
/// any more, and we queue again; the node is uncordoned while others have the slots.
fn lost(state: &mut State, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    crate::attempting::drive(state, drain::Event::Cancel, now, policy, effects);
    state.requests.forget_answers();
    begin(state, now);
}

/// Not the same for all nodes.
fn spread(state: &State) -> Duration {
    let uid = state.own.as_ref().map(|own| own.uid.as_str()).unwrap_or_default();
    drain::retry::pause(state.serial, Some(AFTER_OTHERS), uid)
}
