//! Where a phase goes next: phases say it, the coordinator ([`mod@crate::step`]) does it.

use schemas::Outcome;

use crate::phase::{Cordoning, Failed, Phase};

/// Where a phase goes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// It stays where it is.
    Stay,
    /// A new drain, for all that ask and were not answered.
    Begin,
    /// Everybody's answer is taken back, and a new drain begins.
    BeginAnew,
    /// The node is cordoned for this attempt.
    Cordon(u32),
    /// The node is cordoned: the attempt begins.
    Attempt(Cordoning),
    /// The attempt has failed, for this reason: another one follows after a pause, or it was the last.
    AttemptFailed(Cordoning, String),
    /// The drain ends well.
    Finish(Outcome),
    /// The drain has failed.
    Fail(Failed),
    /// Into a phase that nothing has to be done for.
    GoOn(Phase),
}
