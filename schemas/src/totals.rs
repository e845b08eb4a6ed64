//! What is counted over boots, for metrics. No decision depends on it: a number that a crash or a spoilt file has lost stays
//! lost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Outcome, Topic, UndrainedCause};

/// The drains that zedkube has counted on this device. Key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainTotals {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// UUID of the drain that was counted last.
    pub last_drain_id: String,
    /// The outcome with which it was counted last; null if none was counted yet.
    pub last_outcome: Option<Outcome>,
    /// Drains by their outcome. A drain that has failed and was forced then counts for both.
    pub drains: BTreeMap<String, u64>,
    /// How long the drains took that ended with outcome Drained, from the request on: the number of those in each class of
    /// [`DrainTotals::CLASSES`], and as the last one the number of those that took longer.
    pub took: Vec<u64>,
    /// All their durations together, in milliseconds.
    pub took_millis: u64,
}

impl Topic for DrainTotals {
    const NAME: &'static str = "DrainTotals";
}

impl DrainTotals {
    /// Upper limits of the classes of durations, in seconds: from 10 s, a node with few pods, to a day, the longest default
    /// deadline of a drain.
    pub const CLASSES: [u64; 12] = [10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 86_400];

    /// Counts the outcome of a drain, unless it is counted already. `took`: how long the drain took in milliseconds, if that
    /// is known. Returns whether anything has changed.
    pub fn count(&mut self, drain_id: &str, outcome: Outcome, took: Option<u64>) -> bool {
        if self.last_drain_id == drain_id && self.last_outcome == Some(outcome) {
            return false;
        }
        drain_id.clone_into(&mut self.last_drain_id);
        self.last_outcome = Some(outcome);
        one_more(&mut self.drains, &format!("{outcome:?}"));
        if let Some(took) = took.filter(|_| outcome == Outcome::Drained) {
            self.took.resize(Self::CLASSES.len() + 1, 0);
            let is_within = |limit: &u64| took <= limit.saturating_mul(1000);
            let class = Self::CLASSES.iter().position(is_within).unwrap_or(Self::CLASSES.len());
            if let Some(count) = self.took.get_mut(class) {
                *count = count.saturating_add(1);
            }
            self.took_millis = self.took_millis.saturating_add(took);
        }
        true
    }
}

/// The boots before which this device went down without a drain, as nodeagent has counted them. Key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct BootTotals {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `RestartCounter` of the boot that was counted last.
    pub last_boot: u32,
    /// `RebootTime` of the boot, or of the restart of userspace, that was counted last.
    pub last_at: GoTime,
    /// Boots by the cause, one of [`UndrainedCause::name`].
    pub undrained: BTreeMap<String, u64>,
}

impl Topic for BootTotals {
    const NAME: &'static str = "BootTotals";
}

impl BootTotals {
    /// Counts a boot, unless it is counted already: `boot` and `at` as NodeAgentStatus has them. Returns whether anything has
    /// changed.
    pub fn count(&mut self, boot: u32, at: GoTime, cause: UndrainedCause) -> bool {
        // Before the first count both fields have the values of boot 0.
        if (self.last_boot, self.last_at) == (boot, at) && !self.undrained.is_empty() {
            return false;
        }
        (self.last_boot, self.last_at) = (boot, at);
        one_more(&mut self.undrained, cause.name());
        true
    }
}

/// Adds one to a counter.
pub fn one_more(counters: &mut BTreeMap<String, u64>, name: &str) {
    let counter = counters.entry(name.to_owned()).or_default();
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_counts_once_and_in_the_class_of_its_duration() {
        let mut totals = DrainTotals::default();
        let mut count = |id: &str, outcome, seconds: u64| {
            let took = (seconds > 0).then_some(seconds * 1000);
            totals.count(id, outcome, took)
        };
        assert!(count("a", Outcome::DrainFailed, 90));
        assert!(!count("a", Outcome::DrainFailed, 91), "by a process that was started again");
        assert!(count("a", Outcome::Forced, 100));
        for (id, seconds) in [("b", 10), ("c", 11), ("d", 86_400), ("e", 86_401), ("f", 0)] {
            assert!(count(id, Outcome::Drained, seconds));
        }
        let drains = [("DrainFailed", 1), ("Drained", 5), ("Forced", 1)];
        assert_eq!(totals.drains, BTreeMap::from(drains.map(|(name, count)| (name.to_owned(), count))));
        assert_eq!(totals.took, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(totals.took_millis, (10 + 11 + 86_400 + 86_401) * 1000);
    }

    #[test]
    fn a_boot_counts_once() {
        let (at, later): (GoTime, GoTime) =
            ("2026-11-29T20:00:00Z".parse().unwrap(), "2026-11-29T21:00:00Z".parse().unwrap());
        let mut totals = BootTotals::default();
        for (boot, at, counts) in [
            (0, GoTime::ZERO, true),
            (0, GoTime::ZERO, false),
            (1, GoTime::ZERO, true),
            (2, at, true),
            (2, at, false),
            // Userspace was restarted.
            (2, later, true),
        ] {
            assert_eq!(totals.count(boot, at, UndrainedCause::PastEbb), counts, "{boot} {at}");
        }
        assert_eq!(totals.undrained, BTreeMap::from([("PastEbb".to_owned(), 4)]));
    }
}
