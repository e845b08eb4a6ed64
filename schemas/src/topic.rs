//! The trait of all topics, and the names of the agents that publish them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that is published: one JSON object per item. [`Topic::NAME`] is its name on disk and on sockets.
///
/// Equality is equality of meaning: two values that a reader must treat alike are equal. A topic must not use
/// `#[serde(flatten)]` nor untagged enums: [`crate::parse`] matches field names in any letter case by the type's field
/// list, which those two hide.
pub trait Topic: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Name of the topic's folder and socket; EVE's type name (`NodeDrainStatus`).
    const NAME: &'static str;

    /// The longest item that is read or written, in bytes; a longer file is refused by name.
    const MAX_BYTES: usize = crate::parse::MAX_BYTES;
}
