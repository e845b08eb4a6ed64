//! One node of `ebb drain`, from cordon to result.

use std::fmt;

use cluster::clock::boot_time;
use cluster::cordon::PriorCordon;
use cluster::drainer::Drain;
use cluster::{ApiFailure, Cluster, CordonFailure, Cordoned, Drainer, Uncordoned, uncordon, uncordon_any};
use drain::progress::attempt;
use drain::view::NodeView;
use drain::{Moment, Outcome};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::ending::{Ending, failed, interrupted};
use super::reporter::{NodeDrainView, NodeReporter};
use crate::cordon::unmarked;
use crate::screen::Print;

/// Number of changes that are applied before the screen is updated again.
const MOST_CHANGES: usize = 64;

/// Work on one node: its stage, and the last state of its drain.
pub(crate) struct Job {
    cluster: Cluster,
    pub(crate) name: String,
    /// True if the node was cordoned already before this command.
    pub(crate) was_cordoned: bool,
    /// True if this command has cordoned it, and the annotation that says so was refused.
    is_unmarked: bool,
    pub(crate) view: NodeDrainView,
    pub(crate) reporter: NodeReporter,
    pub(crate) ending: Option<Ending>,
    pub(crate) uncordoned: bool,
    pub(crate) began: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    stage: Stage,
    /// Last reason for waiting other than pods, so that each is printed once.
    waits_for: String,
}

/// A change of a job.
#[derive(Debug)]
pub(crate) enum Change {
    /// The drain has made progress, or some time has passed.
    Drain,
    /// The call that lifts the cordon has ended.
    Uncordoned(Result<Uncordoned, ApiFailure>),
}

/// Stage of the work on a node.
enum Stage {
    Named,
    Cordoning,
    Cordoned(Box<Cordoned>),
    Draining(Box<Drain>),
    Uncordoning(BoxFuture<'static, Result<Uncordoned, ApiFailure>>),
    Over,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Job {
    /// A job that has not started.
    pub(crate) fn new(cluster: &Cluster, node: &NodeView, reporter: NodeReporter) -> Self {
        Self {
            cluster: cluster.clone(),
            name: node.name.clone(),
            was_cordoned: node.cordoned,
            is_unmarked: false,
            view: NodeDrainView::default(),
            reporter,
            ending: None,
            uncordoned: false,
            began: None,
            ended: None,
            stage: Stage::Named,
            waits_for: String::new(),
        }
    }

    /// Cordons the node. If that fails, the node is not drained (kubectl goes on).
    pub(crate) async fn cordon(&mut self, drainer: &Drainer, undo: Option<&str>) -> Vec<Print> {
        self.stage = Stage::Cordoning;
        match drainer.cordon(&self.name).await {
            Ok(cordoned) => {
                self.was_cordoned = cordoned.before() != PriorCordon::Schedulable;
                let already = if self.was_cordoned { "already " } else { "" };
                let mut prints = vec![Print::Out(format!("node/{} {already}cordoned", self.name))];
                if let Some(refusal) = cordoned.unmarked() {
                    self.is_unmarked = true;
                    prints.push(Print::Err(unmarked(&self.name, refusal)));
                }
                self.stage = Stage::Cordoned(Box::new(cordoned));
                prints
            }
            Err(failure) => {
                let text = format!("error: unable to cordon node {:?}: {failure}", self.name);
                self.end(Ending::NotCordoned(failure.to_string()), undo);
                vec![Print::Err(text)]
            }
        }
    }

    /// True if no pod that should leave is left on the node.
    pub(crate) fn is_drained(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| !ending.is_failure())
    }

    /// True if the node is cordoned and its drain has not started.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Cordoned(_))
    }

    /// True while its pods are being evicted.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.stage, Stage::Draining(_))
    }

    /// True while [`Job::advance`] has something to wait for.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Draining(_) | Stage::Uncordoning(_))
    }

    /// Starts the drain, if the node is cordoned.
    pub(crate) fn begin(&mut self, drainer: &Drainer) {
        let Stage::Cordoned(cordoned) = &self.stage else {
            return;
        };
        self.began = Some(boot_time());
        self.stage = Stage::Draining(Box::new(drainer.drain_cordoned(cordoned.as_ref().clone())));
    }

    /// Waits for the next change. May be dropped and called again.
    pub(crate) async fn advance(&mut self) -> Change {
        match &mut self.stage {
            Stage::Draining(drain) => {
                drain.next().await;
                // Many changes come at once: collect them, so that one update of the screen shows them all.
                for _ in 0..MOST_CHANGES {
                    if drain.next().now_or_never().flatten().is_none() {
                        break;
                    }
                }
                Change::Drain
            }
            Stage::Uncordoning(uncordoning) => Change::Uncordoned(uncordoning.await),
            Stage::Named | Stage::Cordoning | Stage::Cordoned(_) | Stage::Over => {
                std::future::pending().await
            }
        }
    }

    /// Applies a change, or the passing of time, and returns the new lines.
    pub(crate) fn apply(&mut self, change: &Change, undo: Option<&str>) -> Vec<Print> {
        match change {
            Change::Drain => self.refresh(undo),
            Change::Uncordoned(result) => self.uncordoned(result),
        }
    }

    fn refresh(&mut self, undo: Option<&str>) -> Vec<Print> {
        let Stage::Draining(drain) = &mut self.stage else {
            return Vec::new();
        };
        self.view = NodeDrainView::of(drain, boot_time());
        let mut prints = Vec::new();
        // Once there is a snapshot, do not print that a watch broke: it is opened again without the user.
        let wait_reason = match attempt(drain.state()).filter(|_| self.view.has_snapshot) {
            Some(attempt) => attempt.wait_reason(),
            None => drain.wait_reason().map(|failure| failure.text().to_owned()),
        };
        if let Some(why) = wait_reason.filter(|_| drain.ended().is_none()) {
            prints.extend(waiting(&self.name, self.view.has_snapshot, &mut self.waits_for, &why));
        }
        let ended = drain.ended().cloned();
        prints.extend(self.reporter.see(&self.view));
        if let Some(result) = ended {
            let ending = ending(result);
            prints.extend(ending_lines(&self.name, &ending, &self.view));
            self.end(ending, undo);
        }
        prints
    }

    /// The call that lifts the cordon has ended: returns its lines.
    fn uncordoned(&mut self, result: &Result<Uncordoned, ApiFailure>) -> Vec<Print> {
        self.stage = Stage::Over;
        let name = &self.name;
        match result {
            Ok(Uncordoned::Changed | Uncordoned::AnnotationsStay) => {
                self.uncordoned = true;
                vec![Print::Out(format!("node/{name} uncordoned"))]
            }
            Ok(Uncordoned::AnnotationRemoved) => {
                vec![Print::Err(format!("node/{name} was already uncordoned by another user"))]
            }
            Ok(Uncordoned::StaysCordoned) => {
                vec![Print::Err(format!(
                    "node/{name} stays cordoned: another user has cordoned it, or annotation ebb.dev/keep-cordoned is on it"
                ))]
            }
            Ok(Uncordoned::NotOurs | Uncordoned::AlreadySchedulable | Uncordoned::NodeGone) => Vec::new(),
            Err(failure) => vec![
                Print::Err(format!("error: unable to uncordon node {name:?}: {failure}")),
                Print::Err(format!("node/{name} may still be cordoned: ebb uncordon {name}")),
            ],
        }
    }

    /// Stops at once; lifts the cordon of this command if `undo` asks for it.
    pub(crate) fn interrupt(&mut self, undo: Option<&str>) -> Vec<Print> {
        let (touched, cordon) = match &self.stage {
            Stage::Named => (false, "has not been touched"),
            Stage::Cordoning => (true, "may be cordoned: check with kubectl get node"),
            Stage::Cordoned(_) | Stage::Draining(_) => (true, "stays cordoned"),
            Stage::Uncordoning(_) | Stage::Over => return Vec::new(),
        };
        let mut prints = if self.is_draining() { interrupted(&self.name, &self.view) } else { Vec::new() };
        self.end(Ending::Interrupted, undo.filter(|_| touched));
        if !self.is_busy() {
            prints.push(Print::Err(format!("node/{} {cordon}", self.name)));
        }
        prints
    }

    /// Ends the job with this result, but first lifts the cordon of this command if it must be lifted after a failure.
    fn end(&mut self, ending: Ending, undo: Option<&str>) {
        self.ended = Some(boot_time());
        let undo = undo.filter(|_| ending.is_failure() && !self.was_cordoned);
        self.stage = match undo {
            Some(owner) => {
                let (cluster, name, owner) = (self.cluster.clone(), self.name.clone(), owner.to_owned());
                let is_unmarked = self.is_unmarked;
                Stage::Uncordoning(Box::pin(async move {
                    // No annotation says whose it is: this command knows.
                    if is_unmarked {
                        uncordon_any(&cluster, &name).await
                    } else {
                        uncordon(&cluster, &name, &owner).await
                    }
                }))
            }
            None => Stage::Over,
        };
        self.ending = Some(ending);
    }
}

fn ending(result: Result<Outcome, CordonFailure>) -> Ending {
    match result {
        Ok(Outcome::Drained) => Ending::Drained,
        Ok(Outcome::NodeGone) => Ending::NodeGone,
        Ok(Outcome::Failed(failure)) => Ending::Failed(failure),
        Err(failure) => Ending::NotCordoned(failure.to_string()),
    }
}

/// Line about a reason for waiting other than pods: a watch that does not work, while there is no snapshot; after that a
/// list that fails, or unknown volumes. Each reason is printed once.
fn waiting(name: &str, has_snapshot: bool, printed: &mut String, why: &str) -> Option<Print> {
    if printed == why {
        return None;
    }
    why.clone_into(printed);
    Some(Print::Err(if has_snapshot {
        format!("the drain of node {name:?} waits: {why}")
    } else {
        format!("node {name:?} cannot be watched yet (will retry): {why}")
    }))
}

fn ending_lines(name: &str, ending: &Ending, view: &NodeDrainView) -> Vec<Print> {
    match ending {
        Ending::Drained => vec![Print::Out(format!("node/{name} drained"))],
        Ending::NodeGone => vec![Print::Err(format!("node/{name} is not in the cluster any more"))],
        Ending::Failed(failure) => failed(name, failure, view),
        Ending::NotCordoned(_) | Ending::Interrupted => Vec::new(),
    }
}
