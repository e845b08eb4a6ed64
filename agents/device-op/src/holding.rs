//! What keeps an accepted command from asking for its drain, and how long the pause after a failure is.

use std::time::Duration;

use runtime::settings::Retry;
use schemas::{Backoff, Operation};

use crate::facts::Facts;
use crate::operation::Policy;
use crate::record::{Accepted, Failure, OperationRecord};

/// The longest pause after failures that are not a drain's.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// What an operator reads while another command goes first because its record is in `/run` alone.
const WITHOUT_RECORD_FIRST: &str = "a command without a record goes first (`--without-record`)";

/// What an operator reads of a device that would stay up after its node was emptied.
const NO_MEANS: &str = "nodeagent has no means to take this device down: no logind, no `device.command`, no right to \
                        call reboot(2); nothing is drained before it has one";

/// The command that may begin now: the first that nothing holds.
pub(crate) fn next_up(record: &OperationRecord, facts: &Facts) -> Option<Accepted> {
    record.waiting.iter().find(|accepted| hold(accepted, record, facts).is_none()).copied()
}

/// Why a command that waits may not even ask for a drain now.
pub(crate) fn hold(accepted: &Accepted, record: &OperationRecord, facts: &Facts) -> Option<String> {
    if record.is_without() && !accepted.without_record {
        return Some(WITHOUT_RECORD_FIRST.to_owned());
    }
    if let Some(words) = frozen(accepted, facts) {
        return Some(words.to_owned());
    }
    lacks_means(accepted, facts).then(|| NO_MEANS.to_owned())
}

/// The brake is on, and no operator's `--now` passes it.
pub(crate) fn frozen<'a>(accepted: &Accepted, facts: &'a Facts) -> Option<&'a str> {
    facts.freeze.as_ref().filter(|_| !accepted.now).map(|freeze| freeze.words.as_str())
}

/// nodeagent has said that it could not do it.
fn lacks_means(accepted: &Accepted, facts: &Facts) -> bool {
    let means = facts.nodeagent.action.as_ref().and_then(|action| action.means.as_ref());
    match accepted.operation {
        Operation::Reboot | Operation::Poweroff => means.is_some_and(Vec::is_empty),
        Operation::Shutdown => false,
    }
}

/// The pause after this failure: after one of nodeagent's it doubles with each, since every try empties the node.
pub(crate) fn pause(failure: &Failure, setbacks: u32, policy: &Policy) -> Retry {
    match policy.retry {
        Retry::Never => Retry::Never,
        Retry::After(pause) if failure.is_drain => Retry::After(pause),
        Retry::After(pause) => {
            let backoff = Backoff { first: pause, longest: LONGEST_PAUSE.max(pause) };
            Retry::After(backoff.after(setbacks))
        }
    }
}
