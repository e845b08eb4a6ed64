//! Commands a drained reboot when the host says that it needs one: by a file, such as Debian's `/run/reboot-required`,
//! or by the exit code of a program.
//!
//! [`decide`] decides, [`asking`] asks the host, and this file publishes. The command is a file for device-op, of source
//! `host`: it waits for a drain as every command does.

mod asking;
mod decide;

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use ring::digest::{SHA256, digest};
use runtime::agent_loop::AgentLoop;
use runtime::{AgentContext, LatePublisher, NotWritten, Stop, clock, error_chain};
use schemas::{
    DeviceOpsCmd, GoTime, Operation, SCHEMA_VERSION, SentinelRecord, SentinelState, SentinelStatus,
};

use asking::HostQuestion;
use decide::{CommandChange, Decision, decide};

/// Runs the sentinel until `stop` is requested.
///
/// # Errors
/// Its topics below `/run` cannot be opened.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), PublishError> {
    let mut sentinel = Sentinel::open(&context)?;
    let mut steps = AgentLoop::begin(&context, stop);
    while !steps.is_over() {
        match sentinel.look() {
            Ok(()) => steps.succeeded(None),
            Err(error) => steps.failed(&error),
        }
        steps.wait(sentinel.question.changed()).await;
    }
    Ok(())
}

struct Sentinel {
    context: AgentContext,
    question: HostQuestion,
    record: LatePublisher<SentinelRecord>,
    commands: Publisher<DeviceOpsCmd>,
    status: Publisher<SentinelStatus>,
}

impl Sentinel {
    fn open(context: &AgentContext) -> Result<Self, PublishError> {
        let (root, name, lock) = (context.root(), context.name(), context.lock());
        Ok(Self {
            question: HostQuestion::new(context),
            record: LatePublisher::open(context, "the sentinel commands no reboot until it can be written"),
            commands: Publisher::open(root, name, Persistence::Volatile, lock)?.served()?,
            status: Publisher::open(root, name, Persistence::Volatile, lock)?.served()?,
            context: context.clone(),
        })
    }

    /// Asks the host, decides, and publishes. The record is on disk before a command that it is about.
    fn look(&mut self) -> Result<(), String> {
        let answer = self.question.answer();
        let Decision { record, command, state, reason } =
            decide(self.record.get(), &answer, self.context.boot_id());
        let is_as_before = self.record.get() == record.as_ref();
        let written = if is_as_before { Ok(()) } else { self.record.put(record.as_ref()) };
        let not_written = match written {
            Ok(()) => None,
            // Decided anew, from the record that is back.
            Err(NotWritten::IsBack(_)) => return self.look(),
            Err(NotWritten::Failed(error)) => Some(error_chain(&error)),
        };
        // A reboot that the next boot does not know of would be commanded again there. To take one back needs no record.
        if not_written.is_none() || command == CommandChange::TakeBack {
            self.change(command).map_err(|error| error_chain(&error))?;
        }
        let Some(error) = not_written else {
            return self.show(state, reason).map_err(|error| error_chain(&error));
        };
        let why = format!("SentinelRecord is not written, no reboot is commanded before it is: {error}");
        // The failure is told, whatever becomes of the status.
        drop(self.show(SentinelState::Unknown, why.clone()));
        Err(why)
    }

    /// Gives the reboot, or takes it back. A command of another boot is removed.
    fn change(&mut self, change: CommandChange) -> Result<(), PublishError> {
        let key = TopicKey::of_operation(Operation::Reboot);
        let counter = first_32_bits(self.context.boot_id().as_bytes());
        let before = self.commands.get(&key).cloned();
        let is_of_boot = before.as_ref().is_some_and(|before| before.counter == counter);
        if before.is_some() && !is_of_boot {
            self.commands.unpublish(&key)?;
        }
        let before = before.filter(|_| is_of_boot);
        let (reason, desired_state) = match change {
            CommandChange::None => return Ok(()),
            CommandChange::TakeBack if before.is_none() => return Ok(()),
            CommandChange::TakeBack => (String::new(), false),
            CommandChange::Give(reason) => (reason, true),
        };
        let as_before = before.filter(|before| before.desired_state == desired_state);
        if as_before.is_none() {
            let what = if desired_state { "given: " } else { "taken back" };
            tracing::info!("DeviceOpsCmd: reboot {counter} of host is {what}{reason}");
        }
        let ops_time =
            as_before.map_or_else(|| GoTime::from(clock::wall()).to_string(), |before| before.ops_time);
        let command = DeviceOpsCmd { counter, desired_state, ops_time, reason, ..DeviceOpsCmd::default() };
        self.commands.publish(&key, &command).map(|_| ())
    }

    fn show(&mut self, state: SentinelState, reason: String) -> Result<(), PublishError> {
        let key = TopicKey::global();
        if self.status.get(&key).is_some_and(|shown| (shown.state, &shown.reason) == (state, &reason)) {
            return Ok(());
        }
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        tracing::info!("SentinelStatus: {state:?}{why}");
        let since = clock::wall().into();
        let status = SentinelStatus { schema_version: SCHEMA_VERSION, state, reason, since };
        self.status.publish(&key, &status).map(|_| ())
    }
}

/// The first 32 bits of the SHA-256. Of the boot's id they are the counter of the one reboot that the host may command
/// in that boot.
fn first_32_bits(bytes: &[u8]) -> u32 {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().take(4).fold(0, |counter, byte| counter << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests;
