//! `ebb reboot`, `ebb shutdown`, `ebb poweroff`: commands that a person gives on the device.
//!
//! The verbs write topic DeviceOpsCmd of agent `ebb`, with its own counters; device-op drains the node and carries the
//! command out. `--cancel` takes the command back.

mod command;
mod take_back;

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use device_op::facts::Kind;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::clock;
use runtime::peers;
use schemas::{Agent, DeviceAction, DeviceOpsCmd, GoTime, Member, NodeDrainReport, Operation, Source, agent};
use serde::Serialize;

use crate::freeze;
use crate::operator::{OperatorFlags, because, journal, reason, warn_without_zedkube};
use crate::waiting::{SOON, until};

use command::{ActiveCommand, give};
use take_back::{OrderResult, take_back};

/// Source of commands that are given with these verbs.
const OPERATOR: Source = Source::Person;

/// Arguments of the three verbs.
#[derive(Args, Debug)]
pub(crate) struct OperationArguments {
    /// Reason, shown in the answer, in the journal, and in the reboot reason
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Take the command back
    #[arg(long)]
    cancel: bool,
    /// Begin even while commands are frozen (`ebb freeze`); the node is still drained first
    #[arg(long, conflicts_with = "cancel")]
    now: bool,
    /// Only for a reboot, when /persist is full or broken: keep the record in /run, so that any other boot counts as
    /// this reboot; the node is still drained first
    #[arg(long, conflicts_with = "cancel")]
    without_record: bool,
    #[command(flatten)]
    place: OperatorFlags,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CommandOptions {
    /// Begin even during a freeze.
    now: bool,
    /// Do without a record on `/persist`.
    without_record: bool,
}

/// JSON form of the answer.
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
    /// True if device-op has taken the command; null for a take-back.
    accepted: Option<bool>,
    /// Result of a take-back; null for a command.
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
    let options = CommandOptions { now: arguments.now, without_record: arguments.without_record };
    order(operation, options, why, &arguments.place)
}

/// Takes a command back and prints the result.
pub(crate) fn cancel(kind: Kind, why: &str, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let (source, operation) = kind;
    let taken = kubectl_ebb::in_runtime(take_back(&root, kind, why))?;
    record(&root, kind, taken.counter, "taken back", why);
    let whose = if source == OPERATOR { String::new() } else { format!(" of {source}") };
    let text = format!("{operation} {}{whose}{}", taken.counter, because(why));
    let document =
        Document { became: Some(taken.became), ..document(kind, taken.counter, false, &taken.ops_time, why) };
    match taken.became {
        OrderResult::TakenBack => place.answer(&format!("{text} is taken back"), &document)?,
        OrderResult::CarriedOut => place.answer(
            &format!("{text} was carried out before; what is taken back is only its request for a drain"),
            &document,
        )?,
        OrderResult::Pending => place.answer(
            &format!(
                "the take-back of {text} is given; its result is not known yet: `ebb status` follows it"
            ),
            &document,
        )?,
        OrderResult::Unread => place.answer(
            &format!("the take-back of {text} is given; device-op does not run, and reads it when it starts"),
            &document,
        )?,
        OrderResult::TooLate => {
            place.answer(&format!("{text} cannot be taken back"), &document)?;
            bail!("too late: nodeagent is carrying {operation} out, and the device is going down");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn order(
    operation: Operation,
    options: CommandOptions,
    why: &str,
    place: &OperatorFlags,
) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let kind = (OPERATOR, operation);
    let (given, report) = kubectl_ebb::in_runtime(async {
        let given = give(&root, operation, options, why).await?;
        record(&root, kind, given.command.counter, "commanded", why);
        let is_begun =
            given.is_accepted && (options.now || freeze::in_effect(&root, clock::wall()).is_none());
        let report = if is_begun { reported(&root).await } else { None };
        Ok((given, report))
    })?;
    let command = &given.command;
    warn_without_zedkube(&root);
    let text = format!("{operation} {}{} is commanded", command.counter, because(why));
    let document = Document {
        accepted: Some(given.is_accepted),
        ..document(kind, command.counter, true, &command.ops_time, why)
    };
    if !given.is_accepted {
        place.answer(&format!("{text}, but device-op has not taken it yet"), &document)?;
        bail!(
            "device-op has not taken {operation} {} in time: `ebb status` and its log say why; the command stays active, \
             and is carried out when device-op takes it: `ebb cancel {operation}` takes it back",
            command.counter
        );
    }
    let line = format!(
        "{}{text}: {}{}; `ebb status` follows it, `ebb cancel {operation}` takes it back",
        dry_run(&root),
        when(&root, options, report),
        besides(&given, options)
    );
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// zedkube's report, once it says whether the node can be drained now; the last one if it does not say so soon.
async fn reported(root: &Root) -> Option<NodeDrainReport> {
    let read = || -> Option<NodeDrainReport> {
        read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global()).ok().flatten()
    };
    let last = read()?;
    if !peers::runs(root, Agent::Zedkube) {
        return Some(last);
    }
    let says = |report: &NodeDrainReport| {
        let is_drained = matches!(report.phase.as_str(), "Cordoning" | "Attempting" | "Pausing" | "Complete");
        is_drained || !report.outlook.is_empty() || report.disabled.is_some() || report.member == Member::No
    };
    let folder = root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile);
    until([folder], SOON, || read().filter(says)).await.or(Some(last))
}

/// Says so if the device will not really go down.
fn dry_run(root: &Root) -> &'static str {
    let action: Option<DeviceAction> =
        read_item(root, agent::NODEAGENT, Persistence::Volatile, &TopicKey::global()).ok().flatten();
    if action.is_some_and(|action| action.is_dry_run()) {
        "DRY RUN (setting device.dry-run): nodeagent will only write it down, and the device stays up; "
    } else {
        ""
    }
}

/// When the command will be carried out, as far as it is known now.
fn when(root: &Root, options: CommandOptions, report: Option<NodeDrainReport>) -> String {
    if let Some(freeze) = freeze::in_effect(root, clock::wall()).filter(|_| !options.now) {
        return format!(
            "once commands are not frozen any more ({}) and the node is drained",
            freeze::summary(&freeze)
        );
    }
    match report {
        Some(NodeDrainReport { disabled: Some(disabled), .. }) => {
            format!("at once, WITHOUT a drain: drains are switched off (by {})", disabled.by)
        }
        Some(NodeDrainReport { member: Member::No, .. }) => {
            "at once, WITHOUT a drain: this device is in no cluster".to_owned()
        }
        Some(NodeDrainReport { outlook, .. }) if !outlook.is_empty() => outlook,
        Some(_) | None => "once the node is drained".to_owned(),
    }
}

/// Further facts for the operator: commands that go first, sources that want the same, no record.
fn besides(given: &ActiveCommand, options: CommandOptions) -> String {
    let first = given.first.map(|(other, counter)| format!("; {other} {counter} goes first"));
    let served = given.served_too.iter();
    let served = served.map(|(source, counter)| {
        format!("; {counter} of {source} asks for the same operation, and counts as done with it")
    });
    let without = options
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

/// Writes the command of the person. `make` is called under the lock of agent `ebb`, so that no other process can write
/// between its check and the file; the lock is released right after, so that a program which acts as the controller can
/// go on.
///
/// # Errors
/// Another `ebb` is writing; `make` fails; the file cannot be written.
fn publish(
    root: &Root,
    operation: Operation,
    make: impl FnOnce(String) -> anyhow::Result<DeviceOpsCmd>,
) -> anyhow::Result<DeviceOpsCmd> {
    let lock = peers::speak_as(root, OPERATOR.agent())?;
    let mut publisher = Publisher::open(root, OPERATOR.agent(), Persistence::Volatile, &lock)?;
    let command = make(now())?;
    publisher.publish(&TopicKey::of_operation(operation), &command)?;
    Ok(command)
}
