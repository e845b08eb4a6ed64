//! Tells the cluster how far the drain is: the conditions of our Node. They follow from the state alone, so a restarted
//! zedkube corrects what it finds there.

use std::time::Duration;

use cluster::node_conditions::{
    DrainConditions, DrainEnd, DrainSaid, DrainState, DrainStory, DrainTrouble, FAILED, PENDING, RETURNING,
    say,
};
use cluster::{ApiFailure, Cluster, node_conditions};
use drain::Moment;
use drain::view::NodeView;
use schemas::{Blocker, GoTime, NOT_DRAINED, NodeDrainReport, Outcome, agent};
use session::{Phase, State};

use crate::link::Link;
use crate::newest::{Newest, Value};

/// Shortest time between two writes of the conditions for the same state: with other words, or because somebody has overwritten
/// them.
const PAUSE: Duration = Duration::from_secs(10);

/// Troubles that a condition names: it has 1 KiB.
const MOST_BLOCKERS: usize = 3;

/// Writes the conditions: at once when the state changes, otherwise at most every 10 s.
#[derive(Debug)]
pub(crate) struct Conditions {
    task: Newest<Written>,
    /// What the task was given last, and when.
    last: Option<(Written, Moment)>,
}

/// What is to stand on a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    node: String,
    uid: String,
    /// What stands there; `None` if that is not known.
    shown: Option<DrainConditions>,
    said: Option<DrainSaid>,
}

impl Value for Written {
    const FAILED: &'static str = "the conditions DrainInProgress and Drained of our Node cannot be written (drains go on without them)";

    fn tells_the_same(&self, other: &Self) -> bool {
        let state = |written: &Self| written.said.as_ref().map(|said| said.state);
        self.uid == other.uid && state(self) == state(other)
    }

    async fn write(&self, cluster: &Cluster) -> Result<(), ApiFailure> {
        say(cluster, &self.node, &self.uid, self.shown.as_ref(), self.said.as_ref()).await
    }
}

impl Conditions {
    /// Starts the task that writes. Has to be called in a tokio runtime.
    pub(crate) fn start(link: Link) -> Self {
        Self { task: Newest::start(link), last: None }
    }

    /// Has the conditions written, if our Node shows others and it is time. Without a Node nothing is written, and it is not
    /// known any more what it shows. While no watch shows the Node, what was written last counts as shown. Returns when this
    /// has to be called again.
    pub(crate) fn show(
        &mut self,
        own: Option<&NodeView>,
        watched: Option<&DrainConditions>,
        said: Option<&DrainSaid>,
        now: Moment,
    ) -> Moment {
        let Some(own) = own else {
            self.task.forget();
            self.last = None;
            return Moment::NEVER;
        };
        let last = self.last.as_ref().map(|(last, _)| last).filter(|last| last.uid == own.uid);
        let is_written = last.and_then(|last| last.said.as_ref()) == said;
        let written = || last.map(|last| DrainConditions::telling(last.said.as_ref()));
        let wanted = Written {
            node: own.name.clone(),
            uid: own.uid.clone(),
            shown: watched.cloned().or_else(written),
            said: said.cloned(),
        };
        match watched {
            Some(shown) if shown.show(said) => {
                self.task.forget();
                return Moment::NEVER;
            }
            // The task goes on until the server has taken it.
            None if is_written => return Moment::NEVER,
            Some(_) | None => {}
        }
        if let Some((last, at)) = &self.last
            && last.tells_the_same(&wanted)
            && now < *at + PAUSE
        {
            return *at + PAUSE;
        }
        self.task.give(wanted.clone());
        self.last = Some((wanted, now));
        now + PAUSE
    }
}

/// What the conditions have to say; `None` while there is nothing to tell, so that zedkube's words go.
pub(crate) fn said(state: &State, report: &NodeDrainReport) -> Option<DrainSaid> {
    let (drain, reason) = match &state.phase {
        Phase::Idle if report.phase == Phase::Idle.name() => return None,
        Phase::Idle => (DrainState::Neither, RETURNING),
        Phase::Waiting(_) => (DrainState::Neither, PENDING),
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => {
            (DrainState::InProgress, cause(report))
        }
        Phase::Complete { outcome: Outcome::Drained, .. } => (DrainState::Drained, "DrainCompleted"),
        Phase::Complete { .. } => (DrainState::Neither, node_conditions::NOT_DRAINED),
        Phase::Failed(_) => (DrainState::Neither, FAILED),
    };
    Some(DrainSaid::new(drain, reason, &story(state, report).text()))
}

/// Why the node is drained, in a word of KEP-5683.
fn cause(report: &NodeDrainReport) -> &'static str {
    let is_of_shutdown = report.requests.iter().any(|request| request.publisher == agent::HOLD);
    if is_of_shutdown { "NodeShutdown" } else { "AdminRequested" }
}

/// Phase, reason and hint; when the present attempt, or the wait, ends; and the troubles that hold pods.
fn story(state: &State, report: &NodeDrainReport) -> DrainStory {
    let is_undrained = matches!(state.phase, Phase::Complete { outcome, .. } if outcome != Outcome::Drained);
    let undrained = if is_undrained { format!("{NOT_DRAINED}: ") } else { String::new() };
    let is_of_blocker = report.blockers.iter().any(|blocker| blocker.hint == report.hint);
    let end = match &state.phase {
        Phase::Waiting(_) => DrainEnd::Undrained,
        Phase::Pausing { .. } => DrainEnd::NextAttempt,
        Phase::Idle
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => DrainEnd::Attempt,
    };
    let blockers = report.blockers.iter().take(MOST_BLOCKERS);
    let blockers = blockers.filter(|_| !matches!(state.phase, Phase::Idle | Phase::Complete { .. }));
    let trouble = |blocker: &Blocker| {
        let Blocker { what, hint, pods, examples, by: _ } = blocker;
        let examples = examples.join(", ");
        let of_pods = match pods {
            0 => String::new(),
            1 => format!(" (1 pod: {examples})"),
            more => format!(" ({more} pods: {examples})"),
        };
        DrainTrouble { what: format!("{what}{of_pods}"), hint: hint.clone() }
    };
    DrainStory {
        head: format!("{}: {undrained}{}", report.phase, report.reason),
        hint: if is_of_blocker { String::new() } else { report.hint.clone() },
        end: (report.deadline != GoTime::ZERO).then(|| (end, report.deadline.to_string())),
        troubles: blockers.map(trouble).collect(),
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DrainRequester, Member, RequestLine};
    use session::phase::{Failed, Waiting};

    use super::*;

    #[tokio::test]
    async fn a_state_is_written_at_once_and_other_words_at_most_every_ten_seconds() {
        let (task, mut given) = Newest::unwritten();
        let mut conditions = Conditions { task, last: None };
        let of = |state, text| Some(DrainSaid::new(state, "AdminRequested", text));
        let one = of(DrainState::InProgress, "1 of 9");
        let two = of(DrainState::InProgress, "2 of 9");
        let three = of(DrainState::InProgress, "3 of 9");
        let drained = of(DrainState::Drained, "all");
        let seconds = |seconds: u64| Moment(1000 * seconds);
        let own = NodeView { name: "edge-a".to_owned(), uid: "n1".to_owned(), ..NodeView::default() };
        // At this time the Node shows this, and this is to be said. Is that written, and when is the next look?
        // Without a watch it is not known what the Node shows.
        let unknown = None;
        for (at, shown, said, is_written, next) in [
            (0, Some(&None), &None, false, Moment::NEVER),
            (1, Some(&None), &one, true, seconds(11)),
            (2, Some(&None), &one, false, seconds(11)),
            (3, Some(&one), &one, false, Moment::NEVER),
            (4, Some(&one), &two, false, seconds(11)),
            (11, unknown, &two, true, seconds(21)),
            (12, unknown, &two, false, Moment::NEVER),
            (13, unknown, &three, false, seconds(21)),
            (14, unknown, &drained, true, seconds(24)),
            // Somebody else overwrites it again and again.
            (15, Some(&None), &drained, false, seconds(24)),
            (24, Some(&None), &drained, true, seconds(34)),
            (25, Some(&drained), &None, true, seconds(35)),
            (26, Some(&None), &None, false, Moment::NEVER),
            (27, unknown, &None, false, Moment::NEVER),
        ] {
            given.mark_unchanged();
            let shown = shown.as_ref().map(|shown| DrainConditions::telling(shown.as_ref()));
            let due = conditions.show(Some(&own), shown.as_ref(), said.as_ref(), seconds(at));
            let is_given = given.has_changed().unwrap() && given.borrow_and_update().is_some();
            assert_eq!((is_given, due), (is_written, next), "{at} {shown:?} {said:?}");
        }
        // A write that goes on is given up once there is no Node to write it into.
        conditions.show(Some(&own), None, one.as_ref(), seconds(50));
        assert_eq!(conditions.show(None, None, one.as_ref(), seconds(51)), Moment::NEVER);
        assert_eq!(*given.borrow_and_update(), None);
    }

    #[test]
    fn what_is_said_in_each_phase() {
        let (blocker, hint) = ("budget web allows no disruption", "wait for it");
        let complete = |outcome| Phase::Complete { outcome, recheck: None };
        let report = |phase: &Phase, name: &str| {
            let is_held = matches!(phase, Phase::Attempting { .. });
            let blockers = is_held.then(|| Blocker {
                what: blocker.to_owned(),
                hint: hint.to_owned(),
                pods: 3,
                examples: vec!["default/web-1".to_owned()],
                ..Blocker::default()
            });
            NodeDrainReport {
                phase: name.to_owned(),
                reason: "a reason".to_owned(),
                hint: if is_held { hint.to_owned() } else { String::new() },
                blockers: blockers.into_iter().collect(),
                deadline: if is_held { "2026-11-29T17:30:00Z".parse().unwrap() } else { GoTime::ZERO },
                ..NodeDrainReport::default()
            }
        };
        let attempting = Phase::Attempting { attempt: 1, started: Moment(0) };
        let held = "Attempting: a reason; this attempt ends at 2026-11-29T17:30:00Z; BLOCKED: budget web allows no \
                    disruption (3 pods: default/web-1); do: wait for it";
        for (phase, name, told) in [
            (Phase::Idle, "Idle", None),
            (Phase::Idle, "Returning", Some((DrainState::Neither, "Returning", "Returning: a reason"))),
            (
                Phase::Waiting(Waiting::default()),
                "Waiting",
                Some((DrainState::Neither, "DrainPending", "Waiting: a reason")),
            ),
            (attempting, "Attempting", Some((DrainState::InProgress, "AdminRequested", held))),
            (
                complete(Outcome::Drained),
                "Complete",
                Some((DrainState::Drained, "DrainCompleted", "Complete: a reason")),
            ),
            (
                complete(Outcome::Forced),
                "Complete",
                Some((DrainState::Neither, "NotDrained", "Complete: NOT DRAINED: a reason")),
            ),
            (
                complete(Outcome::ApiUnreachable),
                "Complete",
                Some((DrainState::Neither, "NotDrained", "Complete: NOT DRAINED: a reason")),
            ),
            (
                Phase::Failed(Failed::Drain(String::new())),
                "Failed",
                Some((DrainState::Neither, "DrainFailed", "Failed: a reason")),
            ),
        ] {
            let report = report(&phase, name);
            let state = State { phase, ..State::new(Member::Yes, String::new(), Moment(0)) };
            let told = told.map(|(state, reason, text)| DrainSaid::new(state, reason, text));
            assert_eq!(said(&state, &report), told, "{name}");
        }
    }

    #[test]
    fn a_shutdown_of_the_machine_is_a_cause_of_its_own() {
        let line = RequestLine {
            publisher: agent::HOLD.to_owned(),
            requested_by: DrainRequester::DeviceOp,
            ..RequestLine::default()
        };
        assert_eq!(
            cause(&NodeDrainReport { requests: vec![line], ..NodeDrainReport::default() }),
            "NodeShutdown"
        );
    }
}
