//! The shell of device-op: reads the files, and carries out the effects of a step.

use pubsub::store::{create_folder, write_durably};
use pubsub::{
    Backup, PathWatch, Persistence, PublishError, Publisher, Root, StoreError, Subscription, TopicKey,
};
use runtime::agent_state::NodeAgentView;
use runtime::clock::Moment;
use runtime::machine::{EffectError, OpenError, Shell, log_line};
use runtime::window::{is_pausing_outside, window};
use runtime::{AgentContext, NotWritten, OwnRequest, Requester, SettingsWatch, error_chain};
use schemas::{
    ActionRecord, BootReason, CancelCommand, CommandFreeze, CommandLine, CommandState, DeviceAction,
    DeviceOpStatus, DeviceOpsCmd, DrainRequester, Operation, Source, ZedAgentStatus, agent, to_bytes,
};

use crate::counters::{self, Counters};
use crate::effect::Effect;
use crate::facts::{Facts, Kind, all_kinds};
use crate::inputs;
use crate::operation::DeviceOp;
use crate::policy::Policy;
use crate::record::OperationRecord;
use crate::record_files::RecordFiles;
use crate::state::{Phase, State};
use crate::status::troubled;

/// EVE's value of `ConfigGetStatus` for a configuration that was read without an error.
const CONFIG_GET_SUCCESS: u8 = 1;
const DEVICE_ONLINE: u8 = 1;

/// The files of device-op.
#[derive(Debug)]
pub(crate) struct DeviceOpShell {
    context: AgentContext,
    settings: SettingsWatch,
    record: RecordFiles,
    status: Publisher<DeviceOpStatus>,
    command: Publisher<ZedAgentStatus>,
    requester: Requester,
    commands: [Subscription<DeviceOpsCmd>; 4],
    action: Subscription<DeviceAction>,
    counters: Counters,
    /// Wakes on changes of the counter files, the operator's cancels, and the freeze.
    other_files: PathWatch,
}

/// An effect that was not carried out, with the reason.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error("cannot record the counter of {} of {}", kind.1, kind.0)]
    Counter { kind: Kind, source: StoreError },
}

impl Shell for DeviceOpShell {
    type Machine = DeviceOp;
    const NAME: &'static str = "device-op";
    const FAILED: &'static str = "scheduleDeviceOperation";

    fn open(context: &AgentContext) -> Result<Self, OpenError> {
        let (root, name, lock) = (context.root(), context.name(), context.lock());
        let volatile = Persistence::Volatile;
        let record = RecordFiles::open(context)?;
        let recorded: Option<OwnRequest> = record.get().and_then(|record| record.request);
        let beside = [
            root.folder::<CancelCommand>(agent::EBB, volatile),
            root.item::<CommandFreeze>(agent::EBB, Persistence::Persistent, &TopicKey::global()),
        ];
        Ok(Self {
            record,
            status: Publisher::open(root, name, volatile, lock)?.served()?,
            command: Publisher::open(root, name, volatile, lock)?.served()?,
            requester: Requester::open(context, DrainRequester::DeviceOp, recorded)?,
            commands: Source::ALL.map(|source| Subscription::open(root, source.agent(), volatile)),
            action: Subscription::open(root, agent::NODEAGENT, volatile),
            counters: Counters::default(),
            other_files: PathWatch::new(counters::paths(root).chain(beside)),
            settings: context.settings(),
            context: context.clone(),
        })
    }

    fn resume(&self) -> State {
        let key = TopicKey::global();
        let shown = self.status.get(&key).cloned().unwrap_or_default();
        let command = self.command.get(&command_key()).and_then(given);
        State::resume(self.record.get(), shown, command, self.context.boot_id())
    }

    fn policy(&self) -> Policy {
        Policy { retry: self.settings.current().device_op.retry, boot_id: self.context.boot_id().to_owned() }
    }

    fn look(&mut self, state: &State, now: Moment) -> Facts {
        let root = self.context.root();
        let settings = self.settings.current();
        let window = window(&settings.window, now.wall.timestamp());
        let commands = all_kinds().map(|kind| (kind, inputs::command(root, kind, &settings))).collect();
        let counters = self.counters.look(root);
        Facts {
            wall: now.wall,
            commands,
            counters: counters.recorded,
            drain: self.requester.read(state.listen()),
            cancelled: inputs::cancelled(root),
            freeze: inputs::freeze(root, now.wall.timestamp()),
            is_pausing: state.phase == Phase::Deferred && is_pausing_outside(root, window.as_ref()),
            window,
            acted: acted(root, state),
            nodeagent: NodeAgentView::read(root, self.context.boot_id()),
            refused: counters.refused.into_iter().chain(self.refused()).collect(),
        }
    }

    fn perform(&mut self, effect: &Effect) -> Result<(), EffectError> {
        match effect {
            Effect::ClearCommand => self.publish_command(None)?,
            Effect::Record(record) => self.put_record(record)?,
            Effect::Counter(kind, command) => self.write_counter(*kind, command)?,
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

    async fn changed(&mut self, state: &State) -> Option<Facts> {
        let [person, controller, cluster, host] = &mut self.commands;
        tokio::select! {
            () = person.changed() => {}
            () = controller.changed() => {}
            () = cluster.changed() => {}
            () = host.changed() => {}
            () = self.action.changed() => {}
            () = self.other_files.changed() => {}
            () = self.settings.changed() => {}
            () = self.requester.changed(state.listen()) => {}
        }
        None
    }

    fn show_trouble(&mut self, _: &State, wanted: &State, error: &str) {
        let current = wanted.record.current().map_or_else(String::new, |current| {
            format!("{} {} cannot go on: ", current.operation, current.counter)
        });
        if let Some(status) = troubled(&self.resume(), &format!("{current}{error}"))
            && let Err(error) = self.publish_status(&status)
        {
            tracing::debug!("{}", error_chain(&error));
        }
    }

    fn tell(&self, before: &State, after: &State, is_first: bool) {
        let line = line_of(after);
        if is_first || line != line_of(before) {
            let shown = &after.shown;
            let line = log_line([&line, &shown.blocked_by, &shown.release]);
            tracing::info!("scheduleDeviceOperation: {line}");
        }
        let known = &before.shown.commands;
        after.shown.commands.iter().filter(|line| !known.contains(line)).for_each(log_command);
    }
}

impl DeviceOpShell {
    /// Refused files besides those of the gate, which are in the gate's own text.
    fn refused(&self) -> Vec<String> {
        let refused = self.commands.iter().flat_map(Subscription::refused).chain(self.action.refused());
        let misnamed = self.commands.iter().zip(Source::ALL);
        let misnamed = misnamed.flat_map(|(commands, source)| inputs::misnamed(commands, source));
        refused.map(|refusal| refusal.to_string()).chain(misnamed).collect()
    }

    fn put_record(&mut self, record: &OperationRecord) -> Result<(), NotWritten> {
        let written = self.record.put(record);
        if matches!(written, Err(NotWritten::IsBack(_))) {
            self.requester.recall(self.record.get().and_then(|record| record.request));
        }
        written
    }

    fn publish_status(&mut self, status: &DeviceOpStatus) -> Result<(), PublishError> {
        self.status.publish(&TopicKey::global(), status).map(|_| ())
    }

    fn publish_command(&mut self, command: Option<(Operation, &String)>) -> Result<(), PublishError> {
        self.command.publish(&command_key(), &zedagent_status(command)).map(|_| ())
    }

    fn write_counter(&self, kind: Kind, command: &DeviceOpsCmd) -> Result<(), NotDone> {
        let (source, operation) = kind;
        let folder = self.context.root().join(source.counter_folder());
        let bytes = to_bytes(command);
        create_folder(&folder)
            .and_then(|()| write_durably(&folder, operation.counter_file(), &bytes, Backup::None))
            .map_err(|source| NotDone::Counter { kind, source })
    }
}

/// Operation and phase for the log.
fn line_of(state: &State) -> String {
    state.shown.operation.map_or_else(
        || "no operation is pending".to_owned(),
        |operation| format!("{operation} {}: {}", state.shown.counter, state.phase.name()),
    )
}

/// Logs the state of a command, also of one that was not accepted.
fn log_command(line: &CommandLine) {
    let CommandLine { source, operation, counter, state, reason } = line;
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match state {
        CommandState::Recorded | CommandState::Failed => {
            tracing::warn!("DeviceOpsCmd: {operation} {counter} of {source} is not carried out{why}");
        }
        CommandState::Waiting | CommandState::HandedOver | CommandState::Done | CommandState::TakenBack => {
            tracing::info!("DeviceOpsCmd: {operation} {counter} of {source} is {state:?}{why}");
        }
    }
}

/// The operation that nodeagent began last; read only for the first step of a boot, which needs it.
fn acted(root: &Root, state: &State) -> Option<ActionRecord> {
    (state.phase == Phase::NewBoot).then(|| inputs::acted(root))?
}

fn command_key() -> TopicKey {
    TopicKey::parse(agent::ZEDAGENT).unwrap_or_else(|_| TopicKey::global())
}

/// The command in ZedAgentStatus, with its reason.
fn given(status: &ZedAgentStatus) -> Option<(Operation, String)> {
    let is_given = |operation: &Operation| match operation {
        Operation::Reboot => status.reboot_cmd,
        Operation::Shutdown => status.shutdown_cmd,
        Operation::Poweroff => status.poweroff_cmd,
    };
    let operation = Operation::ALL.into_iter().find(is_given)?;
    Some((operation, status.requested_reboot_reason.clone()))
}

/// ZedAgentStatus with at most one command.
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

    /// The fields that EVE's agents read; all others have the zero value.
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
