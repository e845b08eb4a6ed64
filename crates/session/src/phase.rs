//! Where the drain is.

use drain::time::Moment;
use schemas::Outcome;
use serde::{Deserialize, Serialize};

/// Where the drain is. What is in flight, or only said, is not put on record: a restarted zedkube finds it out anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Nobody asks.
    #[default]
    Idle,
    /// Asked; something has to be true before the cordon.
    Waiting(Waiting),
    /// Cordoning the node for an attempt.
    Cordoning(Cordoning),
    /// Moving pods away.
    #[serde(rename_all = "PascalCase")]
    Attempting {
        /// 1 for the first.
        attempt: u32,
        /// When it began, the cordon included.
        started: Moment,
    },
    /// Between two attempts.
    #[serde(rename_all = "PascalCase")]
    Pausing {
        /// The attempt that failed.
        failed: u32,
        /// The next one begins then.
        until: Moment,
    },
    /// The node may go down.
    #[serde(rename_all = "PascalCase")]
    Complete {
        /// Why: one of those that [`Outcome::may_go_down`].
        outcome: Outcome,
        /// Something speaks against it, or somebody new asks: a fresh look is on its way.
        #[serde(skip)]
        recheck: Option<Recheck>,
    },
    /// It did not work; the answer says which part.
    Failed(Failed),
}

impl Phase {
    /// The phase's name in the report.
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

    /// How the drain ended, in the phases in which it has.
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

    /// The number of the attempt that runs, is cordoned for, or failed last; 0 where there is none.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Cordoning(cordoning) => cordoning.attempt,
            Self::Attempting { attempt, .. } => *attempt,
            Self::Pausing { failed, .. } => *failed,
            Self::Idle | Self::Waiting(_) | Self::Complete { .. } | Self::Failed(_) => 0,
        }
    }

    /// What is waited for before the cordon.
    pub(crate) fn stage(&self) -> Option<Stage> {
        if let Self::Waiting(waiting) = self { Some(waiting.stage) } else { None }
    }

    /// The phase is an operator's order.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Complete { outcome: Outcome::Forced, .. })
    }

    /// Whether a record can say this: attempts count from 1, and only some outcomes let a node go down.
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

/// Before the cordon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Waiting {
    /// Since when.
    pub since: Moment,
    /// How far it is.
    #[serde(skip)]
    pub stage: Stage,
    /// Only looks that were asked for after this serial count.
    #[serde(skip)]
    pub after: u32,
    /// Such a look has come.
    #[serde(skip)]
    pub looked: bool,
    /// Why the last look brought nothing; empty when it did.
    #[serde(skip)]
    pub denied: String,
    /// How often on end the API server refused to list nodes.
    #[serde(skip)]
    pub denials: u32,
    /// None of the nodes is this machine, since then, and why.
    #[serde(skip)]
    pub unknown: Option<(Moment, String)>,
    /// Since when we wait for a slot.
    #[serde(skip)]
    pub slot_since: Option<Moment>,
    /// No other node can take pods, since then, without a break.
    #[serde(skip)]
    pub no_peer_since: Option<Moment>,
    /// If nothing changes, the node counts as complete then, without a drain.
    #[serde(skip)]
    pub undrained_at: Option<Moment>,
    /// The API server is away, and another node gets the time that a node may be down.
    #[serde(skip)]
    pub is_patient: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The API server has to answer, and to know this machine.
    #[default]
    Api,
    /// `health.command` has to pass.
    Health,
    /// A slot has to be ours.
    Slot,
    /// `health.command` has to pass again.
    HealthHeld,
    /// It did not: the slot goes back.
    GivingBack,
    /// Another node has to be able to take the pods.
    Peers,
}

/// Cordoning the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Cordoning {
    /// The attempt it is for.
    pub attempt: u32,
    /// When that began.
    pub started: Moment,
    /// When the first try was made.
    pub began: Moment,
    /// Tries that failed and count.
    pub failures: u32,
    /// The serial of the try in flight.
    #[serde(skip)]
    pub in_flight: Option<u32>,
    /// The next try, when none is in flight.
    #[serde(skip)]
    pub next: Moment,
    /// Why the last try failed.
    #[serde(skip)]
    pub error: String,
    /// The node is cordoned; our slot has to be confirmed before a pod leaves.
    #[serde(skip)]
    pub cordoned: bool,
    /// The attempt had begun in a process before this one, and goes on.
    pub resumes: bool,
    /// Since then nobody has looked whether the node is still cordoned. A person may have lifted the cordon.
    #[serde(skip)]
    pub unseen: bool,
}

impl Cordoning {
    /// Before CORDONED was ever shown in this drain.
    pub(crate) fn is_first(&self) -> bool {
        self.attempt == 1 && !self.resumes
    }
}

/// A fresh look at a node that is COMPLETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recheck {
    /// Of the look that is on its way.
    pub serial: u32,
    /// A newer event arrived after this look was sent, so its result may be stale: it counts only if it speaks against
    /// COMPLETE; otherwise another look follows.
    pub is_overtaken: bool,
}

/// Why the drain failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failed {
    /// Before or at the cordon.
    Cordon(String),
    /// After it.
    Drain(String),
}
