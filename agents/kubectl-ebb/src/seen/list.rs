//! `kubectl ebb nodes [NODE…]`: a table of the nodes, those first that somebody has to look at.

use std::collections::BTreeSet;
use std::process::ExitCode;

use drain::Selector;

use super::SeenArguments;
use super::facts::Seen;
use super::why::document;
use crate::kubectl::nodes::Chosen;
use crate::screen;

/// Columns of the table.
const HEAD: [&str; 6] = ["NODE", "STATE", "SINCE", "WHY", "SLOT", "NEXT"];

/// Place of the column that is cut to make the table fit.
const WHY: usize = 3;

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
    screen::fitted_table(&HEAD, all.iter().map(row).collect(), WHY, columns)
}

#[cfg(test)]
mod tests;
