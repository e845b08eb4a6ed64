//! The agent's own drain request: how it is recognised, and which statuses were seen since it was published.

use jiff::{SignedDuration, Timestamp};
use schemas::{DrainRequester, DrainStatus, GoTime, NodeDrainRequest};
use serde::{Deserialize, Serialize};

use crate::clock;

/// The request that an agent made, for its operation record, by which the agent recognises its own request after a
/// restart.
///
/// Record it durably before [`super::Requester::publish`], and again whenever [`super::Requester::own`] differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OwnRequest {
    /// The time of the request, which identifies it.
    pub requested_at: GoTime,
    /// When it was made, in milliseconds of [`crate::clock::awake_millis`] of that boot.
    pub awake_ms: u64,
    /// The time of the request that it replaces, or unset. After a crash between record and publication, the replaced
    /// request is still published and is the agent's own as well.
    pub replaces: GoTime,
    /// True if the status has changed since the publication. Only then can an answer of EVE's zedkube be an answer to
    /// this request.
    pub seen_other_status: bool,
}

impl OwnRequest {
    /// A request made now that replaces `before`; `published` is the time in the request's file.
    pub(super) fn new(
        wall: Timestamp,
        awake_ms: u64,
        before: Option<&Self>,
        published: Option<GoTime>,
    ) -> Self {
        let ours = |time: &GoTime| before.is_some_and(|before| before.has_made(*time));
        let replaces = published.filter(ours).unwrap_or_default();
        let requested_at = unused_time(wall, |time| ours(&time) || published == Some(time));
        Self { requested_at, awake_ms, replaces, seen_other_status: false }
    }

    /// True if this agent made the request of this time.
    pub(super) fn has_made(&self, requested_at: GoTime) -> bool {
        !requested_at.is_zero() && [self.requested_at, self.replaces].contains(&requested_at)
    }
}

/// The time for a new request: now, or the next nanosecond that `is_used` does not know. The time identifies the request,
/// and after the wall clock jumped back or stood still, the same time could be used twice.
fn unused_time(wall: Timestamp, is_used: impl Fn(GoTime) -> bool) -> GoTime {
    let mut time = GoTime::from(wall);
    while is_used(time) {
        let later = time.timestamp().checked_add(SignedDuration::from_nanos(1));
        time = later.unwrap_or(Timestamp::UNIX_EPOCH).into();
    }
    time
}

/// A new request of a person or a program, with this reason; `before` is the request that it replaces.
pub fn new_request(context: String, before: Option<&NodeDrainRequest>) -> NodeDrainRequest {
    let is_used = |time| before.is_some_and(|before| before.requested_at == time);
    NodeDrainRequest {
        requested_at: unused_time(clock::wall(), is_used),
        requested_by: DrainRequester::None,
        context,
    }
}

/// A memory of whether the status has changed since the publication. That matters only for EVE's zedkube, whose
/// answers do not name a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    first: Option<DrainStatus>,
    other: Option<bool>,
}

impl Seen {
    /// The request was just published: no status was seen.
    pub(super) fn since_publication() -> Self {
        Self { first: None, other: Some(false) }
    }

    /// After a restart: it is not known whether the status changed meanwhile, unless that was recorded before.
    pub(super) fn recorded(own: &OwnRequest) -> Self {
        Self { first: None, other: own.seen_other_status.then_some(true) }
    }

    pub(super) fn observe(&mut self, status: DrainStatus) {
        if *self.first.get_or_insert(status) != status {
            self.other = Some(true);
        }
    }

    /// The value for `schemas::gate`: `None` means not known.
    pub(super) fn other(self) -> Option<bool> {
        self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> GoTime {
        text.parse().unwrap()
    }

    #[test]
    fn a_new_request_never_has_an_old_name() {
        let wall = Timestamp::from(time("2026-08-22T16:00:00Z"));
        let first = OwnRequest::new(wall, 0, None, None);
        assert_eq!(first.requested_at, GoTime::from(wall));
        assert!(first.replaces.is_zero());

        let second = OwnRequest::new(wall, 0, Some(&first), Some(first.requested_at));
        assert_eq!(second.requested_at, time("2026-08-22T16:00:00.000000001Z"));
        assert_eq!(second.replaces, first.requested_at);

        // The second request was never published: the third replaces the first.
        let third = OwnRequest::new(wall, 0, Some(&second), Some(first.requested_at));
        assert_eq!(third.requested_at, time("2026-08-22T16:00:00.000000002Z"));
        assert_eq!(third.replaces, first.requested_at);

        let foreign = time("2026-08-22T16:00:00.000000002Z");
        let fourth = OwnRequest::new(wall, 0, Some(&second), Some(foreign));
        assert_eq!(fourth.requested_at, time("2026-08-22T16:00:00.000000003Z"));
        assert!(fourth.replaces.is_zero(), "a request of another process is overwritten, but is not ours");

        let back = OwnRequest::new(Timestamp::UNIX_EPOCH, 0, Some(&second), None);
        assert_eq!(
            back.requested_at,
            GoTime::from(Timestamp::UNIX_EPOCH),
            "a clock that jumped back is no harm"
        );
    }

    #[test]
    fn both_the_new_and_the_replaced_request_are_ours() {
        let own = OwnRequest { requested_at: time("2026-01-02T00:00:00Z"), ..OwnRequest::default() };
        assert!(own.has_made(time("2026-01-02T00:00:00Z")));
        assert!(!own.has_made(time("2026-01-01T00:00:00Z")));
        assert!(!own.has_made(GoTime::ZERO), "a file without a time is not ours");
        let own = OwnRequest { replaces: time("2026-01-01T00:00:00Z"), ..own };
        assert!(own.has_made(time("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn an_answer_needs_a_change_after_the_publication() {
        use DrainStatus::{Complete, NotRequested, Requested};
        let old = OwnRequest::default();
        let knows = OwnRequest { seen_other_status: true, ..old };
        for (start, looks, other) in [
            (Seen::since_publication(), &[][..], Some(false)),
            (Seen::since_publication(), &[Complete, Complete], Some(false)),
            (Seen::since_publication(), &[Complete, Requested, Complete], Some(true)),
            (Seen::since_publication(), &[NotRequested, Complete], Some(true)),
            (Seen::recorded(&old), &[Complete], None),
            (Seen::recorded(&old), &[Requested, Complete], Some(true)),
            (Seen::recorded(&knows), &[Complete], Some(true)),
        ] {
            let mut seen = start;
            for &status in looks {
                seen.observe(status);
            }
            assert_eq!(seen.other(), other, "{start:?} {looks:?}");
        }
    }
}
