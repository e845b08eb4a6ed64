//! Sequences of views of a drain, and the lines that are printed for them.

use drain::Reason;
use drain::diagnosis::Blocked;
use drain::progress::Progress;
use drain::state::Cause;

use super::*;
use crate::drain::testing::{line, pod};

/// One view: the time in seconds, the pods, and the causes that block them.
struct Look {
    at: u64,
    lines: Vec<Line>,
    blocked: Vec<(&'static str, &'static str)>,
    by: Vec<(&'static str, DeletionMethod)>,
}

fn look(at: u64, lines: Vec<Line>) -> Look {
    Look { at, lines, blocked: Vec::new(), by: Vec::new() }
}

fn blocked(at: u64, pods: &[(&'static str, &'static str)]) -> Look {
    let stage = || Stage::Blocked { cause: Cause::TwoBudgets, next: Moment::NEVER };
    let lines = pods.iter().map(|(name, _)| line(name, Some(stage()))).collect();
    Look { blocked: pods.to_vec(), ..look(at, lines) }
}

fn view(look: Look) -> NodeDrainView {
    let blocked = |(name, cause): (&str, &str)| Blocked {
        pod: pod(name),
        cause: cause.into(),
        hint: format!("fix {cause}"),
        ..Blocked::default()
    };
    NodeDrainView {
        lines: look.lines,
        blocked: look.blocked.into_iter().map(blocked).collect(),
        by: look.by.into_iter().map(|(uid, by)| (uid.to_owned(), by)).collect(),
        now: Moment(look.at * 1000),
        ..NodeDrainView::default()
    }
}

/// All printed lines, each with `O` (stdout) or `E` (stderr) before it.
fn printed(mut reporter: NodeReporter, looks: Vec<Look>) -> Vec<String> {
    let text = |print| match print {
        Print::Out(text) => format!("O {text}"),
        Print::Err(text) => format!("E {text}"),
    };
    looks.into_iter().flat_map(|look| reporter.see(&view(look))).map(text).collect()
}

fn plain() -> NodeReporter {
    NodeReporter::new(style())
}

fn style() -> ReportStyle {
    ReportStyle { method: Method::Evict, retry: Duration::from_secs(5), is_verbose: false, reminds: true }
}

#[test]
fn each_change_of_a_pod_is_told_once() {
    let a = |stage| vec![line("a", Some(stage))];
    let looks = vec![
        look(0, a(Stage::Waiting)),
        look(1, a(Stage::Evicting)),
        look(2, a(Stage::Evicting)),
        look(3, a(Stage::Accepted)),
        look(4, a(Stage::Terminating)),
        look(5, a(Stage::Terminating)),
        look(6, Vec::new()),
        look(7, Vec::new()),
    ];
    assert_eq!(printed(plain(), looks), ["O evicting pod shop/a", "O pod/a evicted from shop namespace"]);
}

#[test]
fn a_pod_that_is_quick_is_told_in_full() {
    let looks = vec![look(0, vec![line("a", Some(Stage::Waiting))]), look(1, Vec::new())];
    assert_eq!(printed(plain(), looks), ["O evicting pod shop/a", "O pod/a evicted from shop namespace"]);
}

#[test]
fn a_pod_that_comes_back_under_its_name_is_another_pod() {
    let again = Line { id: PodId { uid: "second".into(), ..pod("a") }, ..line("a", Some(Stage::Evicting)) };
    let looks = vec![look(0, vec![line("a", Some(Stage::Terminating))]), look(1, vec![again])];
    let expected = ["O evicting pod shop/a", "O evicting pod shop/a", "O pod/a evicted from shop namespace"];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn what_somebody_else_deletes_is_not_said_to_be_evicted() {
    let ending = || vec![Line { tries: 0, ..line("a", Some(Stage::Terminating)) }];
    let looks = vec![look(0, ending()), look(1, ending()), look(2, Vec::new())];
    let expected = ["E pod shop/a is being deleted already: waiting for its end", "E pod shop/a is gone"];
    assert_eq!(printed(plain(), looks), expected);
    // With a shorter grace it is asked for.
    let asked = vec![line("a", Some(Stage::Evicting))];
    let looks = vec![look(0, ending()), look(1, asked), look(2, Vec::new())];
    let expected = [expected[0], "O evicting pod shop/a", "O pod/a evicted from shop namespace"];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn a_pod_that_is_not_waited_for_any_longer_is_said() {
    let left = Line { verdict: Verdict::Leave, reasons: vec![Reason::TerminatingTooLong], ..line("a", None) };
    let looks = vec![
        look(0, vec![line("a", Some(Stage::Terminating))]),
        look(1, vec![left.clone()]),
        look(2, vec![left]),
    ];
    let expected = ["O evicting pod shop/a", "E pod \"a\" is terminating for too long, skipping"];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn a_deletion_is_called_one() {
    let a = || vec![line("a", Some(Stage::Evicting))];
    let looks = vec![Look { by: vec![("a", DeletionMethod::Deletion)], ..look(0, a()) }, look(1, Vec::new())];
    assert_eq!(printed(plain(), looks), ["O deleting pod shop/a", "O pod/a deleted from shop namespace"]);
    for method in [Method::Delete, Method::ForceDelete] {
        let looks = vec![look(0, a()), look(1, Vec::new())];
        let lines = printed(NodeReporter::new(ReportStyle { method, ..style() }), looks);
        assert_eq!(lines, ["O deleting pod shop/a", "O pod/a deleted from shop namespace"]);
    }
    let looks = vec![
        blocked(0, &[("a", "budget")]),
        Look { by: vec![("a", DeletionMethod::Escalation)], ..look(1, a()) },
        look(2, Vec::new()),
    ];
    let expected = [
        "O evicting pod shop/a",
        "E error when evicting pods shop/a (will retry after 5s): budget",
        "E   hint: fix budget",
        "O deleting pod shop/a: its eviction was refused for too long",
        "O pod/a deleted from shop namespace",
    ];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn what_blocks_is_told_at_first_when_it_changes_and_once_a_minute() {
    let looks = vec![
        blocked(0, &[("a", "budget has 1"), ("b", "budget has 1")]),
        look(1, vec![line("a", Some(Stage::Evicting)), line("b", Some(Stage::Evicting))]),
        blocked(5, &[("a", "budget has 2"), ("b", "webhook")]),
        blocked(59, &[("a", "budget has 2"), ("b", "webhook")]),
        blocked(60, &[("a", "budget has 2"), ("b", "webhook")]),
        blocked(64, &[("a", "budget has 2"), ("b", "webhook")]),
        blocked(65, &[("a", "budget has 2"), ("b", "webhook")]),
    ];
    let expected = [
        "O evicting pod shop/a",
        "O evicting pod shop/b",
        "E error when evicting pods shop/a, shop/b (will retry after 5s): budget has 1",
        "E   hint: fix budget has 1",
        "E error when evicting pods shop/b (will retry after 5s): webhook",
        "E   hint: fix webhook",
        "E still waiting for pods shop/a, for 1m00s: budget has 2",
        "E   hint: fix budget has 2",
        "E still waiting for pods shop/b, for 1m05s: webhook",
        "E   hint: fix webhook",
    ];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn where_bars_keep_it_in_sight_nothing_is_repeated() {
    let looks = vec![blocked(0, &[("a", "budget")]), blocked(600, &[("a", "budget")])];
    let lines = printed(NodeReporter::new(ReportStyle { reminds: false, ..style() }), looks);
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn warnings_are_told_when_a_pod_is_new_or_judged_anew() {
    let stays = Line { verdict: Verdict::Leave, reasons: vec![Reason::DaemonSet], ..line("ds", None) };
    let bare = |name| Line { reasons: vec![Reason::NoController], ..line(name, Some(Stage::Waiting)) };
    let looks = vec![
        look(0, vec![bare("a"), stays.clone()]),
        look(1, vec![bare("a"), stays.clone()]),
        look(2, vec![bare("a"), bare("b"), stays]),
        look(3, vec![bare("a"), bare("b")]),
    ];
    let expected = [
        "E Warning: deleting Pods that declare no controller: shop/a; ignoring DaemonSet-managed Pods: shop/ds",
        "E Warning: deleting Pods that declare no controller: shop/b",
    ];
    let mut reporter = plain();
    let lines: Vec<Print> = looks.into_iter().flat_map(|look| reporter.see(&view(look))).collect();
    assert_eq!(lines, expected.map(|text| Print::Err(text[2..].to_owned())));
    assert_eq!(reporter.warnings().len(), 3);
    let gone: Vec<_> = reporter.pods().iter().map(|pod| (pod.line.id.name.as_str(), pod.is_gone)).collect();
    assert_eq!(gone, [("a", false), ("b", false), ("ds", true)]);
}

#[test]
fn a_pod_that_ends_by_itself_is_not_evicted() {
    let awaited = |stage| Line { verdict: Verdict::Await, ..line("job", Some(stage)) };
    let looks = vec![
        look(0, vec![awaited(Stage::Awaiting)]),
        look(1, vec![awaited(Stage::Awaiting)]),
        look(2, Vec::new()),
    ];
    let expected =
        ["E waiting for pod shop/job to finish by itself", "E pod shop/job has finished and is gone"];
    assert_eq!(printed(plain(), looks), expected);
}

#[test]
fn nobody_was_evicted_from_a_node_that_is_gone() {
    let mut reporter = plain();
    reporter.see(&view(look(0, vec![line("a", Some(Stage::Waiting))])));
    let gone = NodeDrainView { is_node_gone: true, ..view(look(1, Vec::new())) };
    assert_eq!(reporter.see(&gone), []);
    assert!(reporter.pods()[0].is_gone);
}

#[test]
fn verbose_tells_each_stage() {
    let paused = Stage::Paused { text: "busy".into(), next: Moment::NEVER };
    let looks = vec![
        look(0, vec![line("a", Some(Stage::Waiting))]),
        look(1, vec![Line { detail: "busy".into(), ..line("a", Some(paused)) }]),
        look(2, vec![line("a", Some(Stage::Terminating))]),
    ];
    let expected = [
        "E   shop/a: Waiting",
        "O evicting pod shop/a",
        "E   shop/a: Paused: busy",
        "E error when evicting pods shop/a (will retry after 5s): busy",
        "E   shop/a: Terminating",
    ];
    assert_eq!(printed(NodeReporter::new(ReportStyle { is_verbose: true, ..style() }), looks), expected);
}

#[test]
fn volumes_are_told_when_nothing_else_is_left() {
    let volume = |stage, detail: &str| VolumeLine {
        volume: "pv-1".into(),
        driver: "csi.bench".into(),
        claim: "shop/data-db-0".into(),
        pod: pod("db-0"),
        stage,
        since: Moment(0),
        detail: detail.into(),
    };
    let at = |volumes| NodeDrainView {
        progress: Progress { total: 1, gone: 1, volumes: 1, ..Progress::default() },
        volumes,
        ..NodeDrainView::default()
    };
    let mut reporter = plain();
    let mut lines = Vec::new();
    for view in [
        at(vec![volume("Detaching", "")]),
        at(vec![volume("Detaching", "")]),
        at(vec![volume("DetachTimedOut", "the kubelet has it mounted")]),
        at(vec![volume("DetachTimedOut", "the kubelet has it mounted")]),
        at(vec![volume("Attaching", "")]),
        at(vec![volume("NotAttachedElsewhere", "")]),
    ] {
        lines.extend(reporter.see(&view));
    }
    let expected = [
        "all pods are gone; waiting for their volumes to be detached: pv-1 (shop/data-db-0)",
        "Warning: volume pv-1 (shop/data-db-0) is not detached from the node: the kubelet has it mounted",
        "Warning: volume pv-1 (shop/data-db-0) has not been attached to another node in time",
    ];
    assert_eq!(lines, expected.map(|text| Print::Err(text.to_owned())));
}

#[test]
fn an_api_server_that_is_away_is_told_once() {
    let mut reporter = plain();
    let away = |since| NodeDrainView { away_since: since, ..NodeDrainView::default() };
    let lines: Vec<_> = [None, Some(Moment(1)), Some(Moment(1)), None, None]
        .into_iter()
        .flat_map(|since| reporter.see(&away(since)))
        .collect();
    let expected = [
        "error: the API server does not answer; the drain goes on when it does",
        "the API server answers again",
    ];
    assert_eq!(lines, expected.map(|text| Print::Err(text.to_owned())));
}
