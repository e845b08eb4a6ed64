//! What a Node that is seen means for somebody who waits for its device. Pure.

use cluster::NodeFacts;
use cluster::node_commands::{AnswerState, CommandAnswer, GivenCommand, NodeCommand};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The device has carried out this command with this counter; of a drain, its node is drained.
    Done(NodeCommand, u32),
    /// The device answers no command that was taken back.
    TakenBack,
}

/// A Node that is waited for.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// Name of the Node.
    pub(crate) name: String,
    /// Its UID: a Node that was created anew does not have the command.
    pub(crate) uid: String,
    pub(crate) goal: Goal,
}

/// What follows from a Node that is seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait on; with how far the device is, if it has answered.
    Wait(Option<String>),
    /// The goal is reached.
    Done,
    /// The goal will not be reached; why.
    Failed(String),
}

impl Goal {
    /// The verb that has the goal.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Done(command, _) => command.name(),
            Self::TakenBack => "cancel",
        }
    }

    /// The goal as a participle: `node/edge-a rebooted`.
    pub(super) const fn reached(self) -> &'static str {
        match self {
            Self::Done(NodeCommand::Reboot, _) => "rebooted",
            Self::Done(NodeCommand::Shutdown, _) => "shut down",
            Self::Done(NodeCommand::Update, _) => "updated",
            Self::Done(NodeCommand::Drain, _) => "drained",
            Self::TakenBack => "released from its command",
        }
    }

    /// What stays true when nobody waits any more.
    pub(super) const fn stays(self) -> &'static str {
        match self {
            Self::Done(..) => "the command stands",
            Self::TakenBack => "the command stays taken back",
        }
    }
}

/// What this Node means; `None` if there is no Node of this name.
pub(super) fn next(followed: &Followed, seen: Option<&NodeFacts>) -> Next {
    let Some(node) = seen.filter(|node| node.view.uid == followed.uid) else {
        return Next::Failed("its Node was deleted, and the command with it".to_owned());
    };
    match followed.goal {
        Goal::Done(command, counter) => of_command(node, command, counter),
        Goal::TakenBack => of_taken_back(node),
    }
}

fn of_command(node: &NodeFacts, command: NodeCommand, counter: u32) -> Next {
    let answer = answer_to(node, command, counter);
    let said = answer.as_ref().map(words);
    match answer.map(|answer| answer.state) {
        Some(AnswerState::Done) => return Next::Done,
        Some(AnswerState::Drained) if command == NodeCommand::Drain => return Next::Done,
        Some(AnswerState::Recorded | AnswerState::Failed) => return Next::Failed(said.unwrap_or_default()),
        Some(AnswerState::Waiting | AnswerState::Draining | AnswerState::Drained | AnswerState::Acting)
        | None => {}
    }
    let why = match node.commands.of_kind(command) {
        Some(given) if given.counter == counter => return Next::Wait(said),
        Some(GivenCommand { text: Ok(text) | Err(text), .. }) => {
            format!("another {} was commanded in its place: {text}", command.name())
        }
        None => "the command was taken back".to_owned(),
    };
    Next::Failed(said.map_or_else(|| why.clone(), |said| format!("{why} (the last answer: {said})")))
}

/// The device has let go when it answers nothing, or something about a command that stands.
fn of_taken_back(node: &NodeFacts) -> Next {
    let Some(answer) = node.commands.answer() else {
        return if node.commands.state.is_none() { Next::Done } else { Next::Wait(None) };
    };
    let stands = |given: &GivenCommand| answer.is_to(given.command, given.counter);
    if node.commands.given.iter().any(stands) {
        Next::Done
    } else if answer.state == AnswerState::Acting {
        Next::Failed(too_late(&answer))
    } else {
        Next::Wait(None)
    }
}

/// The device's answer to the command with this counter.
pub(crate) fn answer_to(node: &NodeFacts, command: NodeCommand, counter: u32) -> Option<CommandAnswer> {
    node.commands.answer().filter(|answer| answer.is_to(command, counter))
}

/// State and reason: `Draining: 2 of 7 pods are left`.
pub(crate) fn words(answer: &CommandAnswer) -> String {
    let colon = if answer.reason.is_empty() { "" } else { ": " };
    format!("{:?}{colon}{}", answer.state, answer.reason)
}

/// Why a command that is being carried out cannot be taken back.
pub(crate) fn too_late(answer: &CommandAnswer) -> String {
    format!("too late: the device is going down for its {}, since {}", answer.command.name(), answer.since)
}

#[cfg(test)]
mod tests;
