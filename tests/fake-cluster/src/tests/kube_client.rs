//! The client of all Rust operators (kube) understands the fake.

use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::{PATIENCE, passive, quick, wait};
use crate::{FakeCluster, Limit, objects};

async fn client(cluster: &FakeCluster) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).expect("a kubeconfig");
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn it_reads_and_writes_objects() {
    let cluster = passive();
    cluster.node("edge-a").expect("a node");
    let client = client(&cluster).await;
    let version = client.apiserver_version().await.expect("a version");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "34"));
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let node = nodes.patch("edge-a", &PatchParams::default(), &patch).await.expect("a cordon");
    assert_eq!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
    let strategic =
        Patch::Strategic(json!({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}}));
    let node = nodes.patch_status("edge-a", &PatchParams::default(), &strategic).await.expect("a condition");
    assert_eq!(node.status.and_then(|status| status.conditions).map(|conditions| conditions.len()), Some(2));

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(objects::pod("a", "edge-a")).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("a new pod");
    let exists = pods.create(&PostParams::default(), &pod).await.expect_err("it exists");
    assert!(
        matches!(&exists, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists"),
        "{exists}"
    );
    let on_node = ListParams::default().fields("spec.nodeName=edge-a");
    assert_eq!(pods.list(&on_node).await.expect("a list").items.len(), 1);
    let evicted = pods.evict("a", &EvictParams::default()).await.expect("an eviction");
    assert!(evicted.is_success());
    assert!(pods.get("a").await.expect("its grace").metadata.deletion_timestamp.is_some());
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.expect("a deletion");
    assert!(pods.get_opt("a").await.expect("an answer").is_none());
    assert_eq!(
        Api::<Namespace>::all(client).list(&ListParams::default()).await.expect("a list").items.len(),
        4
    );
    assert!(cluster.requests().count("*", "create", "pods/eviction") == 1);
}

#[tokio::test]
async fn it_discovers_what_is_served() {
    let cluster = passive();
    let client = client(&cluster).await;
    let discovery = Discovery::new(client).run().await.expect("a discovery");
    for (group, kind, scope) in [
        ("", "Node", Scope::Cluster),
        ("", "Pod", Scope::Namespaced),
        ("policy", "PodDisruptionBudget", Scope::Namespaced),
        ("storage.k8s.io", "VolumeAttachment", Scope::Cluster),
    ] {
        let group = discovery.get(group).expect("the group");
        let (_, capabilities) = group.recommended_kind(kind).expect("the kind");
        assert_eq!(capabilities.scope, scope, "{kind}");
        assert!(capabilities.supports_operation("watch"), "{kind}");
        if kind == "Pod" {
            let subresources: Vec<&str> =
                capabilities.subresources.iter().map(|(one, _)| one.plural.as_str()).collect();
            assert!(subresources.contains(&"eviction"), "{subresources:?}");
        }
    }
}

#[tokio::test]
async fn it_sees_why_an_eviction_is_refused() {
    let cluster = quick();
    cluster.node("edge-a").expect("a node");
    cluster.deployment("web", 1, "").expect("a deployment");
    cluster.budget("web", Limit::MaxUnavailable("0")).expect("a budget");
    let client = client(&cluster).await;
    let pod = wait(&cluster, "a ready pod and its budget", |cluster| {
        let budget = cluster.get("pdb", "default", "web")?;
        let pod = cluster.pods_on("edge-a").into_iter().find(crate::object::is_ready)?;
        (crate::object::number(&budget, "/status/currentHealthy") == Some(1)).then_some(pod)
    })
    .await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let refused =
        pods.evict(crate::object::name(&pod), &EvictParams::default()).await.expect_err("the budget");
    let kube::Error::Api(status) = refused else { panic!("not an answer: {refused}") };
    let cause = &status.details.as_ref().expect("details").causes[0];
    assert_eq!((status.code, cause.reason.as_str()), (429, "DisruptionBudget"));
    let budgets: Api<PodDisruptionBudget> = Api::all(client.clone());
    let budget = budgets.list(&ListParams::default()).await.expect("a list").items.remove(0);
    assert_eq!(budget.status.map(|status| (status.expected_pods, status.disruptions_allowed)), Some((1, 0)));
    let deployments: Api<Deployment> = Api::all(client);
    assert_eq!(deployments.list(&ListParams::default()).await.expect("a list").items.len(), 1);
}

/// The watcher's events, until a pod of this name is applied or deleted.
async fn until<S>(events: &mut S, name: &str) -> Vec<String>
where
    S: futures::Stream<Item = watcher::Result<Event<Pod>>> + Unpin,
{
    let mut seen = Vec::new();
    loop {
        let event = timeout(PATIENCE, events.try_next()).await.expect("in time");
        let (what, pod) = match event {
            Ok(Some(Event::Apply(pod) | Event::InitApply(pod))) => ("apply", pod),
            Ok(Some(Event::Delete(pod))) => ("delete", pod),
            Ok(Some(Event::Init)) => {
                seen.push("init".to_owned());
                continue;
            }
            Ok(Some(Event::InitDone)) => {
                seen.push("done".to_owned());
                continue;
            }
            Ok(None) => panic!("a watcher never ends"),
            // The watcher reports the error and goes on by itself.
            Err(_) => continue,
        };
        seen.push(format!("{what} {}", pod.name_any()));
        if pod.name_any() == name {
            return seen;
        }
    }
}

#[tokio::test]
async fn its_watcher_survives_cuts_and_forgotten_history() {
    for streaming in [false, true] {
        let cluster = passive();
        cluster.pod("a", "").expect("a pod");
        let mut config = watcher::Config::default().timeout(5);
        if streaming {
            config = config.streaming_lists();
        }
        let pods: Api<Pod> = Api::default_namespaced(client(&cluster).await);
        let mut events = Box::pin(watcher::watcher(pods, config));
        assert_eq!(until(&mut events, "a").await, ["init", "apply a"], "streaming {streaming}");
        cluster.pod("b", "").expect("a pod");
        assert_eq!(until(&mut events, "b").await, ["done", "apply b"]);
        // After a cut the watcher resumes where it was and misses nothing.
        cluster.faults().cut_watches(None);
        cluster.pod("c", "").expect("a pod");
        assert_eq!(until(&mut events, "c").await, ["apply c"]);
        // The API was down and the history is gone: the watcher lists again.
        cluster.faults().api_down().expect("down");
        cluster.delete("pods", "default", "a");
        cluster.pod("d", "").expect("a pod");
        cluster.faults().forget_history();
        cluster.faults().api_up().expect("up");
        assert_eq!(until(&mut events, "d").await, ["init", "apply b", "apply c", "apply d"]);
    }
}
