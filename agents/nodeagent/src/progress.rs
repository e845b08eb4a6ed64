//! The state machine of a command: taken, hooks, point of no return, means of the device.
//!
//! Level-triggered: each snapshot shows every file as it is now. A state is valid only when all its effects are
//! carried out; otherwise the caller goes on with [`State::after_failure`].

mod acting;

use std::time::Duration;

use runtime::clock::Moment;
use runtime::machine::Machine;
use schemas::{ActionRecord, DeviceAction, DeviceActionState, NodeAgentStatus, NodeDrainStatus, Operation};

use crate::effect::{Effect, between};
use crate::showing;
use crate::standing::Command;

/// Time limit of a means: if the device is still up after it, the means has failed.
pub(crate) const STILL_UP: Duration = Duration::from_mins(5);

const MOST_TRIES: u32 = DeviceAction::MOST_TRIES;

/// Poll interval for the locks of the other agents while nodeagent waits for one, in milliseconds: a lock that is
/// released causes no event.
const LOOK_AT_LOCK_MS: u64 = 1000;

/// Reasons shown while a command that is taken has to wait.
const NOT_RELEASED: &str = "zedkube does not say COMPLETE to the request for it any more";
const ACTIVATING: &str = "baseos is activating an image";

/// The settings of nodeagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// `device.pre` names at least one hook.
    pub has_hooks: bool,
    /// `device.dry-run`: the command is only written to a file.
    pub dry_run: bool,
    /// The time limit of a means: [`STILL_UP`].
    pub still_up: Duration,
}

/// An event of the shell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A snapshot of all files.
    Looked(Facts),
    /// The hooks of [`Effect::RunHooks`] have ended, with or without success.
    HooksEnded {
        /// The effect's serial.
        serial: u32,
    },
    /// The means of [`Effect::Act`] has ended.
    Acted {
        /// The effect's serial.
        serial: u32,
        outcome: Outcome,
    },
    /// The means by which this device can go down.
    MeansFound(Vec<String>),
}

/// Snapshot of the files. The commands are read last, and after them the report that releases them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// zedkube's status.
    pub drain: Option<NodeDrainStatus>,
    /// baseos runs and is activating an image: the device must stay up.
    pub is_activating: bool,
    /// The command is still released: [`crate::standing::is_released`].
    pub is_released: bool,
    /// The command that is in effect.
    pub command: Option<Command>,
    /// The ActionRecord on disk.
    pub proof: DurableRecord,
}

/// The ActionRecord on disk, as far as nodeagent knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DurableRecord {
    /// The record in the file; None if there is none or it cannot be read.
    pub on_disk: Option<ActionRecord>,
    /// The record whose last write failed, and the error.
    pub refused: Option<(ActionRecord, String)>,
    /// The record is to be removed, and that has failed: when to try again, in milliseconds of this boot's clock.
    pub kept_until: Option<u64>,
}

/// The result of one means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device is going down, as far as nodeagent knows. The text says what was begun; it is shown if the device
    /// stays up.
    Started(String),
    Done,
    /// The means failed, for this reason.
    Failed(String),
    /// This device does not have this means. The text begins with "no".
    Absent(String),
    /// There is no means with this number.
    NoMeans,
}

/// All that decisions need besides the events. Owned by one loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// The phase of the command.
    pub phase: Phase,
    /// The command; None when idle.
    pub command: Option<Command>,
    /// DeviceAction as published.
    pub action: DeviceAction,
    /// NodeAgentStatus as published.
    pub status: NodeAgentStatus,
    boot_id: String,
    /// Reason why a command that is taken has to wait, for display.
    pub(crate) obstacle: &'static str,
    /// Number of the last task beside the loop, so that the answer of an older task is ignored.
    serial: u32,
    /// True after `resume`: the files may differ from this state, so the next step writes them all.
    pub(crate) is_unsure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No command.
    Idle,
    /// The command is taken; it can still be taken back.
    Taken(Hooks),
    /// nodeagent is past the point of no return.
    Acting(Trial),
    /// The command is done, and the device still runs.
    Done,
    /// No means is left; the text says why.
    Failed(String),
}

/// The hooks before the device goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hooks {
    /// The hooks have not run yet.
    Due,
    Running {
        /// The effect's serial.
        serial: u32,
    },
    /// The hooks have ended, or there are none.
    Ended,
}

/// The means that is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Number of the means, 0 for the first.
    pub means: usize,
    /// True for the means of a dry run.
    pub dry_run: bool,
    /// The serial of the effect; None before it begins, and if an earlier nodeagent began it.
    pub running: Option<u32>,
    /// The end of its time, in milliseconds of this boot's clock; None before it begins.
    pub until_ms: Option<u64>,
    /// The text of [`Outcome::Started`].
    pub begun: Option<String>,
    /// The errors of the means before it.
    pub errors: Vec<String>,
    /// The means before it that the device does not have.
    pub absent: Vec<String>,
}

impl State {
    /// The state from the files. `status` was published in this boot and holds the reason of the last boot; `reason`
    /// was written for the next boot. An `action` of another boot is ignored.
    ///
    /// A means that was begun is not begun again: nodeagent waits for the rest of its time.
    pub(crate) fn resume(
        action: DeviceAction,
        status: NodeAgentStatus,
        reason: Option<String>,
        boot_id: &str,
    ) -> Self {
        let of_another = DeviceAction { boot_id: boot_id.to_owned(), ..DeviceAction::default() };
        let action = if action.boot_id == boot_id { action } else { of_another };
        let command = action.command.map(|operation| Command {
            image: action.content_tree_uuid.clone(),
            source: action.source,
            ..Command::new(operation, action.counter, reason)
        });
        let trial = action.trial.as_ref().map_or_else(Trial::default, |trial| Trial {
            means: usize::try_from(trial.means).unwrap_or(usize::MAX),
            until_ms: Some(trial.until_ms),
            ..Trial::default()
        });
        let phase = match (action.state, &command) {
            (DeviceActionState::Idle, _) | (_, None) => Phase::Idle,
            (DeviceActionState::Taken, Some(_)) => Phase::Taken(Hooks::Due),
            (DeviceActionState::Acting, Some(_)) => Phase::Acting(trial),
            (DeviceActionState::Done, Some(_)) => Phase::Done,
            (DeviceActionState::Failed, Some(_)) => Phase::Failed(action.error.clone()),
        };
        let command = command.filter(|_| phase != Phase::Idle);
        let boot_id = boot_id.to_owned();
        Self { phase, command, action, status, boot_id, obstacle: "", serial: 0, is_unsure: true }
    }

    /// The state after an effect failed: as read from the files (`resumed`), as after a crash. Exception: while a
    /// task runs beside the loop, the state is kept, because the end of the task must not be lost.
    #[must_use]
    pub(crate) fn after_failure(self, resumed: Self) -> Self {
        match &self.phase {
            Phase::Taken(Hooks::Running { .. }) | Phase::Acting(Trial { running: Some(_), .. }) => {
                Self { is_unsure: true, ..self }
            }
            Phase::Idle
            | Phase::Taken(Hooks::Due | Hooks::Ended)
            | Phase::Acting(Trial { running: None, .. })
            | Phase::Done
            | Phase::Failed(_) => Self { serial: self.serial, ..resumed },
        }
    }

    /// True if this shutdown is done already. A shutdown leaves the device up, so its command may still be published;
    /// it is not carried out again.
    fn has_done(&self, command: &Command) -> bool {
        command.operation == Operation::Shutdown
            && self.action.shutdown_done == Some(command.counter)
            && self.action.shutdown_source == command.source
    }

    /// The command that is past the point of no return.
    pub(crate) fn acting(&self) -> Option<&Command> {
        self.command.as_ref().filter(|_| matches!(self.phase, Phase::Acting(_)))
    }

    /// Number of times that this command passed the point of no return in this boot.
    fn tries_of(&self, command: &Command) -> u32 {
        if self.action.acted == Some(command.named()) { self.action.tries } else { 0 }
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

/// The state machine of commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAgent;

impl Machine for NodeAgent {
    type Event = Event;
    type State = State;
    type Effect = Effect;
    type Policy = Policy;

    fn step(state: State, event: &Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
        step(state, event, now, *policy)
    }

    fn wake_at(effect: &Effect) -> Option<u64> {
        if let Effect::WakeAt(at_ms) = effect { Some(*at_ms) } else { None }
    }

    fn after_failure(failed: State, resumed: State) -> State {
        failed.after_failure(resumed)
    }
}

/// The state after an event, and the effects that must be carried out before it is valid.
pub(crate) fn step(state: State, event: &Event, now: Moment, policy: Policy) -> (State, Vec<Effect>) {
    let before = state.clone();
    let mut next = State { is_unsure: false, ..state };
    if matches!(event, Event::Looked(_)) {
        next.obstacle = "";
    }
    let own = match next.phase.clone() {
        Phase::Idle => idle(&mut next, event),
        Phase::Taken(hooks) => taken(&mut next, hooks, event, now, policy),
        Phase::Acting(trial) => acting::acting(&mut next, trial, event, now, policy),
        Phase::Done | Phase::Failed(_) => over(&mut next, event),
    };
    if let Event::MeansFound(means) = event {
        next.action.means = Some(means.clone());
    }
    showing::show(&mut next, event, now);
    let mut effects = between(&before, &next, own);
    effects.extend(forget_again(&next, event, now));
    effects.extend(wake(&next, now).map(Effect::WakeAt));
    (next, effects)
}

fn idle(next: &mut State, event: &Event) -> Vec<Effect> {
    match event {
        Event::Looked(Facts { command: Some(command), .. }) => {
            next.command = Some(command.clone());
            next.phase = Phase::Taken(Hooks::Due);
            Vec::new()
        }
        Event::Looked(_) | Event::HooksEnded { .. } | Event::Acted { .. } | Event::MeansFound(_) => {
            Vec::new()
        }
    }
}

fn taken(next: &mut State, hooks: Hooks, event: &Event, now: Moment, policy: Policy) -> Vec<Effect> {
    match event {
        Event::Looked(facts) if !is_still_in_effect(next, facts) => {
            next.phase = Phase::Idle;
            next.command = None;
            vec![Effect::Drop]
        }
        Event::Looked(facts) => taken_and_in_effect(next, hooks, facts, now, policy),
        Event::HooksEnded { serial } => {
            if hooks == (Hooks::Running { serial: *serial }) {
                next.phase = Phase::Taken(Hooks::Ended);
            }
            Vec::new()
        }
        Event::Acted { .. } | Event::MeansFound(_) => Vec::new(),
    }
}

/// The command is taken and still in effect. Taken was on disk before this snapshot, so an agent that wants to revoke
/// the command sees Taken and waits for nodeagent.
fn taken_and_in_effect(
    next: &mut State,
    hooks: Hooks,
    facts: &Facts,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    next.command.clone_from(&facts.command);
    match (hooks, &facts.command) {
        (Hooks::Running { .. }, _) => Vec::new(),
        (Hooks::Due | Hooks::Ended, Some(command)) if next.has_done(command) => {
            next.phase = Phase::Done;
            next.status.all_domains_halted = true;
            Vec::new()
        }
        (Hooks::Due | Hooks::Ended, Some(command)) if MOST_TRIES <= next.tries_of(command) => {
            next.phase = Phase::Failed(acting::too_often(command));
            Vec::new()
        }
        (Hooks::Due | Hooks::Ended, _) if !facts.is_released => {
            next.obstacle = NOT_RELEASED;
            Vec::new()
        }
        (Hooks::Due, Some(command)) if policy.has_hooks && !policy.dry_run => {
            let serial = next.next_serial();
            next.phase = Phase::Taken(Hooks::Running { serial });
            vec![Effect::RunHooks { serial, command: command.clone() }]
        }
        (Hooks::Due | Hooks::Ended, _) if facts.is_activating => {
            next.obstacle = ACTIVATING;
            next.phase = Phase::Taken(Hooks::Ended);
            Vec::new()
        }
        (Hooks::Due | Hooks::Ended, _) => acting::pass_no_return(next, facts, now, policy),
    }
}

/// The command is done or has failed. That lasts until it is cleared or another command is in effect. A failed
/// command was not carried out, so an ActionRecord that says it was begun is removed.
fn over(next: &mut State, event: &Event) -> Vec<Effect> {
    match event {
        Event::Looked(facts) if facts.proof.kept_until.is_none() && acting::is_proof_wrong(next, facts) => {
            vec![Effect::ForgetRecord]
        }
        Event::Looked(facts) if !is_still_in_effect(next, facts) => {
            next.phase = Phase::Idle;
            next.command = None;
            vec![Effect::Drop]
        }
        Event::Looked(_) | Event::HooksEnded { .. } | Event::Acted { .. } | Event::MeansFound(_) => {
            Vec::new()
        }
    }
}

/// Removes a record once more that could not be removed, when it is time. Meanwhile nothing waits for that: an
/// operator may need this device to go down although its disk takes no writes.
fn forget_again(next: &State, event: &Event, now: Moment) -> Option<Effect> {
    let Event::Looked(Facts { proof: DurableRecord { kept_until: Some(until), .. }, .. }) = event else {
        return None;
    };
    match &next.phase {
        Phase::Taken(_) | Phase::Acting(_) => None,
        Phase::Idle | Phase::Done | Phase::Failed(_) if *until <= now.boot_ms => Some(Effect::ForgetRecord),
        Phase::Idle | Phase::Done | Phase::Failed(_) => Some(Effect::WakeAt(*until)),
    }
}

/// True if the command that was taken is still in effect.
fn is_still_in_effect(next: &State, facts: &Facts) -> bool {
    match (&next.command, &facts.command) {
        (Some(taken), Some(in_effect)) => taken.is_same(in_effect),
        (Some(_) | None, None) | (None, Some(_)) => false,
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
