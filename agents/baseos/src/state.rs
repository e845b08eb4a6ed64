//! What baseos knows.

use std::collections::BTreeMap;

use runtime::requester::Listen;
use runtime::shown_try::ShownTry;
use schemas::{BaseOsHold, BaseOsStatus};
use text::one_line;

use crate::record::ActivationRecord;

/// So much of a published release is taken up again, in bytes; ours are shorter.
const MOST_RELEASE_BYTES: usize = 4096;

/// Everything that decisions need besides the facts. One loop owns it.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What has been accepted, started and finished; on disk.
    pub record: ActivationRecord,
    /// How far the current image is.
    pub phase: Phase,
    /// BaseOsHold as published.
    pub hold: BaseOsHold,
    /// BaseOsStatus of each image as published, by UUID.
    pub statuses: BTreeMap<String, BaseOsStatus>,
    /// The next try after a failure.
    pub(crate) next_try: Option<ShownTry>,
    /// What blocks besides the gate.
    pub(crate) obstacle: String,
    /// Counts activate commands, so that a late answer is recognised.
    pub(crate) serial: u32,
    /// The files may differ from what is here, and the next step writes them all.
    pub(crate) is_unsure: bool,
}

/// How far the current image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// No image needs anything.
    Idle,
    /// The gate, or something else, holds it.
    Deferred,
    /// The hold says Activating; nothing has been started.
    Holding,
    /// The activate command runs.
    Activating {
        /// Its serial.
        serial: u32,
    },
    /// An activate command runs that an earlier process has started: nobody will tell how it ended.
    Adopted,
    /// nodeagent may reboot into it; the gate is still asked.
    Activated,
    /// It was reverted, and the hold is cleared; nodeagent has to let go of it.
    Recalling,
    /// The drain failed; the request is withdrawn.
    Failed,
}

impl State {
    /// The state at start, from what is on disk: the record, and what was published in this boot.
    pub fn resume(
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
        let (next_try, obstacle) = (None, String::new());
        // What another boot let go is not let go: `/run` may be kept. An older baseos names no boot.
        let hold =
            if hold.boot_id.is_empty() || hold.boot_id == boot_id { hold } else { BaseOsHold::default() };
        let release = one_line(&hold.release, MOST_RELEASE_BYTES);
        let hold = BaseOsHold { release, ..hold };
        Self { record, phase, hold, statuses, next_try, obstacle, serial: 0, is_unsure: true }
    }

    /// Where to go on after an effect failed: from what is on disk (`resumed`), except while the activate command
    /// runs. Its result must not be lost, and nothing else is decided meanwhile.
    #[must_use]
    pub fn after_failure(self, resumed: Self) -> Self {
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

    /// What decides about the next step besides the files of images and of nodeagent.
    pub(crate) fn listen(&self) -> Listen {
        match self.phase {
            Phase::Deferred | Phase::Holding | Phase::Activated => Listen::ToGate,
            Phase::Failed => Listen::ToReport,
            Phase::Idle | Phase::Activating { .. } | Phase::Adopted | Phase::Recalling => Listen::ToNothing,
        }
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

impl Phase {
    /// Where a record goes on: the gate is asked again for whatever stands.
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
    pub const fn name(&self) -> &'static str {
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
