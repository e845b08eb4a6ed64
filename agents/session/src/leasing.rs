//! Our entry in the Lease of the slots: read, taken, confirmed after each cordon, renewed, given back.
//!
//! Level-triggered like everything else: what is wanted follows from the phase, one call is in flight at a time, and
//! a write is always based on the version that was read. Whatever goes wrong, the Lease is read again.

use std::time::Duration;

use drain::time::Moment;

use crate::effect::Effect;
use crate::event::Trouble;
use crate::policy::Policy;
use crate::returning;
use crate::slots::{Group, Holder, Lease, Others, Room, Watched};
use crate::state::{OWNER, Outcome, Phase, State};
use crate::step::begin;
use crate::waiting::Stage;

/// A holder counts its Renewal up so often.
const RENEW: Duration = Duration::from_mins(1);

/// Between two looks at a Lease that has no room, and after a call that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// After somebody else was faster, and after the Lease was seen to change; spread, so that not all who wait come
/// back at once.
const AFTER_OTHERS: Duration = Duration::from_millis(200);

/// What is known of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leasing {
    /// The Lease as last read or written; `None` when that is not known (any more).
    pub lease: Option<Lease>,
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
    /// A list of nodes asked for after this serial is fresher than the Lease.
    known_at: u32,
    /// Somebody has changed the Lease since it was asked for.
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
}

/// What the phase wants of the Lease.
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

/// Why a call for the Lease brought nothing.
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

/// Our entry.
pub(crate) fn entry(state: &State) -> Option<&Holder> {
    let own = state.own.as_ref()?;
    state.slots.lease.as_ref()?.of(&own.uid)
}

/// We wait for a slot and others have them all: the shell watches the Lease.
pub fn is_waiting(state: &State) -> bool {
    let waits = matches!(&state.phase, Phase::Waiting(waiting) if waiting.stage == Stage::Slot);
    waits && !state.slots.taken_by.is_empty()
}

/// The shell watches the Lease: we wait for a slot, or have to know who has one in case the API server goes away.
/// Costs a call when it begins, and one for each change of the Lease (a holder changes it once a minute).
pub fn wants_watch(state: &State) -> bool {
    match &state.phase {
        Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => is_waiting(state) || state.slots.known_at > 0,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            false
        }
    }
}

/// Somebody has changed the Lease.
pub(crate) fn changed(state: &mut State, now: Moment) {
    if !is_waiting(state) {
        state.slots.is_outdated = true;
        state.slots.next = state.slots.next.max(now + spread(state));
    } else if state.slots.in_flight.is_none() {
        state.slots.lease = None;
        state.slots.next = now + spread(state);
    }
}

/// Takes in what was just seen of other nodes, in a list of them or in the Lease: has one of them a slot?
///
/// One that carries our mark or is not Ready may be down for a drain, whatever the Lease says. A list in which all are in
/// service does not say that nobody has a slot: who has just taken one is in service still.
pub(crate) fn see_others(state: &mut State, now: Moment, policy: &Policy) {
    let Some(own) = &state.own else { return };
    let in_lease =
        state.slots.lease.as_ref().map(|lease| lease.holders.iter().any(|holder| holder.node_uid != own.uid));
    let is_listed = state.nodes.iter().any(|node| node.uid == own.uid);
    let mut others = state.nodes.iter().filter(|node| node.uid != own.uid);
    let is_alone = is_listed && others.clone().next().is_none();
    let may_be_down = others.any(|node| {
        let is_marked = node.cordoned_by.as_deref() == Some(OWNER);
        is_marked || state.slots.watched.is_down(&node.uid, now, policy.down_max)
    });
    state.slots.others = match in_lease {
        Some(true) => Others::Hold,
        _ if may_be_down => Others::Hold,
        Some(false) => Others::Nobody,
        None if is_alone => Others::Nobody,
        None => state.slots.others,
    };
}

/// Takes the answer to a call in.
pub(crate) fn answered(
    state: &mut State,
    serial: u32,
    result: &Result<Lease, SlotTrouble>,
    now: Moment,
    policy: &Policy,
) {
    let Some(call) = state.slots.in_flight.filter(|call| call.serial == serial) else { return };
    state.slots.in_flight = None;
    match result {
        Ok(lease) => {
            known(state, call, lease, now);
            see_others(state, now, policy);
        }
        Err(trouble) => {
            state.slots.lease = None;
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

fn known(state: &mut State, call: Call, lease: &Lease, now: Moment) {
    state.slots.watched.see_lease(lease, &state.nodes, now);
    // Who has to renew still does after a read. Idle or Failed nobody renews: the next read is due a minute from now.
    let renews = state.requests.hold_the_node() && !matches!(state.phase, Phase::Idle | Phase::Failed(_));
    let is_renewed = call.writes.is_some() || !renews;
    let slots = &mut state.slots;
    slots.known_at = state.serial;
    slots.error.clear();
    slots.next = now;
    slots.renew_at = if is_renewed { now + RENEW } else { slots.renew_at };
    slots.lease = Some(lease.clone());
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
    let Some(lease) = state.slots.lease.clone() else {
        return read(state, effects);
    };
    match wanted {
        Wanted::Knowledge => read(state, effects),
        Wanted::Take => take(state, &lease, now, policy, effects),
        Wanted::GiveBack => write(state, &lease, wanted, None, effects),
        Wanted::Confirm | Wanted::Renew => {
            let entry = entry(state).cloned();
            if entry.is_some() {
                return write(state, &lease, wanted, entry, effects);
            }
            lost(state, now, policy, effects);
            Some(now)
        }
    }
}

fn wanted(state: &State, now: Moment, policy: &Policy) -> Option<Wanted> {
    let held = is_held(state);
    let known = state.slots.lease.is_some();
    if returning::wants_slot_back(state, policy) {
        return Some(Wanted::GiveBack);
    }
    if policy.slots_limit == 0 {
        return None;
    }
    match &state.phase {
        Phase::Waiting(waiting) if waiting.stage == Stage::GivingBack && (held || !known) => {
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

/// The Lease was not read since it was changed.
fn is_unknown(state: &State) -> bool {
    state.slots.lease.is_none() || state.slots.is_outdated
}

/// In these phases we have a slot, whether or not the Lease could be read lately.
fn has_slot_by_now(state: &State) -> bool {
    match &state.phase {
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
        Phase::Complete { outcome, .. } => *outcome == Outcome::Drained,
        Phase::Waiting(waiting) => matches!(waiting.stage, Stage::HealthHeld | Stage::Peers),
        Phase::Idle | Phase::Failed(_) => false,
    }
}

fn read(state: &mut State, effects: &mut Vec<Effect>) -> Option<Moment> {
    let serial = state.next_serial();
    state.slots.in_flight = Some(Call { serial, writes: None });
    state.slots.is_outdated = false;
    effects.push(Effect::ReadSlots { serial });
    None
}

/// Takes a slot if there is room. With other holders, the nodes have to be listed after the Lease was read: who
/// joined and took a slot in between must not look as if it were gone.
fn take(
    state: &mut State,
    lease: &Lease,
    now: Moment,
    policy: &Policy,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let own = state.own.as_ref()?;
    let has_others = lease.holders.iter().any(|holder| holder.node_uid != own.uid);
    if has_others && state.nodes_asked <= state.slots.known_at {
        state.api.next = state.api.next.min(now);
        return None;
    }
    let entry = Holder {
        node: own.name.clone(),
        node_uid: own.uid.clone(),
        boot_id: state.boot_id.clone(),
        renewal: 1,
    };
    let group = Group {
        lease,
        nodes: &state.nodes,
        watched: &state.slots.watched,
        limit: policy.slots_limit,
        down_max: policy.down_max,
    };
    match group.room_for(&entry, now) {
        Room::Free(holders) => {
            state.slots.taken_by.clear();
            send(state, lease, Wanted::Take, holders, effects);
            None
        }
        Room::Taken(by) => {
            state.slots.taken_by = by;
            state.slots.lease = None;
            state.slots.next = now + AGAIN;
            Some(state.slots.next)
        }
    }
}

fn write(
    state: &mut State,
    lease: &Lease,
    wanted: Wanted,
    entry: Option<Holder>,
    effects: &mut Vec<Effect>,
) -> Option<Moment> {
    let uid = state.own.as_ref()?.uid.clone();
    let boot_id = state.boot_id.clone();
    let entry = entry.map(|entry| Holder { renewal: entry.renewal.saturating_add(1), boot_id, ..entry });
    send(state, lease, wanted, lease.with(&uid, entry), effects);
    None
}

fn send(state: &mut State, lease: &Lease, wanted: Wanted, holders: Vec<Holder>, effects: &mut Vec<Effect>) {
    let serial = state.next_serial();
    state.slots.in_flight = Some(Call { serial, writes: Some(wanted) });
    effects.push(Effect::WriteSlots { serial, based_on: lease.version.clone(), holders });
}

/// Our entry is gone although we need it: somebody released it, or took us for forgotten. No pod leaves any more, and
/// we queue again; the node is uncordoned while others have the slots.
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
