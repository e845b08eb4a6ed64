//! What a drain may do and how long it may take.

use std::collections::BTreeSet;
use std::time::Duration;

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
/// steps of 500 ms, so more gains nothing.
pub const IN_FLIGHT_PER_BUDGET: usize = 3;

/// How long after the API server came back the scheduler may still bind pods to a cordoned node from its stale
/// cache. Measured: up to 44 s after an outage of 30 s.
pub const STALE_SCHEDULER: Duration = Duration::from_mins(1);

/// What a drain may do and how long it may take. No option is left open: `runtime` settings or flags fill all.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Policy {
    /// The defaults on a device: EVE's, with `drain.md` 1 and 2 and `settings.md` where EVE has none.
    pub fn device() -> Self {
        Self {
            force: true,
            ignore_daemonsets: true,
            delete_emptydir_data: true,
            grace_period: None,
            skip_wait_for_delete: None,
            keep_apps: LONGHORN_APPS.iter().map(|&app| app.to_owned()).collect(),
            concurrency: 16,
            retry: Duration::from_secs(20),
            attempt_timeout: Duration::from_hours(24),
            settle: Duration::from_secs(2),
            freeze_limit: Duration::from_mins(30),
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
            ..Self::device()
        }
    }
}
