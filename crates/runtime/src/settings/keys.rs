//! Every setting: its key, its type, and its notation. Meanings and defaults are in `docs/settings.md`.
//!
//! The settings of a drain are [`session::Policy`] and [`drain::Policy`] themselves: the structs `…Keys` here give
//! their fields the keys. Both crates are pure, so no agent gets kube, tokio or a clock by them. With types of their
//! own here, each choice was two enums and a table between them: nine places for one new word. A crate of their own
//! would save nothing: every agent is started with settings and follows them, so `runtime` would depend on that crate
//! anyway, and it would need `pubsub`, the flags and the file reading of `runtime`.
#![expect(missing_docs, reason = "docs/settings.md has the meaning of each key")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use drain::Selector;
use drain::policy::{
    MaxRetries, Method, OnDetachTimeout, Stateful, StatefulOrder, StatefulParallel, UnhealthyNode, Volumes,
};
use drain::rule::{Behaviour, Rule};
use jiff::civil::Time;
use schemas::{OnTimeout, Source};
use serde::{Deserialize, Serialize};
use session::policy::{Mode, OnUnavailable};

use super::command::{Command, Commands, VersionSource};
use super::names::{
    Apps, Day, DnsLabel, LonghornDrainPolicy, NodeName, OwnerKind, PodSelector, RuleName, Words, ZoneName,
};
use super::notation::{
    AbsolutePath, AtATime, Count, DAY, Endless, Flag, HOUR, MINUTE, MOST, Notation, Number, OrNone, Retries,
    Retry, Span, TimeOfDay, Word, YEAR,
};
use super::values::defaults;

/// The settings of all agents. An `Option` is used only where a setting has no default; `None` means that it is not
/// set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The settings of a drain. Complete except for `beside_zedbox`, which is not a setting.
    #[serde(flatten, with = "DeviceKeys")]
    pub policy: session::Policy,
    #[serde(flatten)]
    pub eve: EveSettings,
    #[serde(flatten)]
    pub drain: DrainSettings,
    #[serde(flatten)]
    pub longhorn: LonghornSettings,
    #[serde(flatten)]
    pub cluster: ClusterSettings,
    #[serde(flatten)]
    pub commands: CommandSettings,
    #[serde(flatten)]
    pub node: NodeSettings,
    #[serde(flatten)]
    pub slots: SlotSettings,
    #[serde(flatten)]
    pub health: HealthSettings,
    #[serde(flatten)]
    pub notify: NotifySettings,
    #[serde(flatten)]
    pub device_op: DeviceOpSettings,
    #[serde(flatten)]
    pub window: WindowSettings,
    #[serde(flatten)]
    pub hold: HoldSettings,
    #[serde(flatten)]
    pub inhibit: InhibitSettings,
    #[serde(flatten)]
    pub sentinel: SentinelSettings,
    #[serde(flatten)]
    pub device: DeviceSettings,
    #[serde(flatten)]
    pub baseos: BaseosSettings,
}

impl Settings {
    /// The settings after the rules that combine several of them: our durations override EVE's numbers.
    pub(crate) fn complete(mut self) -> Self {
        let Self { policy, eve, health, slots, .. } = &mut self;
        policy.drain.attempt_timeout = eve.attempt_timeout.unwrap_or(eve.drain_timeout);
        policy.unreachable_timeout = eve.unreachable_timeout.unwrap_or(eve.not_reachable);
        let product = || eve.config_interval.saturating_mul(eve.config_multiple);
        policy.peer_window = eve.peer_window.unwrap_or_else(product);
        policy.has_health_command = health.command.is_some();
        let group = format!("{}/{}", slots.namespace, slots.group);
        policy.slots_group = Some(group).filter(|group| group != "kube-system/default");
        self
    }
}

impl Default for Settings {
    #[expect(clippy::expect_used, reason = "the page is compiled in, and a test reads it")]
    fn default() -> Self {
        defaults().expect("docs/settings.md has a good default for every key")
    }
}

/// The keys of [`session::Policy`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "session::Policy")]
struct DeviceKeys {
    #[serde(flatten, with = "DrainKeys")]
    drain: drain::Policy,
    #[serde(rename = "drain.attempts", with = "Count::<1, 100>")]
    attempts: u32,
    #[serde(rename = "drain.retry-pause", with = "Span::<0, DAY>")]
    retry_pause: Duration,
    #[serde(rename = "cordon.tries", with = "Count::<1, 100>")]
    cordon_tries: u32,
    #[serde(rename = "cordon.pause", with = "Span::<0, HOUR>")]
    cordon_pause: Duration,
    #[serde(skip)] // see `Settings::complete`
    unreachable_timeout: Duration,
    #[serde(rename = "api-unreachable", with = "Word::<OnUnavailable>")]
    on_unreachable: OnUnavailable,
    #[serde(skip)] // see `Settings::complete`
    peer_window: Duration,
    #[serde(rename = "no-peer", with = "Word::<OnUnavailable>")]
    on_no_peer: OnUnavailable,
    #[serde(rename = "slots.down-max", with = "Span::<0, DAY>")]
    down_max: Duration,
    #[serde(rename = "slots.wait", with = "Endless::<{ 10 * YEAR }>")]
    wait_limit: Option<Duration>,
    #[serde(rename = "slots.limit", with = "Count::<0, 10_000>")]
    slots_limit: u32,
    #[serde(skip)] // see `Settings::complete`
    slots_group: Option<String>,
    #[serde(skip)] // see `Settings::complete`
    has_health_command: bool,
    #[serde(rename = "health.interval", with = "Span::<1, HOUR>")]
    health_interval: Duration,
    #[serde(rename = "force.ttl", with = "Span::<1, DAY>")]
    force_ttl: Duration,
    #[serde(skip)] // no setting: zedkube finds it out
    beside_zedbox: bool,
}

/// The keys of [`drain::Policy`]; a field without a key is the same on every device.
#[derive(Serialize, Deserialize)]
#[serde(remote = "drain::Policy")]
#[expect(clippy::struct_excessive_bools, reason = "the fields of drain::Policy")]
struct DrainKeys {
    #[serde(rename = "pods.force", with = "Flag")]
    force: bool,
    #[serde(rename = "pods.ignore-daemonsets", with = "Flag")]
    ignore_daemonsets: bool,
    #[serde(rename = "pods.delete-emptydir-data", with = "Flag")]
    delete_emptydir_data: bool,
    #[serde(rename = "pods.grace-period", with = "OrNone::<Span<1, YEAR>>")]
    grace_period: Option<Duration>,
    #[serde(rename = "pods.skip-wait-for-delete-timeout", with = "OrNone::<Span<1, YEAR>>")]
    skip_wait_for_delete: Option<Duration>,
    #[serde(rename = "pods.wait-finished", with = "Flag")]
    wait_finished: bool,
    #[serde(rename = "pods.keep-apps", with = "Apps")]
    keep_apps: BTreeSet<String>,
    #[serde(skip)]
    pod_selector: Option<Selector>,
    #[serde(skip)] // `[[rule]]`: the rules of all layers count, see `super::rules`
    rules: Vec<Rule>,
    #[serde(skip)]
    method: Method,
    #[serde(rename = "evict.max-retries", with = "Retries::<10_000>")]
    max_retries: MaxRetries,
    #[serde(rename = "unhealthy-node", with = "Word::<UnhealthyNode>")]
    unhealthy_node: UnhealthyNode,
    #[serde(flatten, with = "StatefulKeys")]
    stateful: Stateful,
    #[serde(flatten, with = "VolumeKeys")]
    volumes: Volumes,
    #[serde(rename = "evict.concurrency", with = "Count::<1, 256, usize>")]
    concurrency: usize,
    #[serde(rename = "evict.retry", with = "Span::<1, HOUR>")]
    retry: Duration,
    #[serde(skip)] // see `Settings::complete`
    attempt_timeout: Duration,
    #[serde(rename = "drain.settle", with = "Span::<0, { 5 * MINUTE }>")]
    settle: Duration,
    #[serde(rename = "api.freeze-limit", with = "Span::<0, DAY>")]
    freeze_limit: Duration,
    #[serde(skip, default = "on_a_device")]
    deadline_freezes: bool,
}

/// True: on a device no person waits for the end of a drain.
fn on_a_device() -> bool {
    true
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Stateful")]
struct StatefulKeys {
    #[serde(rename = "stateful.parallel", with = "AtATime::<64>")]
    parallel: StatefulParallel,
    #[serde(rename = "stateful.order", with = "Word::<StatefulOrder>")]
    order: StatefulOrder,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Volumes")]
#[expect(clippy::struct_field_names, reason = "the fields of drain's Volumes")]
struct VolumeKeys {
    #[serde(rename = "volumes.detach-timeout", with = "Span::<0, DAY>")]
    detach_timeout: Duration,
    #[serde(rename = "volumes.reattach-timeout", with = "Span::<0, DAY>")]
    reattach_timeout: Duration,
    #[serde(rename = "volumes.on-detach-timeout", with = "Word::<OnDetachTimeout>")]
    on_detach_timeout: OnDetachTimeout,
}

/// The keys of a `[[rule]]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Rule", rename_all = "kebab-case")]
pub(crate) struct RuleKeys {
    #[serde(with = "RuleName")]
    name: String,
    #[serde(with = "OrNone::<PodSelector>")]
    selector: Option<Selector>,
    #[serde(with = "OrNone::<DnsLabel>")]
    namespace: Option<String>,
    #[serde(with = "OrNone::<OwnerKind>")]
    owner_kind: Option<String>,
    #[serde(with = "Word::<Behaviour>")]
    behaviour: Behaviour,
    #[serde(with = "Count::<{ i32::MIN as i64 }, { i32::MAX as i64 }, i32>")]
    order: i32,
    #[serde(with = "OrNone::<Span<1, DAY>>")]
    grace: Option<Duration>,
}

/// EVE's settings with numbers, and our durations that override them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EveSettings {
    #[serde(rename = "kubernetes.drain.timeout", with = "Number::<HOUR, 1, MOST>")]
    pub drain_timeout: Duration,
    #[serde(rename = "drain.attempt-timeout", with = "OrNone::<Span<1, { 10 * YEAR }>>")]
    pub attempt_timeout: Option<Duration>,
    #[serde(rename = "drain.skip.k8sapinotreachable.timeout", with = "Number::<1, 1, MOST>")]
    pub not_reachable: Duration,
    #[serde(rename = "api.unreachable-timeout", with = "OrNone::<Span<1, { 10 * YEAR }>>")]
    pub unreachable_timeout: Option<Duration>,
    #[serde(rename = "kubernetes.drain.allnodes.config.multiple", with = "Count::<1, 1000>")]
    pub config_multiple: u32,
    #[serde(rename = "timer.config.interval", with = "Number::<1, 5, 86_400>")]
    pub config_interval: Duration,
    #[serde(rename = "peer.window", with = "OrNone::<Span<1, { 10 * YEAR }>>")]
    pub peer_window: Option<Duration>,
}

/// The waiting time for a zedkube that is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainSettings {
    #[serde(rename = "drain.start.timeout", with = "Span::<1, { 30 * DAY }>")]
    pub start_timeout: Duration,
    #[serde(rename = "drain.start.on-timeout", with = "Word::<OnTimeout>")]
    pub start_on_timeout: OnTimeout,
}

/// Key `storage.longhorn.node-drain-policy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LonghornSettings {
    #[serde(rename = "storage.longhorn.node-drain-policy", with = "LonghornDrainPolicy")]
    pub node_drain_policy: LonghornDrainPolicy,
}

/// Keys `cluster.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSettings {
    #[serde(rename = "cluster.mode", with = "Word::<Mode>")]
    pub mode: Mode,
    #[serde(rename = "cluster.kubeconfig", with = "OrNone::<AbsolutePath>")]
    pub kubeconfig: Option<PathBuf>,
    #[serde(rename = "cluster.unconfined", with = "Flag")]
    pub unconfined: bool,
}

/// Keys `commands.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSettings {
    #[serde(rename = "commands.from-cluster", with = "Flag")]
    pub from_cluster: bool,
}

/// Keys `node.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    #[serde(rename = "node.name", with = "OrNone::<NodeName>")]
    pub name: Option<String>,
    #[serde(rename = "node.conditions", with = "Apps")]
    pub conditions: BTreeSet<String>,
}

/// The place of the group's slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSettings {
    #[serde(rename = "slots.group", with = "DnsLabel")]
    pub group: String,
    #[serde(rename = "slots.namespace", with = "DnsLabel")]
    pub namespace: String,
}

/// The health checks before a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthSettings {
    #[serde(rename = "health.command", with = "OrNone::<Command>")]
    pub command: Option<Command>,
    #[serde(rename = "health.timeout", with = "Span::<1, HOUR>")]
    pub timeout: Duration,
}

/// Keys `notify.*`: the program that is told of each status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifySettings {
    #[serde(rename = "notify.command", with = "OrNone::<Command>")]
    pub command: Option<Command>,
    #[serde(rename = "notify.timeout", with = "Span::<1, { 5 * MINUTE }>")]
    pub timeout: Duration,
}

/// Key `device-op.retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceOpSettings {
    #[serde(rename = "device-op.retry", with = "Retry")]
    pub retry: Retry,
}

/// Keys `window.*`: when commands that are not urgent may begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSettings {
    #[serde(rename = "window.days", with = "Words::<Day>")]
    pub days: BTreeSet<Day>,
    #[serde(rename = "window.from", with = "OrNone::<TimeOfDay>")]
    pub from: Option<Time>,
    #[serde(rename = "window.to", with = "OrNone::<TimeOfDay>")]
    pub to: Option<Time>,
    #[serde(rename = "window.zone", with = "ZoneName")]
    pub zone: String,
    #[serde(rename = "window.sources", with = "Words::<Source>")]
    pub sources: BTreeSet<Source>,
    #[serde(rename = "window.lead", with = "Span::<0, DAY>")]
    pub lead: Duration,
    /// One of these settings, or a file that may have set them, has a mistake: nobody knows what was meant.
    #[serde(skip)]
    pub is_mistaken: bool,
}

impl WindowSettings {
    /// True if there is a window, or may be one.
    pub const fn is_set(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.is_mistaken
    }
}

/// Key `hold.timeout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldSettings {
    /// systemd's own limit for a shutdown is 30 min (reboot.target), and that of ebb-hold.service 26 min.
    #[serde(rename = "hold.timeout", with = "Span::<0, { 25 * MINUTE }>")]
    pub timeout: Duration,
}

/// Key `inhibit.mode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InhibitSettings {
    #[serde(rename = "inhibit.mode", with = "Word::<InhibitMode>")]
    pub mode: InhibitMode,
}

/// nodeagent's lock at systemd-logind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InhibitMode {
    Delay,
    Block,
    None,
}

/// Keys `sentinel.*`: how the host is asked whether it needs a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentinelSettings {
    #[serde(rename = "sentinel.path", with = "OrNone::<AbsolutePath>")]
    pub path: Option<PathBuf>,
    #[serde(rename = "sentinel.command", with = "OrNone::<Command>")]
    pub command: Option<Command>,
    #[serde(rename = "sentinel.exit", with = "Count::<0, 255>")]
    pub exit: u32,
    #[serde(rename = "sentinel.interval", with = "Span::<1, DAY>")]
    pub interval: Duration,
}

impl SentinelSettings {
    /// True if the host is asked at all.
    pub const fn is_set(&self) -> bool {
        self.path.is_some() || self.command.is_some()
    }
}

/// Keys `device.*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSettings {
    #[serde(rename = "device.command", with = "OrNone::<Command>")]
    pub command: Option<Command>,
    #[serde(rename = "device.shutdown", with = "OrNone::<Command>")]
    pub shutdown: Option<Command>,
    #[serde(rename = "device.pre", with = "Commands")]
    pub pre: Vec<Command>,
    #[serde(rename = "device.dry-run", with = "Flag")]
    pub dry_run: bool,
}

/// Keys `baseos.*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseosSettings {
    #[serde(rename = "baseos.retry", with = "Retry")]
    pub retry: Retry,
    #[serde(rename = "baseos.activate", with = "OrNone::<Command>")]
    pub activate: Option<Command>,
    #[serde(rename = "baseos.current", with = "OrNone::<VersionSource>")]
    pub current: Option<VersionSource>,
    #[serde(rename = "baseos.timeout", with = "Span::<1, DAY>")]
    pub timeout: Duration,
    #[serde(rename = "baseos.dry-run", with = "Flag")]
    pub dry_run: bool,
}
