//! Holds reboot, shutdown and poweroff back until the node is drained (EVE's zedagent).
//!
//! [`operation`] decides, `perform` acts. A command is accepted by a durable record, asks for a drain, and is
//! handed to nodeagent only while the gate says that the device may go down.

mod commands;
pub mod effect;
pub mod facts;
mod looking;
pub mod operation;
mod perform;
mod record;
mod showing;
mod state;

use std::time::Duration;

use pubsub::PublishError;
use runtime::requester::RequesterError;
use runtime::retry::pause_after;
use runtime::{AgentContext, Stop, clock, error_chain};
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
    let mut failures = 0;
    context.liveness().ready();
    while !stop.is_requested() {
        let now_ms = clock::boot_millis();
        let facts = desk.look(&state, now_ms);
        let (next, effects) = operation::step(state, &facts, now_ms, &desk.policy());
        let pause = match desk.perform(&effects) {
            Ok(()) => {
                failures = 0;
                state = next;
                until_next_look(&effects, now_ms)
            }
            Err(error) => {
                failures += 1;
                tell_trouble(&mut desk, &next, &error);
                state = desk.resume();
                Some(pause_after(failures))
            }
        };
        tell(&state, &mut told);
        context.liveness().progress();
        let listen =
            if failures == 0 { Listen::ToAll { gate: state.needs_gate() } } else { Listen::ToNothing };
        wait(&mut desk, &context, &stop, listen, pause).await;
    }
    Ok(())
}

/// What ends a wait besides time.
enum Listen {
    /// Any file that matters.
    ToAll {
        /// Those of the gate, too.
        gate: bool,
    },
    /// An effect failed: files that change must not cut the pause short.
    ToNothing,
}

/// Waits for whatever comes first.
async fn wait(desk: &mut Desk, context: &AgentContext, stop: &Stop, listen: Listen, pause: Option<Duration>) {
    let changed = async {
        match listen {
            Listen::ToAll { gate } => desk.changed(gate).await,
            Listen::ToNothing => std::future::pending().await,
        }
    };
    let paused = async {
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.requested() => {}
        () = paused => {}
        () = changed => {}
        () = context.liveness().due() => {}
    }
}

/// After any real effect things are looked at again at once: the next decision wants the files as they are now.
fn until_next_look(effects: &[Effect], now_ms: u64) -> Option<Duration> {
    let wake = effects.iter().map(|effect| match effect {
        Effect::WakeAt(at_ms) => Duration::from_millis(at_ms.saturating_sub(now_ms)),
        Effect::ClearCommand
        | Effect::Record(_)
        | Effect::Counter(..)
        | Effect::Withdraw
        | Effect::Request { .. }
        | Effect::Status(_)
        | Effect::Command { .. } => Duration::ZERO,
    });
    wake.min()
}

/// Says why nothing can be done, in the log and in the status if that can still be written.
fn tell_trouble(desk: &mut Desk, wanted: &State, error: &EffectError) {
    let error = error_chain(error);
    tracing::error!("scheduleDeviceOperation: {error}");
    let current = wanted.record.current().map_or_else(String::new, |current| {
        format!("{} {} cannot go on: ", current.operation, current.counter)
    });
    if let Some(status) = troubled(&desk.resume(), &format!("{current}{error}"))
        && let Err(error) = desk.publish_status(&status)
    {
        tracing::error!("{}", error_chain(&error));
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

#[cfg(test)]
mod tests;
