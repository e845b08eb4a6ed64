use drain::diagnosis::{BlockedBy, Guard};
use drain::state::Cause;
use drain::stuck_pods::stuck_pods;

use super::*;
use crate::drain::testing::{line, pod};

fn stuck_pod(name: &str, kind: StuckKind, cause: &str, hint: &str) -> StuckPod {
    StuckPod {
        pod: pod(name),
        kind,
        cause: cause.to_owned(),
        hint: hint.to_owned(),
        since: Moment(0),
        next: None,
    }
}

fn texts(prints: Vec<Print>) -> Vec<String> {
    let text = |print| match print {
        Print::Err(text) => text,
        Print::Out(text) => panic!("trouble is for people: {text}"),
    };
    prints.into_iter().map(text).collect()
}

#[test]
fn pods_with_the_same_trouble_share_a_line() {
    let stuck_pods = [
        stuck_pod("a", StuckKind::Refused, "budget db", "scale up"),
        stuck_pod("b", StuckKind::Failed, "forbidden", ""),
        stuck_pod("c", StuckKind::Refused, "budget db", "scale up"),
        stuck_pod("d", StuckKind::Refused, "budget web", "scale up"),
        stuck_pod("e", StuckKind::Stuck, "held by finalizers x", "look at x"),
    ];
    let expected = [
        "error when evicting pods shop/a, shop/c (will retry after 5s): budget db",
        "  hint: scale up",
        "error when evicting pods shop/b: forbidden",
        "error when evicting pods shop/d (will retry after 5s): budget web",
        "  hint: scale up",
        "error when waiting for pods shop/e to terminate: held by finalizers x",
        "  hint: look at x",
    ];
    assert_eq!(texts(problem_lines(&stuck_pods, Moment(0), Duration::from_secs(5))), expected);
    let again = texts(reminder_lines(&stuck_pods[..1], Moment(65_000)));
    assert_eq!(again, ["still waiting for pods shop/a, for 1m05s: budget db", "  hint: scale up"]);
}

#[test]
fn a_pod_that_comes_back_is_no_error_of_its_eviction() {
    for stage in [Stage::Blocked { cause: Cause::Returns { times: 3 }, next: Moment::NEVER }, Stage::Waiting]
    {
        let blocked = Blocked {
            pod: pod("a"),
            cause: "ReturnsToNode: why".into(),
            holder: "StatefulSet/db".into(),
            by: BlockedBy::Recreated,
            ..Blocked::default()
        };
        let lines = vec![line("a", Some(stage.clone()))];
        let view = NodeDrainView { lines, blocked: vec![blocked], ..NodeDrainView::default() };
        let expected = ["pods shop/a have come back: ReturnsToNode: why"];
        assert_eq!(
            texts(problem_lines(&stuck_pods(&view.lines, &view.blocked), Moment(0), Duration::from_secs(5))),
            expected,
            "{stage:?}"
        );
    }
}

#[test]
fn the_pause_that_is_told_is_the_real_one() {
    for (next, expected) in [
        (None, "5s"),
        (Some(4_990), "5s"),
        (Some(6_200), "5s"),
        (Some(60_000), "60s"),
        (Some(640), "600ms"),
        (Some(0), "100ms"),
        (Some(20_700), "20s"),
    ] {
        let stuck_pod = StuckPod {
            next: next.map(|millis| Moment(1_000 + millis)),
            ..stuck_pod("a", StuckKind::Refused, "busy", "")
        };
        let expected = format!("error when evicting pods shop/a (will retry after {expected}): busy");
        assert_eq!(
            texts(problem_lines(&[stuck_pod], Moment(1_000), Duration::from_secs(5))),
            [expected],
            "{next:?}"
        );
    }
    let stage = Stage::Paused { text: "busy".into(), next: Moment(7) };
    let view = NodeDrainView { lines: vec![line("a", Some(stage))], ..NodeDrainView::default() };
    assert_eq!(stuck_pods(&view.lines, &view.blocked).remove(0).next, Some(Moment(7)));
}

#[test]
fn many_names_are_cut() {
    let pods: Vec<PodId> = (0..13).map(|number| pod(&format!("p{number:02}"))).collect();
    let pods: Vec<&PodId> = pods.iter().collect();
    assert_eq!(names(&pods[..2], 10), "shop/p00, shop/p01");
    assert!(names(&pods, 10).ends_with("shop/p09 and 3 more"), "{}", names(&pods, 10));
}

#[test]
fn numbers_that_count_on_make_no_new_trouble() {
    let sign = |cause: &str, kind| stuck_pod("a", kind, cause, "").sign();
    let first = sign("still terminating 31 s after its time", StuckKind::Stuck);
    assert_eq!(first, sign("still terminating 145 s after its time", StuckKind::Stuck));
    assert_ne!(first, sign("held by finalizers x", StuckKind::Stuck));
    assert_ne!(first, sign("still terminating 31 s after its time", StuckKind::Refused));
}

#[test]
fn what_is_in_the_way_of_each_stage() {
    let next = Moment::NEVER;
    let text = || "busy".to_owned();
    let refused = || Stage::Blocked { cause: Cause::TwoBudgets, next };
    let cases = [
        (Stage::Waiting, false, None),
        (Stage::Waiting, true, Some(StuckKind::Refused)),
        (Stage::Evicting, false, None),
        (refused(), true, Some(StuckKind::Refused)),
        (Stage::Paused { text: text(), next }, false, Some(StuckKind::Refused)),
        (Stage::Accepted, false, None),
        (Stage::Terminating, false, None),
        (Stage::Terminating, true, Some(StuckKind::Stuck)),
        (Stage::Failed { text: text() }, true, Some(StuckKind::Failed)),
        // Ends the drain at once, which says why.
        (Stage::Refused, true, None),
    ];
    for (stage, is_blocked, expected) in cases {
        let blocked = Blocked { pod: pod("a"), cause: "why".into(), ..Blocked::default() };
        let view = NodeDrainView {
            lines: vec![line("a", Some(stage.clone()))],
            blocked: if is_blocked { vec![blocked] } else { Vec::new() },
            ..NodeDrainView::default()
        };
        assert_eq!(
            stuck_pods(&view.lines, &view.blocked).first().map(|stuck_pod| stuck_pod.kind),
            expected,
            "{stage:?}"
        );
    }
}

#[test]
fn who_is_behind_it_is_named() {
    let blocked = Blocked {
        pod: pod("a"),
        cause: "budget db".into(),
        budgets: vec![Guard::default()],
        holder: "a migration".into(),
        hint: "wait".into(),
        since: Moment(7),
        ..Blocked::default()
    };
    let stage = Stage::Blocked { cause: Cause::TwoBudgets, next: Moment::NEVER };
    let view = NodeDrainView {
        lines: vec![line("a", Some(stage))],
        blocked: vec![blocked],
        ..NodeDrainView::default()
    };
    let expected = StuckPod {
        since: Moment(7),
        ..stuck_pod("a", StuckKind::Refused, "budget db; behind it is a migration", "wait")
    };
    assert_eq!(stuck_pods(&view.lines, &view.blocked), [expected]);
}

#[test]
fn spans_are_readable() {
    for (seconds, expected) in [
        (0, "0s"),
        (59, "59s"),
        (60, "1m00s"),
        (125, "2m05s"),
        (3_599, "59m59s"),
        (3_600, "1h00m"),
        (93_784, "26h03m"),
    ] {
        assert_eq!(span(Duration::from_secs(seconds)), expected);
    }
}
