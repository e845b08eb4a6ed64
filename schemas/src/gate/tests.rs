use super::*;

const REQUESTED: &str = "2026-08-22T16:10:11Z";
const EARLIER: &str = "2026-08-22T10:00:00Z";

#[expect(clippy::unnecessary_wraps, reason = "the facts hold options")]
fn time(text: &str) -> Option<GoTime> {
    Some(text.parse().unwrap())
}

#[expect(clippy::unnecessary_wraps, reason = "the facts hold options")]
fn status(status: DrainStatus, requested_by: DrainRequester) -> Option<NodeDrainStatus> {
    Some(NodeDrainStatus { status, requested_by })
}

/// Our zedkube runs on a cluster member and has not answered our request yet.
fn at_work() -> GateFacts {
    GateFacts {
        requester: DrainRequester::DeviceOp,
        member: Some(Member::Yes),
        disabled: false,
        own_request: time(REQUESTED),
        ours: time(REQUESTED),
        answer: Some(DrainStatus::Unknown),
        outcome: None,
        is_passed: false,
        zedkube: ZedkubeSeen::Running,
        status: status(DrainStatus::Cordoned, DrainRequester::DeviceOp),
        report_present: true,
        seen_other_status_since_publish: None,
        cluster_config_valid: None,
        absent_ms: 0,
        start_timeout_ms: 600_000,
        on_timeout: OnTimeout::Proceed,
    }
}

/// EVE's zedkube shows `shown` to `requester`; our request is published, and another status was seen since then.
fn eve(shown: DrainStatus, requester: DrainRequester) -> GateFacts {
    GateFacts {
        member: None,
        answer: None,
        report_present: false,
        zedkube: ZedkubeSeen::Away,
        status: status(shown, requester),
        seen_other_status_since_publish: Some(true),
        cluster_config_valid: Some(true),
        ..at_work()
    }
}

/// Our zedkube died and left a report behind.
fn away() -> GateFacts {
    GateFacts { zedkube: ZedkubeSeen::Away, ..at_work() }
}

#[track_caller]
fn check(facts: &GateFacts, row: Row, verdict: Verdict) {
    assert_eq!((facts.row(), gate(facts)), (row, verdict), "{facts:?}");
}

fn proceed(reason: ProceedReason) -> Verdict {
    Verdict::Proceed(reason)
}

fn draining(status: DrainStatus) -> Verdict {
    Verdict::Defer(DeferReason::Draining(Some(status)))
}

#[test]
fn row_1_a_device_without_cluster_proceeds() {
    let facts = GateFacts { member: Some(Member::No), ..at_work() };
    check(&facts, Row::NotNeeded, proceed(ProceedReason::NotAMember));
}

#[test]
fn row_1_disabled_proceeds() {
    let facts = GateFacts { disabled: true, ..at_work() };
    check(&facts, Row::NotNeeded, proceed(ProceedReason::Disabled));
}

#[test]
fn row_1_goes_before_all_others() {
    for other in [at_work(), away(), eve(DrainStatus::Cordoned, DrainRequester::Update)] {
        let failed = GateFacts { disabled: true, answer: Some(DrainStatus::FailedDrain), ..other.clone() };
        check(&failed, Row::NotNeeded, proceed(ProceedReason::Disabled));
        let unasked = GateFacts { member: Some(Member::No), own_request: None, ours: None, ..other };
        check(&unasked, Row::NotNeeded, proceed(ProceedReason::NotAMember));
    }
}

#[test]
fn row_1_unknown_membership_does_not_proceed() {
    for member in [None, Some(Member::Unknown)] {
        let facts = GateFacts { member, ..at_work() };
        check(&facts, Row::AtWork, draining(DrainStatus::Cordoned));
    }
}

#[test]
fn row_2_a_request_that_does_not_stand_is_published() {
    for (own_request, ours) in
        [(None, None), (None, time(REQUESTED)), (time(REQUESTED), None), (time(EARLIER), time(REQUESTED))]
    {
        for base in [at_work(), away(), GateFacts { status: None, report_present: false, ..away() }] {
            let facts = GateFacts { own_request, ours, ..base };
            check(&facts, Row::NoRequest, Verdict::Publish);
        }
    }
}

#[test]
fn row_2_no_status_and_no_answer_to_an_earlier_request_releases() {
    for shown in DrainStatus::ALL {
        let facts = GateFacts {
            own_request: time(EARLIER),
            answer: Some(DrainStatus::Complete),
            status: status(shown, DrainRequester::DeviceOp),
            ..at_work()
        };
        check(&facts, Row::NoRequest, Verdict::Publish);
    }
}

#[test]
fn row_2_beside_eve_a_drain_in_progress_is_not_disturbed() {
    for shown in DrainStatus::ALL {
        let facts = GateFacts { own_request: None, ..eve(shown, DrainRequester::Update) };
        let verdict = match shown.code() {
            3 | 4 | 5 | 7 => Verdict::Defer(DeferReason::EveBusy(shown)),
            _ => Verdict::Publish,
        };
        check(&facts, Row::NoRequest, verdict);
    }
}

#[test]
fn row_2_an_offset_in_the_file_is_the_same_request() {
    let facts = GateFacts { own_request: time("2026-08-22T18:10:11+02:00"), ..at_work() };
    check(&facts, Row::AtWork, draining(DrainStatus::Cordoned));
}

#[test]
fn row_3_the_answer_decides() {
    let with = |answer| GateFacts { answer: Some(answer), ..at_work() };
    check(&with(DrainStatus::Complete), Row::Answered, proceed(ProceedReason::Answered(None)));
    for failed in [DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        check(&with(failed), Row::Answered, Verdict::Failed(failed));
    }
}

/// Only a zedkube that works takes COMPLETE back when pods come to the node again.
#[test]
fn row_3_complete_needs_a_zedkube_that_works() {
    let seen = [
        (ZedkubeSeen::Running, Row::Answered),
        (ZedkubeSeen::Served, Row::Answered),
        (ZedkubeSeen::Away, Row::Away),
        (ZedkubeSeen::Hung { silent_ms: 60_000 }, Row::Hung),
    ];
    for outcome in [None, Some(Outcome::Drained), Some(Outcome::ApiUnreachable), Some(Outcome::Forced)] {
        for (zedkube, row) in seen {
            let facts = GateFacts { answer: Some(DrainStatus::Complete), outcome, zedkube, ..at_work() };
            let row = if outcome == Some(Outcome::Forced) { Row::Answered } else { row };
            assert_eq!(facts.row(), row, "{outcome:?} {zedkube:?}");
        }
    }
    for failed in [DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        let facts = GateFacts { answer: Some(failed), ..away() };
        check(&facts, Row::Answered, Verdict::Failed(failed));
    }
}

#[test]
fn row_3_everything_else_is_no_answer() {
    for code in [0, 1, 2, 3, 4, 5, 7] {
        let facts = GateFacts { answer: DrainStatus::from_code(code), ..at_work() };
        check(&facts, Row::AtWork, draining(DrainStatus::Cordoned));
    }
}

#[test]
fn row_4_a_zedkube_that_is_away_or_hangs_is_waited_for_until_the_limit() {
    type Reason = fn(u64, Option<u64>) -> DeferReason;
    let away: Reason = |absent_ms, limit_ms| DeferReason::Away { absent_ms, limit_ms };
    let hung: Reason = |absent_ms, limit_ms| DeferReason::Hung { silent_ms: 60_000, absent_ms, limit_ms };
    let cases = [
        (ZedkubeSeen::Away, Row::Away, away, ProceedReason::ZedkubeAway),
        (ZedkubeSeen::Hung { silent_ms: 60_000 }, Row::Hung, hung, ProceedReason::ZedkubeHung),
    ];
    for (zedkube, row, reason, released) in cases {
        for answer in [None, Some(DrainStatus::Unknown), Some(DrainStatus::Complete)] {
            let after =
                |absent_ms, on_timeout| GateFacts { answer, zedkube, absent_ms, on_timeout, ..at_work() };
            let limit_ms = Some(600_000);
            let early = Verdict::Defer(reason(599_999, limit_ms));
            check(&after(599_999, OnTimeout::Proceed), row, early);
            check(&after(600_000, OnTimeout::Proceed), row, proceed(released));
            check(&after(u64::MAX, OnTimeout::Wait), row, Verdict::Defer(reason(u64::MAX, None)));
        }
    }
}

#[test]
fn row_4_holds_without_any_report_and_status() {
    let facts = GateFacts { report_present: false, status: None, member: None, answer: None, ..away() };
    check(&facts, Row::Away, Verdict::Defer(DeferReason::Away { absent_ms: 0, limit_ms: Some(600_000) }));
}

#[test]
fn row_4_no_status_of_a_dead_zedkube_releases() {
    for shown in DrainStatus::ALL {
        let facts = GateFacts { status: status(shown, DrainRequester::DeviceOp), ..away() };
        assert_eq!(facts.row(), Row::Away, "{shown}");
    }
}

#[test]
fn row_5_no_status_of_ours_releases_without_an_answer() {
    for shown in DrainStatus::ALL {
        for requester in [DrainRequester::None, DrainRequester::DeviceOp, DrainRequester::Update] {
            let facts = GateFacts { status: status(shown, requester), ..at_work() };
            check(&facts, Row::AtWork, draining(shown));
        }
    }
    let facts = GateFacts { status: None, ..at_work() };
    check(&facts, Row::AtWork, Verdict::Defer(DeferReason::Draining(None)));
}

#[test]
fn row_5_a_zedkube_that_runs_without_report_is_starting() {
    for shown in DrainStatus::ALL {
        let facts = GateFacts {
            report_present: false,
            member: None,
            answer: None,
            status: status(shown, DrainRequester::DeviceOp),
            ..at_work()
        };
        check(&facts, Row::AtWork, Verdict::Defer(DeferReason::Starting));
    }
}

#[test]
fn row_6_eve_in_progress_defers_for_whomever() {
    for code in [0, 2, 3, 4, 5, 7] {
        let shown = DrainStatus::from_code(code).unwrap();
        for requester in [DrainRequester::Unset, DrainRequester::DeviceOp, DrainRequester::Update] {
            check(&eve(shown, requester), Row::Eve, draining(shown));
        }
    }
}

#[test]
fn row_6_eves_answer_to_us_counts() {
    let ours = |shown| eve(shown, DrainRequester::DeviceOp);
    check(&ours(DrainStatus::Complete), Row::Eve, proceed(ProceedReason::EveComplete));
    for failed in [DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        check(&ours(failed), Row::Eve, Verdict::Failed(failed));
    }
}

#[test]
fn row_6_eves_answer_to_somebody_else_does_not_count() {
    for shown in [DrainStatus::Complete, DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        for requester in [DrainRequester::Unset, DrainRequester::None, DrainRequester::Update] {
            check(&eve(shown, requester), Row::Eve, Verdict::Defer(DeferReason::EveStale(shown)));
        }
    }
}

#[test]
fn row_6_eves_answer_from_before_our_request_does_not_count() {
    for shown in [DrainStatus::Complete, DrainStatus::FailedCordon, DrainStatus::FailedDrain] {
        let base = eve(shown, DrainRequester::DeviceOp);
        let unseen = GateFacts { seen_other_status_since_publish: Some(false), ..base.clone() };
        check(&unseen, Row::Eve, Verdict::Defer(DeferReason::EveStale(shown)));
        let unknown = GateFacts { seen_other_status_since_publish: None, ..base };
        check(&unknown, Row::Eve, Verdict::Publish);
    }
}

#[test]
fn row_6_not_supported_proceeds_only_without_a_cluster() {
    let with = |cluster_config_valid| GateFacts {
        cluster_config_valid,
        ..eve(DrainStatus::NotSupported, DrainRequester::None)
    };
    check(&with(Some(false)), Row::Eve, proceed(ProceedReason::EveNotSupported));
    for unclear in [Some(true), None] {
        check(&with(unclear), Row::Eve, Verdict::Defer(DeferReason::EveClusterUnclear));
    }
}

/// D1: EVE's zedagent has no case for CORDONED and lets a command pass in the middle of a drain.
#[test]
fn a_drain_in_progress_lets_nothing_through() {
    for shown in DrainStatus::ALL.into_iter().filter(|status| status.is_in_progress()) {
        for requester in [DrainRequester::DeviceOp, DrainRequester::Update] {
            for base in [eve(shown, requester), GateFacts { status: status(shown, requester), ..at_work() }] {
                for own_request in [None, time(EARLIER), time(REQUESTED)] {
                    let facts = GateFacts { own_request, ..base.clone() };
                    let verdict = gate(&facts);
                    assert!(!matches!(verdict, Verdict::Proceed(_) | Verdict::Failed(_)), "{facts:?}");
                }
            }
        }
    }
}

/// D7: for EVE's agents a missing status, and a NOTSUPPORTED published before the cluster's configuration was read,
/// mean that there is nothing to drain.
#[test]
fn what_is_not_known_yet_releases_nobody() {
    let unknown = |is_away, status| GateFacts {
        zedkube: if is_away { ZedkubeSeen::Away } else { ZedkubeSeen::Running },
        status,
        member: None,
        answer: None,
        report_present: false,
        seen_other_status_since_publish: Some(true),
        ..at_work()
    };
    let not_supported = status(DrainStatus::NotSupported, DrainRequester::None);
    for (facts, expected) in [
        (unknown(true, None), DeferReason::Away { absent_ms: 0, limit_ms: Some(600_000) }),
        (unknown(false, None), DeferReason::Starting),
        (unknown(false, not_supported), DeferReason::Starting),
        (unknown(true, not_supported), DeferReason::EveClusterUnclear),
        (
            unknown(true, status(DrainStatus::Unknown, DrainRequester::Unset)),
            DeferReason::Draining(Some(DrainStatus::Unknown)),
        ),
    ] {
        assert_eq!(gate(&facts), Verdict::Defer(expected), "{facts:?}");
        let unasked = GateFacts { own_request: None, ..facts };
        assert_eq!(gate(&unasked), Verdict::Publish, "it asks, and waits");
    }
}

/// D13: EVE's agents wait for a status with their own requester number, which may never come. And an EVE agent that
/// defers because another requester's drain runs never asks.
#[test]
fn the_number_in_the_status_neither_holds_nor_releases() {
    for requested_by in
        [DrainRequester::Unset, DrainRequester::None, DrainRequester::DeviceOp, DrainRequester::Update]
    {
        for shown in DrainStatus::ALL {
            let facts = GateFacts { status: status(shown, requested_by), ..at_work() };
            let with = |answer| gate(&GateFacts { answer: Some(answer), ..facts.clone() });
            assert_eq!(with(DrainStatus::Complete), proceed(ProceedReason::Answered(None)));
            assert_eq!(with(DrainStatus::FailedDrain), Verdict::Failed(DrainStatus::FailedDrain));
            assert_eq!(with(DrainStatus::Unknown), draining(shown));
            let unasked = GateFacts { own_request: None, ..facts.clone() };
            assert_eq!(gate(&unasked), Verdict::Publish, "it asks while another drain runs, and joins it");
        }
    }
    // EVE's zedkube would lose a request in the middle of a drain; once that drain is over, we publish ours.
    let others = |shown| GateFacts { own_request: None, ..eve(shown, DrainRequester::Update) };
    for shown in [DrainStatus::Complete, DrainStatus::FailedDrain, DrainStatus::NotRequested] {
        assert_eq!(gate(&others(shown)), Verdict::Publish, "{shown}");
    }
}

/// D21: EVE's agents ask again each time they read an old status, and each request is another drain.
#[test]
fn a_request_that_stands_is_not_made_again() {
    for base in [at_work(), away(), GateFacts { report_present: false, ..at_work() }] {
        for shown in DrainStatus::ALL {
            let facts = GateFacts { status: status(shown, DrainRequester::None), ..base.clone() };
            assert_ne!(gate(&facts), Verdict::Publish, "{facts:?}");
        }
    }
    for shown in DrainStatus::ALL {
        for requester in [DrainRequester::DeviceOp, DrainRequester::Update] {
            assert_ne!(gate(&eve(shown, requester)), Verdict::Publish, "{shown} for {requester}");
        }
    }
}

/// D28: in EVE a COMPLETE releases the agent that reads it first.
#[test]
fn a_complete_for_somebody_else_releases_nobody() {
    let complete = |requester| status(DrainStatus::Complete, requester);
    for requester in [DrainRequester::None, DrainRequester::DeviceOp, DrainRequester::Update] {
        let unlisted = GateFacts { status: complete(requester), answer: None, ..at_work() };
        check(&unlisted, Row::AtWork, draining(DrainStatus::Complete));
        let unanswered = GateFacts { answer: Some(DrainStatus::Unknown), ..unlisted.clone() };
        check(&unanswered, Row::AtWork, draining(DrainStatus::Complete));
        let unasked = GateFacts { own_request: None, ..unlisted };
        check(&unasked, Row::NoRequest, Verdict::Publish);
    }
    let update = eve(DrainStatus::Complete, DrainRequester::Update);
    check(&update, Row::Eve, Verdict::Defer(DeferReason::EveStale(DrainStatus::Complete)));
}

/// Over every combination of facts: which ones release the device, and which ones may make the gate fail.
#[test]
fn nothing_else_releases_the_device() {
    let mut proceeds = 0;
    for facts in every_combination() {
        match gate(&facts) {
            Verdict::Proceed(reason) => {
                proceeds += 1;
                check_release(&facts, reason);
            }
            Verdict::Failed(status) => {
                assert!(status.is_failed() && facts.own_request == facts.ours, "{facts:?}");
            }
            Verdict::Publish | Verdict::Defer(_) => {}
        }
    }
    assert!(0 < proceeds);
}

#[track_caller]
fn check_release(facts: &GateFacts, reason: ProceedReason) {
    let asked = facts.ours.is_some() && facts.own_request == facts.ours;
    let allowed = match reason {
        ProceedReason::NotAMember => facts.member == Some(Member::No),
        ProceedReason::Disabled => facts.disabled,
        ProceedReason::Answered(_) => {
            asked
                && facts.answer == Some(DrainStatus::Complete)
                && matches!(facts.zedkube, ZedkubeSeen::Running | ZedkubeSeen::Served)
        }
        ProceedReason::Passed => asked && facts.is_passed,
        ProceedReason::ZedkubeAway | ProceedReason::ZedkubeHung => {
            let is_hung = matches!(facts.zedkube, ZedkubeSeen::Hung { .. });
            asked
                && (is_hung || facts.zedkube == ZedkubeSeen::Away)
                && is_hung == (reason == ProceedReason::ZedkubeHung)
                && facts.on_timeout == OnTimeout::Proceed
                && facts.start_timeout_ms <= facts.absent_ms
        }
        ProceedReason::EveComplete => {
            asked
                && !facts.report_present
                && facts.seen_other_status_since_publish == Some(true)
                && facts.status == status(DrainStatus::Complete, facts.requester)
        }
        ProceedReason::EveNotSupported => {
            asked && !facts.report_present && facts.cluster_config_valid == Some(false)
        }
    };
    assert!(allowed, "{reason:?} {facts:?}");
}

fn every_combination() -> Vec<GateFacts> {
    let mut all = vec![at_work()];
    let mut vary = |change: &dyn Fn(&GateFacts) -> Vec<GateFacts>| {
        all = all.iter().flat_map(change).collect();
    };
    vary(&|f| {
        [None, Some(Member::Yes), Some(Member::No)].map(|member| GateFacts { member, ..f.clone() }).into()
    });
    vary(&|f| [false, true].map(|disabled| GateFacts { disabled, ..f.clone() }).into());
    vary(&|f| {
        [None, time(EARLIER), time(REQUESTED)]
            .map(|own_request| GateFacts { own_request, ..f.clone() })
            .into()
    });
    vary(&|f| [None, time(REQUESTED)].map(|ours| GateFacts { ours, ..f.clone() }).into());
    vary(&|f| {
        [None, Some(0), Some(6), Some(8), Some(9)]
            .map(|code| GateFacts { answer: code.and_then(DrainStatus::from_code), ..f.clone() })
            .into()
    });
    vary(&|f| {
        [
            ZedkubeSeen::Running,
            ZedkubeSeen::Hung { silent_ms: u64::MAX },
            ZedkubeSeen::Served,
            ZedkubeSeen::Away,
        ]
        .map(|zedkube| GateFacts { zedkube, ..f.clone() })
        .into()
    });
    vary(&|f| [false, true].map(|is_passed| GateFacts { is_passed, ..f.clone() }).into());
    vary(&|f| [false, true].map(|report_present| GateFacts { report_present, ..f.clone() }).into());
    vary(&|f| {
        let requesters = [DrainRequester::DeviceOp, DrainRequester::Update];
        let shown = DrainStatus::ALL.into_iter().flat_map(|s| requesters.map(|r| status(s, r)));
        shown.chain([None]).map(|status| GateFacts { status, ..f.clone() }).collect()
    });
    vary(&|f| {
        [None, Some(false), Some(true)]
            .map(|seen| GateFacts {
                seen_other_status_since_publish: seen,
                cluster_config_valid: seen,
                ..f.clone()
            })
            .into()
    });
    vary(&|f| [0, 600_000].map(|absent_ms| GateFacts { absent_ms, ..f.clone() }).into());
    all
}

/// Calls `observe` with each (milliseconds, away, report number) and checks the sum after the last one.
#[track_caller]
fn check_absence(looks: &[(u64, bool, u32)], expected: u64) {
    let mut absence = Absence::default();
    let mut sum = 0;
    for &(now_ms, away, report) in looks {
        let report = NodeDrainReport { drain_attempt: report, ..NodeDrainReport::default() };
        sum = absence.observe(now_ms, away, Some(&report));
    }
    assert_eq!(sum, expected);
}

#[test]
fn absence_is_summed_while_row_4_holds() {
    check_absence(&[(1000, true, 1)], 0);
    check_absence(&[(1000, true, 1), (3000, true, 1)], 2000);
    check_absence(
        &[(1000, true, 1), (3000, true, 1), (4000, false, 1), (9000, true, 1), (9500, true, 1)],
        2500,
    );
    check_absence(&[(1000, false, 1), (9000, true, 1)], 0);
}

#[test]
fn absence_starts_anew_when_the_report_changes() {
    check_absence(&[(0, true, 1), (5000, true, 1), (6000, true, 2)], 0);
    check_absence(&[(0, true, 1), (5000, true, 1), (6000, true, 2), (6500, true, 2)], 500);
}

#[test]
fn absence_is_summed_without_any_report() {
    let mut absence = Absence::default();
    assert_eq!(absence.observe(10, true, None), 0);
    assert_eq!(absence.observe(25, true, None), 15);
    assert_eq!(absence.observe(30, true, Some(&NodeDrainReport::default())), 0);
}

#[test]
fn absence_survives_a_clock_that_steps_back() {
    check_absence(&[(5000, true, 1), (1000, true, 1), (1500, true, 1)], 500);
}

#[test]
fn reasons_are_plain_sentences() {
    let text = DeferReason::Away { absent_ms: 90_500, limit_ms: Some(600_000) }.to_string();
    assert_eq!(text, "zedkube does not run (90 s of 600 s)");
    for (silent_ms, old) in [(98_000, "98 s"), (12 * 60_000, "12 min"), (3 * 3_600_000, "3 h")] {
        let text = DeferReason::Hung { silent_ms, absent_ms: 90_500, limit_ms: None }.to_string();
        let waits = "(90 s); drain.start.on-timeout = wait";
        assert_eq!(text, format!("zedkube hangs: its touch file is {old} old {waits}"));
    }
}

/// Every way down without a drain contains the same word, and no other text contains it.
#[test]
fn every_undrained_release_says_so_in_the_same_word() {
    let answered = |outcome| ProceedReason::Answered(Some(outcome));
    for (reason, is_undrained) in [
        (ProceedReason::NotAMember, false),
        (ProceedReason::EveComplete, false),
        (ProceedReason::EveNotSupported, false),
        (ProceedReason::Answered(None), false),
        (answered(Outcome::Drained), false),
        (answered(Outcome::NodeGone), false),
        (answered(Outcome::ApiUnreachable), true),
        (answered(Outcome::NoSchedulablePeer), true),
        (answered(Outcome::Forced), true),
        (answered(Outcome::DrainFailed), true),
        (ProceedReason::Disabled, true),
        (ProceedReason::ZedkubeAway, true),
        (ProceedReason::ZedkubeHung, true),
        (ProceedReason::Passed, true),
    ] {
        assert_eq!(reason.is_undrained(), is_undrained, "{reason:?}");
        assert_eq!(reason.to_string().starts_with("NOT DRAINED: "), is_undrained, "{reason}");
    }
    assert!(answered(Outcome::ApiUnreachable).to_string().ends_with("(ApiUnreachable)"));
}

#[test]
fn an_operators_word_passes_the_gate_for_its_request_alone() {
    let hung = GateFacts { zedkube: ZedkubeSeen::Hung { silent_ms: 720_000 }, is_passed: true, ..at_work() };
    check(&hung, Row::Passed, proceed(ProceedReason::Passed));
    let ended = GateFacts { zedkube: ZedkubeSeen::Away, ..hung.clone() };
    check(&ended, Row::Passed, proceed(ProceedReason::Passed));
    let answered = GateFacts { answer: Some(DrainStatus::FailedDrain), ..hung.clone() };
    check(&answered, Row::Answered, Verdict::Failed(DrainStatus::FailedDrain));
    let unasked = GateFacts { own_request: None, ..hung };
    check(&unasked, Row::NoRequest, Verdict::Publish);
}

/// zedkube's lock and pid file were removed while it lives and serves its topics: no time-out runs.
#[test]
fn a_zedkube_without_files_is_at_work() {
    let facts = GateFacts { zedkube: ZedkubeSeen::Served, absent_ms: u64::MAX, ..at_work() };
    check(&facts, Row::AtWork, draining(DrainStatus::Cordoned));
    let eves =
        GateFacts { zedkube: ZedkubeSeen::Served, ..eve(DrainStatus::Complete, DrainRequester::DeviceOp) };
    check(&eves, Row::Eve, proceed(ProceedReason::EveComplete));
}
