//! The plan as lines: a table of the pods, what would hold the drain up, and the verdict.

use drain::progress::Line;
use drain::{Reason, Verdict};

use super::{Extra, NodePlan};
use crate::drain::forecast::trouble;
use crate::screen::table;

/// Columns of the table.
const HEAD: [&str; 6] = ["POD", "OWNER", "VERDICT", "ORDER", "VOLUMES", "REASONS"];

/// A cell without content.
const NOTHING: &str = "-";

/// Number of equal pods from which on they are one row.
const FOLDED: usize = 3;

/// Lines of the plan of one node.
pub(crate) fn render(node_plan: &NodePlan) -> Vec<String> {
    let forecast = &node_plan.forecast;
    let mut text = vec![head(node_plan)];
    text.extend(pods(node_plan));
    for blocker in forecast.troubles() {
        text.push(format!("BLOCKED: {}", trouble(&blocker)));
        if !blocker.hint.is_empty() {
            text.push(format!("  do: {}", blocker.hint));
        }
    }
    text.extend(forecast.notes().into_iter().map(|note| format!("Note: {note}")));
    text.push(forecast.verdict());
    text
}

fn head(node_plan: &NodePlan) -> String {
    let lines = &node_plan.forecast.trial.lines;
    let (name, cordon) = match &node_plan.snapshot.node {
        Some(node) => match (&node.cordoned_by, node.cordoned) {
            (Some(owner), true) => (node.name.as_str(), format!("cordoned by {owner}")),
            (None, true) => (node.name.as_str(), "cordoned".to_owned()),
            (_, false) => (node.name.as_str(), "not cordoned".to_owned()),
        },
        None => ("", "gone".to_owned()),
    };
    let leaving = lines.iter().filter(|line| line.verdict.must_leave()).count();
    let movable = lines.iter().filter(|line| !belongs_to_the_node(line)).count();
    format!("Node {name} ({cordon}): {leaving} of {movable} pods have to leave")
}

/// True for a pod that stays on every node that is drained: of a DaemonSet, or a static pod.
fn belongs_to_the_node(line: &Line) -> bool {
    line.verdict == Verdict::Leave
        && line.reasons.iter().all(|reason| matches!(reason, Reason::DaemonSet | Reason::Mirror))
}

/// The table of the pods: equal ones in one row, and no column in which nothing stands.
fn pods(node_plan: &NodePlan) -> Vec<String> {
    let mut groups: Vec<(Vec<String>, Vec<Row>)> = Vec::new();
    for (line, extra) in node_plan.forecast.trial.lines.iter().zip(&node_plan.extras) {
        let (kind, row) = (kind(line, extra), row(line, extra));
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((kind, vec![row])),
        }
    }
    let rows: Vec<Row> = groups.into_iter().flat_map(|(_, rows)| folded(rows)).collect();
    let is_used = |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell != NOTHING));
    let used: Vec<bool> = (0..HEAD.len()).map(is_used).collect();
    let head: Vec<&str> = only(&HEAD, &used);
    if head.is_empty() {
        Vec::new()
    } else {
        table(&head, &rows.iter().map(|row| only(row, &used)).collect::<Vec<_>>())
    }
}

type Row = [String; HEAD.len()];

/// The cells of these columns.
fn only<T: Clone>(row: &[T], used: &[bool]) -> Vec<T> {
    row.iter().zip(used).filter(|(_, used)| **used).map(|(cell, _)| cell.clone()).collect()
}

/// What pods have in common that share a row. For pods that stay, only why.
fn kind(line: &Line, extra: &Extra) -> Vec<String> {
    let mut kind = vec![line.verdict.name().to_owned()];
    kind.extend(line.reasons.iter().map(ToString::to_string));
    if line.verdict != Verdict::Leave {
        kind.extend([line.id.namespace.clone(), line.owner.clone(), extra.order.to_string()]);
        kind.extend(extra.volumes.iter().cloned());
    }
    kind
}

/// One row for many equal pods; few keep a row each.
fn folded(rows: Vec<Row>) -> Vec<Row> {
    match rows.as_slice() {
        [[pod, owner, rest @ ..], others @ ..] if rows.len() >= FOLDED => {
            let is_of_one = others.iter().all(|[_, other, ..]| other == owner);
            let owner = if is_of_one { owner.as_str() } else { NOTHING };
            let [verdict, order, volumes, reasons] = rest.clone();
            let pods = format!("{pod} and {} more", others.len());
            vec![[pods, owner.to_owned(), verdict, order, volumes, reasons]]
        }
        _ => rows,
    }
}

fn row(line: &Line, extra: &Extra) -> Row {
    let or_dash = |text: String| if text.is_empty() { NOTHING.to_owned() } else { text };
    let reasons: Vec<String> = line.reasons.iter().map(ToString::to_string).collect();
    let order = if line.verdict == Verdict::Leave || extra.order == 0 {
        String::new()
    } else {
        extra.order.to_string()
    };
    [
        line.id.to_string(),
        or_dash(line.owner.clone()),
        line.verdict.name().to_owned(),
        or_dash(order),
        or_dash(extra.volumes.join(", ")),
        or_dash(reasons.join("; ")),
    ]
}

#[cfg(test)]
mod tests;
