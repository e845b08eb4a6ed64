//! An operator's orders: COMPLETE for one requester or all, or no drains until the next boot.
//!
//! An order is recorded first, then its file is renamed, then it is carried out. If zedkube dies in between, the order
//! is neither lost nor carried out twice. If another file had taken the place of the one that was read, it is put back
//! and read next.
//!
//! An order counts once: for the requests that are there when it comes, or, if there is none, for the first one within
//! `force.ttl`. If its requester was answered already, the order is used up: it must not let the next operation go
//! undrained.

use drain::time::Moment;
use schemas::{DrainRequester, Outcome};
use serde::{Deserialize, Serialize};

use crate::event::Order;
use crate::requests::{ANSWERED, Answer, Request, Requests};

/// The orders that are pending or in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Orders {
    /// An order that is recorded; its file is being renamed.
    pub pending: Option<Order>,
    /// An order of COMPLETE, for requests that exist or may still come.
    pub complete: Option<Forced>,
    /// The order that switches drains off.
    pub disabled: Option<Disabled>,
    /// The last order, if everyone it names had been answered COMPLETE before: it had no effect.
    pub needless: Option<Needless>,
}

/// An order that had no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Needless {
    /// The requester that the order names; [`DrainRequester::None`] means all.
    pub requester: DrainRequester,
    /// The person who gave the order, and the reason.
    pub by: String,
    /// When the order came.
    pub since: Moment,
    /// The outcome that the drain already had.
    pub outcome: Outcome,
}

/// An order of COMPLETE that is in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Forced {
    /// The requester that the order names; [`DrainRequester::None`] means all.
    pub requester: DrainRequester,
    /// The person who gave the order, and the reason.
    pub by: String,
    /// When the order came.
    pub since: Moment,
    /// The order has answered a request: later requests need a drain.
    pub used: bool,
    /// When the order ends if no request comes.
    pub until: Moment,
}

/// The order that switches drains off, in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Disabled {
    /// The person who gave the order, and the reason.
    pub by: String,
    /// When the order came.
    pub since: Moment,
}

/// True if an order for `meant` includes this requester.
pub(crate) fn is_meant(meant: DrainRequester, requester: DrainRequester) -> bool {
    meant == DrainRequester::None || meant == requester
}

impl Orders {
    /// True if this requester's requests are answered without a drain.
    pub(crate) fn covers(&self, requester: DrainRequester) -> bool {
        let by_force = self.complete.as_ref().is_some_and(|forced| is_meant(forced.requester, requester));
        self.disabled.is_some() || by_force
    }

    /// The next requester to be answered by an order.
    pub(crate) fn next_covered(&self, requests: &Requests) -> Option<DrainRequester> {
        ANSWERED.into_iter().find(|&requester| requests.has_unanswered(requester) && self.covers(requester))
    }

    /// The person who gave the order that is in effect, and the reason.
    pub(crate) fn by(&self) -> Option<&String> {
        let by_order = self.complete.as_ref().map(|forced| &forced.by);
        by_order.or_else(|| self.disabled.as_ref().map(|disabled| &disabled.by))
    }

    /// Notes that this requester was answered by the order in effect.
    pub(crate) fn answered(&mut self, requester: DrainRequester, requests: &mut Requests) {
        requests.force(requester, &self.by().cloned().unwrap_or_default());
        if let Some(forced) = &mut self.complete {
            forced.used = true;
        }
    }

    /// Ends an order that has answered a request: it must not answer requests that come later.
    pub(crate) fn spend(&mut self) {
        if self.complete.as_ref().is_some_and(|forced| forced.used) {
            self.complete = None;
        }
    }

    /// Ends what is over: an order that found no request in time, and the note about an order without effect once no
    /// request is left.
    pub(crate) fn expire(&mut self, requests: &Requests, now: Moment) {
        if requests.is_empty() {
            self.needless = None;
        }
        if self.complete.as_ref().is_some_and(|forced| forced.until <= now) {
            self.complete = None;
        }
    }
}

/// True if everyone whom the order names was answered COMPLETE already. Such an order must not wait for the next
/// operation.
pub(crate) fn has_all_answers(requests: &Requests, meant: DrainRequester) -> bool {
    let is_told = |request: &Request| matches!(request.answer, Answer::Complete | Answer::Forced);
    let mut meant = requests.iter().filter(|request| is_meant(meant, request.requester)).peekable();
    meant.peek().is_some() && meant.all(is_told)
}
