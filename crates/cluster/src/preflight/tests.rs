use fake_cluster::{Effect, FakeCluster, Fault, Reply};

use super::*;
use crate::testing::{at, json as body_of, still_cluster};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn ours() -> Identity {
    Identity { node_name: Some("edge-a".to_owned()), ..Identity::default() }
}

fn map() -> SlotMap {
    SlotMap::new("kube-system", "default")
}

fn words(found: &Found) -> Vec<&'static str> {
    found.problems.iter().map(|problem| problem.what.word()).collect()
}

fn forbid(fake: &FakeCluster, verb: &str, name: &str) {
    let refusal = Reply::forbidden("zedkube", verb, "nodes", "", name);
    fake.faults().add(Fault::on(verb, "nodes", Effect::Answer(refusal)).named(name).always());
}

#[tokio::test]
async fn rights_are_asked_for_as_they_are_used() {
    let (fake, cluster) = still_cluster();
    preflight(&cluster, &ours(), Some(&map())).await;
    let requests = fake.requests().recent();
    assert!(requests.len() <= MOST_CALLS, "{}", requests.len());
    let reviews = requests.into_iter().filter(|request| request.resource == REVIEWS);
    let asked: Vec<Value> =
        reviews.map(|request| body_of(&request.body)["spec"]["resourceAttributes"].clone()).collect();
    let has = |verb: &str, resource: &str, more: &[(&str, Value)]| {
        asked.iter().any(|one| {
            one["verb"] == verb
                && one["resource"] == resource
                && more.iter().all(|(key, value)| one[*key] == *value)
        })
    };
    assert!(has("patch", "nodes", &[("name", json!("edge-a"))]), "{asked:?}");
    let selector = json!({"rawSelector": "spec.nodeName=edge-a"});
    assert!(has("list", "pods", &[("fieldSelector", selector)]), "{asked:?}");
    assert!(has("create", "pods", &[("subresource", json!("eviction"))]), "{asked:?}");
    let of_slots = [("namespace", json!("kube-system")), ("name", json!("ebb-slots-default"))];
    assert!(has("patch", "configmaps", &of_slots), "{asked:?}");
    // No manifest grants this, so it would be a problem on every device.
    assert!(!asked.iter().any(|one| one["resource"] == "leases"), "{asked:?}");
}

#[tokio::test]
async fn missing_rights_are_named_together() {
    let (fake, cluster) = still_cluster();
    let no = Reply::json(201, &json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": false}}));
    fake.faults().add(Fault::on("*", REVIEWS, Effect::Answer(no)).always());
    let found = preflight(&cluster, &ours(), Some(&map())).await;
    assert_eq!(words(&found), ["Rights"]);
    let text = &found.problems[0].text;
    for part in ["patch nodes edge-a", "list pods where spec.nodeName=edge-a", "create pods/eviction"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("patch configmaps ebb-slots-default in kube-system"), "{text}");
    // The server answers no access reviews: one problem.
    fake.faults().clear();
    fake.faults().add(Fault::on("*", REVIEWS, Effect::Answer(Reply::text(404, "no"))).always());
    fake.requests().clear();
    let found = preflight(&cluster, &ours(), None).await;
    assert_eq!(words(&found), ["Rights"]);
    assert!(found.problems[0].text.starts_with("our rights cannot be found out"), "{found:?}");
    assert_eq!(fake.requests().count("ebb/", "*", REVIEWS), 1);
}

/// Kubernetes 1.20 has v1beta1 only; the hint names the version that has evictions of policy/v1, too.
#[tokio::test]
async fn a_server_without_budgets_of_policy_v1_is_named() {
    let (fake, cluster) = still_cluster();
    let versions = json!([{"groupVersion": "policy/v1beta1", "version": "v1beta1"}]);
    let group = Reply::json(200, &json!({"kind": "APIGroup", "name": "policy", "versions": versions}));
    fake.faults().add(Fault::on("get", "/apis/policy", Effect::Answer(group)).always());
    let found = preflight(&cluster, &ours(), Some(&map())).await;
    assert_eq!(words(&found), ["Budgets"]);
    let problem = &found.problems[0];
    assert_eq!(problem.text, "the API server has no PodDisruptionBudgets of policy/v1");
    assert_eq!(problem.hint, "bring the cluster to Kubernetes 1.22 or newer");
}

#[tokio::test]
async fn confined_nodes_are_no_problem() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    forbid(&fake, "patch", "edge-b");
    assert_eq!(preflight(&cluster, &ours(), None).await, Found::default());
}

#[tokio::test]
async fn slots_are_tried_and_stay_as_they_are() {
    let (fake, cluster) = still_cluster();
    let (map, name) = (map(), "ebb-slots-default");
    // There is no ConfigMap yet: its creation is tried, and creates none.
    assert_eq!(preflight(&cluster, &ours(), Some(&map)).await, Found::default());
    assert_eq!(fake.get("configmaps", &map.namespace, name), None);
    // SelfSubjectAccessReview allows it, an admission policy refuses it.
    let refusal = |verb| {
        let reply = Reply::forbidden("zedkube", verb, "configmaps", "kube-system", name);
        fake.faults().add(Fault::on(verb, "configmaps", Effect::Answer(reply)));
    };
    refusal("create");
    let found = preflight(&cluster, &ours(), Some(&map)).await;
    assert_eq!(words(&found), ["Slots"], "{found:?}");
    let entry = crate::Holder { node: "edge-a".into(), node_uid: "u".into(), ..crate::Holder::default() };
    let slots = crate::write_slots(&cluster, &map, None, "edge-a", Some(&entry)).await.unwrap();
    refusal("patch");
    let found = preflight(&cluster, &ours(), Some(&map)).await;
    assert_eq!(words(&found), ["Slots"], "{found:?}");
    assert!(found.problems[0].text.starts_with("cannot patch configmap"), "{found:?}");
    // The trial changes no object.
    assert_eq!(preflight(&cluster, &ours(), Some(&map)).await, Found::default());
    assert_eq!(crate::read_slots(&cluster, &map).await.unwrap(), slots);
}

#[tokio::test]
async fn whether_slots_are_confined() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    forbid(&fake, "patch", "edge-b");
    let found = preflight(&cluster, &ours(), Some(&map())).await;
    assert_eq!(words(&found), ["Confinement"]);
    assert!(found.problems[0].text.contains("free that of Node edge-b"), "{found:?}");
    // A policy lets a node write its own key; the second write is of another key.
    let reply = Reply::forbidden("zedkube", "create", "configmaps", "kube-system", "ebb-slots-default");
    let refusal = Fault::on("create", "configmaps", Effect::Answer(reply));
    fake.faults().add(refusal.after(1));
    assert_eq!(preflight(&cluster, &ours(), Some(&map())).await, Found::default());
}

#[tokio::test]
async fn what_cannot_be_seen_comes_first() {
    let (fake, cluster) = still_cluster();
    let stranger = Identity { node_name: Some("edge-x".to_owned()), ..Identity::default() };
    let found = preflight(&cluster, &stranger, Some(&map())).await;
    assert_eq!(words(&found), ["Identity"]);
    assert!(found.problems[0].text.contains("node.name edge-x"), "{found:?}");

    fake.edit("nodes", "", "edge-a", |node| {
        node["metadata"]["labels"]["node-uuid"] = json!("device");
        node["status"]["nodeInfo"] = json!({"machineID": "theirs"});
    })
    .unwrap();
    let device = Identity {
        device_id: Some("device".to_owned()),
        machine_id: Some("ours".to_owned()),
        ..Identity::default()
    };
    let found = preflight(&cluster, &device, None).await;
    assert_eq!(words(&found), ["Identity"]);
    assert!(found.problems[0].text.starts_with("the Node of this machine is in doubt"), "{found:?}");

    let refusal = Reply::forbidden("zedkube", "list", "nodes", "", "");
    fake.faults().add(Fault::on("list", "nodes", Effect::Answer(refusal)));
    assert_eq!(words(&preflight(&cluster, &ours(), None).await), ["Rights"]);
    assert_eq!(words(&preflight(&at("http://127.0.0.1:1"), &ours(), None).await), ["API"]);
}

#[test]
fn what_ends_soon() {
    const DAY: i64 = 24 * 60 * 60;
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap();
    // Whole life, and what is left of it.
    let cases = [
        (Some(365 * DAY), 13 * DAY, true),
        (Some(365 * DAY), 15 * DAY, false),
        (Some(3600), 720, false),
        (Some(3600), 300, true),
        (Some(3600), -1, true),
        (None, 13 * DAY, true),
        (None, 15 * DAY, false),
    ];
    for (life, left, expected) in cases {
        let validity =
            Validity { what: "token", begins: life.map(|life| at(400 * DAY - life)), ends: at(400 * DAY) };
        assert_eq!(is_soon(validity, left), expected, "{life:?} {left}");
    }
}
