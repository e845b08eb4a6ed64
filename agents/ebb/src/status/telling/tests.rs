//! The screens of `ebb status`.

use schemas::{Budget, NodeDrainStatus, Progress, RequestLine, agent};

use super::*;

fn now() -> Timestamp {
    "2026-11-21T14:05:00Z".parse().unwrap()
}

fn seen(status: DrainStatus) -> Seen {
    let report = NodeDrainReport {
        node: "edge-a".into(),
        member: Member::Yes,
        since: "2026-11-21T14:03:30Z".parse().unwrap(),
        reason: "nobody asks for a drain".into(),
        ..NodeDrainReport::default()
    };
    let agents = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR];
    let agent = |name| AgentSeen { name, running: name != agent::BASEOSMGR, pid: Some(7) };
    Seen {
        status: Some(NodeDrainStatus { status, ..NodeDrainStatus::default() }),
        report: Some(report),
        agents: agents.into_iter().map(agent).collect(),
        ..Seen::default()
    }
}

#[test]
fn a_node_in_service() {
    insta::assert_snapshot!(tell(&seen(DrainStatus::NotRequested), now()));
}

#[test]
fn a_node_that_never_ran_zedkube() {
    insta::assert_snapshot!(tell(&Seen::default(), now()));
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
    insta::assert_snapshot!(tell(&seen, now()));
}

#[test]
fn every_status_has_words() {
    let texts: Vec<String> = DrainStatus::ALL.into_iter().map(|status| tell(&seen(status), now())).collect();
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
