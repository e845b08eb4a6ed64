//! An override while zedkube does not run.

use anyhow::bail;
use pubsub::Root;
use schemas::DrainOverride;

use super::result::Became;

/// The place for what happens when nobody is there to take the file: becoming zedkube for one step of its own.
///
/// # Errors
/// Always: that step does not exist yet. A file that is left for the next start would be refused as left over.
pub(super) fn apply_without_zedkube(_root: &Root, _order: &DrainOverride) -> anyhow::Result<Became> {
    bail!(
        "nothing would happen: zedkube does not run here, and nobody else applies an override; start it with \
         `ebb zedkube`, then give the order again"
    );
}
