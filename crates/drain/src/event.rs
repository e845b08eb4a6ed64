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
    /// Begin an attempt. The node has been cordoned just before.
    Start {
        /// The attempt's number.
        attempt: u32,
        /// When the API server last came back after it had been away, if it ever had.
        api_back: Option<Moment>,
    },
    /// Go on with an attempt that another process began. The node is cordoned.
    Resume {
        /// The attempt's number.
        attempt: u32,
        /// When the API server last came back after it had been away, if it ever had.
        api_back: Option<Moment>,
        /// The record that the other process left.
        record: Box<Record>,
    },
    /// Stop at once.
    Cancel,
    /// The watches show this snapshot now.
    Snapshot(Arc<Snapshot>),
    /// An eviction or deletion was answered.
    Answer {
        /// The attempt that sent it.
        attempt: u32,
        /// The pod's UID.
        uid: String,
        /// The meaning of the answer.
        answer: Answer,
    },
    /// The fresh list that [`Effect::Prove`] asked for: node and pods from the server, not from a watch, and what is
    /// attached to the node, if that was asked for. A list that was not asked for is ignored.
    Relisted {
        /// The attempt that asked.
        attempt: u32,
        /// The snapshot, or why there is none: a whole sentence that names what failed.
        result: Result<Arc<Snapshot>, String>,
    },
    /// The findings that [`Effect::Inquire`] asked for.
    Found {
        /// The attempt that asked.
        attempt: u32,
        /// The findings.
        findings: Arc<Findings>,
    },
    /// The server does not let us watch what every drain needs, so no snapshot will come.
    Unseen {
        /// Why, with the missing verb.
        why: String,
    },
    /// The API server does not answer any more.
    ApiAway,
    /// The API server answers again.
    ApiBack,
    /// The time of an [`Effect::WakeAt`] has come.
    Tick,
}

/// An output of the state machine. Effects are carried out in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Evict the pod; its UID is the precondition. Answered by [`Event::Answer`].
    Evict {
        /// This attempt.
        attempt: u32,
        /// Which pod.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// Delete the pod, with its UID as precondition. Answered by [`Event::Answer`].
    Delete {
        /// This attempt.
        attempt: u32,
        /// Which pod.
        pod: PodId,
        /// Grace period to send; `None` = the pod's own.
        grace: Option<Duration>,
    },
    /// List the node and its pods freshly. Answered by exactly one [`Event::Relisted`]; no other list of this attempt is
    /// asked for before. The list must begin after this effect: an answer that was on its way already proves nothing.
    Relist {
        /// This attempt.
        attempt: u32,
        /// Also list all VolumeAttachments of the node, and what the claims of its pods are bound to. True for a proof,
        /// unless the policy does not wait for volumes.
        volumes: bool,
    },
    /// Find out why pods do not leave, for the report. Answered by [`Event::Found`].
    Inquire {
        /// This attempt.
        attempt: u32,
        /// The questions.
        inquiry: Arc<Inquiry>,
    },
    /// Send [`Event::Tick`] then. A newer wake-up replaces an older one.
    WakeAt(Moment),
    /// Give up all calls that are in flight.
    Abort,
}

/// The part of an attempt that survives a restart of the agent: a resumed attempt keeps its deadline and its history.
///
/// All times are of this boot; after a reboot there is nothing to resume. Volumes are not kept: the proof finds whatever
/// is still attached to the node.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Record {
    /// When the attempt began.
    pub started: Moment,
    /// When the attempt has failed.
    pub deadline: Moment,
    /// How long the API server was away during the attempt.
    pub away_total: Duration,
    /// Since when each pod has been refused, by UID: a restart does not make it be deleted later.
    pub refused_since: BTreeMap<String, Moment>,
}
