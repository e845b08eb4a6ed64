//! The API server: whether it answers, and when it is asked next.

use std::time::Duration;

use drain::outage::Outage;
use drain::time::Moment;

use crate::effect::Effect;
use crate::event::Trouble;
use crate::turn::Turn;

/// The API server, as it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// It has not answered since then.
    pub away_since: Option<Moment>,
    /// Start of the outage that the zedkube before this one has recorded. It counts once this process has not reached the
    /// server either.
    pub away_before: Option<Moment>,
    /// Whether its failures are an outage: only then an attempt's clocks stand still.
    pub outage: Outage,
    /// When it came back from its last outage, if there was one.
    pub back: Option<Moment>,
    /// Its last failure.
    pub error: String,
    /// A look or probe with this serial is on its way.
    pub asked: Option<u32>,
    /// The next one is due then.
    pub next: Moment,
}

impl Api {
    /// As the process before this one has left it; asked at once.
    pub(crate) fn resumed(away_before: Option<Moment>, now: Moment) -> Self {
        Self { away_before, next: now, ..Self::default() }
    }

    /// It has not answered a call, or has (`None`, and every refusal). Gives what an attempt has to know: its clocks stand
    /// still while the server is away.
    pub(crate) fn heard(&mut self, trouble: Option<&Trouble>, now: Moment) -> Option<drain::Event> {
        match trouble {
            Some(Trouble::Unreachable(text)) => {
                self.error.clone_from(text);
                self.has_not_answered(now);
                self.outage.failed(now).then_some(drain::Event::ApiAway)
            }
            None | Some(Trouble::Denied(_) | Trouble::Other(_)) => {
                (self.away_before, self.away_since) = (None, None);
                let is_back = self.outage.answered();
                if is_back {
                    self.back = Some(now);
                }
                is_back.then_some(drain::Event::ApiBack)
            }
        }
    }

    /// The driver of the attempt has found out that it is away, or back. Asked at once, for the reason.
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

    /// A look or a probe was answered; the next one is due after this pause.
    pub(crate) fn answered(&mut self, serial: u32, next: Moment) {
        if self.asked == Some(serial) {
            (self.asked, self.next) = (None, next);
        }
    }

    /// The next look or probe comes no later than this.
    pub(crate) fn ask_by(&mut self, at: Moment) {
        self.next = self.next.min(at);
    }

    /// What is on its way counts no more; asked at once.
    pub(crate) fn ask_anew(&mut self, now: Moment) {
        (self.asked, self.next) = (None, now);
    }

    /// Asks for a look at all nodes, or for one at ours, if it is time and none is on its way; says when to come again.
    pub(crate) fn pursue(&mut self, wants_all_nodes: bool, turn: &mut Turn<'_>) -> Option<Moment> {
        if self.asked.is_some() {
            return None;
        }
        if turn.now < self.next {
            return Some(self.next);
        }
        let ask = |serial| if wants_all_nodes { Effect::Look { serial } } else { Effect::Probe { serial } };
        self.asked = Some(turn.send(ask));
        None
    }

    /// It has been away for so long.
    pub(crate) fn is_away_for(&self, span: Duration, now: Moment) -> bool {
        self.away_since.is_some_and(|since| since + span <= now)
    }
}
