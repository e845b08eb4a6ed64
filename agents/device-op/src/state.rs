//! The state of device-op.

use runtime::requester::Listen;
use runtime::shown_try::ShownTry;
use schemas::{DeviceOpStatus, Operation};
use text::one_line;

use crate::record::{Accepted, OperationRecord};

/// Limit in bytes for each text that is read back from DeviceOpStatus; device-op writes shorter ones.
const MOST_TEXT_BYTES: usize = 4096;

/// All that decisions need besides the facts. Owned by one loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// The accepted commands, as on disk.
    pub record: OperationRecord,
    /// The phase of the current operation.
    pub phase: Phase,
    /// DeviceOpStatus as published.
    pub shown: DeviceOpStatus,
    /// The command in ZedAgentStatus, with its reason.
    pub(crate) command: Option<(Operation, String)>,
    /// Since when the command is handed over and nodeagent does not prepare it, in milliseconds of this boot's clock.
    pub(crate) not_taken_since: Option<u64>,
    /// The next attempt after a failure.
    pub(crate) next_try: Option<ShownTry>,
    /// True after `resume`: the files may differ from this state, so the next step writes them all.
    pub(crate) is_unsure: bool,
}

/// Phase of the current operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The record was written in an earlier boot.
    NewBoot,
    /// No command is accepted.
    Idle,
    /// Commands are accepted, but none of them may begin now, so no drain is requested.
    Held,
    /// The gate holds the command until the node is drained.
    Deferred,
    /// The command is published for nodeagent; the gate is still checked.
    HandedOver,
    /// nodeagent has passed the point of no return.
    Acting,
    /// nodeagent is done, and the device still runs: a shutdown, or a dry run.
    Done,
    /// The command is cleared in ZedAgentStatus; nodeagent has to release it.
    Recalling(AfterRelease),
    /// The drain or the operation failed; the drain request is withdrawn.
    Failed,
}

/// What device-op does once nodeagent has released the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterRelease {
    /// The command waits for the gate again.
    Defer,
    /// The command ends: it was taken back, or it is done and another one waits.
    Drop,
    /// nodeagent failed to carry it out, for this reason.
    Fail(String),
}

impl State {
    /// The state from the files: the record, and the status and the command that were published last in this boot.
    /// Used at the start and after a failed effect, because it is not known then how much of the effect was done.
    pub(crate) fn resume(
        record: Option<OperationRecord>,
        shown: DeviceOpStatus,
        command: Option<(Operation, String)>,
        boot_id: &str,
    ) -> Self {
        let record = record.map_or_else(|| OperationRecord::new(boot_id), OperationRecord::within_limits);
        let bounded = |text: &str| one_line(text, MOST_TEXT_BYTES);
        let (release, by, reason) = (bounded(&shown.release), bounded(&shown.by), bounded(&shown.reason));
        let shown = DeviceOpStatus { release, by, reason, ..shown };
        let is_new_boot = record.boot_id != boot_id;
        let phase = if is_new_boot { Phase::NewBoot } else { Phase::of(&record, record.waiting.first()) };
        Self { record, phase, shown, command, not_taken_since: None, next_try: None, is_unsure: true }
    }

    /// Which of zedkube's files the next step depends on.
    pub(crate) fn listen(&self) -> Listen {
        match &self.phase {
            Phase::Deferred | Phase::HandedOver => Listen::ToGate,
            Phase::Failed => Listen::ToReport,
            Phase::NewBoot
            | Phase::Idle
            | Phase::Held
            | Phase::Acting
            | Phase::Done
            | Phase::Recalling(_) => Listen::ToNothing,
        }
    }
}

impl Phase {
    /// The phase in which a record of this boot continues, with the waiting command that may begin now.
    pub(crate) fn of(record: &OperationRecord, next_up: Option<&Accepted>) -> Self {
        if record.handed_over.is_some() {
            if record.is_done { Self::Done } else { Self::HandedOver }
        } else if record.waiting.is_empty() {
            Self::Idle
        } else if next_up.is_none() {
            Self::Held
        } else if record.failure_of(next_up).is_some() {
            Self::Failed
        } else {
            Self::Deferred
        }
    }

    /// The phase's name in logs.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::NewBoot => "after a boot",
            Self::Idle => "idle",
            Self::Held => "held",
            Self::Deferred => "deferred",
            Self::HandedOver => "handed over",
            Self::Acting => "carried out",
            Self::Done => "done",
            Self::Recalling(_) => "recalled",
            Self::Failed => "failed",
        }
    }
}
