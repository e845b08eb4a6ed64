//! Result of an override order, from the name of its file and zedkube's report.

use pubsub::{Persistence, Root};
use runtime::drain_order::{OverrideFile, Taken};
use runtime::peers::report;
use schemas::{DrainOrder, DrainOverride, DrainRequester, NodeDrainReport, Outcome, agent};
use serde::Serialize;

use crate::waiting::{SOON, until};

/// Pods that are named in the line; more are only counted.
const MOST_LEFT: usize = 10;

/// Result of an override order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OrderResult {
    /// What zedkube did with the override file.
    pub(super) taken: Taken,
    /// The result as a sentence.
    #[serde(rename = "Text")]
    pub(super) line: String,
    /// What an operator can do if the order was not applied.
    pub(super) hint: String,
    /// True if the device may go down now without a drain.
    #[serde(rename = "NotDrained")]
    pub(super) is_undrained: bool,
    /// Pods that are still on the node.
    pub(super) left: Vec<String>,
}

/// Waits until zedkube has taken the file and its report shows the result; for 3 s at most.
pub(super) async fn wait(
    root: &Root,
    order: &DrainOverride,
    file: &OverrideFile,
    before: Option<&NodeDrainReport>,
) -> OrderResult {
    let folders =
        [file.folder().clone(), root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile)];
    let look = || {
        let taken = file.taken();
        let report = report(root).filter(|report| Some(report) != before);
        let is_shown = match taken {
            Taken::Not => false,
            Taken::Applied => report.as_ref().is_some_and(|report| order.is_shown_by(report)),
            Taken::Refused => report.as_ref().is_some_and(|report| refusal(report, file).is_some()),
        };
        is_shown.then_some(())
    };
    // Print the result in any case, also after a timeout.
    let is_shown = until(folders, SOON, look).await.is_some();
    result_of(file.settle(), order, file, &report(root).unwrap_or_default(), is_shown)
}

fn result_of(
    taken: Taken,
    order: &DrainOverride,
    file: &OverrideFile,
    report: &NodeDrainReport,
    is_shown: bool,
) -> OrderResult {
    let path = file.path();
    let path = path.display();
    let result = OrderResult {
        taken,
        line: String::new(),
        hint: String::new(),
        is_undrained: false,
        left: Vec::new(),
    };
    match taken {
        Taken::Applied if is_shown || order.is_shown_by(report) => applied(order, report, result),
        Taken::Applied => OrderResult {
            line: "the override is applied, but the report does not show yet what follows: `ebb status` does"
                .to_owned(),
            is_undrained: order.is_against_drains(),
            ..result
        },
        Taken::Refused => OrderResult {
            line: "the override is refused".to_owned(),
            hint: refusal(report, file).unwrap_or_else(|| "see zedkube's log for the reason".to_owned()),
            ..result
        },
        Taken::Not => OrderResult {
            line: "zedkube has not taken the override, so it was taken back: nothing was forced".to_owned(),
            hint: format!(
                "zedkube runs, but did not look at {path} within {} s: see its log; restart zedkube, then give the order \
                 again",
                SOON.as_secs()
            ),
            ..result
        },
    }
}

fn applied(order: &DrainOverride, report: &NodeDrainReport, result: OrderResult) -> OrderResult {
    let left = report.left();
    if let (Some(DrainOrder::Complete(_)), Some(spent)) = (order.order(), &report.spent_order) {
        let is_undrained = order.completed(report).any(|line| line.outcome != Some(Outcome::Drained));
        return OrderResult { line: spent.text.clone(), is_undrained, left, ..result };
    }
    let (whose, are_left) = (whose(order.requested_by, "everybody"), left_words(report));
    let line = match (order.order(), &report.standing_order) {
        (Some(DrainOrder::Enable), _) => "drains are switched on again".to_owned(),
        (Some(DrainOrder::Disable), _) => {
            format!(
                "drains are switched off until the next boot or `ebb force enable`: this node is NOT drained; {are_left}"
            )
        }
        (_, Some(standing_order)) if order.completed(report).next().is_none() => {
            format!(
                "{whose} next request until {} is answered COMPLETE: this node is NOT drained; {are_left}",
                standing_order.until
            )
        }
        (_, _) => format!("{whose} request is answered COMPLETE: this node is NOT drained; {are_left}"),
    };
    OrderResult { line, is_undrained: order.is_against_drains(), left, ..result }
}

/// Possessive for the agent of the request: `device-op's`; without an agent the possessive of `others`, such as
/// `everybody's`.
pub(crate) fn whose(requested_by: DrainRequester, others: &str) -> String {
    match requested_by.agent() {
        Some(agent) => format!("{agent}'s"),
        None => format!("{others}'s"),
    }
}

/// The pods that are still on the node, as a sentence.
pub(crate) fn left_words(report: &NodeDrainReport) -> String {
    let pods = report.left();
    let unlisted = usize::try_from(report.omitted.pods).unwrap_or(usize::MAX);
    let total = pods.len().saturating_add(unlisted);
    if total == 0 {
        return "which pods are left on it is not known".to_owned();
    }
    let named = pods.iter().take(MOST_LEFT).cloned().collect::<Vec<_>>().join(", ");
    match total.saturating_sub(pods.len().min(MOST_LEFT)) {
        0 => format!("{total} pods are left on it: {named}"),
        more => format!("{total} pods are left on it: {named} and {more} more"),
    }
}

/// The reason for which zedkube refused the file, from its report.
fn refusal(report: &NodeDrainReport, file: &OverrideFile) -> Option<String> {
    let path = file.path().display().to_string();
    let ours = report.refused.iter().find(|refused| refused.path.starts_with(&path));
    ours.map(|refused| refused.reason.clone())
}

#[cfg(test)]
mod tests;
