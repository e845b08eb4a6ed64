//! Checks what must be true once there are no more faults and nothing changes.

use device_op::facts::Kind;
use schemas::{CommandState, DrainStatus};
use session::OWNER;

use super::{Fate, Monitor};
use crate::files::Files;
use crate::requester::publisher;
use crate::rule::Rule;
use crate::server::Server;

impl Monitor {
    /// Checks the state when nothing has changed for a long time and there are no more faults.
    pub(crate) fn at_rest(&mut self, files: &Files, server: &Server, running: &str) {
        let report = files.run.report.as_deref();
        let mut holds = false;
        for (requester, request) in &files.run.requests {
            let line = report.and_then(|report| report.line_of(publisher(*requester), request.requested_at));
            let answer = line.map(|line| line.answer);
            match answer.unwrap_or_default() {
                DrainStatus::Complete => holds = true,
                DrainStatus::FailedCordon | DrainStatus::FailedDrain => {}
                _ => {
                    let text = format!("the request of {requester} is not answered: {answer:?}");
                    self.broken(Rule::EveryRequestIsAnswered, text);
                }
            }
        }
        let open = self.commands.iter().find(|(_, (_, fate))| *fate == Fate::Open);
        if let Some(((source, operation), (counter, _))) = open {
            let text = format!("{operation} {counter} of {source} was not carried out");
            self.broken(Rule::EveryCommandIsCarriedOut, text);
        }
        let lines = files.run.device_op.as_ref().map(|status| status.commands.as_slice()).unwrap_or_default();
        let is_said = |kind: &Kind, counter: u32| {
            lines.iter().any(|line| {
                ((line.source, line.operation), line.counter, line.state)
                    == (*kind, counter, CommandState::Failed)
            })
        };
        let refused = self.commands.iter().filter(|(_, (_, fate))| *fate == Fate::Refused);
        if let Some((kind, _)) = refused.clone().find(|(kind, (counter, _))| !is_said(kind, *counter)) {
            let text = format!("{kind:?} was not carried out, and no agent reports that");
            self.broken(Rule::EveryCommandIsCarriedOut, text);
        }
        let is_failed =
            |uuid: &String| files.run.images.get(uuid).is_some_and(|image| !image.error.is_empty());
        let waiting = |(uuid, config): &(&String, &schemas::BaseOsConfig)| {
            config.activate && config.base_os_version != running && !is_failed(uuid)
        };
        if files.run.configs.iter().any(|config| waiting(&config)) {
            self.broken(Rule::EveryCommandIsCarriedOut, "the image that is wanted does not run");
        }
        self.nothing_is_left(server, holds);
    }

    fn nothing_is_left(&mut self, server: &Server, holds: bool) {
        if holds {
            return;
        }
        let own = &server.own;
        if own.cordoned_by.as_deref() == Some(OWNER) || (own.cordoned && !self.is_foreign) {
            self.broken(Rule::NoCordonIsLeft, format!("cordoned {}, by {:?}", own.cordoned, own.cordoned_by));
        }
        if server.holds_slot() {
            self.broken(Rule::NoSlotIsLeft, "our entry is in the table");
        }
    }
}
