//! Carries effects out in their order, the record first.

use drain::Moment;
use pubsub::PublishError;
use runtime::error_chain;
use session::{Effect, Event, unrecorded};

use super::Service;

impl Service {
    /// Carries effects out in their order. Effects that need a record wait until it can be written.
    pub(super) fn work_off(&mut self, effects: Vec<Effect>, now: Moment) {
        let mut taken = None;
        for effect in effects {
            match effect {
                // These are done before, in `decide`.
                Effect::Record | Effect::WakeAt(_) => {}
                Effect::Publish if self.is_open => self.publish(now),
                Effect::Publish => {}
                Effect::TakeOverride => taken = Some(self.take_override()),
                effect @ (Effect::ListNodes { .. }
                | Effect::SampleNodes { .. }
                | Effect::Probe { .. }
                | Effect::Cordon { .. }
                | Effect::Uncordon { .. }
                | Effect::Adopt { .. }
                | Effect::MarkWithoutSlot { .. }
                | Effect::ReadSlots { .. }
                | Effect::WriteSlots { .. }
                | Effect::AskHealth { .. }
                | Effect::Drain(_)) => {
                    if self.record_again.is_some() && unrecorded::has_to_wait(&effect, &self.state) {
                        self.held.push(effect);
                    } else {
                        self.performer.perform(effect, &self.state);
                    }
                }
            }
        }
        // Drops effects that the state does not want any more, and duplicates, so the queue never holds more than the
        // state asks for.
        let mut waiting: Vec<Effect> = Vec::new();
        for effect in std::mem::take(&mut self.held) {
            if unrecorded::is_wanted(&effect, &self.state) && !waiting.contains(&effect) {
                waiting.push(effect);
            }
        }
        self.held = waiting;
        if let Some(renamed) = taken {
            self.step(Event::OverrideTaken { renamed });
        }
    }

    fn take_override(&mut self) -> bool {
        let renamed = self.overrides.take();
        if self.overrides.has_another() {
            self.doubt_until = Moment(0);
        }
        self.around.refused = self.refused();
        renamed
    }

    /// Tries again to write the record; if that works, everything that waited goes on.
    pub(super) fn put_on_record(&mut self, now: Moment) {
        if !self.is_on_record(now) {
            self.state.is_unrecorded = true;
            self.publish_at = self.publish_at.min(now);
            return;
        }
        if std::mem::take(&mut self.state.is_unrecorded) {
            tracing::info!("the DrainRecord can be written again");
            self.step(Event::Tick);
        }
        for effect in std::mem::take(&mut self.held) {
            self.performer.perform(effect, &self.state);
        }
    }

    /// Writes the record, unless a write has failed a moment ago. True if the record on disk is up to date.
    pub(super) fn is_on_record(&mut self, now: Moment) -> bool {
        if self.record_again.is_some_and(|at| now < at) {
            return false;
        }
        let record = session::record::record(&self.state);
        match self.record.write(&record, &self.around.drain_id) {
            Ok(()) => {
                self.record_again = None;
                self.around.unrecorded = None;
                true
            }
            Err(error) => {
                self.record_again = Some(self.record.failed(&record, now));
                self.tell_unrecorded(&error);
                false
            }
        }
    }

    /// Logs the failure once; the report shows it as long as it lasts.
    fn tell_unrecorded(&mut self, error: &PublishError) {
        let text = format!("drains are paused: zedkube cannot write its DrainRecord: {}", error_chain(error));
        if self.around.unrecorded.as_ref() != Some(&text) {
            tracing::error!("{text}");
        }
        self.around.unrecorded = Some(text);
    }
}
