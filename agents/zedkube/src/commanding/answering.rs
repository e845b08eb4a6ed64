//! Writes the answer into the Node: one write for each change of the state, and at most one a minute for its reason.

use std::time::Duration;

use cluster::commanding;
use cluster::node_commands::CommandAnswer;
use cluster::{ApiFailure, Cluster};
use drain::Moment;
use drain::view::NodeView;
use runtime::retry::pause_after;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::link::Link;

/// Shortest time between two writes that do not tell another state.
const REASON_PAUSE: Duration = Duration::from_mins(1);

/// Pause before a write that was refused for want of rights is tried again.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);

/// The task that writes, and what it was given last.
#[derive(Debug)]
pub(super) struct Answering {
    wanted: watch::Sender<Option<Written>>,
    task: AbortHandle,
    /// When the last answer was given; of an earlier process when this one first saw it.
    given_at: Option<Moment>,
}

/// What is to stand on a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    node: String,
    uid: String,
    answer: Option<CommandAnswer>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Answering {
    /// Starts the task. Has to be called in a tokio runtime.
    pub(super) fn start(link: Link) -> Self {
        let (wanted, given) = watch::channel(None);
        let task = tokio::spawn(write(link, given)).abort_handle();
        Self { wanted, task, given_at: None }
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
            return Moment::NEVER;
        }
        let wanted = Written { node: node.name.clone(), uid: node.uid.clone(), answer };
        // What stands on the Node at first, an earlier process has written.
        let first = || Written { answer: shown.cloned(), ..wanted.clone() };
        let given = self.wanted.borrow().clone().unwrap_or_else(first);
        let is_news = !given.tells_the_state_of(&wanted);
        let due = *self.given_at.get_or_insert(now) + REASON_PAUSE;
        if !is_news && now < due {
            return due;
        }
        self.given_at = Some(now);
        self.wanted.send_replace(Some(wanted));
        now + REASON_PAUSE
    }
}

impl Written {
    fn tells_the_state_of(&self, other: &Self) -> bool {
        let state = |written: &Self| {
            let told = |answer: &CommandAnswer| (answer.command, answer.counter, answer.state);
            (written.uid.clone(), written.answer.as_ref().map(told))
        };
        state(self) == state(other)
    }
}

/// Writes the newest answer, again and again until the server takes it.
async fn write(link: Link, mut wanted: watch::Receiver<Option<Written>>) {
    while wanted.changed().await.is_ok() {
        let mut failures = 0;
        loop {
            let Some(written) = wanted.borrow_and_update().clone() else { break };
            let Err(failure) = write_once(&link, &written).await else { break };
            failures += 1;
            let text =
                format!("the answer to the cluster's command cannot be written into the Node: {failure}");
            if failures == 1 {
                tracing::warn!("{text}");
            } else {
                tracing::debug!("{text}");
            }
            let is_refused = matches!(failure, ApiFailure::Denied { .. });
            tokio::time::sleep(if is_refused { REFUSED_PAUSE } else { pause_after(failures) }).await;
        }
    }
}

async fn write_once(link: &Link, written: &Written) -> Result<(), ApiFailure> {
    let (cluster, _): (Cluster, _) = link.cluster().await?;
    commanding::answer(&cluster, &written.node, &written.uid, written.answer.as_ref()).await
}
