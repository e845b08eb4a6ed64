//! `ebb reboot`, `ebb shutdown`, `ebb poweroff`: the controller's command, given by a person on the device.
//!
//! They write topic DeviceOpsCmd of agent `controller`; device-op does the rest, the drain first. With `--cancel` the
//! command is taken back.

mod command;
mod standing;
mod take_back;

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
use runtime::clock;
use schemas::{DeviceOpsCmd, GoTime, Operation, agent};
use serde::Serialize;

use crate::place::{Place, reason};
use crate::{journal, peers};

use command::give;
use take_back::{Became, take_back};

/// What the three verbs take.
#[derive(Args, Debug)]
pub(crate) struct OperationArguments {
    /// Why: shown here and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Take the command back
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    place: Place,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    operation: Operation,
    counter: u32,
    desired_state: bool,
    ops_time: &'a str,
    reason: &'a str,
    by: String,
    /// device-op has taken the command; null for a take-back.
    accepted: Option<bool>,
    /// What became of a take-back; null for a command.
    became: Option<Became>,
}

/// Gives the command, or takes it back.
pub(crate) fn run(operation: Operation, arguments: &OperationArguments) -> anyhow::Result<ExitCode> {
    let why = arguments.reason.as_deref().unwrap_or_default();
    if arguments.cancel {
        cancel(operation, why, &arguments.place)
    } else {
        order(operation, why, &arguments.place)
    }
}

/// Takes a command back and says what became of it.
pub(crate) fn cancel(operation: Operation, why: &str, place: &Place) -> anyhow::Result<ExitCode> {
    let root = place.root();
    let taken = crate::in_runtime(take_back(&root, operation))?;
    let command = &taken.command;
    record(&root, operation, command, why);
    let text = format!("{operation} {}{}", command.counter, because(why));
    let document = Document { became: Some(taken.became), ..document(operation, command, why) };
    match taken.became {
        Became::TakenBack => place.answer(&format!("{text} is taken back"), &document)?,
        Became::Pending => place.answer(
            &format!("the take-back of {text} is given; what became of it is not known yet: `ebb status` follows it"),
            &document,
        )?,
        Became::Unread => place.answer(
            &format!("the take-back of {text} is given; zedagent does not run, and reads it when it starts"),
            &document,
        )?,
        Became::TooLate => {
            place.answer(&format!("{text} can not be taken back"), &document)?;
            bail!("too late: nodeagent is carrying {operation} out, and the device is going down");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn order(operation: Operation, why: &str, place: &Place) -> anyhow::Result<ExitCode> {
    let root = place.root();
    let given = crate::in_runtime(give(&root, operation))?;
    let command = &given.command;
    record(&root, operation, command, why);
    peers::warn_without_zedkube(&root);
    let text = format!("{operation} {}{} is commanded", command.counter, because(why));
    let first =
        given.first.map_or_else(String::new, |(other, counter)| format!("; {other} {counter} goes first"));
    let line = if given.is_accepted {
        format!(
            "{text}: once the node is drained{first}; `ebb status` follows it, `ebb cancel {operation}` takes it back"
        )
    } else {
        format!("{text}, but zedagent has not taken it yet: see `ebb status` and its log")
    };
    let document = Document { accepted: Some(given.is_accepted), ..document(operation, command, why) };
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

fn document<'a>(operation: Operation, command: &'a DeviceOpsCmd, why: &'a str) -> Document<'a> {
    Document {
        operation,
        counter: command.counter,
        desired_state: command.desired_state,
        ops_time: &command.ops_time,
        reason: why,
        by: peers::user(),
        accepted: None,
        became: None,
    }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

fn record(root: &Root, operation: Operation, command: &DeviceOpsCmd, why: &str) {
    let what = if command.desired_state { "commanded" } else { "taken back" };
    let text =
        format!("DeviceOpsCmd: {operation} {} {what} by {}{}", command.counter, peers::user(), because(why));
    journal::record(root, &text);
}

/// The controller's commands, for as long as this is the controller.
struct Commands {
    publisher: Publisher<DeviceOpsCmd>,
    key: TopicKey,
    _lock: AgentLock,
}

impl Commands {
    /// # Errors
    /// A controller publishes itself; the folder cannot be used.
    fn open(root: &Root, operation: Operation) -> anyhow::Result<Self> {
        let lock = peers::speak_as(root, agent::CONTROLLER)?;
        let publisher = Publisher::open(root, agent::CONTROLLER, Persistence::Volatile, &lock)?;
        Ok(Self { publisher, key: TopicKey::parse(operation.name())?, _lock: lock })
    }

    /// # Errors
    /// The file cannot be written.
    fn publish(&mut self, counter: u32, desired_state: bool) -> anyhow::Result<DeviceOpsCmd> {
        let ops_time = GoTime::from(clock::wall()).to_string();
        let command = DeviceOpsCmd { counter, desired_state, ops_time };
        self.publisher.publish(&self.key, &command)?;
        Ok(command)
    }
}
