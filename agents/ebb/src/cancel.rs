//! `ebb cancel`: withdraws what a person asked for with `ebb request`, or takes back what a person commanded.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::{Operation, Source};
use uuid::Uuid;

use crate::operator::{OperatorFlags, reason};
use crate::{operation, request, update};

/// The word for a wish of `ebb update`.
const UPDATE: &str = "update";

/// What `ebb cancel` takes.
#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    /// The command to take back; without it the request of `ebb request` is withdrawn
    #[arg(value_name = "COMMAND", value_parser = command_parser())]
    command: Option<Command>,
    /// Of an update: the image; not needed where a command from here wants only one
    #[arg(value_name = "IMAGE-UUID", requires = "command")]
    image: Option<Uuid>,
    /// Whose command: person (the default), controller, cluster or host; another source's counts as done until a new one
    /// comes. An image of another source is taken back there
    #[arg(long, value_name = "NAME", value_parser = source_parser(), requires = "command")]
    source: Option<Source>,
    /// Why: shown here and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "command")]
    reason: Option<String>,
    #[command(flatten)]
    place: OperatorFlags,
}

/// What a person can command.
#[derive(Clone, Copy, Debug)]
enum Command {
    Operation(Operation),
    Update,
}

/// Takes it back.
pub(crate) fn run(arguments: &CancelArguments) -> anyhow::Result<ExitCode> {
    let (place, why) = (&arguments.place, arguments.reason.as_deref().unwrap_or_default());
    let source = arguments.source.unwrap_or(Source::Person);
    match (arguments.command, arguments.image) {
        (None, _) => request::withdraw(place),
        (Some(Command::Update), _) if source != Source::Person => {
            bail!("an image that source {source} wants can be taken back there only")
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
