//! Holds reboot, shutdown and poweroff back until the node is drained (EVE's zedagent).
//!
//! [`operation`] decides, `perform` acts. A command is accepted by a durable record, asks for a drain, and is
//! handed to nodeagent only while the gate says that the device may go down.

mod commands;
pub mod counters;
pub mod effect;
pub mod facts;
mod holding;
mod looking;
pub mod operation;
mod perform;
mod record;
mod record_files;
mod showing;
mod state;

use pubsub::PublishError;
use runtime::agent_loop::{AgentLoop, until_next_look};
use runtime::requester::RequesterError;
use runtime::{AgentContext, Stop, clock, error_chain};
use schemas::{CommandLine, CommandState};
use thiserror::Error;

pub use record::{Accepted, Failure, OperationRecord};
pub use showing::troubled;
pub use state::{Phase, State, Then};

use effect::Effect;
use perform::{Desk, EffectError};

/// Why device-op cannot run. Once it runs, nothing ends it but [`Stop`].
#[derive(Debug, Error)]
pub enum RunError {
    /// A topic of its own cannot be used.
    #[error("device-op cannot start")]
    Publish(#[from] PublishError),
    /// It cannot ask for drains.
    #[error("device-op cannot start")]
    Requester(#[from] RequesterError),
}

/// Runs device-op as agent `zedagent` until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    let mut desk = Desk::open(&context)?;
    let mut state = desk.resume();
    let mut told = String::new();
    let mut lines = state.shown.commands.clone();
    let mut rhythm = AgentLoop::begin(&context, stop);
    while !rhythm.is_over() {
        let now_ms = clock::boot_millis();
        let facts = desk.look(&state);
        let (next, effects) = operation::step(state, &facts, now_ms, &desk.policy());
        match desk.perform(&effects) {
            Ok(()) => {
                state = next;
                rhythm.succeeded(until_next_look(effects.iter().map(Effect::wake_at), now_ms));
            }
            Err(error) => {
                rhythm.failed(&format!("scheduleDeviceOperation: {}", error_chain(&error)));
                show_trouble(&mut desk, &next, &error);
                state = desk.resume();
            }
        }
        tell(&state, &mut told);
        tell_commands(&state, &mut lines);
        rhythm.wait(desk.changed(state.listen())).await;
    }
    Ok(())
}

/// Says why nothing can be done in the status, if that can still be written.
fn show_trouble(desk: &mut Desk, wanted: &State, error: &EffectError) {
    let error = error_chain(error);
    let current = wanted.record.current().map_or_else(String::new, |current| {
        format!("{} {} cannot go on: ", current.operation, current.counter)
    });
    if let Some(status) = troubled(&desk.resume(), &format!("{current}{error}"))
        && let Err(error) = desk.publish_status(&status)
    {
        tracing::debug!("{}", error_chain(&error));
    }
}

/// One record for each change that an operator cares about.
fn tell(state: &State, told: &mut String) {
    let shown = &state.shown;
    let line = shown.operation.map_or_else(
        || "no operation is pending".to_owned(),
        |operation| format!("{operation} {}: {}", shown.counter, state.phase.name()),
    );
    if line != *told {
        tracing::info!("scheduleDeviceOperation: {line}; {}{}", shown.blocked_by, shown.release);
        *told = line;
    }
}

/// What became of each command, once: also of those that were never an operation.
fn tell_commands(state: &State, told: &mut Vec<CommandLine>) {
    let now = &state.shown.commands;
    for line in now.iter().filter(|line| !told.contains(line)) {
        let CommandLine { source, operation, counter, state, reason } = line;
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        match state {
            CommandState::Recorded | CommandState::Failed => {
                tracing::warn!("DeviceOpsCmd: {operation} {counter} of {source} is not carried out{why}");
            }
            CommandState::Waiting
            | CommandState::HandedOver
            | CommandState::Done
            | CommandState::TakenBack => {
                tracing::info!("DeviceOpsCmd: {operation} {counter} of {source} is {state:?}{why}");
            }
        }
    }
    told.clone_from(now);
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod tests;
