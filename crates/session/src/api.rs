//! The API server: whether it answers, and when it is asked next.

use std::time::Duration;

use drain::outage::Outage;
use drain::time::Moment;

use crate::context::StepContext;
use crate::effect::Effect;
use crate::event::CallError;

/// The state of the API server, by the answers to our calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// Since when the server has not answered.
    pub away_since: Option<Moment>,
    /// Start of the outage that the previous zedkube process recorded. It counts as soon as this process cannot reach
    /// the server either.
    pub away_before: Option<Moment>,
    /// Whether the failures are long enough to be an outage: only then an attempt's clocks stop.
    pub outage: Outage,
    /// When the server came back from its last outage, if there was one.
    pub back: Option<Moment>,
    /// The text of the last failure.
    pub error: String,
    /// The serial of the list or probe that is in flight.
    pub asked: Option<u32>,
    /// Since when all lists and probes have failed, for whatever reason.
    pub failing_since: Option<Moment>,
    /// The last list or probe had no answer, or only that the server is too busy: other calls have to wait.
    pub is_overtaxed: bool,
    /// When the last list or probe was sent.
    pub sent: Moment,
    /// When the next list or probe is due.
    pub next: Moment,
}

/// What the next call has to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// All nodes.
    All,
    /// Whether nodes have come or gone, and whether one of the first can take pods.
    Sample,
    /// Our Node.
    Own,
}

/// A call ends within this time, unless the device was suspended meanwhile: the longest deadline is 60 s.
const CALL_ENDS: Duration = Duration::from_secs(75);

impl Api {
    /// The state that the previous process recorded; the server is asked at once.
    pub(crate) fn resumed(away_before: Option<Moment>, now: Moment) -> Self {
        Self { away_before, next: now, ..Self::default() }
    }

    /// Notes whether a call was answered (`None`, and every refusal) or not. Gives the event for the attempt, if an
    /// outage begins or ends: its clocks stop meanwhile.
    pub(crate) fn heard(&mut self, call_error: Option<&CallError>, now: Moment) -> Option<drain::Event> {
        match call_error {
            Some(CallError::Unreachable(text)) => {
                self.error.clone_from(text);
                self.has_not_answered(now);
                self.outage.failed(now).then_some(drain::Event::ApiAway)
            }
            None
            | Some(
                CallError::Denied(_) | CallError::Elsewhere(_) | CallError::Busy(_) | CallError::Other(_),
            ) => {
                (self.away_before, self.away_since) = (None, None);
                let is_back = self.outage.answered();
                if is_back {
                    self.back = Some(now);
                }
                is_back.then_some(drain::Event::ApiBack)
            }
        }
    }

    /// The attempt's driver has noticed that the server is away, or back. If it is away, the session asks at once as
    /// well, to learn the reason.
    pub(crate) fn driver_says(&mut self, is_away: bool, now: Moment) {
        if is_away {
            self.has_not_answered(now);
            self.outage.count(now);
            self.ask_by(now);
        } else {
            self.heard(None, now);
        }
    }

    fn has_not_answered(&mut self, now: Moment) {
        if self.away_since.is_none() {
            self.away_since = self.away_before.take().or(Some(now));
        }
    }

    /// Notes how a list or probe has ended.
    pub(crate) fn note_query(&mut self, call_error: Option<&CallError>, now: Moment) {
        self.failing_since = call_error.map(|_| self.failing_since.unwrap_or(now));
        self.is_overtaxed = matches!(call_error, Some(CallError::Unreachable(_) | CallError::Busy(_)));
    }

    /// Notes that the list or probe with this serial was answered; the next one is due at `next`.
    pub(crate) fn answered(&mut self, serial: u32, next: Moment) {
        if self.asked == Some(serial) {
            (self.asked, self.next) = (None, next);
        }
    }

    /// The next list or probe is sent no later than `at`.
    pub(crate) fn ask_by(&mut self, at: Moment) {
        self.next = self.next.min(at);
    }

    /// Ignores the call that is in flight, and asks again at once.
    pub(crate) fn ask_anew(&mut self, now: Moment) {
        (self.asked, self.next) = (None, now);
    }

    /// Sends this list or probe, if it is time and none is in flight. Gives the time of the next one.
    pub(crate) fn pursue(&mut self, query: Query, context: &mut StepContext<'_>) -> Option<Moment> {
        if self.asked.is_some() {
            return None;
        }
        if context.now < self.next {
            return Some(self.next);
        }
        let ask = |serial| match query {
            Query::All => Effect::ListNodes { serial },
            Query::Sample => Effect::SampleNodes { serial },
            Query::Own => Effect::Probe { serial },
        };
        (self.asked, self.sent) = (Some(context.send(ask)), context.now);
        None
    }

    /// A failure that is heard now says how the server is now. It does not if the device was suspended during the call:
    /// then the call had failed before, and the server may have come back since.
    pub(crate) fn is_news(&self, now: Moment) -> bool {
        now.since(self.sent) <= CALL_ENDS
    }

    /// The server has been away for at least `span`.
    pub(crate) fn is_away_for(&self, span: Duration, now: Moment) -> bool {
        self.away_since.is_some_and(|since| since + span <= now)
    }
}
