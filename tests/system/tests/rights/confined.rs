//! The kubelet's own credentials suffice for the whole path, and a stolen node cannot harm others.

use anyhow::Result;
use control_plane::objects;
use http::Method;
use serde_json::{Value, json};
use system::Api;

use crate::granted::{granted, not_granted, unused};
use crate::site::{Site, Way};
use crate::{refused, whole_path};

/// Rights that the Node authorizer grants to a kubelet by itself and that zedkube uses: for its own Node and the pods
/// on it.
const OF_THE_NODE_AUTHORIZER: [&str; 11] = [
    "create events",
    "create pods/eviction",
    "delete pods",
    "get csidrivers.storage.k8s.io",
    "get nodes",
    "get pods",
    "list pods",
    "patch events",
    "patch nodes",
    "patch nodes/status",
    "watch pods",
];

#[test]
fn with_a_kubelets_credentials_the_whole_path_runs_and_others_are_out_of_reach() -> Result<()> {
    let mut site = Site::new(Way::Kubelet)?;
    let asked = whole_path(&mut site)?;
    assert_eq!(not_meant(refused(&asked)), Vec::<String>::new(), "nothing else is refused");
    let granted = granted(&site.user.roles)?;
    assert_eq!(unused(&granted, &asked), Vec::<String>::new(), "granted, but never used");
    let mut open = not_meant(not_granted(&granted, &asked));
    open.retain(|request| !OF_THE_NODE_AUTHORIZER.iter().any(|right| request.starts_with(right)));
    assert_eq!(open, Vec::<String>::new(), "used, but not granted");
    every_reach_for_another_node_is_refused(&site, BY_KUBELET, vec![])
}

#[test]
fn with_a_token_bound_to_the_node_the_whole_path_runs_and_others_are_out_of_reach() -> Result<()> {
    let mut site = Site::new(Way::BoundToken)?;
    let asked = whole_path(&mut site)?;
    assert_eq!(not_meant(refused(&asked)), Vec::<String>::new(), "nothing else is refused");
    let granted = granted(&site.user.roles)?;
    let namespace = &site.pool.name;
    // An Event is counted up after a minute at the earliest, which this path may take or not.
    let mut unused = unused(&granted, &asked);
    unused.retain(|right| right != "patch events");
    assert_eq!(
        unused,
        [format!("create serviceaccounts/token ebb-node in {namespace}")],
        "granted, but never used by a token that is young"
    );
    let open = not_meant(not_granted(&granted, &asked));
    assert_eq!(open, Vec::<String>::new(), "used, but not granted");
    let more = |index: usize| {
        let node = site.pool.nodes[index].as_str();
        let uid = site.plane.get(&["node", node])?["metadata"]["uid"].clone();
        let bound = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
        let of_node = format!("/api/v1/nodes/{node}");
        let labels = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        let network = json!({"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}});
        let provider = json!({"spec": {"providerID": "kwok://stolen"}});
        let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let capacity = json!({"status": {"capacity": {"cpu": "7"}}});
        let events = "/api/v1/namespaces/default/events";
        let unknown = format!("/api/v1/namespaces/{namespace}/pods/coming/eviction");
        let tokens = || format!("/api/v1/namespaces/{namespace}/serviceaccounts/ebb-node/token");
        let request = |bound: &Value, audiences: &[&str], seconds: u64| {
            let spec = json!({"audiences": audiences, "boundObjectRef": bound, "expirationSeconds": seconds});
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        };
        let day = 24 * 60 * 60;
        let row = |what, method, path: String, body| Try { what, method, path, body };
        anyhow::Ok(vec![
            row(
                "evict a pod that is not known yet",
                Method::POST,
                unknown,
                eviction(namespace, "coming", None),
            ),
            row("label", Method::PATCH, of_node.clone(), labels),
            row("network", Method::PATCH, of_node.clone(), network),
            row("provider", Method::PATCH, of_node.clone(), provider),
            row("another condition", Method::PATCH, format!("{of_node}/status"), conditions),
            row("a capacity", Method::PATCH, format!("{of_node}/status"), capacity),
            row(
                "an event of the kubelet",
                Method::POST,
                events.to_owned(),
                event("kubelet", namespace, node, &uid),
            ),
            row("an event", Method::POST, events.to_owned(), event("zedkube", namespace, node, &uid)),
            row("the next token", Method::POST, tokens(), request(&bound, &[], day)),
            row("a token of no node", Method::POST, tokens(), request(&Value::Null, &[], day)),
            row("a token for another service", Method::POST, tokens(), request(&bound, &["vault"], day)),
            row("a token for ten years", Method::POST, tokens(), request(&bound, &[], 3650 * day)),
        ])
    };
    let more = vec![more(0)?, more(1)?];
    every_reach_for_another_node_is_refused(&site, BY_TOKEN, more)
}

/// An Event of this component about a Node.
fn event(component: &str, namespace: &str, node: &str, uid: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{component}.{namespace}.{node}")},
        "involvedObject": {"kind": "Node", "name": node, "uid": uid}, "reason": "Tried",
        "source": {"component": component, "host": node},
    })
}

/// Removes the requests that are meant to be refused: Longhorn's setting belongs to the administrator, and the
/// preflight tries whether other nodes are out of reach.
fn not_meant(mut requests: Vec<String>) -> Vec<String> {
    requests.retain(|request| !request.contains("longhorn.io") && !request.contains("dryRun=All"));
    requests
}

/// A call that is tried.
pub(crate) struct Try {
    pub(crate) what: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Verb, answer for the own node, answer for another node.
const BY_KUBELET: &str = "\
cordon | done | NodeRestriction
uncordon | done | NodeRestriction
a command by annotation | done | NodeRestriction
the same through nodes/status | done | NodeRestriction
evict | done | NodeRestriction
delete | done | NodeRestriction
fill the slots | ebb-slots | ebb-slots
write the slot | done | ebb-slots
free the slot | done | ebb-slots
";

/// The same table for a token. Of `nodes/status` it may change the two conditions of a drain only.
const BY_TOKEN: &str = "\
cordon | done | ebb-tokens-nodes
uncordon | done | ebb-tokens-nodes
a command by annotation | done | ebb-tokens-nodes
the same through nodes/status | ebb-tokens-nodes | ebb-tokens-nodes
evict | done | ebb-tokens-evictions
delete | done | ebb-tokens-pods
fill the slots | ebb-slots | ebb-slots
write the slot | done | ebb-slots
free the slot | done | ebb-slots
evict a pod that is not known yet | ebb-tokens-eviction-uids | ebb-tokens-eviction-uids
label | ebb-tokens-nodes | ebb-tokens-nodes
network | ebb-tokens-nodes | ebb-tokens-nodes
provider | ebb-tokens-nodes | ebb-tokens-nodes
another condition | ebb-tokens-nodes | ebb-tokens-nodes
a capacity | ebb-tokens-nodes | ebb-tokens-nodes
an event of the kubelet | ebb-tokens-events | ebb-tokens-events
an event | done | ebb-tokens-events
the next token | done | ebb-tokens-tokens
a token of no node | ebb-tokens-tokens | ebb-tokens-tokens
a token for another service | ebb-tokens-tokens | ebb-tokens-tokens
a token for ten years | ebb-tokens-tokens | ebb-tokens-tokens
";

fn every_reach_for_another_node_is_refused(site: &Site, table: &str, more: Vec<Vec<Try>>) -> Result<()> {
    let namespace = site.pool.name.as_str();
    let (api, admin) = (Api::open(&site.user.kubeconfig)?, Api::open(site.plane.kubeconfig())?);
    let mut more = more.into_iter();
    let mut answers: Vec<(&str, Vec<String>)> = Vec::new();
    for (index, node) in site.pool.nodes.iter().take(2).enumerate() {
        for name in ["victim", "second"] {
            let mut pod = objects::pod(namespace, &format!("{name}-{index}"));
            pod["spec"]["nodeName"] = json!(node);
            site.plane.apply(&[pod])?;
        }
        // The node's slot exists, so that it can be freed.
        admin.patch(&slots(namespace), &json!({"data": {node: "1"}}))?;
        let uid =
            site.plane.get(&["pod", &format!("victim-{index}"), "-n", namespace])?["metadata"]["uid"].clone();
        let tries = tries(namespace, node, index, &uid).into_iter().chain(more.next().unwrap_or_default());
        for (row, tried) in tries.enumerate() {
            let answer = answer_to(&api, &tried, namespace);
            match answers.get_mut(row) {
                Some((_, answers)) => answers.push(answer),
                None => answers.push((tried.what, vec![answer])),
            }
        }
    }
    let lines = answers.iter().map(|(what, answers)| format!("{what} | {}\n", answers.join(" | ")));
    assert_eq!(lines.collect::<String>(), table);
    for (what, body) in everybodys() {
        let tried = Try { what, method: Method::PATCH, path: slots(namespace), body };
        assert_eq!(answer_to(&api, &tried, namespace), "ebb-slots", "{what}");
    }
    let own = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ebb-slots-default"},
        "data": {site.pool.nodes[0].clone(): "1"},
    });
    let applied = api.apply(&format!("{}?fieldManager=stolen-1&force=true", slots(namespace)), &own);
    assert!(applied.is_err_and(|error| format!("{error:#}").contains("server-side apply")));
    Ok(())
}

/// The answer to a call: `done`, or the part that refuses it: a policy by its name, without the pool's name.
pub(crate) fn answer_to(api: &Api, tried: &Try, pool: &str) -> String {
    let said = match api.send(&tried.method, &tried.path, &tried.body) {
        Ok(_) => return "done".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let restriction = ["is not allowed to modify node", "with spec.nodeName set to itself"];
    let policy = said.split_once("ValidatingAdmissionPolicy '").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((policy, _)) = policy {
        policy.trim_end_matches(&format!("-{pool}")).to_owned()
    } else if restriction.iter().any(|sign| said.contains(sign)) {
        "NodeRestriction".to_owned()
    } else if ["cannot patch resource", "cannot create resource"].iter().any(|sign| said.contains(sign)) {
        "no right".to_owned()
    } else {
        said
    }
}

fn slots(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/ebb-slots-default")
}

fn eviction(namespace: &str, pod: &str, uid: Option<&Value>) -> Value {
    let metadata = json!({"name": pod, "namespace": namespace});
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
    if let Some(uid) = uid {
        eviction["deleteOptions"] = json!({"preconditions": {"uid": uid}});
    }
    eviction
}

fn tries(namespace: &str, node: &str, index: usize, uid: &Value) -> Vec<Try> {
    let nodes = format!("/api/v1/nodes/{node}");
    let pod = |name: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}-{index}");
    let eviction = eviction(namespace, &format!("victim-{index}"), Some(uid));
    let command = |text: &str| json!({"metadata": {"annotations": {"ebb.dev/command": text}}});
    let row = |what, method, path: String, body| Try { what, method, path, body };
    vec![
        row("cordon", Method::PATCH, nodes.clone(), json!({"spec": {"unschedulable": true}})),
        row("uncordon", Method::PATCH, nodes.clone(), json!({"spec": {"unschedulable": null}})),
        row("a command by annotation", Method::PATCH, nodes.clone(), command("reboot")),
        row("the same through nodes/status", Method::PATCH, format!("{nodes}/status"), command("another")),
        row("evict", Method::POST, format!("{}/eviction", pod("victim")), eviction),
        row("delete", Method::DELETE, pod("second"), json!({"gracePeriodSeconds": 0})),
        row("fill the slots", Method::PATCH, slots(namespace), json!({"data": {node: "x".repeat(70_000)}})),
        row("write the slot", Method::PATCH, slots(namespace), json!({"data": {node: "2"}})),
        row("free the slot", Method::PATCH, slots(namespace), json!({"data": {node: null}})),
    ]
}

/// Changes that would affect everybody's slots.
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
