//! Holds the activation of a new image back until the node is drained (EVE's baseosmgr).
//!
//! [`activation`] decides, `perform` acts. Every way to an activation leads through the gate, and so does the reboot
//! into the image.

pub mod activation;
mod current;
mod dry_run;
pub mod effect;
pub mod facts;
mod limits;
mod looking;
mod need;
mod nodeagent;
mod perform;
mod record;
mod showing;
mod state;

use std::time::Duration;

use pubsub::PublishError;
use runtime::agent_loop::{AgentLoop, until_next_look};
use runtime::requester::RequesterError;
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
    let mut rhythm = AgentLoop::begin(&context, stop);
    while !rhythm.is_over() {
        let now = Moment { boot_ms: clock::boot_millis(), wall: GoTime::from(clock::wall()) };
        let result: Option<Event> = event.take();
        let event_now =
            result.clone().unwrap_or_else(|| Event::Looked(Box::new(desk.look(&state, now.boot_ms))));
        let (next, effects) = activation::step(state.clone(), event_now, now, desk.policy());
        match desk.perform(&effects) {
            Ok(()) => {
                state = next;
                // After an event the files are looked at again at once.
                let at_once = result.as_ref().map(|_| Duration::ZERO);
                let wakes = effects.iter().map(Effect::wake_at);
                rhythm.succeeded(at_once.or_else(|| until_next_look(wakes, now.boot_ms)));
            }
            Err(error) => {
                let error = error_chain(&error);
                rhythm.failed(&format!("baseOsHandleStatusUpdateUUID: {error}"));
                show_trouble(&mut desk, &state, &error);
                state = state.after_failure(desk.resume());
            }
        }
        tell(&state, &mut told);
        event = rhythm.wait(Box::pin(desk.changed(state.listen()))).await.flatten();
        // The result of a command is not lost because it could not be recorded at once.
        event = event.or_else(|| result.filter(|_| rhythm.has_failed()));
    }
    Ok(())
}

/// Says why nothing can be done in the hold, if that can still be written.
fn show_trouble(desk: &mut Desk, state: &State, error: &str) {
    let is_running = matches!(state.phase, Phase::Activating { .. } | Phase::Adopted);
    if let Some(hold) = troubled(&desk.resume().hold, is_running, error)
        && let Err(error) = desk.publish_hold(&hold)
    {
        tracing::debug!("{}", error_chain(&error));
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
mod bad_input_tests;
#[cfg(test)]
mod caution_tests;
#[cfg(test)]
mod tests;
