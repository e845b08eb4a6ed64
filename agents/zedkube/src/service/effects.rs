//! Effects carried out in their order; the record first.

use drain::Moment;
use pubsub::PublishError;
use runtime::error_chain;
use session::{Effect, Event};

use super::Service;

impl Service {
    /// Carries effects out in their order. A record that cannot be written holds all that comes after it back.
    pub(super) fn work_off(&mut self, now: Moment) {
        let Some((mut todo, _)) = self.held.take() else { return };
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::Record => {
                    if let Err(error) = self.write_record() {
                        let again = self.record.failed(now);
                        self.tell_unrecorded(&error);
                        todo.push_front(Effect::Record);
                        self.held = Some((todo, again));
                        return;
                    }
                }
                Effect::Publish if self.is_open => self.publish(now),
                Effect::Publish => {}
                Effect::TakeOverride => {
                    let renamed = self.overrides.take();
                    self.around.refused = self.refused();
                    self.held = Some((todo, now));
                    self.step(Event::OverrideTaken { renamed });
                    return self.work_off(now);
                }
                Effect::WakeAt(_) => {}
                effect @ (Effect::Look { .. }
                | Effect::Probe { .. }
                | Effect::Cordon { .. }
                | Effect::Uncordon { .. }
                | Effect::Adopt { .. }
                | Effect::ReadSlots { .. }
                | Effect::WriteSlots { .. }
                | Effect::AskHealth { .. }
                | Effect::Drain(_)) => {
                    if !self.is_offline {
                        self.performer.perform(effect, &self.state);
                    }
                }
            }
        }
    }

    fn write_record(&mut self) -> Result<(), PublishError> {
        self.record.write(&session::record::record(&self.state), &self.around.drain_id)?;
        if self.around.unrecorded.take().is_some() {
            tracing::info!("the DrainRecord can be written again");
        }
        Ok(())
    }

    /// Said once, and shown without showing what is not on record.
    fn tell_unrecorded(&mut self, error: &PublishError) {
        let text = format!("nothing goes on before the DrainRecord can be written: {}", error_chain(error));
        if self.around.unrecorded.as_ref() != Some(&text) {
            tracing::error!("{text}");
        }
        if let Err(error) = self.output.complain(&text) {
            tracing::debug!("nor can that be shown: {}", error_chain(&error));
        }
        self.around.unrecorded = Some(text);
    }
}

/// The cluster has changed by our doing.
pub(super) fn answers_a_write(event: &Event) -> bool {
    match event {
        Event::Cordoned { .. }
        | Event::Uncordoned { .. }
        | Event::Adopted { .. }
        | Event::Slots { .. }
        | Event::Answer { .. } => true,
        Event::Requests(_)
        | Event::Facts(_)
        | Event::Looked { .. }
        | Event::Probed { .. }
        | Event::SlotsChanged
        | Event::Health { .. }
        | Event::Override(_)
        | Event::OverrideTaken { .. }
        | Event::Picture(_)
        | Event::Unseen { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Tick => false,
    }
}
