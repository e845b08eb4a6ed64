//! `ebb commands`: lists the last command of each source and operation with its state, and the images that sources want.

use clap::Args;
use device_op::facts::{Kind, all_kinds};
use device_op::operation_files::OperationFiles;
use pubsub::{Persistence, Root, TopicKey, read_item};
use schemas::{BaseOsHold, CommandLine, CommandState, ImageLine, Source, agent};
use serde::Serialize;

use crate::operator::OperatorFlags;
use kubectl_ebb::screen::{self, table};

/// Arguments of `ebb commands`.
#[derive(Args, Debug)]
pub(crate) struct CommandsArguments {
    #[command(flatten)]
    place: OperatorFlags,
}

/// One command of the list, also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    source: Source,
    /// Name of the operation, or `update`.
    operation: &'static str,
    counter: u32,
    state: State,
    reason: String,
    /// UUID of the image of an update; null for an operation.
    image: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum State {
    /// State that DeviceOpStatus or device-op's record gives.
    Known(CommandState),
    /// State that only the counter files tell: device-op has not seen the command yet, or has no record of it any more.
    Untracked(Untracked),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Untracked {
    /// The command is published, and device-op has not taken it.
    Given,
    /// The counter is recorded, so the command is over; its result is not known any more.
    Over,
}

pub(crate) fn run(arguments: &CommandsArguments) -> anyhow::Result<()> {
    let root = arguments.place.root()?;
    let mut operations: Vec<_> = all_kinds().collect();
    operations.sort_unstable();
    let operations = operations.into_iter().filter_map(|kind| row(&root, kind));
    let mut rows: Vec<Row> = operations.chain(images(&root)).collect();
    rows.sort_by_key(|row| row.source);
    if arguments.place.json {
        return screen::json(&rows);
    }
    screen::lines(render(&rows));
    Ok(())
}

/// The commands of all sources that would still be carried out, each with its counter.
pub(crate) fn standing(root: &Root) -> Vec<(Kind, u32)> {
    let stands = |row: &Row| match row.state {
        State::Known(CommandState::Waiting | CommandState::HandedOver)
        | State::Untracked(Untracked::Given) => true,
        State::Known(_) | State::Untracked(Untracked::Over) => false,
    };
    all_kinds().filter_map(|kind| Some((kind, row(root, kind).filter(stands)?.counter))).collect()
}

/// The images that sources want, as baseos shows them; none, with a word about it, if its file cannot be read.
fn images(root: &Root) -> impl Iterator<Item = Row> {
    let hold = read_item::<BaseOsHold>(root, agent::BASEOSMGR, Persistence::Volatile, &TopicKey::global());
    let hold = hold.unwrap_or_else(|refusal| {
        screen::say(&format!("it is not known which images are wanted: {refusal}"));
        None
    });
    let row = |line: ImageLine| Row {
        source: line.source,
        operation: "update",
        counter: line.retry_update_counter,
        state: State::Known(line.state),
        reason: line.reason,
        image: Some(line.content_tree_uuid),
    };
    hold.unwrap_or_default().images.into_iter().map(row)
}

fn row(root: &Root, kind: Kind) -> Option<Row> {
    let (source, operation) = kind;
    match OperationFiles::read(root, kind) {
        Ok(files) => judge(&files, kind),
        Err(refusal) => {
            let (state, reason) = (State::Untracked(Untracked::Given), refusal.to_string());
            Some(Row { source, operation: operation.name(), counter: 0, state, reason, image: None })
        }
    }
}

fn judge(files: &OperationFiles, kind: Kind) -> Option<Row> {
    let (source, operation) = kind;
    let operation = operation.name();
    let row = |counter, state, reason| Row { source, operation, counter, state, reason, image: None };
    let is_it = |line: &&CommandLine| (line.source, line.operation) == kind;
    let shown = files.shown.commands.iter().find(is_it).or_else(|| files.record.ended(kind));
    let known = shown.map(|line| row(line.counter, State::Known(line.state), line.reason.clone()));
    let given = files.published.as_ref().filter(|command| command.desired_state);
    let is_known =
        |counter| files.recorded == Some(counter) || known.as_ref().is_some_and(|row| row.counter == counter);
    if let Some(command) = given.filter(|command| !is_known(command.counter)) {
        let reason = "device-op has not taken it".to_owned();
        return Some(row(command.counter, State::Untracked(Untracked::Given), reason));
    }
    let over = |counter| row(counter, State::Untracked(Untracked::Over), String::new());
    known.or_else(|| files.recorded.filter(|counter| *counter > 0).map(over))
}

fn render(rows: &[Row]) -> Vec<String> {
    if rows.is_empty() {
        return vec!["no command has been given yet".to_owned()];
    }
    let cells = |row: &Row| {
        let Row { source, operation, counter, state, reason, image } = row;
        let image = image.iter().map(|image| format!("image {image}"));
        let why: Vec<_> = image.chain([reason.clone()]).filter(|text| !text.is_empty()).collect();
        let (source, counter) = (source.to_string(), counter.to_string());
        [source, (*operation).to_owned(), counter, word(*state).to_owned(), why.join(": ")]
    };
    table(&["SOURCE", "OPERATION", "COUNTER", "STATE", "WHY"], &rows.iter().map(cells).collect::<Vec<_>>())
}

const fn word(state: State) -> &'static str {
    match state {
        State::Known(CommandState::Recorded) => "only recorded",
        State::Known(CommandState::Waiting) => "waiting",
        State::Known(CommandState::HandedOver) => "handed over",
        State::Known(CommandState::Done) => "done",
        State::Known(CommandState::TakenBack) => "taken back",
        State::Known(CommandState::Failed) => "failed",
        State::Untracked(Untracked::Given) => "given",
        State::Untracked(Untracked::Over) => "over",
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DeviceOpsCmd, Operation};

    use super::*;

    const REBOOT: Kind = (Source::Controller, Operation::Reboot);

    #[test]
    fn a_command_is_shown_as_device_op_has_it_or_as_it_stands() {
        let line = |counter, state| CommandLine {
            source: REBOOT.0,
            operation: REBOOT.1,
            counter,
            state,
            reason: "why".to_owned(),
        };
        for (given, recorded, shown, expected) in [
            (None, None, None, None),
            (None, Some(0), None, None),
            (None, Some(7), None, Some((7, "over"))),
            (Some(8), Some(7), None, Some((8, "given"))),
            (Some(8), Some(8), None, Some((8, "over"))),
            (Some(8), Some(8), Some(line(8, CommandState::Recorded)), Some((8, "only recorded"))),
            (Some(8), Some(8), Some(line(8, CommandState::Waiting)), Some((8, "waiting"))),
            (Some(9), Some(8), Some(line(8, CommandState::Done)), Some((9, "given"))),
            (None, Some(8), Some(line(8, CommandState::TakenBack)), Some((8, "taken back"))),
            (None, Some(8), Some(line(8, CommandState::Failed)), Some((8, "failed"))),
        ] {
            let command = |counter| DeviceOpsCmd { counter, desired_state: true, ..DeviceOpsCmd::default() };
            let mut files =
                OperationFiles { published: given.map(command), recorded, ..OperationFiles::default() };
            files.shown.commands.extend(shown);
            let row = judge(&files, REBOOT);
            assert_eq!(row.map(|row| (row.counter, word(row.state))), expected, "{files:?}");
        }
    }

    #[test]
    fn the_list_is_a_table() {
        let row = Row {
            source: REBOOT.0,
            operation: "reboot",
            counter: 1001,
            state: State::Known(CommandState::Recorded),
            reason: "give another counter".to_owned(),
            image: None,
        };
        let image = Row {
            operation: "update",
            state: State::Known(CommandState::Waiting),
            reason: "its content".to_owned(),
            image: Some("6ba7".to_owned()),
            ..row.clone()
        };
        assert_eq!(
            render(&[row, image]),
            [
                "SOURCE      OPERATION  COUNTER  STATE          WHY",
                "controller  reboot     1001     only recorded  give another counter",
                "controller  update     1001     waiting        image 6ba7: its content",
            ]
        );
        assert_eq!(render(&[]), ["no command has been given yet"]);
    }
}
