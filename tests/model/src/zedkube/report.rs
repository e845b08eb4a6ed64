//! The topics that zedkube publishes, made from its state as `zedkube::report` does.

use schemas::{Disabled, NodeDrainReport, RequestLine, SCHEMA_VERSION};
use session::Request;

use super::Zedkube;

impl Zedkube {
    /// Those fields of the report that the gate reads.
    pub(super) fn report(&self) -> NodeDrainReport {
        let line = |request: &Request| RequestLine {
            requested_by: request.requester,
            context: request.context.clone(),
            requested_at: request.requested_at.parse().unwrap_or_default(),
            publisher: request.publisher.clone(),
            answer: request.answer.status(),
            ..RequestLine::default()
        };
        NodeDrainReport {
            schema_version: SCHEMA_VERSION,
            boot_id: self.state.boot_id.clone(),
            phase: self.state.phase.name().to_owned(),
            member: self.state.member_now(),
            disabled: self.state.forcing.disabled.as_ref().map(|_| Disabled::default()),
            forcing: self.state.forcing.complete.as_ref().map(|forced| schemas::Forcing {
                requested_by: forced.requester,
                ..schemas::Forcing::default()
            }),
            requests: self.state.requests.iter().map(line).collect(),
            ..NodeDrainReport::default()
        }
    }
}

/// The report that may be published before the status is written.
pub(super) fn with_answers_of(report: &NodeDrainReport, before: Option<&NodeDrainReport>) -> NodeDrainReport {
    let mut early = report.clone();
    for request in &mut early.requests {
        let known = before.and_then(|before| before.line_of(&request.publisher, request.requested_at));
        request.answer = known.map(|line| line.answer).unwrap_or_default();
    }
    early
}
