//! Every decision about draining one node.
//!
//! Pure: no I/O, no clock, no logging, no Kubernetes client. Three things are decided here:
//!
//! - [`plan()`]: which pods leave the node, which stay, which forbid the drain, and why;
//! - [`step()`]: what to do next in one drain attempt, as ordered [`Effect`]s;
//! - [`cordon`]: who owns the node's cordon, and so who may lift it.
//!
//! `step` drives one [`state::Attempt`], which coordinates small machines. Each owns its own state, and none knows another:
//!
//! | module | question |
//! |---|---|
//! | [`view`], [`storage`], [`findings`] | what is known of the cluster |
//! | [`policy`], [`rule`] | what the operator allows and wants |
//! | `event` | what goes into the state machine, and what it wants done |
//! | `pod` | the stages of one pod, and what moves it from one to the next |
//! | `pods` | all pods that have to leave: who has left, who comes back, when refusals become a deletion |
//! | [`volumes`] | which volumes there are, and when each is detached |
//! | `turns` | whose turn it is among the pods with attached volumes |
//! | `relist` | fresh lists: asked for one at a time, joined in order with what the watches show |
//! | `attempt` | the coordinator: what comes in, who is told to go, when to look again, whether it is over |
//! | [`mod@plan`], `budget`, [`retry`], [`outage`] | rules without a state: verdicts, budgets, back-off, when a server counts as away |
//! | [`diagnosis`], [`progress`], [`trouble`], [`pod_fates`], [`kubectl`] | why pods stay and what became of them, in words and numbers; nothing is decided by them |
//!
//! `cluster` makes the views from Kubernetes objects and carries the effects out; `session` drives [`step()`] on a device.
//! Time is an argument ([`Moment`]).

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

/// The state of a drain, and what it is made of.
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

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
