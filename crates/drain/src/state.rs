//! What one drain attempt knows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::budget::Fingerprint;
use crate::escalation::Moves;
use crate::findings::Findings;
use crate::looks::Looks;
use crate::plan::Planned;
use crate::record::Record;
use crate::returns::Returns;
use crate::time::Moment;
use crate::turns::Turn;
use crate::view::{Phase, Picture, PodId};
use crate::volumes::VolumeTrack;

/// Where the drain of the node is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// Nothing to do.
    #[default]
    Idle,
    /// Pods are being moved away.
    Draining(Attempt),
    /// The node looks empty; fresh looks have to prove it.
    Proving(Attempt, Proof),
    /// Over. The attempt stays for the report.
    Ended(Attempt, Outcome),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A fresh look proved that no pod is left that should leave, and that nothing is attached to the node but what belongs
    /// to pods that stay (or, as the policy says, what was not detached in time).
    Drained,
    /// The node, which this attempt had seen, exists no more: the server, the watch and the list of its pods agree.
    NodeGone,
    /// It did not work.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The time is over and pods are left.
    Deadline,
    /// Somebody made the node schedulable again.
    Uncordoned,
    /// The policy forbids to evict some pods; nothing was evicted.
    Refused,
    /// Nothing that is left can move.
    Stuck,
    /// The API server was away for too long.
    ApiAway,
    /// Nothing could be seen of the node, for this reason; nothing was evicted.
    Unseen(String),
    /// Nobody could tell whether the pods' volumes are detached, for this reason; so nothing more was evicted.
    Blind(String),
    /// All pods have left, but these volumes are still attached; each with its driver and what holds it.
    Volumes(Vec<String>),
    /// All pods that were seen have left, or nothing was seen, and no fresh look could be had to prove the end; why.
    Unproven(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "time is over and pods are left on the node",
            Self::Uncordoned => "somebody made the node schedulable again during the drain",
            Self::Refused => "the policy does not allow to evict some pods; nothing was evicted",
            Self::Stuck => "none of the pods that are left can be evicted",
            Self::ApiAway => "the API server was away for too long",
            Self::Unseen(why) => return write!(f, "the node cannot be watched: {why}"),
            Self::Blind(why) => {
                return write!(f, "it cannot be seen whether volumes are detached: {why}");
            }
            Self::Volumes(volumes) => {
                return write!(
                    f,
                    "volumes are still attached to the node: {}. Ways out: mend what detaches them (the storage driver, \
                     the kubelet); or go on without: volumes.on-detach-timeout = \"proceed\" (ebb drain: \
                     --on-detach-timeout=proceed), on a device also `ebb force complete`",
                    volumes.join("; ")
                );
            }
            Self::Unproven(why) => {
                return write!(f, "nothing proves that the node is drained: {why}");
            }
        })
    }
}

/// One attempt to empty the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// 1 for the first; answers carry it, so that a late one is recognised.
    pub number: u32,
    /// When it began.
    pub started: Moment,
    /// When it has failed. Moves on while the API server is away.
    pub deadline: Moment,
    /// What is known now, from the watches and from fresh looks; `None` until the first of them comes.
    pub picture: Option<Arc<Picture>>,
    /// The last picture of the watches alone.
    pub watched: Option<Arc<Picture>>,
    /// The fresh looks.
    pub looks: Looks,
    /// When the last picture came.
    pub seen: Moment,
    /// The verdicts on the last picture, in its order.
    pub planned: Vec<Planned>,
    /// The pods that have to leave, by UID.
    pub pods: BTreeMap<String, Track>,
    /// The volumes of pods that leave or have left, and what a proof found attached to the node without a pod, by name.
    pub volumes: BTreeMap<String, VolumeTrack>,
    /// Why it cannot be seen whether the volumes of pods that leave are detached.
    pub blind: Option<String>,
    /// The turns of pods with attached volumes.
    pub turns: Vec<Turn>,
    /// How many pods have left.
    pub gone: u64,
    /// How often the owners of pods that have left made pods anew on this node, by the owner's UID.
    pub returns: BTreeMap<String, Returns>,
    /// What the budgets of this node's pods let happen, by namespace and name; kept only while escalation is asked for.
    pub moves: BTreeMap<(String, String), Moves>,
    /// Since when pods were refused in a process before this one, by UID.
    pub refused_before: BTreeMap<String, Moment>,
    /// The server does not know evictions.
    pub no_evictions: bool,
    /// When questions about blocked pods were last asked.
    pub asked: Option<Moment>,
    /// What was found out about blocked pods.
    pub findings: Arc<Findings>,
    /// Pods came after the first picture, or left that tolerate the cordon and so may come back.
    pub arrivals: bool,
    /// A picture has shown the node cordoned.
    pub seen_cordoned: bool,
    /// The API server is away since then.
    pub away_since: Option<Moment>,
    /// How long it was away in this attempt before.
    pub away_total: Duration,
    /// When it last came back, in this attempt or shortly before it.
    pub api_back: Option<Moment>,
}

impl Attempt {
    /// A new attempt that has seen nothing yet.
    pub(crate) fn new(number: u32, now: Moment, timeout: Duration, api_back: Option<Moment>) -> Self {
        Self {
            number,
            started: now,
            deadline: now + timeout,
            picture: None,
            watched: None,
            looks: Looks::default(),
            seen: now,
            planned: Vec::new(),
            pods: BTreeMap::new(),
            volumes: BTreeMap::new(),
            blind: None,
            turns: Vec::new(),
            gone: 0,
            returns: BTreeMap::new(),
            moves: BTreeMap::new(),
            refused_before: BTreeMap::new(),
            no_evictions: false,
            asked: None,
            findings: Arc::default(),
            arrivals: false,
            seen_cordoned: false,
            away_since: None,
            away_total: Duration::ZERO,
            api_back,
        }
    }

    /// An attempt that another process began.
    pub(crate) fn resumed(number: u32, now: Moment, api_back: Option<Moment>, record: &Record) -> Self {
        Self {
            started: record.started,
            deadline: record.deadline,
            away_total: record.away_total,
            refused_before: record.refused_since.clone(),
            ..Self::new(number, now, Duration::ZERO, api_back)
        }
    }

    /// Whether a pod has been told to go, or has gone.
    pub(crate) fn is_touched(&self) -> bool {
        self.gone > 0 || self.pods.values().any(|track| track.tries > 0)
    }

    /// Whether any pod that is known has to leave.
    pub fn has_pods_left(&self) -> bool {
        !self.pods.is_empty()
    }
}

/// One pod that has to leave.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any of them goes with any other"
)]
pub struct Track {
    /// Which pod.
    pub id: PodId,
    /// Where it is on its way.
    pub stage: Stage,
    /// Since when it is there.
    pub since: Moment,
    /// How often an eviction or deletion was sent.
    pub tries: u32,
    /// Its controller.
    pub owner: Option<Owner>,
    /// Pods of a higher order leave later.
    pub order: i32,
    /// How long it may take to end: the grace that is sent, else its own.
    pub grace: Duration,
    /// The grace that is sent; `None` = its own.
    pub grace_sent: Option<Duration>,
    /// It has volumes that are attached to the node, or may be.
    pub is_stateful: bool,
    /// Its volumes that can be attached to a node.
    pub volumes: Vec<String>,
    /// Its turn among the pods with attached volumes has begun.
    pub had_turn: bool,
    /// How it is told to go.
    pub by: By,
    /// It has claims, and it is not known since then what they are bound to: it is not evicted before.
    pub volumes_unknown: Option<Moment>,
    /// Refused since then, with every try.
    pub refused_since: Option<Moment>,
    /// Who refused it last; counts until there is another answer.
    pub refusal: Option<Cause>,
    /// When it was last deleted with grace 0.
    pub killed: Option<Moment>,
    /// It is terminating, with a longer grace than the policy asks for.
    pub shortens: bool,
    /// When a shorter grace was last asked for.
    pub shortened: Option<Moment>,
    /// How often its owner has made it anew on this node.
    pub returns: u32,
    /// The budgets as they were when the last eviction was sent.
    pub sent_under: Option<Fingerprint>,
    /// The pod's phase and readiness as they were then: both decide whether its budgets hold it.
    pub sent_as: Option<(Phase, bool)>,
    /// The server has not let us evict it (401, 403) in the last tries, without another answer in between.
    pub denied: Option<Denied>,
    /// When it was turned to deletion because its eviction had been refused for too long.
    pub escalated: Option<Moment>,
    /// A picture has shown that whoever made it has written `spec.nodeName`.
    pub names_node: bool,
    /// The last answer was that there is no such pod (any more), and no look that was asked for since has shown it. It is
    /// not asked again: an eviction with an old UID uses up a place of its budget, which stays used for 2 minutes (M3).
    pub said_gone: bool,
}

/// Refusals for want of a right, in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The first of them.
    pub since: Moment,
    /// How many.
    pub times: u32,
}

/// How a pod is told to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By eviction.
    #[default]
    Eviction,
    /// By deletion: evictions do not work for it, or are not wanted.
    Deletion,
    /// By deletion, because its eviction was refused for too long.
    Escalation,
}

/// The controller of a pod, as far as a drain cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Kind, such as `StatefulSet`.
    pub kind: String,
    /// UID.
    pub uid: String,
}

/// Where a pod is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its turn has not come yet.
    Waiting,
    /// An eviction is in flight.
    Sent,
    /// Refused for now.
    Blocked {
        /// By whom.
        cause: Cause,
        /// Tried again then, or when a budget changes.
        next: Moment,
    },
    /// The server was busy or failed.
    Paused {
        /// What happened.
        text: String,
        /// Tried again then.
        next: Moment,
    },
    /// The server accepted; the pod is not seen terminating yet.
    Accepted,
    /// On its way out.
    Terminating,
    /// Ends by itself (label `ebb.dev/drain=wait-completed`).
    Awaiting,
    /// The policy does not allow its eviction.
    Refused,
    /// The server's refusal is final for this attempt.
    Final {
        /// What happened.
        text: String,
    },
}

impl Stage {
    /// One word, for lines and documents of the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Sent => "Sent",
            Self::Blocked { .. } => "Blocked",
            Self::Paused { .. } => "Paused",
            Self::Accepted => "Accepted",
            Self::Terminating => "Terminating",
            Self::Awaiting => "Awaiting",
            Self::Refused => "Refused",
            Self::Final { .. } => "Final",
        }
    }

    /// The API server was asked to let the pod go, whatever it has answered.
    pub const fn is_asked(&self) -> bool {
        match self {
            Self::Waiting | Self::Awaiting | Self::Refused => false,
            Self::Sent
            | Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Accepted
            | Self::Terminating
            | Self::Final { .. } => true,
        }
    }

    /// When the eviction is tried again, if that is known.
    pub fn next_try(&self) -> Option<Moment> {
        match self {
            Self::Blocked { next, .. } | Self::Paused { next, .. } if *next != Moment::NEVER => Some(*next),
            Self::Blocked { .. }
            | Self::Paused { .. }
            | Self::Waiting
            | Self::Sent
            | Self::Accepted
            | Self::Terminating
            | Self::Awaiting
            | Self::Refused
            | Self::Final { .. } => None,
        }
    }
}

/// Who blocks an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A PodDisruptionBudget; the server's words.
    Budget(String),
    /// More than one budget selects the pod.
    TwoBudgets,
    /// An admission webhook; its words.
    Webhook(String),
    /// Nobody refuses, but its owner makes it anew on this node each time, so it is evicted slowly.
    Returns {
        /// How often.
        times: u32,
    },
}

/// How far the proof is that the node is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The next look may be asked for then.
    pub next: Moment,
    /// The first of the clean looks in a row.
    pub clean_since: Option<Moment>,
}
