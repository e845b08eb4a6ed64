//! Asks for the API server's answer to each eviction of a node now, as dry runs: for `--dry-run` and plans. Nothing is
//! changed.
//!
//! The drain engine itself judges and tracks the pods, so that a dry run shows the same results as a drain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drain::answer::BudgetRefusal;
use drain::diagnosis::{Blocked, blocked, foretold_return};
use drain::findings::BudgetQuery;
use drain::policy::Method;
use drain::progress::{Line, lines};
use drain::state::{Attempt, Cause, Stage, Track};
use drain::view::{NodeView, PodView};
use drain::volumes::{Leftover, leftovers};
use drain::{Answer, Event, Inquiry, Moment, PodId, Policy, Snapshot, State, Verdict, plan, step};
use futures::StreamExt;
use futures::stream;

use crate::ApiFailure;
use crate::evict::{would_delete, would_evict};
use crate::inquire::inquire;
use crate::relist::{full_snapshot, relist};
use crate::wire::Cluster;

/// Result of a trial.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// One line for each pod; its stage is the server's answer: `Accepted`, `Blocked`, `Paused`, `Failed`.
    pub lines: Vec<Line>,
    /// Pods that would not leave, with the reasons.
    pub blocked: Vec<Blocked>,
    /// Pods that would leave, and that their owners would create again on this node at once.
    pub returning: Vec<Blocked>,
    /// Other pods that would leave, and tolerate the cordon: their owners may create them again on this node.
    pub may_return: Vec<PodId>,
    /// Volumes that are attached to the node and that no pod of it uses.
    pub leftovers: Vec<Leftover>,
    /// Error that would keep a drain from confirming that volumes are detached.
    pub blind: Option<String>,
}

impl Trial {
    /// The verdicts on one snapshot of the node, as kubectl's client-side dry run, without asking the API server about any pod. Budgets are not read, so
    /// no right to list them is needed; volumes are.
    ///
    /// # Errors
    /// The node or its pods cannot be listed.
    pub async fn judge(cluster: &Cluster, node: &str, policy: &Policy) -> Result<Self, ApiFailure> {
        let snapshot = relist(cluster, node, Some(&Snapshot::default()), true).await?;
        let lines = snapshot.pods.iter().zip(plan(&snapshot, policy)).map(|(pod, planned)| Line {
            id: planned.id,
            owner: pod.owner(),
            verdict: planned.verdict,
            reasons: planned.reasons,
            stage: None,
            since: NOW,
            tries: 0,
            detail: String::new(),
        });
        let mut trial = Self { lines: lines.collect(), ..Self::beyond_pods(&snapshot, policy) };
        // As kubectl's, which knows no owner that ignores cordons.
        trial.may_return.extend(trial.returning.drain(..).map(|blocked| blocked.pod));
        Ok(trial)
    }

    /// The verdicts on a full snapshot of the node, and the API server's answer for each pod.
    ///
    /// # Errors
    /// The node or its pods cannot be listed.
    pub async fn ask(cluster: &Cluster, node: &str, policy: &Policy) -> Result<Self, ApiFailure> {
        Ok(trial(cluster, full_snapshot(cluster, node).await?, policy).await)
    }

    /// What the snapshot shows beyond the answers about its pods.
    fn beyond_pods(snapshot: &Snapshot, policy: &Policy) -> Self {
        let planned = plan(snapshot, policy);
        let pods = snapshot.pods.iter().zip(&planned);
        let leaving: Vec<&PodView> =
            pods.filter(|(_, planned)| planned.verdict == Verdict::Evict).map(|(pod, _)| pod).collect();
        let may_return = |pod: &&&PodView| {
            pod.tolerates_cordon && pod.controller.is_some() && foretold_return(pod).is_none()
        };
        Self {
            returning: leaving.iter().filter_map(|pod| foretold_return(pod)).collect(),
            may_return: leaving.iter().filter(may_return).map(|pod| pod.id.clone()).collect(),
            leftovers: leftovers(snapshot, policy),
            blind: snapshot
                .storage
                .unreadable()
                .filter(|_| policy.needs_detached_volumes())
                .map(str::to_owned),
            ..Self::default()
        }
    }

    /// Pods that would not leave now. A pod that has been terminating for too long is among them: a drain would wait
    /// for it.
    pub fn held(&self) -> Vec<&Line> {
        let is_held = |stage: &Stage| {
            matches!(stage, Stage::Blocked { .. } | Stage::Paused { .. } | Stage::Failed { .. })
        };
        let known: BTreeSet<&str> = self.blocked.iter().map(|blocked| blocked.pod.uid.as_str()).collect();
        let is_in_the_way =
            |line: &&Line| known.contains(line.id.uid.as_str()) || line.stage.as_ref().is_some_and(is_held);
        self.lines.iter().filter(is_in_the_way).collect()
    }
}

/// Asks once about every pod of the snapshot that would be evicted.
pub async fn trial(cluster: &Cluster, snapshot: Snapshot, policy: &Policy) -> Trial {
    let beyond_pods = Trial::beyond_pods(&snapshot, policy);
    let Some(mut attempt) = begin(snapshot, policy) else {
        return beyond_pods;
    };
    let asked: Vec<Track> =
        attempt.pods().values().filter(|track| is_to_be_asked(track.stage())).cloned().collect();
    let answers = stream::iter(asked).map(|track| async move {
        let stage = stage(ask(cluster, &track, policy.method).await);
        (track.id().uid.clone(), stage)
    });
    let stages: BTreeMap<String, Stage> = answers.buffer_unordered(policy.concurrency).collect().await;
    for (uid, stage) in stages {
        attempt.assume(&uid, stage);
    }
    let inquiry = questions(&blocked(&attempt, NOW));
    if !inquiry.budgets.is_empty() {
        let node = attempt.snapshot().and_then(|snapshot| snapshot.node.as_ref());
        let name = node.map(|node| node.name.clone()).unwrap_or_default();
        attempt.find(Arc::new(inquire(cluster, &name, &inquiry).await));
    }
    Trial { lines: lines(&attempt, NOW), blocked: blocked(&attempt, NOW), ..beyond_pods }
}

/// Time of a trial, in which no time passes.
const NOW: Moment = Moment(0);

/// The first step of the drain engine with the snapshot, as if the node were cordoned. Its effects are not carried out.
fn begin(snapshot: Snapshot, policy: &Policy) -> Option<Attempt> {
    let node = snapshot.node.map(|node| NodeView { cordoned: true, ..node });
    let snapshot = Arc::new(Snapshot { node, ..snapshot });
    let (state, _) = step(State::Idle, Event::Start { attempt: 1, api_back: None }, NOW, policy);
    let (state, _) = step(state, Event::Snapshot(snapshot), NOW, policy);
    match state {
        State::Idle => None,
        State::Draining(attempt) | State::Verifying(attempt, _) | State::Ended(attempt, _) => Some(attempt),
    }
}

fn is_to_be_asked(stage: &Stage) -> bool {
    matches!(stage, Stage::Waiting | Stage::Evicting)
}

async fn ask(cluster: &Cluster, track: &Track, method: Method) -> Answer {
    let (pod, grace) = (track.id(), track.grace_sent());
    if method != Method::Evict {
        return would_delete(cluster, pod, grace).await;
    }
    let answer = would_evict(cluster, pod, grace).await;
    // A drain would delete such pods instead, so ask about the deletion.
    if matches!(answer, Answer::NamespaceTerminating | Answer::NoEvictions) {
        return would_delete(cluster, pod, grace).await;
    }
    answer
}

fn stage(answer: Answer) -> Stage {
    let next = Moment::NEVER;
    match answer {
        Answer::Accepted | Answer::Gone => Stage::Accepted,
        Answer::Budget(BudgetRefusal { text, .. }) => Stage::Blocked { cause: Cause::Budget(text), next },
        Answer::TwoBudgets => Stage::Blocked { cause: Cause::TwoBudgets, next },
        Answer::Webhook { text } => Stage::Blocked { cause: Cause::Webhook(text), next },
        Answer::Throttled { text, .. } | Answer::Retry { text } => Stage::Paused { text, next },
        Answer::Denied { text } | Answer::Rejected { text } => Stage::Failed { text },
        // The deletion was asked about instead, and has neither answer; and a dry run waits for no other eviction.
        Answer::NamespaceTerminating | Answer::NoEvictions | Answer::NotSent => {
            Stage::Failed { text: "the API server neither evicts nor deletes the pod".to_owned() }
        }
    }
}

/// Question: which pods make the budgets unhealthy?
fn questions(blocked: &[Blocked]) -> Inquiry {
    let guards = blocked.iter().flat_map(|blocked| &blocked.budgets).map(|guard| &guard.budget);
    let queries = guards.filter_map(|budget| {
        let selector = budget.selector.clone()?;
        let key = (budget.namespace.clone(), budget.name.clone());
        Some((key, BudgetQuery { namespace: budget.namespace.clone(), name: budget.name.clone(), selector }))
    });
    let queries: BTreeMap<_, _> = queries.collect();
    Inquiry { budgets: queries.into_values().collect(), ..Inquiry::default() }
}
