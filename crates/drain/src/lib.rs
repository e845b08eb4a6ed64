//! Every decision about draining one node.
//!
//! Pure: no I/O, no clock, no logging, no Kubernetes client. Three things are decided here:
//!
//! - [`plan::plan`]: which pods leave the node, which stay, which forbid the drain, and why;
//! - [`step::step`]: what to do next in one drain attempt, as ordered [`step::Effect`]s;
//! - [`cordon`]: who owns the node's cordon, and so who may lift it.
//!
//! One attempt in `step` is made of parts, each about one question:
//!
//! | module | question |
//! |---|---|
//! | [`view`], [`storage`], [`findings`] | what is known of the cluster |
//! | [`policy`], [`rule`] | what the operator allows and wants |
//! | [`state`], [`record`] | what the attempt knows of itself; what outlives its process |
//! | `tracking` | what a picture or an answer changes |
//! | `sending` | which pods are told to go now |
//! | [`turns`] | whose turn it is: orders, and pods with volumes one after another |
//! | [`volumes`] | which volumes there are, and when each is detached |
//! | [`budget`], [`retry`], [`escalation`], [`force`], [`returns`] | when a refused pod is asked again, deleted, killed, or left in peace |
//! | [`looks`] | fresh looks: asked one at a time, in order with the watches, and what speaks for a word when they fail |
//! | [`outage`] | when a server that fails counts as away |
//! | `clocks`, `ending` | when to look again; whether it is over, and how |
//! | `asking`, [`diagnosis`], [`progress`], [`trouble`], [`fates`], [`kubectl`] | why pods stay and what became of them, in words and numbers; nothing is decided by them |
//!
//! `cluster` makes the views from Kubernetes objects and carries the effects out; `session` drives [`step::step`] on a
//! device. Time is an argument ([`time::Moment`]).

pub mod answer;
pub mod budget;
pub mod cordon;
pub mod diagnosis;
pub mod escalation;
pub mod fates;
pub mod findings;
pub mod force;
pub mod kubectl;
pub mod looks;
pub mod outage;
pub mod plan;
pub mod policy;
pub mod progress;
pub mod record;
pub mod retry;
pub mod returns;
pub mod rule;
pub mod state;
pub mod step;
pub mod storage;
pub mod time;
pub mod trouble;
pub mod turns;
pub mod view;
pub mod volumes;

mod asking;
mod clocks;
mod ending;
mod sending;
mod terminating;
mod tracking;

#[cfg(test)]
mod testing;

pub use answer::Answer;
pub use findings::{Findings, Inquiry};
pub use plan::{Planned, Reason, Verdict, plan};
pub use policy::Policy;
pub use record::Record;
pub use selector::{Requirement, Selector};
pub use state::{Failure, Outcome, State};
pub use step::{Effect, Event, step};
pub use time::Moment;
pub use view::{BudgetView, Picture, PodId, PodView};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
