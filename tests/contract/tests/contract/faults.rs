//! Cases that stop or freeze a part of the control plane.

use anyhow::{Context, Result};
use cluster::{Informer, cordon, uncordon};
use contract::PodState::Ready;
use contract::{Place, Said, Target, objects};
use drain::Answer;
use drain::answer::BudgetRefusal;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::WatchEvent;
use kube::core::params::WatchParams;
use serde_json::{Value, json};

use crate::agents::seen;
use crate::refusals::violates;

/// The controller-manager has not counted for the budget's present spec: the server has a special answer for that, with
/// `Retry-After`.
pub(crate) async fn an_unobserved_budget_asks_for_patience(target: &Target) -> Result<()> {
    let place = Place::new(target, "unobserved").await?;
    place.pods(&[("a", Ready), ("b", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 0}), [2, 2, 0, 2]).await?;
    target.pause_controller_manager()?;
    place.patch("poddisruptionbudgets/p", &json!({"spec": {"minAvailable": 1}})).await?;
    is_unobserved(&place, "a").await?;
    place.caller().delete(&place.path("poddisruptionbudgets/p"), &json!({})).await?.object()?;
    assert_eq!(place.evict_with("a", "?dryRun=All", &json!({})).await?.said()?, Said::created());
    let budget = objects::budget("p", objects::APP, &json!({"minAvailable": 1}));
    place.create("poddisruptionbudgets", &budget).await?;
    is_unobserved(&place, "a").await?;
    target.resume_controller_manager()?;
    place.until_budget("p", [2, 2, 1, 1]).await?;
    assert_eq!(place.evict("a").await?.said()?, Said::created());
    Ok(())
}

async fn is_unobserved(place: &Place<'_>, pod: &str) -> Result<()> {
    let cause = "The disruption budget p is still being processed by the server.";
    for query in ["", "?dryRun=All"] {
        let said = place.evict_with(pod, query, &json!({})).await?.said()?;
        assert_eq!(said, violates(cause).retry_after(10), "{query}");
    }
    let refusal = BudgetRefusal {
        text: format!("Cannot evict pod as it would violate the pod's disruption budget. {cause}"),
        after: Some(std::time::Duration::from_secs(10)),
    };
    assert_eq!(place.answer(pod).await?, Answer::Budget(refusal));
    Ok(())
}

/// The API server counts a budget down by itself; only the controller-manager counts it up again.
pub(crate) async fn nobody_counts_a_budget_up(target: &Target) -> Result<()> {
    let place = Place::new(target, "frozen").await?;
    place.pods(&[("a", Ready), ("b", Ready), ("c", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [3, 3, 1, 2]).await?;
    target.pause_controller_manager()?;
    for name in ["a", "b"] {
        assert_eq!(place.evict(name).await?.said()?, Said::created(), "{name}");
        place.until_gone(&format!("pods/{name}")).await?;
    }
    place.pods(&[("d", Ready), ("e", Ready)]).await?;
    let cause = "The disruption budget p needs 1 healthy pods and has 3 currently";
    assert_eq!(place.evict("c").await?.said()?, violates(cause));
    let budget = place.until_budget("p", [3, 3, 1, 0]).await?;
    let disrupted = budget["status"]["disruptedPods"].as_object().context("no disruptedPods")?;
    let mut disrupted: Vec<_> = disrupted.keys().collect();
    disrupted.sort();
    assert_eq!(disrupted, ["a", "b"]);
    target.resume_controller_manager()?;
    place.until_budget("p", [3, 3, 1, 2]).await?;
    assert_eq!(place.evict("c").await?.said()?, Said::created());
    Ok(())
}

/// The controller that sets the taint is frozen; the scheduler reads the field.
pub(crate) async fn a_cordon_holds_without_its_taint(target: &Target) -> Result<()> {
    let place = Place::new(target, "untainted").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    target.pause_controller_manager()?;
    cordon(cluster, node, "zedkube", "reboot").await?;
    place.create("pods", &objects::pending_pod("a", &place.namespace)).await?;
    let refused = |pod: &Value| {
        let condition =
            pod["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == "PodScheduled")?;
        (condition["reason"] == "Unschedulable").then_some(())
    };
    place.until("the scheduler refuses the pod", "pods/a", refused).await?;
    let found = place.caller().get(&place.node_path()).await?.object()?;
    assert_eq!(found["spec"].get("taints"), None);
    target.resume_controller_manager()?;
    let is_tainted = |node: &Value| node["spec"]["taints"][0]["key"].as_str().map(str::to_owned);
    let taint = place.caller().until("the taint comes", &place.node_path(), is_tainted).await?;
    assert_eq!(taint, "node.kubernetes.io/unschedulable");
    uncordon(cluster, node, "zedkube").await?;
    Ok(())
}

/// The API server stops and starts. It has lost its watch cache, so it knows no earlier versions.
pub(crate) async fn after_an_outage_all_is_seen_again(target: &Target) -> Result<()> {
    let place = Place::new(target, "outage").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    place.pods(&[("a", Ready), ("b", Ready)]).await?;
    let (cordoned, id) = (place.cordoned().await?, place.pod_id("a").await?);
    let mut informer = Informer::start(cluster, node);
    informer.changed().await;
    let mut failures = informer.failures();

    target.stop_api_server().await?;
    assert!(failures.next().await.is_unreachable());
    let away = cluster::evict::evict(cluster, &cordoned, &id, None).await;
    assert!(matches!(away, Answer::Throttled { after: None, .. }), "{away:?}");
    assert!(cluster::relist(cluster, node, None, false).await.unwrap_err().is_unreachable());
    assert_eq!(informer.latest().context("no snapshot")?.pods.len(), 2, "the last snapshot stays");

    target.start_api_server().await?;
    assert_eq!(cluster::evict::evict(cluster, &cordoned, &id, None).await, Answer::Accepted);
    seen(&mut informer, |snapshot| snapshot.pods.iter().all(|pod| pod.id.name == "b")).await;
    place.create("pods", &objects::bound_pod("c", node, objects::Kubelet::Quick)).await?;
    seen(&mut informer, |snapshot| snapshot.pods.len() == 2).await;
    an_old_version_is_gone(&place).await
}

/// The 410 comes as an event inside of a watch that has begun well: read raw, and by kube-runtime, which our feed uses.
async fn an_old_version_is_gone(place: &Place<'_>) -> Result<()> {
    let mut watch = place.caller().watch(&place.path("pods"), "resourceVersion=1").await?;
    let event = watch.next().await?.context("the watch has ended")?;
    let status = &event["object"];
    assert_eq!(
        [&event["type"], &status["kind"], &status["status"]],
        ["ERROR", "Status", "Failure"],
        "{event}"
    );
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("too old resource version: 1 ("), "{message}");
    assert_eq!(watch.next().await?, None, "the server ends the watch");

    let pods = Api::<Pod>::namespaced(place.caller().cluster().client().clone(), &place.namespace);
    let mut events = pods.watch(&WatchParams::default(), "1").await?.boxed();
    let first = events.next().await.context("the watch has ended")??;
    let WatchEvent::Error(status) = first else { anyhow::bail!("not an error: {first:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    Ok(())
}
