//! Reading what the facts are made of.

use std::path::Path;

use pubsub::{MAX_FILE_BYTES, Owner, Persistence, Root, TopicKey, lock_holder, read_checked, read_item};
use runtime::error_chain;
use schemas::{DeviceOpsCmd, Operation, agent, parse};

use crate::facts::{Commanded, NodeAgentView, Recorded};

/// The controller's command, from its file: a subscription cannot tell an absent item from one that is just being
/// written.
pub(crate) fn command(root: &Root, operation: Operation) -> Commanded {
    let Ok(key) = TopicKey::parse(operation.name()) else {
        return Commanded::Unreadable;
    };
    match read_item(root, agent::CONTROLLER, Persistence::Volatile, &key) {
        Ok(Some(command)) => Commanded::Given(command),
        Ok(None) => Commanded::Absent,
        Err(refusal) => {
            tracing::debug!("{refusal}");
            Commanded::Unreadable
        }
    }
}

/// Folder of the counter files.
pub(crate) const COUNTER_FOLDER: &str = "/persist/status";

/// The recorded counter, EVE's file.
pub(crate) fn counter(root: &Root, operation: Operation) -> Recorded {
    let path = root.join(Path::new(COUNTER_FOLDER).join(operation.counter_file()));
    match read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf) {
        Ok(None) => Recorded::Nothing,
        Ok(Some(bytes)) => match parse::<DeviceOpsCmd>(&bytes) {
            Ok(command) => Recorded::Counter(command.counter),
            Err(error) => {
                tracing::warn!("{path:?} holds no counter, the next {operation} is only recorded: {error}");
                Recorded::Nothing
            }
        },
        Err(refusal) => {
            tracing::debug!("{refusal}");
            Recorded::Unreadable
        }
    }
}

/// nodeagent: its lock first, then its file. What cannot be read counts as running, or as unknown.
pub(crate) fn nodeagent(root: &Root) -> NodeAgentView {
    let is_running = match lock_holder(root, agent::NODEAGENT) {
        Ok(holder) => holder.is_some(),
        Err(error) => {
            tracing::debug!("{}", error_chain(&error));
            true
        }
    };
    let action = read_item(root, agent::NODEAGENT, Persistence::Volatile, &TopicKey::global());
    if let Err(refusal) = &action {
        tracing::debug!("{refusal}");
    }
    NodeAgentView { is_running, action: action.ok().map(Option::unwrap_or_default) }
}
