//! Writes the answer into the Node: one write for each change of the state, one for the first other reason of that
//! state, and then at most one a minute for its reason.

use std::time::Duration;

use cluster::commanding;
use cluster::node_commands::CommandAnswer;
use cluster::{ApiFailure, Cluster};
use drain::Moment;
use drain::view::NodeView;

use crate::link::Link;
use crate::newest::{Newest, Value};

/// Shortest time between two writes that tell another reason of the same state.
const REASON_PAUSE: Duration = Duration::from_mins(1);

/// The task that writes, and what it was given last.
#[derive(Debug)]
pub(super) struct Answering {
    task: Newest<Written>,
    /// When the last answer was given; of an earlier process when this one first saw it.
    given_at: Option<Moment>,
    /// That was another reason of the same state. An earlier process may just have written one.
    was_reason: bool,
}

/// What is to stand on a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    node: String,
    uid: String,
    answer: Option<CommandAnswer>,
}

impl Answering {
    /// Starts the task. Has to be called in a tokio runtime.
    pub(super) fn start(link: Link) -> Self {
        Self { task: Newest::start(link), given_at: None, was_reason: true }
    }

    /// Writes nothing more: the answer stands, or there is no Node to write it into.
    pub(super) fn forget(&mut self) {
        self.task.forget();
    }

    /// Has the answer written, if the Node shows another one and it is time. Returns when this has to be called again.
    pub(super) fn answer(
        &mut self,
        node: &NodeView,
        has_answer: bool,
        shown: Option<&CommandAnswer>,
        answer: Option<CommandAnswer>,
        now: Moment,
    ) -> Moment {
        let is_shown = shown == answer.as_ref() && has_answer == answer.is_some();
        if is_shown {
            self.forget();
            return Moment::NEVER;
        }
        let wanted = Written { node: node.name.clone(), uid: node.uid.clone(), answer };
        // What stands on the Node at first, an earlier process has written.
        let first = || Written { answer: shown.cloned(), ..wanted.clone() };
        let given = self.task.given().unwrap_or_else(first);
        let is_news = !given.tells_the_same(&wanted);
        let is_first_reason = !self.was_reason && given != wanted;
        let due = *self.given_at.get_or_insert(now) + REASON_PAUSE;
        if !is_news && !is_first_reason && now < due {
            return due;
        }
        (self.given_at, self.was_reason) = (Some(now), !is_news);
        self.task.give(wanted);
        now + REASON_PAUSE
    }
}

impl Value for Written {
    const FAILED: &'static str = "the answer to the cluster's command cannot be written into the Node";

    fn tells_the_same(&self, other: &Self) -> bool {
        let is_same = match (&self.answer, &other.answer) {
            (Some(answer), Some(other)) => answer.tells_the_same(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.uid == other.uid && is_same
    }

    async fn write(&self, cluster: &Cluster) -> Result<(), ApiFailure> {
        commanding::answer(cluster, &self.node, &self.uid, self.answer.as_ref()).await
    }
}

#[cfg(test)]
mod tests {
    use cluster::node_commands::{AnswerState, NodeCommand};

    use super::*;

    const NODE: &str = "edge-a";

    fn answer(state: AnswerState, reason: &str) -> CommandAnswer {
        CommandAnswer::new(NodeCommand::Reboot, 7, state, reason)
    }

    #[tokio::test]
    async fn a_state_is_written_at_once_and_a_reason_at_most_once_a_minute() {
        use AnswerState::{Draining, Recorded, Waiting};
        let (task, mut wanted) = Newest::unwritten();
        let mut answering = Answering { task, given_at: None, was_reason: true };
        let node = NodeView { name: NODE.to_owned(), uid: "n1".to_owned(), ..NodeView::default() };
        let (waiting, behind, long) =
            (answer(Waiting, ""), answer(Waiting, "slots"), answer(Recorded, &"r".repeat(2000)));
        let frozen = answer(Waiting, "frozen");
        let draining = answer(Draining, "");
        let minute = |minutes: u64| Moment(60_000 * minutes);
        // At this time the Node shows this, and this is the answer. Is that written, and when is the next look?
        for (at, shown, now_is, is_written, next) in [
            // What an earlier process wrote is told again after a minute at the earliest.
            (Moment(0), Some(&waiting), Some(&behind), false, minute(1)),
            (minute(1), Some(&waiting), Some(&behind), true, minute(2)),
            (minute(1), Some(&behind), Some(&behind), false, Moment::NEVER),
            (minute(1), Some(&behind), Some(&draining), true, minute(2)),
            // The first other reason of a state is told at once.
            (minute(1), Some(&draining), Some(&waiting), true, minute(2)),
            // It is being written.
            (minute(1), Some(&draining), Some(&waiting), false, minute(2)),
            (minute(1), Some(&waiting), Some(&behind), true, minute(2)),
            (minute(1), Some(&behind), Some(&frozen), false, minute(2)),
            (minute(2), Some(&behind), None, true, minute(3)),
            (minute(3), None, None, false, Moment::NEVER),
            // A reason that is cut stands as it was written.
            (minute(4), None, Some(&long), true, minute(5)),
            (minute(6), Some(&long), Some(&long), false, Moment::NEVER),
        ] {
            wanted.mark_unchanged();
            let due = answering.answer(&node, shown.is_some(), shown, now_is.cloned(), at);
            let is_given = wanted.has_changed().unwrap() && wanted.borrow_and_update().is_some();
            assert_eq!((is_given, due), (is_written, next), "{at:?} {shown:?} {now_is:?}");
        }
    }
}
