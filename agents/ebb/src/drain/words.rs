//! Words for what is seen of a pod: for lines, and for the JSON document.

use drain::Verdict;
use drain::state::Stage;

/// The pod has to be gone before the node counts as drained.
pub(crate) fn is_leaving(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Evict | Verdict::Await | Verdict::Refuse => true,
        Verdict::Leave => false,
    }
}

/// One word for a verdict.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Evict => "Evict",
        Verdict::Await => "Await",
        Verdict::Leave => "Leave",
        Verdict::Refuse => "Refuse",
    }
}

/// One word for a stage.
pub(crate) fn stage_word(stage: &Stage) -> &'static str {
    match stage {
        Stage::Waiting => "Waiting",
        Stage::Sent => "Sent",
        Stage::Blocked { .. } => "Blocked",
        Stage::Paused { .. } => "Paused",
        Stage::Accepted => "Accepted",
        Stage::Terminating => "Terminating",
        Stage::Awaiting => "Awaiting",
        Stage::Refused => "Refused",
        Stage::Final { .. } => "Final",
    }
}
