//! Options and time limits of a drain.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use selector::Selector;
use serde::{Deserialize, Serialize};

use crate::rule::Rule;

/// Values of the `app` label whose pods stay on the node: Longhorn's helpers must live until the volumes are detached.
/// Source: EVE's pod selector in `zedkube/drain.go`.
pub const LONGHORN_APPS: [&str; 5] = [
    "csi-attacher",
    "csi-provisioner",
    "longhorn-admission-webhook",
    "longhorn-conversion-webhook",
    "longhorn-driver-deployer",
];

/// Limit of evictions in flight under one budget: the API server resolves write conflicts on a budget in steps of 500
/// ms, so more would not be faster (M7).
pub const IN_FLIGHT_PER_BUDGET: usize = 3;

/// Time after an outage of the API server during which the scheduler may still bind pods to a cordoned node from its
/// stale cache. Measured: up to 44 s after an outage of 30 s (M5).
pub const STALE_SCHEDULER: Duration = Duration::from_mins(1);

/// A refusal for a missing right (401, 403) counts only after this time and [`REFUSAL_TIMES`] refusals. API servers
/// refuse for moments after a restart, until they have read their roles, and while tokens rotate.
pub const REFUSAL_LASTS: Duration = Duration::from_secs(30);

/// A refusal counts only after this many in a row: a single answer may come from one bad server behind a load balancer.
pub const REFUSAL_TIMES: u32 = 3;

/// A node counts as unhealthy after this time in an unhealthy condition (MCM's value).
pub const UNHEALTHY_AFTER: Duration = Duration::from_mins(5);

/// How pods are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By eviction, which respects budgets.
    #[default]
    Evict,
    /// By deletion with the pod's own grace period: bypasses all budgets (`--disable-eviction`).
    Delete,
    /// By deletion with grace period 0, all at once, without waiting for volumes (`--force-delete`): containers may
    /// still run when their pod is created again elsewhere.
    ForceDelete,
}

/// Limit for evicting a refused pod; after it the pod is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxRetries {
    /// No limit: the pod is only evicted until the attempt's deadline.
    #[default]
    Unlimited,
    /// The pod is deleted, with its own grace period, after refusals for this many times [`Policy::retry`].
    Times(u32),
    /// The pod is deleted as late as possible: one retry before the attempt's deadline.
    Auto,
}

impl MaxRetries {
    /// Word for [`Self::Auto`], in settings and on the command line.
    pub const AUTO: &str = "auto";
}

/// Handling of a node that is unhealthy for a long time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnhealthyNode {
    /// No special handling.
    #[default]
    Off,
    /// Its pods are deleted with grace period 0, as with [`Method::ForceDelete`].
    Force,
}

/// Handling of pods with attached volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stateful {
    /// Which of them leave at the same time.
    pub parallel: StatefulParallel,
    /// Order by priority.
    pub order: StatefulOrder,
}

/// Which pods with attached volumes leave at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatefulParallel {
    /// This many, 1 to 64, in the order that [`Stateful::order`] gives (MCM: 1).
    Count(usize),
    /// All of one priority, but of each owner one. The owner is the controller; a pod without a controller is its own
    /// owner. A pod waits while a pod is leaving that comes before it in the order that [`Stateful::order`] gives.
    Auto,
}

impl StatefulParallel {
    /// Word for [`Self::Auto`], on the command line.
    pub const AUTO: &str = "auto";
}

/// Order in which pods with attached volumes leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatefulOrder {
    /// Highest priority first (MCM).
    #[default]
    HighestFirst,
    /// Lowest priority first (the kubelet's graceful shutdown).
    LowestFirst,
}

impl StatefulOrder {
    /// Compares the priorities of two pods: `Less` if the first pod leaves first.
    pub(crate) fn compare(self, first: i32, second: i32) -> Ordering {
        match self {
            Self::HighestFirst => second.cmp(&first),
            Self::LowestFirst => first.cmp(&second),
        }
    }
}

/// Time limits for volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// Limit for detaching a volume; zero = do not wait for volumes at all.
    pub detach_timeout: Duration,
    /// Limit for attaching it elsewhere, before the next pod leaves; zero = do not wait for that.
    pub reattach_timeout: Duration,
    /// Consequence of a volume that is not detached in time.
    pub on_detach_timeout: OnDetachTimeout,
}

/// Consequence of a volume that is not detached in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnDetachTimeout {
    /// The drain of the node fails in the end
    #[default]
    Fail,
    /// The drain succeeds, with a warning that names the volume
    Proceed,
}

/// Options and time limits of a drain. No field has a default of its own: `runtime` settings or flags fill all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, with a setting or flag of its own"
)]
pub struct Policy {
    /// Evict pods without a controller, and pods of DaemonSets that are gone.
    pub force: bool,
    /// Leave pods of DaemonSets on the node, with a warning; otherwise they forbid the drain.
    pub ignore_daemonsets: bool,
    /// Evict pods with emptyDir volumes, whose data is then lost.
    pub delete_emptydir_data: bool,
    /// Grace period to send with each eviction; `None` = the pod's own.
    pub grace_period: Option<Duration>,
    /// Do not wait for a pod that is still terminating this long after its grace period; `None` = wait for all.
    pub skip_wait_for_delete: Option<Duration>,
    /// Wait also for finished pods in which no container runs, once they are being deleted: a finalizer may keep such a pod for
    /// ever. kubectl waits.
    pub wait_finished: bool,
    /// Values of the `app` label whose pods stay on the node.
    pub keep_apps: BTreeSet<String>,
    /// Drain only pods with these labels (`--pod-selector`); `None` = all.
    pub pod_selector: Option<Selector>,
    /// Rules for some pods; the first that matches is used.
    pub rules: Vec<Rule>,
    /// How pods are removed.
    pub method: Method,
    /// Limit for evicting a refused pod; after it the pod is deleted.
    pub max_retries: MaxRetries,
    /// Handling of a node that is unhealthy for more than [`UNHEALTHY_AFTER`].
    pub unhealthy_node: UnhealthyNode,
    /// Handling of pods with attached volumes.
    pub stateful: Stateful,
    /// Time limits for volumes.
    pub volumes: Volumes,
    /// Number of evictions in flight at a time, 1 to 256.
    pub concurrency: usize,
    /// Pause before a refused eviction is tried again; it is tried earlier if the status of its budget changes.
    pub retry: Duration,
    /// Duration after which an attempt fails.
    pub attempt_timeout: Duration,
    /// Shortest time between the two clean lists that are needed if pods came during the drain.
    pub settle: Duration,
    /// Limit for the sum of the API server's outages in one attempt; after it the attempt fails.
    pub freeze_limit: Duration,
    /// Stop the attempt's deadline while the API server is away. True on a device, where no person waits for the command
    /// and the servers may be down for an update; false for a command, whose `--timeout` is wall time.
    pub deadline_freezes: bool,
}

impl Policy {
    /// True if a drain waits until volumes are detached: not with a detach time-out of zero, and not if it deletes pods with
    /// grace period 0.
    pub fn waits_for_volumes(&self) -> bool {
        !self.volumes.detach_timeout.is_zero() && self.method != Method::ForceDelete
    }

    /// True if a drain fails when a volume stays attached, or when that cannot be read.
    pub fn needs_detached_volumes(&self) -> bool {
        self.waits_for_volumes() && self.volumes.on_detach_timeout == OnDetachTimeout::Fail
    }

    /// Defaults on a device: EVE's, and those of `docs/settings.md` where EVE has none.
    pub fn device() -> Self {
        Self {
            force: true,
            ignore_daemonsets: true,
            delete_emptydir_data: true,
            grace_period: None,
            skip_wait_for_delete: None,
            wait_finished: false,
            keep_apps: LONGHORN_APPS.iter().map(|&app| app.to_owned()).collect(),
            pod_selector: None,
            rules: Vec::new(),
            method: Method::Evict,
            max_retries: MaxRetries::Unlimited,
            unhealthy_node: UnhealthyNode::Off,
            stateful: Stateful { parallel: StatefulParallel::Count(1), order: StatefulOrder::HighestFirst },
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

    /// kubectl's defaults: no `--force`, nothing ignored, no time limit.
    pub fn kubectl() -> Self {
        Self {
            force: false,
            ignore_daemonsets: false,
            delete_emptydir_data: false,
            wait_finished: true,
            keep_apps: BTreeSet::new(),
            attempt_timeout: Duration::MAX,
            deadline_freezes: false,
            ..Self::device()
        }
    }
}
