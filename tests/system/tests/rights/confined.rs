//! The kubelet's own credentials are enough for the whole path, and a stolen node is harmless to others.

use anyhow::Result;
use control_plane::objects;
use http::Method;
use serde_json::{Value, json};
use system::Api;

use crate::granted::{granted, not_granted, unused};
use crate::site::{Site, Way};
use crate::{refused, whole_path};

/// What the Node authorizer grants to a kubelet by itself, and zedkube uses: of its own Node and of the pods on it.
const OF_THE_NODE_AUTHORIZER: [&str; 10] = [
    "create pods/eviction",
    "delete pods",
    "get csidrivers.storage.k8s.io",
    "get nodes",
    "get pods",
    "list csidrivers.storage.k8s.io",
    "list pods",
    "patch nodes",
    "watch csidrivers.storage.k8s.io",
    "watch pods",
];

#[test]
fn with_a_kubelets_credentials_the_whole_path_runs_and_others_are_out_of_reach() -> Result<()> {
    let mut site = Site::new(Way::Kubelet)?;
    let asked = whole_path(&mut site)?;
    // Longhorn's setting is an administrator's, and the preflight tries whether other nodes are out of reach.
    let is_meant = |request: &String| request.contains("/longhorn.io/") || request.contains("dryRun=All");
    let refusals: Vec<String> = refused(&asked).into_iter().filter(|request| !is_meant(request)).collect();
    assert_eq!(refusals, Vec::<String>::new(), "nothing else is refused");
    let granted = granted(&site.user.roles)?;
    assert_eq!(
        unused(&granted, &asked),
        ["get persistentvolumeclaims", "get persistentvolumes"],
        "granted, but never used"
    );
    let open = not_granted(&granted, &asked);
    let by_itself = |request: &&String| OF_THE_NODE_AUTHORIZER.iter().any(|right| request.starts_with(right));
    let open: Vec<&String> =
        open.iter().filter(|request| !by_itself(request) && !request.contains("longhorn.io")).collect();
    assert_eq!(open, Vec::<&String>::new(), "used, but not granted");
    every_reach_for_another_node_is_refused(&site)
}

/// A call.
struct Try {
    what: &'static str,
    method: Method,
    path: String,
    body: Value,
}

/// Verb, answer for the own node, answer for another one.
const TABLE: &str = "\
cordon | done | NodeRestriction
uncordon | done | NodeRestriction
a command by annotation | done | NodeRestriction
the same through nodes/status | done | NodeRestriction
evict | done | NodeRestriction
delete | done | NodeRestriction
write the slot | done | policy ebb-slots
free the slot | done | policy ebb-slots
";

fn every_reach_for_another_node_is_refused(site: &Site) -> Result<()> {
    let namespace = site.pool.name.as_str();
    let (api, admin) = (Api::open(&site.user.kubeconfig)?, Api::open(site.plane.kubeconfig())?);
    let mut answers: Vec<(&str, Vec<String>)> = Vec::new();
    for (index, node) in site.pool.nodes.iter().take(2).enumerate() {
        for name in ["victim", "second"] {
            let mut pod = objects::pod(namespace, &format!("{name}-{index}"));
            pod["spec"]["nodeName"] = json!(node);
            site.plane.apply(&[pod])?;
        }
        // Its slot is there to be freed.
        admin.patch(&slots(namespace), &json!({"data": {node: "1"}}))?;
        for (row, tried) in tries(namespace, node, index).into_iter().enumerate() {
            let answer = answer_to(&api, &tried);
            match answers.get_mut(row) {
                Some((_, answers)) => answers.push(answer),
                None => answers.push((tried.what, vec![answer])),
            }
        }
    }
    let lines = answers.iter().map(|(what, answers)| format!("{what} | {}\n", answers.join(" | ")));
    assert_eq!(lines.collect::<String>(), TABLE);
    for (what, body) in everybodys() {
        let tried = Try { what, method: Method::PATCH, path: slots(namespace), body };
        assert_eq!(answer_to(&api, &tried), "policy ebb-slots", "{what}");
    }
    Ok(())
}

/// `done`, or who refuses it.
fn answer_to(api: &Api, tried: &Try) -> String {
    let said = match api.send(&tried.method, &tried.path, &tried.body) {
        Ok(_) => return "done".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let restriction = ["is not allowed to modify node", "with spec.nodeName set to itself"];
    if said.contains("ValidatingAdmissionPolicy") && said.contains("of the slots") {
        "policy ebb-slots".to_owned()
    } else if restriction.iter().any(|sign| said.contains(sign)) {
        "NodeRestriction".to_owned()
    } else {
        said
    }
}

fn slots(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/ebb-slots-default")
}

fn tries(namespace: &str, node: &str, index: usize) -> Vec<Try> {
    let nodes = format!("/api/v1/nodes/{node}");
    let pod = |name: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}-{index}");
    let metadata = json!({"name": format!("victim-{index}"), "namespace": namespace});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
    let command = json!({"metadata": {"annotations": {"ebb.dev/command": "reboot"}}});
    let row = |what, method, path: String, body| Try { what, method, path, body };
    vec![
        row("cordon", Method::PATCH, nodes.clone(), json!({"spec": {"unschedulable": true}})),
        row("uncordon", Method::PATCH, nodes.clone(), json!({"spec": {"unschedulable": null}})),
        row("a command by annotation", Method::PATCH, nodes.clone(), command.clone()),
        row("the same through nodes/status", Method::PATCH, format!("{nodes}/status"), command),
        row("evict", Method::POST, format!("{}/eviction", pod("victim")), eviction),
        row("delete", Method::DELETE, pod("second"), json!({"gracePeriodSeconds": 0})),
        row("write the slot", Method::PATCH, slots(namespace), json!({"data": {node: "2"}})),
        row("free the slot", Method::PATCH, slots(namespace), json!({"data": {node: null}})),
    ]
}

/// What would hit everybody's slots.
fn everybodys() -> Vec<(&'static str, Value)> {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"});
    vec![
        ("free all slots", json!({"data": null})),
        ("freeze the slots", json!({"immutable": true})),
        ("fill the ConfigMap", json!({"binaryData": {"x": "AAAA"}})),
        ("have it collected as garbage", json!({"metadata": {"ownerReferences": [owner]}})),
        ("have it never deleted", json!({"metadata": {"finalizers": ["x.y/z"]}})),
        ("label it", json!({"metadata": {"labels": {"a": "b"}}})),
        ("annotate it", json!({"metadata": {"annotations": {"a": "b"}}})),
    ]
}
