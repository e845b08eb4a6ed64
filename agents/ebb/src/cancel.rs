//! `ebb cancel`: withdraws what a person asked for with `ebb request`, or takes back what he commanded.

use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use schemas::{Operation, Source};

use crate::place::{Place, reason};
use crate::{operation, request};

/// What `ebb cancel` takes.
#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    /// The command to take back; without it the request of `ebb request` is withdrawn
    #[arg(value_name = "OPERATION", value_parser = operation_parser())]
    operation: Option<Operation>,
    /// Whose command: person (the default), controller, cluster or host; another source's counts as done until a new one
    /// comes
    #[arg(long, value_name = "NAME", value_parser = source_parser(), requires = "operation")]
    source: Option<Source>,
    /// Why: shown here and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "operation")]
    reason: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Takes it back.
pub(crate) fn run(arguments: &CancelArguments) -> anyhow::Result<ExitCode> {
    match arguments.operation {
        None => request::withdraw(&arguments.place),
        Some(operation) => {
            let kind = (arguments.source.unwrap_or(Source::Person), operation);
            operation::cancel(kind, arguments.reason.as_deref().unwrap_or_default(), &arguments.place)
        }
    }
}

fn operation_parser() -> impl TypedValueParser<Value = Operation> {
    let names = Operation::ALL.map(Operation::name);
    PossibleValuesParser::new(names).try_map(|name| Operation::from_name(&name).ok_or("no such operation"))
}

fn source_parser() -> impl TypedValueParser<Value = Source> {
    let names = Source::ALL.map(Source::name);
    PossibleValuesParser::new(names).try_map(|name| Source::from_name(&name).ok_or("no such source"))
}
