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
