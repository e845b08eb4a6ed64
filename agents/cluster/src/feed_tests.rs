use drain::view::Existence;
use fake_cluster::{Effect, FakeCluster, Fault, Limit, Reply, Settings, objects};
use serde_json::{Value, json};

use super::*;
use crate::testing::{connect_to, soon, still_cluster, until};

/// Waits for a picture that fulfils the condition.
async fn seen(feed: &mut Feed, condition: impl Fn(&Picture) -> bool) -> Arc<Picture> {
    soon(async {
        loop {
            let picture = feed.changed().await;
            if condition(&picture) {
                return picture;
            }
        }
    })
    .await
}

fn names(picture: &Picture) -> Vec<String> {
    picture.pods.iter().map(|pod| pod.id.to_string()).collect()
}

#[tokio::test]
async fn the_first_picture_is_whole_and_costs_six_calls() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    for (name, node) in [("b", "edge-a"), ("a", "edge-a"), ("c", "edge-b"), ("d", "")] {
        fake.pod(name, node).unwrap();
    }
    fake.budget("web", Limit::MinAvailable("1")).unwrap();
    let mut feed = Feed::start(&cluster, "edge-a");
    assert_eq!(feed.latest(), None);
    let picture = soon(feed.changed()).await;
    assert_eq!(picture.node.as_ref().unwrap().name, "edge-a");
    assert_eq!(names(&picture), ["default/a", "default/b"]);
    assert_eq!(picture.budgets.len(), 1);
    assert_eq!(feed.latest(), Some(picture));
    let asked = |verb| fake.requests().count("ebb/", verb, "*");
    soon(async {
        while asked("watch") < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((asked("list"), asked("watch"), asked("*")), (3, 3, 6));
}

#[tokio::test]
async fn changes_are_seen_and_other_nodes_are_not() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    fake.pod("c", "edge-b").unwrap();
    fake.pod("a", "edge-a").unwrap();
    let picture = seen(&mut feed, |picture| !picture.pods.is_empty()).await;
    assert_eq!(names(&picture), ["default/a"]);
    fake.edit("nodes", "", "edge-a", |node| node["spec"]["unschedulable"] = json!(true)).unwrap();
    seen(&mut feed, |picture| picture.node.as_ref().unwrap().cordoned).await;
    fake.budget("a", Limit::MinAvailable("1")).unwrap();
    let budget = seen(&mut feed, |picture| !picture.budgets.is_empty()).await.budgets[0].clone();
    fake.edit("poddisruptionbudgets", "default", "a", |budget| {
        budget["metadata"]["labels"] = json!({"x": "y"});
    })
    .unwrap();
    seen(&mut feed, |picture| picture.budgets[0].version != budget.version).await;
    fake.edit("pods", "default", "a", |pod| pod["metadata"]["finalizers"] = json!(["x/y"])).unwrap();
    fake.delete("pods", "default", "a");
    seen(&mut feed, |picture| picture.pods[0].terminating.is_some()).await;
    fake.edit("pods", "default", "a", |pod| {
        pod["metadata"]["finalizers"] = json!([]);
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    })
    .unwrap();
    fake.delete("nodes", "", "edge-a");
    seen(&mut feed, |picture| picture.node.is_none()).await;
}

#[tokio::test]
async fn a_burst_becomes_few_pictures_and_only_the_last_is_kept() {
    let (fake, cluster) = still_cluster();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    for number in 0..200 {
        fake.pod(&format!("p{number:03}"), "edge-a").unwrap();
    }
    let mut pictures = 0;
    soon(async {
        while feed.changed().await.pods.len() < 200 {
            pictures += 1;
        }
    })
    .await;
    assert!(pictures < 200, "{pictures} pictures");
}

#[tokio::test]
async fn a_heartbeat_is_no_change() {
    let (fake, cluster) = still_cluster();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    fake.edit("nodes", "", "edge-a", |node| node["status"]["images"] = json!([])).unwrap();
    fake.pod("a", "edge-a").unwrap();
    let picture = soon(feed.changed()).await;
    assert_eq!(picture.pods.len(), 1, "the first new picture is that of the pod");
}

fn pod_of_daemon_set(name: &str, owner: &str) -> Value {
    let mut pod = objects::pod(name, "edge-a");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": true}]);
    pod
}

#[tokio::test]
async fn owners_are_known_from_the_first_picture_on() {
    let (fake, cluster) = still_cluster();
    fake.apply(pod_of_daemon_set("orphan", "gone")).unwrap();
    fake.daemon_set("agent").unwrap();
    fake.apply(pod_of_daemon_set("agent-1", "agent")).unwrap();
    fake.apply(pod_of_daemon_set("agent-2", "agent")).unwrap();
    fake.apply(pod_of_daemon_set("hidden", "hidden")).unwrap();
    let denied = Reply::forbidden("edge", "get", "daemonsets", "default", "hidden");
    fake.faults().add(Fault::on("get", "daemonsets", Effect::Answer(denied)).named("hidden"));
    let mut feed = Feed::start(&cluster, "edge-a");
    let picture = soon(feed.changed()).await;
    let existences: Vec<_> =
        picture.pods.iter().map(|pod| pod.controller.as_ref().unwrap().existence).collect();
    let (present, unknown, missing) = (Existence::Present, Existence::Unknown, Existence::Missing);
    assert_eq!(existences, [present, present, unknown, missing]);
    assert_eq!(fake.requests().count("ebb/", "get", "daemonsets"), 3);
    // A pod that comes later is asked about as well.
    fake.apply(pod_of_daemon_set("orphan-2", "gone-2")).unwrap();
    let is_missing = |pod: &drain::PodView| pod.controller.as_ref().unwrap().existence == missing;
    seen(&mut feed, |picture| picture.pods.iter().filter(|pod| is_missing(pod)).count() == 2).await;
}

#[tokio::test]
async fn nothing_is_shown_until_all_three_watches_have_listed() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "list", "poddisruptionbudgets", "", "");
    fake.faults().add(Fault::on("list", "poddisruptionbudgets", Effect::Answer(denied)));
    let mut feed = Feed::start(&cluster, "edge-a");
    let failure = soon(feed.failures().next()).await;
    assert!(matches!(failure, ApiFailure::Denied { .. }), "{failure:?}");
    assert_eq!(feed.latest(), None);
    assert_eq!(feed.last_error(), Some(failure));
    soon(feed.changed()).await;
    assert_eq!(feed.last_error(), None, "all is well again");
}

#[tokio::test]
async fn after_an_outage_the_feed_goes_on() {
    let (fake, cluster) = still_cluster();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    let mut failures = feed.failures();
    fake.faults().api_down().unwrap();
    assert!(soon(failures.next()).await.is_unreachable());
    fake.pod("a", "edge-a").unwrap();
    fake.faults().api_up().unwrap();
    seen(&mut feed, |picture| picture.pods.len() == 1).await;
}

#[tokio::test]
async fn a_forgotten_history_and_broken_watches_lose_nothing() {
    let (fake, cluster) = still_cluster();
    fake.pod("a", "edge-a").unwrap();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    fake.faults().api_down().unwrap();
    fake.delete("pods", "default", "a");
    fake.pod("b", "edge-a").unwrap();
    fake.faults().forget_history();
    fake.faults().api_up().unwrap();
    let is_b = |picture: &Picture| picture.pods.iter().any(|pod| pod.id.name == "b");
    seen(&mut feed, is_b).await;
    fake.faults().break_watches(None);
    fake.pod("c", "edge-a").unwrap();
    fake.faults().cut_watches(Some("pods"));
    seen(&mut feed, |picture| picture.pods.iter().any(|pod| pod.id.name == "c")).await;
}

#[tokio::test]
async fn a_dropped_feed_asks_no_more() {
    let (fake, cluster) = still_cluster();
    let mut feed = Feed::start(&cluster, "edge-a");
    soon(feed.changed()).await;
    let task = feed.task.clone();
    drop(feed);
    soon(async {
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(fake);
}

#[tokio::test]
async fn a_name_that_no_node_can_have_shows_nothing() {
    let (fake, cluster) = still_cluster();
    fake.pod("a", "edge-a").unwrap();
    let mut feed = Feed::start(&cluster, "x,metadata.name!=y");
    assert_eq!(*soon(feed.changed()).await, Picture::default());
}

#[tokio::test]
async fn a_live_clusters_pods_come_and_go() {
    let fake = FakeCluster::start_with(Settings::quick()).unwrap();
    fake.node("edge-a").unwrap();
    fake.deployment("web", 3, "edge-a").unwrap();
    until(&fake, |fake| fake.pods_on("edge-a").len() == 3).await;
    let mut feed = Feed::start(&connect_to(&fake), "edge-a");
    seen(&mut feed, |picture| picture.pods.len() == 3).await;
    fake.edit("deployments", "default", "web", |web| web["spec"]["replicas"] = json!(1)).unwrap();
    seen(&mut feed, |picture| picture.pods.len() == 1).await;
}

#[test]
fn pauses_grow_to_three_seconds() {
    let mut pauses = Pauses::default();
    let millis: Vec<_> = pauses.by_ref().take(6).map(|pause| pause.as_millis()).collect();
    assert_eq!(millis, [250, 500, 1_000, 2_000, 3_000, 3_000]);
    pauses.reset();
    assert_eq!(pauses.next(), Some(Duration::from_secs(3)), "a sign of life that is none resets nothing");
    pauses.last = Moment(0);
    assert_eq!(pauses.next(), Some(Duration::from_millis(250)), "long ago");
}
