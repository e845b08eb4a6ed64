//! The plan as text: a table of the pods, then what is in the way.

use std::fmt::Write;

use drain::Verdict;
use drain::diagnosis::Guard;
use drain::progress::Line;
use drain::state::Stage;

use super::{Extra, Foreseen};
use crate::screen::table;

/// The columns of the table.
const HEAD: [&str; 6] = ["POD", "OWNER", "VERDICT", "ORDER", "VOLUMES", "REASONS"];

/// What is in the way of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Who or what.
    pub(crate) cause: String,
    /// The budgets that guard it, with their numbers.
    pub(crate) budgets: Vec<String>,
    /// What a person can do; empty if nothing is known.
    pub(crate) hint: String,
}

/// The text of `ebb plan`.
pub(crate) fn tell(foreseen: &Foreseen) -> String {
    let lines = &foreseen.trial.lines;
    let mut text = head(foreseen);
    if !lines.is_empty() {
        let rows = lines.iter().zip(&foreseen.extras).map(|(line, extra)| row(line, extra));
        text.push_str(&table(HEAD, &rows.collect::<Vec<_>>()));
    }
    let obstacles = foreseen.obstacles();
    if obstacles.is_empty() {
        text.push_str("Nothing is in the way now.\n");
        return text;
    }
    text.push_str("In the way now:\n");
    for Obstacle { pod, cause, budgets, hint } in obstacles {
        // Writing to a String cannot fail.
        writeln!(text, "  {pod}: {cause}").unwrap_or_default();
        for budget in budgets {
            writeln!(text, "    {budget}").unwrap_or_default();
        }
        if !hint.is_empty() {
            writeln!(text, "    hint: {hint}").unwrap_or_default();
        }
    }
    text
}

impl Foreseen {
    /// Every pod that would not go now, and why.
    pub(crate) fn obstacles(&self) -> Vec<Obstacle> {
        self.trial.lines.iter().filter_map(|line| self.obstacle(line)).collect()
    }

    fn obstacle(&self, line: &Line) -> Option<Obstacle> {
        let blocked = self.trial.blocked.iter().find(|blocked| blocked.pod.uid == line.id.uid);
        let pod = line.id.to_string();
        if let Some(blocked) = blocked {
            let cause = blocked.cause_and_holder();
            let budgets = blocked.budgets.iter().map(budget).collect();
            return Some(Obstacle { pod, cause, budgets, hint: blocked.hint.clone() });
        }
        match &line.stage {
            Some(Stage::Paused { text, .. }) => {
                Some(Obstacle { pod, cause: text.clone(), budgets: Vec::new(), hint: String::new() })
            }
            Some(
                Stage::Waiting
                | Stage::Sent
                | Stage::Blocked { .. }
                | Stage::Accepted
                | Stage::Terminating
                | Stage::Awaiting
                | Stage::Refused
                | Stage::Final { .. },
            )
            | None => None,
        }
    }
}

fn budget(guard: &Guard) -> String {
    let budget = &guard.budget;
    format!(
        "budget {}/{}: {} of {} pods are healthy, {} have to be, {} may be disrupted",
        budget.namespace,
        budget.name,
        budget.current_healthy,
        budget.expected_pods,
        budget.desired_healthy,
        budget.disruptions_allowed
    )
}

fn head(foreseen: &Foreseen) -> String {
    let lines = &foreseen.trial.lines;
    let (name, cordon) = match &foreseen.snapshot.node {
        Some(node) => match (&node.cordoned_by, node.cordoned) {
            (Some(owner), true) => (node.name.as_str(), format!("cordoned by {owner}")),
            (None, true) => (node.name.as_str(), "cordoned".to_owned()),
            (_, false) => (node.name.as_str(), "not cordoned".to_owned()),
        },
        None => ("", "gone".to_owned()),
    };
    let leaving = lines.iter().filter(|line| line.verdict.must_leave()).count();
    format!("Node {name} ({cordon}): {leaving} of {} pods have to leave\n", lines.len())
}

fn row(line: &Line, extra: &Extra) -> [String; 6] {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let reasons: Vec<String> = line.reasons.iter().map(ToString::to_string).collect();
    let order = if line.verdict == Verdict::Leave { String::new() } else { extra.order.to_string() };
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
#[path = "telling_tests.rs"]
mod tests;
