//! The progress of nodeagent as it concerns an image.

use runtime::agent_state::NodeAgentView;
use schemas::{DeviceAction, DeviceActionState};

/// True if nodeagent has taken a command, or may have.
pub(crate) fn is_busy(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state().is_none_or(|state| match state {
        DeviceActionState::Taken | DeviceActionState::Acting => true,
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
    })
}

/// True if nodeagent is Acting: the device is going down.
pub(crate) fn is_acting(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state() == Some(DeviceActionState::Acting)
}

/// The reason why nodeagent will not reboot into this image in this boot, however often it is commanded: the node
/// would be drained in vain. None if there is no such reason.
pub(crate) fn reboot_obstacle(nodeagent: &NodeAgentView, uuid: &str) -> Option<&'static str> {
    if nodeagent.has_no_means() {
        return Some("nodeagent has no means to reboot this device; set device.command");
    }
    let action = nodeagent.action.as_ref()?;
    let is_about = action.acted.as_ref().is_some_and(|acted| acted.content_tree_uuid == uuid);
    (is_about && DeviceAction::MOST_TRIES <= action.tries && !is_acting(nodeagent))
        .then_some("nodeagent has begun the reboot into this image 3 times in this boot, and the device is still up; reboot it by hand")
}

/// The reason why nodeagent failed to reboot into this image.
pub(crate) fn reboot_failure<'a>(nodeagent: &'a NodeAgentView, uuid: &str) -> Option<&'a str> {
    let action = nodeagent.action.as_ref()?;
    let is_about = action.content_tree_uuid == uuid && action.state == DeviceActionState::Failed;
    is_about.then_some(action.error.as_str())
}

/// True if nodeagent can no longer reboot into the image. Valid only for a snapshot that was read after BaseOsHold
/// was cleared.
pub(crate) fn has_released(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state().is_some_and(|state| match state {
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => true,
        // nodeagent does not run. When it starts, it begins from Idle and finds BaseOsHold cleared.
        DeviceActionState::Taken => !nodeagent.is_running,
        DeviceActionState::Acting => false,
    })
}
