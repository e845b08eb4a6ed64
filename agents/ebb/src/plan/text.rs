//! The plan as lines: a table of the pods, then the obstacles.

use drain::Verdict;
use drain::diagnosis::Guard;
use drain::progress::Line;
use drain::state::Stage;

use super::{Extra, NodePlan};
use crate::screen::table;

/// Columns of the table.
const HEAD: [&str; 6] = ["POD", "OWNER", "VERDICT", "ORDER", "VOLUMES", "REASONS"];

/// Obstacle that keeps one pod on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Cause, with the holder if known.
    pub(crate) cause: String,
    /// PodDisruptionBudgets of the pod, with their numbers.
    pub(crate) budgets: Vec<String>,
    /// What a person can do; empty if nothing is known.
    pub(crate) hint: String,
}

/// Lines of the plan of one node.
pub(crate) fn render(node_plan: &NodePlan) -> Vec<String> {
    let lines = &node_plan.trial.lines;
    let mut text = vec![head(node_plan)];
    if !lines.is_empty() {
        let rows = lines.iter().zip(&node_plan.extras).map(|(line, extra)| row(line, extra));
        text.extend(table(HEAD, &rows.collect::<Vec<_>>()));
    }
    let obstacles = node_plan.obstacles();
    if obstacles.is_empty() {
        text.push("No pod would block the drain now.".to_owned());
        return text;
    }
    text.push("These pods would block the drain now:".to_owned());
    for Obstacle { pod, cause, budgets, hint } in obstacles {
        text.push(format!("  {pod}: {cause}"));
        text.extend(budgets.iter().map(|budget| format!("    {budget}")));
        if !hint.is_empty() {
            text.push(format!("    hint: {hint}"));
        }
    }
    text
}

impl NodePlan {
    /// Every pod that would not leave now, with the cause.
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
        let Some(Stage::Paused { text, .. }) = &line.stage else { return None };
        Some(Obstacle { pod, cause: text.clone(), budgets: Vec::new(), hint: String::new() })
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

fn head(node_plan: &NodePlan) -> String {
    let lines = &node_plan.trial.lines;
    let (name, cordon) = match &node_plan.snapshot.node {
        Some(node) => match (&node.cordoned_by, node.cordoned) {
            (Some(owner), true) => (node.name.as_str(), format!("cordoned by {owner}")),
            (None, true) => (node.name.as_str(), "cordoned".to_owned()),
            (_, false) => (node.name.as_str(), "not cordoned".to_owned()),
        },
        None => ("", "gone".to_owned()),
    };
    let leaving = lines.iter().filter(|line| line.verdict.must_leave()).count();
    format!("Node {name} ({cordon}): {leaving} of {} pods have to leave", lines.len())
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
mod tests;
