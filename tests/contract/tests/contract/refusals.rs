//! Refusals by a budget and their reasons: raw, and as our agents understand them.

use anyhow::Result;
use contract::PodState::{Ready, Unready};
use contract::{Place, PodState, Said, Target, failure};
use drain::Answer;
use drain::answer::BudgetRefusal;
use serde_json::{Value, json};

/// The refusal by a budget, with its cause.
pub(crate) fn violates(cause: &str) -> Said {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    failure(429, "TooManyRequests", message, details)
}

/// Checks that the pod cannot be evicted, not even as a dry run, and that the attempt has changed nothing.
async fn is_refused(place: &Place<'_>, pod: &str, cause: &str) -> Result<()> {
    let path = format!("pods/{pod}");
    let before = [place.get(&path).await?, place.get("poddisruptionbudgets/p").await?];
    for query in ["", "?dryRun=All"] {
        let said = place.evict_with(pod, query, &json!({})).await?.said()?;
        assert_eq!(said, violates(cause), "{pod} {query}");
    }
    let refusal = BudgetRefusal {
        text: format!("Cannot evict pod as it would violate the pod's disruption budget. {cause}"),
        after: None,
    };
    assert_eq!(place.answer(pod).await?, Answer::Budget(refusal), "{pod}");
    assert_eq!([place.get(&path).await?, place.get("poddisruptionbudgets/p").await?], before, "{pod}");
    Ok(())
}

fn needs(needed: u32, healthy: u32) -> String {
    format!("The disruption budget p needs {needed} healthy pods and has {healthy} currently")
}

/// Creates pods and a budget `p` with this limit, and waits until its status has these numbers.
async fn place<'a>(
    target: &'a Target,
    pods: &[(&str, PodState)],
    limit: Value,
    numbers: [i64; 4],
) -> Result<Place<'a>> {
    let place = Place::new(target, "refused").await?;
    place.pods(pods).await?;
    place.budget("p", &limit, numbers).await?;
    Ok(place)
}

pub(crate) async fn an_exhausted_budget(target: &Target) -> Result<()> {
    let place = place(target, &[("a", Ready)], json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    is_refused(&place, "a", &needs(1, 1)).await
}

pub(crate) async fn a_budget_counts_down(target: &Target) -> Result<()> {
    let pods = [("a", Ready), ("b", Ready), ("c", Ready)];
    let place = place(target, &pods, json!({"minAvailable": 1}), [3, 3, 1, 2]).await?;
    for name in ["a", "b"] {
        assert_eq!(place.evict(name).await?.said()?, Said::created(), "{name}");
        place.until_gone(&format!("pods/{name}")).await?;
    }
    place.until_budget("p", [1, 1, 1, 0]).await?;
    is_refused(&place, "c", &needs(1, 1)).await
}

/// However many evictions come at once, the server grants no more than the budget allows.
pub(crate) async fn evictions_at_once_share_a_budget(target: &Target) -> Result<()> {
    let pods = [("a", Ready), ("b", Ready), ("c", Ready), ("d", Ready)];
    let place = place(target, &pods, json!({"minAvailable": 2}), [4, 4, 2, 2]).await?;
    let (place, cordoned) = (&place, &place.cordoned().await?);
    let evict = async |name: &str| -> Result<Answer> {
        let id = place.pod_id(name).await?;
        Ok(cluster::evict::evict(place.caller().cluster(), cordoned, &id, None).await)
    };
    let answers = futures::future::try_join_all(["a", "b", "c", "d"].map(evict)).await?;
    assert_eq!(answers.iter().filter(|answer| **answer == Answer::Accepted).count(), 2, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Answer::Budget(_))).count(), 2, "{answers:?}");
    place.until_budget("p", [2, 2, 2, 0]).await.map(drop)
}

pub(crate) async fn an_unready_pod_of_a_met_budget_may_go(target: &Target) -> Result<()> {
    let pods = [("a", Ready), ("u", Unready), ("v", Unready)];
    let place = place(target, &pods, json!({"minAvailable": 1}), [3, 1, 1, 0]).await?;
    is_refused(&place, "a", &needs(1, 1)).await?;
    assert_eq!(place.evict_with("u", "?dryRun=All", &json!({})).await?.said()?, Said::created());
    assert_eq!(place.evict("u").await?.said()?, Said::created());
    assert_eq!(place.answer("v").await?, Answer::Accepted);
    Ok(())
}

pub(crate) async fn an_unready_pod_of_a_broken_budget_must_stay(target: &Target) -> Result<()> {
    for policy in [None, Some("IfHealthyBudget")] {
        let limit = json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": policy});
        let place = place(target, &[("a", Ready), ("u", Unready)], limit, [2, 1, 2, 0]).await?;
        is_refused(&place, "u", &needs(2, 1)).await?;
    }
    Ok(())
}

pub(crate) async fn an_unready_pod_always_goes_if_its_budget_says_so(target: &Target) -> Result<()> {
    let limit = json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    let pods = [("a", Ready), ("u", Unready), ("v", Unready)];
    let place = place(target, &pods, limit, [3, 1, 2, 0]).await?;
    is_refused(&place, "a", &needs(2, 1)).await?;
    assert_eq!(place.evict("u").await?.said()?, Said::created());
    assert_eq!(place.answer("v").await?, Answer::Accepted);
    Ok(())
}

/// If the budget desires no pod, the rule for unready pods does not apply.
pub(crate) async fn an_unready_pod_of_a_budget_of_nothing_must_stay(target: &Target) -> Result<()> {
    let place = place(target, &[("u", Unready)], json!({"minAvailable": 0}), [1, 0, 0, 0]).await?;
    is_refused(&place, "u", &needs(0, 0)).await
}

/// `maxUnavailable` and percentages need a controller that knows how many pods there should be.
pub(crate) async fn a_bare_pod_under_such_a_budget_can_never_go(target: &Target) -> Result<()> {
    for limit in
        [json!({"maxUnavailable": 1}), json!({"maxUnavailable": "50%"}), json!({"minAvailable": "50%"})]
    {
        let place = place(target, &[("a", Ready)], limit, [0, 1, 0, 0]).await?;
        is_refused(&place, "a", &needs(0, 1)).await?;
    }
    Ok(())
}

pub(crate) async fn two_budgets_are_one_too_many(target: &Target) -> Result<()> {
    let limit = json!({"minAvailable": 0});
    let place = place(target, &[("a", Ready), ("u", Unready)], limit.clone(), [2, 1, 0, 1]).await?;
    place.budget("q", &limit, [2, 1, 0, 1]).await?;
    let message =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    for (pod, query) in [("a", ""), ("a", "?dryRun=All"), ("u", "")] {
        let said = place.evict_with(pod, query, &json!({})).await?.said()?;
        assert_eq!(said, failure(500, "", message, Value::Null), "{pod} {query}");
    }
    assert_eq!(place.answer("a").await?, Answer::TwoBudgets);
    for budget in ["p", "q"] {
        place.until_budget(budget, [2, 1, 0, 1]).await?;
    }
    Ok(())
}

/// A nil selector selects nothing, an empty one everything.
pub(crate) async fn selectors_of_budgets(target: &Target) -> Result<()> {
    let place = Place::new(target, "selectors").await?;
    place.pods(&[("a", Ready)]).await?;
    let budget = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let nil = budget("nil", json!({"minAvailable": 1, "selector": null}));
    place.create("poddisruptionbudgets", &nil).await?;
    place.until_budget("nil", [0, 0, 1, 0]).await?;
    assert_eq!(place.evict_with("a", "?dryRun=All", &json!({})).await?.said()?, Said::created());
    let empty = budget("p", json!({"minAvailable": 1, "selector": {}}));
    place.create("poddisruptionbudgets", &empty).await?;
    place.until_budget("p", [1, 1, 1, 0]).await?;
    is_refused(&place, "a", &needs(1, 1)).await?;
    let expression = json!({"key": "app", "operator": "In", "values": ["x", "y"]});
    let other = json!({"key": "app", "operator": "NotIn", "values": ["x"]});
    for (requirement, numbers) in [(expression, [1, 1, 1, 0]), (other, [0, 0, 1, 0])] {
        let selector = json!({"spec": {"selector": {"matchExpressions": [requirement]}}});
        place.patch("poddisruptionbudgets/p", &selector).await?;
        place.until_budget("p", numbers).await?;
    }
    assert_eq!(place.evict("a").await?.said()?, Said::created());
    Ok(())
}
