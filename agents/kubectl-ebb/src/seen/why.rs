//! `kubectl ebb why NODE…`: a page for each node: what it is doing, what holds it up, and what to do.

use std::process::ExitCode;

use cluster::node_commands::{CommandAnswer, GivenCommand};
use cluster::node_conditions::{DrainEnd, DrainStory};
use serde::Serialize;
use text::one_line;

use super::SeenArguments;
use super::facts::{LONGEST, Seen, State, Told};
use super::slots::{Slot, Table};
use crate::following::{answer_to, words};
use crate::screen::{self, Page, Tone};

/// Names of holders of slots that are shown.
const MOST_HOLDERS: usize = 10;

/// Prints the pages. Exit code 0 when the nodes could be read.
pub fn run(arguments: &SeenArguments) -> anyhow::Result<ExitCode> {
    let chosen = arguments.nodes.chosen("why")?;
    crate::in_runtime(async {
        let (_, all) = arguments.read("why", &chosen).await?;
        if arguments.is_json() {
            match &all[..] {
                [one] => screen::json(&document(one))?,
                all => screen::json(&all.iter().map(document).collect::<Vec<_>>())?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = Page::for_terminal(true);
        for (number, seen) in all.iter().enumerate() {
            if number > 0 {
                page.line("");
            }
            present(seen, &mut page);
            show_slot(&seen.slot, &mut page);
        }
        screen::lines_of_page(&page.lines(""));
        Ok(ExitCode::SUCCESS)
    })
}

/// Adds what the Node says now.
pub(super) fn present(seen: &Seen, page: &mut Page) {
    let (name, state) = (seen.name(), seen.state());
    let since =
        seen.since().map_or_else(String::new, |since| format!(" for {} (since {since})", seen.ago(since)));
    let head = match state {
        State::InService => format!("{name} is in service: nobody drains it"),
        State::Draining
        | State::Drained
        | State::Pending
        | State::NotDrained
        | State::Failed
        | State::Returning
        | State::Cordoned
        | State::NotReady => format!("{name} is {}{since}", state.name()),
    };
    page.toned(if seen.rank() == 0 { Tone::Alarm } else { Tone::Usual }, &head);
    if seen.is_silent_in_drain() {
        page.toned(Tone::Warning, "It is NotReady: the device may be down, and what follows may be old");
    }
    match seen.told() {
        Some(Told::Ebb(story)) => tell(&story, seen, page),
        // That of a cordon follows.
        Some(Told::Other(said)) if state != State::Cordoned => page.field("why", &said),
        Some(Told::Other(_)) | None => {}
    }
    if let Some(cordon) = seen.cordon() {
        page.field("who", &format!("cordoned {cordon}"));
    }
    for said in seen.said_besides() {
        page.field("said", &said);
    }
    for found in seen.node.view.conditions.iter().filter(|found| found.kind != "Ready") {
        let kind = one_line(&found.kind, LONGEST);
        page.field("check", &format!("{kind} since {}: {}", found.since, found.message));
    }
    commands(seen, page);
}

/// Adds the parts of what zedkube says.
fn tell(story: &DrainStory, seen: &Seen, page: &mut Page) {
    page.field("why", &story.head);
    if !story.hint.is_empty() {
        page.field("do", &story.hint);
    }
    if let Some((end, time)) = &story.end {
        let when = seen.when(time);
        match end {
            DrainEnd::Undrained => page.toned(Tone::Alarm, &format!("GOING DOWN WITHOUT A DRAIN {when}")),
            DrainEnd::NextAttempt | DrainEnd::Attempt => {
                page.field("then", &format!("{} {when}", end.words()));
            }
        }
    }
    for trouble in &story.troubles {
        page.toned(Tone::Alarm, &format!("BLOCKED: {}", trouble.what));
        if !trouble.hint.is_empty() {
            page.field("do", &trouble.hint);
        }
    }
}

/// Adds the commands that stand, each with the device's answer; and an answer to a command that stands no more.
fn commands(seen: &Seen, page: &mut Page) {
    let said = |answer: &CommandAnswer| format!("{} (since {})", words(answer), answer.since);
    let mut left = seen.answer();
    for GivenCommand { command, counter, text } in &seen.node.commands.given {
        let (Ok(text) | Err(text)) = text;
        let answer = answer_to(&seen.node, *command, *counter);
        let shown = answer.as_ref().map_or_else(|| "no answer from the device".to_owned(), said);
        page.field("asked", &format!("{} {text:?}: {shown}", command.name()));
        left = left.filter(|left| answer.as_ref() != Some(left));
    }
    if let Some(answer) = left {
        page.field("asked", &format!("an earlier {}: {}", answer.command.name(), said(&answer)));
    }
}

/// Adds the slot and who holds the others.
pub(super) fn show_slot(slot: &Slot, page: &mut Page) {
    let holders = |table: &Table| {
        let shown = table.holders.iter().take(MOST_HOLDERS).cloned().collect::<Vec<_>>().join(", ");
        let more = match table.holders.len().saturating_sub(MOST_HOLDERS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if shown.is_empty() { "nobody".to_owned() } else { format!("{shown}{more}") }
    };
    let text = match slot {
        Slot::Held(table) => format!("held; those of {} are held by {}", table.name, holders(table)),
        Slot::Free(table) if table.holders.is_empty() => return,
        Slot::Free(table) => format!("none; those of {} are held by {}", table.name, holders(table)),
        Slot::Unknown(why) => format!("not known: {why}"),
    };
    page.field("slot", &text);
}

/// JSON form of what is known of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    name: String,
    /// As in the table.
    state: &'static str,
    /// When the state began, in RFC 3339; null if nothing tells.
    since: Option<String>,
    /// Why, on one line; null if there is nothing to say.
    why: Option<String>,
    /// True if the condition that tells of a drain was written by ebb.
    by_ebb: bool,
    ready: bool,
    cordoned: bool,
    cordoned_by: Option<String>,
    cordon_reason: String,
    /// What holds pods; only ebb tells.
    blocked: Vec<Blocked>,
    hint: String,
    /// What happens next by itself, and when.
    deadline: Option<Deadline>,
    /// `held`, `none` or `unknown`.
    slot: &'static str,
    /// Why the slot is not known; null if it is.
    slot_unknown: Option<String>,
    slot_holders: Vec<String>,
    /// The commands that stand.
    commands: Vec<Standing>,
    /// The device's answer; null without one.
    answer: Option<CommandAnswer>,
}

/// What holds pods.
#[derive(Debug, Serialize)]
struct Blocked {
    what: String,
    hint: String,
}

/// What happens next by itself.
#[derive(Debug, Serialize)]
struct Deadline {
    what: &'static str,
    at: String,
}

/// One command that stands.
#[derive(Debug, Serialize)]
struct Standing {
    command: &'static str,
    counter: u32,
    text: String,
}

/// What is known of a node, for programs.
pub(super) fn document(seen: &Seen) -> Document {
    let view = &seen.node.view;
    let told = seen.told();
    let by_ebb = matches!(told, Some(Told::Ebb(_)));
    let (why, story) = match told {
        Some(Told::Ebb(story)) => (Some(story.head.clone()), story),
        Some(Told::Other(said)) => (Some(said), DrainStory::default()),
        None => (None, DrainStory::default()),
    };
    let (slot, holders) = match &seen.slot {
        Slot::Held(table) => ("held", table.holders.clone()),
        Slot::Free(table) => ("none", table.holders.clone()),
        Slot::Unknown(_) => ("unknown", Vec::new()),
    };
    let blocked =
        story.troubles.into_iter().map(|trouble| Blocked { what: trouble.what, hint: trouble.hint });
    let command = |given: &GivenCommand| {
        let (Ok(text) | Err(text)) = &given.text;
        Standing { command: given.command.name(), counter: given.counter, text: text.clone() }
    };
    Document {
        name: view.name.clone(),
        state: seen.state().name(),
        since: seen.since().map(|since| since.to_string()),
        why,
        by_ebb,
        ready: view.ready,
        cordoned: view.cordoned,
        cordoned_by: view.cordoned_by.clone(),
        cordon_reason: seen.node.cordon_reason.clone(),
        blocked: blocked.collect(),
        hint: story.hint,
        deadline: story.end.map(|(end, at)| Deadline { what: end.words(), at }),
        slot,
        slot_unknown: seen.slot.unknown().map(str::to_owned),
        slot_holders: holders,
        commands: seen.node.commands.given.iter().map(command).collect(),
        answer: seen.node.commands.answer(),
    }
}

#[cfg(test)]
mod tests;
