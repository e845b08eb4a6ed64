//! `ebb history`: the drains of this device, and the story of one, from the files of zedkube's flight recorder.

mod elapsed;
mod told;
pub(crate) mod words;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use jiff::tz::TimeZone;
use kubectl_ebb::screen::{self, Page, Tone, fitted_table};
use pubsub::{Refusal, Root};
use runtime::clock;
use runtime::drain_history::{self, DrainFile};
use schemas::{DrainLine, age};
use serde::Serialize;

use crate::operator::OperatorFlags;
use crate::status::times::Clock;

pub(crate) use elapsed::Elapsed;
pub(crate) use told::{Ending, Told};
use words::Happened;

/// Columns of the table.
const HEAD: [&str; 7] = ["ID", "BEGAN", "OUTCOME", "TOOK", "PODS", "BACK", "FOR"];

/// Place of the column that is cut to make the table fit.
const FOR: usize = 6;

/// Drains from which a present one's end is foretold.
const MOST_TIMES: usize = 5;

/// Arguments of `ebb history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArguments {
    /// The drain whose story is told: its number in the list, its UUID, or `last`
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    place: OperatorFlags,
}

/// The story of one drain, as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    told: &'a Told,
    lines: &'a [DrainLine],
}

/// A drain and its lines.
#[derive(Debug)]
struct Drain {
    told: Told,
    lines: Vec<DrainLine>,
}

/// Prints the table of all drains, or the story of one. Exit code 1 if there is no such drain, or if its file cannot be
/// read.
pub(crate) fn run(arguments: &HistoryArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let folder = drain_history::folder(&root);
    let files = drain_history::list(&folder)?;
    let read = |file: &DrainFile| {
        let lines = drain_history::read(&folder, file)?;
        anyhow::Ok(Drain { told: Told::of(file, &lines), lines })
    };
    let clock = Clock::new(clock::wall(), TimeZone::system());
    if let Some(id) = &arguments.id {
        let drain = read(chosen(&files, id)?)?;
        if arguments.place.json {
            screen::json(&Document { told: &drain.told, lines: &drain.lines })?;
        } else {
            screen::lines_of_page(&story(&drain, &clock, Page::for_terminal(true)).lines(""));
        }
        return Ok(ExitCode::SUCCESS);
    }
    // One file that cannot be read does not hide the others.
    let mut all = Vec::new();
    for file in &files {
        match read(file) {
            Ok(drain) => all.push(drain.told),
            Err(error) => screen::say(&format!("drain {} is left out: {error:#}", file.number)),
        }
    }
    if arguments.place.json {
        screen::json(&all)?;
    } else if files.is_empty() {
        screen::line("no drain has been recorded on this device yet");
    } else {
        screen::lines(table(&all, &clock, screen::size().1));
    }
    Ok(ExitCode::SUCCESS)
}

/// What `ebb status` says of other drains than the present one.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// The last one.
    pub(crate) last: Option<Told>,
    /// How long the last drained ones have taken; empty unless that was asked for.
    pub(crate) took_millis: Vec<u64>,
}

/// The drains before the present one, which has this UUID; an empty one if there is none.
///
/// # Errors
/// The folder cannot be read. A file that cannot be read is left out.
pub(crate) fn past(root: &Root, present: &str, with_times: bool) -> Result<Past, Refusal> {
    let folder = drain_history::folder(root);
    let mut past = Past::default();
    let files = drain_history::list(&folder)?;
    let newest = files.iter().rev().filter(|file| file.drain_id != present);
    for file in newest.take(if with_times { MOST_TIMES } else { 1 }) {
        let Ok(lines) = drain_history::read(&folder, file) else { continue };
        let told = Told::of(file, &lines);
        let took = told.took_millis.filter(|_| with_times && told.outcome == Ending::Drained);
        past.took_millis.extend(took);
        past.last.get_or_insert(told);
    }
    Ok(past)
}

/// The file of the drain that a person means.
///
/// # Errors
/// There is no such drain.
pub(crate) fn chosen<'a>(files: &'a [DrainFile], id: &str) -> anyhow::Result<&'a DrainFile> {
    let last = files.last().context("no drain has been recorded on this device yet")?;
    if id == "last" {
        return Ok(last);
    }
    let is_it = |file: &&DrainFile| file.number.to_string() == id || file.drain_id == id;
    match files.iter().find(is_it) {
        Some(file) => Ok(file),
        None => bail!("there is no drain `{id}`; `ebb history` lists those that are kept"),
    }
}

/// The table, newest last.
fn table(all: &[Told], clock: &Clock, columns: usize) -> Vec<String> {
    let row = |told: &Told| {
        let took = |millis: Option<u64>| millis.map_or_else(|| "-".to_owned(), age);
        [
            told.number.to_string(),
            told.began_at.set().map_or_else(|| "-".to_owned(), |at| clock.shown(at)),
            told.outcome.word().to_owned(),
            took(told.took_millis),
            format!("{}/{}", told.pods_gone, told.pods),
            took(told.back_millis),
            told.asked_by(),
        ]
    };
    fitted_table(&HEAD, all.iter().map(row).collect(), FOR, columns)
}

/// The story: what the drain was for and how it ended, then each line with its time.
fn story(drain: &Drain, clock: &Clock, mut page: Page) -> Page {
    let Drain { told, lines } = drain;
    page.toned(told.outcome.tone(), &format!("Drain {}: {}", told.which(), told.ending()));
    for asked in &told.asked {
        page.field("for", asked);
    }
    for Happened { at, tone, text, .. } in words::story(lines, clock) {
        let at = at.set().map_or_else(|| "-".to_owned(), |at| clock.shown(at));
        page.toned(tone, &format!("{at}  {text}"));
    }
    if lines.is_empty() {
        page.toned(Tone::Warning, "nothing is written down: the file is empty, or what it says was spoilt");
    }
    page
}

#[cfg(test)]
mod tests;
