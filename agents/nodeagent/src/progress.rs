//! The state machine of a command: taken, hooks, the point of no return, the means of the device.
//!
//! Level-triggered: each look shows every file as it is now. A state holds only when all its effects are done;
//! else the caller goes on with [`State::after_failure`].

mod acting;

use std::time::Duration;

use runtime::clock::Moment;
use runtime::machine::Machine;
use schemas::{ActionRecord, DeviceAction, DeviceActionState, NodeAgentStatus, NodeDrainStatus, Operation};

use crate::effect::{Effect, between};
use crate::showing;
use crate::standing::Command;

/// A device that is still up so long after a means was used was not taken down by it.
pub const STILL_UP: Duration = Duration::from_mins(5);

const MOST_TRIES: u32 = DeviceAction::MOST_TRIES;

/// The siblings' locks make no event: while one is waited for, they are asked this often, in milliseconds.
const LOOK_AT_LOCK_MS: u64 = 1000;

/// What an operator reads while a command that is taken has to wait.
const NOT_RELEASED: &str = "zedkube does not say COMPLETE to the request for it any more";
const ACTIVATING: &str = "baseos is activating an image";

/// The choices, from settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// There are `device.pre` hooks.
    pub has_hooks: bool,
    /// `device.dry-run`: nothing happens but a line in a file.
    pub dry_run: bool,
    /// How long a means has: [`STILL_UP`].
    pub still_up: Duration,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// All files were read anew.
    Looked(Facts),
    /// The hooks of [`Effect::RunHooks`] have ended, however.
    HooksEnded {
        /// The effect's serial.
        serial: u32,
    },
    /// The means of [`Effect::Act`] has answered.
    Acted {
        /// The effect's serial.
        serial: u32,
        /// How it went.
        outcome: Outcome,
    },
    /// The means by which this device can go down were looked for.
    MeansFound(Vec<String>),
}

/// One look at the files; the commands are read last, and then what lets them go.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// zedkube's status.
    pub drain: Option<NodeDrainStatus>,
    /// baseos is activating an image, and lives: the device must stay up.
    pub is_activating: bool,
    /// What let the command go still does: [`crate::standing::is_released`].
    pub is_released: bool,
    /// The command that stands.
    pub command: Option<Command>,
    /// The proof that is on disk.
    pub proof: DurableRecord,
}

/// The durable ActionRecord, as far as nodeagent knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurableRecord {
    /// As its file has it; nothing when there is none, or when it cannot be read.
    pub on_disk: Option<ActionRecord>,
    /// The record that could not be written last, and why.
    pub refused: Option<(ActionRecord, String)>,
}

/// How it went with one means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The device is going down, as far as anybody can tell. In words, for the case that it stays up.
    Started(String),
    /// That was all there is to do.
    Done,
    /// It could not be done, and why.
    Failed(String),
    /// This device does not have this means: "no …".
    Absent(String),
    /// There is no means of this number.
    NoMeans,
}

/// Everything that decisions need. One loop owns it.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// How far the command is.
    pub phase: Phase,
    /// The command; nothing when idle.
    pub command: Option<Command>,
    /// DeviceAction as published.
    pub action: DeviceAction,
    /// NodeAgentStatus as published.
    pub status: NodeAgentStatus,
    /// This boot.
    boot_id: String,
    /// What keeps a command that is taken, in words.
    pub(crate) obstacle: &'static str,
    /// Counts what runs beside the loop, so that a late answer is recognised.
    serial: u32,
    /// Resumed: the files may differ from what is here, and the next step writes them all.
    pub(crate) is_unsure: bool,
}

/// How far the command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing to do.
    Idle,
    /// It can still be taken back.
    Taken(Hooks),
    /// Past the point of no return.
    Acting(Trial),
    /// Done, and the device still runs.
    Done,
    /// No means was left, and why.
    Failed(String),
}

/// The hooks before the device goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// Not run yet.
    Due,
    /// They run.
    Running {
        /// The effect's serial.
        serial: u32,
    },
    /// They have ended, or there are none.
    Ended,
}

/// The means that is being tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trial {
    /// Its number, 0 for the first.
    pub means: usize,
    /// It is the one of a dry run.
    pub dry_run: bool,
    /// The serial; nothing before it has begun, and when a nodeagent before this one has begun it.
    pub running: Option<u32>,
    /// Its time limit, in milliseconds of this boot's clock; nothing before it has begun.
    pub until_ms: Option<u64>,
    /// What it has begun.
    pub begun: Option<String>,
    /// Why those before it failed.
    pub errors: Vec<String>,
    /// Those before it that the device does not have.
    pub absent: Vec<String>,
}

impl State {
    /// The state from what is on disk. `status` is what was published in this boot, with the reason of the last one;
    /// `reason` is what was left behind for the next one. What `action` says of another boot is over.
    ///
    /// A means that was begun is not begun again: what is left of its time is waited for.
    pub fn resume(
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

    /// Where to go on after an effect failed: from what is on disk (`resumed`), as after a crash, except while
    /// something runs beside the loop. It goes on, and its end must not be lost.
    #[must_use]
    pub fn after_failure(self, resumed: Self) -> Self {
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

    /// A shutdown leaves the device up, so its command may be found once more: it is not carried out again.
    fn has_done(&self, command: &Command) -> bool {
        command.operation == Operation::Shutdown
            && self.action.shutdown_done == Some(command.counter)
            && self.action.shutdown_source == command.source
    }

    /// How often the point of no return was passed for this command in this boot.
    fn tries_of(&self, command: &Command) -> u32 {
        if self.action.acted == Some(command.named()) { self.action.tries } else { 0 }
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

/// Decides about commands.
#[derive(Debug, Clone, Copy)]
pub struct NodeAgent;

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

/// The state after an event, and what has to be done before it holds.
pub fn step(state: State, event: &Event, now: Moment, policy: Policy) -> (State, Vec<Effect>) {
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
        Event::Looked(facts) if !stands(next, facts) => {
            next.phase = Phase::Idle;
            next.command = None;
            vec![Effect::Drop]
        }
        Event::Looked(facts) => taken_and_standing(next, hooks, facts, now, policy),
        Event::HooksEnded { serial } => {
            if hooks == (Hooks::Running { serial: *serial }) {
                next.phase = Phase::Taken(Hooks::Ended);
            }
            Vec::new()
        }
        Event::Acted { .. } | Event::MeansFound(_) => Vec::new(),
    }
}

/// Taken was on disk before this look, so whoever wants to stop us from here on sees it and waits for us.
fn taken_and_standing(
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

/// Lasts until the command is cleared, or another one stands. What failed was not carried out: no proof may say so.
fn over(next: &mut State, event: &Event) -> Vec<Effect> {
    match event {
        Event::Looked(facts) if acting::is_proof_wrong(next, facts) => vec![Effect::ForgetRecord],
        Event::Looked(facts) if !stands(next, facts) => {
            next.phase = Phase::Idle;
            next.command = None;
            vec![Effect::Drop]
        }
        Event::Looked(_) | Event::HooksEnded { .. } | Event::Acted { .. } | Event::MeansFound(_) => {
            Vec::new()
        }
    }
}

/// The command that was taken is still the one that stands.
fn stands(next: &State, facts: &Facts) -> bool {
    match (&next.command, &facts.command) {
        (Some(taken), Some(standing)) => taken.is_same(standing),
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}

/// When to look again although nothing happens.
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
