//! An agent as a pure machine and its hands, and the one loop that turns them: look, decide, act, wait.
//!
//! The machine decides and does nothing; the hands do what it wants and decide nothing. A state holds only when all its
//! effects are done; else the loop goes on from what is on disk, as after a crash.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use pubsub::PublishError;
use thiserror::Error;

use crate::agent::AgentContext;
use crate::agent_loop::{AgentLoop, until_next_look};
use crate::clock::{self, Moment};
use crate::error_chain;
use crate::requester::RequesterError;
use crate::signals::Stop;

/// The decisions of an agent: no I/O, no clock, no randomness.
pub trait Machine {
    /// What happened: all files were read anew, or something beside the loop has ended.
    type Event: Send + Sync;
    /// Everything that decisions need besides the event.
    type State: Clone + Debug + Send + Sync;
    /// One thing to do. Each may be done twice.
    type Effect: Send + Sync;
    /// The choices, from settings.
    type Policy: Clone + Debug;

    /// The state after an event, and what has to be done before it holds.
    fn step(
        state: Self::State,
        event: &Self::Event,
        now: Moment,
        policy: &Self::Policy,
    ) -> (Self::State, Vec<Self::Effect>);

    /// When to look again, in milliseconds of this boot's clock, for an effect that is nothing else.
    fn wake_at(effect: &Self::Effect) -> Option<u64>;

    /// Where to go on after an effect failed: from what is on disk (`resumed`). A machine that has something running
    /// beside the loop keeps that in mind (`failed` is its state before the step).
    fn after_failure(failed: Self::State, resumed: Self::State) -> Self::State {
        let _ = failed;
        resumed
    }
}

/// The state of the machine that some hands serve.
pub type StateOf<H> = <<H as Shell>::Machine as Machine>::State;
/// Its events.
pub type EventOf<H> = <<H as Shell>::Machine as Machine>::Event;
/// Its effects.
pub type EffectOf<H> = <<H as Shell>::Machine as Machine>::Effect;
/// Its policy.
pub type PolicyOf<H> = <<H as Shell>::Machine as Machine>::Policy;

/// Why an effect was not done.
pub type EffectError = Box<dyn Error + Send + Sync>;

/// The hands of an agent: its files, and what runs beside its loop.
pub trait Shell: Sized + Send {
    /// Who decides.
    type Machine: Machine;
    /// What a person calls the agent.
    const NAME: &'static str;
    /// In the log before the reason why a turn failed.
    const FAILED: &'static str;

    /// Takes the agent's files over.
    fn open(context: &AgentContext) -> Result<Self, OpenError>;

    /// The state as the files have it.
    fn resume(&self) -> StateOf<Self>;

    /// The settings as they are now.
    fn policy(&self) -> PolicyOf<Self>;

    /// Reads everything anew.
    fn look(&mut self, state: &StateOf<Self>, now: Moment) -> EventOf<Self>;

    /// Does one effect.
    fn perform(&mut self, effect: &EffectOf<Self>) -> Result<(), EffectError>;

    /// The next event from beside the loop, or nothing when files may have changed. Can be dropped and called again.
    fn changed(&mut self, state: &StateOf<Self>) -> impl Future<Output = Option<EventOf<Self>>> + Send;

    /// Shows why nothing can be done, if that can still be written: an effect of the step from `state` to `wanted` has
    /// failed.
    fn show_trouble(&mut self, state: &StateOf<Self>, wanted: &StateOf<Self>, error: &str) {
        let _ = (state, wanted, error);
    }

    /// Logs each change that an operator cares about; `is_first` is the first turn of the process.
    fn tell(&self, before: &StateOf<Self>, after: &StateOf<Self>, is_first: bool);
}

/// What an agent needs to begin and does not get.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A topic of its own cannot be used.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// It cannot ask for drains.
    #[error(transparent)]
    Requester(#[from] RequesterError),
}

/// Why an agent cannot run. Once it runs, nothing ends it but [`Stop`].
#[derive(Debug, Error)]
#[error("{agent} cannot start")]
pub struct RunError {
    agent: &'static str,
    source: OpenError,
}

/// Runs an agent until `stop` is requested.
pub async fn run<H: Shell>(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    let mut shell = H::open(&context).map_err(|source| RunError { agent: H::NAME, source })?;
    let mut state = shell.resume();
    let (mut is_first, mut from_beside) = (true, None);
    let mut agent_loop = AgentLoop::begin(&context, stop);
    while !agent_loop.is_over() {
        let now = clock::now();
        let is_from_beside = from_beside.is_some();
        let event = from_beside.take().unwrap_or_else(|| shell.look(&state, now));
        let (wanted, effects) = H::Machine::step(state.clone(), &event, now, &shell.policy());
        let after = match effects.iter().try_for_each(|effect| shell.perform(effect)) {
            Ok(()) => {
                // After an event from beside the loop the files are looked at again at once.
                let at_once = is_from_beside.then_some(Duration::ZERO);
                let wakes = effects.iter().map(H::Machine::wake_at);
                agent_loop.succeeded(at_once.or_else(|| until_next_look(wakes, now.boot_ms)));
                wanted
            }
            Err(error) => {
                let error = error_chain(&*error);
                agent_loop.failed(&format!("{}: {error}", H::FAILED));
                shell.show_trouble(&state, &wanted, &error);
                H::Machine::after_failure(state.clone(), shell.resume())
            }
        };
        shell.tell(&state, &after, is_first);
        is_first = false;
        state = after;
        from_beside = agent_loop.wait(Box::pin(shell.changed(&state))).await.flatten();
        // What has ended beside the loop is not lost because it could not be recorded at once.
        from_beside =
            from_beside.or_else(|| Some(event).filter(|_| is_from_beside && agent_loop.has_failed()));
    }
    Ok(())
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
