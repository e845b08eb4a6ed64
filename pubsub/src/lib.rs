//! How it is said: EVE's files and sockets, durable and level-triggered.
//!
//! Agents talk through one JSON file per item, `ROOT/run/<agent>/<Topic>/<key>.json`. A [`Publisher`] writes such
//! files durably, a [`Subscription`] yields the difference between what its folder held and holds. Nothing here
//! knows a concrete topic.

mod backoff;
mod collection;
mod dialled;
mod directory;
pub mod failure_point;
mod feed;
pub mod frame;
mod key;
mod lock;
pub mod memory;
mod mirror;
mod place;
mod publisher;
mod read;
mod seqpacket;
mod server;
pub mod store;
mod subscriber;
mod watch;

pub use collection::{Change, Collection};
pub use directory::{Items, read_item, read_items, read_items_of};
pub use key::{KeyError, TopicKey};
pub use lock::{AgentLock, Holder, LockError, lock_holder};
pub use place::{NameError, Persistence, Root, TopicPlace};
pub use publisher::{PublishError, Published, Publisher};
pub use read::{MAX_FILE_BYTES, Owner, Refusal, read_checked};
pub use server::AlreadyServed;
pub use store::{Backup, StoreError};
pub use subscriber::{Subscription, Via};
pub use watch::PathWatch;
