use drain::findings::{BudgetPods, BudgetQuery, MachineQuery, MachineView, Migration};
use drain::{Requirement, Selector};
use fake_cluster::{Effect, FakeCluster, Fault, Reply, objects};
use serde_json::json;

use super::*;
use crate::testing::{at, still_cluster};

fn selector(requirements: Vec<Requirement>) -> Selector {
    Selector { requirements }
}

fn app(value: &str) -> Selector {
    selector(vec![Requirement::In("app".to_owned(), vec![value.to_owned()])])
}

fn about_budget(name: &str, selector: Selector) -> Inquiry {
    let query = BudgetQuery { namespace: "default".to_owned(), name: name.to_owned(), selector };
    Inquiry { budgets: vec![query], ..Inquiry::default() }
}

fn about_machine(name: &str) -> Inquiry {
    let query =
        MachineQuery { pod: "uid-1".to_owned(), namespace: "default".to_owned(), name: name.to_owned() };
    Inquiry { machines: vec![query], ..Inquiry::default() }
}

fn about_longhorn(namespace: &str) -> Inquiry {
    Inquiry { longhorn: Some(namespace.to_owned()), ..Inquiry::default() }
}

fn about_controller_manager() -> Inquiry {
    Inquiry { controller_manager: true, ..Inquiry::default() }
}

/// A pod with the label `app: web`, and this status.
fn web(fake: &FakeCluster, name: &str, node: &str, status: Value) {
    let mut pod = objects::pod(name, node);
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["status"] = status;
    fake.apply(pod).unwrap();
}

fn ready(status: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status, "reason": "ContainersNotReady"}]})
}

#[tokio::test]
async fn the_unhealthy_pods_of_a_budget_are_named() {
    let (fake, cluster) = still_cluster();
    web(&fake, "web-1", "edge-a", ready("True"));
    web(&fake, "web-2", "edge-b", ready("False"));
    web(
        &fake,
        "web-3",
        "",
        json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 node(s) were unschedulable."}]}),
    );
    fake.pod("other", "edge-a").unwrap();
    fake.requests().clear();
    let found = inquire(&cluster, "edge-a", &about_budget("web", app("web"))).await;
    let pod = |name: &str, node: &str, why: &str| drain::findings::UnhealthyPod {
        name: name.to_owned(),
        node: node.to_owned(),
        why: why.to_owned(),
    };
    let pods = BudgetPods {
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        unhealthy: vec![
            pod("web-2", "edge-b", "ContainersNotReady"),
            pod("web-3", "", "0/3 nodes are available: 3 node(s) were unschedulable."),
        ],
        more: 0,
    };
    assert_eq!(found, Findings { budgets: vec![pods], ..Findings::default() });
    let asked = fake.requests().recent();
    let asked: Vec<_> = asked.iter().map(|request| (request.verb.as_str(), request.query.as_str())).collect();
    assert_eq!(asked, [("list", "&labelSelector=app%3Dweb&limit=500")]);
}

#[tokio::test]
async fn only_the_first_are_named_and_the_rest_is_counted() {
    let (fake, cluster) = still_cluster();
    for number in 0..8 {
        web(&fake, &format!("web-{number}"), "edge-a", ready("Unknown"));
    }
    let found = inquire(&cluster, "edge-a", &about_budget("web", Selector::default())).await;
    let pods = &found.budgets[0];
    let names: Vec<_> = pods.unhealthy.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!((names, pods.more), (vec!["web-0", "web-1", "web-2", "web-3", "web-4"], 3));
    assert!(fake.requests().recent().iter().all(|request| !request.query.contains("labelSelector")));
}

#[tokio::test]
async fn what_is_never_asked() {
    let (fake, cluster) = still_cluster();
    fake.requests().clear();
    let invalid = about_budget("web", selector(vec![Requirement::Invalid("app".to_owned())]));
    let odd_namespace = {
        let mut inquiry = about_budget("web", app("web"));
        inquiry.budgets[0].namespace = "a/b".to_owned();
        inquiry
    };
    let cases = [
        (Inquiry::default(), ""),
        (invalid, "budget default/web has a selector that selects no pod"),
        (odd_namespace, "no namespace can have the name `a/b`"),
        (about_machine("a/../b"), "cannot get virtualmachineinstances default/a/../b"),
        (about_longhorn("../x"), "cannot get settings ../x/node-drain-policy"),
    ];
    for (inquiry, trouble) in cases {
        let found = inquire(&cluster, "edge-a", &inquiry).await;
        let said = found.trouble.join("\n");
        assert!(said.contains(trouble) && said.is_empty() == trouble.is_empty(), "{inquiry:?}: {said}");
        assert_eq!(Findings { trouble: vec![], ..found }, Findings::default());
    }
    assert_eq!(fake.requests().recent(), []);
}

#[tokio::test]
async fn no_more_is_asked_than_may_be() {
    let (fake, cluster) = still_cluster();
    let budget = about_budget("web", app("web")).budgets.remove(0);
    let machine = about_machine("vm").machines.remove(0);
    let inquiry = Inquiry { budgets: vec![budget; 20], machines: vec![machine; 20], ..Inquiry::default() };
    fake.requests().clear();
    let found = inquire(&cluster, "edge-a", &inquiry).await;
    assert_eq!(found.budgets.len(), MOST_BUDGETS);
    assert_eq!(fake.requests().count("ebb/", "list", "pods"), 5);
    assert_eq!(fake.requests().count("ebb/", "get", "virtualmachineinstances"), 5);
}

#[tokio::test]
async fn a_virtual_machine_that_is_being_moved() {
    let (fake, cluster) = still_cluster();
    fake.apply(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"},
        "status": {"evacuationNodeName": "edge-a", "migrationState": {"targetNode": "edge-b"}},
    }))
    .unwrap();
    fake.requests().clear();
    let found = inquire(&cluster, "edge-a", &about_machine("vm")).await;
    let expected = MachineView {
        pod: "uid-1".to_owned(),
        name: "default/vm".to_owned(),
        evacuating: true,
        migration: Migration::Running("edge-b".to_owned()),
        not_migratable: String::new(),
    };
    assert_eq!(found, Findings { machines: vec![expected], ..Findings::default() });
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 1);
}

#[tokio::test]
async fn longhorn_as_far_as_it_can_be_read() {
    let (fake, cluster) = still_cluster();
    let setting = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "value": "block-if-contains-last-replica",
        "metadata": {"name": "node-drain-policy", "namespace": "longhorn-system"},
    });
    let own = |status: Value| {
        json!({
            "apiVersion": "longhorn.io/v1beta2", "kind": "Node", "status": status,
            "metadata": {"name": "edge-a", "namespace": "longhorn-system"},
        })
    };
    let about = async || inquire(&cluster, "edge-a", &about_longhorn("longhorn-system")).await;
    let view =
        |drain_policy: &str, evicting| LonghornView { drain_policy: drain_policy.to_owned(), evicting };
    let found = about().await;
    assert_eq!((found.longhorn, found.trouble.len()), (None, 2));
    fake.apply(setting).unwrap();
    let found = about().await;
    assert_eq!(found.longhorn, Some(view("block-if-contains-last-replica", false)));
    assert!(found.trouble[0].starts_with("cannot get nodes longhorn-system/edge-a: "), "{:?}", found.trouble);
    for (status, evicting) in
        [(Value::Null, false), (json!({"autoEvicting": "x"}), false), (json!({"autoEvicting": true}), true)]
    {
        fake.apply(own(status)).unwrap();
        let expected = Some(view("block-if-contains-last-replica", evicting));
        assert_eq!(about().await, Findings { longhorn: expected, ..Findings::default() });
    }
    fake.delete("settings.longhorn.io", "longhorn-system", "node-drain-policy");
    let found = about().await;
    assert_eq!(found.longhorn, Some(view("", true)));
    assert!(found.trouble[0].starts_with("cannot get settings longhorn-system/node-drain-policy: "));
}

#[tokio::test]
async fn the_leader_of_the_controller_manager() {
    let (fake, cluster) = still_cluster();
    let lease = |spec: Value| {
        fake.apply(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
            "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        }))
        .unwrap();
    };
    let about = async || inquire(&cluster, "edge-a", &about_controller_manager()).await;
    assert_eq!(about().await, Findings::default(), "without a lease it runs alone");
    lease(json!({"holderIdentity": "edge-b_1", "renewTime": "2020-01-01T00:00:00.000000Z"}));
    let view = about().await.controller_manager.unwrap();
    assert_eq!(view.holder, "edge-b_1");
    assert!(view.silent > Duration::from_hours(24), "{view:?}");
    lease(json!({"holderIdentity": null, "renewTime": "2999-01-01T00:00:00.123456Z"}));
    let ahead = LeaseView { holder: String::new(), silent: Duration::ZERO };
    assert_eq!(about().await.controller_manager, Some(ahead), "a clock that is ahead");
    for spec in [Value::Null, json!({"renewTime": "yesterday"})] {
        lease(spec.clone());
        let found = about().await;
        assert_eq!((&found.controller_manager, found.trouble.len()), (&None, 1), "{spec}");
        assert!(found.trouble[0].contains("does not say when"), "{spec}: {:?}", found.trouble);
    }
}

#[tokio::test]
async fn each_failure_is_a_line_and_stops_nothing_else() {
    let (fake, cluster) = still_cluster();
    web(&fake, "web-1", "edge-a", ready("False"));
    let inquiry = Inquiry {
        budgets: about_budget("web", app("web")).budgets,
        machines: about_machine("vm").machines,
        longhorn: Some("longhorn-system".to_owned()),
        controller_manager: true,
    };
    fake.requests().clear();
    let found = inquire(&cluster, "edge-a", &inquiry).await;
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 5);
    assert_eq!((found.budgets.len(), found.machines.len(), found.longhorn), (1, 0, None));
    let lines = [
        "cannot get virtualmachineinstances default/vm: ",
        "cannot get settings longhorn-system/node-drain-policy: ",
        "cannot get nodes longhorn-system/edge-a: ",
    ];
    assert_eq!(found.trouble.len(), lines.len(), "{:?}", found.trouble);
    for (line, expected) in found.trouble.iter().zip(lines) {
        assert!(line.starts_with(expected), "{line}");
    }
    let denied = |verb, resource, name| {
        Fault::on(verb, resource, Effect::Answer(Reply::forbidden("edge", verb, resource, "default", name)))
    };
    fake.faults().add(denied("list", "pods", ""));
    fake.faults().add(denied("get", "leases", "kube-controller-manager"));
    let found = inquire(&cluster, "edge-a", &inquiry).await;
    assert_eq!(Findings { trouble: vec![], ..found.clone() }, Findings::default());
    assert!(
        found.trouble[0].ends_with("needs the right to `list` `pods` (budget default/web)"),
        "{:?}",
        found.trouble
    );
    assert!(found.trouble[4].ends_with("needs the right to `get` `leases`"), "{:?}", found.trouble);
    let found = inquire(&at("http://127.0.0.1:1"), "edge-a", &inquiry).await;
    assert_eq!(found.trouble.len(), 5, "{:?}", found.trouble);
}

#[test]
fn texts_of_others_are_cut() {
    assert_eq!(short("  one\ntwo "), "one two");
    let cut = short(&"ä".repeat(1_000));
    assert_eq!(cut.chars().count(), LONGEST + 1);
    assert!(cut.ends_with('…'));
}
