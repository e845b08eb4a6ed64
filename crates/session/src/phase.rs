//! The phases of a drain.

use drain::time::Moment;
use schemas::Outcome;
use serde::{Deserialize, Serialize};

/// The phase of the drain. Fields about calls in flight, and texts, are not in the record: a restarted zedkube finds
/// them out again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// No drain is requested.
    #[default]
    Idle,
    /// A drain is requested; a precondition of the cordon is not met yet.
    Waiting(Waiting),
    /// The node is being cordoned for an attempt.
    Cordoning(Cordoning),
    /// Pods are being evicted.
    #[serde(rename_all = "PascalCase")]
    Attempting {
        /// Number of the attempt; 1 for the first.
        attempt: u32,
        /// When the attempt began, its cordon included.
        started: Moment,
    },
    /// Back-off between two attempts.
    #[serde(rename_all = "PascalCase")]
    Pausing {
        /// Number of the attempt that failed.
        failed: u32,
        /// When the next attempt begins.
        until: Moment,
    },
    /// The node may go down.
    #[serde(rename_all = "PascalCase")]
    Complete {
        /// Why: an outcome for which [`Outcome::may_go_down`] is true.
        outcome: Outcome,
        /// A fresh list is on its way, because an event contradicts COMPLETE or there is a new request.
        #[serde(skip)]
        recheck: Option<Recheck>,
    },
    /// The drain has failed; the value says in which part.
    Failed(Failed),
}

impl Phase {
    /// The name of the phase in the report.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Waiting(_) => "Waiting",
            Self::Cordoning(_) => "Cordoning",
            Self::Attempting { .. } => "Attempting",
            Self::Pausing { .. } => "Pausing",
            Self::Complete { .. } => "Complete",
            Self::Failed(_) => "Failed",
        }
    }

    /// How the drain ended; `None` in the phases in which it goes on.
    pub(crate) fn ended(&self) -> Option<Outcome> {
        match self {
            Self::Complete { outcome, .. } => Some(*outcome),
            Self::Failed(Failed::Cordon(_)) => Some(Outcome::CordonFailed),
            Self::Failed(Failed::Drain(_)) => Some(Outcome::DrainFailed),
            Self::Idle
            | Self::Waiting(_)
            | Self::Cordoning(_)
            | Self::Attempting { .. }
            | Self::Pausing { .. } => None,
        }
    }

    /// The number of the attempt that runs, is cordoned for, or failed last; 0 in phases without an attempt.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Cordoning(cordoning) => cordoning.attempt,
            Self::Attempting { attempt, .. } => *attempt,
            Self::Pausing { failed, .. } => *failed,
            Self::Idle | Self::Waiting(_) | Self::Complete { .. } | Self::Failed(_) => 0,
        }
    }

    /// The precondition that is being waited for; `None` in other phases.
    pub(crate) fn stage(&self) -> Option<Stage> {
        if let Self::Waiting(waiting) = self { Some(waiting.stage) } else { None }
    }

    /// The phase was caused by an operator's order.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Complete { outcome: Outcome::Forced, .. })
    }

    /// Whether a valid record can contain this phase: attempts count from 1, and only some outcomes let a node go down.
    pub(crate) fn makes_sense(&self) -> bool {
        match self {
            Self::Cordoning(Cordoning { attempt, .. })
            | Self::Attempting { attempt, .. }
            | Self::Pausing { failed: attempt, .. } => *attempt > 0,
            Self::Complete { outcome, .. } => outcome.may_go_down(),
            Self::Idle | Self::Waiting(_) | Self::Failed(_) => true,
        }
    }
}

/// Progress before the cordon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Waiting {
    /// When the wait began.
    pub since: Moment,
    /// The precondition that is not met yet.
    #[serde(skip)]
    pub stage: Stage,
    /// Only lists that were asked for after this serial count.
    #[serde(skip)]
    pub after: u32,
    /// Such a list has come, and one of its nodes is this machine.
    #[serde(skip)]
    pub looked: bool,
    /// Why the last list was refused; empty if it was not.
    #[serde(skip)]
    pub denied: String,
    /// How many times in a row the API server has refused to list the nodes.
    #[serde(skip)]
    pub denials: u32,
    /// Set while none of the nodes is this machine: since when, and why.
    #[serde(skip)]
    pub unknown: Option<(Moment, String)>,
    /// Since when this node waits for a slot.
    #[serde(skip)]
    pub slot_since: Option<Moment>,
    /// Since when, without a break, no other node can take pods.
    #[serde(skip)]
    pub no_peer_since: Option<Moment>,
    /// When the node counts as complete without a drain, if nothing changes until then.
    #[serde(skip)]
    pub undrained_at: Option<Moment>,
    /// The API server is away, and the wait is longer because another node may be down for a drain.
    #[serde(skip)]
    pub is_patient: bool,
    /// The API server is away, and so many turns of other nodes come before this one.
    #[serde(skip)]
    pub turns_before: u32,
}

/// The preconditions of the cordon, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The API server has to answer, and one of its nodes has to be this machine.
    #[default]
    Api,
    /// `health.command` has to pass, before a slot is taken.
    Health,
    /// This node has to get a slot.
    Slot,
    /// `health.command` has to pass again, with the slot held.
    HealthHeld,
    /// `health.command` did not pass again: the slot is released.
    Releasing,
    /// Another node has to be able to take the pods.
    Peers,
}

/// Progress of the cordon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Cordoning {
    /// The attempt that the cordon is for.
    pub attempt: u32,
    /// When that attempt began.
    pub started: Moment,
    /// When the first try to cordon was made.
    pub began: Moment,
    /// Number of refused tries. A try that the API server did not answer is not counted.
    pub failures: u32,
    /// The serial of the try that is in flight.
    #[serde(skip)]
    pub in_flight: Option<u32>,
    /// When the next try is made, if none is in flight.
    #[serde(skip)]
    pub next: Moment,
    /// Why the last try failed.
    #[serde(skip)]
    pub error: String,
    /// The node is cordoned; now our slot has to be confirmed before a pod is evicted.
    #[serde(skip)]
    pub cordoned: bool,
    /// The attempt began in an earlier zedkube process and goes on.
    pub resumes: bool,
    /// The node was not read since this process began, so a person may have lifted the cordon.
    #[serde(skip)]
    pub unseen: bool,
}

impl Cordoning {
    /// True before CORDONED was ever published in this drain.
    pub(crate) fn is_first(&self) -> bool {
        self.attempt == 1 && !self.resumes
    }
}

/// A verification about a node that is COMPLETE, in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recheck {
    /// The serial of the verification.
    pub serial: u32,
    /// A newer event arrived after the verification was sent, so its result may be stale: it counts only if it
    /// contradicts COMPLETE; otherwise another verification follows.
    pub is_overtaken: bool,
    /// No event has caused it, so a list that fails takes nothing back.
    pub is_routine: bool,
}

/// Why the drain failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failed {
    /// Before the cordon, or at the cordon.
    Cordon(String),
    /// After the cordon.
    Drain(String),
}
