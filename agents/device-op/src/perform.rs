//! The hands of device-op: looks at files, and does what a step wants.

use pubsub::store::{create_folder, write_durably};
use pubsub::{Backup, PathWatch, Persistence, PublishError, Publisher, StoreError, Subscription, TopicKey};
use runtime::requester::{Listen, WithdrawError};
use runtime::siblings::NodeAgentView;
use runtime::{AgentContext, OwnRequest, Requester, SettingsWatch, clock};
use schemas::{
    BootReason, DeviceAction, DeviceOpStatus, DeviceOpsCmd, DrainRequester, GoTime, Operation,
    ZedAgentStatus, agent, to_bytes,
};

use crate::counters::{self, Counters};
use crate::effect::Effect;
use crate::facts::Facts;
use crate::looking;
use crate::operation::Policy;
use crate::record::OperationRecord;
use crate::state::State;

/// EVE's number of a configuration that was read well, and of a device that is online.
const CONFIG_GET_SUCCESS: u8 = 1;
const DEVICE_ONLINE: u8 = 1;

/// The files of device-op.
#[derive(Debug)]
pub(crate) struct Desk {
    context: AgentContext,
    settings: SettingsWatch,
    record: Publisher<OperationRecord>,
    status: Publisher<DeviceOpStatus>,
    command: Publisher<ZedAgentStatus>,
    requester: Requester,
    commands: Subscription<DeviceOpsCmd>,
    action: Subscription<DeviceAction>,
    counters: Counters,
    counter_files: PathWatch,
}

/// An effect that was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EffectError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Withdraw(#[from] WithdrawError),
    #[error("cannot record the counter of {operation}")]
    Counter { operation: Operation, source: StoreError },
}

impl Desk {
    pub(crate) fn open(context: &AgentContext) -> Result<Self, crate::RunError> {
        let (root, name, lock) = (context.root(), context.name(), context.lock());
        let volatile = Persistence::Volatile;
        let record = Publisher::open(root, name, Persistence::Persistent, lock)?;
        let recorded: Option<OwnRequest> =
            record.get(&TopicKey::global()).and_then(|record: &OperationRecord| record.request);
        Ok(Self {
            record,
            status: Publisher::open(root, name, volatile, lock)?.served()?,
            command: Publisher::open(root, name, volatile, lock)?.served()?,
            requester: Requester::open(context, DrainRequester::DeviceOp, recorded)?,
            commands: Subscription::open(root, agent::CONTROLLER, volatile),
            action: Subscription::open(root, agent::NODEAGENT, volatile),
            counters: Counters::default(),
            counter_files: PathWatch::new(counters::paths(root)),
            settings: context.settings(),
            context: context.clone(),
        })
    }

    /// The state as the files have it.
    pub(crate) fn resume(&self) -> State {
        let key = TopicKey::global();
        let shown = self.status.get(&key).cloned().unwrap_or_default();
        let command = self.command.get(&command_key()).and_then(given);
        State::resume(self.record.get(&key).cloned(), shown, command, self.context.boot_id())
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy { retry: self.settings.current().device_op.retry, boot_id: self.context.boot_id().to_owned() }
    }

    /// Returns when a file that matters may have changed. Can be dropped and called again.
    pub(crate) async fn changed(&mut self, listen: Listen) {
        tokio::select! {
            () = self.commands.changed() => {}
            () = self.action.changed() => {}
            () = self.counter_files.changed() => {}
            () = self.settings.changed() => {}
            () = self.requester.changed(listen) => {}
        }
    }

    /// Reads everything anew.
    pub(crate) fn look(&mut self, state: &State) -> Facts {
        let root = self.context.root();
        let commands =
            Operation::ALL.into_iter().map(|operation| (operation, looking::command(root, operation)));
        let commands = commands.collect();
        let counters = self.counters.look(root);
        let gate = (state.listen() == Listen::ToGate).then(|| self.requester.ask());
        let needs_no_pause = state.listen() == Listen::ToReport && self.requester.needs_no_pause();
        Facts {
            commands,
            counters: counters.recorded,
            gate,
            needs_no_pause,
            own: self.requester.own(),
            next: self.requester.next_request(),
            nodeagent: NodeAgentView::read(self.context.root()),
            refused: counters.refused.into_iter().chain(self.refused()).collect(),
            wall: GoTime::from(clock::wall()),
        }
    }

    /// The other files that are refused; those of the gate are in its words.
    fn refused(&self) -> Vec<String> {
        let refused = self.commands.refused().into_iter().chain(self.action.refused());
        refused.map(|refusal| refusal.to_string()).chain(looking::misnamed(&self.commands)).collect()
    }

    /// Does the effects in their order, up to the first that fails.
    pub(crate) fn perform(&mut self, effects: &[Effect]) -> Result<(), EffectError> {
        effects.iter().try_for_each(|effect| self.perform_one(effect))
    }

    fn perform_one(&mut self, effect: &Effect) -> Result<(), EffectError> {
        let key = TopicKey::global();
        match effect {
            Effect::ClearCommand => self.publish_command(None)?,
            Effect::Record(record) if record.is_empty() => {
                self.record.unpublish(&key)?;
            }
            Effect::Record(record) => {
                self.record.publish(&key, record)?;
            }
            Effect::Counter(operation, command) => self.write_counter(*operation, command)?,
            Effect::Withdraw => {
                self.requester.withdraw()?;
            }
            Effect::Request { own, operation } => {
                self.requester.publish(*own, operation.name())?;
            }
            Effect::Status(status) => self.publish_status(status)?,
            Effect::Command { operation, reason } => self.publish_command(Some((*operation, reason)))?,
            Effect::WakeAt(_) => {}
        }
        Ok(())
    }

    pub(crate) fn publish_status(&mut self, status: &DeviceOpStatus) -> Result<(), PublishError> {
        self.status.publish(&TopicKey::global(), status).map(|_| ())
    }

    fn publish_command(&mut self, command: Option<(Operation, &String)>) -> Result<(), EffectError> {
        self.command.publish(&command_key(), &zedagent_status(command))?;
        Ok(())
    }

    fn write_counter(&self, operation: Operation, command: &DeviceOpsCmd) -> Result<(), EffectError> {
        let folder = self.context.root().join(counters::FOLDER);
        let bytes = to_bytes(command);
        create_folder(&folder)
            .and_then(|()| write_durably(&folder, operation.counter_file(), &bytes, Backup::None))
            .map_err(|source| EffectError::Counter { operation, source })
    }
}

fn command_key() -> TopicKey {
    TopicKey::parse(agent::ZEDAGENT).unwrap_or_else(|_| TopicKey::global())
}

/// The command in a status, with its reason.
fn given(status: &ZedAgentStatus) -> Option<(Operation, String)> {
    let is_given = |operation: &Operation| match operation {
        Operation::Reboot => status.reboot_cmd,
        Operation::Shutdown => status.shutdown_cmd,
        Operation::Poweroff => status.poweroff_cmd,
    };
    let operation = Operation::ALL.into_iter().find(is_given)?;
    Some((operation, status.requested_reboot_reason.clone()))
}

/// EVE's status with at most one command.
fn zedagent_status(command: Option<(Operation, &String)>) -> ZedAgentStatus {
    let operation = command.map(|(operation, _)| operation);
    let (boot_reason, device_state) = match operation {
        None => (BootReason::NONE, DEVICE_ONLINE),
        Some(Operation::Reboot) => (BootReason::REBOOT_COMMAND, 2),
        Some(Operation::Shutdown) => (BootReason::NONE, 6),
        Some(Operation::Poweroff) => (BootReason::POWEROFF_COMMAND, 7),
    };
    ZedAgentStatus {
        name: agent::ZEDAGENT.to_owned(),
        config_get_status: CONFIG_GET_SUCCESS,
        reboot_cmd: operation == Some(Operation::Reboot),
        shutdown_cmd: operation == Some(Operation::Shutdown),
        poweroff_cmd: operation == Some(Operation::Poweroff),
        requested_reboot_reason: command.map_or_else(String::new, |(_, reason)| reason.clone()),
        requested_boot_reason: boot_reason,
        device_state,
        ..ZedAgentStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What EVE's agents look at. All else is not ours to say: its zero value.
    #[test]
    fn a_command_fills_its_own_fields_and_no_others() {
        let reason = "because".to_owned();
        let name = agent::ZEDAGENT.to_owned();
        let idle =
            ZedAgentStatus { name, config_get_status: 1, device_state: 1, ..ZedAgentStatus::default() };
        let with = |device_state, boot_reason| ZedAgentStatus {
            requested_reboot_reason: reason.clone(),
            requested_boot_reason: BootReason(boot_reason),
            device_state,
            ..idle.clone()
        };
        for (operation, expected) in [
            (None, idle.clone()),
            (Some(Operation::Reboot), ZedAgentStatus { reboot_cmd: true, ..with(2, 2) }),
            (Some(Operation::Shutdown), ZedAgentStatus { shutdown_cmd: true, ..with(6, 0) }),
            (Some(Operation::Poweroff), ZedAgentStatus { poweroff_cmd: true, ..with(7, 14) }),
        ] {
            let status = zedagent_status(operation.map(|operation| (operation, &reason)));
            assert_eq!(status, expected, "{operation:?}");
            assert_eq!(given(&status), operation.map(|operation| (operation, reason.clone())));
        }
    }
}
