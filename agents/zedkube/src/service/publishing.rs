//! What others see, written.

use drain::Moment;
use runtime::{clock, error_chain};

use super::Service;
use crate::report::{report, status};

impl Service {
    /// Watches fail silently: say once why, and show it.
    fn note_trouble(&mut self) {
        let trouble = self.performer.trouble();
        if trouble != self.around.trouble {
            if let Some(text) = &trouble {
                tracing::warn!("nodedrain-step: the watches have failed: {text}");
            } else {
                tracing::info!("nodedrain-step: the watches work again");
            }
            self.around.trouble = trouble;
        }
    }

    /// A membership on disk says that a zedkube of ours has run, so it is not stored before EVE's cordon is settled. It
    /// is for the next boot: this one goes on without, and tries again with everything that is published.
    fn store_membership(&mut self) {
        if self.state.adopts {
            return;
        }
        match self.stored.store(self.state.member, self.state.slots.others) {
            Ok(()) => self.is_unstored = false,
            Err(error) if !self.is_unstored => {
                tracing::error!(
                    "what is known of the cluster cannot be stored for the next boot: {}",
                    error_chain(&error)
                );
                self.is_unstored = true;
            }
            Err(_) => {}
        }
    }

    /// Writes what is to be seen. A failure is said once and repeated with pauses.
    pub(super) fn publish(&mut self, now: Moment) {
        self.publish_at = Moment::NEVER;
        self.note_trouble();
        self.time.update(now, clock::wall());
        let report = report(&self.state, &self.policy, &self.around, &self.time, now);
        let was_failing = self.output.retry_at();
        if was_failing.is_some_and(|at| now < at) {
            self.publish_at = was_failing.unwrap_or(Moment::NEVER);
            return;
        }
        self.store_membership();
        match self.output.write(status(&self.state), &report) {
            Ok(()) if was_failing.is_some() => tracing::info!("status and report can be written again"),
            Ok(()) => {}
            Err(error) => {
                if was_failing.is_none() {
                    tracing::error!("NodeDrainStatus cannot be published: {}", error_chain(&error));
                }
                self.publish_at = self.output.failed(now);
            }
        }
    }
}
