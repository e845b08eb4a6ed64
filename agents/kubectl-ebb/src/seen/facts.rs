//! What is known of one node. Pure.

use cluster::NodeFacts;
use cluster::node_commands::{AnswerState, CommandAnswer, GivenCommand};
use cluster::node_conditions::{
    DRAIN_IN_PROGRESS, DRAINED, DrainCondition, DrainConditions, DrainEnd, DrainStory, FAILED, NOT_DRAINED,
    PENDING, RETURNING,
};
use drain::view::NodeCondition;
use jiff::Timestamp;
use text::one_line;

use super::slots::Slot;

/// Longest name, and longest text of an annotation, that is shown, in bytes.
pub(super) const LONGEST: usize = 256;

/// What is known of one node.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) node: NodeFacts,
    /// The API server's time when it was read.
    pub(super) now: Option<Timestamp>,
    pub(super) slot: Slot,
}

/// What a node is doing, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its drain goes on.
    Draining,
    /// It is drained.
    Drained,
    /// Its drain waits for its turn.
    Pending,
    /// Its drain is over, and it is not drained.
    NotDrained,
    /// Its drain has failed.
    Failed,
    /// It is given back after a drain.
    Returning,
    /// It is cordoned, and nothing tells of a drain.
    Cordoned,
    /// Its kubelet is away or not well, and nothing tells of a drain.
    NotReady,
    /// It takes pods.
    InService,
}

/// Whose words tell why a node is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// zedkube's, taken apart.
    Ebb(DrainStory),
    /// Those of another program or of Kubernetes.
    Other(String),
}

impl State {
    /// The word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Draining => "Draining",
            Self::Drained => "Drained",
            Self::Pending => "Pending",
            Self::NotDrained => "NotDrained",
            Self::Failed => "Failed",
            Self::Returning => "Returning",
            Self::Cordoned => "Cordoned",
            Self::NotReady => "NotReady",
            Self::InService => "InService",
        }
    }
}

impl Seen {
    /// The name of the node, fit to be shown.
    pub(super) fn name(&self) -> String {
        one_line(&self.node.view.name, LONGEST)
    }

    /// What the node is doing.
    pub(super) fn state(&self) -> State {
        match self.of_drain() {
            Some((state, _)) => state,
            None if !self.node.view.ready => State::NotReady,
            None if self.node.view.cordoned => State::Cordoned,
            None => State::InService,
        }
    }

    /// The state of a drain, if a condition tells of one; and that condition.
    fn of_drain(&self) -> Option<(State, &DrainCondition)> {
        let [progress, drained] =
            [&self.node.drain.in_progress, &self.node.drain.drained].map(Option::as_ref);
        let is_true = |shown: &&DrainCondition| shown.is_true();
        if let Some(progress) = progress.filter(is_true) {
            return Some((State::Draining, progress));
        }
        if let Some(drained) = drained.filter(is_true) {
            return Some((State::Drained, drained));
        }
        // Both are false, and the first of them tells the story.
        let shown = progress.or(drained)?;
        let state = [
            (PENDING, State::Pending),
            (NOT_DRAINED, State::NotDrained),
            (FAILED, State::Failed),
            (RETURNING, State::Returning),
        ];
        let (_, state) = state.into_iter().find(|(reason, _)| *reason == shown.reason)?;
        Some((state, shown))
    }

    /// Since when the node is in its state; `None` if nothing tells.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let time = |shown: &DrainCondition| shown.since.parse::<Timestamp>().ok();
        match self.state() {
            State::Draining | State::Drained => self.of_drain().and_then(|(_, shown)| time(shown)),
            // Both are false: since the last time one of them became so.
            State::Pending | State::NotDrained | State::Failed | State::Returning => {
                let both = [&self.node.drain.in_progress, &self.node.drain.drained];
                both.into_iter().flatten().filter_map(time).max()
            }
            State::NotReady => self.not_ready().and_then(|found| found.since.parse().ok()),
            State::Cordoned | State::InService => None,
        }
    }

    /// How long ago that was, as kubectl shows it; `-` if nothing tells.
    pub(super) fn age(&self) -> String {
        self.since().map_or_else(|| "-".to_owned(), |since| self.ago(since))
    }

    /// How long ago a time was, as kubectl shows it.
    pub(super) fn ago(&self, time: Timestamp) -> String {
        self.now.map_or_else(|| "?".to_owned(), |now| age(now.duration_since(time).as_secs()))
    }

    /// Why the node is in its state; `None` if there is nothing to say.
    pub(super) fn told(&self) -> Option<Told> {
        if let Some((_, shown)) = self.of_drain() {
            return Some(shown.said().map_or_else(
                || Told::Other(format!("{} (not by ebb)", of_others(shown))),
                |said| Told::Ebb(DrainStory::read(said)),
            ));
        }
        match self.state() {
            State::NotReady => {
                let said =
                    self.not_ready().map(|found| found.message.clone()).filter(|said| !said.is_empty());
                Some(Told::Other(
                    said.unwrap_or_else(|| "its kubelet has not said that it is Ready".to_owned()),
                ))
            }
            State::Cordoned => self.cordon().map(Told::Other),
            // No condition tells of them.
            State::Draining
            | State::Drained
            | State::Pending
            | State::NotDrained
            | State::Failed
            | State::Returning
            | State::InService => None,
        }
    }

    /// What conditions say that tell of no drain that goes on, such as another program's drain that is over.
    pub(super) fn said_besides(&self) -> Vec<String> {
        let DrainConditions { in_progress, drained } = &self.node.drain;
        let all = [(DRAIN_IN_PROGRESS, in_progress), (DRAINED, drained)];
        let all = all.into_iter().filter(|_| self.of_drain().is_none());
        let words = |(kind, shown): (&str, &Option<DrainCondition>)| {
            let shown = shown.as_ref()?;
            let said =
                shown.said().map_or_else(|| format!("{} (not by ebb)", of_others(shown)), str::to_owned);
            Some(format!("{kind} is {}: {said}", shown.status))
        };
        all.filter_map(words).collect()
    }

    /// Why, on one line: the part that somebody has to know first.
    pub(super) fn why(&self) -> String {
        let why = match self.told() {
            Some(Told::Ebb(story)) => self.brief(&story),
            Some(Told::Other(said)) => said,
            None => "-".to_owned(),
        };
        if self.is_silent_in_drain() { format!("NotReady; {why}") } else { why }
    }

    /// The part of the story that somebody has to know first.
    fn brief(&self, story: &DrainStory) -> String {
        if let Some((DrainEnd::Undrained, time)) = &story.end {
            return format!("WITHOUT A DRAIN {}", self.when(time));
        }
        story.troubles.first().map_or_else(
            // The state says what the phase says.
            || story.head.split_once(": ").map_or(&*story.head, |(_, reason)| reason).to_owned(),
            |trouble| format!("BLOCKED: {}", trouble.what),
        )
    }

    /// A time to come, and how long that is.
    pub(super) fn when(&self, time: &str) -> String {
        let left = time.parse::<Timestamp>().ok().zip(self.now);
        match left.map(|(time, now)| time.duration_since(now).as_secs()) {
            Some(left @ 0..) => format!("at {time} (in {})", age(left)),
            Some(_) => format!("at {time} (that is over)"),
            None => format!("at {time}"),
        }
    }

    /// True if a condition tells of a drain, and the device may be down and may not be able to tell anything else.
    pub(super) fn is_silent_in_drain(&self) -> bool {
        !self.node.view.ready && self.of_drain().is_some()
    }

    /// Who has cordoned the node, and why; `None` if it is not cordoned.
    pub(super) fn cordon(&self) -> Option<String> {
        if !self.node.view.cordoned {
            return None;
        }
        let by = match &self.node.view.cordoned_by {
            Some(owner) => format!("by {}", one_line(owner, LONGEST)),
            None => "by somebody who has left no name".to_owned(),
        };
        let reason = one_line(&self.node.cordon_reason, LONGEST);
        Some(if reason.is_empty() { by } else { format!("{by}: {reason}") })
    }

    /// The condition Ready, if it is not true.
    fn not_ready(&self) -> Option<&NodeCondition> {
        self.node.view.conditions.iter().find(|found| found.kind == "Ready")
    }

    /// The lowest number is that of the nodes that somebody has to look at.
    pub(super) fn rank(&self) -> u8 {
        let is_blocked = matches!(
            self.told(),
            Some(Told::Ebb(story))
                if !story.troubles.is_empty() || matches!(story.end, Some((DrainEnd::Undrained, _)))
        );
        match self.state() {
            State::NotDrained | State::Failed | State::NotReady => 0,
            State::Draining | State::Pending if is_blocked => 0,
            State::Draining | State::Pending | State::Returning if self.is_silent_in_drain() => 0,
            State::Draining | State::Pending | State::Returning => 1,
            State::Drained | State::Cordoned => 2,
            State::InService => 3,
        }
    }

    /// The device's answer, unless it is about a command that is over and gone.
    pub(super) fn answer(&self) -> Option<CommandAnswer> {
        let answer = self.node.commands.answer()?;
        (self.stands(&answer) || !answer.state.is_final()).then_some(answer)
    }

    fn stands(&self, answer: &CommandAnswer) -> bool {
        self.node.commands.given.iter().any(|given| answer.is_to(given.command, given.counter))
    }

    /// The command that stands, and how far it is; `-` if none stands that is not done.
    pub(super) fn next(&self) -> String {
        let answer = self.answer();
        if let Some(answer) = answer.as_ref().filter(|answer| answer.state != AnswerState::Done) {
            return format!("{}: {:?}", answer.command.name(), answer.state);
        }
        let is_unanswered = |given: &&GivenCommand| {
            !answer.as_ref().is_some_and(|answer| answer.is_to(given.command, given.counter))
        };
        let given = self.node.commands.given.iter().find(is_unanswered);
        given.map_or_else(|| "-".to_owned(), |given| format!("{}: no answer", given.command.name()))
    }
}

/// What another program says in a condition.
fn of_others(shown: &DrainCondition) -> &str {
    let said = [&shown.message, &shown.reason].into_iter().find(|said| !said.is_empty());
    said.map_or("no message", String::as_str)
}

/// So many seconds as kubectl shows an age: `45s`, `5m10s`, `2h`, `3d4h`.
pub(super) fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, of: &str| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{of}"),
    };
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests;
