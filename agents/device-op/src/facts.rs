//! What one look at the device shows. Everything that is decided is decided from it.

use std::collections::BTreeMap;

use runtime::freeze::Freeze;
use runtime::requester::GateReading;
use runtime::siblings::NodeAgentView;
use schemas::{ActionRecord, DeviceOpsCmd, Operation, Source};

/// One kind of command: who gives it, and what is to be done. Counters of different kinds are never compared.
pub type Kind = (Source, Operation);

/// All kinds, the operations in the order in which they are served.
pub fn all_kinds() -> impl Iterator<Item = Kind> {
    Operation::ALL.into_iter().flat_map(|operation| Source::ALL.map(|source| (source, operation)))
}

/// One look: every file read anew, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What the sources command; a kind that is left out was not looked at.
    pub commands: BTreeMap<Kind, Commanded>,
    /// What the counter files hold.
    pub counters: BTreeMap<Kind, Recorded>,
    /// The counters that an operator has taken back for another source.
    pub cancelled: BTreeMap<Kind, u32>,
    /// The brake on all commands; nothing while it is off.
    pub freeze: Option<Freeze>,
    /// What nodeagent began to carry out last, on disk: of an earlier boot it is proof that it was done. Nothing if there
    /// is none, or none that can be read.
    pub acted: Option<ActionRecord>,
    /// The way to a drain.
    pub drain: GateReading,
    /// What nodeagent is doing.
    pub nodeagent: NodeAgentView,
    /// Input files that are refused, and why; only shown.
    pub refused: Vec<String>,
}

/// One source's file of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Commanded {
    /// There is none.
    Absent,
    /// The source's whole folder is gone, or was never there. It says nothing: only a file that is removed is a
    /// take-back.
    NoFolder,
    /// There is one that cannot be read, perhaps because it is just being written. It says nothing.
    #[default]
    Unreadable,
    /// It says this.
    Given(DeviceOpsCmd),
}

/// The counter file of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recorded {
    /// There is none, or it holds no counter: the first command is only recorded.
    Nothing,
    /// It cannot be read, so no command can be told from one that was done.
    #[default]
    Unreadable,
    /// It holds this counter.
    Counter(u32),
}

impl Facts {
    pub(crate) fn command(&self, kind: Kind) -> &Commanded {
        self.commands.get(&kind).unwrap_or(&Commanded::Unreadable)
    }

    pub(crate) fn recorded(&self, kind: Kind) -> Recorded {
        self.counters.get(&kind).copied().unwrap_or_default()
    }

    /// An operator has taken this counter back for its source.
    pub(crate) fn is_cancelled(&self, kind: Kind, counter: u32) -> bool {
        self.cancelled.get(&kind) == Some(&counter)
    }
}
