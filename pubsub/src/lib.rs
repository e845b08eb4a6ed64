//! EVE's pubsub by files and sockets: durable and level-triggered.
//!
//! Agents talk through one JSON file per item, `ROOT/run/<agent>/<Topic>/<key>.json`. A [`Publisher`] writes such files
//! durably and serves them on EVE's socket. A [`Subscription`] yields the differences between the values that the
//! reader knows and the present ones, by file or by socket. Nothing here knows a concrete topic. [`protocol`] has every
//! rule.

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}

mod collection;
mod dialled;
mod directory;
mod either;
pub mod failure_point;
pub mod file_lock;
pub mod frame;
mod key;
mod lock;
pub mod memory;
mod mirror;
mod moments;
mod place;
pub mod presence;
mod publisher;
mod read;
mod send_queue;
mod seqpacket;
mod server;
pub mod store;
mod subscriber;
mod watch;

pub use collection::{Change, Collection};
pub use directory::{Items, read_item, read_items, read_items_of};
pub use key::{KeyError, TopicKey};
pub use lock::{AgentLock, Holder, Kept, LockError, lock_holder};
pub use moments::{begin_common_moments, common_moment};
pub use place::{NameError, Persistence, Root, TopicPlace};
pub use presence::{Presence, presence};
pub use publisher::{PublishError, Published, Publisher};
pub use read::{MAX_FILE_BYTES, Owner, Refusal, read_checked};
pub use seqpacket::{Peer, TopicSocket};
pub use server::AlreadyServed;
pub use store::{Backup, StoreError};
pub use subscriber::{Subscription, Via};
pub use watch::PathWatch;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
