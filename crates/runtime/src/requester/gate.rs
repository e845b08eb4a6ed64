//! The gate's verdict and its texts, by which an agent decides and which it shows.

use schemas::{DeferReason, ProceedReason, Verdict};

use super::OwnRequest;

/// Snapshot of the gate and of the agent's drain request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateReading {
    /// The gate; None if it was not read.
    pub gate: Option<Gate>,
    /// True if the next attempt after a failed drain need not wait for the pause.
    pub needs_no_pause: bool,
    /// The agent's own drain request, if it is published.
    pub own: Option<OwnRequest>,
    /// The request that the agent would publish next.
    pub next: OwnRequest,
}

impl GateReading {
    /// True if the gate was read and the device may go down.
    pub fn is_open(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_open)
    }

    /// The reason why the gate holds the operation, and what an operator can do about it.
    pub fn words(&self) -> (String, String) {
        self.gate.as_ref().map_or_else(
            || ("the gate is not checked yet".to_owned(), String::new()),
            |gate| (gate.blocked_by.clone(), gate.release.clone()),
        )
    }

    /// Seconds after which the operation goes on WITHOUT a drain although zedkube has not answered; `None` if it does not.
    pub fn undrained_in_seconds(&self) -> Option<u64> {
        let (absent_ms, limit_ms) = match self.gate.as_ref()?.verdict {
            Verdict::Defer(
                DeferReason::Away { absent_ms, limit_ms } | DeferReason::Hung { absent_ms, limit_ms, .. },
            ) => (absent_ms, limit_ms?),
            Verdict::Defer(
                DeferReason::Draining(_)
                | DeferReason::Starting
                | DeferReason::EveBusy(_)
                | DeferReason::EveStale(_)
                | DeferReason::EveClusterUnclear,
            )
            | Verdict::Proceed(_)
            | Verdict::Publish
            | Verdict::Failed(_) => return None,
        };
        Some(limit_ms.saturating_sub(absent_ms) / 1000)
    }

    /// The text that says why the operation is released: that of the open gate, otherwise the last one, `shown`.
    pub fn release(&self, shown: &str) -> String {
        let gate = self.gate.as_ref().filter(|gate| gate.is_open());
        gate.map_or_else(|| shown.to_owned(), |gate| gate.release.clone())
    }
}

/// The gate at the time of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The verdict: whether the device may go down.
    pub verdict: Verdict,
    /// The reason why the operation is held; empty if it is not.
    pub blocked_by: String,
    /// Hint for the operator, or the reason why the operation is released.
    pub release: String,
}

impl Gate {
    /// True if the device may go down.
    pub fn is_open(&self) -> bool {
        match self.verdict {
            Verdict::Proceed(_) => true,
            Verdict::Publish | Verdict::Defer(_) | Verdict::Failed(_) => false,
        }
    }

    /// True if the device may go down because a request was answered. Such an answer serves only the operation of
    /// that request, because pods may have come back to the node since (D28).
    pub fn is_answer(&self) -> bool {
        match self.verdict {
            Verdict::Proceed(reason) => match reason {
                ProceedReason::Answered(_) | ProceedReason::Passed | ProceedReason::EveComplete => true,
                ProceedReason::NotAMember
                | ProceedReason::Disabled
                | ProceedReason::ZedkubeAway
                | ProceedReason::ZedkubeHung
                | ProceedReason::EveNotSupported => false,
            },
            Verdict::Publish | Verdict::Defer(_) | Verdict::Failed(_) => false,
        }
    }
}
