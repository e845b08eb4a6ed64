//! An agent as a pure state machine and its shell, and the one loop that runs them: read a snapshot, decide, carry
//! out the effects, wait.
//!
//! The machine decides and has no side effects; the shell carries out the effects and decides nothing. A state is
//! valid only when all its effects are carried out; otherwise the loop goes on from what is on disk, as after a
//! crash.

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

/// The decisions of an agent: a pure state machine without I/O, clock and randomness.
pub trait Machine {
    /// An event: a snapshot of all files, or the end of a task beside the loop.
    type Event: Send + Sync;
    /// All that decisions need besides the event.
    type State: Clone + Debug + Send + Sync;
    /// An effect for the shell. Each may be carried out twice.
    type Effect: Send + Sync;
    /// The settings.
    type Policy: Clone + Debug;

    /// The state after an event, and the effects that must be carried out before it is valid.
    fn step(
        state: Self::State,
        event: &Self::Event,
        now: Moment,
        policy: &Self::Policy,
    ) -> (Self::State, Vec<Self::Effect>);

    /// The time of the next step, in milliseconds of this boot's clock, if the effect is only a wake-up; otherwise
    /// None.
    fn wake_at(effect: &Self::Effect) -> Option<u64>;

    /// The state after an effect failed: as read from the files (`resumed`). A machine with a task beside the loop
    /// keeps that part of `failed`, its state before the step.
    fn after_failure(failed: Self::State, resumed: Self::State) -> Self::State {
        let _ = failed;
        resumed
    }
}

/// The state of a shell's machine.
pub type StateOf<H> = <<H as Shell>::Machine as Machine>::State;
/// The events of a shell's machine.
pub type EventOf<H> = <<H as Shell>::Machine as Machine>::Event;
/// The effects of a shell's machine.
pub type EffectOf<H> = <<H as Shell>::Machine as Machine>::Effect;
/// The settings of a shell's machine.
pub type PolicyOf<H> = <<H as Shell>::Machine as Machine>::Policy;

/// The reason why an effect failed.
pub type EffectError = Box<dyn Error + Send + Sync>;

/// The shell of an agent: its files, and the tasks beside its loop.
pub trait Shell: Sized + Send {
    /// The state machine.
    type Machine: Machine;
    /// The agent's name for people.
    const NAME: &'static str;
    /// Prefix in the log before the reason why a step failed.
    const FAILED: &'static str;

    /// Opens the agent's files.
    fn open(context: &AgentContext) -> Result<Self, OpenError>;

    /// The state as read from the files.
    fn resume(&self) -> StateOf<Self>;

    /// The settings as they are now.
    fn policy(&self) -> PolicyOf<Self>;

    /// Reads all files.
    fn look(&mut self, state: &StateOf<Self>, now: Moment) -> EventOf<Self>;

    /// Carries out one effect.
    fn perform(&mut self, effect: &EffectOf<Self>) -> Result<(), EffectError>;

    /// Waits for the next event from a task beside the loop, or returns None when files may have changed. Can be
    /// dropped and called again.
    fn changed(&mut self, state: &StateOf<Self>) -> impl Future<Output = Option<EventOf<Self>>> + Send;

    /// Publishes the reason why an effect of the step from `state` to `wanted` failed, if a status can still be
    /// written.
    fn show_trouble(&mut self, state: &StateOf<Self>, wanted: &StateOf<Self>, error: &str) {
        let _ = (state, wanted, error);
    }

    /// Logs the changes that matter to an operator; `is_first` is true for the first step of the process.
    fn tell(&self, before: &StateOf<Self>, after: &StateOf<Self>, is_first: bool);
}

/// The reason why an agent cannot open its files.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A topic of the agent cannot be opened.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The agent cannot request drains.
    #[error(transparent)]
    Requester(#[from] RequesterError),
}

/// The reason why an agent cannot start. Once it runs, only [`Stop`] ends it.
#[derive(Debug, Error)]
#[error("{agent} cannot start")]
pub struct RunError {
    agent: &'static str,
    source: OpenError,
}

/// A line for the log: the parts that are not empty, separated by semicolons.
pub fn log_line(parts: [&str; 3]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Runs an agent until `stop` is requested.
pub async fn run<H: Shell>(context: AgentContext, stop: Stop) -> Result<(), RunError> {
    let mut shell = H::open(&context).map_err(|source| RunError { agent: H::NAME, source })?;
    let mut state = shell.resume();
    let (mut is_first, mut from_task) = (true, None);
    let mut agent_loop = AgentLoop::begin(&context, stop);
    while !agent_loop.is_over() {
        let now = clock::now();
        let is_from_task = from_task.is_some();
        let event = from_task.take().unwrap_or_else(|| shell.look(&state, now));
        let (wanted, effects) = H::Machine::step(state.clone(), &event, now, &shell.policy());
        let after = match effects.iter().try_for_each(|effect| shell.perform(effect)) {
            Ok(()) => {
                // After an event from a task beside the loop, a snapshot follows at once.
                let at_once = is_from_task.then_some(Duration::ZERO);
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
        from_task = agent_loop.wait(Box::pin(shell.changed(&state))).await.flatten();
        // If the step failed, the event from the task is used again, so that it is not lost.
        from_task = from_task.or_else(|| Some(event).filter(|_| is_from_task && agent_loop.has_failed()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
