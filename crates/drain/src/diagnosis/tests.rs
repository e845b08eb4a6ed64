//! Every reason for which a pod stays, with its cause, holder and hint.

use std::sync::Arc;
use std::time::Duration;

use selector::Selector;

use super::*;
use crate::Event;
use crate::answer::Answer;
use crate::findings::{Findings, LeaseView, LonghornView, MachineView, Migration, UnhealthyPod};
use crate::tests::{Bench, evicted, guarded, node, pod, refusal, terminating, with};
use crate::view::{Amount, Controller, Demand, Terminating};

/// The only blocked pod of the attempt.
fn only(bench: &Bench) -> Blocked {
    let mut all = blocked(bench.attempt(), bench.now);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn find(bench: &mut Bench, findings: Findings) {
    bench.send(Event::Found { attempt: 1, findings: Arc::new(findings) });
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in `{text}`");
    }
}

fn keeper(api_version: &str, kind: &str) -> Controller {
    Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "x".into(),
        ..Controller::default()
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn a_hint_for_each_kind_of_budget() {
    use Amount::{Count, Percent};
    let budget = |expected_pods, current_healthy, desired_healthy, disruptions_allowed| BudgetView {
        namespace: "a".into(),
        name: "b".into(),
        version: "1".into(),
        selector: Some(Selector::default()),
        expected_pods,
        current_healthy,
        desired_healthy,
        disruptions_allowed,
        ..BudgetView::default()
    };
    let min = |amount, budget| BudgetView { demand: Some(Demand::MinAvailable(amount)), ..budget };
    let max = |amount, budget| BudgetView { demand: Some(Demand::MaxUnavailable(amount)), ..budget };
    let none = || budget(3, 3, 3, 0);
    let cases = [
        (
            BudgetView { never_observed: true, status_lags: true, ..none() },
            "no controller has ever looked at",
        ),
        (BudgetView { status_lags: true, ..none() }, "not up to date"),
        (
            BudgetView { sync_failure: "no scale".into(), never_observed: true, status_lags: true, ..none() },
            "cannot be worked out: no scale: use an integer minAvailable, or give the kind of its pods' owner a scale \
             subresource: kubectl -n a edit pdb b",
        ),
        (
            BudgetView { sync_failure: "timed out".into(), ..min(Count(1), none()) },
            "cannot be worked out: timed out: look at kube-controller-manager",
        ),
        (budget(3, 3, 2, 1), "allows 1 disruptions now"),
        (max(Count(1), budget(0, 1, 0, 0)), "(maxUnavailable: 1): it counts the pods that controllers want"),
        (
            min(Percent(50), budget(0, 2, 0, 0)),
            "its pods have no controller: use an integer minAvailable: kubectl -n a edit pdb b",
        ),
        (min(Count(1), budget(0, 1, 1, 0)), "a replacement has to become Ready"),
        (
            max(Count(0), none()),
            "never allows a disruption (maxUnavailable: 0), and scaling up does not help: change it, or delete it for \
             the time of the drain (kubectl -n a delete pdb b): kubectl -n a edit pdb b",
        ),
        (max(Percent(0), budget(3, 1, 3, 0)), "(maxUnavailable: 0%), and scaling up does not help"),
        (min(Percent(100), none()), "(minAvailable: 100%), and scaling up does not help"),
        (
            min(Count(3), none()),
            "never allows a disruption: scale ReplicaSet/, or the Deployment that made it, up to 4, or change the budget: \
             kubectl -n a edit pdb b",
        ),
        (min(Count(5), budget(3, 3, 5, 0)), "up to 6, or change"),
        (min(Percent(50), budget(1, 1, 1, 0)), "up to 2, or change"),
        (min(Percent(67), budget(3, 3, 3, 0)), "up to 4, or change"),
        (min(Percent(50), budget(4, 3, 3, 0)), "to become Ready first"),
        (
            min(Count(3), budget(3, 2, 3, 0)),
            "never allows a disruption and lacks 1 healthy pods: find out why its pods are not Ready: scale ReplicaSet/",
        ),
        (budget(3, 1, 2, 0), "lacks 1 healthy pods"),
        (budget(3, 0, 0, 0), "counts no healthy pod"),
        (
            BudgetView { disrupted_pods: vec!["x-1".into()], ..budget(3, 3, 2, 0) },
            "has just allowed the eviction of x-1",
        ),
        (none(), "or change the budget: kubectl -n a edit pdb b"),
        (budget(4, 3, 3, 0), "to become Ready first: kubectl -n a describe pdb b"),
        (budget(3, 3, 2, 0), "a replacement has to become Ready"),
        (
            BudgetView { keeper: Some(keeper("postgresql.cnpg.io/v1", "Cluster")), ..none() },
            "budget a/b is kept by Cluster x: it moves its primary by itself; a change of the budget does not last: kubectl -n a \
             describe cluster.postgresql.cnpg.io x",
        ),
        (
            BudgetView {
                sync_failure: "no scale".into(),
                keeper: Some(keeper("postgresql.cnpg.io/v1", "Cluster")),
                ..none()
            },
            "cannot be worked out: no scale; it is kept by Cluster x",
        ),
        (
            BudgetView { keeper: Some(keeper("v1", "Pod")), ..budget(3, 1, 2, 0) },
            "find out why its pods are not Ready; it is kept by Pod x: look what it waits for; a change of the budget does \
             not last: kubectl -n a describe pod x",
        ),
    ];
    for (budget, expected) in cases {
        let mut bench = Bench::start();
        let snapshot = Snapshot { budgets: vec![budget.clone()], ..with(vec![pod("1")]) };
        bench.snapshot(snapshot);
        bench.answer("1", refusal());
        let blocked = only(&bench);
        says(&blocked.hint, &["budget a/b", expected]);
        says(&blocked.cause, &["PodDisruptionBudget: needs 1 healthy pods"]);
        assert_eq!(blocked.budgets[0].budget, budget);
    }
}

/// E36, F7: who can be scaled, and up to how many pods.
#[test]
fn the_advice_fits_the_pod_and_its_owner() {
    let shut = |lets_unready_go| BudgetView {
        demand: Some(Demand::MinAvailable(Amount::Count(1))),
        lets_unready_go,
        desired_healthy: 1,
        ..guarded(vec![], 0, "1").budgets.remove(0)
    };
    let alone =
        |lets_unready_go| BudgetView { expected_pods: 1, current_healthy: 1, ..shut(lets_unready_go) };
    let crashed = |lets_unready_go| BudgetView { expected_pods: 2, ..shut(lets_unready_go) };
    let of = |api_version: &str, kind: &str| of_controller("1", api_version, kind);
    let bare = PodView { controller: None, names_node: true, ..pod("1") };
    let unready = || PodView { ready: false, ..of("apps/v1", "StatefulSet") };
    let allow = "the pod itself is not Ready: with unhealthyPodEvictionPolicy: AlwaysAllow the budget lets it go: kubectl \
                 -n a edit pdb b";
    for (pod, budget, expected) in [
        (of("apps/v1", "StatefulSet"), alone(false), "scale StatefulSet/vm up to 2, or change the budget"),
        (of("v1", "ReplicationController"), alone(false), "scale ReplicationController/vm up to 2"),
        (of("apps.kruise.io/v1", "StatefulSet"), alone(false), "have StatefulSet/vm run 2 pods, or change"),
        (
            bare,
            alone(false),
            "no controller makes more pods of this kind: delete the pod by hand, or change the budget",
        ),
        (unready(), crashed(false), allow),
        (unready(), BudgetView { expected_pods: 1, ..shut(false) }, allow),
        (unready(), crashed(true), "find out why its pods are not Ready: kubectl -n a describe pdb b"),
        (of("apps/v1", "StatefulSet"), crashed(false), "are not Ready: kubectl -n a describe pdb b"),
    ] {
        let mut bench = Bench::start();
        bench.snapshot(Snapshot { budgets: vec![budget], ..with(vec![pod]) });
        bench.answer("1", refusal());
        says(&only(&bench).hint, &[expected]);
    }
}

#[test]
fn misconfigured_is_what_mcm_calls_so() {
    let shut =
        BudgetView { expected_pods: 2, current_healthy: 2, desired_healthy: 2, ..BudgetView::default() };
    let cases = [
        (shut.clone(), true),
        (BudgetView { expected_pods: 0, current_healthy: 0, ..shut.clone() }, false),
        (BudgetView { current_healthy: 1, ..shut.clone() }, false),
        (BudgetView { current_healthy: 3, ..shut.clone() }, true),
        (BudgetView { disruptions_allowed: 1, ..shut.clone() }, false),
        (BudgetView { status_lags: true, ..shut.clone() }, false),
        (BudgetView { disrupted_pods: vec!["x".into()], ..shut }, false),
    ];
    for (budget, expected) in cases {
        assert_eq!(budgets::is_misconfigured(&budget), expected, "{budget:?}");
    }
}

#[test]
fn unhealthy_pods_are_named_with_their_nodes() {
    let mut bench = Bench::start();
    let mut snapshot = guarded(vec![pod("1")], 0, "1");
    (snapshot.budgets[0].desired_healthy, snapshot.budgets[0].expected_pods) = (1, 1);
    bench.snapshot(snapshot);
    bench.answer("1", refusal());
    let unhealthy = vec![
        UnhealthyPod { name: "x".into(), node: "edge-b".into(), why: "CrashLoopBackOff".into() },
        UnhealthyPod { name: "y".into(), node: String::new(), why: "no node has room".into() },
    ];
    let pods = BudgetPods { namespace: "a".into(), name: "b".into(), unhealthy, more: 2 };
    find(&mut bench, Findings { budgets: vec![pods], ..Findings::default() });
    let names = ["x on edge-b: CrashLoopBackOff", "y on no node: no node has room", "and 2 more"];
    assert_eq!(only(&bench).budgets[0].unhealthy, names);
    says(&only(&bench).hint, &names);
    let trouble = vec!["cannot list pods: 403".to_owned()];
    find(&mut bench, Findings { trouble, ..Findings::default() });
    says(&only(&bench).hint, &["find out why they are not Ready (cannot list pods: 403)"]);
}

#[test]
fn the_last_refusal_counts_until_there_is_another_answer() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    let told = only(&bench);
    bench.after(Duration::from_secs(30));
    assert_eq!(bench.stage("1"), Some(Stage::Evicting), "asked again");
    assert_eq!(only(&bench), told);
    // F11: the credentials are refused, or the server is busy. What was before is not said again.
    for answer in [
        Answer::Denied { text: "no right".into() },
        Answer::Throttled { after: None, text: "busy".into() },
        Answer::Retry { text: "failed".into() },
    ] {
        let mut bench = bench.clone();
        bench.answer("1", answer.clone());
        bench.after(Duration::from_secs(30));
        assert_eq!(bench.stage("1"), Some(Stage::Evicting), "asked again");
        assert_eq!(blocked(bench.attempt(), bench.now), [], "{answer:?}");
    }
    bench.answer("1", Answer::Accepted);
    assert_eq!(blocked(bench.attempt(), bench.now), []);
}

/// F9: a webhook that makes a dry run of the eviction.
#[test]
fn an_eviction_that_is_accepted_twice_in_vain_is_named() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let accept = |bench: &mut Bench| {
        bench.answer("1", Answer::Accepted);
        let first = bench.now;
        bench.now = bench.now + bench.policy.retry;
        assert_eq!(evicted(&bench.snapshot(with(vec![pod("1")]))), ["1"], "asked again");
        first
    };
    let first = accept(&mut bench);
    assert_eq!(blocked(bench.attempt(), bench.now), [], "the watch may be late");
    accept(&mut bench);
    let told = only(&bench);
    says(
        &told.cause,
        &["the server accepts the eviction but does not delete the pod: a webhook changes evictions"],
    );
    says(&told.hint, &["mutatingwebhookconfigurations"]);
    assert_eq!((told.since, told.by), (first, BlockedBy::Webhook));
    bench.answer("1", Answer::Accepted);
    assert_eq!(only(&bench), told);
    assert_eq!(crate::progress::progress(bench.attempt()).blocked, 1);
    let line = crate::progress::lines(bench.attempt(), bench.now).remove(0);
    assert_eq!((line.stage.as_ref().map(Stage::name), line.since, line.tries), (Some("Blocked"), first, 3));
    assert_eq!(line.detail, "the server accepts the eviction but does not delete the pod");

    let mut refused = bench.clone();
    refused.now = bench.now + bench.policy.retry;
    refused.snapshot(with(vec![pod("1")]));
    refused.answer("1", Answer::Retry { text: "failed".into() });
    assert_eq!(blocked(refused.attempt(), refused.now), [], "the last answer counts");
    bench.snapshot(with(vec![terminating("1")]));
    assert_eq!(blocked(bench.attempt(), bench.now), []);
    assert_eq!(crate::progress::progress(bench.attempt()).terminating, 1);
}

#[test]
fn findings_are_those_of_this_very_budget() {
    let unhealthy = || vec![UnhealthyPod { name: "x".into(), ..UnhealthyPod::default() }];
    let pods = |namespace: &str, name: &str, more| BudgetPods {
        namespace: namespace.into(),
        name: name.into(),
        unhealthy: unhealthy(),
        more,
    };
    for (found, expected) in [
        (pods("a", "b", 0), vec!["x on no node"]),
        (pods("a", "b", 1), vec!["x on no node", "and 1 more"]),
        (pods("a", "other", 0), vec![]),
        (pods("other", "b", 0), vec![]),
    ] {
        let mut bench = Bench::start();
        bench.snapshot(guarded(vec![pod("1")], 0, "1"));
        bench.answer("1", refusal());
        find(&mut bench, Findings { budgets: vec![found], ..Findings::default() });
        assert_eq!(only(&bench).budgets[0].unhealthy, expected);
    }
}

#[test]
fn a_holder_is_named_only_while_somebody_refuses() {
    let machine = || of_controller("1", "kubevirt.io/v1", "VirtualMachineInstance");
    for (answer, is_named) in [
        (refusal(), true),
        (Answer::Webhook { text: "not migratable".into() }, true),
        (Answer::TwoBudgets, false),
        (Answer::Rejected { text: "no right".into() }, false),
    ] {
        let mut bench = Bench::start();
        bench.snapshot(guarded(vec![machine(), pod("2")], 1, "1"));
        bench.answer("1", answer.clone());
        assert_eq!(!only(&bench).holder.is_empty(), is_named, "{answer:?}");
    }
}

#[test]
fn a_returning_pod_is_named_from_the_first_time_and_slow_from_the_third() {
    for (times, is_slow) in [(1, false), (2, false), (3, true)] {
        let mut bench = Bench::start();
        bench.after(Duration::from_secs(10));
        for uid in 0..=times {
            bench.snapshot(with(vec![pod(&uid.to_string())]));
        }
        let blocked = only(&bench);
        says(
            &blocked.cause,
            &[&format!("ReturnsToNode: ReplicaSet/ has created it again on this node {times} times")],
        );
        assert_eq!(blocked.cause.contains("evicted slowly from now on"), is_slow, "{times}");
        assert_eq!(blocked.holder, "ReplicaSet/", "{times}");
        assert_eq!((blocked.pod.uid, blocked.since), (times.to_string(), bench.now));
    }
}

#[test]
fn a_silent_controller_manager_is_named() {
    for (seconds, is_named) in [(59, false), (60, true)] {
        let mut bench = Bench::start();
        bench.snapshot(guarded(vec![pod("1")], 0, "1"));
        bench.answer("1", refusal());
        let lease = LeaseView { holder: "edge-c".into(), silent: Duration::from_secs(seconds) };
        find(&mut bench, Findings { controller_manager: Some(lease), ..Findings::default() });
        let hint = only(&bench).hint;
        assert_eq!(
            hint.contains("kube-controller-manager has been silent for 60 s (its leader was edge-c)"),
            is_named
        );
    }
}

#[test]
fn two_budgets_and_webhooks() {
    let mut bench = Bench::start();
    let mut snapshot = guarded(vec![pod("1")], 1, "1");
    snapshot.budgets.push(BudgetView { name: "c".into(), ..snapshot.budgets[0].clone() });
    bench.snapshot(snapshot);
    bench.answer("1", Answer::TwoBudgets);
    says(&only(&bench).cause, &["more than one PodDisruptionBudget"]);
    says(&only(&bench).hint, &["only one of b, c selects this pod"]);

    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    let denial = "admission webhook \"x\" denied the request: no";
    for (text, expected) in [("not today", "admission webhook: not today"), (denial, denial)] {
        bench.answer("1", Answer::Webhook { text: text.into() });
        assert_eq!(only(&bench).cause, expected);
        bench.after(Duration::from_mins(1));
    }
    bench.answer("1", Answer::Webhook { text: "no".into() });
    assert!(!only(&bench).hint.is_empty());
}

#[test]
fn refused_and_final() {
    let mut bench = Bench::with(crate::Policy::kubectl(), None);
    bench.snapshot(with(vec![crate::PodView { controller: None, empty_dir: true, ..pod("1") }]));
    says(&only(&bench).cause, &["does not allow", "emptyDir", "no controller"]);

    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1"), pod("2")]));
    bench.answer("1", Answer::Rejected { text: "no right to evict".into() });
    assert_eq!(only(&bench).cause, "no right to evict");
    assert!(!only(&bench).hint.is_empty());
}

fn of_controller(uid: &str, api_version: &str, kind: &str) -> PodView {
    let controller = Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "vm".into(),
        uid: "owner".into(),
        ..Controller::default()
    };
    PodView { controller: Some(controller), ..pod(uid) }
}

#[test]
fn kubevirt_is_recognised_by_the_state_of_its_migration() {
    let machine = |migration, evacuating, not_migratable: &str| {
        vec![MachineView {
            pod: "1".into(),
            name: "a/vm".into(),
            evacuating,
            migration,
            not_migratable: not_migratable.into(),
        }]
    };
    let running = Migration::Running("edge-b".into());
    let failed = || Migration::Failed("no memory".into());
    let cases = [
        (vec![], "virtual machine a/vm", "migrated or stopped"),
        (machine(running, true, ""), "is being migrated to edge-b", "wait"),
        (
            machine(Migration::None, false, "host disk"),
            "cannot be migrated: host disk",
            "stop the virtual machine",
        ),
        (machine(failed(), true, "host disk"), "cannot be migrated: host disk", "stop the virtual machine"),
        (machine(failed(), true, ""), "failed: no memory", "fix"),
        (machine(Migration::None, true, ""), "waits for its migration", "a few machines at a time"),
        (machine(Migration::Completed, false, ""), "virtual machine a/vm", "virt-controller"),
    ];
    for (machines, holder, hint) in cases {
        let mut bench = Bench::start();
        let pods = vec![of_controller("1", "kubevirt.io/v1", "VirtualMachineInstance")];
        bench.snapshot(guarded(pods, 0, "1"));
        bench.answer("1", refusal());
        find(&mut bench, Findings { machines, ..Findings::default() });
        says(&only(&bench).holder, &["KubeVirt", holder]);
        says(&only(&bench).hint, &[hint]);
    }
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![of_controller("1", "example.org/v1", "VirtualMachineInstance")], 0, "1"));
    bench.answer("1", refusal());
    assert_eq!(only(&bench).holder, "", "somebody else's kind of the same name");
}

#[test]
fn longhorn_is_recognised_by_its_policy() {
    let view = |policy: &str, evicting| Some(LonghornView { drain_policy: policy.into(), evicting });
    let cases = [
        (None, "serves volumes of this node", "node-drain-policy"),
        (
            view("block-if-contains-last-replica", false),
            "block-if-contains-last-replica",
            "last healthy replica",
        ),
        (
            view("block-if-contains-last-replica", true),
            "block-if-contains-last-replica",
            "moving replicas away",
        ),
        (view("allow-if-replica-is-stopped", false), "allow-if-replica-is-stopped", "in use"),
        (view("block-for-eviction", false), "block-for-eviction", "longhorn-manager"),
        (view("always-allow", false), "always-allow", "still attached"),
    ];
    for (longhorn, holder, hint) in cases {
        let mut bench = Bench::start();
        let mut manager = of_controller("1", "longhorn.io/v1beta2", "InstanceManager");
        manager.labels.insert("longhorn.io/component".into(), "instance-manager".into());
        bench.snapshot(guarded(vec![manager], 0, "1"));
        bench.answer("1", refusal());
        find(&mut bench, Findings { longhorn, ..Findings::default() });
        says(&only(&bench).holder, &["Longhorn", holder]);
        says(&only(&bench).hint, &[hint]);
    }
}

#[test]
fn a_terminating_pod_is_stuck_30_s_after_its_time() {
    let late = |overdue| {
        let terminating = Terminating {
            grace: Duration::from_secs(30),
            overdue: Duration::from_secs(overdue),
            ..Terminating::default()
        };
        PodView { terminating: Some(terminating), ..pod("1") }
    };
    let held = PodView { finalizers: vec!["example.org/hold".into()], ..late(31) };
    let down = crate::view::NodeView { ready: false, ..node(true) };
    let cases = [
        (late(30), node(true), None),
        (late(31), node(true), Some("the kubelet has not ended its containers")),
        (late(31), down.clone(), Some("the kubelet of this node does not answer")),
        (held, down, Some("held by finalizers example.org/hold")),
    ];
    for (pod, node, expected) in cases {
        let mut bench = Bench::start();
        bench.snapshot(Snapshot { node: Some(node), ..with(vec![pod]) });
        match expected {
            Some(expected) => {
                says(&only(&bench).cause, &["still terminating 31 s after its time", expected]);
                assert_eq!((only(&bench).pod.uid.as_str(), only(&bench).since), ("1", bench.now));
                assert!(!only(&bench).hint.is_empty());
            }
            None => assert_eq!(blocked(bench.attempt(), bench.now), []),
        }
    }
}

#[test]
fn without_a_server_clock_ours_tells_what_is_stuck() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![terminating("1")]));
    bench.after(Duration::from_mins(1));
    assert_eq!(blocked(bench.attempt(), bench.now), [], "30 s of grace, and 30 s");
    bench.after(Duration::from_secs(1));
    says(&only(&bench).cause, &["still terminating 31 s after its time"]);
}

#[test]
fn time_goes_on_after_the_last_snapshot() {
    let mut bench = Bench::start();
    let terminating =
        Terminating { grace: Duration::ZERO, overdue: Duration::from_secs(5), ..Terminating::default() };
    bench.snapshot(with(vec![PodView { terminating: Some(terminating), ..pod("1") }]));
    bench.after(Duration::from_secs(26));
    says(&only(&bench).cause, &["31 s after its time"]);
}

#[test]
fn a_refused_pod_counts_from_its_first_refusal() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    let first = bench.now;
    bench.after(Duration::from_secs(30));
    bench.answer("1", refusal());
    assert_eq!(only(&bench).since, first);
}

#[test]
fn a_trouble_of_many_pods_is_one_blocker() {
    let refused = |pods: &[&str], desired_healthy| {
        let mut bench = Bench::start();
        let mut snapshot = guarded(pods.iter().map(|uid| pod(uid)).collect(), 0, "1");
        let budget = &mut snapshot.budgets[0];
        (budget.expected_pods, budget.current_healthy, budget.desired_healthy) = (3, 3, desired_healthy);
        budget.keeper = Some(keeper("postgresql.cnpg.io/v1", "Cluster"));
        bench.snapshot(snapshot);
        for uid in pods {
            bench.answer(uid, refusal());
        }
        blocked(bench.attempt(), bench.now)
    };
    let stuck = |uid: &str, late: u64| Blocked {
        pod: pod(uid).id,
        cause: format!("still terminating {late} s after its time"),
        ..Blocked::default()
    };
    let all = [vec![stuck("9", 31)], refused(&["1", "2", "3"], 3), vec![stuck("8", 70)]].concat();
    let found: Vec<(String, usize)> =
        blockers(&all).into_iter().map(|blocker| (blocker.what, blocker.pods.len())).collect();
    let expected = [
        ("budget a/b: 3 of 3 healthy, needs 3, kept by Cluster x", 3),
        ("still terminating 31 s after its time", 2),
    ];
    assert_eq!(found, expected.map(|(what, pods)| (what.to_owned(), pods)));
    assert_eq!(blockers(&[]), []);

    let held = |holder: &str| Blocked { holder: holder.into(), ..refused(&["1"], 2).remove(0) };
    let two = blockers(&[held("KubeVirt: virtual machine a/x"), held("KubeVirt: virtual machine a/y")]);
    assert_eq!(two.len(), 2, "each machine is a trouble of its own");
    says(
        &two[0].what,
        &[
            "budget a/b: 3 of 3 healthy, needs 2, kept by Cluster x; behind it is KubeVirt: virtual machine a/x",
        ],
    );
}
