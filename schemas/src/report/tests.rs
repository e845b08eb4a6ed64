use proptest::prelude::*;

use super::*;
use crate::{MAX_REPORT_BYTES, parse, to_bytes};

fn pod(number: usize) -> PodLine {
    PodLine {
        namespace: "shop".to_owned(),
        name: format!("pod-{number}"),
        uid: "0d3b8a52-6d4e-4d5f-9a3e-9f5a5a0d7c11".to_owned(),
        owner: "ReplicaSet/shop-7d9f".to_owned(),
        verdict: "Evict".to_owned(),
        reasons: vec!["has a controller".to_owned()],
        stage: "Waiting".to_owned(),
        detail: "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
        ..PodLine::default()
    }
}

fn blocked(number: usize) -> Blocked {
    let budget = Budget {
        name: "shop".to_owned(),
        unhealthy_pods: vec!["pod-1 on b".to_owned()],
        ..Budget::default()
    };
    Blocked {
        pod: format!("shop/pod-{number}"),
        cause: "budget shop needs 2 healthy pods, has 2".to_owned(),
        budgets: vec![budget],
        holder: String::new(),
        hint: "scale shop up".to_owned(),
    }
}

fn with_pods(pods: usize) -> NodeDrainReport {
    NodeDrainReport { pods: (0..pods).map(pod).collect(), ..NodeDrainReport::default() }
}

#[track_caller]
fn check_bounded(report: NodeDrainReport) -> NodeDrainReport {
    let bounded = report.bounded();
    let bytes = to_bytes(&bounded);
    assert!(bytes.len() <= MAX_REPORT_BYTES, "{} bytes", bytes.len());
    assert_eq!(parse::<NodeDrainReport>(&bytes).unwrap(), bounded);
    bounded
}

#[test]
fn a_report_that_fits_is_left_alone() {
    let report = NodeDrainReport { blocked: vec![blocked(99)], ..with_pods(100) };
    assert_eq!(report.clone().bounded(), report);
}

#[test]
fn pods_beyond_the_limit_are_counted_and_blocked_ones_kept() {
    let numbers = [1900, 1950, 1999];
    let report = NodeDrainReport { blocked: numbers.map(blocked).to_vec(), ..with_pods(2000) };
    let bounded = check_bounded(report);
    assert_eq!(bounded.blocked.len(), 3);
    assert_eq!(bounded.pods[..3], numbers.map(pod));
    assert_eq!(bounded.pods[3], pod(0));
    assert_eq!(usize::try_from(bounded.omitted.pods).unwrap() + bounded.pods.len(), 2000);
    assert!(100 < bounded.pods.len(), "the room is used: {}", bounded.pods.len());
}

#[test]
fn many_blocked_pods_leave_room_for_the_pods_themselves() {
    let report = NodeDrainReport { blocked: (0..1000).map(blocked).collect(), ..with_pods(1000) };
    let bounded = check_bounded(report);
    assert!(50 < bounded.blocked.len() && 50 < bounded.pods.len());
    assert_eq!(usize::try_from(bounded.omitted.blocked).unwrap() + bounded.blocked.len(), 1000);
}

#[test]
fn of_the_attempts_the_newest_are_kept() {
    let error = "the attempt ran out of time".repeat(10);
    let attempts = (1..=500).map(|number| Attempt { number, error: error.clone(), ..Attempt::default() });
    let bounded =
        check_bounded(NodeDrainReport { attempts: attempts.collect(), ..NodeDrainReport::default() });
    let kept: Vec<u32> = bounded.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(kept.last(), Some(&500));
    assert!(kept.is_sorted() && 5 < kept.len());
    assert_eq!(bounded.omitted.attempts, 500 - u32::try_from(kept.len()).unwrap());
}

#[test]
fn huge_and_strange_texts_are_cut() {
    for filler in ["x", "\u{1}", "é", "\"", "<", "🦀"] {
        let text = filler.repeat(MAX_REPORT_BYTES);
        let report = NodeDrainReport {
            reason: text.clone(),
            hint: text.clone(),
            outlook: text.clone(),
            node: text.clone(),
            phase: text.clone(),
            drain_id: text.clone(),
            boot_id: text.clone(),
            disabled: Some(Disabled { by: text.clone(), ..Disabled::default() }),
            slot: Slot {
                holders: vec![text.clone(); 20],
                passed_over_by: vec![text.clone(); 20],
                ..Slot::default()
            },
            requests: vec![RequestLine { context: text.clone(), ..RequestLine::default() }; 5],
            blocked: vec![Blocked { cause: text.clone(), ..blocked(1) }; 5],
            refused: vec![RefusedInput { path: text.clone(), reason: text.clone() }; 5],
            volumes: vec![VolumeLine { pv: text.clone(), ..VolumeLine::default() }; 5],
            ..with_pods(50)
        };
        let bounded = check_bounded(report);
        assert!(bounded.reason.ends_with('…'));
    }
}

#[test]
fn an_answer_belongs_to_one_request_of_one_publisher() {
    let at: GoTime = "2026-08-22T16:10:11Z".parse().unwrap();
    let later: GoTime = "2026-08-22T16:10:12Z".parse().unwrap();
    let line = RequestLine {
        publisher: "zedagent".to_owned(),
        requested_at: at,
        answer: DrainStatus::Complete,
        ..RequestLine::default()
    };
    let report = NodeDrainReport { requests: vec![line], ..NodeDrainReport::default() };
    assert_eq!(report.line_of("zedagent", at), report.requests.first());
    assert_eq!(report.line_of("zedagent", later), None);
    assert_eq!(report.line_of("baseosmgr", at), None);
}

prop_compose! {
    fn any_report()(
        reason in ".{0,400}",
        sizes in (0_usize..400, 0_usize..200, 0_usize..100, 0_usize..100, 0_usize..100),
        text in ".{0,1000}",
    ) -> NodeDrainReport {
        let (pods, blocks, volumes, refused, attempts) = sizes;
        NodeDrainReport {
            reason,
            blocked: (0..blocks).map(|n| Blocked { hint: text.clone(), ..blocked(n) }).collect(),
            volumes: vec![VolumeLine { pv: text.clone(), ..VolumeLine::default() }; volumes],
            refused: vec![RefusedInput { path: text.clone(), reason: text.clone() }; refused],
            attempts: vec![Attempt { error: text.clone(), ..Attempt::default() }; attempts],
            ..with_pods(pods)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_report_fits(report in any_report()) {
        check_bounded(report);
    }
}
