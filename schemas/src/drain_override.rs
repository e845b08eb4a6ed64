//! Override files: by such a file an operator overrides a drain. zedkube reads the file and renames it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, NodeDrainReport, Outcome, RequestLine, Topic};

/// Content of an override file. EVE's agents read the first two fields; the others are for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainOverride {
    /// 9 COMPLETE: the node may go down. 1 NOTSUPPORTED: no drains until the next boot. 2 NOTREQUESTED: drains again.
    pub status: DrainStatus,
    /// The requester whose request is answered; 1 means all requesters. Ignored with status 1 and 2.
    pub requested_by: DrainRequester,
    /// Reason of the order.
    pub reason: String,
    /// The person who gives the order.
    pub by: String,
}

impl Topic for DrainOverride {
    const NAME: &'static str = "DrainOverride";
}

impl DrainOverride {
    /// Folders of the file, below the root: EVE's folder, and one whose files are gone after a boot.
    pub const FOLDERS: [&'static str; 2] = ["persist/kube-status", "run/kube-status"];

    /// Names of the file; the first one wins. EVE's code reads the first name, EVE's documentation shows the second.
    pub const FILES: [&'static str; 2] =
        ["force-NodeDrainStatus-global.json", "kubeforce-NodeDrainStatus-global.json"];

    /// Suffix that zedkube adds to the name of a file that it applied.
    pub const APPLIED: &'static str = ".applied";

    /// Suffix that zedkube adds to the name of a file that it refused.
    pub const REFUSED: &'static str = ".refused";

    /// The operator's order in this file; `None` if the content is no known order.
    pub fn order(&self) -> Option<DrainOrder> {
        if self.requested_by == DrainRequester::Unset {
            return None;
        }
        match self.status {
            DrainStatus::Complete => Some(DrainOrder::Complete(self.requested_by)),
            DrainStatus::NotSupported => Some(DrainOrder::Disable),
            DrainStatus::NotRequested => Some(DrainOrder::Enable),
            DrainStatus::Unknown
            | DrainStatus::Requested
            | DrainStatus::Starting
            | DrainStatus::Cordoned
            | DrainStatus::FailedCordon
            | DrainStatus::DrainRetrying
            | DrainStatus::FailedDrain => None,
        }
    }

    /// The device may go down undrained because of the order, unless it switches drains on.
    pub fn is_against_drains(&self) -> bool {
        self.status != DrainStatus::NotRequested
    }

    /// Whether zedkube's report shows what follows from the order.
    pub fn is_shown_by(&self, report: &NodeDrainReport) -> bool {
        match self.order() {
            Some(DrainOrder::Complete(_)) if report.spent_order.is_some() => true,
            Some(DrainOrder::Complete(_)) => {
                let is_forced = |line: &RequestLine| line.outcome == Some(Outcome::Forced);
                let is_used = || self.requests(report).any(is_forced);
                let is_taken =
                    report.standing_order.is_some() || report.outcome == Some(Outcome::Forced) || is_used();
                is_taken && self.requests(report).all(|line| line.answer != DrainStatus::Unknown)
            }
            Some(DrainOrder::Disable) => report.disabled.is_some(),
            Some(DrainOrder::Enable) => report.disabled.is_none(),
            None => false,
        }
    }

    /// The requests in the report that the order is for and that are answered COMPLETE.
    pub fn completed<'a>(&'a self, report: &'a NodeDrainReport) -> impl Iterator<Item = &'a RequestLine> {
        self.requests(report).filter(|line| line.answer == DrainStatus::Complete)
    }

    /// The requests in the report that the order is for.
    fn requests<'a>(&'a self, report: &'a NodeDrainReport) -> impl Iterator<Item = &'a RequestLine> {
        let is_for = |line: &&RequestLine| {
            self.requested_by == DrainRequester::None || self.requested_by == line.requested_by
        };
        report.requests.iter().filter(is_for)
    }
}

/// An order of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainOrder {
    /// The node may go down for this requester; for everybody if that is [`DrainRequester::None`].
    Complete(DrainRequester),
    /// Drains are switched off until the next boot.
    Disable,
    /// Drains are switched on again.
    Enable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_content_orders() {
        let order = |text: &str| crate::parse::<DrainOverride>(text.as_bytes()).map(|found| found.order());
        for (text, expected) in [
            (r#"{"Status":9,"RequestedBy":2}"#, Some(DrainOrder::Complete(DrainRequester::DeviceOp))),
            (r#"{"Status":9,"RequestedBy":3}"#, Some(DrainOrder::Complete(DrainRequester::Update))),
            (r#"{"Status":9,"RequestedBy":1}"#, Some(DrainOrder::Complete(DrainRequester::None))),
            (r#"{"Status":1,"RequestedBy":1}"#, Some(DrainOrder::Disable)),
            (r#"{"Status":2,"RequestedBy":1,"Reason":"mended"}"#, Some(DrainOrder::Enable)),
            (r#"{"Status":9,"RequestedBy":0}"#, None),
            (r#"{"Status":9}"#, None),
            (r#"{"Status":8,"RequestedBy":2}"#, None),
            (r#"{"Status":3,"RequestedBy":2}"#, None),
            ("{}", None),
        ] {
            assert_eq!(order(text), Ok(expected), "{text}");
        }
        assert!(order(r#"{"Status":300,"RequestedBy":2}"#).is_err());
        assert!(order(r#"{"Status":9,"RequestedBy":4}"#).is_err());
    }
}
