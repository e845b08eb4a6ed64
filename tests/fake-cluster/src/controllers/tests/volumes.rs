use super::*;
use crate::resources::{ATTACHMENTS, CLAIMS, VOLUMES};

const WITH_VOLUMES: &[Controller] = &[
    Controller::Kubelet,
    Controller::Scheduler,
    Controller::StatefulSet,
    Controller::GarbageCollector,
    Controller::VolumeBinder,
    Controller::AttachDetach,
];

/// A cluster with one stateful pod on edge-a, whose volume is attached; edge-b is free.
fn attached() -> Bench {
    let mut bench = Bench::new(WITH_VOLUMES);
    bench.add(objects::node("edge-a"));
    bench.add(objects::node("edge-b"));
    bench.add(objects::stateful_set_with_volumes("db", 1, "edge-a"));
    bench.settle();
    assert_eq!(
        text(&bench.get(PODS, "db-0").expect("it"), "/status/phase"),
        "Pending",
        "it waits for its volume"
    );
    bench.pass(millis(200));
    bench.settle();
    bench
}

/// Node and state (`attached` or `detaching`) of every attachment.
fn attachments(bench: &Bench) -> Vec<String> {
    let state = |attachment: &Value| {
        if object::is_terminating(attachment) {
            "detaching"
        } else if flag(attachment, "/status/attached") {
            "attached"
        } else {
            "attaching"
        }
    };
    bench
        .all(ATTACHMENTS)
        .iter()
        .map(|one| format!("{} {}", text(one, "/spec/nodeName"), state(one)))
        .collect()
}

#[test]
fn a_pod_gets_its_volume_and_then_runs() {
    let bench = attached();
    let claim = bench.get(CLAIMS, "data-db-0").expect("the claim");
    assert_eq!(text(&claim, "/status/phase"), "Bound");
    let volume = bench.get(VOLUMES, text(&claim, "/spec/volumeName")).expect("the volume");
    assert_eq!(text(&volume, "/spec/claimRef/name"), "data-db-0");
    assert!(object::is_ready(&bench.get(PODS, "db-0").expect("it")));
    let name = format!("kubernetes.io/csi/csi.fake^{}", object::name(&volume));
    let node = bench.get(NODES, "edge-a").expect("it");
    assert_eq!(node["status"]["volumesInUse"], json!([name]));
}

#[test]
fn a_volume_that_is_still_mounted_is_not_detached() {
    let mut bench = attached();
    bench.edit(NODES, "edge-a", |node| set(node, &["spec", "unschedulable"], true));
    bench.dead_kubelets.insert("edge-a".to_owned());
    let (now, options) = (bench.now(), write::DeleteOptions { grace_period: Some(0), ..Default::default() });
    write::delete(&mut bench.store, PODS, ("default", "db-0"), &options, Context::at(now)).expect("it");
    bench.pass(seconds(600));
    assert_eq!(attachments(&bench), ["edge-a attached"], "it is still mounted");
    bench.dead_kubelets.clear();
    bench.settle();
    assert_eq!(attachments(&bench), ["edge-a detaching"]);
}

#[test]
fn volumes_that_are_never_attached() {
    for (change, count) in [("", 1), ("driver", 0), ("not csi", 0)] {
        let mut bench = Bench::new(WITH_VOLUMES);
        bench.add(objects::node("edge-a"));
        let source = if change == "not csi" {
            json!({"nfs": {"path": "/x"}})
        } else {
            json!({"csi": {"driver": "d", "volumeHandle": "h"}})
        };
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": source});
        set(&mut volume, &["spec", "accessModes"], json!(["ReadWriteMany"]));
        bench.add(volume);
        if change == "driver" {
            bench.add(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {"attachRequired": false}}));
        }
        bench.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "v"}}));
        let mut pod = objects::pod("a", "edge-a");
        set(
            &mut pod,
            &["spec", "volumes"],
            json!([{"name": "x", "persistentVolumeClaim": {"claimName": "c"}}]),
        );
        bench.add(pod);
        bench.settle();
        bench.pass(millis(200));
        bench.settle();
        assert_eq!(bench.all(ATTACHMENTS).len(), count, "{change}");
        assert!(object::is_ready(&bench.get(PODS, "a").expect("it")), "{change}");
    }
}

#[test]
fn an_ephemeral_volume_lives_with_its_pod() {
    let mut bench = Bench::new(WITH_VOLUMES);
    bench.add(objects::node("edge-a"));
    let mut pod = objects::pod("a", "edge-a");
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"]}});
    set(
        &mut pod,
        &["spec", "volumes"],
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]),
    );
    bench.add(pod);
    bench.pass(millis(0));
    bench.pass(millis(200));
    assert!(bench.get(CLAIMS, "a-scratch").is_some());
    assert_eq!(attachments(&bench), ["edge-a attached"]);
    bench.delete(PODS, "a");
    bench.settle();
    bench.pass(seconds(1));
    bench.pass(seconds(2));
    assert_eq!((bench.all(CLAIMS).len(), bench.all(VOLUMES).len(), bench.all(ATTACHMENTS).len()), (0, 0, 0));
}

#[test]
fn a_claim_waits_for_the_volume_it_names() {
    let mut bench = Bench::new(WITH_VOLUMES);
    bench.add(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "v"}}));
    bench.settle();
    assert_eq!(text(&bench.get(CLAIMS, "c").expect("it"), "/status/phase"), "Pending");
    bench.add(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}));
    bench.settle();
    assert_eq!(text(&bench.get(CLAIMS, "c").expect("it"), "/status/phase"), "Bound");
    bench.delete(CLAIMS, "c");
    bench.settle();
    assert!(bench.get(VOLUMES, "v").is_some(), "a volume that a person created stays");
}
