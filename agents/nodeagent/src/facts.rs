//! The events of the shell: a snapshot of all files that nodeagent decides by, or the end of a task beside the loop.

use schemas::{ActionRecord, NodeDrainStatus};

use crate::current_command::Command;

/// An event of the shell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A snapshot of all files.
    Looked(Facts),
    /// The hooks of [`crate::effect::Effect::RunHooks`] have ended, with or without success.
    HooksEnded {
        /// The effect's serial.
        serial: u32,
    },
    /// The means of [`crate::effect::Effect::Act`] has ended.
    Acted {
        /// The effect's serial.
        serial: u32,
        outcome: Outcome,
    },
    /// The means by which this device can go down.
    MeansFound(Vec<String>),
}

/// Snapshot of the files. The commands are read last, and after them the report that releases them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// zedkube's status.
    pub drain: Option<NodeDrainStatus>,
    /// baseos runs and is activating an image: the device must stay up.
    pub is_activating: bool,
    /// The command is still released: [`crate::current_command::is_released`].
    pub is_released: bool,
    /// The command that is in effect.
    pub command: Option<Command>,
    /// The ActionRecord on disk.
    pub proof: DurableRecord,
}

/// The ActionRecord on disk, as far as nodeagent knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DurableRecord {
    /// The record in the file; None if there is none or it cannot be read.
    pub on_disk: Option<ActionRecord>,
    /// The record whose last write failed, and the error.
    pub refused: Option<(ActionRecord, String)>,
    /// The record is to be removed, and that has failed: when to try again, in milliseconds of this boot's clock.
    pub kept_until: Option<u64>,
}

/// The result of one means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device is going down, as far as nodeagent knows. The text says what was begun; it is shown if the device
    /// stays up.
    Started(String),
    Done,
    /// The means failed, for this reason.
    Failed(String),
    /// This device does not have this means. The text begins with "no".
    Absent(String),
    /// There is no means with this number.
    NoMeans,
}
