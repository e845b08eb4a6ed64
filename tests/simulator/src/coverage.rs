//! Which faults were met in which phases of a drain: what no history has met is not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Begins a line of the story that says that a fault was met in a phase.
const SEEN: &str = "SEEN ";
const BETWEEN: &str = " | ";

/// What one history has met: phase and fault.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeSet<(String, String)>);

impl Seen {
    pub(crate) fn add(&mut self, phase: &str, fault: &str) {
        self.0.insert((phase.to_owned(), fault.to_owned()));
    }

    /// The lines for the story.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(phase, fault)| format!("{SEEN}{phase}{BETWEEN}{fault}"))
    }
}

/// Number of histories that have met a fault in a phase.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<String, BTreeMap<String, u64>>);

impl Coverage {
    /// Adds what the story of a history says.
    pub(crate) fn add_story(&mut self, story: &str) {
        for line in story.lines().filter_map(|line| line.strip_prefix(SEEN)) {
            if let Some((phase, fault)) = line.split_once(BETWEEN) {
                *self.0.entry(fault.to_owned()).or_default().entry(phase.to_owned()).or_default() += 1;
            }
        }
    }

    /// A table in Markdown: a row for each fault, a column for each phase.
    pub(crate) fn table(&self) -> String {
        let phases: BTreeSet<&String> = self.0.values().flat_map(BTreeMap::keys).collect();
        let mut table = String::from("| fault |");
        let mut line = String::from("|---|");
        for phase in &phases {
            // Writing to a text does not fail.
            write!(table, " {phase} |").unwrap_or_default();
            line.push_str("--:|");
        }
        table = format!("{table}\n{line}\n");
        for (fault, counts) in &self.0 {
            let cells = phases.iter().map(|phase| counts.get(*phase).map_or(String::new(), u64::to_string));
            let cells: Vec<String> = cells.collect();
            writeln!(table, "| {fault} | {} |", cells.join(" | ")).unwrap_or_default();
        }
        table
    }
}
