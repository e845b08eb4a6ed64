//! Makes DeviceAction and NodeAgentStatus from the state.

use runtime::clock::Moment;
use schemas::{DeviceAction, DeviceActionState, NodeAgentStatus, Operation, SCHEMA_VERSION, Source, agent};

use crate::state::{Phase, State};

/// Updates DeviceAction and NodeAgentStatus.
pub(crate) fn show(next: &mut State, now: Moment) {
    let state = action_state(&next.phase);
    let command = next.command.as_ref();
    let is_acting = matches!(next.phase, Phase::Acting(_));
    let action = DeviceAction {
        schema_version: SCHEMA_VERSION,
        command: command.map(|command| command.operation),
        counter: command.map_or(0, |command| command.counter),
        content_tree_uuid: command.map_or_else(String::new, |command| command.image.clone()),
        source: command.map_or_else(Source::default, |command| command.source),
        state,
        blocked_by: next.obstacle.to_owned(),
        error: if let Phase::Failed(error) = &next.phase { error.clone() } else { String::new() },
        trial: next.action.trial.clone().filter(|_| is_acting),
        ..next.action.clone()
    };
    let is_new = !is_same(&next.action, &action) || action.since.is_zero();
    next.action = DeviceAction { since: if is_new { now.wall } else { action.since }, ..action };
    next.status = status(next);
}

/// True if both show the same command in the same state.
fn is_same(before: &DeviceAction, after: &DeviceAction) -> bool {
    (before.state, before.command, before.counter, before.source, &before.content_tree_uuid)
        == (after.state, after.command, after.counter, after.source, &after.content_tree_uuid)
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

/// NodeAgentStatus in EVE's form: the operation that is carried out. A dry run
/// carries nothing out.
fn status(next: &State) -> NodeAgentStatus {
    let operation = next.command.as_ref().map(|command| command.operation);
    let acting = match &next.phase {
        Phase::Acting(trial) if !trial.dry_run => operation,
        Phase::Acting(_) | Phase::Idle | Phase::Taken(_) | Phase::Done | Phase::Failed(_) => None,
    };
    let all_domains_halted =
        next.status.all_domains_halted && next.phase == Phase::Done && operation == Some(Operation::Shutdown);
    NodeAgentStatus {
        name: agent::NODEAGENT.to_owned(),
        device_reboot: acting == Some(Operation::Reboot),
        device_shutdown: acting == Some(Operation::Shutdown) || all_domains_halted,
        device_poweroff: acting == Some(Operation::Poweroff),
        all_domains_halted,
        hv_type_kube: true,
        ..next.status.clone()
    }
}
