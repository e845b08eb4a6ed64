//! What has been accepted and is not done: the part of the state that survives a crash and a power cut.

use runtime::OwnRequest;
use runtime::plain_text::one_line;
use schemas::{Operation, SCHEMA_VERSION, Topic};
use serde::{Deserialize, Serialize};

/// So much of a failure's reason is kept of a record that somebody has edited, in bytes; ours are shorter.
const MOST_ERROR_BYTES: usize = 4096;

/// The persistent record of zedagent, key `global`: on disk before a counter is, so that a command whose counter
/// counts as done cannot be lost (D16).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperationRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which this was written.
    pub boot_id: String,
    /// The one operation that nodeagent was told to carry out.
    pub handed_over: Option<Accepted>,
    /// The operations that wait for the gate, at most one of each kind, most far-reaching first.
    pub waiting: Vec<Accepted>,
    /// nodeagent is done with what was handed over, and the device still runs: it is not carried out again.
    pub is_done: bool,
    /// The drain request that is ours.
    pub request: Option<OwnRequest>,
    /// What that request was made for; nothing once that operation is over.
    pub asked_for: Option<Operation>,
    /// The last try of an operation failed; while that one is the next, a pause runs.
    pub failed: Option<Failure>,
}

/// One accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Accepted {
    /// What is to be done.
    pub operation: Operation,
    /// The command's counter.
    pub counter: u32,
    /// Accepted in an earlier boot: its command may be absent now without having been taken back.
    pub carried_over: bool,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Failure {
    /// What was tried.
    pub operation: Option<Operation>,
    /// The counter of its command.
    pub counter: u32,
    /// It was the drain that failed, not nodeagent.
    pub is_drain: bool,
    /// Why.
    pub error: String,
    /// When, in milliseconds of this boot's clock.
    pub at_ms: u64,
}

impl Failure {
    /// nodeagent could not do it.
    pub(crate) const fn new(tried: Accepted, error: String, at_ms: u64) -> Self {
        Self { operation: Some(tried.operation), counter: tried.counter, is_drain: false, error, at_ms }
    }

    pub(crate) fn is_about(&self, accepted: &Accepted) -> bool {
        (self.operation, self.counter) == (Some(accepted.operation), accepted.counter)
    }
}

impl Topic for OperationRecord {
    const NAME: &'static str = "OperationRecord";
}

impl OperationRecord {
    /// Nothing accepted, nothing asked for.
    pub fn new(boot_id: &str) -> Self {
        Self { schema_version: SCHEMA_VERSION, boot_id: boot_id.to_owned(), ..Self::default() }
    }

    /// What can be made of a record that was read: in the order and the bounds that all others rely on, whoever wrote
    /// it.
    pub(crate) fn within_limits(self) -> Self {
        let failed = self.failed.map(|failed| {
            let error = one_line(&failed.error, MOST_ERROR_BYTES);
            Failure { error, ..failed }
        });
        let is_done = self.is_done && self.handed_over.is_some();
        let mut record = Self { waiting: Vec::new(), is_done, failed, ..self };
        self.waiting.into_iter().for_each(|accepted| record.queue(accepted));
        record
    }

    /// Nothing that has to survive.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(&self.boot_id)
    }

    /// The operation that counts now: the one handed over, else the most far-reaching that waits.
    pub fn current(&self) -> Option<&Accepted> {
        self.handed_over.as_ref().or_else(|| self.waiting.first())
    }

    /// The newest accepted command of this kind.
    pub fn latest(&self, operation: Operation) -> Option<&Accepted> {
        self.waiting.iter().chain(&self.handed_over).find(|accepted| accepted.operation == operation)
    }

    /// Lets a command wait, in the place of an older one of its kind.
    pub(crate) fn queue(&mut self, accepted: Accepted) {
        self.waiting.retain(|waiting| waiting.operation != accepted.operation);
        self.waiting.push(accepted);
        self.waiting.sort_by_key(|waiting| Operation::ALL.iter().position(|&rank| rank == waiting.operation));
    }

    /// Takes the operation that waits first as handed over.
    pub(crate) fn hand_over_first(&mut self) {
        if self.handed_over.is_none() && !self.waiting.is_empty() {
            self.handed_over = Some(self.waiting.remove(0));
        }
    }

    /// The operation that was handed over waits again, unless it is done or a newer command of its kind waits.
    pub(crate) fn take_back_to_queue(&mut self) {
        if self.is_done {
            return self.drop_handed_over();
        }
        if let Some(accepted) = self.handed_over.take()
            && self.waiting.iter().all(|waiting| waiting.operation != accepted.operation)
        {
            self.queue(accepted);
        }
    }

    /// The operation that was handed over is over; its request serves no other one.
    pub(crate) fn drop_handed_over(&mut self) {
        self.handed_over = None;
        self.is_done = false;
        self.asked_for = None;
    }

    /// The failure of this operation, if its last try failed.
    pub(crate) fn failure_of(&self, accepted: Option<&Accepted>) -> Option<&Failure> {
        self.failed.as_ref().filter(|failed| accepted.is_some_and(|accepted| failed.is_about(accepted)))
    }

    /// A failure of what is not to be done any more means nothing.
    pub(crate) fn forget_stale_failure(&mut self) {
        let mut all = self.waiting.iter().chain(&self.handed_over);
        if self.failed.as_ref().is_some_and(|failed| all.all(|accepted| !failed.is_about(accepted))) {
            self.failed = None;
        }
    }

    /// What is left after a boot: whatever was handed over has been done, and so has any reboot. A shutdown or
    /// poweroff that still waited goes on waiting.
    pub(crate) fn in_new_boot(self, boot_id: &str) -> Self {
        let still_due = |accepted: &Accepted| match accepted.operation {
            Operation::Reboot => false,
            Operation::Shutdown | Operation::Poweroff => true,
        };
        let carried_over = |accepted| Accepted { carried_over: true, ..accepted };
        let waiting = self.waiting.into_iter().filter(still_due).map(carried_over).collect();
        Self { waiting, request: self.request, ..Self::new(boot_id) }
    }
}
