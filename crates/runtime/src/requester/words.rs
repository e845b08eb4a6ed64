//! The texts of a verdict, for the status that an operator reads.

use schemas::{DeferReason, NodeDrainReport, Outcome, ProceedReason, Verdict};
use text::one_line;

/// Limit in bytes for a text of zedkube that is shown. Its sentences have a tenth of that; a report that was written
/// by hand may hold a megabyte, and a status has to fit into one message.
const MOST_WORDS: usize = 1024;

/// The reason why the operation is held: zedkube's own reason if it has one.
pub(super) fn blocked_by(verdict: Verdict, report: Option<&NodeDrainReport>) -> String {
    let reason = said(report.map(|report| &report.reason));
    match verdict {
        Verdict::Proceed(_) => String::new(),
        Verdict::Publish => "a drain of this node is being requested".to_owned(),
        Verdict::Failed(status) => reason.map_or_else(
            || format!("the drain failed: {status}"),
            |reason| format!("the drain failed: {status}: {reason}"),
        ),
        Verdict::Defer(DeferReason::Draining(_)) => reason.unwrap_or_else(|| verdict_text(verdict)),
        Verdict::Defer(
            DeferReason::Starting
            | DeferReason::Away { .. }
            | DeferReason::Hung { .. }
            | DeferReason::EveBusy(_)
            | DeferReason::EveStale(_)
            | DeferReason::EveClusterUnclear,
        ) => verdict_text(verdict),
    }
}

/// The hint for the operator, zedkube's own if it has one; or the reason why the operation is released, with `by`,
/// the operator who forced it.
pub(super) fn release(verdict: Verdict, report: Option<&NodeDrainReport>, by: &str) -> String {
    let hint = said(report.map(|report| &report.hint));
    match verdict {
        Verdict::Proceed(reason) => released(reason, by),
        Verdict::Publish => String::new(),
        Verdict::Defer(DeferReason::Starting) => {
            "wait: zedkube publishes its report within seconds".to_owned()
        }
        Verdict::Defer(DeferReason::Away { .. }) => {
            "start zedkube; if it cannot be started, `ebb force complete --reason WHY` lets this operation go now WITHOUT a \
             drain (setting drain.start.on-timeout says what follows)"
                .to_owned()
        }
        Verdict::Defer(DeferReason::Hung { .. }) => {
            "restart zedkube; if it cannot be ended, `ebb force complete --reason WHY` lets this operation go now WITHOUT a \
             drain (setting drain.start.on-timeout says what follows)"
                .to_owned()
        }
        // Without a hint the report has nothing to add: these texts are shown in `ebb status`.
        Verdict::Defer(DeferReason::Draining(_)) | Verdict::Failed(_) => hint.unwrap_or_default(),
        Verdict::Defer(DeferReason::EveBusy(_)) => "wait: the drain that runs has to end first".to_owned(),
        Verdict::Defer(DeferReason::EveStale(_) | DeferReason::EveClusterUnclear) => {
            "see the log of EVE's zedkube; its own override file lets the device go undrained".to_owned()
        }
    }
}

/// The reason why the operation is released; if an operator forced it, also the name and the reason.
fn released(reason: ProceedReason, by: &str) -> String {
    let is_somebodys =
        matches!(reason, ProceedReason::Passed | ProceedReason::Answered(Some(Outcome::Forced)));
    if is_somebodys && !by.is_empty() {
        return format!("{reason} ({})", one_line(by, MOST_WORDS));
    }
    reason.to_string()
}

/// True if two verdicts differ in the elapsed time only.
pub(super) fn is_same(one: Verdict, other: Verdict) -> bool {
    match (one, other) {
        (
            Verdict::Defer(DeferReason::Away { limit_ms: one, .. }),
            Verdict::Defer(DeferReason::Away { limit_ms, .. }),
        ) => one == limit_ms,
        (
            Verdict::Defer(DeferReason::Hung { limit_ms: one, .. }),
            Verdict::Defer(DeferReason::Hung { limit_ms, .. }),
        ) => one == limit_ms,
        (one, other) => one == other,
    }
}

fn said(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(|text| one_line(text, MOST_WORDS))
}

fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Defer(reason) => reason.to_string(),
        Verdict::Proceed(_) | Verdict::Publish | Verdict::Failed(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use schemas::DrainStatus;

    use super::*;

    const DRAINING: Verdict = Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Cordoned)));
    const AWAY: Verdict = Verdict::Defer(DeferReason::Away { absent_ms: 5_000, limit_ms: Some(60_000) });
    const FAILED: Verdict = Verdict::Failed(DrainStatus::FailedDrain);
    const ANSWERED: Verdict = Verdict::Proceed(ProceedReason::Answered(None));

    #[test]
    fn zedkubes_own_words_come_first() {
        let said = NodeDrainReport {
            reason: "db waits".to_owned(),
            hint: "scale db".to_owned(),
            ..NodeDrainReport::default()
        };
        let silent = NodeDrainReport::default();
        for (verdict, report, reason, hint) in [
            (DRAINING, Some(&said), "db waits", "scale db"),
            (DRAINING, Some(&silent), "the drain is not finished: Cordoned", ""),
            (FAILED, Some(&said), "the drain failed: Failed Drain: db waits", "scale db"),
            (FAILED, None, "the drain failed: Failed Drain", ""),
            (AWAY, Some(&said), "zedkube does not run (5 s of 60 s)", "start zedkube"),
            (Verdict::Publish, Some(&said), "a drain of this node is being requested", ""),
            (ANSWERED, Some(&said), "", "zedkube answered the request: the node may go down"),
        ] {
            assert_eq!(blocked_by(verdict, report), reason, "{verdict:?}");
            let release = release(verdict, report, "");
            assert!(
                release.starts_with(hint) && release.is_empty() == hint.is_empty(),
                "{verdict:?}: {release}"
            );
        }
        assert!(release(AWAY, None, "").contains("start zedkube"));
    }

    #[test]
    fn a_release_names_the_outcome() {
        let answered = |outcome| ProceedReason::Answered(Some(outcome));
        for (reason, expected) in [
            (answered(Outcome::Drained), "zedkube answered the request: the node may go down (Drained)"),
            (
                answered(Outcome::ApiUnreachable),
                "NOT DRAINED: the Kubernetes API server could not be reached for too long (ApiUnreachable)",
            ),
            (answered(Outcome::Forced), "NOT DRAINED: an operator forced it (Forced) (alice: disk dead)"),
            (ProceedReason::NotAMember, "this device is in no cluster"),
            (
                ProceedReason::Passed,
                "NOT DRAINED: an operator let it pass without zedkube (alice: disk dead)",
            ),
        ] {
            assert_eq!(release(Verdict::Proceed(reason), None, "alice: disk\ndead"), expected);
        }
    }

    #[test]
    fn a_report_of_any_size_makes_a_short_line() {
        let long = "x\n".repeat(500_000);
        let report = NodeDrainReport { reason: long.clone(), hint: long, ..NodeDrainReport::default() };
        for verdict in [DRAINING, FAILED] {
            for words in [blocked_by(verdict, Some(&report)), release(verdict, Some(&report), "")] {
                assert!(words.len() < 2 * MOST_WORDS && !words.contains('\n'), "{} bytes", words.len());
            }
        }
    }

    #[test]
    fn time_alone_makes_no_new_verdict() {
        let away = |absent_ms, limit_ms| Verdict::Defer(DeferReason::Away { absent_ms, limit_ms });
        for (one, other, is_same_verdict) in [
            (AWAY, away(6_000, Some(60_000)), true),
            (AWAY, away(5_000, None), false),
            (AWAY, DRAINING, false),
            (DRAINING, DRAINING, true),
            (DRAINING, Verdict::Defer(DeferReason::Draining(Some(DrainStatus::DrainRetrying))), false),
            (Verdict::Publish, FAILED, false),
        ] {
            assert_eq!(is_same(one, other), is_same_verdict, "{one:?} {other:?}");
        }
    }
}
