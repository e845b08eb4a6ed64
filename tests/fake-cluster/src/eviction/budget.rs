//! The budget's decision about an eviction.

use serde_json::{Value, json};

use crate::object::{self, at, number, set, text};
use crate::refusal::Refusal;
use crate::resources::BUDGETS;
use crate::selector::Labels;
use crate::store::{Object, Store};
use crate::write::{self, Context};

/// Limit of evictions that no controller has confirmed yet; more are refused.
const MAX_UNCONFIRMED: usize = 2000;

/// Uses up one disruption of the pod's budget, if it has one and needs one.
pub(super) fn take(store: &mut Store, pod: &Value, context: Context) -> Result<(), Refusal> {
    let budgets = of_pod(store, pod);
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        [_, _, ..] => return Err(several_budgets()),
    };
    if !object::is_ready(pod) && allows_unready(budget) {
        return Ok(());
    }
    check(budget)?;
    if context.dry_run {
        return Ok(());
    }
    let (name, now) = (object::name(pod), context.now.text());
    let left = number(budget, "/status/disruptionsAllowed").unwrap_or_default().saturating_sub(1);
    write::edit(store, BUDGETS, object::namespace(budget), object::name(budget), |budget| {
        set(budget, &["status", "disruptionsAllowed"], left);
        set(budget, &["status", "disruptedPods", name], now);
    })
    .map(drop)
}

/// The budgets of the namespace that select the pod; a budget with an unreadable selector selects nothing.
pub(crate) fn of_pod(store: &Store, pod: &Value) -> Vec<Object> {
    let labels = object::labels(pod);
    let selects = |budget: &&Object| {
        let selector = at(budget, "/spec/selector").filter(|selector| !selector.is_null());
        selector.is_some_and(|selector| {
            Labels::from_object(selector).is_ok_and(|selector| selector.matches(&labels))
        })
    };
    store.objects_in(BUDGETS, object::namespace(pod)).filter(selects).cloned().collect()
}

fn several_budgets() -> Refusal {
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let mut refusal = Refusal::new(500, "", message);
    refusal.reason = None;
    refusal
}

/// True if a pod that is not ready may be evicted without asking: always, or while the budget is met without it.
fn allows_unready(budget: &Value) -> bool {
    let healthy = number(budget, "/status/currentHealthy").unwrap_or_default();
    let desired = number(budget, "/status/desiredHealthy").unwrap_or_default();
    match text(budget, "/spec/unhealthyPodEvictionPolicy") {
        "AlwaysAllow" => true,
        "" | "IfHealthyBudget" => healthy >= desired && desired > 0,
        _ => false,
    }
}

fn check(budget: &Value) -> Result<(), Refusal> {
    let name = object::name(budget);
    let observed = number(budget, "/status/observedGeneration").unwrap_or_default();
    if observed < number(budget, "/metadata/generation").unwrap_or_default() {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(violated(&cause).with_retry_after(10));
    }
    let allowed = number(budget, "/status/disruptionsAllowed").unwrap_or_default();
    if allowed < 0 {
        return Err(Refusal::forbidden(BUDGETS, name, "pdb disruptions allowed is negative"));
    }
    if object::map(budget, "/status/disruptedPods").is_some_and(|pods| pods.len() > MAX_UNCONFIRMED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Refusal::forbidden(BUDGETS, name, why));
    }
    if allowed > 0 {
        return Ok(());
    }
    let desired = number(budget, "/status/desiredHealthy").unwrap_or_default();
    let healthy = number(budget, "/status/currentHealthy").unwrap_or_default();
    let cause =
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
    Err(violated(&cause))
}

fn violated(cause: &str) -> Refusal {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let causes = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    Refusal::new(429, "TooManyRequests", message).with_details(causes)
}
