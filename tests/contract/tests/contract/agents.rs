//! Our agents' client: snapshots of a node, and a whole drain.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::{Drainer, Informer, list_nodes, relist};
use contract::PodState::{Finished, Pending, Ready, ReadyForLong, Unbound};
use contract::{Change, Objects, Place, Target, Watch, objects};
use drain::Requirement;
use drain::state::Failure;
use drain::view::{Existence, Phase};
use drain::{Outcome, PodView, Policy, Snapshot};
use serde_json::{Value, json};

/// Names of the pods in the snapshot that belong to this place.
fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.pods.iter().map(|pod| pod.id.name.as_str()).collect()
}

fn pod<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a PodView> {
    snapshot.pods.iter().find(|pod| pod.id.name == name)
}

/// Waits for a snapshot that fulfils the condition; the time limit of the case ends a wait in vain.
pub(crate) async fn seen(informer: &mut Informer, condition: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    loop {
        let snapshot = informer.changed().await;
        if condition(&snapshot) {
            return snapshot;
        }
    }
}

pub(crate) async fn a_full_snapshot_shows_the_nodes_pods(target: &Target) -> Result<()> {
    let place = Place::new(target, "look").await?;
    place
        .pods(&[("ending", ReadyForLong), ("pending", Pending), ("finished", Finished), ("unbound", Unbound)])
        .await?;
    make_special_pod(&place).await?;
    make_daemon_pod(&place).await?;
    let grace = json!({"gracePeriodSeconds": 9});
    place.caller().delete(&place.path("pods/ending"), &grace).await?.object()?;

    let snapshot = relist(place.caller().cluster(), &place.node, None, false).await?;
    let all = names(&snapshot);
    assert!(all[0].starts_with("agent-"), "{all:?}");
    assert_eq!(all[1..], ["ending", "finished", "pending", "special"]);
    let phases: Vec<_> = snapshot.pods.iter().map(|pod| pod.phase).collect();
    assert_eq!(phases, [Phase::Running, Phase::Running, Phase::Succeeded, Phase::Pending, Phase::Running]);
    let agent = snapshot.pods[0].controller.as_ref().context("no controller")?;
    assert!(agent.is_daemon_set() && agent.existence == Existence::Present, "{agent:?}");
    assert_eq!(snapshot.pods[0].owner(), "DaemonSet/agent");

    let ending = pod(&snapshot, "ending").context("no pod")?;
    assert_eq!(ending.terminating.map(|terminating| terminating.grace), Some(Duration::from_secs(9)));
    let special = pod(&snapshot, "special").context("no pod")?;
    assert!(special.mirror && special.empty_dir);
    assert_eq!((special.grace, special.finalizers.len()), (Duration::from_secs(7), 1));
    let pending = pod(&snapshot, "pending").context("no pod")?;
    let expected = PodView {
        id: place.pod_id("pending").await?,
        phase: Phase::Pending,
        labels: [("app".to_owned(), "x".to_owned())].into(),
        grace: Duration::from_secs(30),
        // No scheduler has bound this pod.
        names_node: true,
        ..PodView::default()
    };
    assert_eq!(*pending, expected);
    Ok(())
}

/// Creates a pod with everything that a verdict can depend on.
async fn make_special_pod(place: &Place<'_>) -> Result<()> {
    let mut special = objects::bound_pod("special", &place.node, objects::Kubelet::NeverEnds);
    special["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("x");
    special["metadata"]["finalizers"] = json!(["example.org/hold"]);
    special["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"medium": "Memory"}}]);
    special["spec"]["terminationGracePeriodSeconds"] = json!(7);
    place.create("pods", &special).await?;
    let is_running = |pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
    place.until("the special pod runs", "pods/special", is_running).await
}

async fn make_daemon_pod(place: &Place<'_>) -> Result<()> {
    place.create("daemonsets", &objects::daemon_set("agent", &place.namespace)).await?;
    let is_running =
        |pods: &Objects| pods.values().any(|pod| pod["status"]["phase"] == "Running").then_some(());
    let (path, query) = (place.path("pods"), "labelSelector=app=agent");
    place.caller().until_all("the DaemonSet's pod runs", &path, query, is_running).await
}

pub(crate) async fn a_full_snapshot_shows_node_and_budgets(target: &Target) -> Result<()> {
    let place = Place::new(target, "budgets").await?;
    let (cluster, node) = (place.caller().cluster(), place.node.as_str());
    place.pods(&[("a", Ready), ("b", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [2, 2, 1, 1]).await?;
    let snapshot = relist(cluster, node, None, false).await?;
    let found = snapshot.node.as_ref().context("no node")?;
    assert_eq!((found.name.as_str(), found.ready, found.cordoned), (node, true, false));
    let facts = list_nodes(cluster).await?;
    assert!(facts.iter().any(|facts| facts.view == *found), "{facts:?}");

    let budget = snapshot.budgets.iter().find(|budget| budget.namespace == place.namespace);
    let budget = budget.context("no budget")?;
    let selector = budget.selector.as_ref().map(|selector| selector.requirements.clone());
    assert_eq!(selector, Some(vec![Requirement::In("app".to_owned(), vec!["x".to_owned()])]));
    assert_eq!((budget.name.as_str(), budget.status_lags), ("p", false));
    let numbers =
        [budget.expected_pods, budget.current_healthy, budget.desired_healthy, budget.disruptions_allowed];
    assert_eq!(numbers, [2, 2, 1, 1]);

    let nobody = relist(cluster, "none.example.org", None, false).await?;
    assert_eq!((nobody.node, nobody.pods), (None, vec![]));
    Ok(())
}

pub(crate) async fn an_informer_shows_every_change(target: &Target) -> Result<()> {
    let place = Place::new(target, "feed").await?;
    let node = place.node.as_str();
    place.pods(&[("a", Ready), ("b", Ready)]).await?;
    let other = place.add_node("b").await?;
    let mut informer = Informer::start(place.caller().cluster(), node);
    let first = informer.changed().await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(
        *first,
        relist(place.caller().cluster(), node, Some(&*first), false).await?,
        "both ways show the same"
    );

    let elsewhere = objects::bound_pod("c", &other, objects::Kubelet::Quick);
    place.create("pods", &elsewhere).await?;
    let bound_here = objects::bound_pod("d", node, objects::Kubelet::Quick);
    place.create("pods", &bound_here).await?;
    let is_running = |snapshot: &Snapshot| pod(snapshot, "d").is_some_and(|pod| pod.phase == Phase::Running);
    assert_eq!(names(&*seen(&mut informer, is_running).await), ["a", "b", "d"]);

    place.cordoned().await?;
    seen(&mut informer, |snapshot| snapshot.node.as_ref().is_some_and(|node| node.cordoned)).await;
    place.budget("p", &json!({"minAvailable": 2}), [4, 4, 2, 2]).await?;
    let mine = |snapshot: &Snapshot| {
        let budget = snapshot.budgets.iter().find(|budget| budget.namespace == place.namespace)?;
        Some((budget.current_healthy, budget.disruptions_allowed, budget.status_lags))
    };
    seen(&mut informer, |snapshot| mine(snapshot) == Some((4, 2, false))).await;
    place.evict("a").await?.object()?;
    seen(&mut informer, |snapshot| names(snapshot) == ["b", "d"]).await;
    seen(&mut informer, |snapshot| mine(snapshot) == Some((3, 1, false))).await;

    place.caller().delete(&place.path("poddisruptionbudgets/p"), &json!({})).await?.object()?;
    seen(&mut informer, |snapshot| mine(snapshot).is_none()).await;
    place.caller().delete(&place.node_path(), &json!({})).await?.object()?;
    seen(&mut informer, |snapshot| snapshot.node.is_none()).await;
    Ok(())
}

/// A device's policy with few and short waits.
fn policy() -> Policy {
    Policy { attempt_timeout: Duration::from_mins(1), settle: Duration::from_millis(50), ..Policy::device() }
}

/// Checks that the budget was never violated: at no time were fewer pods healthy than desired.
async fn was_kept(mut watch: Watch) -> Result<()> {
    while let Some(event) = watch.next().await? {
        let status = &event["object"]["status"];
        assert!(status["currentHealthy"].as_i64() >= status["desiredHealthy"].as_i64(), "{status}");
        if event["object"]["metadata"]["labels"]["over"] == "true" {
            return Ok(());
        }
    }
    anyhow::bail!("the watch has ended")
}

pub(crate) async fn a_drain_moves_what_has_to_leave(target: &Target) -> Result<()> {
    let place = Place::new(target, "drain").await?;
    let (pool, node) = (place.namespace.as_str(), place.node.as_str());
    place.create("deployments", &objects::deployment("web", 3, pool)).await?;
    place.create("daemonsets", &objects::daemon_set("agent", pool)).await?;
    place.pods(&[("bare", Ready)]).await?;
    place
        .create("poddisruptionbudgets", &objects::budget("web", "web", &json!({"maxUnavailable": 1})))
        .await?;
    let budget = place.until_budget("web", [3, 3, 2, 1]).await?;
    let version = budget["metadata"]["resourceVersion"].as_str().unwrap();
    let kept = place
        .caller()
        .watch(&place.path("poddisruptionbudgets"), &format!("resourceVersion={version}"))
        .await?;
    let other = place.add_node("b").await?;

    let drainer = Drainer::new(place.caller().cluster().clone(), policy()).owned_by("zedkube", "test");
    assert_eq!(drainer.drain(node).outcome().await?, Outcome::Drained);

    let left = relist(place.caller().cluster(), node, None, false).await?;
    assert!(left.pods.iter().all(|pod| pod.owner() == "DaemonSet/agent") && left.pods.len() == 1, "{left:?}");
    assert!(left.node.is_some_and(|node| node.cordoned));
    assert_eq!(place.caller().get(&place.path("pods/bare")).await?.code, 404, "nobody makes it anew");
    place.until_budget("web", [3, 3, 2, 1]).await?;
    let web = place.get("pods?labelSelector=app=web").await?;
    assert!(web["items"].as_array().unwrap().iter().all(|pod| pod["spec"]["nodeName"] == *other), "{web}");

    place.patch("poddisruptionbudgets/web", &json!({"metadata": {"labels": {"over": "true"}}})).await?;
    was_kept(kept).await
}

pub(crate) async fn a_drain_ends_when_somebody_uncordons(target: &Target) -> Result<()> {
    let place = Place::new(target, "uncordoned").await?;
    place.pods(&[("a", Ready)]).await?;
    place.budget("p", &json!({"minAvailable": 1}), [1, 1, 1, 0]).await?;
    let drainer = Drainer::new(place.caller().cluster().clone(), policy());
    let by_hand = async {
        let is_cordoned = |node: &Value| (node["spec"]["unschedulable"] == true).then_some(());
        place.caller().until("the node is cordoned", &place.node_path(), is_cordoned).await?;
        let patch = json!({"spec": {"unschedulable": null}});
        place.caller().patch(&place.node_path(), Change::Merge, &patch).await?.object()
    };
    let (outcome, lifted) = futures::join!(drainer.drain(&place.node).outcome(), by_hand);
    lifted?;
    assert_eq!(outcome?, Outcome::Failed(Failure::Uncordoned));
    Ok(())
}
