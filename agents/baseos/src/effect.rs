//! What is to be done, as ordered data.

use runtime::OwnRequest;
use schemas::{BaseOsConfig, BaseOsHold, BaseOsHoldState, BaseOsStatus};

use crate::record::ActivationRecord;
use crate::state::{Phase, State};

/// One thing to do. They are done in their order; when one fails, the rest is not done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Put the record on disk; an empty one is removed.
    Record(ActivationRecord),
    /// Write an activation down instead of carrying it out, once per boot, image and counter.
    WriteDown(BaseOsConfig),
    /// Withdraw the drain request that is ours.
    Withdraw,
    /// Publish the recorded drain request.
    Request {
        /// The request.
        own: OwnRequest,
        /// UUID of the image it is for.
        uuid: String,
    },
    /// Publish BaseOsHold.
    Hold(Box<BaseOsHold>),
    /// Publish the BaseOsStatus of an image.
    Status(Box<BaseOsStatus>),
    /// Withdraw the BaseOsStatus of an image.
    Forget(String),
    /// Run the activate command, then send [`crate::activation::Event::Ended`].
    Activate {
        /// Comes back with the event.
        serial: u32,
        /// The image.
        config: BaseOsConfig,
    },
    /// End the activate command that an earlier process has started: its time is over.
    EndLeftRunning,
    /// Look again then, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// What takes the device from one state to the next. `own` is what the step itself wants.
///
/// The record is on disk before anything is asked or let go; the hold is said before a status that nodeagent reboots
/// for; the command is started last. What lets nothing go is said before the record is written, and with nothing left
/// to do the request is withdrawn before it: on a disk that takes no record a take-back must still take effect.
pub(crate) fn between(before: &State, after: &State, own: Vec<Effect>) -> Vec<Effect> {
    let is_first = |effect: &Effect| *effect == Effect::Withdraw && after.phase == Phase::Idle;
    let (first, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_first);
    let (activations, own): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|effect| matches!(effect, Effect::Activate { .. }));
    let is_recorded_anew = before.is_unsure || before.record != after.record;
    let record = is_recorded_anew.then(|| Effect::Record(after.record.clone()));
    let (said_first, said_last) = match after.hold.state {
        BaseOsHoldState::Idle | BaseOsHoldState::Deferred | BaseOsHoldState::Failed => {
            (said(before, after), Vec::new())
        }
        BaseOsHoldState::Activating | BaseOsHoldState::Activated => (Vec::new(), said(before, after)),
    };
    let all = said_first.into_iter().chain(first).chain(record).chain(own).chain(said_last);
    all.chain(activations).collect()
}

/// What others see, as far as it has changed.
fn said(before: &State, after: &State) -> Vec<Effect> {
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
