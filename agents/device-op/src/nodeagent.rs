//! The progress of nodeagent as it concerns an operation.

use runtime::agent_state::NodeAgentView;
use schemas::{DeviceAction, DeviceActionState, Operation};

use crate::record::Accepted;

/// nodeagent's progress with the operation handed over.
pub(crate) enum Progress {
    /// nodeagent is idle, has only taken the command, or is busy with another operation.
    Other,
    /// nodeagent's file cannot be read.
    Unknown,
    Acting,
    Done,
    Failed(String),
}

pub(crate) fn progress(nodeagent: &NodeAgentView, current: Accepted) -> Progress {
    let Some(action) = &nodeagent.action else {
        return Progress::Unknown;
    };
    let last_shutdown = (action.shutdown_done, action.shutdown_source);
    if current.operation == Operation::Shutdown && last_shutdown == (Some(current.counter), current.source) {
        return Progress::Done;
    }
    if !is_about(action, current) {
        return Progress::Other;
    }
    match action.state {
        DeviceActionState::Idle | DeviceActionState::Taken => Progress::Other,
        DeviceActionState::Acting => Progress::Acting,
        DeviceActionState::Done => Progress::Done,
        DeviceActionState::Failed => Progress::Failed(action.error.clone()),
    }
}

/// True if nodeagent cannot carry out the command any more. Valid only if the command was cleared before this
/// snapshot.
pub(crate) fn has_released(nodeagent: &NodeAgentView) -> bool {
    nodeagent.action.as_ref().is_some_and(|action| match action.state {
        DeviceActionState::Idle => true,
        // nodeagent does not run. When it starts, it begins from Idle and finds the command cleared.
        DeviceActionState::Taken | DeviceActionState::Done | DeviceActionState::Failed => {
            !nodeagent.is_running
        }
        // The device goes down, for this command or another one: the command and its request stay until then.
        DeviceActionState::Acting => false,
    })
}

/// True if nodeagent has passed the point of no return with the operation handed over.
pub(crate) fn is_acting(nodeagent: &NodeAgentView, current: Accepted) -> bool {
    matches!(progress(nodeagent, current), Progress::Acting)
}

/// True if nodeagent's action is about this command.
pub(crate) fn is_about(action: &DeviceAction, current: Accepted) -> bool {
    let is_image = !action.content_tree_uuid.is_empty();
    !is_image
        && (action.command, action.counter, action.source)
            == (Some(current.operation), current.counter, current.source)
}
