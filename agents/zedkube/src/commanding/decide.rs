//! What follows from a command on the Node: the command file for device-op, the request for a drain, and the answer.
//! Pure.

use cluster::node_commands::{AnswerState, CommandAnswer, GivenCommand, NodeCommand};
use schemas::{
    CommandLine, CommandState, DeviceAction, DeviceActionState, DeviceOpStatus, Operation, Outcome, Source,
};
use session::{Answer, Phase};

/// Reason shown while the setting `commands.from-cluster` is off.
const OFF: &str =
    "this device carries no command of the cluster out: its setting commands.from-cluster is false";

/// Reason shown before device-op has recorded the counter that stood before the command.
const NO_FIRST_COUNTER: &str =
    "device-op on the device has not yet recorded the counter before this one; does it run? (`ebb status`)";

/// Reason shown while device-op says nothing.
const SILENT: &str =
    "device-op on the device has not taken the command yet (`ebb status` there says whether it runs)";

/// Reason shown for a text that stood already when the Node was first seen.
fn may_be_old(command: NodeCommand) -> String {
    format!(
        "only recorded: the text of annotation {} stood already when this device first saw its Node, and may be an old \
         command; give another text",
        command.key()
    )
}

/// Reason shown for a text whose counter device-op had recorded before: it was carried out, taken back, or only noted
/// at first contact.
fn repeated(command: NodeCommand) -> String {
    format!(
        "this device has noted the text of annotation {} before, and does not carry it out again; give another text",
        command.key()
    )
}

/// The operation of device-op that a command asks for; a drain is none.
pub(super) const fn operation(command: NodeCommand) -> Option<Operation> {
    match command {
        NodeCommand::Reboot => Some(Operation::Reboot),
        NodeCommand::Shutdown => Some(Operation::Shutdown),
        NodeCommand::Drain => None,
    }
}

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
    /// That was the counter of this command already when its file was published, or first seen by this process.
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
    /// Our own request for a drain.
    pub(super) request: Option<&'a OwnRequest>,
    /// The answer before this one.
    pub(super) last: Option<&'a CommandAnswer>,
}

/// The request for a drain that we have published, as the drain knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnRequest {
    /// The text of the annotation.
    pub(crate) context: String,
    /// The drain's answer.
    pub(crate) answer: Answer,
    /// What COMPLETE was answered for.
    pub(crate) outcome: Option<Outcome>,
    /// The device is in a cluster, or may be: else nothing is drained.
    pub(crate) is_member: bool,
    /// Why the drain is where it is, in words.
    pub(crate) reason: String,
}

impl<'a> Known<'a> {
    /// The text of the command, on one line, if it stands and is accepted.
    pub(super) fn text(&self) -> Option<&'a str> {
        let (_, given) = self.node?;
        given?.text.as_deref().ok()
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

/// The text of the request for a drain that has to stand; `None` for none. `present` is the text of the one that stands.
pub(super) fn request<'a>(known: &Known<'a>, present: Option<&'a str>) -> Option<&'a str> {
    match known.node {
        _ if !known.is_on => None,
        None => present,
        Some(_) => known.text().filter(|_| known.is_seen_without),
    }
}

/// True while device-op has not recorded the counter of a file that asks for nothing. The next command has to wait:
/// device-op carries a command out only if it knows a counter before it.
fn is_unrecorded(known: &Known<'_>) -> bool {
    known.file.is_some_and(|file| !file.is_wanted && known.recorded != Some(file.counter))
}

/// How far the command is; `None` if it does not stand.
pub(super) fn answer(known: &Known<'_>, device: &Device<'_>) -> Option<CommandAnswer> {
    let Known { command, .. } = *known;
    let (_, given) = known.node?;
    let Some(given) = given else { return too_late(known, device) };
    let answer = |state, reason: &str| Some(CommandAnswer::new(command, given.counter, state, reason));
    let text = match &given.text {
        Ok(text) => text,
        Err(why) => return answer(AnswerState::Failed, why),
    };
    if let Some(line) = line(command, device).filter(|line| line.counter == given.counter) {
        let (state, reason) = of_line(line, device);
        return answer(state, reason);
    }
    if !known.is_on {
        return answer(AnswerState::Recorded, OFF);
    }
    if !known.is_seen_without {
        return answer(AnswerState::Recorded, &may_be_old(command));
    }
    if operation(command).is_none() {
        let (state, reason) = of_request(text, device);
        return answer(state, &reason);
    }
    // After a boot it may also be a command that waits, or that was done by this boot: then device-op says so at once.
    if known.is_repeated && device.status.is_some() {
        return answer(AnswerState::Recorded, &repeated(command));
    }
    if is_unrecorded(known) {
        return answer(AnswerState::Waiting, NO_FIRST_COUNTER);
    }
    // After a boot device-op says nothing at first.
    let said = device.last.filter(|last| last.is_to(command, given.counter));
    let said = said.filter(|said| said.state != AnswerState::Waiting);
    said.map_or_else(|| answer(AnswerState::Waiting, SILENT), |said| answer(said.state, &said.reason))
}

/// How far the drain with this text is, in the words of the Node.
fn of_request(text: &str, device: &Device<'_>) -> (AnswerState, String) {
    let Some(request) = device.request.filter(|request| request.context == text) else {
        return (AnswerState::Waiting, String::new());
    };
    let undrained = || (AnswerState::Failed, format!("the node is NOT drained: {}", request.reason));
    let state = match request.answer {
        Answer::Complete | Answer::Forced if request.outcome == Some(Outcome::Drained) => {
            AnswerState::Drained
        }
        // The device might go down, but whoever asks for a drain alone wants the node empty.
        Answer::Complete | Answer::Forced => return undrained(),
        Answer::None if !request.is_member => return undrained(),
        Answer::FailedCordon | Answer::FailedDrain => AnswerState::Failed,
        // The node was drained for somebody else; before this request is answered, that has to be confirmed.
        Answer::None if matches!(device.phase, Phase::Complete { .. }) => AnswerState::Draining,
        Answer::None => of_drain(device.phase),
    };
    (state, request.reason.clone())
}

/// A command that was taken back while the device goes down already.
fn too_late(known: &Known<'_>, device: &Device<'_>) -> Option<CommandAnswer> {
    let line = line(known.command, device).filter(|line| of_line(line, device).0 == AnswerState::Acting)?;
    let reason = "too late to take it back: the device is going down";
    Some(CommandAnswer::new(known.command, line.counter, AnswerState::Acting, reason))
}

fn line<'a>(command: NodeCommand, device: &Device<'a>) -> Option<&'a CommandLine> {
    let operation = operation(command)?;
    let is_it = |line: &&CommandLine| (line.source, line.operation) == (Source::Cluster, operation);
    device.status?.commands.iter().find(is_it)
}

/// What device-op says of a command, in the words of the Node.
fn of_line<'a>(line: &'a CommandLine, device: &Device<'a>) -> (AnswerState, &'a str) {
    let status = device.status;
    let is_served = status.is_some_and(|status| status.operation == Some(line.operation));
    let of_status = |text: fn(&DeviceOpStatus) -> &String| status.map_or("", |status| text(status).as_str());
    match line.state {
        CommandState::Recorded => (AnswerState::Recorded, &line.reason),
        CommandState::Done => (AnswerState::Done, &line.reason),
        CommandState::Failed => (AnswerState::Failed, &line.reason),
        CommandState::TakenBack => (AnswerState::Failed, "it was taken back on the device"),
        CommandState::HandedOver => {
            // Until device-op has seen that it is done, it is going on.
            let is_acting = device.action.is_some_and(|action| {
                let has_begun = matches!(action.state, DeviceActionState::Acting | DeviceActionState::Done);
                has_begun && action.command == Some(line.operation)
            });
            let state = if is_acting { AnswerState::Acting } else { AnswerState::Drained };
            (state, of_status(|status| &status.release))
        }
        CommandState::Waiting if !line.reason.is_empty() || !is_served => {
            (AnswerState::Waiting, &line.reason)
        }
        CommandState::Waiting => (of_drain(device.phase), of_status(|status| &status.blocked_by)),
    }
}

const fn of_drain(phase: &Phase) -> AnswerState {
    match phase {
        Phase::Idle | Phase::Waiting(_) | Phase::Failed(_) => AnswerState::Waiting,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } => AnswerState::Draining,
        Phase::Complete { .. } => AnswerState::Drained,
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
    let is_last = |(command, counter): &(NodeCommand, u32)| {
        before.is_empty() && last.is_some_and(|last| last.is_to(*command, *counter))
    };
    let place = |command: &(NodeCommand, u32)| before.iter().position(|known| known == command);
    standing.sort_by_key(|command| (place(command).unwrap_or(usize::MAX), is_last(command)));
    standing
}

/// The one answer that is shown: of the command that is farthest on its way, else of the one that came last.
pub(super) fn shown(
    all: impl Iterator<Item = CommandAnswer>,
    came: &[(NodeCommand, u32)],
) -> Option<CommandAnswer> {
    let place =
        |answer: &CommandAnswer| came.iter().position(|known| *known == (answer.command, answer.counter));
    all.max_by_key(|answer| (rank(answer), place(answer)))
}

const fn rank(answer: &CommandAnswer) -> u8 {
    match answer.state {
        AnswerState::Acting => 4,
        // Of a drain that is the end of its way.
        AnswerState::Drained if !matches!(answer.command, NodeCommand::Drain) => 3,
        AnswerState::Draining => 2,
        AnswerState::Waiting => 1,
        AnswerState::Drained | AnswerState::Recorded | AnswerState::Done | AnswerState::Failed => 0,
    }
}

#[cfg(test)]
mod tests;
