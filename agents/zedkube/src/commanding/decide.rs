//! What follows from a command on the Node: the command file for device-op, and the answer. Pure.

use cluster::node_commands::{CommandAnswer, CommandState, GivenCommand, NodeCommand};
use schemas::{
    CommandLine, CommandState as Fate, DeviceAction, DeviceActionState, DeviceOpStatus, Operation, Source,
};
use session::Phase;

/// Reason shown while the setting `commands.from-cluster` is off.
const OFF: &str =
    "this device carries no command of the cluster out: its setting commands.from-cluster is false";

/// Reason shown for a text that stood already when the Node was first seen.
const MAY_BE_OLD: &str = "only recorded: the text stood already when this device first saw its Node, and may be an old \
                          command; give another text";

/// Reason shown for a text that is known already.
const KNOWN: &str = "this text was carried out or taken back before; give another text";

/// Reason shown before device-op has recorded the counter that stood before the command.
const NO_FIRST_COUNTER: &str =
    "device-op on the device has not yet recorded the counter before this one; does it run? (`ebb status`)";

/// Reason shown while device-op says nothing.
const SILENT: &str = "device-op on the device has not taken the command yet; does it run? (`ebb status`)";

/// A command file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) counter: u32,
    /// `DesiredState`: false takes the command back, and only records its counter.
    pub(super) is_wanted: bool,
}

/// Everything that is known of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) command: NodeCommand,
    pub(super) operation: Operation,
    /// Setting `commands.from-cluster`.
    pub(super) is_on: bool,
    /// Of our Node: the counter of no text at all, and the command if it stands; `None` while our Node is not seen.
    pub(super) node: Option<(u32, Option<&'a GivenCommand>)>,
    /// Our Node was seen without this command.
    pub(super) is_seen_without: bool,
    /// The file as published last.
    pub(super) file: Option<Standing>,
    /// The counter that device-op has recorded.
    pub(super) recorded: Option<u32>,
    /// That was the counter of this command already when its file was published.
    pub(super) is_repeated: bool,
}

/// What the agents on the device say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device<'a> {
    /// device-op, in this boot.
    pub(super) status: Option<&'a DeviceOpStatus>,
    /// nodeagent, in this boot.
    pub(super) action: Option<&'a DeviceAction>,
    /// Phase of the drain.
    pub(super) phase: &'a Phase,
    /// The answer before this one.
    pub(super) last: Option<&'a CommandAnswer>,
}

/// How far a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) command: NodeCommand,
    pub(super) counter: u32,
    pub(super) state: CommandState,
    pub(super) reason: String,
}

impl Progress {
    /// True if the answer tells the same state of the same command; its reason may be another one.
    pub(super) fn is_same(&self, answer: &CommandAnswer) -> bool {
        (self.command, self.counter, self.state) == (answer.command, answer.counter, answer.state)
    }

    /// The answer, with the time at which the command came into this state.
    pub(super) fn dated(self, since: String) -> CommandAnswer {
        let Self { command, counter, state, reason } = self;
        CommandAnswer { command, counter, state, reason, since }
    }
}

/// The file that has to be published; `None` for none.
pub(super) fn file(known: &Known<'_>) -> Option<Standing> {
    let taken_back = |standing: Standing| Standing { is_wanted: false, ..standing };
    if !known.is_on {
        return known.file.map(taken_back);
    }
    if is_unrecorded(known) {
        return known.file;
    }
    let Some((no_text, given)) = known.node else { return known.file };
    match given {
        Some(GivenCommand { counter, text: Ok(_), .. }) => {
            Some(Standing { counter: *counter, is_wanted: known.is_seen_without })
        }
        // The counter stays, so that the same text is no new command if it comes again.
        Some(GivenCommand { text: Err(_), .. }) | None => {
            let counter = known.file.map(|file| file.counter).or(known.recorded).unwrap_or(no_text);
            Some(Standing { counter, is_wanted: false })
        }
    }
}

/// True while device-op has not recorded the counter of a file that asks for nothing. The next command has to wait:
/// device-op carries a command out only if it knows a counter before it.
fn is_unrecorded(known: &Known<'_>) -> bool {
    known.file.is_some_and(|file| !file.is_wanted && known.recorded != Some(file.counter))
}

/// How far the command is; `None` if it does not stand.
pub(super) fn answer(known: &Known<'_>, device: &Device<'_>) -> Option<Progress> {
    let (_, given) = known.node?;
    let Some(given) = given else { return too_late(known, device) };
    let progress = |state, reason: &str| {
        let (command, counter) = (known.command, given.counter);
        Some(Progress { command, counter, state, reason: reason.to_owned() })
    };
    if let Err(why) = &given.text {
        return progress(CommandState::Failed, why);
    }
    if let Some(line) = line(known.operation, device).filter(|line| line.counter == given.counter) {
        let (state, reason) = of_line(line, device);
        return progress(state, reason);
    }
    if !known.is_on {
        return progress(CommandState::Recorded, OFF);
    }
    if !known.is_seen_without {
        return progress(CommandState::Recorded, MAY_BE_OLD);
    }
    if known.is_repeated {
        return progress(CommandState::Recorded, KNOWN);
    }
    if is_unrecorded(known) {
        return progress(CommandState::Waiting, NO_FIRST_COUNTER);
    }
    // After a boot device-op says nothing at first.
    let said = device.last.filter(|last| (last.command, last.counter) == (known.command, given.counter));
    let said = said.filter(|said| said.state != CommandState::Waiting);
    said.map_or_else(|| progress(CommandState::Waiting, SILENT), |said| progress(said.state, &said.reason))
}

/// A command that was taken back while the device goes down already.
fn too_late(known: &Known<'_>, device: &Device<'_>) -> Option<Progress> {
    let line =
        line(known.operation, device).filter(|line| of_line(line, device).0 == CommandState::Acting)?;
    let reason = "too late to take it back: the device is going down".to_owned();
    Some(Progress { command: known.command, counter: line.counter, state: CommandState::Acting, reason })
}

fn line<'a>(operation: Operation, device: &Device<'a>) -> Option<&'a CommandLine> {
    let is_it = |line: &&CommandLine| (line.source, line.operation) == (Source::Cluster, operation);
    device.status?.commands.iter().find(is_it)
}

/// What device-op says of a command, in the words of the Node.
fn of_line<'a>(line: &'a CommandLine, device: &Device<'a>) -> (CommandState, &'a str) {
    let status = device.status;
    let is_served = status.is_some_and(|status| status.operation == Some(line.operation));
    let of_status = |text: fn(&DeviceOpStatus) -> &String| status.map_or("", |status| text(status).as_str());
    match line.state {
        Fate::Recorded => (CommandState::Recorded, &line.reason),
        Fate::Done => (CommandState::Done, &line.reason),
        Fate::Failed => (CommandState::Failed, &line.reason),
        Fate::TakenBack => (CommandState::Failed, "it was taken back on the device"),
        Fate::HandedOver => {
            let is_acting = device.action.is_some_and(|action| {
                (action.state, action.command) == (DeviceActionState::Acting, Some(line.operation))
            });
            let state = if is_acting { CommandState::Acting } else { CommandState::Drained };
            (state, of_status(|status| &status.release))
        }
        Fate::Waiting if !line.reason.is_empty() || !is_served => (CommandState::Waiting, &line.reason),
        Fate::Waiting => (of_drain(device.phase), of_status(|status| &status.blocked_by)),
    }
}

const fn of_drain(phase: &Phase) -> CommandState {
    match phase {
        Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => CommandState::Waiting,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => CommandState::Draining,
        Phase::Complete { .. } => CommandState::Drained,
    }
}

/// The commands that stand, in the order in which they came. Of those that stood when this process began, the one that
/// was answered last counts as the last.
pub(super) fn in_order(
    before: &[(NodeCommand, u32)],
    given: &[GivenCommand],
    last: Option<&CommandAnswer>,
) -> Vec<(NodeCommand, u32)> {
    let mut standing: Vec<_> = given.iter().map(|given| (given.command, given.counter)).collect();
    let is_last = |command: &(NodeCommand, u32)| {
        before.is_empty() && last.is_some_and(|last| (last.command, last.counter) == *command)
    };
    let place = |command: &(NodeCommand, u32)| before.iter().position(|known| known == command);
    standing.sort_by_key(|command| (place(command).unwrap_or(usize::MAX), is_last(command)));
    standing
}

/// The one progress that is shown: of the command that is farthest on its way, else of the one that came last.
pub(super) fn shown(all: impl Iterator<Item = Progress>, came: &[(NodeCommand, u32)]) -> Option<Progress> {
    let place =
        |progress: &Progress| came.iter().position(|known| *known == (progress.command, progress.counter));
    all.max_by_key(|progress| (rank(progress.state), place(progress)))
}

const fn rank(state: CommandState) -> u8 {
    match state {
        CommandState::Acting => 4,
        CommandState::Drained => 3,
        CommandState::Draining => 2,
        CommandState::Waiting => 1,
        CommandState::Recorded | CommandState::Done | CommandState::Failed => 0,
    }
}

#[cfg(test)]
mod tests;
