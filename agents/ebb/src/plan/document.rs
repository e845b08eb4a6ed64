//! The plan as JSON.

use serde::Serialize;

use super::Foreseen;
use crate::drain::document::{BlockedDocument, PodDocument, of_blocked, of_line};

/// `ebb plan --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    name: String,
    cordoned: bool,
    /// Who says that the cordon is his; null if nobody does.
    cordoned_by: Option<String>,
    /// Every pod would go now.
    goes: bool,
    pods: Vec<PlannedDocument>,
    blocked: Vec<BlockedDocument>,
}

/// One pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlannedDocument {
    #[serde(flatten)]
    pod: PodDocument,
    order: i32,
    volumes: Vec<String>,
}

/// The plan of this node.
pub(crate) fn of(foreseen: &Foreseen) -> Document {
    let node = foreseen.picture.node.clone().unwrap_or_default();
    let pods = foreseen.trial.lines.iter().zip(&foreseen.extras);
    Document {
        goes: foreseen.obstacles().is_empty(),
        pods: pods
            .map(|(line, extra)| PlannedDocument {
                pod: of_line(line, false),
                order: extra.order,
                volumes: extra.volumes.clone(),
            })
            .collect(),
        blocked: foreseen.trial.blocked.iter().map(of_blocked).collect(),
        name: node.name,
        cordoned: node.cordoned,
        cordoned_by: node.cordoned_by,
    }
}
