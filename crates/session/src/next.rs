//! The next phase: a phase only names it, the coordinator ([`mod@crate::step`]) enters it.

use schemas::Outcome;

use crate::phase::{Cordoning, Failed, Phase};

/// The next phase, as the present phase wants it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// The phase stays.
    Stay,
    /// A new drain begins, for all requests without an answer.
    Begin,
    /// All answers are taken back, and a new drain begins.
    BeginAnew,
    /// The node is cordoned for this attempt.
    Cordon(u32),
    /// The node is cordoned, and the attempt begins.
    Attempt(Cordoning),
    /// The attempt has failed, for this reason: another one follows after a pause, or the drain has failed.
    AttemptFailed(Cordoning, String),
    /// The drain ends with an outcome that lets the node go down.
    Finish(Outcome),
    /// The drain has failed.
    Fail(Failed),
    /// Enters this phase; nothing else has to be done.
    GoOn(Phase),
}
