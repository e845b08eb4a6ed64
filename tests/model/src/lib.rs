//! The agents together, as a model: every short run of them is searched for one that breaks a promise.
//!
//! `cargo test -p model` searches all runs in which one thing goes wrong, and some with two. The long search is
//! `cargo run -p model --release -- --depth 2` (`--walks N` for random walks, `--scenario NAME`).
//!
//! # What is real
//!
//! `session::step` (and `drain::step` in it), `device_op::operation::step`, `baseos::activation::step`,
//! `nodeagent::progress::step` with `nodeagent::standing`, `schemas::gate` with its `Absence`, `session::record` and
//! `resume`, the rules of cordons (`drain::cordon`). Nothing of them is copied.
//!
//! # What is modelled
//!
//! The files are the medium: a world ([`world::World`]) is what they contain, what the cluster has, what each agent has in
//! memory, the effects it has still to do, and the calls that are under way. One effect is done at a time, so that an agent
//! can die, and another one look, between any two. A look takes time too: siblings' locks and files are read one
//! after the other, in the order in which the shells read them. A call is served at one moment and answered at a later one.
//!
//! The shells (`zedkube::service`, `runtime::Requester`, the `Desk`s) read real files and clocks, so what they do is told
//! again here, as shortly as it goes: `zedkube`, `device_op`, `baseos`, `nodeagent`, `requester`. **Whoever changes a shell's
//! order of reads or writes has to change it here.**
//!
//! # What is left out
//!
//! Volumes, budgets (a refusal of the server stands for them), health, EVE's own agents, membership that changes, dry runs,
//! refused input, disks that stay full (one write fails, the next one works), node deletion. There are two nodes, one
//! or two pods, one image; limits are seconds, and time jumps to the next moment at which somebody wants to be woken.
//!
//! # The search
//!
//! A prompt and lucky machine is deterministic: each party works until it has nothing to do, then the next one, and time
//! goes on when nobody has anything to do. Whatever else happens is a *deviation* ([`action::Deviation`]): somebody else
//! goes first, a crash, a lost answer, an outage, a pod that comes back, an order. All runs with at most so many deviations
//! are searched, from the command to the last rest (delay-bounded search, Emmi, Qadeer and Rakamaric 2011), by
//! stateright's breadth-first search. After each deviation the run is also followed to its rest without any more of them: so
//! "in the end" is checked from every state that was reached. Worlds that differ only in age are one ([`canonical`]).
//!
//! # The promises
//!
//! [`rule::Rule`] has them in words. Two of them have a window that nobody can close: nodeagent reads the command, and then
//! writes Acting; what is taken back in between comes too late. So an answer must have stood when the gate was asked last
//! before nodeagent *began* its last look, and pods count that came back at an earlier moment, with nobody delayed since.
//! And while zedkube is dead its answer stands and nobody sees pods.
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
