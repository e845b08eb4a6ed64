//! Items of topics that nobody follows: a file of another agent for which "cannot be read" is the same as "missing", and a
//! file of one's own that is written and not served.

use pubsub::store::{create_folder, write_durably};
use pubsub::{Backup, Persistence, Root, StoreError, TopicKey, read_item};
use schemas::{Topic, to_bytes};
use serde::Serialize;

/// The item in its file. A file that cannot be read counts as missing; the log has the reason at level debug.
pub fn read_or_none<T: Topic>(
    root: &Root,
    agent: &str,
    persistence: Persistence,
    key: &TopicKey,
) -> Option<T> {
    let item = read_item(root, agent, persistence, key);
    item.inspect_err(|refusal| tracing::debug!("{refusal}")).ok().flatten()
}

/// Writes the item `global` of a persistent topic durably, without a backup.
///
/// # Errors
/// The disk takes nothing.
pub fn write_persistent<T: Topic + Serialize>(root: &Root, agent: &str, value: &T) -> Result<(), StoreError> {
    let folder = root.folder::<T>(agent, Persistence::Persistent);
    create_folder(&folder)?;
    write_durably(&folder, &TopicKey::global().file_name(), &to_bytes(value), Backup::None)
}
