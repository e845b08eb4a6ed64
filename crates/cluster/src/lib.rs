//! The only crate that talks to Kubernetes.
//!
//! `drain` decides, this crate acts. Any kube user can drain a node with it ([`Drainer`]); the agents use the parts:
//!
//! | module | content |
//! |---|---|
//! | [`kubeconfig`] | the kubeconfig: found, loaded, and its changes on disk noticed |
//! | [`mod@connect`] | a [`Cluster`]: a client without retries of its own, every call under a deadline |
//! | [`bound_token`] | a token that is bound to a Node, renewed long before it expires |
//! | [`failure`] | the meaning of a failed call, as one value ([`ApiFailure`]) |
//! | [`mod@cluster_uid`] | what tells one cluster from another |
//! | [`nodes`], [`identity`] | the Nodes, and the one that is this machine |
//! | [`informer`], [`mod@relist`] | the snapshot of one node: from watches, or freshly listed |
//! | [`mod@inquire`] | the reasons why pods do not leave, as far as they can be found out |
//! | [`mod@cordon`] | the cordon and its owner; [`Cordoned`], without which no pod is evicted |
//! | [`mod@preflight`] | everything that a drain needs, tried before a drain is requested |
//! | [`slots`] | the nodes that may be down for a drain: read, written and watched in one ConfigMap |
//! | [`node_commands`] | the commands in a Node's annotations, and the device's answer; [`commanding`] has the calls |
//! | [`node_conditions`] | the conditions of a drain on a Node: read and written |
//! | [`events`] | Events about a Node and its pods: told, and read |
//! | [`longhorn`] | Longhorn's policy about nodes that are drained |
//! | [`evict`], [`answer`] | one eviction, and the meaning of the server's answer |
//! | [`mod@trial`] | the API server's answer to each eviction now, as a dry run; and what stays attached |
//! | [`driver`] | input and output of an attempt, as events of `drain::step` |
//! | [`drainer`] | a whole drain |
//!
//! Only [`answer`] and [`failure`] look at status codes; only this crate knows HTTP.

pub mod answer;
pub mod bound_token;
pub mod clock;
pub mod cluster_uid;
pub mod commanding;
pub mod connect;
pub mod cordon;
pub mod drainer;
pub mod driver;
pub mod events;
pub mod evict;
pub mod failure;
pub mod identity;
pub mod informer;
pub mod inquire;
pub mod kubeconfig;
pub mod longhorn;
pub mod node_commands;
pub mod node_conditions;
pub mod nodes;
pub mod preflight;
pub mod relist;
pub mod slots;
pub mod trial;

mod bounds;
mod calls;
mod connections;
mod credentials;
mod daemon_pod;
mod daemon_sets;
mod discovery;
mod eviction_limits;
mod exec_plugin;
mod list;
mod node_facts;
mod object_watch;
mod objects;
mod operation;
mod orphans;
mod pace;
mod pinned;
mod probe;
mod storage;
mod store;
mod validity;
mod views;
mod watch_client;
mod watches;
mod wire;

#[cfg(test)]
mod testing;

pub use bound_token::{Renewal, TokenFile};
pub use cluster_uid::cluster_uid;
pub use connect::{Connection, connect};
pub use cordon::{CordonFailure, Cordoned, Uncordoned, adopt, cordon, uncordon, uncordon_any, would_cordon};
pub use daemon_pod::has_daemon_pod;
pub use drainer::Drainer;
pub use driver::Driver;
pub use failure::ApiFailure;
pub use informer::Informer;
pub use inquire::inquire;
pub use longhorn::{DrainPolicy, set_node_drain_policy};
pub use nodes::{
    NodeFacts, NodeWatch, get_node, get_node_facts, list_nodes, list_nodes_selected, sample_nodes,
};
pub use pace::{MOST as MOST_REQUESTS, Pace};
pub use relist::{full_snapshot, relist};
pub use slots::{
    Holder, PassedOver, SlotFailure, SlotMap, SlotWatch, Slots, Unreadable, give_back_slot, read_slots,
    release_slots, take_slots_away, write_slots,
};
pub use trial::{Trial, trial};
pub use trust::Trust;
pub use wire::Cluster;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
