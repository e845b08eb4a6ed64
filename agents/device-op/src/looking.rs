//! Reading what the controller commands.

use pubsub::{Persistence, Root, Subscription, TopicKey, read_item};
use schemas::{DeviceOpsCmd, Operation, agent};

use crate::facts::Commanded;

/// So much is kept of the time that a controller gives with its command; nobody decides by it.
const MOST_TIME: usize = 64;

/// The controller's command, from its file: a subscription cannot tell an absent item from one that is just being
/// written.
pub(crate) fn command(root: &Root, operation: Operation) -> Commanded {
    let Ok(key) = TopicKey::parse(operation.name()) else {
        return Commanded::Unreadable;
    };
    match read_item::<DeviceOpsCmd>(root, agent::CONTROLLER, Persistence::Volatile, &key) {
        Ok(Some(command)) => {
            let ops_time = runtime::plain_text::one_line(&command.ops_time, MOST_TIME);
            Commanded::Given(DeviceOpsCmd { ops_time, ..command })
        }
        Ok(None) => Commanded::Absent,
        Err(refusal) => {
            tracing::debug!("{refusal}");
            Commanded::Unreadable
        }
    }
}

/// Commands for operations that there are not.
pub(crate) fn misnamed(commands: &Subscription<DeviceOpsCmd>) -> impl Iterator<Item = String> {
    let unknown = commands.items().keys().filter(|key| Operation::from_name(key.as_str()).is_none());
    unknown.map(|key| {
        let accepted = Operation::ALL.map(Operation::name).join(", ");
        format!(
            "refused DeviceOpsCmd `{}`: no such operation; accepted: {accepted}",
            key.as_str().escape_debug()
        )
    })
}
