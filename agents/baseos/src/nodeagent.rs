//! What nodeagent's progress means to an image.

use runtime::siblings::NodeAgentView;
use schemas::{DeviceAction, DeviceActionState};

/// It has taken a command, or may have.
pub(crate) fn is_busy(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state().is_none_or(|state| match state {
        DeviceActionState::Taken | DeviceActionState::Acting => true,
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
    })
}

/// The device is going down.
pub(crate) fn is_acting(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state() == Some(DeviceActionState::Acting)
}

/// Why it will not reboot into this image in this boot, however often it is asked: the node would be drained in vain.
pub(crate) fn reboot_obstacle(nodeagent: &NodeAgentView, uuid: &str) -> Option<&'static str> {
    let action = nodeagent.action.as_ref()?;
    if action.means.as_ref().is_some_and(Vec::is_empty) {
        return Some("nodeagent has no means to reboot this device; set device.command");
    }
    let is_about = action.acted.as_ref().is_some_and(|acted| acted.content_tree_uuid == uuid);
    (is_about && DeviceAction::MOST_TRIES <= action.tries && !is_acting(nodeagent))
        .then_some("nodeagent has begun the reboot into it 3 times in this boot, and the device is still up; reboot it by hand")
}

/// Why it could not reboot into this image.
pub(crate) fn reboot_failure<'a>(nodeagent: &'a NodeAgentView, uuid: &str) -> Option<&'a str> {
    let action = nodeagent.action.as_ref()?;
    let is_about = action.content_tree_uuid == uuid && action.state == DeviceActionState::Failed;
    is_about.then_some(action.error.as_str())
}

/// Nothing that it has taken can lead to a reboot for us any more: our hold was cleared before this look.
pub(crate) fn has_let_go(nodeagent: &NodeAgentView) -> bool {
    nodeagent.state().is_some_and(|state| match state {
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => true,
        // It begins anew when it comes back, and finds the hold cleared.
        DeviceActionState::Taken => !nodeagent.is_running,
        DeviceActionState::Acting => false,
    })
}
