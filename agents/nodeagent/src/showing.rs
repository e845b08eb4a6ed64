//! DeviceAction and NodeAgentStatus: what others see of the state.

use schemas::{DeviceAction, DeviceActionState, NodeAgentStatus, Operation, SCHEMA_VERSION, agent};

use crate::progress::{Event, Moment, Outcome, Phase, Policy, State};
use crate::standing::is_drain_in_progress;

/// Brings what is shown up to date.
pub(crate) fn show(next: &mut State, event: &Event, now: Moment, policy: Policy) {
    let state = action_state(&next.phase);
    let command = next.command.as_ref().map(|command| (command.operation, command.counter));
    let is_new = (next.action.state, next.action.command.map(|command| (command, next.action.counter)))
        != (state, command);
    let since = if is_new || next.action.since.is_zero() { now.wall } else { next.action.since };
    next.action = DeviceAction {
        schema_version: SCHEMA_VERSION,
        command: command.map(|(operation, _)| operation),
        counter: command.map_or(0, |(_, counter)| counter),
        state,
        error: if let Phase::Failed(error) = &next.phase { error.clone() } else { String::new() },
        since,
    };
    next.status = status(next, event, policy);
}

const fn action_state(phase: &Phase) -> DeviceActionState {
    match phase {
        Phase::Idle => DeviceActionState::Idle,
        Phase::Taken(_) => DeviceActionState::Taken,
        Phase::Acting(_) => DeviceActionState::Acting,
        Phase::Done => DeviceActionState::Done,
        Phase::Failed(_) => DeviceActionState::Failed,
    }
}

/// EVE's status: what is under way, and whether a drain is.
fn status(next: &State, event: &Event, policy: Policy) -> NodeAgentStatus {
    let operation = next.command.as_ref().map(|command| command.operation);
    let is_acting = matches!(next.phase, Phase::Acting(_));
    let is_shut_down = operation == Some(Operation::Shutdown) && next.phase == Phase::Done;
    let wait_drain_in_progress = match event {
        Event::Looked(facts) => is_drain_in_progress(facts.drain),
        Event::HooksEnded { .. } | Event::Acted { .. } => next.status.wait_drain_in_progress,
    };
    NodeAgentStatus {
        name: agent::NODEAGENT.to_owned(),
        device_reboot: is_acting && operation == Some(Operation::Reboot),
        device_shutdown: (is_acting && operation == Some(Operation::Shutdown)) || is_shut_down,
        device_poweroff: is_acting && operation == Some(Operation::Poweroff),
        all_domains_halted: is_shut_down && (next.status.all_domains_halted || has_halted(event, policy)),
        hv_type_kube: true,
        wait_drain_in_progress,
        ..next.status.clone()
    }
}

/// A shutdown has just ended for real: a dry run halts nothing.
fn has_halted(event: &Event, policy: Policy) -> bool {
    match event {
        Event::Acted { outcome: Outcome::Done, .. } => !policy.dry_run,
        Event::Acted { .. } | Event::Looked(_) | Event::HooksEnded { .. } => false,
    }
}
