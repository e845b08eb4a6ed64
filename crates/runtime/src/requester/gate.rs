//! The gate's verdict with its words, as an agent decides by it and shows it.

use schemas::{ProceedReason, Verdict};

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
