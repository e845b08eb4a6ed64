//! The result of an order, from its file and the report.

use schemas::{Disabled, DrainStatus, GoTime, PodLine, RefusedInput, RequestLine, SpentOrder, StandingOrder};

use super::*;

fn order(status: DrainStatus, requested_by: DrainRequester) -> DrainOverride {
    DrainOverride { status, requested_by, reason: "r".into(), by: "alice".into() }
}

fn report(pods: u32) -> NodeDrainReport {
    let line = |n| PodLine {
        namespace: "shop".into(),
        name: format!("db-{n}"),
        verdict: if n == 0 { "Leave" } else { "Evict" }.into(),
        ..PodLine::default()
    };
    NodeDrainReport { pods: (0..=pods).map(line).collect(), ..NodeDrainReport::default() }
}

fn answered(requested_by: DrainRequester) -> NodeDrainReport {
    let line = RequestLine { requested_by, answer: DrainStatus::Complete, ..RequestLine::default() };
    NodeDrainReport { requests: vec![line], outcome: Some(Outcome::Forced), ..report(2) }
}

fn result_after(taken: Taken, order: &DrainOverride, report: &NodeDrainReport) -> OrderResult {
    let folder = tempfile::tempdir().unwrap();
    let file = OverrideFile::new(&Root::new(folder.path())).unwrap();
    result_of(taken, order, &file, report, false)
}

#[test]
fn an_order_that_was_applied_says_that_nothing_was_drained() {
    let until: GoTime = "2026-11-21T14:00:00Z".parse().unwrap();
    let standing_order = Some(StandingOrder { until, ..StandingOrder::default() });
    let disabled = Some(Disabled::default());
    let (device_op, update, all) = (DrainRequester::DeviceOp, DrainRequester::Update, DrainRequester::None);
    let left = "2 pods are left on it: shop/db-1, shop/db-2";
    for (order, report, expected) in [
        (
            order(DrainStatus::Complete, all),
            answered(device_op),
            format!("everybody's request is answered COMPLETE: this node is NOT drained; {left}"),
        ),
        (
            order(DrainStatus::Complete, device_op),
            NodeDrainReport { standing_order: standing_order.clone(), ..answered(device_op) },
            format!("device-op's request is answered COMPLETE: this node is NOT drained; {left}"),
        ),
        (
            order(DrainStatus::Complete, update),
            NodeDrainReport { standing_order, ..report(0) },
            "baseos's next request until 2026-11-21T14:00:00Z is answered COMPLETE: this node is NOT drained; which \
             pods are left on it is not known"
                .to_owned(),
        ),
        (
            order(DrainStatus::NotSupported, all),
            NodeDrainReport { disabled, ..report(2) },
            format!(
                "drains are switched off until the next boot or `ebb force enable`: this node is NOT drained; {left}"
            ),
        ),
        (order(DrainStatus::NotRequested, all), report(2), "drains are switched on again".to_owned()),
    ] {
        let result = result_after(Taken::Applied, &order, &report);
        assert_eq!(result.line, expected);
        assert_eq!(result.is_undrained, order.status != DrainStatus::NotRequested, "{order:?}");
    }
}

#[test]
fn an_order_that_came_too_late_says_that_there_was_nothing_to_force() {
    let text = "nothing to force: already COMPLETE (Drained)".to_owned();
    for (outcome, is_undrained) in [(Outcome::Drained, false), (Outcome::ApiUnreachable, true)] {
        let mut report = answered(DrainRequester::DeviceOp);
        report.requests[0].outcome = Some(outcome);
        let spent_order = Some(SpentOrder { text: text.clone(), ..SpentOrder::default() });
        let report = NodeDrainReport { spent_order, outcome: Some(outcome), ..report };
        let result =
            result_after(Taken::Applied, &order(DrainStatus::Complete, DrainRequester::None), &report);
        assert_eq!((result.line.as_str(), result.is_undrained), (text.as_str(), is_undrained));
    }
}

#[test]
fn what_the_report_does_not_show_yet_is_not_claimed() {
    for status in [DrainStatus::Complete, DrainStatus::NotSupported] {
        let result = result_after(Taken::Applied, &order(status, DrainRequester::None), &report(2));
        assert!(result.line.contains("the report does not show yet"), "{result:?}");
        assert!(result.is_undrained, "{result:?}");
    }
}

#[test]
fn a_refused_order_has_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = OverrideFile::new(&Root::new(folder.path())).unwrap();
    let refused = |end: &str| RefusedInput {
        path: format!("{}{end}", file.path().display()),
        reason: "left over from before".into(),
    };
    for end in ["", ".refused"] {
        let report = NodeDrainReport { refused: vec![refused(end)], ..NodeDrainReport::default() };
        let result = result_of(Taken::Refused, &DrainOverride::default(), &file, &report, true);
        assert_eq!(
            (result.line.as_str(), result.hint.as_str()),
            ("the override is refused", "left over from before")
        );
    }
    let result = result_after(Taken::Refused, &DrainOverride::default(), &NodeDrainReport::default());
    assert_eq!(result.hint, "see zedkube's log for the reason");
}

#[test]
fn many_pods_are_counted() {
    let mut report = report(12);
    report.omitted.pods = 3;
    assert!(
        left_words(&report).starts_with("15 pods are left on it: shop/db-1, "),
        "{}",
        left_words(&report)
    );
    assert!(left_words(&report).ends_with("shop/db-10 and 5 more"), "{}", left_words(&report));
}
