//! The effects of a step, in the order in which they are carried out.

use runtime::OwnRequest;
use schemas::{BaseOsConfig, BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceLine};

use crate::record::ActivationRecord;
use crate::state::{Phase, State};

/// An action of the shell. Effects are carried out in order. When one fails, the rest is skipped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Write the record to disk; an empty record is removed.
    Record(ActivationRecord),
    /// Append a line for an activation to a file instead of carrying it out, once per boot, source, image and counter.
    WriteDown(DeviceLine),
    /// Withdraw baseos's own drain request.
    Withdraw,
    /// Publish the recorded drain request.
    Request {
        /// The request's serial and time.
        own: OwnRequest,
        /// UUID of the image for which the node is drained.
        uuid: String,
    },
    /// Publish BaseOsHold.
    Hold(Box<BaseOsHold>),
    /// Publish the BaseOsStatus of an image.
    Status(Box<BaseOsStatus>),
    /// Withdraw the BaseOsStatus of an image.
    Forget(String),
    /// Run the activate command, then send [`crate::facts::Event::Ended`].
    Activate {
        /// The serial in the event.
        serial: u32,
        config: BaseOsConfig,
    },
    /// Kill the activate command of an earlier baseos process: its time is over.
    EndLeftRunning,
    /// Run the next step at this time, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// The effects that lead from one state to the next, with the effects of the step itself (`own`).
///
/// The order makes every crash safe. The record is on disk before a drain is requested or a reboot is released.
/// BaseOsHold is published before a BaseOsStatus for which nodeagent reboots. The activate command is started last. A
/// BaseOsHold that releases nothing is published before the record is written, and if nothing is left to do, the
/// request is withdrawn before it, so that a take-back takes effect even on a disk that accepts no writes.
pub(crate) fn between(before: &State, after: &State, own: Vec<Effect>) -> Vec<Effect> {
    let is_first = |effect: &Effect| *effect == Effect::Withdraw && after.phase == Phase::Idle;
    let (first, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_first);
    let (activations, own): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|effect| matches!(effect, Effect::Activate { .. }));
    let is_recorded_again = before.is_unsure || before.record != after.record;
    let record = is_recorded_again.then(|| Effect::Record(after.record.clone()));
    let (first_topics, last_topics) = match after.hold.state {
        BaseOsHoldState::Idle | BaseOsHoldState::Deferred | BaseOsHoldState::Failed => {
            (changed_topics(before, after), Vec::new())
        }
        BaseOsHoldState::Activating | BaseOsHoldState::Activated => {
            (Vec::new(), changed_topics(before, after))
        }
    };
    let all = first_topics.into_iter().chain(first).chain(record).chain(own).chain(last_topics);
    all.chain(activations).collect()
}

/// The status topics that have changed.
fn changed_topics(before: &State, after: &State) -> Vec<Effect> {
    let all = before.is_unsure;
    let mut effects = Vec::new();
    if all || before.hold != after.hold {
        effects.push(Effect::Hold(Box::new(after.hold.clone())));
    }
    for (uuid, status) in &after.statuses {
        if all || before.statuses.get(uuid) != Some(status) {
            effects.push(Effect::Status(Box::new(status.clone())));
        }
    }
    let gone = before.statuses.keys().filter(|uuid| !after.statuses.contains_key(*uuid));
    effects.extend(gone.cloned().map(Effect::Forget));
    effects
}
