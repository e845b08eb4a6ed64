//! The settings as code sees them: typed, complete, grouped like their keys.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{Command, VersionSource};
use super::names::{DnsLabel, NodeName};
use super::rule::Rule;
use super::value::{Hours, MaxRetries, Retry, Seconds, Wait};
use super::words::{
    ClusterMode, DetachTimeout, LonghornDrainPolicy, StatefulOrder, UnhealthyNode, WithoutDrain,
    WithoutZedkube,
};

/// Every setting of every agent. What each one means stands in `settings::table`, from where it is also filled.
///
/// An `Option` is left only where the table has no default; then `None` means that nothing was set.
#[expect(
    missing_docs,
    reason = "the table documents each setting, and a test compares it with docs/settings.md"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub drain: DrainSettings,
    pub cordon: CordonSettings,
    pub api: ApiSettings,
    pub peer: PeerSettings,
    pub longhorn: LonghornSettings,
    pub cluster: ClusterSettings,
    pub node: NodeSettings,
    pub slots: SlotSettings,
    pub health: HealthSettings,
    pub force: ForceSettings,
    pub device_op: DeviceOpSettings,
    pub device: DeviceSettings,
    pub baseos: BaseosSettings,
    pub pods: PodSettings,
    pub evict: EvictSettings,
    pub stateful: StatefulSettings,
    pub volumes: VolumeSettings,
    pub unhealthy_node: UnhealthyNode,
    /// The rules of all layers in the order of files and lines; each name once, at most 100.
    pub rules: Vec<Rule>,
}

impl Settings {
    /// How long one attempt may take: `drain.attempt-timeout`, else EVE's `kubernetes.drain.timeout`.
    pub fn attempt_timeout(&self) -> Duration {
        self.drain.attempt_timeout.unwrap_or_else(|| self.drain.timeout.duration())
    }

    /// How long the API server must be unreachable on end before it counts:
    /// `api.unreachable-timeout`, else EVE's `drain.skip.k8sapinotreachable.timeout`.
    pub fn unreachable_timeout(&self) -> Duration {
        self.api.unreachable_timeout.unwrap_or_else(|| self.api.skip_not_reachable.duration())
    }

    /// How long no other node may take pods before it counts: `peer.window`, else EVE's
    /// `kubernetes.drain.allnodes.config.multiple` times `timer.config.interval` (1,000 days at most).
    pub fn peer_window(&self) -> Duration {
        let product = || self.peer.config_interval.duration().saturating_mul(self.peer.config_multiple);
        self.peer.window.unwrap_or_else(product)
    }
}

/// Keys `drain.*` and `kubernetes.drain.timeout`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainSettings {
    pub timeout: Hours,
    pub attempt_timeout: Option<Duration>,
    pub attempts: u32,
    pub retry_pause: Duration,
    pub start_timeout: Duration,
    pub start_on_timeout: WithoutZedkube,
    pub settle: Duration,
}

/// Keys `cordon.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CordonSettings {
    pub tries: u32,
    pub pause: Duration,
}

/// Keys `api.*`, `api-unreachable`, `drain.skip.k8sapinotreachable.timeout`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiSettings {
    pub skip_not_reachable: Seconds,
    pub unreachable_timeout: Option<Duration>,
    pub unreachable: WithoutDrain,
    pub freeze_limit: Duration,
}

/// Keys `peer.window`, `no-peer`, `kubernetes.drain.allnodes.config.multiple`, `timer.config.interval`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    pub config_multiple: u32,
    pub config_interval: Seconds,
    pub window: Option<Duration>,
    pub none: WithoutDrain,
}

/// Key `storage.longhorn.node-drain-policy`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LonghornSettings {
    pub node_drain_policy: LonghornDrainPolicy,
}

/// Keys `cluster.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    pub mode: ClusterMode,
    pub kubeconfig: Option<PathBuf>,
}

/// Key `node.name`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    pub name: Option<NodeName>,
}

/// Keys `slots.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotSettings {
    pub limit: u32,
    pub group: DnsLabel,
    pub namespace: DnsLabel,
    pub wait: Wait,
    pub down_max: Duration,
}

/// Keys `health.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthSettings {
    pub command: Option<Command>,
    pub timeout: Duration,
    pub interval: Duration,
}

/// Key `force.ttl`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForceSettings {
    pub ttl: Duration,
}

/// Key `device-op.retry`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOpSettings {
    pub retry: Retry,
}

/// Keys `device.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    pub command: Option<Command>,
    pub shutdown: Option<Command>,
    pub pre: Vec<Command>,
    pub dry_run: bool,
}

/// Keys `baseos.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseosSettings {
    pub retry: Retry,
    pub activate: Option<Command>,
    pub current: Option<VersionSource>,
    pub timeout: Duration,
    pub dry_run: bool,
}

/// Keys `pods.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSettings {
    pub force: bool,
    pub ignore_daemonsets: bool,
    pub delete_emptydir_data: bool,
    pub grace_period: Option<Duration>,
    pub skip_wait_for_delete_timeout: Option<Duration>,
    pub keep_apps: BTreeSet<String>,
}

/// Keys `evict.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictSettings {
    pub concurrency: u32,
    pub retry: Duration,
    pub max_retries: Option<MaxRetries>,
}

/// Keys `stateful.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatefulSettings {
    pub parallel: u32,
    pub order: StatefulOrder,
}

/// Keys `volumes.*`.
#[expect(missing_docs, reason = "documented by the table")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSettings {
    pub detach_timeout: Duration,
    pub reattach_timeout: Duration,
    pub on_detach_timeout: DetachTimeout,
}
