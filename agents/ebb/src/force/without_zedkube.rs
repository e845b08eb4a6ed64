//! An override while zedkube does not run: this process is zedkube for one step.

use anyhow::{Context, bail};
use pubsub::{LockError, Root};
use runtime::zedbox::check_zedbox;
use runtime::{Agent, AgentFlags, StartError};
use schemas::{DrainOverride, agent};

use super::override_file::OverrideFile;
use super::result::{self, Became};

/// Writes the order's file and takes it as zedkube would, with zedkube's lock held. Nothing when zedkube has just started:
/// then it takes the order itself.
///
/// # Errors
/// No zedkube of ours has run in this boot, so that nobody reads its answer; the file cannot be written.
pub(super) async fn apply_without_zedkube(
    root: &Root,
    order: &DrainOverride,
) -> anyhow::Result<Option<Became>> {
    if result::report(root).is_none() {
        bail!(
            "nothing would happen: zedkube does not run here and has not run in this boot; start it with \
             `ebb zedkube`, then give the order again"
        );
    }
    let flags = AgentFlags {
        root: root.path().to_owned(),
        beside_zedbox: check_zedbox(root).is_err(),
        ..AgentFlags::default()
    };
    let zedkube = match Agent::start(agent::ZEDKUBE, &flags).await {
        Ok(zedkube) => zedkube,
        Err(StartError::Lock { source: LockError::Held { .. }, .. }) => return Ok(None),
        Err(error) => return Err(error).context("cannot stand in for zedkube"),
    };
    let mut file = OverrideFile::new(root)?;
    file.write(order)?;
    if let Err(error) = zedkube::take_override(zedkube.context()).await {
        let fate =
            if file.take_back() { "the order is taken back" } else { "the order may count all the same" };
        return Err(error).context(fate);
    }
    Ok(Some(result::now(root, order, &file)))
}
