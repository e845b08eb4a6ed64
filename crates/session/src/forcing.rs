//! An operator's word: COMPLETE for some or all who ask, or no drains until the next boot.
//!
//! An order is on record before its file is renamed, and carried out after: whatever dies in between, it is neither
//! lost nor carried out twice.

use drain::time::Moment;
use schemas::{DrainRequester, Outcome};
use serde::{Deserialize, Serialize};

use crate::event::Order;
use crate::requests::{ANSWERED, Answer, Request, Requests};

/// The orders that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Forcing {
    /// Recorded; its file is being renamed.
    pub pending: Option<Order>,
    /// COMPLETE for requests that stand or may still come.
    pub complete: Option<Forced>,
    /// No drains.
    pub disabled: Option<Disabled>,
    /// The last order came when all whom it names had their COMPLETE already: it was spent at once.
    pub needless: Option<Needless>,
}

/// An order that had nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Needless {
    /// For whom it was meant; everybody if that is [`DrainRequester::None`].
    pub requester: DrainRequester,
    /// Who gave it, and why.
    pub by: String,
    /// When it came.
    pub since: Moment,
    /// How the drain had ended.
    pub outcome: Outcome,
}

/// COMPLETE by force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Forced {
    /// For whom; everybody if that is [`DrainRequester::None`].
    pub requester: DrainRequester,
    /// Who gave the order, and why.
    pub by: String,
    /// Since when.
    pub since: Moment,
    /// It has answered a request: others have to ask the cluster again.
    pub used: bool,
    /// Until then it waits for a request.
    pub until: Moment,
}

/// Drains are switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Disabled {
    /// Who gave the order, and why.
    pub by: String,
    /// Since when.
    pub since: Moment,
}

/// An order for `meant` is for this requester, too.
pub(crate) fn is_meant(meant: DrainRequester, requester: DrainRequester) -> bool {
    meant == DrainRequester::None || meant == requester
}

impl Forcing {
    /// The requester's requests are answered without a drain.
    pub(crate) fn covers(&self, requester: DrainRequester) -> bool {
        let by_force = self.complete.as_ref().is_some_and(|forced| is_meant(forced.requester, requester));
        self.disabled.is_some() || by_force
    }

    /// The next requester to be answered by force.
    pub(crate) fn next_covered(&self, requests: &Requests) -> Option<DrainRequester> {
        ANSWERED.into_iter().find(|&requester| requests.has_unanswered(requester) && self.covers(requester))
    }

    /// Who gave the order that is in force, and why.
    pub(crate) fn by(&self) -> Option<&String> {
        let by_order = self.complete.as_ref().map(|forced| &forced.by);
        by_order.or_else(|| self.disabled.as_ref().map(|disabled| &disabled.by))
    }

    /// The requester's request has been answered by the order that is in force.
    pub(crate) fn answered(&mut self, requester: DrainRequester, requests: &mut Requests) {
        requests.force(requester, &self.by().cloned().unwrap_or_default());
        if let Some(forced) = &mut self.complete {
            forced.used = true;
        }
    }

    /// An order that has answered whom it was meant for does not answer who asks after that.
    pub(crate) fn spend(&mut self) {
        if self.complete.as_ref().is_some_and(|forced| forced.used) {
            self.complete = None;
        }
    }

    /// Forgets what is over: an order that found no request in time, and words about requests that are gone.
    pub(crate) fn expire(&mut self, requests: &Requests, now: Moment) {
        if requests.is_empty() {
            self.needless = None;
        }
        if self.complete.as_ref().is_some_and(|forced| forced.until <= now) {
            self.complete = None;
        }
    }
}

/// All whom the order means have been told COMPLETE already: an order counts for what it was meant, and must not wait for
/// the next operation.
pub(crate) fn has_all_answers(requests: &Requests, meant: DrainRequester) -> bool {
    let is_told = |request: &Request| matches!(request.answer, Answer::Complete | Answer::Forced);
    let mut meant = requests.iter().filter(|request| is_meant(meant, request.requester)).peekable();
    meant.peek().is_some() && meant.all(is_told)
}
