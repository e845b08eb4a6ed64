use std::collections::BTreeSet;

use schemas::{
    Blocker, DeviceOpStatus, NodeDrainStatus, Preflight, PreflightProblem, Progress, Slot, WindowStatus,
};

use super::*;
use crate::status::AgentSeen;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A drain that waits for a budget, while the API server is away.
fn blocked() -> Known {
    let agent = |agent: Agent, silent| AgentSeen {
        name: agent.wire_name(),
        running: true,
        pid: Some(7),
        silent_seconds: Some(silent),
    };
    let blocker = |by: &str, pods| Blocker { by: by.to_owned(), pods, ..Blocker::default() };
    let problem = |what: &str| PreflightProblem { what: what.to_owned(), ..PreflightProblem::default() };
    let report = NodeDrainReport {
        held_by: Some(HeldBy::Pods),
        progress: Progress { total: 9, gone: 2, terminating: 1, blocked: 5, waiting: 1, left: 7 },
        blockers: vec![blocker("Budget", 3), blocker("Budget", 1), blocker("Webhook", 1)],
        eviction_answers: [("Accepted".to_owned(), 3), ("Budget".to_owned(), 40)].into(),
        api_away_since: at("2026-11-29T20:00:00Z").into(),
        slot: Slot { held: true, ..Slot::default() },
        preflight: Some(Preflight {
            problems: ["Rights", "Confinement"].map(problem).into(),
            ..Preflight::default()
        }),
        ..NodeDrainReport::default()
    };
    let window = WindowStatus {
        state: WindowState::Closed,
        changes_at: at("2026-12-05T01:00:00Z").into(),
        sources: BTreeSet::new(),
        reason: String::new(),
    };
    let status = NodeDrainStatus { status: DrainStatus::Cordoned, ..NodeDrainStatus::default() };
    let mut drains = DrainTotals::default();
    for (id, outcome, took) in
        [("a", Outcome::Drained, 25_500), ("b", Outcome::Drained, 100_000_000), ("c", Outcome::Forced, 1)]
    {
        drains.count(id, outcome, Some(took));
    }
    let mut boots = BootTotals::default();
    boots.count(3, at("2026-11-28T20:00:00Z").into(), UndrainedCause::HoldTimeout);
    Known {
        seen: StatusView {
            status: Some(status),
            report: Some(report),
            device_op: Some(DeviceOpStatus { window: Some(window), ..DeviceOpStatus::default() }),
            agents: vec![agent(Agent::Zedkube, 12), agent(Agent::DeviceOp, 44), agent(Agent::Baseos, 45)],
            ..StatusView::default()
        },
        drains: Some(drains),
        boots: Some(boots),
    }
}

fn text(known: &Known) -> String {
    known.text(at("2026-11-29T20:00:42.5Z")).unwrap()
}

#[test]
fn a_drain_that_waits_for_a_budget() {
    insta::assert_snapshot!(text(&blocked()));
}

/// The names in a text, each with its type.
fn names(text: &str) -> BTreeSet<(String, String)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

type Change = fn(&mut Known);

/// What nobody knows is left out, not zero.
#[test]
fn what_is_not_known_is_left_out() {
    let all = names(&text(&blocked()));
    let of_zedkube = [
        "ebb_drain_state",
        "ebb_held",
        "ebb_pods",
        "ebb_blocked_pods",
        "ebb_eviction_answers_total",
        "ebb_api_unreachable_seconds",
        "ebb_slot_held",
        "ebb_preflight_problems",
    ];
    let cases: [(Change, &[&str]); 6] = [
        (|known| known.seen.report = None, &of_zedkube),
        (|known| known.seen.agents[0].running = false, &of_zedkube),
        (|known| known.seen.agents[0].silent_seconds = Some(45), &of_zedkube),
        (|known| known.seen.agents[1].running = false, &["ebb_window_opens_timestamp_seconds"]),
        (|known| known.drains = None, &["ebb_drains_total", "ebb_drain_seconds"]),
        (|known| known.boots = None, &["ebb_undrained_total"]),
    ];
    for (change, expected) in cases {
        let mut known = blocked();
        change(&mut known);
        let left = names(&text(&known));
        let missing: BTreeSet<&str> = all.difference(&left).map(|(name, _)| name.as_str()).collect();
        assert_eq!(missing, expected.iter().copied().collect());
    }
    let mut over = blocked();
    over.seen.status =
        Some(NodeDrainStatus { status: DrainStatus::FailedDrain, ..NodeDrainStatus::default() });
    let over = text(&over);
    assert!(over.contains("{stage=\"blocked\"} 0") && over.contains("{cause=\"Budget\"} 0"), "{over}");
    let mut spoilt = blocked();
    spoilt.drains.as_mut().unwrap().took = vec![u64::MAX; 30];
    assert!(text(&spoilt).contains("ebb_drain_seconds_count 18446744073709552000"), "no overflow");
    assert!(text(&Known::default()).contains("ebb_build_info"), "before the first start");
}

/// Texts of others do not get into the file, whatever they are.
#[test]
fn hostile_texts_change_nothing() {
    let expected = text(&blocked());
    for hostile in ["\" 1\nebb_evil 1\n#", "\u{1b}[2J\u{202e}", "<script>", &"x".repeat(10_000), "\\\"{}"] {
        let mut known = blocked();
        let report = known.seen.report.as_mut().unwrap();
        for field in [&mut report.node, &mut report.reason, &mut report.hint, &mut report.phase] {
            hostile.clone_into(field);
        }
        report.eviction_answers.insert(hostile.to_owned(), 7);
        report.blockers.push(Blocker { by: hostile.to_owned(), pods: 7, ..Blocker::default() });
        known.drains.as_mut().unwrap().drains.insert(hostile.to_owned(), 7);
        known.boots.as_mut().unwrap().undrained.insert(hostile.to_owned(), 7);
        assert_eq!(text(&known), expected);
    }
}

/// The table of docs/operations/metrics.md names every metric with its type, and no other.
#[test]
fn the_page_has_every_metric() {
    let page = include_str!("../../../../docs/operations/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `ebb_"));
    let told = rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_end_matches('`'));
        let name = cells.next().unwrap().split(['{', '`']).next().unwrap();
        (format!("ebb_{name}"), cells.next().unwrap().to_owned())
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), names(&text(&blocked())));
}
