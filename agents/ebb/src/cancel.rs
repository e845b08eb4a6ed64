//! `ebb cancel`: withdraws the request of `ebb request`, or takes a command back.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::{Operation, Source};
use uuid::Uuid;

use crate::operator::{OperatorFlags, reason};
use crate::{operation, request, update};

/// Name of `ebb update` as a value of COMMAND.
const UPDATE: &str = "update";

/// Arguments of `ebb cancel`.
#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    /// Command to take back; without it the request of `ebb request` is withdrawn
    #[arg(value_name = "COMMAND", value_parser = command_parser())]
    command: Option<Command>,
    /// Image of the update to take back; may be left out if only one update is requested on this device
    #[arg(value_name = "IMAGE-UUID", requires = "command")]
    image: Option<Uuid>,
    /// Source of the command: person (the default), controller, cluster or host. A command of another source counts as
    /// done until that source gives a new one; an image of another source can be taken back only there
    #[arg(long, value_name = "NAME", value_parser = source_parser(), requires = "command")]
    source: Option<Source>,
    /// Reason, shown in the answer and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "command")]
    reason: Option<String>,
    #[command(flatten)]
    place: OperatorFlags,
}

/// A command that can be taken back.
#[derive(Clone, Copy, Debug)]
enum Command {
    Operation(Operation),
    Update,
}

/// Withdraws the request or takes the command back.
pub(crate) fn run(arguments: &CancelArguments) -> anyhow::Result<ExitCode> {
    let (place, why) = (&arguments.place, arguments.reason.as_deref().unwrap_or_default());
    let source = arguments.source.unwrap_or(Source::Person);
    match (arguments.command, arguments.image) {
        (None, _) => request::withdraw(place),
        (Some(Command::Update), _) if source != Source::Person => {
            bail!("an image that source {source} wants can be taken back only at that source")
        }
        (Some(Command::Update), image) => update::revert(image, why, place),
        (Some(Command::Operation(operation)), None) => operation::cancel((source, operation), why, place),
        (Some(Command::Operation(operation)), Some(_)) => bail!("a {operation} has no image; leave it out"),
    }
}

fn command_parser() -> impl TypedValueParser<Value = Command> {
    let operation = |name: &str| Operation::from_name(name).map(Command::Operation);
    let names = Operation::ALL.map(Operation::name).into_iter().chain([UPDATE]);
    PossibleValuesParser::new(names).try_map(move |name| {
        if name == UPDATE { Ok(Command::Update) } else { operation(&name).ok_or("no such command") }
    })
}

fn source_parser() -> impl TypedValueParser<Value = Source> {
    let names = Source::ALL.map(Source::name);
    PossibleValuesParser::new(names).try_map(|name| Source::from_name(&name).ok_or("no such source"))
}
