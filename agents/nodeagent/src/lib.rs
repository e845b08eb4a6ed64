//! Carries out reboots, shutdowns and poweroffs, and says whether a drain is in progress.
//!
//! [`progress`] decides, `perform` acts. nodeagent has no operations of its own: EVE's bypass the drain (D4).

mod action_record;
mod boot_reason;
mod command_device;
pub mod device;
mod dry_run;
pub mod effect;
mod kernel_device;
mod known_means;
mod logind;
mod logind_device;
mod perform;
pub mod progress;
mod showing;
pub mod standing;
mod system_bus;

use std::time::Duration;

use pubsub::PublishError;
use runtime::agent_loop::{AgentLoop, until_next_look};
use runtime::{AgentContext, Stop, clock, error_chain};
use schemas::GoTime;
use thiserror::Error;

use effect::Effect;
use perform::Desk;
use progress::{Event, Moment, State};

/// Why nodeagent cannot run. Once it runs, nothing ends it but [`Stop`].
#[derive(Debug, Error)]
pub enum RunError {
    /// A topic of its own cannot be used.
    #[error("nodeagent cannot start")]
    Publish(#[from] PublishError),
}

/// Runs nodeagent until `stop` is requested.
pub async fn run(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    let mut desk = Desk::open(&context)?;
    let mut state = desk.resumed();
    let mut event = None;
    let mut rhythm = AgentLoop::begin(&context, stop);
    while !rhythm.is_over() {
        let now = Moment { boot_ms: clock::boot_millis(), wall: GoTime::from(clock::wall()) };
        let told: Option<Event> = event.take();
        let event_now = told.clone().unwrap_or_else(|| Event::Looked(desk.look()));
        let (next, effects) = progress::step(state.clone(), &event_now, now, desk.policy());
        match desk.perform(&effects) {
            Ok(()) => {
                tell(&state, &next);
                state = next;
                // After an event the files are looked at again at once.
                let at_once = told.as_ref().map(|_| Duration::ZERO);
                let wakes = effects.iter().map(Effect::wake_at);
                rhythm.succeeded(at_once.or_else(|| until_next_look(wakes, now.boot_ms)));
            }
            Err(error) => {
                rhythm.failed(&format!("nothing new begins: {}", error_chain(&error)));
                state = state.after_failure(desk.resumed());
            }
        }
        event = rhythm.wait(desk.changed()).await.flatten();
        // The end of a command is not lost because it could not be published at once.
        event = event.or_else(|| told.filter(|_| rhythm.has_failed()));
    }
    Ok(())
}

/// One record for each change that an operator cares about.
fn tell(before: &State, after: &State) {
    let (was, is) = (&before.action, &after.action);
    if (was.state, was.command, was.counter) == (is.state, is.command, is.counter) {
        return;
    }
    let command =
        is.command.map_or_else(|| "no command".to_owned(), |command| format!("{command} {}", is.counter));
    tracing::info!("{command}: {:?}{}{}", is.state, if is.error.is_empty() { "" } else { ": " }, is.error);
}

#[cfg(test)]
mod tests;
