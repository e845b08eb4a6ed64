//! Past the point of no return: one means after the other.

use schemas::Operation;

use super::{Event, Moment, Outcome, Phase, Policy, STILL_UP, State, Trial, stands};
use crate::effect::Effect;

/// A means runs, or one is to be used.
pub(super) fn acting(
    next: &mut State,
    trial: Trial,
    event: &Event,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    match event {
        Event::Looked(facts) => {
            // Only the words may be newer; nothing is taken back any more.
            if stands(next, facts) {
                next.command.clone_from(&facts.command);
            }
            match trial.running {
                None => begin(next, trial, now, policy),
                Some((_, until_ms)) if until_ms <= now.boot_ms => {
                    let error = still_up(next, &trial);
                    try_next(next, trial.with_error(error), now, policy)
                }
                Some(_) => Vec::new(),
            }
        }
        Event::Acted { serial, outcome } if trial.running.is_some_and(|(running, _)| running == *serial) => {
            acted(next, trial, *serial, outcome, now, policy)
        }
        Event::Acted { .. } | Event::HooksEnded { .. } => Vec::new(),
    }
}

fn acted(
    next: &mut State,
    trial: Trial,
    serial: u32,
    outcome: &Outcome,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    match outcome {
        Outcome::Started(begun) => {
            // From here on, and not from when the means was asked: everything is being stopped in order.
            let running = Some((serial, limit(now)));
            next.phase = Phase::Acting(Trial { running, begun: Some(begun.clone()), ..trial });
            Vec::new()
        }
        Outcome::Done => {
            next.phase = Phase::Done;
            let is_halted = !trial.dry_run && operation(next) == Some(Operation::Shutdown);
            next.status.all_domains_halted = is_halted;
            if is_halted {
                next.action.shutdown_done = next.command.as_ref().map(|command| command.counter);
                next.action.shutdown_source =
                    next.command.as_ref().map_or_else(Default::default, |command| command.source);
            }
            Vec::new()
        }
        Outcome::Failed(error) => try_next(next, trial.with_error(error.clone()), now, policy),
        Outcome::Absent(what) => {
            let mut trial = trial;
            trial.absent.push(what.clone());
            try_next(next, trial, now, policy)
        }
        Outcome::NoMeans => {
            next.phase = Phase::Failed(no_means(next, &trial));
            vec![Effect::ForgetReason]
        }
    }
}

/// A dry run that was switched on or off in between has other means, and all is begun anew.
fn try_next(next: &mut State, trial: Trial, now: Moment, policy: Policy) -> Vec<Effect> {
    let trial = if trial.dry_run == policy.dry_run {
        Trial { means: trial.means.saturating_add(1), ..trial }
    } else {
        Trial::default()
    };
    begin(next, trial, now, policy)
}

/// Uses one means. The reason is left behind first: the device may be gone in the next moment.
pub(super) fn begin(next: &mut State, trial: Trial, now: Moment, policy: Policy) -> Vec<Effect> {
    let Some(command) = next.command.clone() else {
        next.phase = Phase::Idle;
        return Vec::new();
    };
    let serial = next.next_serial();
    let (means, dry_run) = (trial.means, policy.dry_run);
    next.phase = Phase::Acting(Trial { running: Some((serial, limit(now))), begun: None, dry_run, ..trial });
    let mut effects = Vec::new();
    if !dry_run && goes_down(command.operation) {
        effects.push(Effect::LeaveReason(command.reason.clone()));
    }
    effects.push(Effect::Act { serial, means, command, dry_run });
    effects
}

const fn goes_down(operation: Operation) -> bool {
    match operation {
        Operation::Reboot | Operation::Poweroff => true,
        Operation::Shutdown => false,
    }
}

fn limit(now: Moment) -> u64 {
    now.boot_ms.saturating_add(u64::try_from(STILL_UP.as_millis()).unwrap_or(u64::MAX))
}

fn still_up(next: &State, trial: &Trial) -> String {
    let minutes = STILL_UP.as_secs() / 60;
    match &trial.begun {
        Some(begun) => format!("{begun}, but the device is still up after {minutes} minutes"),
        None if operation(next).is_some_and(goes_down) => {
            format!("no answer, and the device is still up after {minutes} minutes")
        }
        None => format!("it has not ended within {minutes} minutes"),
    }
}

fn no_means(next: &State, trial: &Trial) -> String {
    let operation = operation(next).map_or("the command", Operation::name);
    if !trial.errors.is_empty() {
        return format!("cannot {operation}, no means is left: {}", trial.errors.join("; "));
    }
    let absent = trial.absent.join("; ");
    let (open, close) = if absent.is_empty() { ("", "") } else { (" (", ")") };
    format!("cannot {operation}: this device has no means for it; set device.command{open}{absent}{close}")
}

fn operation(next: &State) -> Option<Operation> {
    next.command.as_ref().map(|command| command.operation)
}

impl Trial {
    fn with_error(mut self, error: String) -> Self {
        self.errors.push(error);
        self
    }
}
