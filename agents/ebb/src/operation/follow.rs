//! `--wait`: follows a command until the device goes down, or the command is over.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use device_op::facts::Kind;
use device_op::operation_files::OperationFiles;
use kubectl_ebb::interrupts::{Interrupt, Interrupts};
use kubectl_ebb::screen;
use pubsub::{PathWatch, Persistence, Root, TopicKey, read_item};
use runtime::peers;
use schemas::{Agent, CommandLine, CommandState, DeviceActionState, NodeDrainReport, Operation, agent};
use tokio::time::{Instant, sleep};

use super::Document;
use crate::operator::OperatorFlags;
use crate::request::{LOOK_AT_LOCK, print_phase};

/// How far a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// It waits, for this reason; empty while the node is drained for it.
    Waits(String),
    /// nodeagent has it.
    HandedOver,
    /// The device goes down now.
    GoesDown,
    Done,
    /// It is over, and was not carried out; or it is tried again later.
    Not(String),
}

/// Follows the command, and prints each step on stderr. Exit code 0 if the device goes down or the operation is done, 130
/// after Ctrl-C. `limit` zero is none. The command stays active whatever ends the waiting.
///
/// # Errors
/// The command failed, was taken back or replaced; the time is over.
pub(super) async fn follow(
    root: &Root,
    kind: Kind,
    counter: u32,
    limit: Duration,
    place: &OperatorFlags,
    document: &Document<'_>,
) -> anyhow::Result<ExitCode> {
    let (source, operation) = kind;
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let report = root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile);
    let mut watch = PathWatch::new(OperationFiles::folders(root, source).into_iter().chain([report]));
    let end = (!limit.is_zero()).then(|| Instant::now().checked_add(limit)).flatten();
    let (mut said, mut phase) = (String::new(), String::new());
    let mut interrupted: Option<Interrupt> = None;
    loop {
        let text = match OperationFiles::read(root, kind).map(|files| progress(&files, kind, counter)) {
            Ok(Progress::GoesDown) => {
                place.answer(&format!("{operation} {counter}: the device goes down now"), document)?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(Progress::Done) => {
                place.answer(&format!("{operation} {counter} is done"), document)?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(Progress::Not(why)) => bail!("{operation} {counter} is not carried out: {why}"),
            Ok(Progress::Waits(why)) => why,
            Ok(Progress::HandedOver) => "the node may go down: nodeagent prepares it".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        let stays =
            || format!("{operation} {counter} stays commanded; `ebb cancel {operation}` takes it back");
        // Looked at after the files: a device that goes down ends this program by SIGTERM.
        if let Some(interrupt) = interrupted {
            screen::say(&format!("not waiting any more: {}", stays()));
            return Ok(interrupt.exit_code());
        }
        let away = [Agent::DeviceOp, Agent::Nodeagent].into_iter().find(|agent| !peers::runs(root, *agent));
        let text = away.map_or(text, |agent| format!("{} does not run", schemas::agent::shown(agent.name())));
        if text.is_empty() {
            let report = read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global());
            print_phase(root, report.ok().flatten().as_ref(), &mut phase);
        } else if text != said {
            screen::say(&format!("{operation} {counter}: {text}"));
        }
        said = text;
        tokio::select! {
            () = watch.changed() => {}
            () = sleep(LOOK_AT_LOCK) => {}
            () = until(end) => bail!("not waiting any more after {} s: {}", limit.as_secs(), stays()),
            interrupt = interrupts.next() => interrupted = Some(interrupt),
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

fn progress(files: &OperationFiles, kind: Kind, counter: u32) -> Progress {
    let (source, operation) = kind;
    // A shutdown stops the applications, and a dry run nothing at all: both are over when they are done.
    let goes_down = operation != Operation::Shutdown && !files.action.is_dry_run();
    if goes_down && files.is(DeviceActionState::Acting, kind, counter) {
        return Progress::GoesDown;
    }
    let line = files.shown.commands.iter().find(|line| (line.source, line.operation) == (source, operation));
    let Some(CommandLine { state, reason, .. }) = line.filter(|line| line.counter == counter) else {
        // DeviceOpStatus is written after the record.
        return if files.has_accepted(kind, counter) {
            Progress::Waits("device-op has taken it".to_owned())
        } else {
            Progress::Not("another command has taken its place (`ebb commands`)".to_owned())
        };
    };
    match state {
        CommandState::Waiting => Progress::Waits(reason.clone()),
        CommandState::HandedOver => Progress::HandedOver,
        CommandState::Done => Progress::Done,
        CommandState::TakenBack => Progress::Not("it was taken back".to_owned()),
        CommandState::Failed | CommandState::Recorded => Progress::Not(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DeviceAction, Source};

    use super::*;

    fn at(state: CommandState, counter: u32) -> OperationFiles {
        let line = CommandLine {
            source: Source::Person,
            operation: Operation::Reboot,
            counter,
            state,
            reason: "why".to_owned(),
        };
        let mut files = OperationFiles::default();
        files.shown.commands = vec![line];
        files
    }

    #[test]
    fn how_far_a_command_is() {
        let why = || "why".to_owned();
        let kind = (Source::Person, Operation::Reboot);
        for (state, expected) in [
            (CommandState::Waiting, Progress::Waits(why())),
            (CommandState::HandedOver, Progress::HandedOver),
            (CommandState::Done, Progress::Done),
            (CommandState::TakenBack, Progress::Not("it was taken back".to_owned())),
            (CommandState::Failed, Progress::Not(why())),
            (CommandState::Recorded, Progress::Not(why())),
        ] {
            assert_eq!(progress(&at(state, 7), kind, 7), expected);
        }
        let replaced = progress(&at(CommandState::Waiting, 8), kind, 7);
        assert!(matches!(&replaced, Progress::Not(why) if why.contains("taken its place")), "{replaced:?}");

        let mut files = at(CommandState::HandedOver, 7);
        let (command, state) = (Some(Operation::Reboot), DeviceActionState::Acting);
        files.action =
            DeviceAction { command, counter: 7, source: Source::Person, state, ..DeviceAction::default() };
        assert_eq!(progress(&files, kind, 7), Progress::GoesDown);
        files.action.means = Some(vec![DeviceAction::DRY_RUN.to_owned()]);
        assert_eq!(progress(&files, kind, 7), Progress::HandedOver);
    }
}
