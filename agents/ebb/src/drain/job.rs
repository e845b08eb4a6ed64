//! One node, from its name to its end.

use std::fmt;

use cluster::cordon::PriorCordon;
use cluster::drainer::Drain;
use cluster::{ApiFailure, Cluster, CordonFailure, Cordoned, Drainer, Uncordoned, uncordon};
use drain::progress::attempt;
use drain::view::NodeView;
use drain::{Moment, Outcome};
use futures::FutureExt;
use futures::future::BoxFuture;
use runtime::clock::boot_millis;

use super::ending::{Ending, failed, interrupted};
use super::reporter::{NodeDrainView, NodeReporter};
use crate::screen::Print;

/// Changes that are taken in before the screen is looked after again.
const MOST_CHANGES: usize = 64;

/// What is done with one node, and what is known of it.
pub(crate) struct Job {
    cluster: Cluster,
    pub(crate) name: String,
    /// Somebody had cordoned it before this command.
    pub(crate) was_cordoned: bool,
    pub(crate) view: NodeDrainView,
    pub(crate) reporter: NodeReporter,
    pub(crate) ending: Option<Ending>,
    pub(crate) uncordoned: bool,
    pub(crate) began: Option<Moment>,
    pub(crate) ended: Option<Moment>,
    stage: Stage,
    /// What was told of why nothing can be seen.
    blind_because: String,
}

/// What has changed.
#[derive(Debug)]
pub(crate) enum Change {
    /// The drain has gone on, or some time has passed.
    Drain,
    /// The cordon has been taken back, or could not be.
    Uncordoned(Result<Uncordoned, ApiFailure>),
}

/// Where the node is.
enum Stage {
    Named,
    Cordoning,
    Cordoned(Cordoned),
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
    /// Nothing has been done.
    pub(crate) fn new(cluster: &Cluster, node: &NodeView, reporter: NodeReporter) -> Self {
        Self {
            cluster: cluster.clone(),
            name: node.name.clone(),
            was_cordoned: node.cordoned,
            view: NodeDrainView::default(),
            reporter,
            ending: None,
            uncordoned: false,
            began: None,
            ended: None,
            stage: Stage::Named,
            blind_because: String::new(),
        }
    }

    /// Cordons the node. One that cannot be is not drained (kubectl goes on).
    pub(crate) async fn cordon(&mut self, drainer: &Drainer, undo: Option<&str>) -> Vec<Print> {
        self.stage = Stage::Cordoning;
        match drainer.cordon(&self.name).await {
            Ok(cordoned) => {
                self.was_cordoned = cordoned.before() != PriorCordon::Schedulable;
                self.stage = Stage::Cordoned(cordoned);
                let already = if self.was_cordoned { "already " } else { "" };
                vec![Print::Out(format!("node/{} {already}cordoned", self.name))]
            }
            Err(failure) => {
                let text = format!("error: unable to cordon node {:?}: {failure}", self.name);
                self.end(Ending::NotCordoned(failure.to_string()), undo);
                vec![Print::Err(text)]
            }
        }
    }

    /// Nothing is left on the node that should leave.
    pub(crate) fn is_drained(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| !ending.is_failure())
    }

    /// It is cordoned and waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Cordoned(_))
    }

    /// Its pods are being moved away.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.stage, Stage::Draining(_))
    }

    /// Something is under way that [`Job::advance`] waits for.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Draining(_) | Stage::Uncordoning(_))
    }

    /// Begins to drain it, if it is cordoned.
    pub(crate) fn begin(&mut self, drainer: &Drainer) {
        let Stage::Cordoned(cordoned) = &self.stage else {
            return;
        };
        self.began = Some(now());
        self.stage = Stage::Draining(Box::new(drainer.drain_cordoned(cordoned.clone())));
    }

    /// Waits for the next change. May be dropped and called again.
    pub(crate) async fn advance(&mut self) -> Change {
        match &mut self.stage {
            Stage::Draining(drain) => {
                drain.next().await;
                // Many changes come together; one look is enough for them.
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

    /// What is new after a change, or after some time without one, and what follows from it.
    pub(crate) fn take_in(&mut self, change: &Change, undo: Option<&str>) -> Vec<Print> {
        match change {
            Change::Drain => self.look(undo),
            Change::Uncordoned(result) => self.uncordoned(result),
        }
    }

    fn look(&mut self, undo: Option<&str>) -> Vec<Print> {
        let Stage::Draining(drain) = &mut self.stage else {
            return Vec::new();
        };
        self.view = NodeDrainView::of(drain, now());
        let mut prints = Vec::new();
        // A watch that breaks mends itself, which nobody has to be told once something is known.
        let wait_reason = match attempt(drain.state()).filter(|_| self.view.is_pictured) {
            Some(attempt) => attempt.wait_reason(),
            None => drain.wait_reason().map(|failure| failure.text().to_owned()),
        };
        if let Some(why) = wait_reason.filter(|_| drain.ended().is_none()) {
            prints.extend(blind(&self.name, self.view.is_pictured, &mut self.blind_because, &why));
        }
        let ended = drain.ended().cloned();
        prints.extend(self.reporter.see(&self.view));
        if let Some(result) = ended {
            let ending = ending(result);
            prints.extend(last_words(&self.name, &ending, &self.view));
            self.end(ending, undo);
        }
        prints
    }

    /// The cordon has been taken back, or could not be.
    fn uncordoned(&mut self, result: &Result<Uncordoned, ApiFailure>) -> Vec<Print> {
        self.stage = Stage::Over;
        let name = &self.name;
        match result {
            Ok(Uncordoned::Changed) => {
                self.uncordoned = true;
                vec![Print::Out(format!("node/{name} uncordoned"))]
            }
            Ok(Uncordoned::AnnotationRemoved) => {
                vec![Print::Err(format!("node/{name} has been uncordoned by somebody else"))]
            }
            Ok(Uncordoned::StaysCordoned) => {
                vec![Print::Err(format!(
                    "node/{name} stays cordoned: somebody else has cordoned it or wants it kept"
                ))]
            }
            Ok(Uncordoned::NotOurs | Uncordoned::AlreadySchedulable | Uncordoned::NodeGone) => Vec::new(),
            Err(failure) => vec![
                Print::Err(format!("error: unable to uncordon node {name:?}: {failure}")),
                Print::Err(format!("node/{name} may still be cordoned: ebb uncordon {name}")),
            ],
        }
    }

    /// Somebody wants to stop, at once.
    pub(crate) fn interrupt(&mut self, undo: Option<&str>) -> Vec<Print> {
        let (touched, cordon) = match &self.stage {
            Stage::Named => (false, "has not been touched"),
            Stage::Cordoning => (true, "may have been cordoned: look with kubectl get node"),
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

    /// Over, but for a cordon of this command that is to be taken back.
    fn end(&mut self, ending: Ending, undo: Option<&str>) {
        self.ended = Some(now());
        let undo = undo.filter(|_| ending.is_failure() && !self.was_cordoned);
        self.stage = match undo {
            Some(owner) => {
                let (cluster, name, owner) = (self.cluster.clone(), self.name.clone(), owner.to_owned());
                Stage::Uncordoning(Box::pin(async move { uncordon(&cluster, &name, &owner).await }))
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

/// Not all that the drain needs, or nothing at all (`is_known` false), can be seen of the node: each reason is told once.
fn blind(name: &str, is_known: bool, told: &mut String, why: &str) -> Option<Print> {
    if told == why {
        return None;
    }
    why.clone_into(told);
    let what = if is_known { "not all can be seen of" } else { "nothing can be seen of" };
    let yet = if is_known { "" } else { " yet" };
    Some(Print::Err(format!("{what} node {name:?}{yet} (will retry): {why}")))
}

fn last_words(name: &str, ending: &Ending, view: &NodeDrainView) -> Vec<Print> {
    match ending {
        Ending::Drained => vec![Print::Out(format!("node/{name} drained"))],
        Ending::NodeGone => vec![Print::Err(format!("node/{name} is not in the cluster any more"))],
        Ending::Failed(failure) => failed(name, failure, view),
        Ending::NotCordoned(_) | Ending::Interrupted => Vec::new(),
    }
}

fn now() -> Moment {
    Moment(boot_millis())
}
