//! Input ([`Event`]) and output ([`Effect`]) of the state machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::findings::{Findings, Inquiry};
use crate::time::Moment;
use crate::view::{PodId, Snapshot};

/// An input of the state machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Begin an attempt. The node has just been cordoned.
    Start {
        /// Number of the attempt.
        attempt: u32,
        /// Time when the API server came back from its last outage, if there was one.
        api_back: Option<Moment>,
    },
    /// Continue an attempt that another process began. The node is cordoned.
    Resume {
        /// Number of the attempt.
        attempt: u32,
        /// Time when the API server came back from its last outage, if there was one.
        api_back: Option<Moment>,
        /// Record that the other process left.
        record: Box<Record>,
    },
    /// Stop at once.
    Cancel,
    /// A new snapshot from the watches.
    Snapshot(Arc<Snapshot>),
    /// The answer to an eviction or deletion.
    Answer {
        /// The attempt that sent it.
        attempt: u32,
        /// The pod's UID.
        uid: String,
        /// The meaning of the answer.
        answer: Answer,
    },
    /// The answer to [`Effect::Relist`]: node and pods listed from the server, not taken from a watch, and the node's
    /// attachments, if they were asked for. A list that was not asked for is ignored.
    Relisted {
        /// Number of the attempt that asked.
        attempt: u32,
        /// The snapshot; or the error, as a whole sentence that names the call.
        result: Result<Arc<Snapshot>, String>,
    },
    /// Findings that [`Effect::Inquire`] asked for.
    Found {
        /// Number of the attempt that asked.
        attempt: u32,
        /// The findings.
        findings: Arc<Findings>,
    },
    /// The server refuses a watch that every drain needs, so no snapshot will come.
    Unseen {
        /// Reason, with the missing verb.
        why: String,
    },
    /// The API server does not answer any more.
    ApiAway,
    /// The API server answers again.
    ApiBack,
    /// The time of an [`Effect::WakeAt`] has come.
    Tick,
}

/// An output of the state machine. Effects must be carried out in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Evict the pod; its UID is the precondition. Answered by [`Event::Answer`].
    Evict {
        /// This attempt.
        attempt: u32,
        /// Pod to evict.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// Delete the pod, with its UID as precondition. Answered by [`Event::Answer`].
    Delete {
        /// Number of this attempt.
        attempt: u32,
        /// Pod to delete.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// List the node and its pods from the server. Answered by exactly one [`Event::Relisted`]; until then this attempt
    /// asks for no other list. The list must begin after this effect: an older answer may be out of date.
    Relist {
        /// This attempt.
        attempt: u32,
        /// Also list all VolumeAttachments of the node, and the volumes to which the claims of its pods are bound. True
        /// in the final check, unless the policy does not wait for volumes.
        volumes: bool,
    },
    /// Find out why pods do not leave, for the report. Answered by [`Event::Found`].
    Inquire {
        /// This attempt.
        attempt: u32,
        /// The questions.
        inquiry: Arc<Inquiry>,
    },
    /// Send [`Event::Tick`] at this time. A newer wake-up replaces an older one.
    WakeAt(Moment),
    /// Drop all calls that are in flight.
    Abort,
}

/// The part of an attempt that survives a restart of the agent: a resumed attempt keeps its deadline and its history.
///
/// All times are of this boot; after a reboot there is no attempt to resume. Volumes are not kept: the final check
/// finds all that are still attached to the node.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Record {
    /// Start of the attempt.
    pub started: Moment,
    /// Time at which the attempt fails.
    pub deadline: Moment,
    /// Sum of the API server's outages during the attempt.
    pub away_total: Duration,
    /// First refusal of each pod, by UID, so that a restart does not delay its deletion.
    pub refused_since: BTreeMap<String, Moment>,
}
