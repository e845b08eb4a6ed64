//! The requests for a drain, and their answers.

use std::collections::BTreeMap;

use schemas::{DrainRequester, DrainStatus};
use serde::{Deserialize, Serialize};

/// The order in which the requesters are answered.
pub const ANSWERED: [DrainRequester; 3] =
    [DrainRequester::Update, DrainRequester::DeviceOp, DrainRequester::None];

/// How a request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// No answer yet.
    #[default]
    None,
    /// The node could not be cordoned.
    FailedCordon,
    /// The node could not be drained.
    FailedDrain,
    /// The node may go down.
    Complete,
    /// An operator has ordered that the node may go down; no drain takes that answer back.
    Forced,
}

impl Answer {
    /// The same as EVE's status; [`DrainStatus::Unknown`] if there is no answer yet.
    pub fn status(self) -> DrainStatus {
        match self {
            Self::None => DrainStatus::Unknown,
            Self::FailedCordon => DrainStatus::FailedCordon,
            Self::FailedDrain => DrainStatus::FailedDrain,
            Self::Complete | Self::Forced => DrainStatus::Complete,
        }
    }
}

/// One request for a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Request {
    /// The requester; never [`DrainRequester::Unset`].
    pub requester: DrainRequester,
    /// The reason for the request: `reboot`, an image's id, an operator's words.
    pub context: String,
    /// The request's own time, exactly as in its file: two requests with different times are different requests.
    pub requested_at: String,
    /// The agent in whose folder the request lies.
    pub publisher: String,
    /// Our answer.
    pub answer: Answer,
    /// The person who forced the answer, and the reason; empty unless the answer is [`Answer::Forced`].
    #[serde(default)]
    pub forced_by: String,
    /// The request outlasts boots: the node stays cordoned for it until it is withdrawn, whatever its answer.
    #[serde(default)]
    pub kept: bool,
}

impl Request {
    fn key(&self) -> (DrainRequester, String) {
        (self.requester, self.publisher.clone())
    }

    fn is_unanswered(&self) -> bool {
        self.answer == Answer::None
    }

    /// True if `later` is the same request. One that was kept and is not any more is another one: it needs a slot.
    fn is_same(&self, later: &Self) -> bool {
        self.requested_at == later.requested_at && self.context == later.context && (!self.kept || later.kept)
    }

    fn take_answer_back(&mut self) {
        self.answer = Answer::None;
        self.forced_by.clear();
    }
}

/// All requests, at most one per requester and publisher: several publishers may ask with an operator's number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(BTreeMap<(DrainRequester, String), Request>);

impl Requests {
    /// The requests as an earlier process recorded them.
    pub(crate) fn resumed(requests: Vec<Request>) -> Self {
        Self(requests.into_iter().map(|request| (request.key(), request)).collect())
    }

    /// Takes the present requests over. A request that has not changed keeps its answer. True if one of them is new or
    /// has changed.
    pub fn replace(&mut self, standing: Vec<Request>) -> bool {
        let mut any_new = false;
        let mut next = BTreeMap::new();
        for mut request in standing {
            match self.0.get(&request.key()) {
                Some(known) if known.is_same(&request) => {
                    request.answer = known.answer;
                    request.forced_by.clone_from(&known.forced_by);
                }
                _ => {
                    any_new = true;
                    request.take_answer_back();
                }
            }
            next.insert(request.key(), request);
        }
        self.0 = next;
        any_new
    }

    /// All of them, by requester.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.values()
    }

    /// True if there is no request.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next requester to be answered.
    pub fn next_unanswered(&self) -> Option<DrainRequester> {
        ANSWERED.into_iter().find(|requester| self.has_unanswered(*requester))
    }

    /// The requester whose number an in-progress status carries: the device operation if it has no answer yet, otherwise
    /// the update if it has none, otherwise the operator (number 1).
    pub fn in_progress(&self) -> DrainRequester {
        let waits = |requester: &DrainRequester| self.has_unanswered(*requester);
        [DrainRequester::DeviceOp, DrainRequester::Update]
            .into_iter()
            .find(waits)
            .unwrap_or(DrainRequester::None)
    }

    /// True if a request has no answer yet, was answered COMPLETE, or is kept: the node must stay cordoned for it.
    pub fn hold_the_node(&self) -> bool {
        let holds = |answer| matches!(answer, Answer::None | Answer::Complete | Answer::Forced);
        self.0.values().any(|request| request.kept || holds(request.answer))
    }

    /// A request is kept over boots.
    pub(crate) fn is_any_kept(&self) -> bool {
        self.0.values().any(|request| request.kept)
    }

    /// There are requests, all are kept over boots, and all have their answer.
    pub(crate) fn are_kept_and_answered(&self) -> bool {
        !self.is_empty() && self.0.values().all(|request| request.kept && !request.is_unanswered())
    }

    /// Answers the requests of one requester that have no answer yet.
    pub(crate) fn answer(&mut self, requester: DrainRequester, answer: Answer) {
        for request in self.of_mut(requester).filter(|request| request.is_unanswered()) {
            (request.answer, request.forced_by) = (answer, String::new());
        }
    }

    /// Sets the answer to one requester, by an operator's order; `by` names the operator and the reason.
    pub(crate) fn force(&mut self, requester: DrainRequester, by: &str) {
        for request in self.of_mut(requester) {
            (request.answer, request.forced_by) = (Answer::Forced, by.to_owned());
        }
    }

    /// The requester was answered COMPLETE, by a drain or because none was possible.
    pub(crate) fn has_been_told(&self, requester: DrainRequester) -> bool {
        self.of(requester).any(|request| request.answer == Answer::Complete)
    }

    /// Removes all answers, because a new drain begins. Answers that an operator ordered are kept.
    pub(crate) fn forget_answers(&mut self) {
        self.0
            .values_mut()
            .filter(|request| request.answer != Answer::Forced)
            .for_each(Request::take_answer_back);
    }

    /// Removes the answers of a failed drain from the requests for which `of` is true.
    pub(crate) fn reopen(&mut self, of: impl Fn(&Request) -> bool) {
        for request in self.0.values_mut() {
            if matches!(request.answer, Answer::FailedCordon | Answer::FailedDrain) && of(request) {
                request.take_answer_back();
            }
        }
    }

    /// Removes the answers that an operator ordered.
    pub(crate) fn take_forced_back(&mut self) {
        self.0
            .values_mut()
            .filter(|request| request.answer == Answer::Forced)
            .for_each(Request::take_answer_back);
    }

    /// The requester has a request without an answer.
    pub(crate) fn has_unanswered(&self, requester: DrainRequester) -> bool {
        self.of(requester).any(Request::is_unanswered)
    }

    fn of(&self, requester: DrainRequester) -> impl Iterator<Item = &Request> {
        self.0.values().filter(move |request| request.requester == requester)
    }

    fn of_mut(&mut self, requester: DrainRequester) -> impl Iterator<Item = &mut Request> {
        self.0.values_mut().filter(move |request| request.requester == requester)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(requester: DrainRequester, requested_at: &str) -> Request {
        let text = String::new;
        Request {
            requester,
            context: text(),
            requested_at: requested_at.into(),
            publisher: text(),
            answer: Answer::None,
            forced_by: text(),
            kept: false,
        }
    }

    #[test]
    fn an_unchanged_request_keeps_its_answer() {
        use DrainRequester::{DeviceOp, Update};
        let mut requests = Requests::default();
        assert!(requests.replace(vec![request(DeviceOp, "1")]));
        requests.answer(DeviceOp, Answer::Complete);
        assert!(!requests.replace(vec![request(DeviceOp, "1")]), "nothing new");
        assert_eq!(requests.next_unanswered(), None);
        assert!(requests.replace(vec![request(DeviceOp, "1"), request(Update, "1")]), "another requester");
        assert_eq!(requests.next_unanswered(), Some(Update));
        assert!(requests.replace(vec![request(DeviceOp, "2")]), "a new time");
        assert_eq!(requests.next_unanswered(), Some(DeviceOp));
        let changed = Request { context: "poweroff".into(), ..request(DeviceOp, "2") };
        assert!(requests.replace(vec![changed]), "a new context");
        let kept = Request { kept: true, ..request(Update, "1") };
        requests.replace(vec![request(Update, "1")]);
        requests.answer(Update, Answer::Complete);
        assert!(!requests.replace(vec![kept]), "kept from now on");
        assert!(requests.is_any_kept());
        assert!(requests.replace(vec![request(Update, "1")]), "not kept any more");
    }

    #[test]
    fn two_publishers_of_one_requester_have_a_request_each() {
        use DrainRequester::None as Operator;
        let by = |publisher: &str| Request { publisher: publisher.into(), ..request(Operator, "1") };
        let mut requests = Requests::default();
        requests.replace(vec![by("ebb")]);
        requests.answer(Operator, Answer::FailedDrain);
        assert!(requests.replace(vec![by("ebb"), by("zedkube")]), "another publisher");
        assert_eq!(requests.next_unanswered(), Some(Operator));
        requests.answer(Operator, Answer::Complete);
        let answers = |requests: &Requests| requests.iter().map(|request| request.answer).collect::<Vec<_>>();
        assert_eq!(answers(&requests), [Answer::FailedDrain, Answer::Complete]);
        assert!(!requests.replace(vec![by("zedkube")]), "the other one keeps its answer");
        assert_eq!(answers(&requests), [Answer::Complete]);
    }

    #[test]
    fn who_is_named_and_who_is_answered_first() {
        use DrainRequester::{DeviceOp, None as Operator, Update};
        let cases = [
            (vec![], Operator, Option::None),
            (vec![Operator], Operator, Some(Operator)),
            (vec![Update], Update, Some(Update)),
            (vec![DeviceOp], DeviceOp, Some(DeviceOp)),
            (vec![DeviceOp, Update], DeviceOp, Some(Update)),
            (vec![Operator, DeviceOp, Update], DeviceOp, Some(Update)),
        ];
        for (standing, named, first) in cases {
            let mut requests = Requests::default();
            requests.replace(standing.iter().map(|&requester| request(requester, "1")).collect());
            assert_eq!((requests.in_progress(), requests.next_unanswered()), (named, first), "{standing:?}");
        }
    }

    #[test]
    fn which_answers_hold_the_node() {
        for (answer, kept, holds) in [
            (Answer::None, false, true),
            (Answer::Complete, false, true),
            (Answer::Forced, false, true),
            (Answer::FailedCordon, false, false),
            (Answer::FailedDrain, false, false),
            (Answer::FailedDrain, true, true),
        ] {
            let mut requests = Requests::default();
            requests.replace(vec![Request { kept, ..request(DrainRequester::Update, "1") }]);
            requests.answer(DrainRequester::Update, answer);
            assert_eq!(requests.hold_the_node(), holds, "{answer:?} {kept}");
        }
    }
}
