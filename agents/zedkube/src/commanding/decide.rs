//! What follows from a command on the Node: the command file for device-op, the image for baseos, the request for a
//! drain, and the answer. Pure.

use cluster::node_commands::{
    AnswerState, CommandAnswer, GivenCommand, LONGEST_TEXT, NodeCommand, UpdateText,
};
use schemas::{
    BaseOsConfig, BaseOsHold, CommandLine, CommandState, DeviceAction, DeviceActionState, DeviceOpStatus,
    ImageLine, Operation, Outcome, Source,
};
use session::{Answer, Phase};
use text::one_line;

/// Reason shown while the setting `commands.from-cluster` is off.
const OFF: &str =
    "this device carries no command of the cluster out: its setting commands.from-cluster is false";

/// Reason shown before device-op has recorded the counter that stood before the command.
const NO_FIRST_COUNTER: &str =
    "device-op on the device has not yet recorded the counter before this one; does it run? (`ebb status`)";

/// Reason shown while the one who carries the command out says nothing.
fn silent(taker: &Taker<'_>) -> String {
    let agent = if matches!(taker, Taker::Baseos(_)) { "baseos" } else { "device-op" };
    format!("{agent} on the device has not taken the command yet (`ebb status` there says whether it runs)")
}

/// Reason shown for a command that was taken back when nodeagent was past the point of no return.
const TOO_LATE: &str = "too late to take it back: the device is going down";

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

/// The operation of device-op that a command asks for; a drain and an update are none.
pub(super) const fn operation(command: NodeCommand) -> Option<Operation> {
    match command {
        NodeCommand::Reboot => Some(Operation::Reboot),
        NodeCommand::Shutdown => Some(Operation::Shutdown),
        NodeCommand::Update | NodeCommand::Drain => None,
    }
}

/// A command file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) counter: u32,
    /// `DesiredState`: false takes the command back, and only records its counter.
    pub(super) is_wanted: bool,
}

/// What is known of a command, whichever it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) command: NodeCommand,
    /// Setting `commands.from-cluster`.
    pub(super) is_on: bool,
    /// Of our Node: the counter of no text at all, and the command if it stands; `None` while our Node is not seen.
    pub(super) node: Option<(u32, Option<&'a GivenCommand>)>,
    /// Our Node was seen without this command.
    pub(super) is_seen_without: bool,
}

/// The files of an operation of device-op.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationFiles {
    /// The command file as published last.
    pub(super) file: Option<Standing>,
    /// The counter that device-op has recorded.
    pub(super) recorded: Option<u32>,
    /// That was the counter of this command already when its file was published, or first seen by this process.
    pub(super) is_repeated: bool,
}

/// Who carries a command out, and what they say of it in this boot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Taker<'a> {
    DeviceOp(Operation, OperationFiles, Option<&'a DeviceOpStatus>),
    Baseos(Option<&'a BaseOsHold>),
    /// Our own drain, with our request for it.
    Drain(Option<&'a OwnRequest>),
}

/// How far the device is, whoever has commanded it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device<'a> {
    /// nodeagent, in this boot.
    pub(super) action: Option<&'a DeviceAction>,
    /// Phase of the drain.
    pub(super) phase: &'a Phase,
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

/// What device-op or baseos says of a command.
struct Said<'a> {
    counter: u32,
    state: CommandState,
    reason: &'a str,
    /// The drain is for this command.
    is_served: bool,
    /// nodeagent is past the point of no return with it.
    is_acting: bool,
}

impl<'a> Known<'a> {
    /// The text of the command, on one line, if it stands and is accepted.
    pub(super) fn text(&self) -> Option<&'a str> {
        let (_, given) = self.node?;
        given?.text.as_deref().ok()
    }

    /// What has to be published for the command: what follows from its text and counter if it stands and counts, and
    /// `present` while our Node is not seen.
    fn published<T>(&self, present: Option<T>, of: impl FnOnce(&'a str, u32) -> Option<T>) -> Option<T> {
        match self.node {
            _ if !self.is_on => None,
            None => present,
            Some((_, given)) => {
                let given = given.filter(|_| self.is_seen_without)?;
                of(given.text.as_deref().ok()?, given.counter)
            }
        }
    }
}

/// The command file that has to be published; `None` for none.
pub(super) fn file(known: &Known<'_>, files: OperationFiles) -> Option<Standing> {
    let taken_back = |standing: Standing| Standing { is_wanted: false, ..standing };
    if !known.is_on {
        return files.file.map(taken_back);
    }
    if is_unrecorded(files) {
        return files.file;
    }
    let Some((no_text, given)) = known.node else { return files.file };
    match given {
        Some(GivenCommand { counter, text: Ok(_), .. }) => {
            Some(Standing { counter: *counter, is_wanted: known.is_seen_without })
        }
        // The counter stays, so that the same text is no new command if it comes again.
        Some(GivenCommand { text: Err(_), .. }) | None => {
            let counter = files.file.map(|file| file.counter).or(files.recorded).unwrap_or(no_text);
            Some(Standing { counter, is_wanted: false })
        }
    }
}

/// The text of the request for a drain that has to stand; `None` for none. `present` is the text of the one that stands.
pub(super) fn request<'a>(known: &Known<'a>, present: Option<&'a str>) -> Option<&'a str> {
    known.published(present, |text, _| Some(text))
}

/// The images that have to be configured. `present` are those that are; `hold` is what baseos says in this boot. An image
/// that is not commanded any more is not configured any more; one that baseos has kept over a boot has no file, and is
/// taken back by one.
pub(super) fn images(
    known: &Known<'_>,
    present: Vec<BaseOsConfig>,
    hold: Option<&BaseOsHold>,
) -> Vec<BaseOsConfig> {
    if known.is_on && known.node.is_none() {
        return present;
    }
    let wanted = known.published(None, |text, counter| config(text, counter).ok());
    let is_left = |line: &&ImageLine| {
        let is_it = |config: &BaseOsConfig| config.content_tree_uuid == line.content_tree_uuid;
        let has_file = present.iter().any(|config| is_it(config) && config.activate);
        let is_pending = line.source == Source::Cluster && line.state != CommandState::Done;
        is_pending && !has_file && !wanted.as_ref().is_some_and(is_it)
    };
    let taken_back = hold.into_iter().flat_map(|hold| hold.images.iter().filter(is_left));
    let taken_back = taken_back.map(|line| BaseOsConfig {
        base_os_version: line.base_os_version.clone(),
        content_tree_uuid: line.content_tree_uuid.clone(),
        retry_update_counter: line.retry_update_counter,
        ..BaseOsConfig::default()
    });
    taken_back.chain(wanted.clone()).collect()
}

/// The image that a text wants.
///
/// # Errors
/// The text is refused; the words say why.
fn config(text: &str, counter: u32) -> Result<BaseOsConfig, String> {
    let UpdateText { image, version, reason } = UpdateText::parse(text)?;
    let config = BaseOsConfig {
        base_os_version: version,
        // As the controller writes it: the same image of two sources is one image.
        content_tree_uuid: image.to_lowercase(),
        retry_update_counter: counter,
        activate: true,
        by: String::new(),
        reason: one_line(&reason, LONGEST_TEXT),
    };
    let refusal = config.refusal();
    let key = NodeCommand::Update.key();
    refusal.map_or(Ok(config), |why| Err(format!("the text of annotation {key} is refused: {why}")))
}

/// True while device-op has not recorded the counter of a file that asks for nothing. The next command has to wait:
/// device-op carries a command out only if it knows a counter before it.
fn is_unrecorded(files: OperationFiles) -> bool {
    files.file.is_some_and(|file| !file.is_wanted && files.recorded != Some(file.counter))
}

/// How far the command is; `None` if it does not stand.
pub(super) fn answer(known: &Known<'_>, taker: &Taker<'_>, device: &Device<'_>) -> Option<CommandAnswer> {
    let Known { command, .. } = *known;
    let (_, given) = known.node?;
    let Some(given) = given else { return too_late(command, taker, device) };
    let answer = |state, reason: &str| Some(CommandAnswer::new(command, given.counter, state, reason));
    let text = match &given.text {
        Ok(text) => text,
        Err(why) => return answer(AnswerState::Failed, why),
    };
    if let Some(said) = said(taker, device, Some(given.counter)) {
        let (state, reason) = in_words(&said, device);
        return answer(state, reason);
    }
    if !known.is_on {
        return answer(AnswerState::Recorded, OFF);
    }
    if !known.is_seen_without {
        return answer(AnswerState::Recorded, &may_be_old(command));
    }
    match taker {
        Taker::Drain(request) => {
            let (state, reason) = of_request(text, *request, device.phase);
            return answer(state, &reason);
        }
        // After a boot it may also be a command that waits, or that was done by this boot: then device-op says so at
        // once.
        Taker::DeviceOp(_, files, Some(_)) if files.is_repeated => {
            return answer(AnswerState::Recorded, &repeated(command));
        }
        Taker::DeviceOp(_, files, _) if is_unrecorded(*files) => {
            return answer(AnswerState::Waiting, NO_FIRST_COUNTER);
        }
        Taker::DeviceOp(..) => {}
        Taker::Baseos(_) => {
            if let Err(why) = config(text, given.counter) {
                return answer(AnswerState::Failed, &why);
            }
        }
    }
    // After a boot device-op and baseos say nothing at first.
    let before = device.last.filter(|last| last.is_to(command, given.counter));
    let before = before.filter(|before| before.state != AnswerState::Waiting);
    before.map_or_else(
        || answer(AnswerState::Waiting, &silent(taker)),
        |before| answer(before.state, &before.reason),
    )
}

/// How far the drain with this text is, in the words of the Node.
fn of_request(text: &str, request: Option<&OwnRequest>, phase: &Phase) -> (AnswerState, String) {
    let Some(request) = request.filter(|request| request.context == text) else {
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
        Answer::None if matches!(phase, Phase::Complete { .. }) => AnswerState::Draining,
        Answer::None => of_drain(phase),
    };
    (state, request.reason.clone())
}

/// A command that was taken back while the device goes down already.
fn too_late(command: NodeCommand, taker: &Taker<'_>, device: &Device<'_>) -> Option<CommandAnswer> {
    let counter = match taker {
        // Its image is not wanted any more, so baseos says nothing of it.
        Taker::Baseos(_) => {
            let was_on_its_way = |last: &&CommandAnswer| {
                last.command == command && matches!(last.state, AnswerState::Drained | AnswerState::Acting)
            };
            let last = device.last.filter(was_on_its_way);
            last.filter(|_| acts(device, |action| !action.content_tree_uuid.is_empty()))?.counter
        }
        Taker::DeviceOp(..) | Taker::Drain(_) => {
            let said = said(taker, device, None)?;
            (in_words(&said, device).0 == AnswerState::Acting).then_some(said.counter)?
        }
    };
    Some(CommandAnswer::new(command, counter, AnswerState::Acting, TOO_LATE))
}

/// What device-op or baseos says of the command, with this counter if one is given.
fn said<'a>(taker: &Taker<'a>, device: &Device<'_>, counter: Option<u32>) -> Option<Said<'a>> {
    let is_it = |known: u32| counter.is_none_or(|counter| counter == known);
    match *taker {
        Taker::DeviceOp(operation, _, status) => {
            let status = status?;
            let of_cluster =
                |line: &&CommandLine| (line.source, line.operation) == (Source::Cluster, operation);
            let line = status.commands.iter().find(of_cluster).filter(|line| is_it(line.counter))?;
            let waits_for_drain = line.state == CommandState::Waiting && line.reason.is_empty();
            let is_served = waits_for_drain && status.operation == Some(operation);
            let reason = match line.state {
                CommandState::HandedOver => &status.release,
                CommandState::Waiting if is_served => &status.blocked_by,
                CommandState::Recorded
                | CommandState::Waiting
                | CommandState::Done
                | CommandState::TakenBack
                | CommandState::Failed => &line.reason,
            };
            let is_acting = acts(device, |action| action.command == Some(operation));
            Some(Said { counter: line.counter, state: line.state, reason, is_served, is_acting })
        }
        Taker::Baseos(hold) => {
            let hold = hold?;
            let mut of_cluster = hold.images.iter().filter(|line| line.source == Source::Cluster);
            let line = of_cluster.find(|line| is_it(line.retry_update_counter))?;
            let is_served = hold.content_tree_uuid == line.content_tree_uuid;
            let is_acting = acts(device, |action| action.content_tree_uuid == line.content_tree_uuid);
            let (counter, state, reason) = (line.retry_update_counter, line.state, &line.reason);
            Some(Said { counter, state, reason, is_served, is_acting })
        }
        Taker::Drain(_) => None,
    }
}

/// True if nodeagent is past the point of no return with this action. Until device-op has seen that it is done, it is going
/// on.
fn acts(device: &Device<'_>, is_it: impl FnOnce(&DeviceAction) -> bool) -> bool {
    let has_begun = |state| matches!(state, DeviceActionState::Acting | DeviceActionState::Done);
    device.action.is_some_and(|action| has_begun(action.state) && is_it(action))
}

/// What device-op or baseos says, in the words of the Node.
fn in_words<'a>(said: &Said<'a>, device: &Device<'_>) -> (AnswerState, &'a str) {
    let state = match said.state {
        CommandState::Recorded => AnswerState::Recorded,
        CommandState::Done => AnswerState::Done,
        CommandState::Failed => AnswerState::Failed,
        CommandState::TakenBack => return (AnswerState::Failed, "it was taken back on the device"),
        CommandState::HandedOver if said.is_acting => AnswerState::Acting,
        CommandState::HandedOver => AnswerState::Drained,
        CommandState::Waiting if said.is_served => of_drain(device.phase),
        CommandState::Waiting => AnswerState::Waiting,
    };
    (state, said.reason)
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
