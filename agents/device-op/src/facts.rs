//! Snapshot of all files that device-op decides by.

use std::collections::BTreeMap;

use runtime::agent_state::NodeAgentView;
use runtime::freeze::Freeze;
use runtime::requester::GateReading;
use schemas::{ActionRecord, DeviceOpsCmd, GoTime, Operation, Source, WindowStatus};

/// A kind of command: its source and its operation. Counters of different kinds are never compared.
pub type Kind = (Source, Operation);

/// All kinds, in the order in which their operations are served.
pub fn all_kinds() -> impl Iterator<Item = Kind> {
    Operation::ALL.into_iter().flat_map(|operation| Source::ALL.map(|source| (source, operation)))
}

/// Snapshot of the files: each is read again for every step, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The wall clock.
    pub wall: GoTime,
    /// The command of each source and operation; a kind that is missing was not read.
    pub commands: BTreeMap<Kind, Commanded>,
    /// The contents of the counter files.
    pub counters: BTreeMap<Kind, Recorded>,
    /// Counters that an operator has cancelled on behalf of another source.
    pub cancelled: BTreeMap<Kind, u32>,
    /// The operator's freeze of all commands; None while there is none.
    pub freeze: Option<Freeze>,
    /// The maintenance window; None if none is set.
    pub window: Option<WindowStatus>,
    /// zedkube pauses between two attempts of a drain. Known only while the window is not open.
    pub is_pausing: bool,
    /// The operation that nodeagent began last, from disk: in a later boot it proves that the operation was carried
    /// out. None if the file is missing or cannot be read.
    pub acted: Option<ActionRecord>,
    /// zedkube's answer to the drain request.
    pub drain: GateReading,
    /// Whether nodeagent runs, and its DeviceAction.
    pub nodeagent: NodeAgentView,
    /// Input files that are refused, with the reason; for display only.
    pub refused: Vec<String>,
}

/// The command file of one source and one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Commanded {
    /// The file does not exist.
    Absent,
    /// The folder of the source does not exist. Ignored: only a removed file is a take-back.
    NoFolder,
    /// The file cannot be read, perhaps because it is being written. Ignored.
    #[default]
    Unreadable,
    /// The file holds this command.
    Given(DeviceOpsCmd),
}

/// The counter file of one source and one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recorded {
    /// The file does not exist or holds no counter: the first command is only recorded.
    Nothing,
    /// The file cannot be read, so a new command cannot be told from one that was done.
    #[default]
    Unreadable,
    /// The file holds this counter.
    Counter(u32),
}

impl Recorded {
    pub(crate) const fn counter(self) -> Option<u32> {
        match self {
            Self::Counter(counter) => Some(counter),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

impl Facts {
    pub(crate) fn command(&self, kind: Kind) -> &Commanded {
        self.commands.get(&kind).unwrap_or(&Commanded::Unreadable)
    }

    /// The command of this kind, if its file holds one.
    pub(crate) fn given(&self, kind: Kind) -> Option<&DeviceOpsCmd> {
        match self.command(kind) {
            Commanded::Given(command) => Some(command),
            Commanded::Absent | Commanded::NoFolder | Commanded::Unreadable => None,
        }
    }

    pub(crate) fn recorded(&self, kind: Kind) -> Recorded {
        self.counters.get(&kind).copied().unwrap_or_default()
    }

    /// True if an operator has cancelled this counter on behalf of its source.
    pub(crate) fn is_cancelled(&self, kind: Kind, counter: u32) -> bool {
        self.cancelled.get(&kind) == Some(&counter)
    }
}
