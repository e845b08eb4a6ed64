//! `ebb slots forget`.

use std::process::ExitCode;

use anyhow::Context;
use pubsub::store::remove_durably;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::peers;
use schemas::{KnownHolders, OwnCordon, Topic, agent};
use serde::Serialize;

use crate::operator::{OperatorFlags, journal};

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    /// The node that may still carry zedkube's cordon or slot.
    left_behind: Option<OwnCordon>,
    /// Nodes whose slots were lost with their table.
    lost: Vec<String>,
    by: String,
    text: String,
}

/// Removes the items in which zedkube keeps this. A zedkube that runs notices that within 10 s.
///
/// # Errors
/// The items cannot be read or removed.
pub(super) fn run(place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let left_behind = kept::<OwnCordon>(&root)?;
    let lost = kept::<KnownHolders>(&root)?.map(|known| known.lost).unwrap_or_default();
    let lost: Vec<String> = lost.into_iter().map(|holder| holder.node).collect();
    if left_behind.is_some() {
        remove::<OwnCordon>(&root)?;
    }
    if !lost.is_empty() {
        remove::<KnownHolders>(&root)?;
    }
    let text = line(left_behind.as_ref(), &lost);
    let by = peers::user();
    if left_behind.is_some() || !lost.is_empty() {
        journal(&root, &format!("{text} (by {by})"), "");
    }
    place.answer(&text, &Document { left_behind, lost, by, text: text.clone() })?;
    Ok(ExitCode::SUCCESS)
}

fn line(left_behind: Option<&OwnCordon>, lost: &[String]) -> String {
    let cordon = left_behind.map(|left| {
        let of = if left.cluster_uid.is_empty() {
            String::new()
        } else {
            format!(" of the cluster whose namespace kube-system has UID {}", left.cluster_uid)
        };
        format!("that zedkube's cordon or slot may still be on node {}{of}", left.node)
    });
    let lost = (!lost.is_empty()).then(|| format!("the lost slots of {}", lost.join(", ")));
    let parts: Vec<String> = cordon.into_iter().chain(lost).collect();
    if parts.is_empty() {
        return "there is nothing to forget".to_owned();
    }
    format!("forgotten: {}; a zedkube that runs follows within 10 s", parts.join("; "))
}

fn kept<T: Topic>(root: &Root) -> anyhow::Result<Option<T>> {
    read_item(root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global())
        .map_err(|refusal| anyhow::anyhow!("{} cannot be read: {}", T::NAME, refusal.reason))
}

fn remove<T: Topic>(root: &Root) -> anyhow::Result<()> {
    let folder = root.topic::<T>(agent::ZEDKUBE, Persistence::Persistent).folder();
    remove_durably(&folder, &TopicKey::global().file_name())
        .with_context(|| format!("{} cannot be removed", T::NAME))
        .map(drop)
}
