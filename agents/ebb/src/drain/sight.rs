//! What can be seen of one node's drain at one time.

use std::collections::BTreeMap;

use cluster::drainer::Drain;
use drain::Moment;
use drain::diagnosis::Blocked;
use drain::progress::{Line, Progress, VolumeLine, attempt};
use drain::state::{By, State};

/// All that people are told about one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    /// How far the drain is.
    pub(crate) progress: Progress,
    /// One line for each pod that is on the node.
    pub(crate) lines: Vec<Line>,
    /// The pods that do not leave, with the reasons.
    pub(crate) blocked: Vec<Blocked>,
    /// The volumes that are waited for.
    pub(crate) volumes: Vec<VolumeLine>,
    /// How each pod that has to leave is told to go, by UID.
    pub(crate) by: BTreeMap<String, By>,
    /// Something has been seen of the node.
    pub(crate) is_pictured: bool,
    /// All that had to leave is gone; fresh lists have to prove it.
    pub(crate) is_proving: bool,
    /// The API server does not answer, since then.
    pub(crate) away_since: Option<Moment>,
    /// The node is not in the cluster any more.
    pub(crate) is_node_gone: bool,
    /// By the clock of `since` in lines.
    pub(crate) now: Moment,
}

impl Sight {
    /// The blocked pods by UID: there may be a thousand of them.
    pub(crate) fn blocked_by_uid(&self) -> BTreeMap<&str, &Blocked> {
        self.blocked.iter().map(|blocked| (blocked.pod.uid.as_str(), blocked)).collect()
    }

    /// What the drain shows now.
    pub(crate) fn of(drain: &Drain, now: Moment) -> Self {
        let attempt = attempt(drain.state());
        let picture = attempt.and_then(drain::state::Attempt::snapshot);
        let tracks = attempt.into_iter().flat_map(|attempt| attempt.pods());
        Self {
            progress: drain.progress(),
            lines: drain.lines(),
            blocked: drain.blocked(),
            volumes: drain.volumes(),
            by: tracks.map(|(uid, track)| (uid.clone(), track.by())).collect(),
            is_pictured: picture.is_some(),
            is_proving: matches!(drain.state(), State::Proving(..)),
            away_since: attempt.and_then(drain::state::Attempt::away_since),
            is_node_gone: picture.is_some_and(|picture| picture.node.is_none()),
            now,
        }
    }
}
