//! What device-op knows.

use runtime::requester::Listen;
use runtime::shown_try::ShownTry;
use schemas::{DeviceOpStatus, Operation};
use text::one_line;

use crate::record::OperationRecord;

/// So much of a published release is taken up again, in bytes; ours are shorter.
const MOST_RELEASE_BYTES: usize = 4096;

/// Everything that decisions need besides the facts. One loop owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// What has been accepted; on disk.
    pub record: OperationRecord,
    /// How far the current operation is.
    pub phase: Phase,
    /// DeviceOpStatus as published.
    pub shown: DeviceOpStatus,
    /// The command in ZedAgentStatus, with its reason.
    pub(crate) command: Option<(Operation, String)>,
    /// Nobody prepares what was handed over since then, in milliseconds of this boot's clock.
    pub(crate) not_taken_since: Option<u64>,
    /// The next try after a failure.
    pub(crate) next_try: Option<ShownTry>,
    /// Resumed: the files may differ from what is here, and the next step writes them all.
    pub(crate) is_unsure: bool,
}

/// How far the current operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The record is of an earlier boot.
    NewBoot,
    /// Nothing is accepted.
    Idle,
    /// Something is accepted, and nothing of it may begin now: nobody asks for a drain.
    Held,
    /// The gate holds it.
    Deferred,
    /// nodeagent may begin; the gate is still asked.
    HandedOver,
    /// nodeagent has passed the point of no return.
    Acting,
    /// nodeagent is done, and the device still runs: a shutdown, or a dry run.
    Done,
    /// The command is cleared; nodeagent has to let go of it.
    Recalling(AfterRelease),
    /// A drain or an operation failed; the request is withdrawn.
    Failed,
}

/// What follows once nodeagent has let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterRelease {
    /// The gate holds it again.
    Defer,
    /// It was taken back, or is over and another one waits.
    Drop,
    /// nodeagent could not do it.
    Fail(String),
}

impl State {
    /// The state from what is on disk: the record, and the status and command that were published last in this
    /// boot. For a start, and for an effect that failed: nobody knows then how much of it is done.
    pub fn resume(
        record: Option<OperationRecord>,
        shown: DeviceOpStatus,
        command: Option<(Operation, String)>,
        boot_id: &str,
    ) -> Self {
        let record = record.map_or_else(|| OperationRecord::new(boot_id), OperationRecord::within_limits);
        let release = one_line(&shown.release, MOST_RELEASE_BYTES);
        let shown = DeviceOpStatus { release, ..shown };
        let is_new_boot = record.boot_id != boot_id;
        let phase = if is_new_boot { Phase::NewBoot } else { Phase::of(&record) };
        Self { record, phase, shown, command, not_taken_since: None, next_try: None, is_unsure: true }
    }

    /// What decides about the next step besides the files of commands and of nodeagent.
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
    /// Where a record of this boot goes on.
    pub(crate) fn of(record: &OperationRecord) -> Self {
        if record.handed_over.is_some() {
            if record.is_done { Self::Done } else { Self::HandedOver }
        } else if record.waiting.is_empty() {
            Self::Idle
        } else if record.failure_of(record.waiting.first()).is_some() {
            Self::Failed
        } else {
            Self::Deferred
        }
    }

    /// The phase's name in logs.
    pub const fn name(&self) -> &'static str {
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
