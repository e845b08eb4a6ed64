//! What can be seen of one node's drain at one time.

use std::collections::BTreeMap;

use cluster::drainer::Drain;
use drain::Moment;
use drain::diagnosis::Blocked;
use drain::progress::{Line, Progress, VolumeLine, attempt};
use drain::state::{By, Stage, State};

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
    /// Takes over from the sight before what blocked pods whose eviction has just been sent again, or waits for that:
    /// the last refusal counts until there is another answer.
    pub(crate) fn remember(&mut self, before: &Self) {
        let known = before.blocked_by_uid();
        let now = self.blocked_by_uid();
        let is_open = |line: &&Line| matches!(line.stage, Some(Stage::Sent | Stage::Waiting));
        let open = self.lines.iter().filter(is_open).map(|line| line.id.uid.as_str());
        let open = open.filter(|uid| !now.contains_key(uid));
        let remembered: Vec<Blocked> = open.filter_map(|uid| known.get(uid).copied().cloned()).collect();
        self.blocked.extend(remembered);
    }

    /// The blocked pods by UID: there may be a thousand of them.
    pub(crate) fn blocked_by_uid(&self) -> BTreeMap<&str, &Blocked> {
        self.blocked.iter().map(|blocked| (blocked.pod.uid.as_str(), blocked)).collect()
    }

    /// What the drain shows now.
    pub(crate) fn of(drain: &Drain, now: Moment) -> Self {
        let attempt = attempt(drain.state());
        let picture = attempt.and_then(|attempt| attempt.picture.as_ref());
        let tracks = attempt.into_iter().flat_map(|attempt| &attempt.pods);
        Self {
            progress: drain.progress(),
            lines: drain.lines(),
            blocked: drain.blocked(),
            volumes: drain.volumes(),
            by: tracks.map(|(uid, track)| (uid.clone(), track.by)).collect(),
            is_pictured: picture.is_some(),
            is_proving: matches!(drain.state(), State::Proving(..)),
            away_since: attempt.and_then(|attempt| attempt.away_since),
            is_node_gone: picture.is_some_and(|picture| picture.node.is_none()),
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use drain::state::Cause;

    use super::*;
    use crate::drain::testing::{line, pod};

    #[test]
    fn the_last_refusal_counts_until_there_is_another_answer() {
        let refused = || Stage::Blocked { cause: Cause::TwoBudgets, next: Moment::NEVER };
        let blocked = |cause: &str| Blocked { pod: pod("a"), cause: cause.into(), ..Blocked::default() };
        let cases = [
            (Some(Stage::Sent), None, Some("before")),
            (Some(Stage::Waiting), None, Some("before")),
            (Some(refused()), Some("now"), Some("now")),
            (Some(Stage::Waiting), Some("now"), Some("now")),
            (Some(Stage::Accepted), None, None),
            (Some(Stage::Terminating), None, None),
            (None, None, None),
        ];
        for (stage, now, expected) in cases {
            let before = Sight { blocked: vec![blocked("before")], ..Sight::default() };
            let mut sight = Sight {
                lines: vec![line("a", stage.clone()), line("b", Some(Stage::Sent))],
                blocked: now.map(blocked).into_iter().collect(),
                ..Sight::default()
            };
            sight.remember(&before);
            let causes: Vec<&str> = sight.blocked.iter().map(|blocked| blocked.cause.as_str()).collect();
            assert_eq!(causes, Vec::from_iter(expected), "{stage:?}");
        }
    }
}
