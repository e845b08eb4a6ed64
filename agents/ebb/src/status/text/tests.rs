//! The screens of `ebb status`.

use schemas::{Budget, DrainRequester, NodeDrainStatus, Omitted, PodLine, Progress, RequestLine, agent};

use super::*;

fn now() -> Timestamp {
    "2026-11-21T14:05:00Z".parse().unwrap()
}

fn seen(status: DrainStatus) -> StatusView {
    let report = NodeDrainReport {
        node: "edge-a".into(),
        member: Member::Yes,
        since: "2026-11-21T14:03:30Z".parse().unwrap(),
        reason: "nobody asks for a drain".into(),
        ..NodeDrainReport::default()
    };
    let agents = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR];
    let agent =
        |name| AgentSeen { name, running: name != agent::BASEOSMGR, pid: Some(7), silent_seconds: Some(12) };
    StatusView {
        status: Some(NodeDrainStatus { status, ..NodeDrainStatus::default() }),
        report: Some(report),
        agents: agents.into_iter().map(agent).collect(),
        ..StatusView::default()
    }
}

#[test]
fn a_node_in_service() {
    insta::assert_snapshot!(render(&seen(DrainStatus::NotRequested), now()));
}

/// Regression: a hanging zedkube was shown as `in service` and `zedkube runs`.
#[test]
fn an_agent_that_hangs_heads_the_screen() {
    let mut seen = seen(DrainStatus::NotRequested);
    seen.agents[0].silent_seconds = Some(44);
    assert!(!render(&seen, now()).contains("HANGS"));
    seen.agents[0].silent_seconds = Some(720);
    let text = render(&seen, now());
    assert!(
        text.starts_with("zedkube HANGS: its touch file is 12 min old, and should be 25 s at most"),
        "{text}"
    );
    assert!(text.contains("Agents: zedkube HANGS (7), device-op runs (7), "), "{text}");
}

#[test]
fn nobody_vouches_for_an_answer_of_a_zedkube_that_does_not_work() {
    let mut seen = seen(DrainStatus::Complete);
    seen.report.as_mut().unwrap().outcome = Some(Outcome::Drained);
    for (running, silent, is_kept) in [(true, 12, true), (true, 98, false), (false, 12, false)] {
        seen.agents[0].running = running;
        seen.agents[0].silent_seconds = Some(silent);
        assert_eq!(render(&seen, now()).contains("may go down"), is_kept, "{running} {silent}");
    }
}

#[test]
fn a_node_that_never_ran_zedkube() {
    insta::assert_snapshot!(render(&StatusView::default(), now()));
}

#[test]
fn a_blocked_drain_says_by_whom_and_what_to_do() {
    let mut seen = seen(DrainStatus::Cordoned);
    let report = seen.report.as_mut().unwrap();
    report.reason = "attempt 1: 7 of 10 pods have left, 1 blocked".into();
    report.hint = "see Blocked in the report: each entry names what holds the pod and what to do".into();
    report.requests = vec![RequestLine {
        publisher: "zedagent".into(),
        context: "reboot".into(),
        ..RequestLine::default()
    }];
    report.progress = Progress { total: 10, gone: 7, terminating: 2, blocked: 1, waiting: 0, left: 3 };
    let budget = Budget { name: "db".into(), current_healthy: 2, desired_healthy: 2, ..Budget::default() };
    report.blocked = vec![Blocked {
        pod: "shop/db-0".into(),
        cause: "PodDisruptionBudget: The disruption budget db needs 2 healthy pods and has 2 currently"
            .into(),
        budgets: vec![budget],
        hint: "budget shop/db never allows a disruption: scale the workload up, or change the budget".into(),
        ..Blocked::default()
    }];
    seen.device_op = Some(DeviceOpStatus {
        operation: Some(Operation::Reboot),
        counter: 8,
        state: DeviceOpState::Deferred,
        blocked_by: "the node is being drained".into(),
        ..DeviceOpStatus::default()
    });
    insta::assert_snapshot!(render(&seen, now()));
}

/// An operator reads who goes down with the node before it does.
#[test]
fn pods_that_a_forced_node_takes_along_are_named() {
    let mut seen = seen(DrainStatus::Complete);
    let report = seen.report.as_mut().unwrap();
    report.outcome = Some(Outcome::Forced);
    let pod = |number: usize, verdict: &str, stage: &str| PodLine {
        namespace: "shop".into(),
        name: format!("db-{number}"),
        verdict: verdict.into(),
        stage: stage.into(),
        ..PodLine::default()
    };
    report.pods = vec![pod(0, "Leave", "Stays"), pod(1, "Evict", "LeftBehind")];
    let text = render(&seen, now());
    assert!(text.contains("\n  left:  1 pods are left on it: shop/db-1\n"), "{text}");

    seen.report.as_mut().unwrap().pods = vec![pod(0, "Leave", "Stays"), pod(1, "Evict", "Evicting")];
    assert!(!render(&seen, now()).contains("left:"));
}

#[test]
fn a_command_that_is_only_recorded_is_shown_beside_none_that_is_pending() {
    let blocked_by = "shutdown 9 of controller: only recorded".to_owned();
    let status = DeviceOpStatus { blocked_by, ..DeviceOpStatus::default() };
    let expected = "Operation: none is pending; shutdown 9 of controller: only recorded";
    assert_eq!(device_op(&status).as_deref(), Some(expected));
    assert_eq!(device_op(&DeviceOpStatus::default()), None);
}

fn setting(path: &str, key: &str) -> RefusedInput {
    let reason = format!(
        "{path}: {key} = 0 is not accepted; accepted: a number from 1 to 100; in effect: 5 (default)"
    );
    RefusedInput { path: path.into(), reason }
}

#[test]
fn what_was_switched_off_or_refused_comes_first() {
    let mut seen = seen(DrainStatus::NotSupported);
    let report = seen.report.as_mut().unwrap();
    report.reason = "an operator has switched drains off".into();
    report.disabled =
        Some(Disabled { since: "2026-11-21T14:03:00Z".parse().unwrap(), by: "alice: dead disk".into() });
    report.refused = vec![
        setting("/etc/ebb/ebb.toml:3", "drain.attempts"),
        RefusedInput {
            path: "/run/ebb/NodeDrainRequest/global.json".into(),
            reason: "RequestedBy is 0 unset; accepted: 1 NONE in the folder of ebb".into(),
        },
    ];
    seen.refused = vec!["/run/zedagent/DeviceOpStatus/global.json: not JSON; accepted: a JSON object".into()];
    insta::assert_snapshot!(render(&seen, now()));
}

#[test]
fn many_refused_files_do_not_hide_the_rest() {
    for (listed, omitted, shown, last) in
        [(10, 0, 10, None), (11, 0, 11, Some("Refused: 1 more, ")), (12, 5, 11, Some("Refused: 7 more, "))]
    {
        let mut seen = seen(DrainStatus::NotRequested);
        let report = seen.report.as_mut().unwrap();
        report.refused = (0..listed).map(|line| setting(&format!("/e:{line}"), "drain.attempts")).collect();
        report.omitted = Omitted { refused: omitted, ..Omitted::default() };
        let text = render(&seen, now());
        let lines: Vec<&str> = text.lines().take_while(|line| line.starts_with("Refused: ")).collect();
        assert_eq!(lines.len(), shown, "{text}");
        assert!(last.is_none_or(|last| lines.last().is_some_and(|line| line.starts_with(last))), "{text}");
        assert!(text.contains("\nNode edge-a: in service"), "{text}");
    }
}

#[test]
fn an_override_that_waits_is_shown() {
    let mut seen = seen(DrainStatus::Complete);
    let report = seen.report.as_mut().unwrap();
    report.outcome = Some(Outcome::Forced);
    report.reason = "forced by an operator".into();
    report.forcing = Some(Forcing {
        requested_by: DrainRequester::DeviceOp,
        since: "2026-11-21T14:04:00Z".parse().unwrap(),
        until: "2026-11-21T14:14:00Z".parse().unwrap(),
        by: "alice: dead disk".into(),
    });
    insta::assert_snapshot!(render(&seen, now()));
}

#[test]
fn an_order_that_had_nothing_to_do_is_shown() {
    let mut seen = seen(DrainStatus::Complete);
    seen.report.as_mut().unwrap().spent_order = Some(SpentOrder {
        text: "nothing to force: already COMPLETE (Drained)".into(),
        by: "alice: dead disk".into(),
        ..SpentOrder::default()
    });
    let line = "\n  force: nothing to force: already COMPLETE (Drained) (by alice: dead disk)\n";
    let text = render(&seen, now());
    assert!(text.contains(line), "{text}");
}

#[test]
fn slots_in_words() {
    let since = "2026-11-21T14:00:00Z";
    let many = ["a", "b", "c", "d", "e", "f", "g"];
    let cases: [(bool, Option<&str>, &[&str], Option<&str>); 7] = [
        (false, None, &[], None),
        (false, None, &["edge-b"], None),
        (true, None, &["edge-a"], Some("  slot:  this node has one")),
        (true, None, &["edge-b", "edge-a"], Some("  slot:  this node has one, and so has edge-b")),
        (false, Some(since), &[], Some("  slot:  waiting since 2026-11-21T14:00:00Z, 5 min ago")),
        (
            false,
            Some(since),
            &["edge-b"],
            Some("  slot:  waiting since 2026-11-21T14:00:00Z, 5 min ago; taken by edge-b"),
        ),
        (
            false,
            Some(since),
            &many,
            Some("  slot:  waiting since 2026-11-21T14:00:00Z, 5 min ago; taken by a, b, c, d, e and 2 more"),
        ),
    ];
    for (held, waiting, holders, expected) in cases {
        let waiting_since = waiting.map(|since| since.parse().unwrap()).unwrap_or_default();
        let holders = holders.iter().map(|&name| name.to_owned()).collect();
        let said = slot(&Slot { held, waiting_since, holders, ..Slot::default() }, "edge-a", now());
        assert_eq!(said.as_deref(), expected);
    }
    for (held, expected) in [(true, "is that node still yours?"), (false, "its own was taken over by edge-c")]
    {
        let waiting_since = since.parse().unwrap();
        let passed_over_by = vec!["edge-c".to_owned()];
        let said = slot(&Slot { held, waiting_since, passed_over_by, ..Slot::default() }, "edge-a", now());
        assert!(said.is_some_and(|said| said.contains("edge-c") && said.ends_with(expected)));
    }
}

#[test]
fn every_status_has_words() {
    let texts: Vec<String> =
        DrainStatus::ALL.into_iter().map(|status| render(&seen(status), now())).collect();
    let first_lines: Vec<&str> = texts.iter().filter_map(|text| text.lines().next()).collect();
    insta::assert_snapshot!(first_lines.join("\n"));
}

#[test]
fn ages_are_readable() {
    for (time, expected) in [
        ("2026-11-21T14:04:59Z", "2026-11-21T14:04:59Z, 1 s ago"),
        ("2026-11-21T14:00:00Z", "2026-11-21T14:00:00Z, 5 min ago"),
        ("2026-11-21T04:05:00Z", "2026-11-21T04:05:00Z, 10 h ago"),
        ("2026-11-21T15:00:00Z", "2026-11-21T15:00:00Z"),
        ("0001-01-01T00:00:00Z", "the start"),
    ] {
        assert_eq!(since(time.parse().unwrap(), now()), expected);
    }
}

#[test]
fn what_the_next_drain_would_stumble_over_heads_the_screen() {
    let mut seen = seen(DrainStatus::NotRequested);
    let problem = |what: &str, text: &str, hint: &str| PreflightProblem {
        what: what.into(),
        text: text.into(),
        hint: hint.into(),
    };
    let rights = problem("Rights", "zedkube's user may not: patch nodes edge-a", "grant it");
    let more =
        problem("Confinement", "this cluster does not confine nodes", "use this node's own credentials");
    let problems = std::iter::once(rights).chain(std::iter::repeat_n(more, MOST_PROBLEMS)).collect();
    seen.report.as_mut().unwrap().preflight = Some(Preflight { problems, ..Preflight::default() });
    let text = render(&seen, now());
    assert!(
        text.starts_with("CHECK Rights: zedkube's user may not: patch nodes edge-a\n  do:    grant it\n"),
        "{text}"
    );
    assert_eq!(text.matches("CHECK ").count(), MOST_PROBLEMS, "{text}");
    assert!(text.contains("and 1 more (ebb status --json)\nNode edge-a: in service"), "{text}");
}
