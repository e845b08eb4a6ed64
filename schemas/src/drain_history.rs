//! The history of a drain, as zedkube's flight recorder writes it: a file for each drain, a line for each thing that
//! happened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::write::encode;
use crate::{DeviceActionState, DrainRequester, DrainStatus, GoTime, HeldBy, Operation, Outcome, Source};

/// One line: what happened, and when. Lines of a newer ebb may have fields and events that this type does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainLine {
    /// When, by the wall clock of the device, which may have been set forward or back between two lines.
    #[serde(rename = "At")]
    pub at: GoTime,
    /// The same in milliseconds since the machine has booted. Between two lines of one boot only this one tells how long
    /// it took.
    #[serde(rename = "UpMillis", default)]
    pub up_millis: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: DrainEvent,
}

/// What happened. The name of the variant is the line's `Event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "Event", rename_all_fields = "PascalCase")]
pub enum DrainEvent {
    /// A drain was accepted: always the first line.
    Began {
        /// [`crate::SCHEMA_VERSION`] of the writer.
        schema_version: u32,
        /// UUID of the drain.
        drain_id: String,
        /// Version of ebb.
        version: String,
        /// The boot in which the lines that follow were written.
        boot_id: String,
    },
    /// The machine has booted: what follows is the way back.
    Booted {
        /// The new boot.
        boot_id: String,
    },
    /// Another zedkube process goes on with the drain, in the same boot.
    Restarted,
    /// Somebody asks for the drain.
    Asked {
        /// The agent whose folder holds the request.
        publisher: String,
        /// The requester.
        requested_by: DrainRequester,
        /// Purpose of the request, with the person and the reason if they are known.
        context: String,
        /// The request is kept over boots.
        kept: bool,
    },
    /// A request was withdrawn.
    Withdrawn {
        /// The agent whose folder held the request.
        publisher: String,
    },
    /// A request was answered.
    Answered {
        /// The agent whose folder holds the request.
        publisher: String,
        /// 6 and 8: the drain failed; 9: the device may go down; 0: an earlier answer was taken back.
        answer: DrainStatus,
        /// Why the device may go down; anything but Drained means NOT drained. Null unless `Answer` is 9.
        outcome: Option<Outcome>,
        /// The person who forced the answer, and why; empty unless `Outcome` is Forced.
        by: String,
    },
    /// The drain has another phase, or another reason for it.
    Phase {
        /// The phase, by the name that NodeDrainReport has for it.
        phase: String,
        /// `Status` of NodeDrainStatus.
        status: DrainStatus,
        /// `RequestedBy` of NodeDrainStatus.
        requested_by: DrainRequester,
        /// Outcome of the drain; null while it goes on.
        outcome: Option<Outcome>,
        /// What keeps the drain from going on; null if nothing does.
        held_by: Option<HeldBy>,
        /// Name of the Node; empty while not known.
        node: String,
        /// Why, in one sentence.
        reason: String,
        /// What a person can do.
        hint: String,
    },
    /// An attempt to empty the node has begun.
    Attempt {
        /// Its number, from 1.
        number: u32,
        /// When it gives up.
        deadline: GoTime,
    },
    /// An attempt has ended.
    AttemptEnded {
        /// Its number, from 1.
        number: u32,
        /// Why it failed; empty if it did not.
        error: String,
    },
    /// A pod that has to leave was seen, or has another stage.
    Pod {
        /// `namespace/name`.
        pod: String,
        /// UID, which tells it from a later pod of the same name.
        uid: String,
        /// `Kind/name` of its controller; empty if it has none.
        owner: String,
        /// The stage, by the name that NodeDrainReport has for it; `Gone` when it has left.
        stage: String,
        /// Number of evictions tried.
        tries: u32,
        /// The last answer of the API server, in words.
        detail: String,
        /// Why it does not leave: a budget, a webhook, a finalizer, a dead kubelet. Empty unless it is blocked.
        cause: String,
    },
    /// A volume that the drain waits for has another stage.
    Volume {
        /// Name of the PersistentVolume.
        pv: String,
        /// `namespace/name` of the pod that used it; empty if no pod was seen with it.
        pod: String,
        /// The stage, by the name that NodeDrainReport has for it; `Done` when the drain does not wait for it any more.
        stage: String,
    },
    /// The API server does not answer.
    ApiAway {
        /// Since when.
        since: GoTime,
    },
    /// The API server answers again.
    ApiBack,
    /// An operator's order.
    Ordered {
        /// What was ordered, in words.
        order: String,
        /// The person, and why.
        by: String,
    },
    /// nodeagent takes the device down, or has tried to.
    Operation {
        /// The operation; null for a reboot into an image.
        operation: Option<Operation>,
        /// Counter of the command; 0 for a reboot into an image.
        counter: u32,
        /// Source of the command.
        source: Source,
        /// How far it is.
        state: DeviceActionState,
        /// Why it failed; empty if it did not.
        error: String,
    },
    /// The Node has changed.
    Node {
        /// Its kubelet says that it is ready.
        ready: bool,
        /// It takes no pods, whoever has cordoned it.
        cordoned: bool,
    },
    /// The slot of this node was taken or given back.
    Slot {
        /// This node has a slot.
        held: bool,
        /// The nodes that have one.
        holders: Vec<String>,
    },
    /// Nothing is left to do for this drain: always the last line.
    Ended {
        /// How it came to an end.
        why: String,
    },
    /// Lines are left out from here on: the file has reached its limit, above all because of pods and volumes, or the disk has
    /// taken nothing for too long.
    LeftOut,
    /// An event of a newer ebb.
    #[serde(other)]
    Unknown,
}

impl DrainLine {
    /// The line with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let mut bytes = encode(self);
        bytes.push(b'\n');
        bytes
    }

    /// The line in these bytes; `None` if they are none, because a crash or somebody else has spoilt them.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a newer ebb writes is passed over, and what is torn is no line.
    #[test]
    fn a_line_comes_back_and_what_is_new_or_torn_does_no_harm() {
        let event = DrainEvent::Attempt { number: 2, deadline: "2026-11-29T20:00:00Z".parse().unwrap() };
        let line = DrainLine { at: "2026-11-29T19:00:00.5Z".parse().unwrap(), up_millis: 7, event };
        let text = String::from_utf8(line.to_line()).unwrap();
        assert_eq!(
            text,
            "{\"At\":\"2026-11-29T19:00:00.5Z\",\"UpMillis\":7,\"Event\":\"Attempt\",\"Number\":2,\
             \"Deadline\":\"2026-11-29T20:00:00Z\"}\n"
        );
        assert_eq!(DrainLine::read(text.as_bytes()), Some(line));
        let newer = text.replace("Attempt", "Teleported").replace("Number", "Colour");
        assert_eq!(DrainLine::read(newer.as_bytes()).map(|line| line.event), Some(DrainEvent::Unknown));
        for length in 0..text.trim_end().len() {
            assert_eq!(DrainLine::read(&text.as_bytes()[..length]), None, "{length}");
        }
    }
}
