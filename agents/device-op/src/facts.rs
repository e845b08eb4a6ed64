//! What one look at the device shows. Everything that is decided is decided from it.

use std::collections::BTreeMap;

use runtime::OwnRequest;
use schemas::{DeviceAction, DeviceOpsCmd, GoTime, Operation, Verdict};

/// One look: every file read anew, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// What the controller commands; an operation that is left out was not looked at.
    pub commands: BTreeMap<Operation, Commanded>,
    /// What the counter files hold.
    pub counters: BTreeMap<Operation, Recorded>,
    /// What the gate says; nothing when it was not asked.
    pub gate: Option<Gate>,
    /// The drain request that is ours.
    pub own: Option<OwnRequest>,
    /// A drain request that could be made now.
    pub next: OwnRequest,
    /// What nodeagent is doing.
    pub nodeagent: NodeAgentView,
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

/// The gate's verdict and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// May the device go down?
    pub verdict: Verdict,
    /// What blocks; empty when nothing does.
    pub blocked_by: String,
    /// What an operator can do about it.
    pub hint: String,
}

/// nodeagent as its files show it. Its lock is asked before its file is read: when the lock is free, nothing can be
/// written any more that the file does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAgentView {
    /// Its lock is held, or cannot be asked.
    pub is_running: bool,
    /// Its progress; nothing when the file cannot be read. Without a file it is idle.
    pub action: Option<DeviceAction>,
}

impl Facts {
    pub(crate) fn command(&self, operation: Operation) -> &Commanded {
        self.commands.get(&operation).unwrap_or(&Commanded::Unreadable)
    }

    pub(crate) fn recorded(&self, operation: Operation) -> Recorded {
        self.counters.get(&operation).copied().unwrap_or_default()
    }
}
