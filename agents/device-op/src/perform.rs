//! The hands of device-op: looks at files, and does what a step wants.

use crate::effect::Effect;
use crate::facts::{Facts, Gate};
use crate::looking;
use crate::operation::Policy;
use crate::record::OperationRecord;
use crate::state::State;
use pubsub::store::{create_folder, write_durably};
use pubsub::{Backup, Persistence, PublishError, Publisher, StoreError, Subscription, TopicKey};
use runtime::{AgentContext, OwnRequest, Requester, SettingsWatch, clock};
use schemas::{
    BootReason, DeviceAction, DeviceOpStatus, DeviceOpsCmd, DrainRequester, GoTime, Operation,
    ZedAgentStatus, agent, to_bytes,
};

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
}

/// An effect that was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EffectError {
    #[error(transparent)]
    Publish(#[from] PublishError),
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
            status: Publisher::open(root, name, volatile, lock)?,
            command: Publisher::open(root, name, volatile, lock)?,
            requester: Requester::open(context, DrainRequester::DeviceOp, recorded)?,
            commands: Subscription::open(root, agent::CONTROLLER, volatile),
            action: Subscription::open(root, agent::NODEAGENT, volatile),
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
    pub(crate) async fn changed(&mut self, needs_gate: bool) {
        tokio::select! {
            () = self.commands.changed() => {}
            () = self.action.changed() => {}
            () = self.settings.changed() => {}
            () = self.requester.changed(), if needs_gate => {}
        }
    }

    /// Reads everything anew.
    pub(crate) fn look(&mut self, state: &State, now_ms: u64) -> Facts {
        let root = self.context.root();
        let all = Operation::ALL.into_iter();
        let commands = all.clone().map(|operation| (operation, looking::command(root, operation))).collect();
        let counters = all.map(|operation| (operation, looking::counter(root, operation))).collect();
        let gate = state.needs_gate().then(|| self.ask_gate(now_ms));
        Facts {
            commands,
            counters,
            gate,
            own: self.requester.own(),
            next: self.requester.next_request(),
            nodeagent: looking::nodeagent(self.context.root()),
            wall: GoTime::from(clock::wall()),
        }
    }

    fn ask_gate(&mut self, now_ms: u64) -> Gate {
        let verdict = self.requester.verdict(now_ms);
        Gate { verdict, blocked_by: self.requester.blocked_by(), hint: self.requester.release() }
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
        let folder = self.context.root().join(looking::COUNTER_FOLDER);
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
