//! Checks whether COMPLETE is given for a true reason.

use std::time::Duration;

use schemas::DrainRequester;
use schemas::Outcome;
use session::Phase;
use session::{Answer, Request, State};

use super::{Asked, Grant, Monitor};
use crate::rule::Rule;
use crate::scenario::Scenario;

/// Greatest age of the list by which zedkube says that there is no peer: it lists nodes every 5 s, and a list may take
/// 3 s.
const OLDEST_LIST_MS: u64 = 10_000;

impl Monitor {
    /// Checks whether the COMPLETE to this requester is true.
    pub(super) fn judge(
        &mut self,
        requester: DrainRequester,
        asked: &Asked,
        state: &State,
        now: u64,
        scenario: &Scenario,
    ) -> Grant {
        let of = |request: &&Request| request.requester == requester;
        let answer = state.requests.iter().find(of).map(|request| request.answer);
        let lasted = |seen: Option<(u64, u64)>, span: Duration| {
            // If the last call brought an answer, patience is not the problem: `is_fresh` reports it.
            seen.is_none_or(|(first, _)| u128::from(now - first) >= span.as_millis())
        };
        let (failing, down) = (self.failing, self.peer_seen_down);
        let (is_true, grant) = match (answer, &state.phase) {
            (Some(Answer::Forced), _) => {
                let is_forced = self.is_disabled
                    || self.forced.contains(&requester)
                    || self.forced.contains(&DrainRequester::None);
                (is_forced, Grant::Undrained)
            }
            (_, Phase::Complete { outcome: Outcome::ApiUnreachable, .. }) => {
                self.is_fresh(failing, state);
                // The peer may be down, and two nodes must not be.
                let timeout = scenario.policy.unreachable_timeout;
                let longer = if self.peer_slot.on_record { scenario.policy.down_max } else { timeout };
                (lasted(failing, timeout.max(longer)), Grant::Undrained)
            }
            (_, Phase::Complete { outcome: Outcome::NoSchedulablePeer, .. }) => {
                self.is_fresh(down, state);
                (lasted(down, scenario.policy.peer_window), Grant::Undrained)
            }
            (_, _) => (asked.was_empty, Grant::Drained),
        };
        if !is_true {
            let phase = &state.phase;
            self.broken(
                Rule::AnswersAreTrue,
                format!("{requester} is answered COMPLETE: {answer:?} in {phase:?}"),
            );
        }
        grant
    }

    /// The moment of the decision counts: an answer on record is published by the next process.
    fn is_fresh(&mut self, seen: Option<(u64, u64)>, state: &State) {
        let decided = state.since.0;
        if seen.is_none_or(|(_, last)| decided.saturating_sub(last) > OLDEST_LIST_MS) {
            self.broken(
                Rule::NoPatienceLost,
                "COMPLETE without a drain, but the last list is old or contradicts it",
            );
        }
    }
}
