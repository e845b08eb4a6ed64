use super::*;

/// Creates a replica set `web` of this size, with `ready` of its pods ready.
fn web(bench: &mut Bench, replicas: usize, pods: usize, ready: usize) {
    let mut set_object = objects::deployment("web", u32::try_from(replicas).expect("small"), "");
    set_object["kind"] = json!("ReplicaSet");
    bench.add(set_object);
    let owner = bench.get(resources::REPLICA_SETS, "web").expect("it");
    for number in 0..pods {
        let mut pod = bound_pod(&format!("web-{number}"), "web", number < ready);
        set(&mut pod, &["metadata", "ownerReferences"], json!([object::controller_reference(&owner)]));
        bench.add(pod);
    }
}

/// `[expectedPods, currentHealthy, desiredHealthy, disruptionsAllowed]`.
fn numbers(bench: &Bench, budget: &str) -> [i64; 4] {
    let budget = bench.get(BUDGETS, budget).expect("the budget");
    assert_eq!(number(&budget, "/status/observedGeneration"), number(&budget, "/metadata/generation"));
    ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .map(|field| number(&budget, &format!("/status/{field}")).expect("a number"))
}

#[test]
fn arithmetic() {
    use Limit::{MaxUnavailable, MinAvailable};
    for (limit, replicas, pods, ready, expected) in [
        // The scale counts, not the number of existing pods.
        (MaxUnavailable("1"), 4, 3, 3, [4, 3, 3, 0]),
        (MaxUnavailable("1"), 2, 3, 3, [2, 3, 1, 2]),
        (MinAvailable("50%"), 4, 2, 2, [4, 2, 2, 0]),
        (MaxUnavailable("200%"), 3, 3, 3, [3, 3, 0, 3]),
        // A number counts the pods themselves.
        (MinAvailable("2"), 5, 3, 3, [3, 3, 2, 1]),
    ] {
        let mut bench = Bench::new(&[Controller::Disruption]);
        web(&mut bench, replicas, pods, ready);
        bench.add(objects::budget("web", limit));
        assert_eq!(bench.settle(), None);
        assert_eq!(numbers(&bench, "web"), expected, "{limit:?} of {replicas}, {pods} there, {ready} ready");
    }
}

#[test]
fn the_scale_of_a_deployment_counts_once() {
    let mut bench = Bench::new(&[Controller::Disruption, Controller::Deployment, Controller::ReplicaSet]);
    bench.add(objects::deployment("web", 4, ""));
    bench.settle();
    // A second, older replica set still has its pods.
    let deployment = bench.get(resources::DEPLOYMENTS, "web").expect("it");
    bench.controllers.truncate(1);
    let mut old = objects::deployment("web-old", 0, "");
    old["kind"] = json!("ReplicaSet");
    set(&mut old, &["metadata", "ownerReferences"], json!([object::controller_reference(&deployment)]));
    bench.add(old);
    let old = bench.get(resources::REPLICA_SETS, "web-old").expect("it");
    let mut pod = bound_pod("web-old-x", "web", true);
    set(&mut pod, &["metadata", "ownerReferences"], json!([object::controller_reference(&old)]));
    bench.add(pod);
    bench.add(objects::budget("web", Limit::MaxUnavailable("50%")));
    bench.settle();
    assert_eq!(numbers(&bench, "web"), [4, 1, 2, 0]);
}

#[test]
fn a_count_that_fails_allows_nothing_and_stays_unobserved() {
    let cases = [
        (
            "DaemonSet",
            "apps/v1",
            Limit::MaxUnavailable("1"),
            "DaemonSet x does not implement the scale subresource",
        ),
        ("Job", "batch/v1", Limit::MinAvailable("50%"), "found no controllers for pod \"web-0\""),
        ("ReplicaSet", "apps/v1", Limit::MaxUnavailable("1"), "found no controllers for pod \"web-0\""),
    ];
    for (kind, api_version, limit, problem) in cases {
        let mut bench = Bench::new(&[Controller::Disruption]);
        let owner = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "uid": "1"}});
        let mut pod = bound_pod("web-0", "web", true);
        set(&mut pod, &["metadata", "ownerReferences"], json!([object::controller_reference(&owner)]));
        bench.add(pod);
        bench.add(objects::budget("web", limit));
        bench.settle();
        let budget = bench.get(BUDGETS, "web").expect("it");
        assert_eq!(number(&budget, "/status/disruptionsAllowed"), Some(0), "{kind}");
        assert_eq!(number(&budget, "/status/observedGeneration"), None, "{kind}");
        assert_eq!(text(&budget, "/status/conditions/0/reason"), "SyncFailed");
        assert_eq!(text(&budget, "/status/conditions/0/message"), problem);
    }
    let mut bench = Bench::new(&[Controller::Disruption]);
    web(&mut bench, 3, 3, 3);
    bench.add(objects::budget("web", Limit::MinAvailable("half")));
    bench.settle();
    let budget = bench.get(BUDGETS, "web").expect("it");
    assert_eq!(text(&budget, "/status/conditions/0/reason"), "SyncFailed");
}

#[test]
fn terminating_and_disrupted_pods_are_not_healthy() {
    let mut bench = Bench::new(&[Controller::Disruption]);
    web(&mut bench, 3, 3, 3);
    bench.add(objects::budget("web", Limit::MaxUnavailable("1")));
    bench.settle();
    // The server has granted the disruption; it is not visible on the pod yet.
    let now = bench.now().text();
    bench.edit(BUDGETS, "web", |budget| {
        set(budget, &["status", "disruptionsAllowed"], 0);
        set(budget, &["status", "disruptedPods", "web-0"], now);
    });
    assert_eq!(bench.settle(), Some(seconds(120)));
    assert_eq!(numbers(&bench, "web"), [3, 2, 2, 0]);
    // The disruption is visible: the entry is removed, and the pod itself counts as lost.
    bench.delete(PODS, "web-0");
    assert_eq!(bench.settle(), None);
    assert_eq!(numbers(&bench, "web"), [3, 2, 2, 0]);
    assert_eq!(bench.get(BUDGETS, "web").expect("it")["status"].get("disruptedPods"), None);
}

#[test]
fn a_disruption_that_comes_to_nothing_is_forgotten_after_two_minutes() {
    let mut bench = Bench::new(&[Controller::Disruption]);
    web(&mut bench, 3, 3, 3);
    bench.add(objects::budget("web", Limit::MaxUnavailable("1")));
    bench.settle();
    let now = bench.now().text();
    bench.edit(BUDGETS, "web", |budget| set(budget, &["status", "disruptedPods", "web-0"], now.as_str()));
    let mark = json!({"type": "DisruptionTarget", "status": "True"});
    bench.edit(PODS, "web-1", |pod| {
        object::set_condition(pod, mark, &now);
    });
    let has_mark = |bench: &Bench| {
        let pod = bench.get(PODS, "web-1").expect("it");
        text(object::condition(&pod, "DisruptionTarget").expect("the mark"), "/status") == "True"
    };
    assert_eq!(bench.settle(), Some(seconds(120)));
    assert_eq!(
        (bench.pass(seconds(119)), numbers(&bench, "web")[3], has_mark(&bench)),
        (Some(seconds(120)), 0, true)
    );
    assert_eq!((bench.pass(seconds(1)), numbers(&bench, "web")[3], has_mark(&bench)), (None, 1, false));
    // An entry for a missing pod is forgotten at once.
    let now = bench.now().text();
    bench.edit(BUDGETS, "web", |budget| set(budget, &["status", "disruptedPods", "missing"], now));
    assert_eq!(bench.settle(), None);
    assert_eq!(bench.get(BUDGETS, "web").expect("it")["status"].get("disruptedPods"), None);
}

#[test]
fn a_budget_is_counted_again_when_a_pod_loses_its_label() {
    let mut bench = Bench::new(&[Controller::Disruption]);
    web(&mut bench, 3, 3, 3);
    bench.add(objects::budget("web", Limit::MaxUnavailable("1")));
    bench.settle();
    assert_eq!(numbers(&bench, "web"), [3, 3, 2, 1]);
    bench.edit(PODS, "web-1", |pod| set(pod, &["metadata", "labels", "app"], "other"));
    bench.settle();
    assert_eq!(numbers(&bench, "web"), [3, 2, 2, 0]);
}
