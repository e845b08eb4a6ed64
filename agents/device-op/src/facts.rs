//! What one look at the device shows. Everything that is decided is decided from it.

use std::collections::BTreeMap;

use runtime::siblings::NodeAgentView;
use runtime::{Gate, OwnRequest};
use schemas::{DeviceOpsCmd, GoTime, Operation};

/// One look: every file read anew, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What the controller commands; an operation that is left out was not looked at.
    pub commands: BTreeMap<Operation, Commanded>,
    /// What the counter files hold.
    pub counters: BTreeMap<Operation, Recorded>,
    /// What the gate says; nothing when it was not asked.
    pub gate: Option<Gate>,
    /// After a failed drain the next try need not wait.
    pub needs_no_pause: bool,
    /// The drain request that is ours.
    pub own: Option<OwnRequest>,
    /// A drain request that could be made now.
    pub next: OwnRequest,
    /// What nodeagent is doing.
    pub nodeagent: NodeAgentView,
    /// Input files that are refused, and why; only shown.
    pub refused: Vec<String>,
    /// The wall clock, only to be shown.
    pub wall: GoTime,
}

/// The controller's file of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Commanded {
    /// There is none.
    Absent,
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
    pub(crate) fn command(&self, operation: Operation) -> &Commanded {
        self.commands.get(&operation).unwrap_or(&Commanded::Unreadable)
    }

    pub(crate) fn recorded(&self, operation: Operation) -> Recorded {
        self.counters.get(&operation).copied().unwrap_or_default()
    }
}
