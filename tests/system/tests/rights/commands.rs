//! A command by annotation needs a right of its own, and no kubelet is disturbed: `ebb-commands.yaml`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control_plane::{Component, ControlPlane, until};
use http::Method;
use serde_json::{Value, json};
use system::Api;

use crate::confined::{Try, answer_to};

const COMMANDS: &str = include_str!("../../../../packaging/kubernetes/ebb-commands.yaml");

/// Time limit for roles and policies to be in force, which their watches report to the API server.
const LIMIT: Duration = Duration::from_mins(5);

/// Stands under commands: `ebb.dev/update` and `ebb.dev/drain` are set, and the device has answered.
const EDGE: &str = "edge-a";
/// The Node of `of b`, `kubelet b` and `token b`, with an answer and no command.
const OTHER: &str = "edge-b";
/// Has no annotations.
const BARE: &str = "edge-bare";
/// Does not exist.
const NEW: &str = "edge-new";

/// `admin` has cluster-admin, `commander` has ebb-commander, `of b` has the verb for one Node. `patcher` is a pod on the
/// Node that may only write Nodes. `kubelet` is that of the Node in question. `kubelet b` is the user of another kubelet
/// where there is no NodeRestriction. The tokens are those of `ebb-tokens.yaml`, without the policies of that file.
const TABLE: &str = "\
on edge-a                 | admin     | commander | of b      | patcher   | kubelet   | kubelet b | token     | token b
command a reboot          | done      | done      | refused   | refused   | refused   | refused   | refused   | refused
command it of b           | done      | done      | done      | refused   | refused   | refused   | refused   | refused
shutdown, by nodes/status | done      | no right  | refused   | refused   | refused   | refused   | refused   | refused
change an update          | done      | done      | refused   | refused   | refused   | refused   | refused   | refused
take a drain back         | done      | done      | refused   | refused   | refused   | refused   | refused   | refused
answer                    | done      | done      | refused   | refused   | done      | refused   | done      | refused
remove the answer         | done      | done      | refused   | refused   | done      | refused   | done      | refused
remove all of b           | done      | done      | done      | refused   | done      | done      | refused   | done
annotate otherwise        | done      | done      | done      | done      | done      | done      | done      | done
cordon                    | done      | done      | done      | done      | done      | done      | done      | done
heartbeat                 | done      | no right  | done      | done      | done      | done      | done      | done
heartbeat of bare         | done      | no right  | done      | done      | done      | done      | done      | done
answer on bare            | done      | done      | refused   | refused   | done      | refused   | refused   | refused
create bare               | done      | no right  | done      | done      | done      | done      | done      | done
create with a command     | done      | no right  | refused   | refused   | refused   | refused   | refused   | refused
create with an answer     | done      | no right  | refused   | refused   | done      | refused   | refused   | refused
";

#[test]
fn a_command_by_annotation_needs_a_right_of_its_own_and_no_kubelet_is_disturbed() -> Result<()> {
    let plane = ControlPlane::start()?;
    plane.create_pool("edge", &["a", "b"])?;
    // It would annotate the bare Node.
    plane.pause(Component::ControllerManager)?;
    plane.apply(&[node(BARE, &Value::Null)])?;
    plane.run(&["annotate", "node", EDGE, OTHER, "ebb.dev/state=done"])?;
    plane.run(&["annotate", "node", EDGE, "ebb.dev/update=1", "ebb.dev/drain=1"])?;
    plane.apply_text(COMMANDS)?;
    give_rights(&plane)?;
    let users = users(&plane)?;
    until_in_force(&plane, &users)?;
    let mut table = line("on edge-a", users.iter().map(|(name, _)| (*name).to_owned()));
    for (target, tried) in tries() {
        let answers = users.iter().map(|(_, api)| answer(&plane, api.as_ref(), target, &tried));
        table += &line(tried.what, answers.collect::<Result<Vec<_>>>()?);
    }
    ensure!(plane.get(&["node", BARE])?["metadata"]["annotations"].is_null(), "it is not bare any more");
    assert_eq!(table, TABLE, "{table}");
    Ok(())
}

/// All are dry runs, so that each begins with the same Nodes.
fn tries() -> Vec<(&'static str, Try)> {
    let patch = |what, node: &'static str, below: &str, body| {
        let path = format!("/api/v1/nodes/{node}{below}?dryRun=All");
        (node, Try { what, method: Method::PATCH, path, body })
    };
    let annotate = |what, node, key: &str, value: Value| {
        patch(what, node, "", json!({"metadata": {"annotations": {key: value}}}))
    };
    let create = |what, annotations| {
        let body = node(NEW, &annotations);
        (NEW, Try { what, method: Method::POST, path: "/api/v1/nodes?dryRun=All".to_owned(), body })
    };
    let shutdown = json!({"metadata": {"annotations": {"ebb.dev/shutdown": ""}}});
    let heartbeat = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    vec![
        annotate("command a reboot", EDGE, "ebb.dev/reboot", json!("")),
        annotate("command it of b", OTHER, "ebb.dev/reboot", json!("")),
        patch("shutdown, by nodes/status", EDGE, "/status", shutdown),
        annotate("change an update", EDGE, "ebb.dev/update", json!("2")),
        annotate("take a drain back", EDGE, "ebb.dev/drain", Value::Null),
        annotate("answer", EDGE, "ebb.dev/state", json!("failed")),
        annotate("remove the answer", EDGE, "ebb.dev/state", Value::Null),
        patch("remove all of b", OTHER, "", json!({"metadata": {"annotations": null}})),
        annotate("annotate otherwise", EDGE, "ebb.dev/keep-cordoned", json!("")),
        patch("cordon", EDGE, "", json!({"spec": {"unschedulable": true}})),
        patch("heartbeat", EDGE, "/status", heartbeat.clone()),
        patch("heartbeat of bare", BARE, "/status", heartbeat),
        annotate("answer on bare", BARE, "ebb.dev/state", json!("done")),
        create("create bare", Value::Null),
        create("create with a command", json!({"ebb.dev/reboot": ""})),
        create("create with an answer", json!({"ebb.dev/state": "done"})),
    ]
}

fn node(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}})
}

/// The users of [`TABLE`]; the kubelet is another one for each Node.
fn users(plane: &ControlPlane) -> Result<Vec<(&'static str, Option<Api>)>> {
    let named = |user: &str| Api::open_as(plane.kubeconfig(), user).map(Some);
    let pod = |namespace: &str, account: &str, node: &str| {
        Api::open(&plane.bound_token_kubeconfig(namespace, account, node)?).map(Some)
    };
    Ok(vec![
        ("admin", named("admin")?),
        ("commander", named("commander")?),
        ("of b", named("of-b")?),
        ("patcher", pod("default", "patcher", EDGE)?),
        ("kubelet", None),
        ("kubelet b", named(&format!("system:node:{OTHER}"))?),
        ("token", pod("kube-system", "ebb-node", EDGE)?),
        ("token b", pod("kube-system", "ebb-node", OTHER)?),
    ])
}

fn give_rights(plane: &ControlPlane) -> Result<()> {
    // One role for both, so that they are in force together.
    plane.apply(&[json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "of-b"},
        "rules": [
            {"apiGroups": ["ebb.dev"], "resources": ["nodes"], "resourceNames": [OTHER], "verbs": ["command"]},
            {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["create", "patch"]},
        ],
    })])?;
    let accounts = "--serviceaccount=default:patcher --serviceaccount=kube-system:ebb-node";
    for what in [
        "serviceaccount patcher --namespace=default",
        "serviceaccount ebb-node --namespace=kube-system",
        "clusterrole patcher --verb=create,patch --resource=nodes,nodes/status",
        "clusterrolebinding admin --clusterrole=cluster-admin --user=admin",
        "clusterrolebinding commander --clusterrole=ebb-commander --user=commander",
        "clusterrolebinding of-b --clusterrole=of-b --user=of-b",
        &format!("clusterrolebinding patcher --clusterrole=patcher {accounts} --user=system:node:{OTHER}"),
    ] {
        let arguments: Vec<&str> = ["create"].into_iter().chain(what.split(' ')).collect();
        plane.run(&arguments)?;
    }
    Ok(())
}

/// Waits until the roles and the policy count.
fn until_in_force(plane: &ControlPlane, users: &[(&'static str, Option<Api>)]) -> Result<()> {
    let all = tries();
    let wait = |what: &str, name: &str, expected: &str| {
        let found = all.iter().find(|(_, tried)| tried.what == what).context("no such row")?;
        let (_, api) = users.iter().find(|(user, _)| *user == name).context("no such user")?;
        until(&format!("{name}: {what}: {expected}"), LIMIT, || {
            Ok((answer(plane, api.as_ref(), found.0, &found.1)? == expected).then_some(()))
        })
    };
    users.iter().try_for_each(|(name, _)| wait("cordon", name, "done"))?;
    wait("command a reboot", "patcher", "refused")
}

fn answer(plane: &ControlPlane, api: Option<&Api>, node: &str, tried: &Try) -> Result<String> {
    let kubelet = || Api::open(&plane.node_kubeconfig(node)?);
    let answer = answer_to(&api.map_or_else(kubelet, |api| Ok(api.clone()))?, tried, "");
    Ok(if answer == "ebb-commands" { "refused".to_owned() } else { answer })
}

fn line(what: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| format!("{cell:9}")).collect();
    format!("{what:26}| {}\n", cells.join(" | ").trim_end())
}
