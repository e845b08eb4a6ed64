//! Small pods and lines for the tests.

use drain::progress::Line;
use drain::state::Stage;
use drain::{Moment, PodId, Verdict};

/// A pod of namespace `shop`; its UID is its name.
pub(crate) fn pod(name: &str) -> PodId {
    PodId { namespace: "shop".into(), name: name.into(), uid: name.into() }
}

/// A pod that has to leave. It has one try if its stage can only come from an eviction.
pub(crate) fn line(name: &str, stage: Option<Stage>) -> Line {
    let is_asked = !matches!(stage, None | Some(Stage::Waiting | Stage::Awaiting | Stage::Refused));
    Line {
        id: pod(name),
        owner: "StatefulSet/db".into(),
        verdict: Verdict::Evict,
        reasons: Vec::new(),
        stage,
        since: Moment(0),
        tries: u32::from(is_asked),
        detail: String::new(),
    }
}
