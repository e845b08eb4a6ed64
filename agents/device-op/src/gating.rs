//! Which accepted command is next, why the others may not request their drain yet, and how long the pause after a failure is.

use runtime::retry::doubled;
use runtime::settings::Retry;
use schemas::Operation;

use crate::commands::is_taken_back;
use crate::facts::Facts;
use crate::policy::Policy;
use crate::record::{Accepted, Failure, OperationRecord};

/// Reason shown while a command waits for one without a record, which goes first because its record is in `/run`
/// alone.
const WITHOUT_RECORD_FIRST: &str = "a command without a record goes first (`--without-record`)";

/// Reason shown while nodeagent has no way to take the device down: a drain would empty the node for nothing.
const NO_MEANS: &str = "nodeagent has no means to take this device down: no logind, no `device.command`, no right to \
                        call reboot(2); the node is not drained before nodeagent has one";

/// What the files say about the accepted commands. Derived once for all phases, and again where the record has changed.
pub(crate) struct Judged {
    /// The first waiting command that is not held.
    pub(crate) next_up: Option<Accepted>,
    /// The command handed over was taken back.
    pub(crate) is_taken_back: bool,
    /// A freeze holds the command handed over.
    pub(crate) is_frozen: bool,
}

impl Judged {
    pub(crate) fn of(record: &OperationRecord, facts: &Facts) -> Self {
        let is_free = |accepted: &&Accepted| hold(accepted, record, facts).is_none();
        let current = record.handed_over.as_ref();
        Self {
            next_up: record.waiting.iter().find(is_free).copied(),
            is_taken_back: current.is_some_and(|current| is_taken_back(current, facts)),
            is_frozen: current.is_some_and(|current| frozen(current, facts).is_some()),
        }
    }
}

/// Why a waiting command may not even request a drain now; None if it may.
pub(crate) fn hold(accepted: &Accepted, record: &OperationRecord, facts: &Facts) -> Option<String> {
    if record.is_without() && !accepted.without_record {
        return Some(WITHOUT_RECORD_FIRST.to_owned());
    }
    if let Some(words) = frozen(accepted, facts) {
        return Some(words.to_owned());
    }
    if is_early(accepted, facts) {
        let (time, operation) = (accepted.not_before, accepted.operation);
        return Some(format!("it is commanded for {time}; `ebb {operation} --now` does not wait for that"));
    }
    if let Some(words) = outside_window(accepted, facts).filter(|_| !has_begun(accepted, record, facts)) {
        return Some(format!("{words}; `ebb {} --now` does not wait for it", accepted.operation));
    }
    lacks_means(accepted, facts).then(|| NO_MEANS.to_owned())
}

/// The reason for the freeze if the freeze holds this command: a command with `--now` passes it.
fn frozen<'a>(accepted: &Accepted, facts: &'a Facts) -> Option<&'a str> {
    facts.freeze.as_ref().filter(|_| !accepted.now).map(|freeze| freeze.words.as_str())
}

/// True before the time for which an operator has commanded it.
pub(crate) fn is_early(accepted: &Accepted, facts: &Facts) -> bool {
    !accepted.now && facts.wall.timestamp() < accepted.not_before.timestamp()
}

/// True if the drain of this command has begun. It goes on past the end of the window, but no further attempt begins.
fn has_begun(accepted: &Accepted, record: &OperationRecord, facts: &Facts) -> bool {
    record.attempt == Some(accepted.kind()) && !facts.is_pausing
}

/// Why no drain may begin for this command now, if the window is the reason: a command with `--now` passes it.
pub(crate) fn outside_window<'a>(accepted: &Accepted, facts: &'a Facts) -> Option<&'a str> {
    facts.window.as_ref().filter(|_| !accepted.now)?.holds(accepted.source)
}

/// True if nodeagent reports that it has no way to carry out this operation.
fn lacks_means(accepted: &Accepted, facts: &Facts) -> bool {
    match accepted.operation {
        Operation::Reboot | Operation::Poweroff => facts.nodeagent.has_no_means(),
        Operation::Shutdown => false,
    }
}

/// The pause after this failure. It doubles with each failure of nodeagent in a row.
pub(crate) fn pause(failure: &Failure, setbacks: u32, policy: &Policy) -> Retry {
    if failure.is_drain { policy.retry } else { doubled(policy.retry, setbacks) }
}
