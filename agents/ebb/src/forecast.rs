//! The forecast of one node's drain, for `ebb plan` and `ebb drain --dry-run`: what would hold it up now, what may come
//! back, and the verdict.

use std::collections::{BTreeMap, BTreeSet};

use cluster::cordon::{Marks, PriorCordon};
use cluster::{Cluster, CordonFailure, Trial, would_cordon};
use drain::diagnosis::{Blocker, blockers};
use drain::kubectl::{aggregate, refusals};
use drain::state::Stage;
use drain::volumes::Leftover;
use drain::{Failure, PodId, Reason, Verdict};

use crate::drain::{judged, names};

/// Pods that are named in a line; more are only counted.
const MOST_NAMES: usize = 3;

/// Whose policy it is, and so what a person changes to permit more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permits {
    /// The flags of the command.
    Flags,
    /// The settings of this device.
    Settings,
}

/// The forecast for one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    pub(crate) node: String,
    /// Error if the node cannot be cordoned: then a drain evicts nothing.
    pub(crate) refused_cordon: Option<String>,
    /// Error if the pods of the node cannot be listed: then the trial is empty.
    pub(crate) unseen: Option<String>,
    pub(crate) trial: Trial,
}

impl Forecast {
    /// Tries the cordon as a server dry run: two or three calls. The trial is still empty. `permits` says whose cordon it
    /// is: an agent's needs its annotations, a person's goes without where they are refused.
    pub(crate) async fn begin(
        cluster: &Cluster,
        node: &str,
        (owner, reason): (&str, &str),
        permits: Permits,
    ) -> (Self, Result<PriorCordon, CordonFailure>) {
        let marks = match permits {
            Permits::Flags => Marks::Wished,
            Permits::Settings => Marks::Required,
        };
        let cordon = would_cordon(cluster, node, owner, reason, marks).await;
        let refused_cordon = cordon.as_ref().err().map(ToString::to_string);
        (Self { node: node.to_owned(), refused_cordon, ..Self::default() }, cordon)
    }

    /// True if nothing would hold the drain up now.
    pub(crate) fn goes(&self) -> bool {
        self.troubles().is_empty()
    }

    /// What would hold the drain up now, each trouble once. A trouble of the node itself has no pods.
    pub(crate) fn troubles(&self) -> Vec<Blocker> {
        let of_node = |what: String, hint: &str| Blocker { what, hint: hint.to_owned(), pods: Vec::new() };
        let cordon = self.refused_cordon.iter();
        let cordon = cordon.map(|text| of_node(format!("the node cannot be cordoned: {text}"), ""));
        let unseen = self.unseen.iter().map(|text| of_node(text.clone(), ""));
        let blind = self.trial.blind.iter().map(|text| {
            let hint = "give that right, or do not wait for volumes (--detach-timeout=0, setting volumes.detach-timeout)";
            of_node(Failure::Blind(text.clone()).to_string(), hint)
        });
        let stuck = self.stuck().map(|leftover| of_node(attached(leftover), ""));
        let returning = blockers(&self.trial.returning);
        let pods = blockers(&self.trial.blocked).into_iter().chain(self.paused()).chain(returning);
        cordon.chain(unseen).chain(pods).chain(blind).chain(stuck).collect()
    }

    /// Pods about which the API server gave no answer now.
    fn paused(&self) -> Vec<Blocker> {
        let mut all: BTreeMap<&str, Vec<PodId>> = BTreeMap::new();
        for line in &self.trial.lines {
            if let Some(Stage::Paused { text, .. }) = &line.stage {
                all.entry(text).or_default().push(line.id.clone());
            }
        }
        let paused =
            |(what, pods): (&str, Vec<PodId>)| Blocker { what: what.to_owned(), pods, ..Blocker::default() };
        all.into_iter().map(paused).collect()
    }

    fn stuck(&self) -> impl Iterator<Item = &Leftover> {
        self.trial.leftovers.iter().filter(|leftover| leftover.is_stuck)
    }

    /// What does not hold the drain up now, but may later.
    pub(crate) fn notes(&self) -> Vec<String> {
        let detaching = self.trial.leftovers.iter().filter(|leftover| !leftover.is_stuck);
        let mut notes: Vec<String> =
            detaching.map(|leftover| format!("the drain waits for {}", attached(leftover))).collect();
        if !self.trial.may_return.is_empty() {
            let pods: Vec<&PodId> = self.trial.may_return.iter().collect();
            notes.push(format!(
                "these pods may come back to this node, because they tolerate the cordon or their owner knows none: {}",
                names(&pods, MOST_NAMES)
            ));
        }
        notes
    }

    /// The last line: `node/edge-a would be drained`, or what it would fail for and what would permit more.
    pub(crate) fn verdict(&self, permits: Permits) -> String {
        let Self { node, .. } = self;
        let (permit, permitted) = (self.permit(permits), self.refused().count());
        let count = |number: usize, one: &str, many: &str| match number {
            0 => None,
            1 => Some(format!("1 {one}")),
            more => Some(format!("{more} {many}")),
        };
        let budgets = self.budgets();
        let others = self.held().count().saturating_sub(permitted);
        let parts = [
            self.refused_cordon.is_some().then(|| "the cordon is refused".to_owned()),
            self.unseen.is_some().then(|| "its pods cannot be listed".to_owned()),
            count(budgets.len(), "budget", "budgets"),
            if budgets.is_empty() {
                count(others, "pod", "pods")
            } else {
                count(others, "other pod", "other pods")
            },
            count(self.trial.returning.len(), "pod that comes back", "pods that come back"),
            self.trial.blind.is_some().then(|| "volumes cannot be read".to_owned()),
            count(self.stuck().count(), "attached volume", "attached volumes"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let all: Vec<String> =
            [parts.join(", "), permit].into_iter().filter(|part| !part.is_empty()).collect();
        if all.is_empty() {
            format!("node/{node} would be drained")
        } else {
            format!("node/{node} would fail: {}", all.join("; "))
        }
    }

    /// The budgets that refuse evictions, by namespace and name.
    fn budgets(&self) -> BTreeSet<(&str, &str)> {
        let blocked = self.trial.blocked.iter().filter(|blocked| blocked.by_budget);
        let guards = blocked.flat_map(|blocked| &blocked.budgets);
        guards.map(|guard| (guard.budget.namespace.as_str(), guard.budget.name.as_str())).collect()
    }

    /// Pods that would not leave for another reason than a budget.
    fn held(&self) -> impl Iterator<Item = &drain::progress::Line> {
        let of_budgets = self.trial.blocked.iter().filter(|blocked| blocked.by_budget);
        let of_budgets: BTreeSet<&str> = of_budgets.map(|blocked| blocked.pod.uid.as_str()).collect();
        self.trial.held().into_iter().filter(move |line| !of_budgets.contains(line.id.uid.as_str()))
    }

    /// Pods that the policy does not allow to evict.
    fn refused(&self) -> impl Iterator<Item = &drain::progress::Line> {
        self.trial.lines.iter().filter(|line| line.verdict == Verdict::Refuse)
    }

    /// What would permit the pods that the policy refuses: `add --delete-emptydir-data, --force`.
    fn permit(&self, permits: Permits) -> String {
        let reasons = self.refused().flat_map(|line| &line.reasons);
        let names: BTreeSet<&str> = reasons.filter_map(permitting).collect();
        if names.is_empty() {
            return String::new();
        }
        let name = |name: &str| match permits {
            Permits::Flags => format!("--{name}"),
            Permits::Settings => format!("pods.{name} = true"),
        };
        let names: Vec<String> = names.into_iter().map(name).collect();
        let verb = match permits {
            Permits::Flags => "add",
            Permits::Settings => "set",
        };
        format!("{verb} {}", names.join(", "))
    }

    /// Reason for which the drain would fail, for kubectl's line about it; empty if it would not.
    pub(crate) fn failure(&self) -> String {
        let refusals = refusals(self.trial.lines.iter().map(judged));
        let held: Vec<String> = self.trial.held().into_iter().map(|line| line.id.to_string()).collect();
        let stuck: Vec<String> = self.stuck().map(attached).collect();
        if let Some(text) = self.refused_cordon.as_ref().or(self.unseen.as_ref()) {
            text.clone()
        } else if !refusals.is_empty() {
            aggregate(&refusals)
        } else if !held.is_empty() {
            format!("these pods would not be evicted now: {}", held.join(", "))
        } else if let Some(first) = self.trial.returning.first() {
            let pods: Vec<&PodId> = self.trial.returning.iter().map(|blocked| &blocked.pod).collect();
            format!("these pods would come back: {} ({})", names(&pods, MOST_NAMES), first.hint)
        } else if let Some(text) = &self.trial.blind {
            Failure::Blind(text.clone()).to_string()
        } else {
            stuck.join("; ")
        }
    }
}

/// Text of a trouble in one line: what, and the pods that it keeps.
pub(crate) fn trouble(blocker: &Blocker) -> String {
    let Blocker { what, pods, .. } = blocker;
    let named = names(&pods.iter().collect::<Vec<_>>(), MOST_NAMES);
    match pods.len() {
        0 => what.clone(),
        1 => format!("{what}; 1 pod: {named}"),
        number => format!("{what}; {number} pods: {named}"),
    }
}

/// `volume pv-1, driver csi.example, which no pod of the node uses: why it is still attached`.
fn attached(leftover: &Leftover) -> String {
    let Leftover { volume, driver, obstacle, .. } = leftover;
    let driver = if driver.is_empty() { String::new() } else { format!(", driver {driver}") };
    format!("volume {volume}{driver}, which no pod of the node uses and which is attached: {obstacle}")
}

/// Name of the flag and setting that permits what this reason refuses.
fn permitting(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::DaemonSet => Some("ignore-daemonsets"),
        Reason::EmptyDir => Some("delete-emptydir-data"),
        Reason::NoController | Reason::OrphanOfDaemonSet(_) => Some("force"),
        Reason::Mirror
        | Reason::Finished
        | Reason::KeptApp(_)
        | Reason::TerminatingTooLong
        | Reason::Label(_)
        | Reason::UnknownLabel(_)
        | Reason::Rule(_)
        | Reason::NotSelected => None,
    }
}

#[cfg(test)]
mod tests;
