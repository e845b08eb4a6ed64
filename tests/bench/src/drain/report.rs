//! Prints the runs as Markdown tables.

use std::collections::BTreeMap;

use super::scenario::Scenario;
use super::tool::{Run, Tool};
use crate::table::Summary;

const HEAD: &str = "| | tool | wall s | times the floor | requests | peak MiB | volumes left | of these |\n\
                    |---|---|---|---|---|---|---|---|";

/// The measurements so far.
pub(super) struct Report {
    runs: usize,
    rows: Vec<String>,
}

impl Report {
    /// An empty report; each tool has `runs` runs.
    pub(super) fn new(runs: usize) -> Self {
        Self { runs, rows: Vec::new() }
    }

    /// Adds a scenario.
    pub(super) fn add(&mut self, scenario: Scenario, measured: &BTreeMap<Tool, Vec<Run>>) {
        let floor = measured.get(&Tool::Floor).map(|runs| wall(runs).median);
        for (tool, runs) in measured {
            let time = wall(runs);
            let ratio = floor.map(|floor| format!("{:.2}", time.median / floor));
            self.rows.push(format!(
                "| {scenario} | {tool} | {} | {} | {} | {} | {} | {} |",
                cell(time, 2),
                ratio.unwrap_or_default(),
                cell(of(runs, |run| whole(run.count())), 0),
                cell(of(runs, |run| kibibytes(run.peak) / 1024.0), 1),
                left(scenario, runs),
                verbs(runs),
            ));
        }
    }

    /// The report as Markdown text.
    pub(super) fn text(&self) -> String {
        let (each, runs) = ("the tools in turn; median (min-max), verbs of the last run", self.runs);
        let title = format!("Runs of each: {runs}, {each}");
        [&[title, String::new(), HEAD.to_owned()], &self.rows[..]].concat().join("\n")
    }
}

fn wall(runs: &[Run]) -> Summary {
    of(runs, |run| run.time.as_secs_f64())
}

fn of(runs: &[Run], number: impl Fn(&Run) -> f64) -> Summary {
    Summary::of(&runs.iter().map(number).collect::<Vec<_>>())
}

fn cell(summary: Summary, digits: usize) -> String {
    let Summary { min, median, max } = summary;
    if min.total_cmp(&max).is_eq() {
        return format!("**{median:.digits$}**");
    }
    format!("**{median:.digits$}** ({min:.digits$}-{max:.digits$})")
}

/// The numbers of each run, because those of one tool may differ widely.
fn left(scenario: Scenario, runs: &[Run]) -> String {
    if !scenario.has_volumes() {
        return String::new();
    }
    runs.iter().map(|run| run.volumes_left.to_string()).collect::<Vec<_>>().join(", ")
}

/// The verbs of the last run, the most frequent first.
fn verbs(runs: &[Run]) -> String {
    let mut verbs: Vec<_> = runs.last().map(|run| run.requests.iter().collect()).unwrap_or_default();
    verbs.sort_by(|(_, a), (_, b)| b.cmp(a));
    verbs.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests is small")]
fn whole(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below the numbers of which a float skips some")]
fn kibibytes(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ran(millis: u64, creates: usize, volumes_left: usize) -> Run {
        let requests = [("list pods".to_owned(), 1), ("create pods/eviction".to_owned(), creates)].into();
        Run { time: Duration::from_millis(millis), peak: 20 * 1024, requests, volumes_left }
    }

    #[test]
    fn a_row_for_each_tool() {
        let mut report = Report::new(3);
        let kubectl = vec![ran(4_000, 10, 10), ran(3_000, 10, 2), ran(5_000, 12, 0)];
        let measured = [(Tool::Floor, vec![ran(3_200, 10, 0)]), (Tool::Kubectl, kubectl)];
        report.add(Scenario::C, &measured.into());
        let text = report.text();
        for line in [
            "| (c) 10 pods with a volume each | floor | **3.20** | 1.00 | **11** | **20.0** | 0 | 10 create \
             pods/eviction, 1 list pods |",
            "| (c) 10 pods with a volume each | kubectl drain | **4.00** (3.00-5.00) | 1.25 | **11** (11-13) | **20.0** | \
             10, 2, 0 | 12 create pods/eviction, 1 list pods |",
        ] {
            assert!(text.contains(line), "no {line} in:\n{text}");
        }
    }
}
