//! All decisions about draining one node.
//!
//! Pure: no I/O, no clock, no logging, no Kubernetes client. Three things are decided here:
//!
//! - [`plan()`]: which pods leave the node, which stay, which forbid the drain, and why;
//! - [`step()`]: the next actions of a drain attempt, as ordered [`Effect`]s;
//! - [`cordon`]: who owns the node's cordon, and so who may lift it.
//!
//! `step` drives one [`state::Attempt`], which coordinates small machines. Each owns its own state, and none knows
//! another:
//!
//! | module | content |
//! |---|---|
//! | [`view`], [`storage`], [`findings`] | the known state of the cluster |
//! | [`policy`], [`rule`] | settings of the operator |
//! | `event` | input and output of the state machine |
//! | `pod` | the stages of one pod, and the changes between them |
//! | `pods` | all pods that have to leave: who has left, who comes back, when refusals become a deletion |
//! | [`volumes`] | volumes of the pods, and when each is detached |
//! | `turns` | order of the pods with attached volumes |
//! | `relist` | fresh lists: requested one at a time, merged in order with the watches |
//! | `attempt` | the coordinator: applies events, sends evictions, sets the next wake-up, decides the end |
//! | [`mod@plan`], `budget`, [`retry`], [`outage`] | rules without a state: verdicts, budgets, back-off, when a server
//! counts as away |
//! | [`diagnosis`], [`progress`], [`stuck_pods`], [`pod_fates`], [`kubectl`] | texts and numbers for people: why pods
//! stay, and what happened to them; no decision depends on them |
//!
//! `cluster` makes the views from Kubernetes objects and carries the effects out; `session` drives [`step()`] on a
//! device. Time is an argument ([`Moment`]).

pub mod answer;
pub mod cordon;
pub mod diagnosis;
pub mod findings;
pub mod kubectl;
pub mod outage;
pub mod plan;
pub mod pod_fates;
pub mod policy;
pub mod progress;
pub mod retry;
pub mod rule;
pub mod storage;
pub mod stuck_pods;
pub mod time;
pub mod view;
pub mod volumes;

mod attempt;
mod budget;
mod event;
mod outcome;
mod pod;
mod pods;
mod relist;
mod step;
mod turns;

/// State of a drain, and its parts.
pub mod state {
    pub use crate::attempt::Attempt;
    pub use crate::outcome::{Failure, Outcome};
    pub use crate::pod::{Cause, DeletionMethod, Stage, Track};
    pub use crate::step::{FinalCheck, State};
}

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use event::{Effect, Event, Record};
pub use findings::{Findings, Inquiry};
pub use outcome::{Failure, Outcome};
pub use plan::{Planned, Reason, Verdict, plan};
pub use policy::Policy;
pub use selector::{Requirement, Selector};
pub use step::{State, step};
pub use time::Moment;
pub use view::{BudgetView, PodId, PodView, Snapshot};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
