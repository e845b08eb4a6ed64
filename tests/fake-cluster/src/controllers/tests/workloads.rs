use super::*;

const LIVE: &[Controller] = &[
    Controller::Kubelet,
    Controller::Scheduler,
    Controller::ReplicaSet,
    Controller::Deployment,
    Controller::StatefulSet,
    Controller::DaemonSet,
    Controller::GarbageCollector,
];

/// Two nodes; pods start and end at once.
fn live() -> Bench {
    let mut bench = Bench::new(LIVE);
    bench.settings.pod_ready_after = Duration::ZERO;
    bench.settings.pod_gone_after = Duration::ZERO;
    bench.add(objects::node("edge-a"));
    bench.add(objects::node("edge-b"));
    bench
}

fn names_and_nodes(bench: &Bench) -> Vec<String> {
    let pods = bench.all(PODS);
    pods.iter().map(|pod| format!("{} {}", object::name(pod), text(pod, "/spec/nodeName"))).collect()
}

fn status(bench: &Bench, resource: &Resource, name: &str, field: &str) -> Option<i64> {
    number(&bench.get(resource, name).expect("it"), &format!("/status/{field}"))
}

#[test]
fn a_new_template_of_a_deployment_replaces_its_pods() {
    let mut bench = live();
    bench.add(objects::deployment("web", 3, "edge-a"));
    bench.settle();
    for (resource, name) in [
        (resources::DEPLOYMENTS, "web".to_owned()),
        (resources::REPLICA_SETS, object::name(&bench.all(resources::REPLICA_SETS)[0]).to_owned()),
    ] {
        assert_eq!(status(&bench, resource, &name, "readyReplicas"), Some(3), "{name}");
        assert_eq!(status(&bench, resource, &name, "observedGeneration"), Some(1), "{name}");
    }
    assert!(object::labels(&bench.all(PODS)[0]).contains_key("pod-template-hash"));
    bench.edit(resources::DEPLOYMENTS, "web", |deployment| {
        set(deployment, &["spec", "template", "metadata", "labels", "version"], "2");
    });
    bench.settle();
    let versions: Vec<Value> =
        bench.all(PODS).iter().map(|pod| pod["metadata"]["labels"]["version"].clone()).collect();
    assert_eq!(versions, ["2", "2", "2"]);
    assert_eq!(bench.all(resources::REPLICA_SETS).len(), 2);
}

#[test]
fn a_pod_goes_whose_owner_never_was() {
    let mut bench = live();
    bench.add(objects::pod("alone", "edge-a"));
    let mut orphan = objects::pod("orphan", "edge-a");
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "gone", "uid": "1"}});
    set(&mut orphan, &["metadata", "ownerReferences"], json!([object::controller_reference(&owner)]));
    bench.add(orphan.clone());
    bench.settle();
    assert_eq!(names_and_nodes(&bench), ["alone edge-a"]);
    orphan["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.org/v1");
    bench.add(orphan);
    bench.settle();
    assert_eq!(names_and_nodes(&bench), ["alone edge-a", "orphan edge-a"], "its owner's kind is not served");
}

#[test]
fn a_stateful_set_counts_its_pods() {
    let mut bench = live();
    bench.settings.pod_ready_after = seconds(1);
    bench.add(objects::stateful_set("db", 3, "edge-a"));
    bench.settle();
    assert_eq!(names_and_nodes(&bench), ["db-0 edge-a"], "the next one waits until this one is ready");
    bench.pass(seconds(1));
    bench.pass(seconds(1));
    bench.pass(seconds(1));
    assert_eq!(names_and_nodes(&bench), ["db-0 edge-a", "db-1 edge-a", "db-2 edge-a"]);
    assert_eq!(status(&bench, resources::STATEFUL_SETS, "db", "readyReplicas"), Some(3));
    bench.edit(resources::STATEFUL_SETS, "db", |set_object| set(set_object, &["spec", "replicas"], 1));
    bench.settle();
    assert_eq!(names_and_nodes(&bench), ["db-0 edge-a"]);
}

#[test]
fn a_parallel_stateful_set_waits_for_nobody() {
    let mut bench = live();
    bench.settings.pod_ready_after = seconds(1);
    let mut set_object = objects::stateful_set("db", 3, "");
    set(&mut set_object, &["spec", "podManagementPolicy"], "Parallel");
    bench.add(set_object);
    bench.settle();
    assert_eq!(bench.all(PODS).len(), 3);
}

#[test]
fn a_daemon_set_is_on_every_node_also_cordoned_ones() {
    let mut bench = live();
    bench.edit(NODES, "edge-b", |node| set(node, &["spec", "unschedulable"], true));
    bench.add(objects::daemon_set("agent"));
    bench.settle();
    let nodes = |bench: &Bench| {
        let mut nodes: Vec<String> =
            bench.all(PODS).iter().map(|pod| text(pod, "/spec/nodeName").to_owned()).collect();
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(nodes(&bench), ["edge-a", "edge-b"]);
    assert_eq!(status(&bench, resources::DAEMON_SETS, "agent", "numberReady"), Some(2));
    bench.add(objects::node("edge-c"));
    bench.edit(NODES, "edge-a", |node| {
        set(node, &["spec", "taints"], json!([{"key": "k", "effect": "NoExecute"}]));
    });
    bench.settle();
    assert_eq!(nodes(&bench), ["edge-b", "edge-c"]);
}

#[test]
fn finished_pods_are_replaced() {
    for object in
        [objects::deployment("web", 1, ""), objects::stateful_set("web", 1, ""), objects::daemon_set("web")]
    {
        let mut bench = live();
        bench.delete(NODES, "edge-b");
        bench.add(object);
        bench.settle();
        let before = bench.all(PODS);
        bench.edit(PODS, object::name(&before[0]), |pod| {
            set(pod, &["status", "phase"], "Failed");
            set(pod, &["status", "conditions"], json!([]));
        });
        bench.settle();
        let live: Vec<Value> = bench.all(PODS).into_iter().filter(|pod| !object::is_finished(pod)).collect();
        assert_eq!(live.len(), 1);
        assert_ne!(object::uid(&live[0]), object::uid(&before[0]));
    }
}

#[test]
fn replicas_are_bounded() {
    use crate::controllers::workload::replicas;
    for (wanted, expected) in
        [(json!(null), 1), (json!(-5), 0), (json!(0), 0), (json!(3), 3), (json!(i64::MAX), 10_000)]
    {
        assert_eq!(replicas(&json!({"spec": {"replicas": wanted}})), expected, "{wanted}");
    }
}
