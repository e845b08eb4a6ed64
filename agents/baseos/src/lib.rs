//! Holds the activation of a new image back until the node is drained (EVE's baseosmgr).
//!
//! [`activation`] decides, `perform` acts. Every way to an activation leads through the gate, and so does the reboot
//! into the image.

pub mod activation;
mod current;
mod dry_run;
pub mod effect;
pub mod facts;
mod looking;
mod need;
mod perform;
mod record;
mod showing;
mod state;

use std::time::Duration;

use pubsub::PublishError;
use runtime::requester::RequesterError;
use runtime::retry::pause_after;
use runtime::{AgentContext, Stop, clock, error_chain};
use schemas::GoTime;
use thiserror::Error;

pub use record::{Accepted, ActivationRecord, Failure, ImageRecord, Stage};
pub use showing::troubled;
pub use state::{Phase, State};

use activation::{Event, Moment};
use effect::Effect;
use perform::Desk;

/// Why baseos cannot run. Once it runs, nothing ends it but [`Stop`].
#[derive(Debug, Error)]
pub enum RunError {
    /// A topic of its own cannot be used.
    #[error("baseos cannot start")]
    Publish(#[from] PublishError),
    /// It cannot ask for drains.
    #[error("baseos cannot start")]
    Requester(#[from] RequesterError),
}

/// Runs baseos as agent `baseosmgr` until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    let mut desk = Desk::open(&context)?;
    let mut state = desk.resume();
    let mut told = String::new();
    let mut event = None;
    let mut failures = 0;
    context.liveness().ready();
    while !stop.is_requested() {
        let now = Moment { boot_ms: clock::boot_millis(), wall: GoTime::from(clock::wall()) };
        let result = event.take();
        let event_now =
            result.clone().unwrap_or_else(|| Event::Looked(Box::new(desk.look(&state, now.boot_ms))));
        let (next, effects) = activation::step(state.clone(), event_now, now, desk.policy());
        let performed = desk.perform(&effects);
        let pause = if let Err(error) = performed {
            tell_trouble(&mut desk, &state, &error_chain(&error));
            state = state.after_failure(desk.resume());
            failures += 1;
            Some(pause_after(failures))
        } else {
            failures = 0;
            state = next;
            until_next_look(&effects, result.is_none(), now.boot_ms)
        };
        tell(&state, &mut told);
        context.liveness().progress();
        let listen =
            if failures == 0 { Listen::ToAll { gate: state.needs_gate() } } else { Listen::ToNothing };
        event = wait(&mut desk, &context, &stop, listen, pause).await;
        // The result of a command is not lost because it could not be recorded at once.
        event = event.or_else(|| result.filter(|_| failures != 0));
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

/// Waits for whatever comes first; gives an event that did not come from a file.
async fn wait(
    desk: &mut Desk,
    context: &AgentContext,
    stop: &Stop,
    listen: Listen,
    pause: Option<Duration>,
) -> Option<Event> {
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
        () = stop.requested() => None,
        event = changed => event,
        () = paused => None,
        () = context.liveness().due() => None,
    }
}

/// After an event or a real effect the files are looked at again at once: the next decision wants them as they are.
fn until_next_look(effects: &[Effect], is_look: bool, now_ms: u64) -> Option<Duration> {
    let wake = effects.iter().map(|effect| match effect {
        Effect::WakeAt(at_ms) => Duration::from_millis(at_ms.saturating_sub(now_ms)),
        Effect::Record(_)
        | Effect::WriteDown(_)
        | Effect::Withdraw
        | Effect::Request { .. }
        | Effect::Hold(_)
        | Effect::Status(_)
        | Effect::Forget(_)
        | Effect::Activate { .. } => Duration::ZERO,
    });
    if is_look { wake.min() } else { Some(Duration::ZERO) }
}

/// Says why nothing can be done, in the log and in the hold if that can still be written.
fn tell_trouble(desk: &mut Desk, state: &State, error: &str) {
    tracing::error!("baseOsHandleStatusUpdateUUID: {error}");
    if let Some(hold) = troubled(state, error)
        && let Err(error) = desk.publish_hold(&hold)
    {
        tracing::error!("{}", error_chain(&error));
    }
}

/// One record for each change that an operator cares about.
fn tell(state: &State, told: &mut String) {
    let image = state.record.current_uuid().unwrap_or("no image");
    let line = format!("{image}: {}", state.phase.name());
    if line != *told {
        let hold = &state.hold;
        tracing::info!("baseOsHandleStatusUpdateUUID: {line}; {}{}", hold.blocked_by, hold.release);
        *told = line;
    }
}

#[cfg(test)]
mod tests;
