//! `kubectl ebb nodes [NODE…]`: a table of the nodes, those first that somebody has to look at.

use std::collections::BTreeSet;
use std::process::ExitCode;

use drain::Selector;
use text::first_chars;

use super::SeenArguments;
use super::facts::Seen;
use super::why::document;
use crate::kubectl::nodes::Chosen;
use crate::screen::{self, table};

/// Columns of the table.
const HEAD: [&str; 6] = ["NODE", "STATE", "SINCE", "WHY", "SLOT", "NEXT"];

/// Place of the column that is cut to make the table fit.
const WHY: usize = 3;

/// Least characters of that column.
const LEAST: usize = 16;

/// Prints the table. Exit code 0 when the nodes could be read.
pub fn run(arguments: &SeenArguments) -> anyhow::Result<ExitCode> {
    let is_all = arguments.nodes.nodes.is_empty()
        && arguments.nodes.selector.as_deref().unwrap_or_default().is_empty();
    let chosen =
        if is_all { Chosen::Selected(Selector::default()) } else { arguments.nodes.chosen("nodes")? };
    crate::in_runtime(async {
        let (_, mut all) = arguments.read("nodes", &chosen).await?;
        all.sort_by_key(|seen| (seen.rank(), seen.node.view.name.clone()));
        if arguments.is_json() {
            screen::json(&all.iter().map(document).collect::<Vec<_>>())?;
        } else if !all.is_empty() {
            screen::lines(render(&all, screen::size().1));
        }
        for why in unknown(&all) {
            screen::say(&format!("SLOT is not known: {why}"));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Why slots are not known, each reason once.
fn unknown(all: &[Seen]) -> BTreeSet<&str> {
    all.iter().filter_map(|seen| seen.slot.unknown()).collect()
}

fn render(all: &[Seen], columns: usize) -> Vec<String> {
    let row = |seen: &Seen| {
        let slot = seen.slot.word().to_owned();
        [seen.name(), seen.state().name().to_owned(), seen.age(), seen.why(), slot, seen.next()]
    };
    let mut rows: Vec<[String; 6]> = all.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(HEAD.get(column).map(|head| head.len())).max().unwrap_or(0)
    };
    let others: usize = (0..HEAD.len()).filter(|column| *column != WHY).map(width).sum();
    let blanks = 2 * (HEAD.len() - 1);
    // One more character marks the cut.
    let most = columns.saturating_sub(others + blanks + 1).max(LEAST);
    for [_, _, _, why, ..] in &mut rows {
        if why.chars().count() > most + 1 {
            *why = first_chars(why, most);
        }
    }
    table(&HEAD, &rows)
}

#[cfg(test)]
mod tests;
