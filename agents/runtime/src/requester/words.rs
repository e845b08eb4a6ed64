//! A verdict in words, for the status that an operator reads.

use schemas::{DeferReason, NodeDrainReport, Verdict};

/// What holds the operation back: zedkube's own reason where it has one.
pub(super) fn blocked_by(verdict: Verdict, report: Option<&NodeDrainReport>) -> String {
    let reason = said(report.map(|report| &report.reason));
    match verdict {
        Verdict::Proceed(_) => String::new(),
        Verdict::Publish => "a drain of this node is being asked for".to_owned(),
        Verdict::Failed(status) => reason.map_or_else(
            || format!("the drain failed: {status}"),
            |reason| format!("the drain failed: {status}: {reason}"),
        ),
        Verdict::Defer(DeferReason::Draining(_)) => {
            reason.map_or_else(|| verdict_text(verdict), str::to_owned)
        }
        Verdict::Defer(
            DeferReason::Starting
            | DeferReason::Away { .. }
            | DeferReason::EveBusy(_)
            | DeferReason::EveStale(_)
            | DeferReason::EveClusterUnclear,
        ) => verdict_text(verdict),
    }
}

/// What an operator can do: zedkube's own hint where it has one.
pub(super) fn release(verdict: Verdict, report: Option<&NodeDrainReport>) -> String {
    let hint = said(report.map(|report| &report.hint));
    match verdict {
        Verdict::Proceed(_) | Verdict::Publish => String::new(),
        Verdict::Defer(DeferReason::Starting) => {
            "wait: zedkube publishes its report within seconds".to_owned()
        }
        Verdict::Defer(DeferReason::Away { .. }) => {
            "start zedkube (setting drain.start.on-timeout says what follows)".to_owned()
        }
        Verdict::Defer(DeferReason::Draining(_)) | Verdict::Failed(_) => {
            hint.unwrap_or("`ebb status` says more").to_owned()
        }
        Verdict::Defer(DeferReason::EveBusy(_)) => "wait: the drain that runs has to end first".to_owned(),
        Verdict::Defer(DeferReason::EveStale(_) | DeferReason::EveClusterUnclear) => {
            "see the log of EVE's zedkube; its own override file lets the device go undrained".to_owned()
        }
    }
}

/// Whether two verdicts differ in nothing but time that went by.
pub(super) fn is_same(one: Verdict, other: Verdict) -> bool {
    match (one, other) {
        (
            Verdict::Defer(DeferReason::Away { limit_ms: one, .. }),
            Verdict::Defer(DeferReason::Away { limit_ms, .. }),
        ) => one == limit_ms,
        (one, other) => one == other,
    }
}

fn said(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Defer(reason) => reason.to_string(),
        Verdict::Proceed(_) | Verdict::Publish | Verdict::Failed(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DrainStatus, ProceedReason};

    use super::*;

    const DRAINING: Verdict = Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Cordoned)));
    const AWAY: Verdict = Verdict::Defer(DeferReason::Away { absent_ms: 5_000, limit_ms: Some(60_000) });
    const FAILED: Verdict = Verdict::Failed(DrainStatus::FailedDrain);

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
            (DRAINING, Some(&silent), "the drain is not finished: Cordoned", "`ebb status` says more"),
            (FAILED, Some(&said), "the drain failed: Failed Drain: db waits", "scale db"),
            (FAILED, None, "the drain failed: Failed Drain", "`ebb status` says more"),
            (AWAY, Some(&said), "zedkube does not run (5 s of 60 s)", "start zedkube"),
            (Verdict::Publish, Some(&said), "a drain of this node is being asked for", ""),
            (Verdict::Proceed(ProceedReason::Answered), Some(&said), "", ""),
        ] {
            assert_eq!(blocked_by(verdict, report), reason, "{verdict:?}");
            let release = release(verdict, report);
            assert!(
                release.starts_with(hint) && release.is_empty() == hint.is_empty(),
                "{verdict:?}: {release}"
            );
        }
        assert!(release(AWAY, None).contains("start zedkube"));
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
