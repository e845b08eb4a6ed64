//! Small pods and lines for the tests.

use drain::progress::Line;
use drain::state::Stage;
use drain::{Moment, PodId, Verdict};

/// A pod of namespace `shop`; its UID is its name.
pub(crate) fn pod(name: &str) -> PodId {
    PodId { namespace: "shop".into(), name: name.into(), uid: name.into() }
}

/// A pod that has to leave.
pub(crate) fn line(name: &str, stage: Option<Stage>) -> Line {
    Line {
        id: pod(name),
        owner: "StatefulSet/db".into(),
        verdict: Verdict::Evict,
        reasons: Vec::new(),
        stage,
        since: Moment(0),
        tries: 0,
        detail: String::new(),
    }
}
