//! What became of an order, from the file's name and zedkube's report.

use pubsub::{Persistence, Root, TopicKey, read_item};
use schemas::{
    DrainOrder, DrainOverride, DrainRequester, DrainStatus, NodeDrainReport, Outcome, RequestLine, agent,
};
use serde::Serialize;

use super::left;
use super::override_file::{OverrideFile, Taken};
use crate::waiting::{SOON, until};

/// What became of an order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Became {
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

/// zedkube's report, if it can be read.
pub(super) fn report(root: &Root) -> Option<NodeDrainReport> {
    read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global()).ok().flatten()
}

/// Waits until zedkube has taken the file and shows what follows; for 3 s at most.
pub(super) async fn wait(
    root: &Root,
    order: &DrainOverride,
    file: &OverrideFile,
    before: Option<&NodeDrainReport>,
) -> Became {
    let folders =
        [file.folder().clone(), root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile)];
    let look = || {
        let taken = file.taken();
        let report = report(root).filter(|report| Some(report) != before);
        let is_shown = match taken {
            Taken::Not => false,
            Taken::Applied => report.as_ref().is_some_and(|report| shows(report, order)),
            Taken::Refused => report.as_ref().is_some_and(|report| refusal(report, file).is_some()),
        };
        is_shown.then_some(())
    };
    // Whether it was shown or time is up: what is there now is told.
    let is_shown = until(folders, SOON, look).await.is_some();
    tell(fate(file), order, file, &report(root).unwrap_or_default(), is_shown)
}

/// What became of it by now.
pub(super) fn now(root: &Root, order: &DrainOverride, file: &OverrideFile) -> Became {
    let report = report(root).unwrap_or_default();
    tell(fate(file), order, file, &report, shows(&report, order))
}

/// What is told as not done must not be done later. A file that is gone was taken in this moment.
fn fate(file: &OverrideFile) -> Taken {
    match file.taken() {
        Taken::Not if !file.take_back() => file.taken(),
        taken @ (Taken::Applied | Taken::Refused | Taken::Not) => taken,
    }
}

/// The report shows what follows from the order.
fn shows(report: &NodeDrainReport, order: &DrainOverride) -> bool {
    match order.order() {
        Some(DrainOrder::Complete(_)) if report.spent_order.is_some() => true,
        Some(DrainOrder::Complete(_)) => {
            let is_taken = report.forcing.is_some() || report.outcome == Some(Outcome::Forced);
            is_taken && !report.requests.iter().any(|line| is_meant(line, order.requested_by) && waits(line))
        }
        Some(DrainOrder::Disable) => report.disabled.is_some(),
        Some(DrainOrder::Enable) => report.disabled.is_none(),
        None => false,
    }
}

fn tell(
    taken: Taken,
    order: &DrainOverride,
    file: &OverrideFile,
    report: &NodeDrainReport,
    is_shown: bool,
) -> Became {
    let path = file.path();
    let path = path.display();
    let became =
        Became { taken, line: String::new(), hint: String::new(), is_undrained: false, left: Vec::new() };
    match taken {
        Taken::Applied if is_shown || shows(report, order) => applied(order, report, became),
        Taken::Applied => Became {
            line: "the override is applied, but the report does not show yet what follows: `ebb status` does"
                .to_owned(),
            is_undrained: order.status != DrainStatus::NotRequested,
            ..became
        },
        Taken::Refused => Became {
            line: "the override is refused".to_owned(),
            hint: refusal(report, file).unwrap_or_else(|| "zedkube's log says why".to_owned()),
            ..became
        },
        Taken::Not => Became {
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

fn applied(order: &DrainOverride, report: &NodeDrainReport, became: Became) -> Became {
    if let (Some(DrainOrder::Complete(_)), Some(spent)) = (order.order(), &report.spent_order) {
        let is_undrained = report
            .requests
            .iter()
            .any(|line| is_answered(line, order.requested_by) && line.outcome != Some(Outcome::Drained));
        return Became { line: spent.text.clone(), is_undrained, left: left::pods(report), ..became };
    }
    let whose = whose(order.requested_by);
    let left = left::words(report);
    let line = match (order.order(), &report.forcing) {
        (Some(DrainOrder::Enable), _) => "drains are switched on again".to_owned(),
        (Some(DrainOrder::Disable), _) => {
            format!(
                "drains are switched off until the next boot or `ebb force enable`: this node is NOT drained; {left}"
            )
        }
        (_, Some(forcing)) if !report.requests.iter().any(|line| is_answered(line, order.requested_by)) => {
            format!(
                "{whose} next request until {} is answered COMPLETE: this node is NOT drained; {left}",
                forcing.until
            )
        }
        (_, _) => format!("{whose} request is answered COMPLETE: this node is NOT drained; {left}"),
    };
    let is_undrained = order.status != DrainStatus::NotRequested;
    Became { line, is_undrained, left: left::pods(report), ..became }
}

fn is_answered(line: &RequestLine, requested_by: DrainRequester) -> bool {
    is_meant(line, requested_by) && line.answer == DrainStatus::Complete
}

fn is_meant(line: &RequestLine, requested_by: DrainRequester) -> bool {
    requested_by == DrainRequester::None || line.requested_by == requested_by
}

fn waits(line: &RequestLine) -> bool {
    line.answer == DrainStatus::Unknown
}

fn whose(requested_by: DrainRequester) -> &'static str {
    match requested_by {
        DrainRequester::DeviceOp => "device-op's",
        DrainRequester::Update => "baseos's",
        DrainRequester::None | DrainRequester::Unset => "everybody's",
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
