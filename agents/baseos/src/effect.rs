//! What is to be done, as ordered data.

use runtime::OwnRequest;
use schemas::{BaseOsConfig, BaseOsHold, BaseOsStatus};

use crate::record::ActivationRecord;
use crate::state::State;

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
    /// Look again then, in milliseconds of this boot's clock.
    WakeAt(u64),
}

/// What takes the device from one state to the next. `own` is what the step itself wants.
///
/// The record is on disk before anything is asked, said or started; the hold is said before a status that nodeagent
/// reboots for; the command is started last.
pub(crate) fn between(before: &State, after: &State, own: Vec<Effect>) -> Vec<Effect> {
    let all = before.is_unsure;
    let (activations, own): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|effect| matches!(effect, Effect::Activate { .. }));
    let mut effects = Vec::new();
    if all || before.record != after.record {
        effects.push(Effect::Record(after.record.clone()));
    }
    effects.extend(own);
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
    effects.extend(activations);
    effects
}
