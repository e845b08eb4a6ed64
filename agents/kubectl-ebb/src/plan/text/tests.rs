use cluster::Trial;
use drain::diagnosis::Blocked;
use drain::state::{Cause, Stage};
use drain::view::NodeView;
use drain::{Moment, Reason, Snapshot};

use super::*;
use crate::drain::forecast::Forecast;
use crate::drain::testing::{line, pod};

fn node_plan() -> NodePlan {
    let node = NodeView { name: "edge-a".into(), ..NodeView::default() };
    let refused = Stage::Blocked { cause: Cause::TwoBudgets, next: Moment::NEVER };
    let busy = Stage::Paused { text: "the API server is busy".into(), next: Moment::NEVER };
    let lines = vec![
        line("db-0", Some(refused)),
        Line {
            owner: String::new(),
            reasons: vec![Reason::NoController, Reason::EmptyDir],
            ..line("bare", Some(busy))
        },
        Line { verdict: Verdict::Leave, reasons: vec![Reason::DaemonSet], ..line("sensor", None) },
    ];
    let blocked = Blocked {
        pod: pod("db-0"),
        cause: "two budgets".into(),
        holder: "a migration".into(),
        hint: "wait for it".into(),
        ..Blocked::default()
    };
    let extra =
        |order, volumes: &[&str]| Extra { order, volumes: volumes.iter().map(|&name| name.into()).collect() };
    NodePlan {
        snapshot: Snapshot { node: Some(node), ..Snapshot::default() },
        forecast: Forecast {
            node: "edge-a".into(),
            trial: Trial { lines, blocked: vec![blocked], ..Trial::default() },
            ..Forecast::default()
        },
        extras: vec![extra(0, &["pv-1", "pv-2"]), extra(10, &[]), extra(0, &[])],
    }
}

#[test]
fn a_plan_with_something_in_the_way() {
    insta::assert_snapshot!(render(&node_plan()).join("\n"));
}

#[test]
fn a_plan_with_nothing_in_the_way() {
    let mut node_plan = node_plan();
    node_plan.forecast.trial.lines.truncate(1);
    node_plan.forecast.trial.lines[0].stage = Some(Stage::Accepted);
    node_plan.forecast.trial.blocked.clear();
    let node = node_plan.snapshot.node.as_mut().unwrap();
    node.cordoned = true;
    node.cordoned_by = Some("zedkube".into());
    insta::assert_snapshot!(render(&node_plan).join("\n"));
}

#[test]
fn an_empty_node() {
    let empty = Forecast { node: "edge-a".into(), ..Forecast::default() };
    insta::assert_snapshot!(render(&NodePlan { forecast: empty, ..node_plan() }).join("\n"));
}

#[test]
fn equal_pods_are_one_row_and_pods_of_the_node_are_not_counted() {
    let web = |name: &str| Line { owner: "ReplicaSet/web".into(), ..line(name, Some(Stage::Accepted)) };
    let of_node = |name: &str, reason| Line {
        owner: format!("DaemonSet/{name}"),
        verdict: Verdict::Leave,
        reasons: vec![reason],
        ..line(name, None)
    };
    let lines = vec![
        web("web-1"),
        of_node("proxy", Reason::DaemonSet),
        web("web-2"),
        of_node("sensor", Reason::DaemonSet),
        of_node("logs", Reason::DaemonSet),
        web("web-3"),
        line("db-0", Some(Stage::Accepted)),
        of_node("etcd", Reason::Mirror),
    ];
    let mut node_plan = node_plan();
    node_plan.extras = vec![Extra::default(); lines.len()];
    node_plan.forecast.trial = Trial { lines, may_return: vec![pod("web-1")], ..Trial::default() };
    insta::assert_snapshot!(render(&node_plan).join("\n"));
}
