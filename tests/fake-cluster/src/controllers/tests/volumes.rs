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
