//! Reads a file of another agent for which "cannot be read" is the same as "missing".

use pubsub::{Persistence, Root, TopicKey, read_item};
use schemas::Topic;

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
