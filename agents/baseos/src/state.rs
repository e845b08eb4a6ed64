//! The state of baseos.

use std::collections::BTreeMap;

use runtime::requester::Listen;
use runtime::shown_try::ShownTry;
use schemas::{BaseOsHold, BaseOsStatus};
use text::one_line;

use crate::record::ActivationRecord;

/// The reason while what an earlier baseos left running was killed, and does not end.
const LEFT_WAS_KILLED: &str = "an earlier activation was killed at its time limit, and its processes do not \
    end: they may wait for a broken disk (state D in ps)";

/// Limit in bytes for the release text that is read back from BaseOsHold; baseos writes shorter ones.
const MOST_RELEASE_BYTES: usize = 4096;

/// All that decisions need besides the facts. Owned by one loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// The images that are accepted, started and finished, as on disk.
    pub record: ActivationRecord,
    /// The phase of the current image.
    pub phase: Phase,
    /// BaseOsHold as published.
    pub hold: BaseOsHold,
    /// BaseOsStatus of each image as published, by UUID.
    pub statuses: BTreeMap<String, BaseOsStatus>,
    /// The next attempt after a failure.
    pub(crate) next_try: Option<ShownTry>,
    /// The reason why the image has to wait, other than the gate; empty if there is none.
    pub(crate) obstacle: String,
    /// Since when nodeagent has not prepared the reboot into the activated image, in milliseconds of this boot.
    pub(crate) not_taken_since: Option<u64>,
    /// When what an earlier baseos left running was killed last, in milliseconds of this boot; None while its time is
    /// not over.
    pub(crate) left_killed_at: Option<u64>,
    /// Number of the last activate command, so that the answer of an older one is ignored.
    pub(crate) serial: u32,
    /// True after `resume` or a failed effect: the files may differ from this state, so the next step writes them
    /// all.
    pub(crate) is_unsure: bool,
}

/// Phase of the current image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No image needs an activation or a reboot.
    Idle,
    /// The gate or another reason holds the image.
    Deferred,
    /// BaseOsHold says Activating, so that nodeagent keeps the device up; the activate command is not started yet.
    Holding,
    /// The activate command runs.
    Activating {
        /// The effect's serial.
        serial: u32,
    },
    /// An activate command of an earlier baseos process runs. Its result will not be known.
    Adopted,
    /// The image is activated and nodeagent may reboot into it; the gate is still checked.
    Activated,
    /// The image was reverted and BaseOsHold is cleared; nodeagent has to release the reboot.
    Recalling,
    /// The drain or the reboot failed. After a failed drain the request is withdrawn.
    Failed,
}

impl State {
    /// The state from the files: the record, and the topics that were published last in this boot.
    pub(crate) fn resume(
        record: Option<ActivationRecord>,
        hold: BaseOsHold,
        statuses: BTreeMap<String, BaseOsStatus>,
        boot_id: &str,
    ) -> Self {
        let mut record =
            record.map_or_else(|| ActivationRecord::new(boot_id), ActivationRecord::within_limits);
        if record.boot_id != boot_id {
            record = record.in_new_boot(boot_id);
        }
        let phase = Phase::of(&record);
        // A BaseOsHold of another boot releases nothing, because `/run` may be kept over a boot.
        let hold = if hold.boot_id == boot_id { hold } else { BaseOsHold::default() };
        let release = one_line(&hold.release, MOST_RELEASE_BYTES);
        let hold = BaseOsHold { release, ..hold };
        Self {
            record,
            phase,
            hold,
            statuses,
            next_try: None,
            obstacle: String::new(),
            not_taken_since: None,
            left_killed_at: None,
            serial: 0,
            is_unsure: true,
        }
    }

    /// The state after an effect failed: as read from the files (`resumed`). Exception: while the activate command
    /// runs, the state is kept, because the result must not be lost; no other decision is made meanwhile.
    #[must_use]
    pub(crate) fn after_failure(self, resumed: Self) -> Self {
        match self.phase {
            Phase::Activating { .. } => Self { is_unsure: true, ..self },
            Phase::Idle
            | Phase::Deferred
            | Phase::Holding
            | Phase::Adopted
            | Phase::Activated
            | Phase::Recalling
            | Phase::Failed => Self { serial: self.serial, ..resumed },
        }
    }

    /// Which of zedkube's files the next step depends on.
    pub(crate) fn listen(&self) -> Listen {
        match self.phase {
            Phase::Deferred | Phase::Holding | Phase::Activated => Listen::ToGate,
            Phase::Failed => Listen::ToReport,
            Phase::Idle | Phase::Activating { .. } | Phase::Adopted | Phase::Recalling => Listen::ToNothing,
        }
    }

    /// The words for what an earlier baseos left running: `words`, until it was killed.
    pub(crate) const fn left_words(&self, words: &'static str) -> &'static str {
        if self.left_killed_at.is_some() { LEFT_WAS_KILLED } else { words }
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

impl Phase {
    /// The phase in which a record continues. An image that was activated is Deferred, because the gate is checked
    /// again.
    pub(crate) fn of(record: &ActivationRecord) -> Self {
        if record.current.is_none() {
            Self::Idle
        } else if record.failed.is_some() {
            Self::Failed
        } else {
            Self::Deferred
        }
    }

    /// The phase's name in logs.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Deferred => "deferred",
            Self::Holding => "held",
            Self::Activating { .. } => "being activated",
            Self::Adopted => "being activated by a command of an earlier baseos",
            Self::Activated => "activated",
            Self::Recalling => "recalled",
            Self::Failed => "failed",
        }
    }
}
