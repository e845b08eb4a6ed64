//! The steps past the point of no return: the means are used one after the other.

use runtime::clock::Moment;
use schemas::{ActionRecord, DeviceAction, DeviceTrial, Operation, SCHEMA_VERSION};

use crate::current_command::Command;
use crate::effect::Effect;
use crate::facts::{Facts, Outcome};
use crate::policy::Policy;
use crate::state::{Phase, State, Trial};

/// Passes the point of no return. Acting is published first, then the ActionRecord is written, then a means is used.
pub(super) fn pass_no_return(next: &mut State, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    if let Some(command) = next.command.clone() {
        next.action.tries = next.tries_of(&command).saturating_add(1);
        next.action.acted = Some(command.named());
    }
    next.action.trial = None;
    let trial = Trial { dry_run: policy.dry_run, ..Trial::default() };
    record_then_begin(next, trial, facts, now, policy)
}

/// A snapshot while a means is in use or is to be used.
pub(super) fn acting(
    next: &mut State,
    trial: Trial,
    facts: &Facts,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    // The command cannot be taken back any more; only its reason may have changed.
    if next.is_in_effect(facts) {
        next.command.clone_from(&facts.command);
    }
    match trial.until_ms {
        // nodeagent may have stood still for long before its first means, so the command is released once more.
        None if trial.is_unused() && !facts.is_released => {
            let why = "it is not released any more: zedkube has taken its answer back, or does not work; the device was \
                       not touched";
            not_begun(next, why)
        }
        None => record_then_begin(next, trial, facts, now, policy),
        Some(until_ms) if until_ms <= now.boot_ms => time_is_over(next, trial, facts, now, policy),
        Some(_) => Vec::new(),
    }
}

/// Ends a command that was released when nodeagent passed the point of no return, and for which no means was used.
fn not_begun(next: &mut State, why: &str) -> Vec<Effect> {
    next.action.tries = next.action.tries.saturating_sub(1);
    let operation = operation(next).map_or("go down", Operation::name);
    next.phase = Phase::Failed(format!("cannot {operation}: {why}"));
    vec![Effect::ForgetRecord]
}

/// Writes the ActionRecord, and uses a means once the record is on disk: a later boot must not think that the command
/// was never begun.
fn record_then_begin(
    next: &mut State,
    trial: Trial,
    facts: &Facts,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    let Some(command) = next.command.clone() else {
        next.phase = Phase::Idle;
        return Vec::new();
    };
    let record = record(next, &command);
    let refused = facts.proof.refused.as_ref().filter(|(refused, _)| *refused == record);
    match refused {
        _ if facts.proof.on_disk.as_ref() == Some(&record) => begin(next, trial, now, policy),
        None => {
            next.phase = Phase::Acting(trial);
            vec![Effect::Record(record)]
        }
        Some(_) if command.without_record => begin(next, trial, now, policy),
        Some((_, error)) => not_begun(
            next,
            &format!("{error}; without this record a later boot would not know that it was carried out"),
        ),
    }
}

fn record(next: &State, command: &Command) -> ActionRecord {
    ActionRecord {
        schema_version: SCHEMA_VERSION,
        boot_id: next.boot_id.clone(),
        source: command.source,
        command: Some(command.operation),
        counter: command.counter,
        content_tree_uuid: command.image.clone(),
        tries: next.action.tries,
    }
}

/// True if the command has failed and an ActionRecord on disk says that it was begun.
pub(super) fn is_proof_wrong(next: &State, facts: &Facts) -> bool {
    let has_failed = matches!(next.phase, Phase::Failed(_));
    let is_about = |record: &ActionRecord| {
        let command = next.command.as_ref().map(|command| self::record(next, command));
        command.is_some_and(|wanted| ActionRecord { tries: wanted.tries, ..record.clone() } == wanted)
    };
    has_failed && facts.proof.on_disk.as_ref().is_some_and(is_about)
}

/// The time of a means is over and the device is still up. If an earlier nodeagent began the means, its answer is not
/// known.
fn time_is_over(next: &mut State, trial: Trial, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    let is_ours = trial.running.is_some();
    let stays_up = !operation(next).is_some_and(goes_down);
    if stays_up && !is_ours && next.action.tries < DeviceAction::MOST_TRIES {
        // A shutdown has only one means, and its end was not seen: it is begun again.
        return pass_no_return(next, facts, now, policy);
    }
    let error = still_up(next, &trial, policy);
    try_next(next, trial.with_error(error), now, policy)
}

/// A means has ended. The answer of a means that is not in use any more is ignored.
pub(super) fn acted(
    next: &mut State,
    serial: u32,
    outcome: &Outcome,
    now: Moment,
    policy: Policy,
) -> Vec<Effect> {
    let Phase::Acting(mut trial) = next.phase.clone() else { return Vec::new() };
    if trial.running != Some(serial) {
        return Vec::new();
    }
    match outcome {
        Outcome::Started(begun) => {
            // The time limit counts from here and not from the request: services are being stopped in order.
            begin_trial(next, Trial { begun: Some(begun.clone()), ..trial }, serial, now, policy);
            Vec::new()
        }
        Outcome::Done => {
            next.phase = Phase::Done;
            let is_halted = !trial.dry_run && operation(next) == Some(Operation::Shutdown);
            next.status.all_domains_halted = is_halted;
            if let Some(command) = next.command.as_ref().filter(|_| is_halted) {
                next.action.shutdown_done = Some(command.counter);
                next.action.shutdown_source = command.source;
            }
            Vec::new()
        }
        Outcome::Failed(error) => try_next(next, trial.with_error(error.clone()), now, policy),
        Outcome::Absent(what) => {
            trial.absent.push(what.clone());
            try_next(next, trial, now, policy)
        }
        Outcome::NoMeans => {
            next.phase = Phase::Failed(no_means(next, &trial));
            vec![Effect::ForgetReason, Effect::ForgetRecord]
        }
    }
}

/// Goes on to the next means. If the dry run was switched on or off meanwhile, the means are other ones: it begins
/// with the first.
fn try_next(next: &mut State, trial: Trial, now: Moment, policy: Policy) -> Vec<Effect> {
    let trial = if trial.dry_run == policy.dry_run {
        Trial { means: trial.means.saturating_add(1), ..trial }
    } else {
        Trial::default()
    };
    begin(next, trial, now, policy)
}

/// Begins to use one means. The reason is written first, because the device may be down in the next moment.
fn begin(next: &mut State, trial: Trial, now: Moment, policy: Policy) -> Vec<Effect> {
    let Some(command) = next.command.clone() else {
        next.phase = Phase::Idle;
        return Vec::new();
    };
    let serial = next.next_serial();
    let (means, dry_run) = (trial.means, policy.dry_run);
    begin_trial(next, Trial { begun: None, dry_run, ..trial }, serial, now, policy);
    let mut effects = Vec::new();
    if !dry_run && goes_down(command.operation) {
        effects.push(Effect::LeaveReason(command.clone()));
    }
    effects.push(Effect::Act { serial, means, command, dry_run });
    effects
}

/// Starts the full time limit of a means, and publishes it, so that a restarted nodeagent does not use the means
/// again. A dry run is not published: it may be repeated at any time.
fn begin_trial(next: &mut State, trial: Trial, serial: u32, now: Moment, policy: Policy) {
    let until_ms = now.boot_ms.saturating_add(u64::try_from(policy.still_up.as_millis()).unwrap_or(u64::MAX));
    let means = u32::try_from(trial.means).unwrap_or(u32::MAX);
    next.action.trial = (!trial.dry_run).then_some(DeviceTrial { means, until_ms });
    next.phase = Phase::Acting(Trial { running: Some(serial), until_ms: Some(until_ms), ..trial });
}

const fn goes_down(operation: Operation) -> bool {
    match operation {
        Operation::Reboot | Operation::Poweroff => true,
        Operation::Shutdown => false,
    }
}

fn still_up(next: &State, trial: &Trial, policy: Policy) -> String {
    let minutes = policy.still_up.as_secs() / 60;
    match &trial.begun {
        Some(begun) => format!("{begun}, but the device is still up after {minutes} minutes"),
        None if operation(next).is_some_and(goes_down) => {
            format!("no answer, and the device is still up after {minutes} minutes")
        }
        None => format!("it has not ended within {minutes} minutes"),
    }
}

/// The reason why a command is not begun again.
pub(super) fn too_often(command: &Command) -> String {
    format!(
        "cannot {}: it was begun {} times in this boot and the device is still up; see the log of nodeagent, \
         then command it again with a new counter",
        command.operation,
        DeviceAction::MOST_TRIES
    )
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
