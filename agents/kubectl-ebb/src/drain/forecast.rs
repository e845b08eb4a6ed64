//! The forecast of one node's drain, for `ebb plan` and `ebb drain --dry-run`: what would hold it up now, what may come
//! back, and the verdict.

use std::collections::BTreeSet;

use cluster::cordon::{Marks, PriorCordon};
use cluster::{Cluster, CordonFailure, Trial, would_cordon};
use drain::diagnosis::{Blocked, BlockedBy, Blocker, blockers};
use drain::kubectl::{aggregate, permitting_flag, refusals};
use drain::progress::Line;
use drain::state::Stage;
use drain::volumes::Leftover;
use drain::{Failure, PodId, Verdict};

use super::ending::names;
use super::reporter::judged;

/// Pods that are named in a line; more are only counted.
const MOST_NAMES: usize = 3;

/// Whose policy it is, and so what a person changes to permit more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permits {
    /// The flags of the command.
    #[default]
    Flags,
    /// The settings of this device.
    Settings,
}

/// The forecast for one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    pub(crate) node: String,
    pub(crate) permits: Permits,
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
        (Self { node: node.to_owned(), permits, refused_cordon, ..Self::default() }, cordon)
    }

    /// True if nothing would hold the drain up now.
    pub(crate) fn goes(&self) -> bool {
        self.parts().is_empty()
    }

    /// What would hold the drain up now, each trouble once. A trouble of the node itself has no pods.
    pub(crate) fn troubles(&self) -> Vec<Blocker> {
        self.parts().into_iter().flat_map(|part| part.troubles).collect()
    }

    /// Reason for which the drain would fail, for kubectl's line about it; empty if it would not.
    pub(crate) fn failure(&self) -> String {
        self.parts().into_iter().next().map(|part| part.failure).unwrap_or_default()
    }

    /// The last line: `node/edge-a would be drained`, or what it would fail for and what would permit more.
    pub(crate) fn verdict(&self) -> String {
        let Self { node, .. } = self;
        let parts = self.parts();
        let short: Vec<&str> =
            parts.iter().map(|part| part.short.as_str()).filter(|s| !s.is_empty()).collect();
        let all = [short.join(", "), self.permit()];
        let all: Vec<String> = all.into_iter().filter(|words| !words.is_empty()).collect();
        if all.is_empty() {
            format!("node/{node} would be drained")
        } else {
            format!("node/{node} would fail: {}", all.join("; "))
        }
    }

    /// What would hold the drain up now, the most important first.
    fn parts(&self) -> Vec<Part> {
        let stuck: Vec<String> = self.stuck().map(attached).collect();
        let parts = [
            self.refused_cordon.as_ref().map(|text| Part {
                short: "the cordon is refused".to_owned(),
                failure: text.clone(),
                troubles: vec![of_node(format!("the node cannot be cordoned: {text}"), "")],
            }),
            self.unseen.as_ref().map(|text| Part {
                short: "its pods cannot be listed".to_owned(),
                failure: text.clone(),
                troubles: vec![of_node(text.clone(), "")],
            }),
            self.staying(),
            self.trial.returning.first().map(|first| {
                let pods: Vec<&PodId> = self.trial.returning.iter().map(|blocked| &blocked.pod).collect();
                Part {
                    short: count(pods.len(), "pod that comes back", "pods that come back"),
                    failure: format!(
                        "these pods would come back: {} ({})",
                        names(&pods, MOST_NAMES),
                        first.hint
                    ),
                    troubles: blockers(&self.trial.returning),
                }
            }),
            self.trial.blind.as_ref().map(|text| {
                let failure = Failure::Blind(text.clone()).to_string();
                let hint = "give that right, or do not wait for volumes (--detach-timeout=0, setting volumes.detach-timeout)";
                Part {
                    short: "volumes cannot be read".to_owned(),
                    troubles: vec![of_node(failure.clone(), hint)],
                    failure,
                }
            }),
            (!stuck.is_empty()).then(|| Part {
                short: count(stuck.len(), "attached volume", "attached volumes"),
                failure: stuck.join("; "),
                troubles: stuck.into_iter().map(|text| of_node(text, "")).collect(),
            }),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Pods that would not leave now.
    fn staying(&self) -> Option<Part> {
        let Trial { lines, blocked, .. } = &self.trial;
        let refusals = refusals(lines.iter().map(judged));
        let held = self.trial.held();
        if refusals.is_empty() && held.is_empty() {
            return None;
        }
        let by_budget: BTreeSet<&str> = blocked
            .iter()
            .filter(|blocked| blocked.by == BlockedBy::Budget)
            .map(|blocked| blocked.pod.uid.as_str())
            .collect();
        // The pods that the policy refuses are not counted: what permits them is said.
        let is_other =
            |line: &&&Line| line.verdict != Verdict::Refuse && !by_budget.contains(line.id.uid.as_str());
        let others = held.iter().filter(is_other).count();
        let budgets = self.budgets().len();
        let (one, many) = if budgets == 0 { ("pod", "pods") } else { ("other pod", "other pods") };
        let short = [count(budgets, "budget", "budgets"), count(others, one, many)];
        let short: Vec<String> = short.into_iter().filter(|words| !words.is_empty()).collect();
        // Pods about which the API server gave no answer now.
        let paused = lines.iter().filter_map(|line| match &line.stage {
            Some(Stage::Paused { text, .. }) => {
                Some(Blocked { pod: line.id.clone(), cause: text.clone(), ..Blocked::default() })
            }
            Some(_) | None => None,
        });
        let paused: Vec<Blocked> = paused.collect();
        let pods: Vec<String> = held.iter().map(|line| line.id.to_string()).collect();
        Some(Part {
            short: short.join(", "),
            failure: if refusals.is_empty() {
                format!("these pods would not be evicted now: {}", pods.join(", "))
            } else {
                aggregate(&refusals)
            },
            troubles: blockers(blocked).into_iter().chain(blockers(&paused)).collect(),
        })
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
                "these pods may come back to this node, because they tolerate the cordon or their owner does not look at cordons: {}",
                names(&pods, MOST_NAMES)
            ));
        }
        notes
    }

    /// The budgets that refuse evictions, by namespace and name.
    fn budgets(&self) -> BTreeSet<(&str, &str)> {
        let blocked = self.trial.blocked.iter().filter(|blocked| blocked.by == BlockedBy::Budget);
        let guards = blocked.flat_map(|blocked| &blocked.budgets);
        guards.map(|guard| (guard.budget.namespace.as_str(), guard.budget.name.as_str())).collect()
    }

    /// What would permit the pods that the policy refuses: `add --delete-emptydir-data, --force`.
    fn permit(&self) -> String {
        let refused = self.trial.lines.iter().filter(|line| line.verdict == Verdict::Refuse);
        let names: BTreeSet<&str> =
            refused.flat_map(|line| &line.reasons).filter_map(permitting_flag).collect();
        if names.is_empty() {
            return String::new();
        }
        let (verb, name): (_, fn(&str) -> String) = match self.permits {
            Permits::Flags => ("add", |name| format!("--{name}")),
            Permits::Settings => ("set", |name| format!("pods.{name} = true")),
        };
        let names: Vec<String> = names.into_iter().map(name).collect();
        format!("{verb} {}", names.join(", "))
    }
}

/// One kind of trouble that would hold the drain up.
struct Part {
    /// Its words in the verdict: `2 budgets, 1 other pod`. Empty if the verdict says only what would permit the pods.
    short: String,
    /// Its words in kubectl's line about a node that cannot be drained.
    failure: String,
    troubles: Vec<Blocker>,
}

fn of_node(what: String, hint: &str) -> Blocker {
    Blocker { what, hint: hint.to_owned(), ..Blocker::default() }
}

/// `1 budget`, `2 budgets`; empty for none.
fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        0 => String::new(),
        1 => format!("1 {one}"),
        more => format!("{more} {many}"),
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

/// `volume pv-1, driver csi.example, which no pod of the node uses and which is not detached: why`.
fn attached(leftover: &Leftover) -> String {
    let Leftover { volume, driver, obstacle, .. } = leftover;
    let driver = if driver.is_empty() { String::new() } else { format!(", driver {driver}") };
    format!("volume {volume}{driver}, which no pod of the node uses and which is not detached: {obstacle}")
}

#[cfg(test)]
mod tests;
