//! What a drain may do and how long it may take.

use std::collections::BTreeSet;
use std::time::Duration;

use selector::Selector;
use serde::{Deserialize, Serialize};

use crate::rule::Rule;

/// The `app` labels that stay on the node: Longhorn's helpers must live until the volumes are detached.
/// Source: EVE's pod selector in `zedkube/drain.go`.
pub const LONGHORN_APPS: [&str; 5] = [
    "csi-attacher",
    "csi-provisioner",
    "longhorn-admission-webhook",
    "longhorn-conversion-webhook",
    "longhorn-driver-deployer",
];

/// At most so many evictions in flight under one budget: the API server resolves write conflicts on a budget in
/// steps of 500 ms, so more gains nothing (M7).
pub const IN_FLIGHT_PER_BUDGET: usize = 3;

/// How long after the API server came back the scheduler may still bind pods to a cordoned node from its stale
/// cache. Measured: up to 44 s after an outage of 30 s (M5).
pub const STALE_SCHEDULER: Duration = Duration::from_mins(1);

/// A refusal for want of a right (401, 403) counts when it has lasted for this long, and was repeated
/// [`REFUSAL_TIMES`]. API servers refuse for moments after a restart, until they have read their roles, and while
/// tokens rotate.
pub const REFUSAL_LASTS: Duration = Duration::from_secs(30);

/// A refusal counts when it was heard at least so often in a row: one answer of one server behind a load balancer proves
/// nothing.
pub const REFUSAL_TIMES: u32 = 3;

/// A node counts as unhealthy when it has been so for this long (MCM's literal).
pub const UNHEALTHY_AFTER: Duration = Duration::from_mins(5);

/// How pods are told to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By eviction, which respects budgets.
    #[default]
    Evict,
    /// By deletion with the pod's own grace: past all budgets (`--disable-eviction`).
    Delete,
    /// By deletion with grace 0, all at once, without waiting for volumes (`--force-delete`): the pod's containers may
    /// still run when it is made anew elsewhere.
    ForceDelete,
}

/// How long a refused pod is only evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxRetries {
    /// Until the attempt's deadline.
    #[default]
    Unlimited,
    /// After this many times [`Policy::retry`] of refusals the pod is deleted, with its own grace.
    Times(u32),
    /// As late as possible: one retry before the attempt's deadline.
    Auto,
}

impl MaxRetries {
    /// The word for [`Self::Auto`], in settings and on the command line.
    pub const AUTO: &str = "auto";
}

/// What is done when the node is unhealthy for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnhealthyNode {
    /// Nothing else than otherwise.
    #[default]
    Off,
    /// Its pods are deleted with grace 0, as with [`Method::ForceDelete`].
    Force,
}

/// How pods with attached volumes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stateful {
    /// At most so many at a time, 1 to 64.
    pub parallel: usize,
    /// Which of them first, by priority.
    pub order: StatefulOrder,
}

/// Which pods with attached volumes leave first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatefulOrder {
    /// Those of the highest priority (MCM).
    #[default]
    HighestFirst,
    /// Those of the lowest priority (the kubelet's graceful shutdown).
    LowestFirst,
}

/// How volumes are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// So long may a detach take; zero = volumes are not waited for at all.
    pub detach_timeout: Duration,
    /// So long may the attaching elsewhere take before the next pod leaves; zero = it is not waited for.
    pub reattach_timeout: Duration,
    /// What a volume means that is not detached in time.
    pub on_detach_timeout: OnDetachTimeout,
}

/// What a volume means that is not detached in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnDetachTimeout {
    /// The drain of the node fails in the end.
    #[default]
    Fail,
    /// The drain succeeds and names the volume.
    Proceed,
}

/// What a drain may do and how long it may take. No option is left open: `runtime` settings or flags fill all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, with a setting or flag of its own"
)]
pub struct Policy {
    /// Pods without controller, and pods of vanished DaemonSets, may be evicted.
    pub force: bool,
    /// Pods of DaemonSets stay, with a warning; else they forbid the drain.
    pub ignore_daemonsets: bool,
    /// Pods with emptyDir volumes may be evicted, and lose that data.
    pub delete_emptydir_data: bool,
    /// Grace period sent with each eviction; `None` leaves it to the pod.
    pub grace_period: Option<Duration>,
    /// A pod that is terminating longer than its grace and this is not waited for; `None` waits for all.
    pub skip_wait_for_delete: Option<Duration>,
    /// Values of the `app` label that stay on the node.
    pub keep_apps: BTreeSet<String>,
    /// Pods with other labels are not looked at (`--pod-selector`); `None` = all.
    pub pod_selector: Option<Selector>,
    /// Rules for some pods; the first that matches counts.
    pub rules: Vec<Rule>,
    /// How pods are told to go.
    pub method: Method,
    /// How long a refused pod is only evicted.
    pub max_retries: MaxRetries,
    /// What is done when the node is unhealthy for over [`UNHEALTHY_AFTER`].
    pub unhealthy_node: UnhealthyNode,
    /// How pods with attached volumes leave.
    pub stateful: Stateful,
    /// How volumes are waited for.
    pub volumes: Volumes,
    /// Evictions in flight at a time, 1 to 256.
    pub concurrency: usize,
    /// A refused eviction is tried again this often, if its budget's status does not change before.
    pub retry: Duration,
    /// An attempt that has not ended by then has failed.
    pub attempt_timeout: Duration,
    /// Two clean lists must lie this far apart when pods kept coming.
    pub settle: Duration,
    /// So long may the API server be away in one attempt, in sum, before the attempt fails.
    pub freeze_limit: Duration,
    /// The attempt's deadline stands still while the API server is away, as on a device, where nobody waits and the
    /// servers may be down for an update. Else it is wall time, as a command's `--timeout`.
    pub deadline_freezes: bool,
}

impl Policy {
    /// The defaults on a device: EVE's, and those of `docs/settings.md` where EVE has none.
    pub fn device() -> Self {
        Self {
            force: true,
            ignore_daemonsets: true,
            delete_emptydir_data: true,
            grace_period: None,
            skip_wait_for_delete: None,
            keep_apps: LONGHORN_APPS.iter().map(|&app| app.to_owned()).collect(),
            pod_selector: None,
            rules: Vec::new(),
            method: Method::Evict,
            max_retries: MaxRetries::Unlimited,
            unhealthy_node: UnhealthyNode::Off,
            stateful: Stateful { parallel: 1, order: StatefulOrder::HighestFirst },
            volumes: Volumes {
                detach_timeout: Duration::from_mins(2),
                reattach_timeout: Duration::from_secs(90),
                on_detach_timeout: OnDetachTimeout::Fail,
            },
            concurrency: 16,
            retry: Duration::from_secs(20),
            attempt_timeout: Duration::from_hours(24),
            settle: Duration::from_secs(2),
            freeze_limit: Duration::from_mins(30),
            deadline_freezes: true,
        }
    }

    /// kubectl's defaults: nothing is forced, nothing is ignored, no time limit.
    pub fn kubectl() -> Self {
        Self {
            force: false,
            ignore_daemonsets: false,
            delete_emptydir_data: false,
            keep_apps: BTreeSet::new(),
            attempt_timeout: Duration::MAX,
            deadline_freezes: false,
            ..Self::device()
        }
    }
}
