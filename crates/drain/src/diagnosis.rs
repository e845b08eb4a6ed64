//! Why a pod does not leave, and what a person can do about it.
//!
//! A diagnosis never decides anything: a budget that looks misconfigured is what a live migration looks like as well.

mod budgets;
mod holders;
mod stuck;

pub(crate) use stuck::STUCK_AFTER;

use crate::budget::guarding;
use crate::findings::BudgetPods;
use crate::plan::Planned;
use crate::progress::is_blocked;
use crate::returns::MOST_RETURNS;
use crate::state::{Attempt, Cause, Stage, Track};
use crate::time::Moment;
use crate::view::{BudgetView, Picture, PodId, PodView};

/// One pod that is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// Which pod.
    pub pod: PodId,
    /// Who or what blocks it, in one sentence.
    pub cause: String,
    /// The budgets that guard it.
    pub budgets: Vec<Guard>,
    /// Who is behind it, if recognised: a migration, a last replica, an owner that makes it anew here.
    pub holder: String,
    /// What a person can do.
    pub hint: String,
    /// Since when.
    pub since: Moment,
    /// Nobody refuses its eviction: its owner makes it anew on this node.
    pub returns: bool,
}

impl Blocked {
    /// Who or what blocks the pod, and who is behind it if that was recognised.
    pub fn cause_and_holder(&self) -> String {
        let Self { cause, holder, .. } = self;
        if holder.is_empty() { cause.clone() } else { format!("{cause}; behind it is {holder}") }
    }
}

/// A budget that guards a blocked pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The budget, with its numbers.
    pub budget: BudgetView,
    /// Its pods that are not Ready, each with its node and the reason, as far as that was found out.
    pub unhealthy: Vec<String>,
}

/// Every blocked pod of the attempt, in the order of the last picture.
pub fn blocked(attempt: &Attempt, now: Moment) -> Vec<Blocked> {
    let Some(picture) = &attempt.picture else { return Vec::new() };
    let pods = picture.pods.iter().zip(&attempt.planned);
    pods.filter_map(|(pod, planned)| one(attempt, picture, pod, planned, now)).collect()
}

fn one(
    attempt: &Attempt,
    picture: &Picture,
    pod: &PodView,
    planned: &Planned,
    now: Moment,
) -> Option<Blocked> {
    let track = attempt.pods.get(&pod.id.uid)?;
    if track.stage == Stage::Terminating {
        return stuck::stuck(attempt, picture, pod, track, now);
    }
    if !is_blocked(&track.stage) && refusal(track).is_none() {
        return (track.returns > 0).then(|| returning(pod, track));
    }
    let guards: Vec<Guard> =
        guarding(pod, &picture.budgets).map(|budget| guard(budget, &attempt.findings.budgets)).collect();
    let (cause, hint) = cause(attempt, track, planned, pod, &guards);
    let held = holders::of(pod, &attempt.findings).filter(|_| is_held(track));
    let returns = matches!(refusal(track), Some(Cause::Returns { .. }));
    let owner = if returns { pod.owner() } else { String::new() };
    let (holder, hint) = held.map_or((owner, hint), |held| (held.holder, held.hint));
    let since = track.refused_since.unwrap_or(track.since);
    Some(Blocked { pod: pod.id.clone(), cause, budgets: guards, holder, hint, since, returns })
}

/// Who refuses it: for a pod that is asked about again just now, who refused it last.
fn refusal(track: &Track) -> Option<&Cause> {
    match &track.stage {
        Stage::Blocked { cause, .. } => Some(cause),
        Stage::Waiting | Stage::Sent => track.refusal.as_ref(),
        Stage::Paused { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => None,
    }
}

/// A budget or a webhook may be a holder's way to keep the pod; nothing else is.
fn is_held(track: &Track) -> bool {
    matches!(refusal(track), Some(Cause::Budget(_) | Cause::Webhook(_)))
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
) -> (String, String) {
    match (refusal(track), &track.stage) {
        (Some(Cause::Budget(text)), _) => {
            (format!("PodDisruptionBudget: {text}"), budgets::hint(guards, &attempt.findings))
        }
        (Some(Cause::TwoBudgets), _) => two_budgets(guards),
        (Some(Cause::Webhook(text)), _) => (
            format!("admission webhook: {text}"),
            "ask the owner of the webhook; the eviction is tried again".to_owned(),
        ),
        (Some(Cause::Returns { .. }), _) => {
            let Blocked { cause, hint, .. } = returning(pod, track);
            (cause, hint)
        }
        (None, Stage::Refused) => {
            let reasons: Vec<String> = planned.reasons.iter().map(ToString::to_string).collect();
            (
                format!("the policy does not allow its eviction: {}", reasons.join("; ")),
                "allow it (settings pods.*, or the flags of `ebb drain`)".to_owned(),
            )
        }
        (None, Stage::Final { text }) => {
            (text.clone(), "mend the cause; the next attempt tries again".to_owned())
        }
        (
            None,
            Stage::Waiting
            | Stage::Sent
            | Stage::Blocked { .. }
            | Stage::Paused { .. }
            | Stage::Accepted
            | Stage::Terminating
            | Stage::Awaiting,
        ) => (String::new(), String::new()),
    }
}

fn two_budgets(guards: &[Guard]) -> (String, String) {
    let names: Vec<&str> = guards.iter().map(|guard| guard.budget.name.as_str()).collect();
    let cause = "more than one PodDisruptionBudget selects the pod, which the eviction API does not support";
    let hint = format!("change the selectors so that only one of {} selects this pod", names.join(", "));
    (cause.to_owned(), hint)
}

/// `ReturnsToNode`: the pod's owner makes it anew on this very node.
fn returning(pod: &PodView, track: &Track) -> Blocked {
    let owner = pod.owner();
    let times = track.returns;
    let slowly = if times >= MOST_RETURNS { "; it is evicted slowly from now on" } else { "" };
    let hint = if pod.tolerates_cordon {
        format!(
            "{owner} tolerates the cordon: scale it down, or remove that toleration, until the node is back"
        )
    } else if track.names_node {
        format!(
            "the pod template of {owner} names this node (spec.nodeName): delete {owner}, or remove nodeName"
        )
    } else {
        format!(
            "the pod does not tolerate the cordon: look whether the pod template of {owner} names this node \
             (spec.nodeName), or which scheduler binds its pods to a cordoned node; scale {owner} down until the node \
             is back"
        )
    };
    Blocked {
        pod: pod.id.clone(),
        cause: format!(
            "ReturnsToNode: {owner} has made it anew on this node {times} times since the drain began{slowly}"
        ),
        holder: owner,
        hint,
        since: track.since,
        returns: true,
        ..Blocked::default()
    }
}

#[cfg(test)]
mod tests;
