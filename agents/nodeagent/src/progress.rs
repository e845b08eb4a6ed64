//! The state machine of a command: taken, hooks, point of no return, means of the device.
//!
//! Level-triggered: each snapshot shows every file as it is now. A state is valid only when all its effects are
//! carried out; otherwise the caller goes on with [`State::after_failure`].

mod acting;

use runtime::agent_state::LOOK_AT_LOCK_MS;
use runtime::clock::Moment;
use runtime::machine::Machine;
use schemas::DeviceAction;

use crate::current_command::is_drain_in_progress;
use crate::effect::{Effect, between};
use crate::facts::{Event, Facts};
use crate::policy::Policy;
use crate::state::{Hooks, Phase, State, Trial};
use crate::status;

/// Reasons shown while a command that is taken has to wait.
const NOT_RELEASED: &str = "zedkube has taken back its COMPLETE for this command, or does not work";
const ACTIVATING: &str = "baseos is activating an image";

/// The state machine of commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAgent;

impl Machine for NodeAgent {
    type Event = Event;
    type State = State;
    type Effect = Effect;
    type Policy = Policy;

    fn step(state: State, event: &Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
        let policy = *policy;
        let before = state.clone();
        let mut next = State { is_unsure: false, ..state };
        let own = match event {
            Event::Looked(facts) => looked(&mut next, facts, now, policy),
            Event::HooksEnded { serial } => {
                if next.phase == Phase::Taken(Hooks::Running { serial: *serial }) {
                    next.phase = Phase::Taken(Hooks::Ended);
                }
                Vec::new()
            }
            Event::Acted { serial, outcome } => acting::acted(&mut next, *serial, outcome, now, policy),
            Event::MeansFound(means) => {
                next.action.means = Some(means.clone());
                Vec::new()
            }
        };
        status::show(&mut next, now);
        let mut effects = between(&before, &next, own);
        effects.extend(wake(&next, now).map(Effect::WakeAt));
        (next, effects)
    }

    fn wake_at(effect: &Effect) -> Option<u64> {
        if let Effect::WakeAt(at_ms) = effect { Some(*at_ms) } else { None }
    }

    fn after_failure(failed: State, resumed: State) -> State {
        failed.after_failure(resumed)
    }
}

/// Runs the function of the current phase.
fn looked(next: &mut State, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    next.obstacle = "";
    next.status.wait_drain_in_progress = is_drain_in_progress(facts.drain);
    let mut effects = match next.phase.clone() {
        Phase::Idle => {
            if let Some(command) = &facts.command {
                next.command = Some(command.clone());
                next.phase = Phase::Taken(Hooks::Due);
            }
            Vec::new()
        }
        Phase::Taken(hooks) => taken(next, hooks, facts, now, policy),
        Phase::Acting(trial) => acting::acting(next, trial, facts, now, policy),
        Phase::Done | Phase::Failed(_) => over(next, facts),
    };
    effects.extend(forget_again(next, facts, now));
    effects
}

/// The command is taken, and can still be taken back. Taken was on disk before this snapshot, so an agent that wants to
/// revoke the command sees Taken and waits for nodeagent.
fn taken(next: &mut State, hooks: Hooks, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    let Some(command) = facts.command.as_ref().filter(|_| next.is_in_effect(facts)) else {
        return drop_command(next);
    };
    next.command = Some(command.clone());
    if matches!(hooks, Hooks::Running { .. }) {
        return Vec::new();
    }
    if next.has_done(command) {
        next.phase = Phase::Done;
        next.status.all_domains_halted = true;
    } else if DeviceAction::MOST_TRIES <= next.tries_of(command) {
        next.phase = Phase::Failed(acting::too_often(command));
    } else if !facts.is_released {
        next.obstacle = NOT_RELEASED;
    } else if hooks == Hooks::Due && policy.has_hooks && !policy.dry_run {
        let serial = next.next_serial();
        next.phase = Phase::Taken(Hooks::Running { serial });
        return vec![Effect::RunHooks { serial, command: command.clone() }];
    } else if facts.is_activating {
        next.obstacle = ACTIVATING;
        next.phase = Phase::Taken(Hooks::Ended);
    } else {
        return acting::pass_no_return(next, facts, now, policy);
    }
    Vec::new()
}

/// The command is done or has failed. That lasts until it is cleared or another command is in effect. A failed
/// command was not carried out, so an ActionRecord that says it was begun is removed.
fn over(next: &mut State, facts: &Facts) -> Vec<Effect> {
    if facts.proof.kept_until.is_none() && acting::is_proof_wrong(next, facts) {
        return vec![Effect::ForgetRecord];
    }
    if next.is_in_effect(facts) { Vec::new() } else { drop_command(next) }
}

fn drop_command(next: &mut State) -> Vec<Effect> {
    next.phase = Phase::Idle;
    next.command = None;
    vec![Effect::Drop]
}

/// Removes a record once more that could not be removed, when it is time. Meanwhile nothing waits for that: an
/// operator may need this device to go down although its disk takes no writes.
fn forget_again(next: &State, facts: &Facts, now: Moment) -> Option<Effect> {
    let until = facts.proof.kept_until?;
    match &next.phase {
        Phase::Taken(_) | Phase::Acting(_) => None,
        Phase::Idle | Phase::Done | Phase::Failed(_) if until <= now.boot_ms => Some(Effect::ForgetRecord),
        Phase::Idle | Phase::Done | Phase::Failed(_) => Some(Effect::WakeAt(until)),
    }
}

/// When to run the next step although no file changes.
const fn wake(next: &State, now: Moment) -> Option<u64> {
    match &next.phase {
        Phase::Taken(Hooks::Due | Hooks::Ended) => Some(now.after(LOOK_AT_LOCK_MS)),
        Phase::Acting(Trial { until_ms: Some(until_ms), .. }) => Some(*until_ms),
        Phase::Idle
        | Phase::Taken(Hooks::Running { .. })
        | Phase::Acting(_)
        | Phase::Done
        | Phase::Failed(_) => None,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
