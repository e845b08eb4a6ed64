//! Publishes the status and the report.

use std::time::Duration;

use drain::Moment;
use runtime::{clock, error_chain};

use super::Service;
use crate::conditions::said;
use crate::preflight::conditions;
use crate::report::{report, status};

/// Interval at which our files are written again if another process has removed them: without them no operation would
/// ever be let through.
const REPUBLISH_INTERVAL: Duration = Duration::from_secs(10);

impl Service {
    /// Notes whether the watches work, and logs a change once.
    fn note_trouble(&mut self) {
        let watch_error = self.performer.watch_error();
        if watch_error != self.around.watch_error {
            if let Some(text) = &watch_error {
                tracing::warn!("nodedrain-step: a watch has failed: {text}");
            } else {
                tracing::info!("nodedrain-step: the watches work again");
            }
            self.around.watch_error = watch_error;
        }
    }

    /// Stores what the next boot has to know. A membership on disk means that a zedkube of ours has run, so it is not
    /// stored before EVE's cordon is adopted. If the write fails, this boot goes on without it; the report says so, and
    /// the next publication tries again.
    fn store_membership(&mut self) {
        if self.state.adopts {
            return;
        }
        if self.stored.is_cordon_forgotten() {
            tracing::warn!(
                "what zedkube has left on another node is forgotten: a person has removed OwnCordon"
            );
            self.state.remembered = None;
        }
        if self.stored.are_holders_forgotten() {
            tracing::warn!(
                "the slots that were lost with their table are forgotten: a person has removed KnownHolders"
            );
            self.state.slots.observed.forget_lost();
        }
        let stored = self.stored.store(self.state.member, self.state.known_holders());
        let error = stored.err().map(|error| error_chain(&error));
        if let Some(text) = error.as_ref().filter(|text| self.around.unstored.as_ref() != Some(text)) {
            tracing::error!(
                "the membership and the slots of other nodes cannot be stored for the next boot: {text}"
            );
        }
        self.around.unstored = error;
        // Needed only for texts; tried again with the next publication.
        if let Err(error) = self.stored.store_cordon(self.state.remembered.as_ref()) {
            tracing::debug!(
                "the node that carries our cordon cannot be stored for the next boot: {}",
                error_chain(&error)
            );
        }
    }

    /// Publishes status and report. A failure is logged once, and tried again with pauses.
    pub(super) fn publish(&mut self, now: Moment) {
        self.publish_at = Moment::NEVER;
        self.note_trouble();
        self.time.update(now, clock::wall());
        self.around.is_paced = self.performer.is_paced();
        let has_no_means = self.inbox.has_no_means(self.context.boot_id());
        self.around.preflight = {
            let settings = self.settings.current();
            let conditions = conditions(self.state.own.as_ref(), &settings.node.conditions);
            self.performer.preflight.found(&self.time, has_no_means, settings.cluster.unconfined, conditions)
        };
        let is_alone = !self.state.facts.has_kubeconfig;
        self.around.kubeconfig_places = is_alone.then(|| self.performer.kubeconfig_places());
        let was_failing = self.output.retry_at();
        let waits_until = was_failing.filter(|at| now < *at);
        if waits_until.is_none() {
            self.store_membership();
        }
        let report = report(&self.state, &self.policy, &self.around, &self.time, now);
        self.said = said(&self.state, &report);
        let action = self.inbox.device_action(self.context.boot_id());
        self.recorder.look(&self.state, status(&self.state), &report, action, now);
        let report = report.bounded();
        if let Some(own) = &self.state.own {
            self.events.look((&own.name, &own.uid), self.said.as_ref(), &report, now);
        }
        if let Some(at) = waits_until {
            self.publish_at = at;
            return;
        }
        match self.output.write(status(&self.state), &report) {
            Ok(()) => {
                if was_failing.is_some() {
                    tracing::info!("status and report can be written again");
                }
                self.notifier.look(status(&self.state), report);
                self.publish_at = now + REPUBLISH_INTERVAL;
            }
            Err(error) => {
                if was_failing.is_none() {
                    tracing::error!("NodeDrainStatus cannot be published: {}", error_chain(&error));
                }
                self.publish_at = self.output.failed(now);
            }
        }
    }
}
