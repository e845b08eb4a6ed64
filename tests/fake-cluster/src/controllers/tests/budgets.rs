use super::*;

/// Creates a replica set `web` with three ready pods.
fn web(bench: &mut Bench) {
    let mut set_object = objects::deployment("web", 3, "");
    set_object["kind"] = json!("ReplicaSet");
    bench.add(set_object);
    let owner = bench.get(resources::REPLICA_SETS, "web").expect("it");
    for number in 0..3 {
        let mut pod = bound_pod(&format!("web-{number}"));
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
        let mut pod = bound_pod("web-0");
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
    web(&mut bench);
    bench.add(objects::budget("web", Limit::MinAvailable("half")));
    bench.settle();
    let budget = bench.get(BUDGETS, "web").expect("it");
    assert_eq!(text(&budget, "/status/conditions/0/reason"), "SyncFailed");
}

#[test]
fn a_disruption_that_comes_to_nothing_is_forgotten_after_two_minutes() {
    let mut bench = Bench::new(&[Controller::Disruption]);
    web(&mut bench);
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
    web(&mut bench);
    bench.add(objects::budget("web", Limit::MaxUnavailable("1")));
    bench.settle();
    assert_eq!(numbers(&bench, "web"), [3, 3, 2, 1]);
    bench.edit(PODS, "web-1", |pod| set(pod, &["metadata", "labels", "app"], "other"));
    bench.settle();
    assert_eq!(numbers(&bench, "web"), [3, 2, 2, 0]);
}
