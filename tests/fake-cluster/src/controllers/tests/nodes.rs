use super::*;

fn taints(bench: &Bench, node: &str) -> Vec<String> {
    let node = bench.get(NODES, node).expect("the node");
    let taints = items(&node, "/spec/taints").iter();
    taints.map(|taint| format!("{}:{}", text(taint, "/key"), text(taint, "/effect"))).collect()
}

#[test]
fn a_node_without_its_kubelet_is_lost_and_found() {
    let mut bench = Bench::new(&[Controller::NodeLifecycle, Controller::Kubelet]);
    bench.add(objects::node("edge-a"));
    bench.settle();
    bench.dead_kubelets.insert("edge-a".to_owned());
    let ready = |bench: &Bench| {
        text(object::condition(&bench.get(NODES, "edge-a").expect("it"), "Ready").expect("it"), "/status")
            .to_owned()
    };
    assert_eq!((bench.settle(), ready(&bench)), (Some(seconds(40)), "True".to_owned()));
    assert_eq!((bench.pass(seconds(39)), ready(&bench)), (Some(seconds(40)), "True".to_owned()));
    assert_eq!((bench.pass(seconds(1)), ready(&bench)), (None, "Unknown".to_owned()));
    assert_eq!(taints(&bench, "edge-a").len(), 2);
    bench.dead_kubelets.clear();
    assert_eq!((bench.settle(), ready(&bench)), (None, "True".to_owned()));
    assert_eq!(taints(&bench, "edge-a"), Vec::<String>::new());
}

#[test]
fn annotations_set_a_pods_pace() {
    for (annotation, value, after, phase) in [
        (READY_AFTER, "5000", millis(4999), Some("Pending false")),
        (READY_AFTER, "5000", millis(5000), Some("Running true")),
        (READY_AFTER, "never", millis(0), Some("Running false")),
        (READY_AFTER, "nonsense", millis(200), Some("Running true")),
        (FINISH_AFTER, "300", millis(200), Some("Running true")),
        (FINISH_AFTER, "0", millis(200), Some("Succeeded false")),
    ] {
        let mut bench = Bench::new(&[Controller::Kubelet]);
        bench.add(objects::node("edge-a"));
        let mut pod = objects::pod("a", "edge-a");
        set(&mut pod, &["metadata", "annotations", annotation], value);
        bench.add(pod);
        bench.settle();
        bench.pass(after);
        let pod = bench
            .get(PODS, "a")
            .map(|pod| format!("{} {}", text(&pod, "/status/phase"), object::is_ready(&pod)));
        assert_eq!(pod.as_deref(), phase, "{annotation} {value} {after:?}");
    }
}

#[test]
fn an_end_takes_the_shorter_of_grace_and_delay() {
    for (delay, grace, gone_after) in [
        (None, 30, Some(1)),
        (None, 0, Some(0)),
        (Some("5000"), 30, Some(5)),
        (Some("90000"), 30, Some(30)),
        (Some("never"), 30, None),
    ] {
        let mut bench = Bench::new(&[Controller::Kubelet]);
        bench.add(objects::node("edge-a"));
        let mut pod = objects::pod("a", "edge-a");
        set(&mut pod, &["spec", "terminationGracePeriodSeconds"], grace);
        if let Some(delay) = delay {
            set(&mut pod, &["metadata", "annotations", GONE_AFTER], delay);
        }
        bench.add(pod);
        bench.delete(PODS, "a");
        let next = bench.settle();
        assert_eq!(next, gone_after.filter(|after| *after > 0).map(seconds), "{delay:?} {grace}");
        bench.pass(next.unwrap_or_else(|| seconds(3600)));
        assert_eq!(bench.get(PODS, "a").is_none(), gone_after.is_some(), "{delay:?} {grace}");
    }
}

/// Applies a merge patch.
fn change(object: &mut Value, patch: &Value) {
    let patched = crate::patch::apply("application/merge-patch+json", object, patch.to_string().as_bytes());
    *object = patched.expect("a merge patch");
}

/// The node that the scheduler chooses for a pod, and its message, when edge-a, edge-b and edge-c are ready and edge-c
/// has a pod already. `nodes` are patches of the named nodes.
fn placed(nodes: &[(&str, &Value)], pod: &Value, scheduler_is_blind: bool) -> (String, String) {
    let mut bench = Bench::new(&[Controller::Scheduler]);
    for node in ["edge-a", "edge-b", "edge-c"] {
        bench.add(objects::node(node));
    }
    bench.add(objects::pod("first", "edge-c"));
    for (node, patch) in nodes {
        bench.edit(NODES, node, |node| change(node, patch));
    }
    let mut new = objects::pod("a", "");
    change(&mut new, pod);
    bench.add(new);
    bench.scheduler_is_blind = scheduler_is_blind;
    bench.settle();
    let pod = bench.get(PODS, "a").expect("it");
    let message =
        object::condition(&pod, "PodScheduled").map(|condition| text(condition, "/message").to_owned());
    (text(&pod, "/spec/nodeName").to_owned(), message.unwrap_or_default())
}

#[test]
fn the_scheduler_finds_a_node() {
    let cordon = json!({"spec": {"unschedulable": true}});
    let taint = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    let soft = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}});
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let full = json!({"status": {"allocatable": {"pods": "1"}}});
    let none = json!({});
    let all = |patch| [("edge-a", patch), ("edge-b", patch), ("edge-c", patch)];
    let tolerate = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let prefer = json!({"metadata": {"annotations": {PREFER_NODE: "edge-c"}}});
    for (nodes, pod, node) in [
        // The node with the fewest pods; of several, the first.
        (&[][..], none.clone(), "edge-a"),
        (&[("edge-a", &cordon)], none.clone(), "edge-b"),
        (&all(&cordon), none.clone(), ""),
        (
            &all(&cordon),
            tolerate(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
            "edge-a",
        ),
        (&all(&cordon), tolerate(json!({"operator": "Exists"})), "edge-a"),
        (&all(&cordon), tolerate(json!({"key": "other", "operator": "Exists"})), ""),
        (&[], prefer.clone(), "edge-c"),
        (&[("edge-c", &cordon)], prefer, "edge-a"),
        (&[], json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "edge-b"}}}), "edge-b"),
        (&[], json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), ""),
        (&[], json!({"spec": {"schedulerName": "other"}}), ""),
        (&[("edge-a", &taint), ("edge-b", &taint)], none.clone(), "edge-c"),
        (&[("edge-a", &soft)], none.clone(), "edge-a"),
        (&all(&taint), tolerate(json!({"key": "k", "value": "v"})), "edge-a"),
        (&all(&taint), tolerate(json!({"key": "k", "value": "w"})), ""),
        (&all(&taint), tolerate(json!({"key": "k", "value": "v", "effect": "NoExecute"})), ""),
        (&[("edge-a", &lost), ("edge-c", &lost)], none.clone(), "edge-b"),
        (&[("edge-c", &full), ("edge-a", &cordon), ("edge-b", &cordon)], none.clone(), ""),
    ] {
        assert_eq!(placed(nodes, &pod, false).0, node, "{nodes:?} {pod}");
    }
    let refusal = "0/3 nodes are available: 3 node(s) were unschedulable.".to_owned();
    assert_eq!(placed(&all(&cordon), &none, false), (String::new(), refusal));
    assert_eq!(placed(&all(&cordon), &none, true).0, "edge-a", "a stale cache");
}

#[test]
fn a_namespace_is_emptied_and_goes() {
    let mut bench = Bench::new(&[Controller::Namespace, Controller::Kubelet]);
    bench.add(objects::node("edge-a"));
    bench.add(objects::pod("a", "edge-a"));
    bench.add(objects::budget("web", Limit::MinAvailable("1")));
    bench.settle();
    bench.delete(NAMESPACES, "default");
    let namespace = bench.get(NAMESPACES, "default").expect("it");
    assert_eq!(text(&namespace, "/status/phase"), "Terminating");
    bench.settle();
    bench.pass(seconds(4));
    assert!(!object::is_terminating(&bench.get(PODS, "a").expect("not yet")));
    bench.pass(seconds(1));
    assert_eq!(bench.get(BUDGETS, "web"), None);
    assert!(object::is_terminating(&bench.get(PODS, "a").expect("its grace")));
    bench.pass(seconds(1));
    assert_eq!((bench.get(PODS, "a"), bench.get(NAMESPACES, "default")), (None, None));
}
