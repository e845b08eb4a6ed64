//! An in-memory Kubernetes API over HTTP: list, watch, patch, evict with budgets, faults on demand.
//!
//! [`FakeCluster::start`] gives a cluster whose API any Kubernetes client can use over plain HTTP on a loopback port.
//! Small controllers make it live: pods become Ready and end, evicted pods come back elsewhere, budgets count. The
//! answers of the eviction subresource are those that a server of version 1.34 was measured to give.
//! [`FakeCluster::faults`] makes it fail, [`FakeCluster::requests`] shows which client sent which requests.
//!
//! The fake has no server-side apply, admission webhooks, RBAC, JSON patch, validation of objects, rolling updates
//! or `deletecollection`. A fault can give the answers of the first three.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fake_cluster::{FakeCluster, Limit};
//!
//! let cluster = FakeCluster::start()?;
//! cluster.node("edge-a")?;
//! cluster.deployment("web", 3, "edge-a")?;
//! cluster.budget("web", Limit::MaxUnavailable("1"))?;
//! println!("{}", cluster.server_url());
//! # Ok(())
//! # }
//! ```

mod api;
mod clock;
mod cluster;
mod controllers;
mod eviction;
mod faults;
mod history;
mod index;
mod object;
pub mod objects;
mod patch;
mod refusal;
mod removal;
mod reply;
mod requests;
mod resources;
mod selector;
mod server;
mod settings;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use cluster::{FakeCluster, TOKEN};
pub use eviction::{Evicted, bound_at};
pub use faults::{Effect, Fault, Faults};
pub use objects::{FINISH_AFTER, GONE_AFTER, Limit, PREFER_NODE, READY_AFTER};
pub use refusal::Refusal;
pub use removal::{Answered, Removal};
pub use reply::Reply;
pub use requests::{Request, Requests};
pub use settings::{Controller, Settings};
