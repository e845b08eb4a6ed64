//! Inquiries about blocked pods: their questions and their times.

use std::sync::Arc;

use selector::Selector;

use super::*;
use crate::Effect;
use crate::answer::Answer;
use crate::findings::{Inquiry, LONGHORN_COMPONENT, MOST_BUDGETS, MOST_MACHINES};
use crate::view::{BudgetView, Controller};

fn asked(effects: &[Effect]) -> Option<Arc<Inquiry>> {
    effects.iter().find_map(|effect| {
        if let Effect::Inquire { attempt: 1, inquiry } = effect { Some(Arc::clone(inquiry)) } else { None }
    })
}

/// Ticks each second; the seconds in which something was asked.
fn times(bench: &mut Bench, seconds: u64) -> Vec<u64> {
    let mut times = Vec::new();
    for second in 1..=seconds {
        let effects = bench.after(Duration::from_secs(1));
        if asked(&effects).is_some() {
            times.push(second);
        }
        for uid in crate::tests::evicted(&effects) {
            bench.answer(uid, refusal());
        }
    }
    times
}

#[test]
fn asked_after_ten_seconds_and_then_after_pauses_that_double_to_two_minutes() {
    let mut bench = Bench::start();
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    assert_eq!(times(&mut bench, 350), [10, 40, 100, 220, 340]);
}

#[test]
fn a_pod_whose_next_try_is_in_flight_is_asked_about_as_well() {
    let mut bench = Bench::with(Policy { retry: Duration::from_secs(4), ..Policy::device() }, None);
    bench.snapshot(guarded(vec![pod("1")], 0, "1"));
    bench.answer("1", refusal());
    let asked_at: Vec<u32> =
        (1..=12).filter(|_| asked(&bench.after(Duration::from_secs(1))).is_some()).collect();
    assert_eq!(asked_at, [10], "no try is answered");
}

#[test]
fn nothing_is_asked_while_all_goes_well() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", Answer::Accepted);
    assert_eq!(times(&mut bench, 15), [0; 0]);
}

fn owned(uid: &str, kind: &str) -> PodView {
    let api_version = "kubevirt.io/v1".into();
    let controller =
        Controller { kind: kind.into(), api_version, name: format!("vm-{uid}"), ..Controller::default() };
    PodView { controller: Some(controller), ..pod(uid) }
}

#[test]
fn questions_follow_from_the_pods_and_are_limited() {
    let mut bench = Bench::start();
    let mut pods: Vec<PodView> = (0..8).map(|n| owned(&n.to_string(), "VirtualMachineInstance")).collect();
    let mut manager = owned("m", "InstanceManager");
    manager.labels.insert(LONGHORN_COMPONENT.0.into(), LONGHORN_COMPONENT.1.into());
    pods.push(manager);
    let budgets = (0..8).map(|n| BudgetView {
        namespace: "a".into(),
        name: format!("b{n}"),
        selector: Some(Selector::default()),
        ..BudgetView::default()
    });
    let snapshot = crate::Snapshot { budgets: budgets.collect(), ..with(pods) };
    let mut waiting = bench.snapshot(snapshot);
    // One at a time under each budget.
    for _ in 0..9 {
        for uid in crate::tests::evicted(&waiting.clone()) {
            waiting = bench.answer(uid, refusal());
        }
    }
    let inquiry = asked(&bench.after(Duration::from_secs(10))).expect("an inquiry");
    assert_eq!((inquiry.budgets.len(), inquiry.machines.len()), (MOST_BUDGETS, MOST_MACHINES));
    assert_eq!(inquiry.longhorn.as_deref(), Some("a"));
    assert!(inquiry.controller_manager);
    assert_eq!(inquiry.machines[0].name, "vm-0");
}

#[test]
fn a_webhooks_refusal_asks_nothing_about_budgets() {
    let mut bench = Bench::start();
    bench.snapshot(with(vec![pod("1")]));
    bench.answer("1", Answer::Webhook { text: "no".into() });
    assert_eq!(times(&mut bench, 40), [0; 0]);
}

#[test]
fn each_budget_of_a_refused_pod_is_asked_about_once_and_no_other() {
    let budget = |namespace: &str, name: &str, app: &str| BudgetView {
        namespace: namespace.into(),
        name: name.into(),
        selector: Some(Selector {
            requirements: vec![selector::Requirement::In("app".into(), vec![app.into()])],
        }),
        disruptions_allowed: 3,
        ..BudgetView::default()
    };
    let app = |uid: &str, namespace: &str, app: &str| {
        let mut pod = pod(uid);
        pod.id.namespace = namespace.into();
        pod.labels.insert("app".into(), app.into());
        pod
    };
    let pods = vec![app("1", "a", "db"), app("2", "a", "db"), app("3", "b", "db"), app("4", "a", "web")];
    let budgets = vec![budget("a", "db", "db"), budget("b", "db", "db"), budget("a", "web", "web")];
    let mut bench = Bench::start();
    bench.snapshot(crate::Snapshot { budgets, ..with(pods) });
    for uid in ["1", "2", "3"] {
        bench.answer(uid, refusal());
    }
    bench.answer("4", Answer::Accepted);
    let inquiry = asked(&bench.after(Duration::from_secs(10))).expect("an inquiry");
    let names: Vec<String> =
        inquiry.budgets.iter().map(|query| format!("{}/{}", query.namespace, query.name)).collect();
    assert_eq!(names, ["a/db", "b/db"]);
}
