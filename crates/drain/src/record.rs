//! What outlives the process that drains: an attempt that is resumed keeps its deadline and its history.
//!
//! All times are of this boot; after a reboot there is nothing to resume. Volumes are not kept: the proof finds whatever
//! is still attached to the node.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::state::{Attempt, Track};
use crate::time::Moment;

/// What a process has to know of an attempt that another one has begun.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Record {
    /// When it began.
    pub started: Moment,
    /// When it has failed.
    pub deadline: Moment,
    /// How long the API server was away in it.
    pub away_total: Duration,
    /// Since when each pod has been refused, by UID: it is deleted no later for it.
    pub refused_since: BTreeMap<String, Moment>,
}

/// What to keep of this attempt. Time during an outage that is not over yet counts, since nobody knows how it ends.
pub fn record(attempt: &Attempt) -> Record {
    let refused = |(uid, track): (&String, &Track)| Some((uid.clone(), track.refused_since?));
    Record {
        started: attempt.started,
        deadline: attempt.deadline,
        away_total: attempt.away_total,
        refused_since: attempt.pods.iter().filter_map(refused).collect(),
    }
}

#[cfg(test)]
mod tests;
