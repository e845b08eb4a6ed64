//! What has to be true before the cordon, in this order: the API server answers and knows this machine, the site says
//! that it is well, a slot is ours, the site says so again, and another node can take the pods.

use std::time::Duration;

use drain::time::Moment;
use drain::view::NodeView;

use crate::cordoning;
use crate::effect::Effect;
use crate::event::{Event, Look, NoNode, Trouble};
use crate::health::Purpose;
use crate::leasing;
use crate::policy::{Otherwise, Policy};
use crate::slots::Others;
use crate::state::{Failed, Outcome, Phase, State};
use crate::step::finish;

/// A node that is not in the list may still be joining the cluster: k3s registers it within a minute or two of its first
/// start, images included.
const JOINS_WITHIN: Duration = Duration::from_mins(5);

/// Before the cordon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waiting {
    /// Since when.
    pub since: Moment,
    /// How far it is.
    pub stage: Stage,
    /// Only looks that were asked for after this serial count.
    pub after: u32,
    /// Such a look has come.
    pub looked: bool,
    /// Why the last look brought nothing; empty when it did.
    pub denied: String,
    /// How often on end the API server refused to list nodes.
    pub denials: u32,
    /// None of the nodes is this machine, since then, and why.
    pub unknown: Option<(Moment, String)>,
    /// Since when we wait for a slot.
    pub slot_since: Option<Moment>,
    /// No other node can take pods, since then, without a break.
    pub no_peer_since: Option<Moment>,
    /// If nothing changes, the node counts as complete then, without a drain.
    pub undrained_at: Option<Moment>,
    /// The API server is away, and another node gets the time that a node may be down.
    pub is_patient: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The API server has to answer, and to know this machine.
    #[default]
    Api,
    /// `health.command` has to pass.
    Health,
    /// A slot has to be ours.
    Slot,
    /// `health.command` has to pass again.
    HealthHeld,
    /// It did not: the slot goes back.
    GivingBack,
    /// Another node has to be able to take the pods.
    Peers,
}

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let Phase::Waiting(mut waiting) = state.phase.clone() else { return };
    let has_failed = has_just_failed(&event);
    let next = match event {
        Event::Looked { serial, result } if serial > waiting.after => {
            looked(&mut waiting, &result, now, policy)
        }
        Event::Requests(_)
        | Event::Facts(_)
        | Event::Looked { .. }
        | Event::Probed { .. }
        | Event::Cordoned { .. }
        | Event::Uncordoned { .. }
        | Event::Adopted { .. }
        | Event::Slots { .. }
        | Event::SlotsChanged
        | Event::Health { .. }
        | Event::Override(_)
        | Event::OverrideTaken { .. }
        | Event::Picture(_)
        | Event::Unseen { .. }
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Tick => Next::Wait,
    };
    let next = if next == Next::Wait { advance(state, &mut waiting, now, policy) } else { next };
    let next =
        if next == Next::Wait { time_is_over(state, &mut waiting, has_failed, now, policy) } else { next };
    match next {
        Next::Wait => state.enter(Phase::Waiting(waiting), now),
        Next::Cordon => cordoning::begin(state, 1, now, effects),
        Next::Complete(outcome) => finish(state, outcome, now),
        Next::Fail(reason) => {
            state.session.finished = Some(now);
            state.enter(Phase::Failed(Failed::Cordon(reason)), now);
        }
    }
}

#[derive(PartialEq)]
enum Next {
    Wait,
    Cordon,
    Complete(Outcome),
    Fail(String),
}

/// What a fresh list of nodes means.
fn looked(waiting: &mut Waiting, result: &Result<Look, Trouble>, now: Moment, policy: &Policy) -> Next {
    match result {
        Ok(look) => {
            waiting.denials = 0;
            waiting.denied.clear();
            waiting.looked = look.own.is_ok();
            joined(waiting, look.own.as_ref().err(), now)
        }
        Err(trouble) => {
            waiting.no_peer_since = None;
            match trouble {
                Trouble::Unreachable(_) => Next::Wait,
                Trouble::Denied(text) | Trouble::Other(text) => {
                    waiting.denials = waiting.denials.saturating_add(1);
                    waiting.denied.clone_from(text);
                    if waiting.denials >= policy.cordon_tries { Next::Fail(text.clone()) } else { Next::Wait }
                }
            }
        }
    }
}

/// Whether one of the nodes is this machine. One that has just been installed may not be in the list yet.
fn joined(waiting: &mut Waiting, problem: Option<&NoNode>, now: Moment) -> Next {
    let Some(NoNode { why, may_join }) = problem else {
        waiting.unknown = None;
        return Next::Wait;
    };
    let since = waiting.unknown.take().map_or(now, |(since, _)| since);
    waiting.unknown = Some((since, why.clone()));
    let is_waited_for = *may_join && now.since(since) < JOINS_WITHIN;
    if is_waited_for { Next::Wait } else { Next::Fail(why.clone()) }
}

/// As far as it goes with what is known now.
fn advance(state: &mut State, waiting: &mut Waiting, now: Moment, policy: &Policy) -> Next {
    if needs_slot(waiting.stage) {
        leasing::doubt_if_old(state, now);
    }
    if state.slots.table.is_some() && needs_slot(waiting.stage) && !has_slot(state, policy) {
        enter(waiting, Stage::Slot);
    }
    loop {
        let next = match waiting.stage {
            Stage::Api if waiting.looked => Stage::Health,
            Stage::Health if state.health.is_passed(Purpose::Before, policy) => Stage::Slot,
            Stage::Slot if has_slot(state, policy) => Stage::HealthHeld,
            Stage::HealthHeld if state.health.is_passed(Purpose::Held, policy) => {
                look_again(state, waiting, now, policy);
                Stage::Peers
            }
            Stage::HealthHeld if state.health.failure(Purpose::Held).is_some() => Stage::GivingBack,
            Stage::GivingBack if state.slots.table.is_some() && !leasing::has_place(state) => Stage::Health,
            Stage::GivingBack if policy.slots_limit == 0 => Stage::Health,
            // Each list speaks for its own moment only.
            Stage::Peers if std::mem::take(&mut waiting.looked) => {
                return peers(state, waiting, now, policy);
            }
            Stage::Api
            | Stage::Health
            | Stage::Slot
            | Stage::HealthHeld
            | Stage::GivingBack
            | Stage::Peers => return Next::Wait,
        };
        enter(waiting, next);
        waiting.slot_since = (next == Stage::Slot).then_some(now);
    }
}

fn enter(waiting: &mut Waiting, stage: Stage) {
    waiting.stage = stage;
    waiting.no_peer_since = None;
}

fn needs_slot(stage: Stage) -> bool {
    match stage {
        Stage::HealthHeld | Stage::Peers => true,
        Stage::Api | Stage::Health | Stage::Slot | Stage::GivingBack => false,
    }
}

fn has_slot(state: &State, policy: &Policy) -> bool {
    policy.slots_limit == 0 || leasing::is_held(state)
}

/// The peers are looked at with the slot held: before, they may have been on their way down.
fn look_again(state: &mut State, waiting: &mut Waiting, now: Moment, policy: &Policy) {
    if policy.slots_limit > 0 || policy.has_health_command {
        (waiting.looked, waiting.after) = (false, state.serial);
        state.api.next = now;
    }
}

/// Whether another node can take the pods.
fn peers(state: &State, waiting: &mut Waiting, now: Moment, policy: &Policy) -> Next {
    let Some(own) = &state.own else { return Next::Wait };
    if waiting.denials > 0 || state.api.away_since.is_some() {
        return Next::Wait;
    }
    if has_peer(state) {
        return Next::Cordon;
    }
    let others = || state.nodes.iter().filter(|node| node.uid != own.uid && !node.tie_breaker);
    let since = *waiting.no_peer_since.get_or_insert(now);
    // A node that is not Ready may just be rebooting, cordoned for its own drain, and is waited for.
    let may_return =
        others().filter_map(|node| state.slots.watched.may_return_until(&node.uid, policy.down_max)).max();
    let until = may_return.unwrap_or(since).max(since + policy.peer_window);
    match policy.on_no_peer {
        Otherwise::Complete if until <= now => Next::Complete(Outcome::NoSchedulablePeer),
        Otherwise::Complete => {
            waiting.undrained_at = Some(until);
            Next::Wait
        }
        Otherwise::Wait => Next::Wait,
    }
}

/// Another node can take pods, as the nodes were listed last.
pub(crate) fn has_peer(state: &State) -> bool {
    let is_other = |node: &NodeView| state.own.as_ref().is_none_or(|own| own.uid != node.uid);
    state.nodes.iter().any(|node| is_other(node) && !node.tie_breaker && node.ready && !node.cordoned)
}

/// The API server has not answered just now. How long it was away says nothing of this moment: the device may have been
/// suspended, or zedkube dead.
pub(crate) fn has_just_failed(event: &Event) -> bool {
    matches!(
        event,
        Event::Looked { result: Err(Trouble::Unreachable(_)), .. }
            | Event::Probed { result: Err(Trouble::Unreachable(_)), .. }
            | Event::Cordoned { result: Err(Trouble::Unreachable(_)), .. }
    )
}

fn time_is_over(
    state: &State,
    waiting: &mut Waiting,
    has_failed: bool,
    now: Moment,
    policy: &Policy,
) -> Next {
    if let Some(at) = unreachable_at(state, waiting.since, policy) {
        if at <= now && has_failed {
            return Next::Complete(Outcome::ApiUnreachable);
        }
        waiting.undrained_at = Some(at);
        waiting.is_patient = others_get_time(state, policy);
    } else if waiting.no_peer_since.is_none() {
        waiting.undrained_at = None;
    }
    match policy.wait_limit {
        Some(limit) if now.since(waiting.since) >= limit => Next::Fail(format!(
            "gave up after {} s: {}",
            limit.as_secs(),
            crate::words::waiting_for(state, waiting)
        )),
        Some(_) | None => Next::Wait,
    }
}

/// When the node counts as complete because the API server has been away on end, counted from `since` at the
/// earliest; `None` while it is there, or when it is to be waited for.
///
/// When another node had a slot as the API server last answered, or nobody knows, it may be that node which took the
/// server down: it gets the time that a node may be down.
pub(crate) fn unreachable_at(state: &State, since: Moment, policy: &Policy) -> Option<Moment> {
    let away = state.api.away_since.filter(|_| policy.on_unreachable == Otherwise::Complete)?;
    let longer = policy.down_max.max(policy.unreachable_timeout);
    let timeout = if others_get_time(state, policy) { longer } else { policy.unreachable_timeout };
    Some(away.max(since) + timeout)
}

fn others_get_time(state: &State, policy: &Policy) -> bool {
    policy.slots_limit > 0 && state.slots.others != Others::Nobody
}
