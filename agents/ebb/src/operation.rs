//! `ebb reboot`, `ebb shutdown`, `ebb poweroff`: a command that a person gives on the device.
//!
//! They write topic DeviceOpsCmd of agent `ebb`, with counters of its own; device-op does the rest, the drain first. With
//! `--cancel` the command is taken back.

mod command;
mod take_back;

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use device_op::facts::Kind;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::clock;
use runtime::peers;
use schemas::{DeviceOpsCmd, GoTime, Member, NodeDrainReport, Operation, Source, agent};
use serde::Serialize;

use crate::freeze;
use crate::operator::{OperatorFlags, because, journal, reason, warn_without_zedkube};

use command::{ActiveCommand, give};
use take_back::{OrderResult, take_back};

/// What a person on the device says.
const OPERATOR: Source = Source::Person;

/// What the three verbs take.
#[derive(Args, Debug)]
pub(crate) struct OperationArguments {
    /// Why: shown here and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Take the command back
    #[arg(long)]
    cancel: bool,
    /// Begin although commands are frozen (`ebb freeze`); the drain is done all the same
    #[arg(long, conflicts_with = "cancel")]
    now: bool,
    /// Only for a reboot, where /persist is full or broken: keep the record in /run, so that any other boot counts as this
    /// reboot; the drain is done all the same
    #[arg(long, conflicts_with = "cancel")]
    without_record: bool,
    #[command(flatten)]
    place: OperatorFlags,
}

/// What an operator says besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Words {
    /// A freeze does not hold it.
    now: bool,
    /// It needs no record on `/persist`.
    without_record: bool,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    operation: Operation,
    source: Source,
    counter: u32,
    desired_state: bool,
    ops_time: &'a str,
    reason: &'a str,
    by: String,
    /// device-op has taken the command; null for a take-back.
    accepted: Option<bool>,
    /// What became of a take-back; null for a command.
    became: Option<OrderResult>,
}

/// Gives the command, or takes it back.
pub(crate) fn run(operation: Operation, arguments: &OperationArguments) -> anyhow::Result<ExitCode> {
    let why = arguments.reason.as_deref().unwrap_or_default();
    if arguments.cancel {
        return cancel((OPERATOR, operation), why, &arguments.place);
    }
    if arguments.without_record && operation != Operation::Reboot {
        bail!("--without-record is for a reboot only: any boot counts as it, and no {operation} is a boot");
    }
    let words = Words { now: arguments.now, without_record: arguments.without_record };
    order(operation, words, why, &arguments.place)
}

/// Takes a command back and says what became of it.
pub(crate) fn cancel(kind: Kind, why: &str, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let (source, operation) = kind;
    let taken = crate::in_runtime(take_back(&root, kind, why))?;
    record(&root, kind, taken.counter, "taken back", why);
    let whose = if source == OPERATOR { String::new() } else { format!(" of {source}") };
    let text = format!("{operation} {}{whose}{}", taken.counter, because(why));
    let document =
        Document { became: Some(taken.became), ..document(kind, taken.counter, false, &taken.ops_time, why) };
    match taken.became {
        OrderResult::TakenBack => place.answer(&format!("{text} is taken back"), &document)?,
        OrderResult::Pending => place.answer(
            &format!("the take-back of {text} is given; what became of it is not known yet: `ebb status` follows it"),
            &document,
        )?,
        OrderResult::Unread => place.answer(
            &format!("the take-back of {text} is given; device-op does not run, and reads it when it starts"),
            &document,
        )?,
        OrderResult::TooLate => {
            place.answer(&format!("{text} can not be taken back"), &document)?;
            bail!("too late: nodeagent is carrying {operation} out, and the device is going down");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn order(operation: Operation, words: Words, why: &str, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let kind = (OPERATOR, operation);
    let given = crate::in_runtime(give(&root, operation, words))?;
    let command = &given.command;
    record(&root, kind, command.counter, "commanded", why);
    warn_without_zedkube(&root);
    let text = format!("{operation} {}{} is commanded", command.counter, because(why));
    let document = Document {
        accepted: Some(given.is_accepted),
        ..document(kind, command.counter, true, &command.ops_time, why)
    };
    if !given.is_accepted {
        place.answer(&format!("{text}, but device-op has not taken it yet"), &document)?;
        bail!(
            "device-op has not taken {operation} {} in time: `ebb status` and its log say why; it stands, and is carried \
             out when device-op takes it: `ebb cancel {operation}` takes it back",
            command.counter
        );
    }
    let line = format!(
        "{text}: {}{}; `ebb status` follows it, `ebb cancel {operation}` takes it back",
        when(&root, words),
        besides(&given, words)
    );
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// When it is carried out, as far as that can be told now.
fn when(root: &Root, words: Words) -> String {
    if let Some(freeze) = freeze::standing(root, clock::wall()).filter(|_| !words.now) {
        return format!(
            "once commands are not frozen any more ({}) and the node is drained",
            freeze::told(&freeze)
        );
    }
    undrained(root).map_or_else(
        || "once the node is drained".to_owned(),
        |why| format!("at once, WITHOUT a drain: {why}"),
    )
}

/// Why zedkube would not drain this node now.
fn undrained(root: &Root) -> Option<String> {
    let report: Option<NodeDrainReport> =
        read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global()).ok().flatten();
    let report = report?;
    if let Some(disabled) = &report.disabled {
        return Some(format!("drains are switched off (by {})", disabled.by));
    }
    (report.member == Member::No).then(|| "this device is in no cluster".to_owned())
}

/// What else the operator has to know.
fn besides(given: &ActiveCommand, words: Words) -> String {
    let first = given.first.map(|(other, counter)| format!("; {other} {counter} goes first"));
    let served = given.served_too.iter();
    let served = served
        .map(|(source, counter)| format!("; {counter} of {source} asks for the same, and is done with it"));
    let without = words
        .without_record
        .then_some("; WITHOUT a record: any other boot counts as this one, a power cut, too");
    first.into_iter().chain(served).chain(without.map(str::to_owned)).collect()
}

fn document<'a>(
    kind: Kind,
    counter: u32,
    desired_state: bool,
    ops_time: &'a str,
    why: &'a str,
) -> Document<'a> {
    let (source, operation) = kind;
    Document {
        operation,
        source,
        counter,
        desired_state,
        ops_time,
        reason: why,
        by: peers::user(),
        accepted: None,
        became: None,
    }
}

fn record(root: &Root, (source, operation): Kind, counter: u32, what: &str, why: &str) {
    let by = peers::user();
    journal(root, &format!("DeviceOpsCmd: {operation} {counter} of {source} {what} by {by}{}", because(why)));
}

fn now() -> String {
    GoTime::from(clock::wall()).to_string()
}

/// Writes the operator's command, made while nobody else can write one. The lock is held for that moment only: a program
/// that stands as the controller is not in the way.
///
/// # Errors
/// Another `ebb` writes just now; the command cannot be made; the file cannot be written.
fn publish(
    root: &Root,
    operation: Operation,
    make: impl FnOnce(String) -> anyhow::Result<DeviceOpsCmd>,
) -> anyhow::Result<DeviceOpsCmd> {
    let lock = peers::speak_as(root, OPERATOR.agent())?;
    let mut publisher = Publisher::open(root, OPERATOR.agent(), Persistence::Volatile, &lock)?;
    let command = make(now())?;
    publisher.publish(&TopicKey::parse(operation.name())?, &command)?;
    Ok(command)
}
