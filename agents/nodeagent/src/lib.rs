//! Carries out reboots, shutdowns and poweroffs, and says whether a drain is in progress.
//!
//! [`progress`] decides, `perform` acts. nodeagent has no operations of its own: EVE's bypass the drain (D4).

mod boot_reason;
mod command_device;
pub mod device;
mod dry_run;
pub mod effect;
mod kernel_device;
mod logind;
mod logind_device;
mod perform;
pub mod progress;
mod showing;
pub mod standing;
mod system_bus;

use std::time::Duration;

use pubsub::PublishError;
use runtime::retry::pause_after;
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
    let mut failures = 0;
    context.liveness().ready();
    while !stop.is_requested() {
        let now = Moment { boot_ms: clock::boot_millis(), wall: GoTime::from(clock::wall()) };
        let told: Option<Event> = event.take();
        let event_now = told.clone().unwrap_or_else(|| Event::Looked(desk.look()));
        let (next, effects) = progress::step(state.clone(), &event_now, now, desk.policy());
        let performed = desk.perform(&effects);
        let pause = if let Err(error) = performed {
            tracing::error!("nothing new begins: {}", error_chain(&error));
            state = state.after_failure(desk.resumed());
            failures += 1;
            Some(pause_after(failures))
        } else {
            tell(&state, &next);
            failures = 0;
            state = next;
            until_next_look(&effects, told.is_none(), now.boot_ms)
        };
        context.liveness().progress();
        event = wait(&mut desk, &context, &stop, failures == 0, pause).await;
        // The end of a command is not lost because it could not be published at once.
        event = event.or_else(|| told.filter(|_| failures != 0));
    }
    Ok(())
}

/// Waits for whatever comes first; gives an event that did not come from a file. After a failed effect no file
/// cuts the pause short.
async fn wait(
    desk: &mut Desk,
    context: &AgentContext,
    stop: &Stop,
    listen: bool,
    pause: Option<Duration>,
) -> Option<Event> {
    let paused = async {
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = stop.requested() => None,
        event = desk.changed(), if listen => event,
        () = paused => None,
        () = context.liveness().due() => None,
    }
}

/// After an event or a real effect the files are looked at again at once: the next decision wants them as they are.
fn until_next_look(effects: &[Effect], is_look: bool, now_ms: u64) -> Option<Duration> {
    let wake = effects.iter().map(|effect| match effect {
        Effect::WakeAt(at_ms) => Duration::from_millis(at_ms.saturating_sub(now_ms)),
        Effect::Action(_)
        | Effect::Status(_)
        | Effect::LeaveReason(_)
        | Effect::ForgetReason
        | Effect::RunHooks { .. }
        | Effect::Act { .. }
        | Effect::Drop => Duration::ZERO,
    });
    if is_look { wake.min() } else { Some(Duration::ZERO) }
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
