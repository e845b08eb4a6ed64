//! The gate's verdict with its words, as an agent decides by it and shows it.

use schemas::{ProceedReason, Verdict};

use super::OwnRequest;

/// What one look shows an agent of its way to a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateReading {
    /// What the gate says; nothing when it was not asked.
    pub gate: Option<Gate>,
    /// After a failed drain the next try need not wait.
    pub needs_no_pause: bool,
    /// The drain request that is ours.
    pub own: Option<OwnRequest>,
    /// A drain request that could be made now.
    pub next: OwnRequest,
}

impl GateReading {
    /// The gate was asked, and the device may go down.
    pub fn is_open(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_open)
    }

    /// What blocks, and what an operator can do about it.
    pub fn words(&self) -> (String, String) {
        self.gate.as_ref().map_or_else(
            || ("the gate is being asked".to_owned(), String::new()),
            |gate| (gate.blocked_by.clone(), gate.release.clone()),
        )
    }

    /// What lets the operation go: what the open gate says, else what it said last, as it is `shown`.
    pub fn release(&self, shown: &str) -> String {
        let gate = self.gate.as_ref().filter(|gate| gate.is_open());
        gate.map_or_else(|| shown.to_owned(), |gate| gate.release.clone())
    }
}

/// What the gate says at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// May the device go down?
    pub verdict: Verdict,
    /// What blocks; empty when nothing does.
    pub blocked_by: String,
    /// What an operator can do about it, or what has let the operation go.
    pub release: String,
}

impl Gate {
    /// The device may go down.
    pub fn is_open(&self) -> bool {
        match self.verdict {
            Verdict::Proceed(_) => true,
            Verdict::Publish | Verdict::Defer(_) | Verdict::Failed(_) => false,
        }
    }

    /// It may because a request was answered. Such an answer serves only what that request was made for: the node may
    /// have filled again since (D28).
    pub fn is_answer(&self) -> bool {
        match self.verdict {
            Verdict::Proceed(reason) => match reason {
                ProceedReason::Answered(_) | ProceedReason::Passed | ProceedReason::EveComplete => true,
                ProceedReason::NotAMember
                | ProceedReason::Disabled
                | ProceedReason::ZedkubeAway
                | ProceedReason::EveNotSupported => false,
            },
            Verdict::Publish | Verdict::Defer(_) | Verdict::Failed(_) => false,
        }
    }
}
