//! What zedkube knows.

use std::sync::Arc;

use drain::outage::Outage;
use drain::time::Moment;
use drain::view::{NodeView, Picture};

use crate::forcing::Forcing;
use crate::health::Health;
use crate::leasing::Leasing;
use crate::membership::{Facts, Member, needs_no_look};
use crate::requests::Requests;
use crate::returning::Returning;
use crate::showing::Shown;
use crate::slots::Others;
pub use crate::waiting::Waiting;

/// The name by which zedkube's cordon is known in annotation `ebb.dev/cordoned-by`.
pub const OWNER: &str = "zedkube";

/// Everything that decisions need. One loop owns it.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Whether this device is a member of a cluster.
    pub member: Member,
    /// What the device knows about that.
    pub facts: Facts,
    /// The API server was asked about it in this boot: it has listed its nodes, or has been away for too long.
    pub has_looked: bool,
    /// Who asks.
    pub requests: Requests,
    /// Where the drain is.
    pub phase: Phase,
    /// Since when.
    pub since: Moment,
    /// What is shown in NodeDrainStatus.
    pub shown: Shown,
    /// The API server, as probes find it.
    pub api: Api,
    /// Our node, as last seen.
    pub own: Option<NodeView>,
    /// All nodes, as last listed.
    pub nodes: Vec<NodeView>,
    /// The serial of the look that listed them.
    pub nodes_asked: u32,
    /// Our slot.
    pub slots: Leasing,
    /// What the site says of itself.
    pub health: Health,
    /// What an operator has ordered.
    pub forcing: Forcing,
    /// Taking our cordon back.
    pub returning: Returning,
    /// What the last look at the cluster did not show.
    pub sight: Sight,
    /// The node that carries, or may carry, our cordon or our slot, until that is seen given back. Outlives boots.
    pub remembered: Option<Remembered>,
    /// An unannotated cordon on our node is EVE's, and becomes ours.
    pub adopts: bool,
    /// What a process before this one has left of its last attempt.
    pub left: Option<drain::Record>,
    /// The attempt that runs, or ran last in this drain.
    pub drain: drain::State,
    /// This drain, or the last one.
    pub session: Session,
    /// When the attempt has to be looked at again.
    pub drain_wake: Option<Moment>,
    /// What the watches show, while they run.
    pub picture: Option<Arc<Picture>>,
    /// This boot, as `/proc/sys/kernel/random/boot_id` names it.
    pub boot_id: String,
    /// Counts calls, so that late answers are recognised. Never repeats within one run.
    pub serial: u32,
    /// The record cannot be written just now. Set by who writes it; nobody is told COMPLETE by a drain meanwhile.
    pub is_unrecorded: bool,
}

impl State {
    /// The state at start: what was stored of the membership, and nothing known of the cluster.
    pub fn new(member: Member, boot_id: String, now: Moment) -> Self {
        Self { member, boot_id, since: now, shown: Shown::at_start(now), ..Self::default() }
    }

    /// What is known of the slots of other nodes before anybody was asked.
    #[must_use]
    pub fn knowing(mut self, others: Others) -> Self {
        self.slots.others = others;
        self
    }

    /// Whether this device is a member, as far as this boot knows. A stored `no` releases nobody before one look: the device
    /// may have joined a cluster since, and nobody asks before it goes down.
    pub fn member_now(&self) -> Member {
        let is_stored_only = !self.has_looked && !needs_no_look(&self.facts);
        if self.member == Member::No && is_stored_only { Member::Unknown } else { self.member }
    }

    /// Whether the watches on the node, its pods and the budgets are needed.
    pub fn wants_picture(&self) -> bool {
        match &self.phase {
            Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => true,
            // Whoever forces a node down has a right to see what is on it.
            Phase::Complete { outcome, .. } => matches!(outcome, Outcome::Drained | Outcome::Forced),
            Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => false,
        }
    }

    /// An attempt is under way that has not seen anything yet.
    pub fn awaits_picture(&self) -> bool {
        let begun = drain::progress::attempt(&self.drain).is_some_and(|attempt| attempt.snapshot().is_none());
        begun && matches!(self.phase, Phase::Attempting { .. })
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Moment) {
        match &phase {
            Phase::Complete { outcome, .. } => self.session.ended = Some(Ended::Complete(*outcome)),
            Phase::Failed(Failed::Cordon(_)) => self.session.ended = Some(Ended::CordonFailed),
            Phase::Failed(Failed::Drain(_)) => self.session.ended = Some(Ended::DrainFailed),
            Phase::Idle
            | Phase::Waiting(_)
            | Phase::Cordoning(_)
            | Phase::Attempting { .. }
            | Phase::Pausing { .. } => {}
        }
        if std::mem::discriminant(&self.phase) != std::mem::discriminant(&phase) {
            self.since = now;
        }
        self.phase = phase;
    }
}

/// What the last look at the cluster did not show, although the API server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Why no Node is known to be this machine; empty when one is.
    pub identity: String,
    /// Why the nodes could not be listed or ours not be read; empty when they could.
    pub refused: String,
}

/// A node that we may have left cordoned, or with a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Its name.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
}

/// One drain from its request to its end: what the report tells about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// Counts drains in this run; zero before the first.
    pub number: u64,
    /// When it began.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Option<Moment>,
    /// The attempts that are over.
    pub attempts: Vec<AttemptRecord>,
    /// The node was cordoned by somebody else before we came.
    pub cordoned_before: bool,
    /// Pods that have left in the attempts that are over.
    pub gone: u64,
    /// How it ended; stays until the next one begins.
    pub ended: Option<Ended>,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The node might go down.
    Complete(Outcome),
    /// It could not be cordoned.
    CordonFailed,
    /// All attempts failed.
    DrainFailed,
    /// Nobody asked any more.
    Cancelled,
}

/// One attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// 1 for the first.
    pub number: u32,
    /// When it began.
    pub started: Moment,
    /// When it ended.
    pub ended: Moment,
    /// Why it failed.
    pub error: String,
}

/// Where the drain is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Phase {
    /// Nobody asks.
    #[default]
    Idle,
    /// Asked; something has to be true before the cordon.
    Waiting(Waiting),
    /// Cordoning the node for an attempt.
    Cordoning(Cordoning),
    /// Moving pods away.
    Attempting {
        /// 1 for the first.
        attempt: u32,
        /// When it began, the cordon included.
        started: Moment,
    },
    /// Between two attempts.
    Pausing {
        /// The attempt that failed.
        failed: u32,
        /// The next one begins then.
        until: Moment,
    },
    /// The node may go down.
    Complete {
        /// Why.
        outcome: Outcome,
        /// Something speaks against it, or somebody new asks: a fresh look is on its way.
        recheck: Option<Recheck>,
    },
    /// It did not work; the answer says which part.
    Failed(Failed),
}

/// A fresh look at a node that is COMPLETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recheck {
    /// Of the look that is on its way.
    pub serial: u32,
    /// Something has come since that the look may be older than: it counts only against COMPLETE, and another one
    /// follows.
    pub is_overtaken: bool,
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
}

/// Cordoning the node.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub in_flight: Option<u32>,
    /// The next try, when none is in flight.
    pub next: Moment,
    /// Why the last try failed.
    pub error: String,
    /// The node is cordoned; our slot has to be confirmed before a pod leaves.
    pub cordoned: bool,
    /// The attempt had begun in a process before this one, and goes on.
    pub resumes: bool,
    /// Since then nobody has looked whether the node is still cordoned. A person may have lifted the cordon.
    pub unseen: bool,
}

/// Why the node may go down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is empty, by proof.
    Drained,
    /// The API server did not answer for too long.
    ApiUnreachable,
    /// No other node could take the pods.
    NoSchedulablePeer,
    /// The node, which this drain had seen, exists no more.
    NodeGone,
    /// An operator says so.
    Forced,
}

/// Why the drain failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Before or at the cordon.
    Cordon(String),
    /// After it.
    Drain(String),
}

/// The API server, as probes find it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// It has not answered since then.
    pub away_since: Option<Moment>,
    /// A process before this one has not reached it since then. It counts once this one has not reached it either.
    pub away_before: Option<Moment>,
    /// Whether its failures are an outage: only then an attempt's clocks stand still.
    pub outage: Outage,
    /// When it came back from its last outage, if there was one.
    pub back: Option<Moment>,
    /// Its last failure.
    pub error: String,
    /// A look or probe with this serial is on its way.
    pub asked: Option<u32>,
    /// The next one is due then.
    pub next: Moment,
}
