//! Reasons for which a pod does not leave, and hints for a person.
//!
//! No decision depends on a diagnosis: during a live migration a budget looks just like a misconfigured one.

mod blocked_by;
mod blockers;
mod budgets;
mod holders;

use std::time::Duration;

pub use blocked_by::BlockedBy;
pub use blockers::{Blocker, blockers, without_numbers};

use crate::attempt::Attempt;
use crate::budget::guarding;
use crate::findings::BudgetPods;
use crate::plan::{DRAIN_LABEL, Planned};
use crate::pod::{Cause, MOST_RETURNS, STUCK_AFTER, Stage, Track};
use crate::time::Moment;
use crate::view::{BudgetView, PodId, PodView, Snapshot};

/// One pod that is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Namespace, name and UID.
    pub pod: PodId,
    /// Cause in one sentence.
    pub cause: String,
    /// PodDisruptionBudgets of the pod.
    pub budgets: Vec<Guard>,
    /// Component that holds the pod, if recognised: a migration, a last replica, an owner that creates the pod again
    /// here.
    pub holder: String,
    /// Hint for a person.
    pub hint: String,
    /// Start of the block.
    pub since: Moment,
    /// Kind of the cause.
    pub by: BlockedBy,
}

impl Blocked {
    /// The cause, and the holder if it was recognised.
    pub fn cause_and_holder(&self) -> String {
        let Self { cause, holder, .. } = self;
        if holder.is_empty() { cause.clone() } else { format!("{cause}; behind it is {holder}") }
    }
}

/// A PodDisruptionBudget of a blocked pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The budget, with its numbers.
    pub budget: BudgetView,
    /// Its pods that are not Ready, each with its node and the reason, as far as they were found.
    pub unhealthy: Vec<String>,
}

/// Every blocked pod of the attempt, in the order of the last snapshot.
pub fn blocked(attempt: &Attempt, now: Moment) -> Vec<Blocked> {
    let Some(snapshot) = attempt.snapshot() else { return Vec::new() };
    let pods = snapshot.pods.iter().zip(attempt.planned());
    pods.filter_map(|(pod, planned)| one(attempt, snapshot, pod, planned, now)).collect()
}

fn one(
    attempt: &Attempt,
    snapshot: &Snapshot,
    pod: &PodView,
    planned: &Planned,
    now: Moment,
) -> Option<Blocked> {
    let track = attempt.pods().get(&pod.id.uid)?;
    if *track.stage() == Stage::Terminating {
        let is_ready = snapshot.node.as_ref().is_some_and(|node| node.ready);
        return stuck(track, pod, track.overdue(pod, attempt.seen(), now)?, is_ready);
    }
    if !track.stage().is_blocked() && track.refusal().is_none() {
        return (track.returns() > 0).then(|| returning(pod, track));
    }
    let guards: Vec<Guard> =
        guarding(pod, &snapshot.budgets).map(|budget| guard(budget, &attempt.findings().budgets)).collect();
    let (by, cause, hint) = cause(attempt, track, planned, pod, &guards);
    // Only refusals of a budget or a webhook can come from a holder.
    let is_held = matches!(track.refusal(), Some(Cause::Budget(_) | Cause::Webhook(_)));
    let held = holders::of(pod, attempt.findings()).filter(|_| is_held);
    let owner = if by == BlockedBy::Recreated { pod.owner() } else { String::new() };
    let (holder, hint) = held.map_or((owner, hint), |held| (held.holder, held.hint));
    let since = track.blocked_since().unwrap_or_else(|| track.since());
    Some(Blocked { pod: pod.id.clone(), cause, budgets: guards, holder, hint, since, by })
}

/// Diagnosis of a pod that should have ended long ago.
fn stuck(track: &Track, pod: &PodView, overdue: Duration, is_node_ready: bool) -> Option<Blocked> {
    if overdue <= STUCK_AFTER {
        return None;
    }
    let late = format!("still terminating {} s after its time", overdue.as_secs());
    let (by, cause, hint) = if !pod.finalizers.is_empty() {
        let names = pod.finalizers.join(", ");
        (
            BlockedBy::Finalizers,
            format!("{late}: held by finalizers {names}"),
            format!(
                "find out which controller has to remove {names}; removing it by hand skips that controller's work"
            ),
        )
    } else if is_node_ready {
        (
            BlockedBy::Kubelet,
            format!("{late}: the kubelet has not ended its containers"),
            "look at the kubelet and the container runtime of this node: a process that cannot be killed, a mount that \
             hangs"
                .to_owned(),
        )
    } else {
        (
            BlockedBy::Kubelet,
            format!("{late}: the kubelet of this node does not answer"),
            "start the kubelet; if the node will never come back, setting unhealthy-node or `ebb drain --force-delete` \
             removes the pod without it"
                .to_owned(),
        )
    };
    Some(Blocked { pod: pod.id.clone(), cause, hint, since: track.since(), by, ..Blocked::default() })
}

fn guard(budget: &BudgetView, known: &[BudgetPods]) -> Guard {
    let found = known.iter().find(|pods| pods.namespace == budget.namespace && pods.name == budget.name);
    let mut unhealthy = Vec::new();
    for pod in found.into_iter().flat_map(|pods| &pods.unhealthy) {
        let place = if pod.node.is_empty() { "on no node".to_owned() } else { format!("on {}", pod.node) };
        let why = if pod.why.is_empty() { String::new() } else { format!(": {}", pod.why) };
        unhealthy.push(format!("{} {place}{why}", pod.name));
    }
    if let Some(more) = found.map(|pods| pods.more).filter(|more| *more > 0) {
        unhealthy.push(format!("and {more} more"));
    }
    Guard { budget: budget.clone(), unhealthy }
}

fn cause(
    attempt: &Attempt,
    track: &Track,
    planned: &Planned,
    pod: &PodView,
    guards: &[Guard],
) -> (BlockedBy, String, String) {
    match (track.refusal(), track.stage()) {
        (Some(Cause::Budget(text)), _) => (
            BlockedBy::Budget,
            format!("PodDisruptionBudget: {text}"),
            budgets::hint(guards, pod, attempt.findings()),
        ),
        (Some(Cause::TwoBudgets), _) => two_budgets(guards),
        (Some(Cause::Webhook(text)), _) => (
            BlockedBy::Webhook,
            // The server mostly says so itself.
            if text.starts_with("admission webhook ") {
                text.clone()
            } else {
                format!("admission webhook: {text}")
            },
            "ask the owner of the webhook; the eviction is tried again".to_owned(),
        ),
        (Some(Cause::NotDeleted), _) => (
            BlockedBy::Webhook,
            "the server accepts the eviction but does not delete the pod: a webhook changes evictions".to_owned(),
            "look which webhook is called for pods/eviction: kubectl get mutatingwebhookconfigurations -o yaml; the eviction is \
             tried again"
                .to_owned(),
        ),
        (Some(Cause::Returns { .. }), _) => {
            let Blocked { by, cause, hint, .. } = returning(pod, track);
            (by, cause, hint)
        }
        (None, Stage::Refused) => {
            let reasons: Vec<String> = planned.reasons.iter().map(ToString::to_string).collect();
            (
                BlockedBy::Policy,
                format!("the policy does not allow its eviction: {}", reasons.join("; ")),
                "allow it (settings pods.*, or the flags of `ebb drain`)".to_owned(),
            )
        }
        (None, Stage::Failed { text }) => {
            (BlockedBy::Other, text.clone(), "fix the cause; the next attempt tries again".to_owned())
        }
        (
            None,
            Stage::Waiting
            | Stage::Evicting
            | Stage::Blocked { .. }
            | Stage::Paused { .. }
            | Stage::Accepted
            | Stage::Terminating
            | Stage::Awaiting,
        ) => (BlockedBy::Other, String::new(), String::new()),
    }
}

fn two_budgets(guards: &[Guard]) -> (BlockedBy, String, String) {
    let names: Vec<&str> = guards.iter().map(|guard| guard.budget.name.as_str()).collect();
    let cause = "more than one PodDisruptionBudget selects the pod, which the eviction API does not support";
    let hint = format!("change the selectors so that only one of {} selects this pod", names.join(", "));
    (BlockedBy::TwoBudgets, cause.to_owned(), hint)
}

/// `ReturnsToNode`: the pod's owner creates it again on this node.
fn returning(pod: &PodView, track: &Track) -> Blocked {
    let owner = pod.owner();
    let times = track.returns();
    let then = if track.is_left_alone() {
        "; it is not evicted again in this attempt"
    } else if times >= MOST_RETURNS {
        "; it is evicted slowly from now on"
    } else {
        ""
    };
    Blocked {
        pod: pod.id.clone(),
        cause: format!(
            "ReturnsToNode: {owner} has created it again on this node {times} times since the drain began{then}"
        ),
        hint: return_hint(pod, track.names_node()),
        holder: owner,
        since: track.since(),
        by: BlockedBy::Recreated,
        ..Blocked::default()
    }
}

/// What is known before a drain of a pod that its owner will create again on this node: `None` of all pods of which only a
/// return can tell.
pub fn foretold_return(pod: &PodView) -> Option<Blocked> {
    let owner = pod.controller.as_ref().filter(|owner| owner.is_foreign_daemon_set())?;
    Some(Blocked {
        pod: pod.id.clone(),
        cause: format!("ReturnsToNode: {owner} creates it again on this node, although the node is cordoned"),
        holder: owner.to_string(),
        hint: return_hint(pod, false),
        by: BlockedBy::Recreated,
        ..Blocked::default()
    })
}

/// How a pod that returns can be stopped, or left. Only owners of Kubernetes' own can be scaled, and have a template that a
/// person writes.
fn return_hint(pod: &PodView, named_node: bool) -> String {
    let owner = pod.owner();
    let PodId { namespace, name, .. } = &pod.id;
    let label =
        format!("let the drain leave the pod: kubectl -n {namespace} label pod {name} {DRAIN_LABEL}=skip");
    let names_node = pod.names_node || named_node;
    let Some(kind) = pod.controller.as_ref().filter(|owner| !owner.has_scale()).map(|owner| &owner.kind)
    else {
        return if pod.tolerates_cordon {
            format!(
                "{owner} tolerates the cordon: scale it down, or remove that toleration, until the node is back; or {label}"
            )
        } else if names_node {
            format!(
                "the pod template of {owner} names this node (spec.nodeName): delete {owner}, or remove nodeName; or {label}"
            )
        } else {
            format!(
                "the pod does not tolerate the cordon: look whether the pod template of {owner} names this node \
                 (spec.nodeName), or which scheduler binds its pods to a cordoned node; scale {owner} down until the node \
                 is back; or {label}"
            )
        };
    };
    let why = if pod.is_placed_here() || names_node {
        format!("an owner of kind {kind} ignores cordons")
    } else if pod.tolerates_cordon {
        format!("{owner} tolerates the cordon")
    } else {
        return format!(
            "the pod does not tolerate the cordon: look whether {owner} names this node (spec.nodeName), or which scheduler \
             binds its pods to a cordoned node; or {label}"
        );
    };
    format!(
        "{why}: {label}; or give the template of {owner} that label; or write for this kind a [[rule]] with \
         owner-kind = \"{kind}\" and behaviour = \"skip\" into the settings"
    )
}

#[cfg(test)]
mod tests;
