//! The screens of `ebb status`, one for each situation that an operator may meet.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemas::{
    Blocker, CommandFreeze, Disabled, DrainRequester, GoTime, HeldBy, NodeDrainStatus, Omitted, Preflight,
    PreflightProblem, Progress, RefusedInput, RequestLine, Source, StandingOrder, agent,
};

use super::*;
use crate::history::Ending;
use crate::status::head::{Code, code, troubles};

fn at(time: &str) -> GoTime {
    format!("2026-11-21T{time}Z").parse().unwrap()
}

fn clock() -> Clock {
    Clock::new("2026-11-21T14:05:00Z".parse::<Timestamp>().unwrap(), TimeZone::UTC)
}

fn seen(status: DrainStatus) -> StatusView {
    let report = NodeDrainReport {
        node: "edge-a".into(),
        member: Member::Yes,
        since: at("14:03:30"),
        reason: "nobody asks for a drain".into(),
        ..NodeDrainReport::default()
    };
    let agents = [agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR];
    let agent = |name| AgentSeen { name, running: true, pid: Some(7), silent_seconds: Some(12) };
    StatusView {
        status: Some(NodeDrainStatus { status, ..NodeDrainStatus::default() }),
        report: Some(report),
        agents: agents.into_iter().map(agent).collect(),
        ..StatusView::default()
    }
}

/// The screen of a terminal of that size, and the exit code.
fn screen_of(seen: &StatusView, rows: Option<usize>, columns: usize) -> (String, Code) {
    let clock = clock();
    let troubles = troubles(seen, &clock, rows.is_none());
    let code = code(seen, &troubles);
    let page = render(seen, troubles, &clock, Page::new(rows, columns), rows.is_none());
    (page.lines("ebb status --pods").join("\n") + "\n", code)
}

fn screen(seen: &StatusView) -> String {
    screen_of(seen, Some(24), 80).0
}

/// A reboot that waits, or has failed.
fn reboot(state: DeviceOpState, blocked_by: &str) -> DeviceOpStatus {
    DeviceOpStatus {
        operation: Some(Operation::Reboot),
        counter: 8,
        source: Source::Person,
        by: "alice".into(),
        reason: "fan swap".into(),
        state,
        blocked_by: blocked_by.into(),
        ..DeviceOpStatus::default()
    }
}

/// A drain for that reboot.
fn draining(phase: &str, status: DrainStatus, reason: &str) -> StatusView {
    let mut seen = seen(status);
    let report = seen.report.as_mut().unwrap();
    (report.phase, report.reason, report.drain_attempt) = (phase.into(), reason.into(), 1);
    report.requests = vec![RequestLine {
        publisher: "zedagent".into(),
        context: "reboot".into(),
        ..RequestLine::default()
    }];
    if phase == "Attempting" {
        report.cordoned = true;
        report.slot.held = true;
        report.progress = Progress { total: 31, gone: 28, terminating: 0, blocked: 3, waiting: 0, left: 3 };
        report.deadline = "2026-11-22T14:03:30Z".parse().unwrap();
    }
    seen.device_op = Some(reboot(DeviceOpState::Deferred, reason));
    seen
}

fn held(mut seen: StatusView, by: HeldBy, hint: &str) -> StatusView {
    let report = seen.report.as_mut().unwrap();
    (report.held_by, report.hint) = (Some(by), hint.into());
    if by == HeldBy::ApiServer {
        report.api_away_since = at("14:01:00");
    }
    seen
}

fn blocker(what: &str, hint: &str, pods: u32) -> Blocker {
    let named = pods.min(3);
    let examples = (1..=named).map(|number| format!("shop/db-79fd6c8b74-92cg{number}")).collect();
    Blocker { what: what.into(), hint: hint.into(), pods, examples, ..Blocker::default() }
}

const BUDGET: &str = "budget shop/guarded: 3 of 3 healthy, needs 3";
const BUDGET_HINT: &str = "budget shop/guarded never allows a disruption: scale StatefulSet/db up to 4, or change the budget: \
                           kubectl -n shop edit pdb guarded";
const AWAY: &str = "the Kubernetes API server cannot be reached: cannot list nodes: client error (Connect): tcp connect \
                    error: Connection refused (os error 111) (API server 127.0.0.1:6443)";
const LOOK: &str = "look at the API server (k3s) of this node and at the kubeconfig";

fn blocked(blockers: Vec<Blocker>) -> StatusView {
    let reason = "attempt 1: 28 of 31 pods have left, 3 blocked";
    let mut seen = held(draining("Attempting", DrainStatus::Cordoned, reason), HeldBy::Pods, BUDGET_HINT);
    seen.report.as_mut().unwrap().blockers = blockers;
    seen
}

fn undrained(outcome: Outcome) -> StatusView {
    let mut seen = draining("Complete", DrainStatus::Complete, "the reason");
    let report = seen.report.as_mut().unwrap();
    (report.outcome, report.requests[0].answer) = (Some(outcome), DrainStatus::Complete);
    seen.device_op = Some(reboot(DeviceOpState::HandedOver, ""));
    seen.device_action = Some(DeviceAction {
        command: Some(Operation::Reboot),
        counter: 8,
        state: DeviceActionState::Acting,
        ..DeviceAction::default()
    });
    seen
}

fn without(mut seen: StatusView, names: &[&str]) -> StatusView {
    for agent in seen.agents.iter_mut().filter(|agent| names.contains(&agent.name)) {
        (agent.running, agent.pid, agent.silent_seconds) = (false, None, None);
    }
    seen
}

fn with_report(mut seen: StatusView, change: impl FnOnce(&mut NodeDrainReport)) -> StatusView {
    change(seen.report.as_mut().unwrap());
    seen
}

fn problem(what: &str) -> PreflightProblem {
    PreflightProblem {
        what: what.into(),
        text: "zedkube's user may not: patch nodes edge-a".into(),
        hint: "grant it".into(),
    }
}

/// The situations: name, and what the files say.
fn situations() -> impl Iterator<Item = Situation> {
    let all = [
        at_rest(),
        draining_now(),
        before_the_cordon(),
        outages(),
        endings(),
        orders(),
        agents_down(),
        settings(),
    ];
    all.into_iter().flatten()
}

type Situation = (&'static str, StatusView);

fn idle() -> StatusView {
    let last_drain = Told {
        number: 12,
        began_at: at("09:00:00"),
        outcome: Ending::Drained,
        took_millis: Some(150_000),
        pods: 31,
        pods_gone: 31,
        back_millis: Some(95_000),
        ..Told::default()
    };
    StatusView { last_drain: Some(last_drain), ..seen(DrainStatus::NotRequested) }
}

/// Nothing is asked.
fn at_rest() -> Vec<Situation> {
    let loading = BaseOsHold {
        content_tree_uuid: "6ba7b810-9dad-11d1-80b4-000000000002".into(),
        state: BaseOsHoldState::Deferred,
        by: "alice".into(),
        reason: "fan swap".into(),
        blocked_by: "its content is not loaded yet: LOADING (107)".into(),
        release: "volumemgr loads it: ebb topic get volumemgr/ContentTreeStatus".into(),
        ..BaseOsHold::default()
    };
    vec![
        ("idle", idle()),
        ("an image is being loaded", StatusView { base_os: Some(loading), ..idle() }),
        (
            "the node's disk is full",
            with_report(idle(), |report| {
                let disk = PreflightProblem {
                    what: "Node".into(),
                    text: "it has DiskPressure since 2026-11-27T12:03:00Z: kubelet has disk pressure".into(),
                    hint: "kubectl describe node edge-a".into(),
                };
                let problems = vec![disk];
                report.preflight = Some(Preflight { at: at("14:03:00"), problems, ..Preflight::default() });
            }),
        ),
        (
            "in no cluster",
            with_report(seen(DrainStatus::NotSupported), |report| {
                (report.node, report.member) = (String::new(), Member::No);
                report.reason = "no kubeconfig was found, so this device counts as in no cluster: looked at KUBECONFIG, /etc/rancher/k3s/k3s.yaml".into();
                report.hint = "if this machine is in a cluster: set cluster.kubeconfig; until then it goes down WITHOUT a drain".into();
            }),
        ),
        (
            "cordoned by a person",
            with_report(idle(), |report| {
                report.cordoned = true;
                report.reason = "the node is cordoned, not by zedkube, and zedkube leaves it so".into();
                report.hint = "to take pods again: ebb uncordon --force edge-a".into();
            }),
        ),
    ]
}

/// A drain goes on, or is held up.
fn draining_now() -> Vec<Situation> {
    let attempt = || blocked(vec![blocker(BUDGET, BUDGET_HINT, 3)]);
    vec![
        (
            "draining",
            with_report(
                StatusView {
                    took_millis: vec![300_000, 120_000, 90_000],
                    ..draining("Attempting", DrainStatus::Cordoned, "attempt 1: 28 of 31 pods have left")
                },
                |report| {
                    report.started_at = at("14:03:30");
                    report.progress =
                        Progress { total: 31, gone: 28, terminating: 3, blocked: 0, waiting: 0, left: 3 };
                },
            ),
        ),
        ("blocked by a budget", attempt()),
        (
            "blocked by an operator's budget",
            blocked(vec![blocker(
                "budget pg/main: 1 of 1 healthy, needs 1, kept by Cluster main",
                "budget pg/main is kept by Cluster main: it moves its primary by itself; a change of the budget does not last: kubectl -n pg describe cluster.postgresql.cnpg.io main",
                1,
            )]),
        ),
        (
            "blocked by many troubles",
            blocked(
                (0..7)
                    .map(|number| {
                        blocker(&format!("budget shop/b{number}: 3 of 3 healthy, needs 3"), BUDGET_HINT, 9)
                    })
                    .collect(),
            ),
        ),
        (
            "blocked by a volume",
            held(
                draining(
                    "Attempting",
                    DrainStatus::Cordoned,
                    "attempt 1: 31 of 31 pods have left, 1 of their volumes still attached",
                ),
                HeldBy::Volumes,
                "kubectl get volumeattachments: find out why the volume's driver does not detach it from this node",
            ),
        ),
    ]
}

/// A drain waits.
fn before_the_cordon() -> Vec<Situation> {
    let waiting =
        |by, reason: &str, hint: &str| held(draining("Waiting", DrainStatus::Requested, reason), by, hint);
    vec![
        (
            "waiting for a slot",
            waiting(
                HeldBy::Slot,
                "all slots are taken, by nodes that are down or being drained: edge-b",
                "wait for the other nodes; if one of them will not come back: ebb slots release NODE",
            ),
        ),
        (
            "waiting for health.command",
            waiting(
                HeldBy::Health,
                "the site's health command does not pass: exit code 1: replicas degraded",
                "fix what the health command reports, or change health.command",
            ),
        ),
        (
            "going down undrained soon",
            with_report(
                waiting(
                    HeldBy::Peers,
                    "no other node is Ready and schedulable, so the pods have nowhere to go; at the deadline the node counts as complete WITHOUT a drain (setting no-peer)",
                    "uncordon or repair another node, or set no-peer",
                ),
                |report| {
                    report.deadline = at("14:06:30");
                },
            ),
        ),
    ]
}

/// What a drain needs is missing.
fn outages() -> Vec<Situation> {
    let returning = "node edge-a was cordoned for a drain earlier, or still has its slot; that is taken back as soon as the API server answers: ";
    vec![
        (
            "the API server is away, nothing is asked",
            held(
                with_report(idle(), |report| {
                    report.reason = format!("no drain would be possible now: {AWAY}");
                }),
                HeldBy::ApiServer,
                LOOK,
            ),
        ),
        (
            "the API server is away in mid-drain",
            held(
                draining("Attempting", DrainStatus::Cordoned, &format!("attempt 1 waits: {AWAY}")),
                HeldBy::ApiServer,
                LOOK,
            ),
        ),
        (
            "the API server is away after the boot",
            held(
                with_report(idle(), |report| {
                    (report.phase, report.reason) = ("Returning".into(), format!("{returning}{AWAY}"));
                }),
                HeldBy::ApiServer,
                LOOK,
            ),
        ),
        (
            "rights are missing, nothing is asked",
            with_report(idle(), |report| {
                report.preflight = Some(Preflight {
                    at: at("14:03:00"),
                    problems: vec![problem("Rights"), problem("Confinement")],
                    ..Preflight::default()
                });
            }),
        ),
        (
            "no kubeconfig, and a kubelet",
            held(
                with_report(idle(), |report| {
                    report.reason = "no drain would be possible now: a kubelet runs on this machine, and zedkube has no kubeconfig".into();
                }),
                HeldBy::Kubeconfig,
                "give zedkube access (cluster.kubeconfig, /usr/share/ebb/kubernetes)",
            ),
        ),
    ]
}

/// A drain has ended.
fn endings() -> Vec<Situation> {
    let mut failed = with_report(idle(), |report| {
        report.outcome = Some(Outcome::DrainFailed);
        report.blockers = vec![blocker(BUDGET, BUDGET_HINT, 3)];
        report.progress = Progress { total: 3, blocked: 3, left: 3, ..Progress::default() };
    });
    let error = "the drain failed: Failed Drain: 5 attempts failed, the last one because time is over and pods are left on the node";
    failed.device_op = Some(DeviceOpStatus {
        release: "a new command tries again at once".into(),
        next_try: at("14:30:00"),
        ..reboot(DeviceOpState::Failed, error)
    });
    vec![
        ("failed", failed),
        (
            "failed, on a person's request",
            with_report(seen(DrainStatus::FailedDrain), |report| {
                (report.phase, report.outcome) = ("Failed".into(), Some(Outcome::DrainFailed));
                report.reason =
                    "5 attempts failed, the last one because time is over and pods are left on the node"
                        .into();
                report.hint =
                    "fix the cause, then ask again: a new request or command begins a new drain".into();
                report.blockers = vec![blocker(BUDGET, BUDGET_HINT, 3)];
            }),
        ),
        ("drained", undrained(Outcome::Drained)),
        (
            "forced by an operator",
            with_report(undrained(Outcome::Forced), |report| {
                report.reason = "an operator forced it, NOT drained: alice: disk dead".into();
                report.pods = vec![PodLine {
                    namespace: "shop".into(),
                    name: "db-1".into(),
                    verdict: "Evict".into(),
                    stage: "LeftBehind".into(),
                    ..PodLine::default()
                }];
            }),
        ),
        ("undrained, the API server was away", undrained(Outcome::ApiUnreachable)),
    ]
}

/// An operator has given an order.
fn orders() -> Vec<Situation> {
    vec![
        (
            "an order waits",
            with_report(idle(), |report| {
                report.standing_order = Some(StandingOrder {
                    requested_by: DrainRequester::DeviceOp,
                    until: at("14:14:00"),
                    by: "alice: disk dead".into(),
                    ..StandingOrder::default()
                });
            }),
        ),
        (
            "drains are switched off",
            with_report(seen(DrainStatus::NotSupported), |report| {
                report.disabled = Some(Disabled { since: at("14:03:00"), by: "alice: disk dead".into() });
                report.reason = "drains are switched off until the next boot: alice: disk dead".into();
            }),
        ),
    ]
}

/// Agents do not work.
fn agents_down() -> Vec<Situation> {
    let attempt = || blocked(vec![blocker(BUDGET, BUDGET_HINT, 3)]);
    let mut hung = attempt();
    hung.agents[0].silent_seconds = Some(720);
    let waits = || {
        let waits = reboot(DeviceOpState::Deferred, "zedkube does not run (10 s of 600 s)");
        let device_op = Some(DeviceOpStatus { undrained_in_seconds: Some(590), ..waits });
        StatusView { device_op, ..attempt() }
    };
    vec![
        ("zedkube is dead, a reboot waits", without(waits(), &[agent::ZEDKUBE])),
        ("zedkube is dead", without(idle(), &[agent::ZEDKUBE])),
        ("zedkube hangs", hung),
        ("another agent is dead", without(idle(), &[agent::ZEDAGENT])),
        (
            "all agents are dead",
            without(waits(), &[agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR]),
        ),
        (
            "no agent has run",
            without(
                StatusView { status: None, report: None, ..idle() },
                &[agent::ZEDKUBE, agent::ZEDAGENT, agent::NODEAGENT, agent::BASEOSMGR],
            ),
        ),
        ("zedkube starts", StatusView { status: None, report: None, ..idle() }),
    ]
}

/// What the files and settings say.
fn settings() -> Vec<Situation> {
    let mut dry = idle();
    dry.device_action = Some(DeviceAction {
        command: Some(Operation::Reboot),
        counter: 4,
        state: DeviceActionState::Done,
        means: Some(vec![DeviceAction::DRY_RUN.into()]),
        ..DeviceAction::default()
    });
    let mut full = idle();
    let error = "reboot 8 cannot go on: cannot publish OperationRecord: cannot write \"/persist/status/zedagent/OperationRecord/global.json\": No space left on device (os error 28)";
    full.device_op =
        Some(DeviceOpStatus { stuck: true, blocked_by: error.into(), ..DeviceOpStatus::default() });
    let mut frozen = idle();
    frozen.freeze =
        Some(CommandFreeze { by: "alice".into(), reason: "inventory".into(), ..CommandFreeze::default() });
    vec![
        (
            "files are refused",
            with_report(idle(), |report| {
                let reason = "/etc/ebb/ebb.toml:3: drain.attempts = 0 is not accepted; accepted: a number from 1 to 100; in effect: 5 (default)";
                report.refused =
                    vec![RefusedInput { path: "/etc/ebb/ebb.toml:3".into(), reason: reason.into() }; 5];
                report.omitted = Omitted { refused: 5, ..Omitted::default() };
            }),
        ),
        ("`/persist` is full", full),
        ("commands are frozen", frozen),
        (
            "a reboot waits for the window",
            with_window(
                WindowState::Closed,
                "outside the window (sat 02:00 to 04:00 UTC): it opens at Sat 2026-11-28 02:00 UTC",
            ),
        ),
        (
            "the window never opens",
            with_window(WindowState::Never, "the window never opens: window.days is empty"),
        ),
        ("dry run", dry),
    ]
}

/// A reboot of the host that waits for the window.
fn with_window(state: WindowState, reason: &str) -> StatusView {
    let mut seen = idle();
    seen.device_op = Some(DeviceOpStatus {
        operation: Some(Operation::Reboot),
        counter: 8,
        source: Source::Host,
        reason: "reboot-required: libc6".into(),
        state: DeviceOpState::Deferred,
        blocked_by: format!("{reason}; `ebb reboot --now` does not wait for it"),
        window: Some(WindowStatus {
            state,
            changes_at: GoTime::ZERO,
            sources: [Source::Host].into(),
            reason: reason.into(),
        }),
        ..DeviceOpStatus::default()
    });
    seen
}

/// The table of docs/operations/status.md is this test's, and each screen fits into a terminal of 24 lines below the
/// command and above the prompt.
#[test]
fn each_situation_has_its_first_line_and_its_exit_code() {
    let (mut table, mut screens) = (String::new(), String::new());
    for (name, seen) in situations() {
        let (text, code) = screen_of(&seen, Some(24), 80);
        assert!(text.lines().count() <= 22, "{name}\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{name}\n{text}");
        let (first, number) = (text.lines().next().unwrap_or_default().replace('`', "'"), code as u8);
        writeln!(table, "| {name} | `{first}` | {number} |").unwrap();
        writeln!(screens, "## {name}: {number}\n{text}").unwrap();
    }
    let page = include_str!("../../../../../docs/operations/status.md");
    let missing: Vec<&str> = table.lines().filter(|line| !page.contains(line)).collect();
    insta::assert_snapshot!(screens);
    assert!(missing.is_empty(), "docs/operations/status.md lacks:\n{}", missing.join("\n"));
}

/// Regression: with `--pods` a budget of many pods was cut as on the short screen.
#[test]
fn the_whole_status_leaves_nothing_out() {
    let seen = with_report(blocked(vec![blocker(&"x ".repeat(400), BUDGET_HINT, 3)]), |report| {
        let pod = |number| PodLine {
            namespace: "shop".into(),
            name: format!("db-{number}"),
            stage: "Blocked".into(),
            tries: 4,
            owner: "ReplicaSet/db".into(),
            detail: "refused".into(),
            ..PodLine::default()
        };
        report.pods = (0..40).map(pod).collect();
    });
    let (text, _) = screen_of(&seen, None, 80);
    assert!(text.ends_with("shop/db-39 (ReplicaSet/db): Blocked, 4 tries: refused\n"), "{text}");
    assert!(!text.contains('…') && text.matches('x').count() >= 400, "{text}");
}

/// A zedkube that does not work has reported what may be false now.
#[test]
fn nobody_vouches_for_what_a_zedkube_has_reported_that_does_not_work() {
    for (running, silent, is_kept) in
        [(true, 12, true), (true, 44, true), (true, 98, false), (false, 12, false)]
    {
        for mut seen in [undrained(Outcome::Drained), blocked(vec![blocker(BUDGET, BUDGET_HINT, 3)])] {
            (seen.agents[0].running, seen.agents[0].silent_seconds) = (running, Some(silent));
            let text = screen(&seen);
            let says = text.contains("may go down") || text.starts_with("BLOCKED");
            assert_eq!(says, is_kept, "{running} {silent}\n{text}");
        }
    }
}

#[test]
fn slots_in_words() {
    let many = ["a", "b", "c", "d", "e", "f", "g"];
    let since = GoTime::from(at("14:00:00").set().unwrap());
    for (held, waits, holders, by, expected) in [
        (false, false, &[][..], &[][..], None),
        (false, false, &["edge-b"], &[], None),
        (true, false, &["edge-a"], &[], Some("this node has one")),
        (true, false, &["edge-b", "edge-a"], &[], Some("this node has one, and so has edge-b")),
        (false, true, &[], &[], Some("waiting since 14:00:00, 5 min ago")),
        (
            false,
            true,
            &["edge-b"],
            &["c"],
            Some("waiting since 14:00:00, 5 min ago; taken by edge-b; its own was taken over by c"),
        ),
        (
            false,
            true,
            &many,
            &[],
            Some("waiting since 14:00:00, 5 min ago; taken by a, b, c, d, e and 2 more"),
        ),
        (
            true,
            false,
            &[],
            &["c"],
            Some(
                "this node has one; c says that it was abandoned, which cannot be true: is that node still yours?",
            ),
        ),
    ] {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let waiting_since = if waits { since } else { GoTime::ZERO };
        let of = Slot { held, waiting_since, holders: owned(holders), passed_over_by: owned(by) };
        assert_eq!(slot(&of, "edge-a", &clock()).as_deref(), expected);
    }
}

/// Each image and each command that is not pending and has something to say.
#[test]
fn what_is_not_pending_is_shown_if_there_is_something_to_say() {
    let blocked_by = "shutdown 9 of controller: only recorded".to_owned();
    let status = DeviceOpStatus { blocked_by, ..DeviceOpStatus::default() };
    let expected = "Operation: none is pending; shutdown 9 of controller: only recorded";
    assert_eq!(device_op(&status, "").map(|(text, _)| text).as_deref(), Some(expected));
    assert_eq!(device_op(&DeviceOpStatus::default(), ""), None);
    assert_eq!(base_os(&BaseOsHold::default(), ""), None);
}

#[test]
fn every_status_has_words() {
    let texts: Vec<String> = DrainStatus::ALL.into_iter().map(|status| screen(&seen(status))).collect();
    let first_lines: Vec<&str> = texts.iter().filter_map(|text| text.lines().next()).collect();
    insta::assert_snapshot!(first_lines.join("\n"));
}

/// Nobody is needed while a command waits for a window that opens, perhaps for a week.
#[test]
fn the_exit_code_of_what_waits_for_the_window() {
    use WindowState::{Closed, Never, Open};
    const OUTSIDE: &str = "outside the window";
    let gate = "the drain is not finished: Cordoned";
    for (state, operation, image, expected) in [
        (Closed, None, None, Code::Fine),
        (Closed, Some(OUTSIDE), None, Code::Fine),
        (Closed, None, Some(OUTSIDE), Code::Fine),
        (Closed, Some(OUTSIDE), Some(OUTSIDE), Code::Fine),
        (Closed, Some(gate), None, Code::InProgress),
        (Closed, Some(OUTSIDE), Some(gate), Code::InProgress),
        (Closed, Some(gate), Some(OUTSIDE), Code::InProgress),
        (Open, Some(OUTSIDE), None, Code::InProgress),
        (Never, None, None, Code::Fine),
        (Never, Some(OUTSIDE), None, Code::Blocked),
        (Never, None, Some(OUTSIDE), Code::Blocked),
        (Never, Some(gate), None, Code::InProgress),
    ] {
        let mut seen = with_window(state, OUTSIDE);
        let status = seen.device_op.as_mut().unwrap();
        status.state = operation.map_or(DeviceOpState::Idle, |_| DeviceOpState::Deferred);
        status.blocked_by = operation.unwrap_or_default().to_owned();
        seen.base_os = image.map(|blocked_by| BaseOsHold {
            state: BaseOsHoldState::Deferred,
            blocked_by: blocked_by.to_owned(),
            ..BaseOsHold::default()
        });
        assert_eq!(screen_of(&seen, None, 200).1, expected, "{state:?} {operation:?} {image:?}");
    }
    let mut draining = with_window(Closed, OUTSIDE);
    draining.status = Some(NodeDrainStatus { status: DrainStatus::Cordoned, ..NodeDrainStatus::default() });
    assert_eq!(screen_of(&draining, None, 200).1, Code::InProgress);
}

/// A reboot that went round ebb is said for as long as the boot lasts.
#[test]
fn how_the_machine_went_down_is_said_unless_it_was_commanded() {
    for (reason, expected) in [
        ("NORMAL: reboot command", None),
        ("", None),
        ("went down past ebb, without a drain", Some("boot")),
        ("soft-reboot.target: the node is drained", Some("start")),
    ] {
        let seen = StatusView { reboot_reason: Some(reason.to_owned()), ..idle() };
        let (screen, code) = screen_of(&seen, None, 200);
        let line = screen.lines().find(|line| line.starts_with("Before this"));
        let expected = expected.map(|start| format!("Before this {start}: {reason}"));
        assert_eq!((line, code), (expected.as_deref(), Code::Fine), "{screen}");
    }
}

#[test]
fn the_window_is_said_once() {
    let mut closed = with_window(WindowState::Closed, "outside the window");
    let count = |seen: &StatusView| screen_of(seen, None, 200).0.matches("outside the window").count();
    assert_eq!(count(&closed), 1);
    let text = screen_of(&closed, None, 200).0;
    assert!(text.contains("Operation: reboot 8 (reboot-required: libc6) is held back: outside"), "{text}");
    closed.device_op.as_mut().unwrap().blocked_by.clear();
    assert_eq!(count(&closed), 1);
}

#[test]
fn a_host_that_asks_for_a_reboot_has_its_line() {
    use SentinelState::{Commanded, NotNeeded, StillAsks, TakenBack, Unknown};
    for (state, line, todo) in [
        (NotNeeded, "", ""),
        (Commanded, "Sentinel: the host asks for a reboot (libc6)", ""),
        (TakenBack, "Sentinel: the host asks for a reboot again (libc6), but", "`ebb reboot`"),
        (StillAsks, "Sentinel: the host still asks for a reboot after", "find out what asks"),
        (Unknown, "Sentinel: it is not known whether the host needs a reboot: libc6", "mend that"),
    ] {
        let mut seen = idle();
        let sentinel = SentinelStatus { state, reason: "libc6".into(), ..SentinelStatus::default() };
        seen.sentinel = Some(sentinel);
        let text = screen_of(&seen, None, 200).0;
        assert_eq!(text.contains("Sentinel: "), !line.is_empty(), "{text}");
        assert!(text.contains(line) && text.contains(todo), "{state:?}: {text}");
    }
}
