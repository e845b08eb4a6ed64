//! What became of an order, from the file's name and zedkube's report.

use pubsub::{Persistence, Root};
use runtime::drain_order::{OverrideFile, Taken};
use runtime::peers::report;
use schemas::{DrainOrder, DrainOverride, DrainRequester, NodeDrainReport, Outcome, agent};
use serde::Serialize;

use crate::waiting::{SOON, until};

/// Pods that are named one by one.
const MOST_LEFT: usize = 10;

/// What became of an order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OrderResult {
    /// What zedkube did with the file.
    pub(super) taken: Taken,
    /// The same in words.
    #[serde(rename = "Text")]
    pub(super) line: String,
    /// What an operator can do if it was not applied.
    pub(super) hint: String,
    /// The device may go down, and was not drained.
    #[serde(rename = "NotDrained")]
    pub(super) is_undrained: bool,
    /// Pods that are left on the node.
    pub(super) left: Vec<String>,
}

/// Waits until zedkube has taken the file and shows what follows; for 3 s at most.
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
    // Whether it was shown or time is up: what is there now is told.
    let is_shown = until(folders, SOON, look).await.is_some();
    tell(file.settle(), order, file, &report(root).unwrap_or_default(), is_shown)
}

/// What became of it by now.
pub(super) fn now(root: &Root, order: &DrainOverride, file: &OverrideFile) -> OrderResult {
    let report = report(root).unwrap_or_default();
    tell(file.settle(), order, file, &report, order.is_shown_by(&report))
}

fn tell(
    taken: Taken,
    order: &DrainOverride,
    file: &OverrideFile,
    report: &NodeDrainReport,
    is_shown: bool,
) -> OrderResult {
    let path = file.path();
    let path = path.display();
    let became = OrderResult {
        taken,
        line: String::new(),
        hint: String::new(),
        is_undrained: false,
        left: Vec::new(),
    };
    match taken {
        Taken::Applied if is_shown || order.is_shown_by(report) => applied(order, report, became),
        Taken::Applied => OrderResult {
            line: "the override is applied, but the report does not show yet what follows: `ebb status` does"
                .to_owned(),
            is_undrained: order.is_against_drains(),
            ..became
        },
        Taken::Refused => OrderResult {
            line: "the override is refused".to_owned(),
            hint: refusal(report, file).unwrap_or_else(|| "zedkube's log says why".to_owned()),
            ..became
        },
        Taken::Not => OrderResult {
            line: "zedkube has not taken the override, so it was taken back: nothing was forced".to_owned(),
            hint: format!(
                "zedkube runs, but did not look at {path} within {} s: see its log; to force all the same, end zedkube \
                 and give the order again",
                SOON.as_secs()
            ),
            ..became
        },
    }
}

fn applied(order: &DrainOverride, report: &NodeDrainReport, became: OrderResult) -> OrderResult {
    let left = report.left();
    if let (Some(DrainOrder::Complete(_)), Some(spent)) = (order.order(), &report.spent_order) {
        let is_undrained = order.completed(report).any(|line| line.outcome != Some(Outcome::Drained));
        return OrderResult { line: spent.text.clone(), is_undrained, left, ..became };
    }
    let (whose, are_left) = (whose(order.requested_by, "everybody"), left_words(report));
    let line = match (order.order(), &report.forcing) {
        (Some(DrainOrder::Enable), _) => "drains are switched on again".to_owned(),
        (Some(DrainOrder::Disable), _) => {
            format!(
                "drains are switched off until the next boot or `ebb force enable`: this node is NOT drained; {are_left}"
            )
        }
        (_, Some(forcing)) if order.completed(report).next().is_none() => {
            format!(
                "{whose} next request until {} is answered COMPLETE: this node is NOT drained; {are_left}",
                forcing.until
            )
        }
        (_, _) => format!("{whose} request is answered COMPLETE: this node is NOT drained; {are_left}"),
    };
    OrderResult { line, is_undrained: order.is_against_drains(), left, ..became }
}

/// Whose requests are meant: `device-op's`, or with `others` = `everybody`, where no agent is named, `everybody's`.
pub(crate) fn whose(requested_by: DrainRequester, others: &str) -> String {
    match requested_by.agent() {
        Some(agent) => format!("{agent}'s"),
        None => format!("{others}'s"),
    }
}

/// The pods that are left on the node, in words.
fn left_words(report: &NodeDrainReport) -> String {
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

/// Why the file was refused, as the report says.
fn refusal(report: &NodeDrainReport, file: &OverrideFile) -> Option<String> {
    let path = file.path().display().to_string();
    let ours = report.refused.iter().find(|refused| refused.path.starts_with(&path));
    ours.map(|refused| refused.reason.clone())
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
