//! Which faults were met in which phases of a drain: what no history has met is not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Begins a line of the story that says that a fault was met in a phase.
const SEEN: &str = "SEEN ";
const BETWEEN: &str = " | ";

/// Begins a line of the story that says how much there was in it.
const EXTENT: &str = "EXTENT ";

/// How much there was in a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// What the history could be without, from number 1 on.
    pub(crate) parts: u32,
    /// Whole drains.
    pub(crate) drains: u32,
    /// Faults that were met.
    pub(crate) faults: u32,
}

impl Extent {
    /// The line for the story.
    pub(crate) fn line(self) -> String {
        let Self { parts, drains, faults } = self;
        format!("{EXTENT}{parts} parts, {drains} drains, {faults} faults")
    }

    /// What the story of a history says; zeros if it has no end.
    pub(crate) fn of_story(story: &str) -> Self {
        let line = story.lines().find_map(|line| line.strip_prefix(EXTENT)).unwrap_or_default();
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        let mut next = || numbers.next().unwrap_or_default();
        Self { parts: next(), drains: next(), faults: next() }
    }

    /// True if it counts: something was drained, and something went wrong more than once.
    pub(crate) const fn is_full(self) -> bool {
        self.drains >= 1 && self.faults >= 2
    }
}

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
