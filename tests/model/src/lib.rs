//! A model of all agents together. Every short run of the model is searched for one that breaks a promise.
//!
//! `cargo test -p model` searches all runs with one deviation, and some with two. The long search is `cargo run -p
//! model --profile search -- --depth 2` (`--walks N` for random walks, `--scenario NAME`).
//!
//! # What is real
//!
//! `session::step` (and `drain::step` in it), `device_op::operation::step`, `baseos::activation::step`,
//! `nodeagent::progress::step` with `nodeagent::standing`, `schemas::gate` with its `Absence`, `session::record` and
//! `resume`, the rules of cordons (`drain::cordon`). The model runs this code itself, not copies of it.
//!
//! # What is modelled
//!
//! The agents talk through files. A state of the model ([`world::World`]) contains the files, the cluster, the memory
//! of each agent, the effects that it has not performed yet, and the calls that are under way. Effects are performed
//! one at a time, so that an agent can die, and another one can poll, between any two. A poll takes time too: the locks
//! and files of the other agents are read one after the other, in the order in which the shells read them. A call is
//! carried out at one moment and answered at a later one.
//!
//!
//! The shells (`zedkube::service`, `runtime::Requester`, the `Desk`s) read real files and clocks, so their behaviour is
//! modelled here, as briefly as possible: `zedkube`, `device_op`, `baseos`, `nodeagent`, `requester`. **If you change
//! the order in which a shell reads or writes, change it here too.**
//!
//! # What is left out
//!
//! Volumes, budgets (a refusal by the server takes their place), health, EVE's own agents, changes of membership, dry
//! runs, refused input, disks that stay full (one write fails, the next one works), node deletion. There are two nodes,
//! one or two pods, one image. Limits are seconds, and time jumps to the next moment at which a party wants to wake up.
//!
//! # The search
//!
//! A machine without faults and delays is deterministic: each party works until it has nothing to do, then the next
//! one, and when no party has anything to do, time moves on. Everything else is a *deviation* ([`action::Deviation`]):
//! another party goes first, a crash, a lost answer, an outage, a pod that comes back, an order. All runs with at most
//! a given number of deviations are searched, from the command to the final rest (delay-bounded search, Emmi, Qadeer
//! and Rakamaric 2011), by stateright's breadth-first search. After each deviation the run is also continued to its
//! rest without further deviations: so "in the end" is checked from every state that was reached. States that differ
//! only in age count as one ([`canonical`]).
//!
//! # The promises
//!
//! [`rule::Rule`] lists the promises. Two of them have a time window that cannot be closed: nodeagent reads the
//! command, and then writes Acting; an answer that is revoked in between comes too late. So the answer must have been
//! valid when the gate was asked last before nodeagent *began* its last poll; and pods count only if they came back
//! before that, with no party delayed since. While zedkube is dead, its answer stays valid and no agent sees pods.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model asks about a few variants; all others go on as they are"
)]

pub mod action;
mod apply;
pub mod baseos;
pub mod canonical;
pub mod catalog;
mod deviate;
pub mod device_op;
pub mod files;
pub mod monitor;
pub mod nodeagent;
pub mod requester;
pub mod rule;
pub mod scenario;
mod schedule;
pub mod search;
pub mod server;
pub mod trace;
pub mod walk;
pub mod world;
pub mod zedkube;
