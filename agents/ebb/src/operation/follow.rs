//! `--wait`: follows a command until the device goes down, or the command is over.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use device_op::facts::Kind;
use device_op::operation_files::OperationFiles;
use kubectl_ebb::interrupts::{Interrupt, Interrupts};
use kubectl_ebb::screen;
use pubsub::{PathWatch, Persistence, Root, TopicKey, read_item};
use runtime::{boot, peers};
use schemas::{Agent, CommandLine, CommandState, DeviceActionState, NodeDrainReport, Operation, agent};
use tokio::time::sleep;

use super::Document;
use crate::operator::OperatorFlags;
use crate::request::{LOOK_AT_LOCK, print_phase};
use crate::waiting::over;

/// How far a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// It waits, for this reason; empty while the node is drained for it.
    Waits(String),
    /// nodeagent has it.
    HandedOver,
    /// The device goes down now. Not for this command: then the text says what for.
    GoesDown(String),
    Done,
    /// It is over, and was not carried out; or it is tried again later.
    NotCarriedOut(String),
}

/// Follows the command, and prints each step on stderr. Exit code 0 if the device goes down, by whatever operation, or this
/// one is done; 130 after Ctrl-C. `limit` zero is none. The command stays active whatever ends the waiting.
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
    let boot_id = boot::boot_id(root)?;
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let report = root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile);
    let mut watch = PathWatch::new(OperationFiles::folders(root, source).into_iter().chain([report]));
    let mut over = pin!(over(limit));
    let (mut said, mut phase) = (String::new(), String::new());
    let mut interrupted: Option<Interrupt> = None;
    loop {
        let files = OperationFiles::read(root, kind);
        let text = match files.map(|files| progress(&files, kind, counter, &boot_id)) {
            Ok(Progress::GoesDown(what)) => {
                place.answer(&format!("{operation} {counter}: the device goes down now{what}"), document)?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(Progress::Done) => {
                place.answer(&format!("{operation} {counter} is done"), document)?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(Progress::NotCarriedOut(why)) => bail!("{operation} {counter} is not carried out: {why}"),
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
            () = &mut over => bail!("not waiting any more after {} s: {}", limit.as_secs(), stays()),
            interrupt = interrupts.next() => interrupted = Some(interrupt),
        }
    }
}

/// What nodeagent takes the device down for, if it does so now; empty if that is this command. A shutdown only stops the
/// applications, and a dry run nothing at all.
fn goes_down_for(files: &OperationFiles, kind: Kind, counter: u32, boot_id: &str) -> Option<String> {
    let action = &files.action;
    let operation = action.command.filter(|operation| *operation != Operation::Shutdown)?;
    let words = if files.is(DeviceActionState::Acting, kind, counter) {
        String::new()
    } else if action.content_tree_uuid.is_empty() {
        format!(" for {operation} {} of {}", action.counter, action.source)
    } else {
        format!(" for the {operation} into image {}", action.content_tree_uuid)
    };
    action.takes_down(boot_id).then_some(words)
}

fn progress(files: &OperationFiles, kind: Kind, counter: u32, boot_id: &str) -> Progress {
    let (source, operation) = kind;
    if let Some(what) = goes_down_for(files, kind, counter, boot_id) {
        return Progress::GoesDown(what);
    }
    let line = files.shown.commands.iter().find(|line| (line.source, line.operation) == (source, operation));
    let Some(CommandLine { state, reason, .. }) = line.filter(|line| line.counter == counter) else {
        // DeviceOpStatus is written after the record.
        return if files.has_accepted(kind, counter) {
            Progress::Waits("device-op has taken it".to_owned())
        } else {
            Progress::NotCarriedOut("another command has taken its place (`ebb commands`)".to_owned())
        };
    };
    match state {
        CommandState::Waiting => Progress::Waits(reason.clone()),
        CommandState::HandedOver => Progress::HandedOver,
        CommandState::Done => Progress::Done,
        CommandState::TakenBack => Progress::NotCarriedOut("it was taken back".to_owned()),
        CommandState::Failed | CommandState::Recorded => Progress::NotCarriedOut(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DeviceAction, Source};

    use super::*;

    const BOOT: &str = "boot-1";

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
            (CommandState::TakenBack, Progress::NotCarriedOut("it was taken back".to_owned())),
            (CommandState::Failed, Progress::NotCarriedOut(why())),
            (CommandState::Recorded, Progress::NotCarriedOut(why())),
        ] {
            assert_eq!(progress(&at(state, 7), kind, 7, BOOT), expected);
        }
        let replaced = progress(&at(CommandState::Waiting, 8), kind, 7, BOOT);
        assert!(
            matches!(&replaced, Progress::NotCarriedOut(why) if why.contains("taken its place")),
            "{replaced:?}"
        );
    }

    /// The device ends the wait with itself, so that the answer has to come before, whoever takes it down.
    #[test]
    fn whoever_takes_the_device_down_ends_the_wait() {
        use Operation::{Poweroff, Reboot, Shutdown};
        use Source::{Host, Person};
        let down = |what: &str| Progress::GoesDown(what.to_owned());
        let waits = || Progress::Waits("why".to_owned());
        let acting = DeviceActionState::Acting;
        for (source, command, counter, image, state, boot_id, expected) in [
            (Person, Reboot, 7, "", acting, BOOT, down("")),
            (Person, Reboot, 6, "", acting, BOOT, down(" for reboot 6 of person")),
            (Host, Reboot, 7, "", acting, BOOT, down(" for reboot 7 of host")),
            (Host, Poweroff, 3, "", acting, BOOT, down(" for poweroff 3 of host")),
            (Host, Reboot, 0, "a", acting, BOOT, down(" for the reboot into image a")),
            (Host, Shutdown, 3, "", acting, BOOT, waits()),
            (Host, Reboot, 7, "", acting, "an earlier boot", waits()),
            (Host, Reboot, 7, "", DeviceActionState::Taken, BOOT, waits()),
        ] {
            let mut files = at(CommandState::Waiting, 7);
            files.action = DeviceAction {
                command: Some(command),
                counter,
                source,
                content_tree_uuid: image.to_owned(),
                state,
                boot_id: boot_id.to_owned(),
                ..DeviceAction::default()
            };
            let name = format!("{command} {counter} of {source} {boot_id}");
            assert_eq!(progress(&files, (Person, Reboot), 7, BOOT), expected, "{name}");
            files.action.means = Some(vec![DeviceAction::DRY_RUN.to_owned()]);
            assert_eq!(progress(&files, (Person, Reboot), 7, BOOT), waits(), "dry run: {name}");
        }
    }
}
