//! JSON document of `ebb drain -o json`: an array with one object for each node.

use drain::Verdict;
use drain::diagnosis::{Blocked, Guard};
use drain::progress::Line;
use drain::state::Stage;
use serde::Serialize;

use super::ending::{Ending, why};
use super::job::Job;

/// One node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    pub(crate) name: String,
    /// `Drained`, `NodeGone`, `Failed`, `CordonFailed`, `Interrupted`; after a dry run `WouldDrain` or `WouldFail`.
    pub(crate) outcome: &'static str,
    /// Reason of a failure; empty if nothing failed.
    pub(crate) failure: String,
    /// Duration of the drain in seconds; 0 if it never started.
    pub(crate) seconds: f64,
    /// True if the node was cordoned already before this command.
    pub(crate) cordoned_before: bool,
    /// True if this command has lifted its own cordon again.
    pub(crate) uncordoned: bool,
    /// Every pod that was seen on the node.
    pub(crate) pods: Vec<PodDocument>,
    /// Pods that do not leave.
    pub(crate) blocked: Vec<BlockedDocument>,
    /// Warnings that were printed.
    pub(crate) warnings: Vec<String>,
    /// After a dry run: whether the node would be drained, and what it would fail for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<String>,
}

/// One pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodDocument {
    namespace: String,
    name: String,
    uid: String,
    /// `Kind/name` of its controller, empty without one.
    owner: String,
    /// `Evict`, `Await`, `Leave`, `Refuse`.
    verdict: &'static str,
    reasons: Vec<String>,
    /// `Waiting`, `Evicting`, `Blocked`, `Paused`, `Accepted`, `Terminating`, `Awaiting`, `Refused`, `Failed`, `Gone`; null
    /// for a pod that stays, and in a dry run.
    stage: Option<&'static str>,
    detail: String,
}

/// One pod that does not leave.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockedDocument {
    namespace: String,
    name: String,
    uid: String,
    cause: String,
    /// Owner of whatever holds the pod, as far as recognised; empty if unknown.
    holder: String,
    hint: String,
    budgets: Vec<BudgetDocument>,
}

/// A PodDisruptionBudget of a blocked pod, with its numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetDocument {
    name: String,
    expected_pods: i32,
    current_healthy: i32,
    desired_healthy: i32,
    disruptions_allowed: i32,
    unhealthy: Vec<String>,
}

/// The document of a node after the command.
pub(crate) fn of_job(job: &Job) -> Document {
    let (outcome, failure) = match &job.ending {
        Some(Ending::Drained) => ("Drained", String::new()),
        Some(Ending::NodeGone) => ("NodeGone", String::new()),
        Some(Ending::Failed(failure)) => ("Failed", why(failure, &job.view)),
        Some(Ending::NotCordoned(text)) => ("CordonFailed", text.clone()),
        Some(Ending::Interrupted) | None => ("Interrupted", "interrupted by a signal".to_owned()),
    };
    let span = job.began.zip(job.ended).map(|(began, ended)| ended.since(began));
    Document {
        name: job.name.clone(),
        outcome,
        failure,
        seconds: span.unwrap_or_default().as_secs_f64(),
        cordoned_before: job.was_cordoned,
        uncordoned: job.uncordoned,
        pods: job.reporter.pods().into_iter().map(|pod| of_line(&pod.line, pod.is_gone)).collect(),
        blocked: job.view.blocked.iter().map(of_blocked).collect(),
        warnings: job.reporter.warnings().to_vec(),
        verdict: None,
    }
}

/// The document of a pod as it was last seen.
pub(crate) fn of_line(line: &Line, is_gone: bool) -> PodDocument {
    let stage = line.stage.as_ref().map(Stage::name);
    PodDocument {
        namespace: line.id.namespace.clone(),
        name: line.id.name.clone(),
        uid: line.id.uid.clone(),
        owner: line.owner.clone(),
        verdict: line.verdict.name(),
        reasons: line.reasons.iter().map(ToString::to_string).collect(),
        stage: if is_gone && line.verdict != Verdict::Leave { Some("Gone") } else { stage },
        detail: if is_gone { String::new() } else { line.detail.clone() },
    }
}

/// The document of a blocked pod.
pub(crate) fn of_blocked(blocked: &Blocked) -> BlockedDocument {
    BlockedDocument {
        namespace: blocked.pod.namespace.clone(),
        name: blocked.pod.name.clone(),
        uid: blocked.pod.uid.clone(),
        cause: blocked.cause.clone(),
        holder: blocked.holder.clone(),
        hint: blocked.hint.clone(),
        budgets: blocked.budgets.iter().map(of_guard).collect(),
    }
}

fn of_guard(guard: &Guard) -> BudgetDocument {
    let budget = &guard.budget;
    BudgetDocument {
        name: budget.name.clone(),
        expected_pods: budget.expected_pods,
        current_healthy: budget.current_healthy,
        desired_healthy: budget.desired_healthy,
        disruptions_allowed: budget.disruptions_allowed,
        unhealthy: guard.unhealthy.clone(),
    }
}
