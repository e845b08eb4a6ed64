//! Prints the matrix as a table.

use crate::judge::Verdict;
use crate::plan::{Boundary, Cell, Column, Plan};
use crate::work::Results;

/// The cells with a wrong result.
pub(crate) fn failures(results: &Results) -> Vec<(&Cell, &str)> {
    let wrong = results.iter().filter_map(|(cell, verdict)| match verdict {
        Verdict::Wrong(why) => Some((cell, why.as_str())),
        Verdict::Ok | Verdict::NotReached => None,
    });
    wrong.collect()
}

/// One line for each boundary, one column for each fault; then the reasons of the failed cells.
pub(crate) fn render(plan: &Plan, results: &Results) -> String {
    let mut text = String::new();
    let titles = Column::ALL.map(|column| format!("{:<14}", column.title()));
    line(&mut text, &format!("{:<24} {} boundary", "", titles.join(" ")));
    for boundary in &plan.boundaries {
        let verdicts = Column::ALL.map(|column| format!("{:<14}", word(boundary, column, results)));
        line(&mut text, &format!("{:<24} {} {}", label(boundary), verdicts.join(" "), boundary.kind()));
    }
    for (cell, why) in failures(results) {
        line(
            &mut text,
            &format!("{} {} ({}): {why}", label(&cell.boundary), cell.column.title(), cell.boundary.kind()),
        );
    }
    let count = |wanted: fn(&Verdict) -> bool| results.values().filter(|verdict| wanted(verdict)).count();
    line(
        &mut text,
        &format!(
            "{} cells: {} ok, {} wrong, {} not reached",
            results.len(),
            count(|verdict| *verdict == Verdict::Ok),
            count(|verdict| matches!(verdict, Verdict::Wrong(_))),
            count(|verdict| *verdict == Verdict::NotReached)
        ),
    );
    text
}

/// Prints a text.
#[expect(clippy::print_stdout, reason = "what scripts/matrix is for")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}

/// The head of a boundary's line, without verdicts.
pub(crate) fn head(boundary: &Boundary) -> String {
    format!("{:<24} {}", label(boundary), boundary.kind())
}

fn label(boundary: &Boundary) -> String {
    format!("{} {} {}", boundary.scenario.title(), boundary.agent.verb(), boundary.number)
}

fn word(boundary: &Boundary, column: Column, results: &Results) -> &'static str {
    match results.get(&Cell { boundary: boundary.clone(), column }) {
        Some(Verdict::Ok) => "ok",
        Some(Verdict::NotReached) => "not reached",
        Some(Verdict::Wrong(_)) => "WRONG",
        None => "-",
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}
