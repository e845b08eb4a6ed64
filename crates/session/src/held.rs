//! What keeps a drain from going on, as one word for programs. The texts for people are in [`crate::words`].

use std::time::Duration;

use drain::progress;
use drain::time::Moment;
use schemas::{HeldBy, Member};

use crate::health::Purpose;
use crate::phase::{Cordoning, Phase, Stage, Waiting};
use crate::state::State;

/// A volume is detached within seconds; one that stays attached for longer is shown as what holds the drain.
const DETACHED_WITHIN: Duration = Duration::from_mins(1);

/// What keeps this drain from going on, or would keep the next one; `None` if nothing does. Pods that do not leave are
/// left out: see [`drain::diagnosis`].
pub fn held_by(state: &State, now: Moment) -> Option<HeldBy> {
    if state.nodes_error.is_elsewhere {
        return Some(HeldBy::OtherCluster);
    }
    let away = state.api.away_since.map(|_| HeldBy::ApiServer);
    match &state.phase {
        Phase::Idle => idle(state),
        Phase::Waiting(waiting) => away.or_else(|| waiting_for(state, waiting)),
        Phase::Cordoning(cordoning) => away.or_else(|| cordoning_is(state, cordoning)),
        Phase::Attempting { .. } | Phase::Pausing { .. } => {
            away.or_else(|| rights(state)).or_else(|| volumes(state, now))
        }
        Phase::Complete { .. } | Phase::Failed(_) => None,
    }
}

fn idle(state: &State) -> Option<HeldBy> {
    if state.orders.disabled.is_some() {
        return None;
    }
    if !state.is_return_due() {
        return missing(state);
    }
    let away = state.api.away_since.map(|_| HeldBy::ApiServer);
    let cordon = (!state.restoring.error.is_empty()).then_some(HeldBy::Cordon);
    let health = state.health.failure(Purpose::Return).map(|_| HeldBy::Health);
    away.or(cordon).or_else(|| slot_table(state)).or(health)
}

/// What a drain would need and cannot have now.
pub(crate) fn missing(state: &State) -> Option<HeldBy> {
    if state.member == Member::No {
        return None;
    }
    if state.facts.lacks_access() {
        return Some(HeldBy::Kubeconfig);
    }
    if state.api.away_since.is_some() {
        return Some(HeldBy::ApiServer);
    }
    let identity = || (!state.nodes_error.identity.is_empty()).then_some(HeldBy::Identity);
    rights(state).or_else(identity).or_else(|| slot_table(state))
}

fn rights(state: &State) -> Option<HeldBy> {
    (!state.nodes_error.refused.is_empty()).then_some(HeldBy::Rights)
}

fn slot_table(state: &State) -> Option<HeldBy> {
    (!state.slots.error.is_empty()).then_some(HeldBy::SlotTable)
}

fn waiting_for(state: &State, waiting: &Waiting) -> Option<HeldBy> {
    if waiting.unknown.is_some() {
        return Some(HeldBy::Identity);
    }
    if waiting.denials > 0 {
        return Some(HeldBy::Rights);
    }
    let health = |purpose| state.health.failure(purpose).map(|_| HeldBy::Health);
    let taken = || (!state.slots.taken_by.is_empty()).then_some(HeldBy::Slot);
    match waiting.stage {
        Stage::Api => None,
        Stage::Health => health(Purpose::Before),
        Stage::HealthHeld | Stage::Releasing => health(Purpose::Held),
        Stage::Slot => slot_table(state).or_else(taken),
        Stage::Peers => waiting.no_peer_since.map(|_| HeldBy::Peers),
    }
}

fn cordoning_is(state: &State, cordoning: &Cordoning) -> Option<HeldBy> {
    if cordoning.unseen {
        return rights(state);
    }
    if cordoning.cordoned {
        return slot_table(state);
    }
    (!cordoning.error.is_empty()).then_some(HeldBy::Cordon)
}

fn volumes(state: &State, now: Moment) -> Option<HeldBy> {
    let attempt = progress::attempt(&state.drain)?;
    let is_late = |line: &progress::VolumeLine| now.since(line.since) >= DETACHED_WITHIN;
    let is_held =
        progress::progress(attempt).left == 0 && progress::volume_lines(attempt).iter().any(is_late);
    is_held.then_some(HeldBy::Volumes)
}
