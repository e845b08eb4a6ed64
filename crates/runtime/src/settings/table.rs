//! The table of settings. It is the only place that knows keys, defaults, limits and meanings; the page
//! `docs/settings.md` is compared with it by a test.

use std::time::Duration;

use super::groups::Settings;
use super::row::Live::{NextAction, NextAttempt, No, Yes};
use super::row::{Row, field};
use super::rule::Rule;
use super::value::Span;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// From so many seconds to so many seconds.
const fn span(shortest: u64, longest: u64) -> Span {
    Duration::from_secs(shortest)..=Duration::from_secs(longest)
}

/// The row of `key`.
pub(crate) fn row_of(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key)
}

/// The row of `key` in a `[[rule]]`.
pub(crate) fn rule_row_of(key: &str) -> Option<&'static Row<Rule>> {
    RULE_ROWS.iter().find(|row| row.key == key)
}

/// Every setting, in the order of the documentation.
#[rustfmt::skip] // a table is read by its rows
pub(crate) static ROWS: &[Row] = &[
    // How long, how often
    Row::new("kubernetes.drain.timeout", "24", NextAttempt, field!(drain.timeout, 1..=u32::MAX),
        "How long one attempt of a drain may take. `drain.attempt-timeout` wins.").eve(),
    Row::new("drain.attempt-timeout", "-", NextAttempt, field!(drain.attempt_timeout, span(1, 10 * YEAR)),
        "The same as a duration."),
    Row::new("drain.attempts", "5", Yes, field!(drain.attempts, 1..=100),
        "How many attempts a drain has before it has failed."),
    Row::new("drain.retry-pause", "300s", Yes, field!(drain.retry_pause, span(0, DAY)),
        "The pause between two attempts. Long enough for a replica to be rebuilt elsewhere."),
    Row::new("drain.settle", "2s", NextAttempt, field!(drain.settle, span(0, 5 * MINUTE)),
        "If pods kept coming, two empty lists must lie this far apart before the node counts as empty."),
    Row::new("cordon.tries", "10", Yes, field!(cordon.tries, 1..=100),
        "How often cordoning the node is tried."),
    Row::new("cordon.pause", "5s", Yes, field!(cordon.pause, span(0, HOUR)),
        "The pause between two tries to cordon."),

    // When a drain is not possible
    Row::new("drain.skip.k8sapinotreachable.timeout", "300", Yes, field!(api.skip_not_reachable, 1..=u32::MAX),
        "The Kubernetes API must be unreachable this long on end before `api-unreachable` counts. \
         `api.unreachable-timeout` wins.").eve(),
    Row::new("api.unreachable-timeout", "-", Yes, field!(api.unreachable_timeout, span(1, 10 * YEAR)),
        "The same as a duration."),
    Row::new("api-unreachable", "complete", Yes, field!(api.unreachable),
        "What follows when the API stays unreachable before the cordon: the operation goes on without a drain, \
         or it waits. A bad value means `wait`.").or_when_bad("wait"),
    Row::new("api.freeze-limit", "30m", Yes, field!(api.freeze_limit, span(0, DAY)),
        "From the cordon on the clocks stand still while the API is unreachable (two failures over 3 s at least): so long in \
         sum per attempt, then the attempt has failed."),
    Row::new("kubernetes.drain.allnodes.config.multiple", "2", Yes, field!(peer.config_multiple, 1..=1000),
        "Times `timer.config.interval`: how long no other node may take pods before `no-peer` counts. \
         `peer.window` wins.").eve(),
    Row::new("timer.config.interval", "60", Yes, field!(peer.config_interval, 5..=86_400),
        "How often EVE asks its controller; here only a factor of the window above.").eve(),
    Row::new("peer.window", "-", Yes, field!(peer.window, span(1, 10 * YEAR)),
        "The window as a duration."),
    Row::new("no-peer", "complete", Yes, field!(peer.none),
        "What follows when no other node is ready to take pods: the operation goes on without a drain, or it \
         waits. A bad value means `wait`.").or_when_bad("wait"),
    Row::new("drain.start.timeout", "10m", Yes, field!(drain.start_timeout, span(1, 30 * DAY)),
        "How long device-op and baseos wait for a zedkube that is not running, in sum, before \
         `drain.start.on-timeout` counts. A zedkube that runs without progress for as long hangs: then no timer counts."),
    Row::new("drain.start.on-timeout", "proceed", Yes, field!(drain.start_on_timeout),
        "What follows then: the operation goes on without a drain, or it waits. A bad value means `wait`.")
        .or_when_bad("wait"),
    Row::new("force.ttl", "10m", Yes, field!(force.ttl, span(1, DAY)),
        "How long a `force complete` without a standing request waits for one."),

    // Who and where
    Row::new("cluster.mode", "auto", No, field!(cluster.mode),
        "Whether this device is a member of a cluster, where EVE does not say so: ask the API, yes, or no."),
    Row::new("cluster.kubeconfig", "-", No, field!(cluster.kubeconfig),
        "The kubeconfig file; it and the files that it names belong to root, and nobody else may write them. Without it: \
         `KUBECONFIG`, the kubelet's own (k3s, RKE2, kubeadm), k3s' administrator's, the pod's service account."),
    Row::new("node.name", "-", No, field!(node.name),
        "The Node that is this machine, if it cannot be found by itself."),

    // Not too many nodes at once
    Row::new("slots.limit", "1", Yes, field!(slots.limit, 0..=10_000),
        "So many nodes of the group may be down for a drain at a time; 0 is no limit."),
    Row::new("slots.group", "default", No, field!(slots.group),
        "Nodes with the same group share the slots."),
    Row::new("slots.namespace", "kube-system", No, field!(slots.namespace),
        "Where the ConfigMap of the slots is kept."),
    Row::new("slots.wait", "24h", Yes, field!(slots.wait, span(0, 10 * YEAR)),
        "How long a request waits for API, health, slot and peers together before the drain begins; then it \
         has failed."),
    Row::new("slots.down-max", "30m", Yes, field!(slots.down_max, span(0, DAY)),
        "A node that is NotReady for less than this counts as one that comes back: it takes a slot. An API server that is \
         away is waited for as long if another node may have a slot: `docs/operations/slots.md`."),
    Row::new("health.command", "-", Yes, field!(health.command),
        "Asked before a drain and before the node is uncordoned; it passes if it exits with 0. None passes always."),
    Row::new("health.timeout", "30s", Yes, field!(health.timeout, span(1, HOUR)),
        "How long that command may run."),
    Row::new("health.interval", "15s", Yes, field!(health.interval, span(1, HOUR)),
        "How often it is asked again while it fails."),

    // What becomes of the pods
    Row::new("pods.force", "true", NextAttempt, field!(pods.force),
        "Pods without a controller may be evicted; nothing makes them anew. `ebb drain`: false."),
    Row::new("pods.ignore-daemonsets", "true", NextAttempt, field!(pods.ignore_daemonsets),
        "Pods of DaemonSets stay and do not forbid the drain. `ebb drain`: false."),
    Row::new("pods.delete-emptydir-data", "true", NextAttempt, field!(pods.delete_emptydir_data),
        "Pods with emptyDir volumes may be evicted, and that data is lost. `ebb drain`: false."),
    Row::new("pods.grace-period", "-", NextAttempt, field!(pods.grace_period, span(1, YEAR)),
        "The grace period of every eviction; none is the pod's own. Zero is a verb of its own: \
         `ebb force delete-pods`."),
    Row::new("pods.skip-wait-for-delete-timeout", "-", NextAttempt,
        field!(pods.skip_wait_for_delete_timeout, span(1, YEAR)),
        "A pod that is terminating longer than its grace and this is not waited for."),
    Row::new("pods.keep-apps",
        r#"["csi-attacher", "csi-provisioner", "longhorn-admission-webhook", "longhorn-conversion-webhook", "longhorn-driver-deployer"]"#,
        NextAttempt, field!(pods.keep_apps),
        "Pods with one of these values in their label `app` stay: they are needed until the volumes are detached. \
         `ebb drain`: none."),
    Row::new("evict.concurrency", "16", NextAttempt, field!(evict.concurrency, 1..=256),
        "So many evictions are under way at a time."),
    Row::new("evict.retry", "20s", NextAttempt, field!(evict.retry, span(1, HOUR)),
        "A refused eviction is tried again this often, and at once when its budget changes."),
    Row::new("evict.max-retries", "-", NextAttempt, field!(evict.max_retries, 0..=10_000),
        "After this many times `evict.retry` of refusals on end the pod is deleted with its own grace, against its budget; \
         the count begins anew when the budget lets another pod go, and pods of one budget are deleted one at a time, \
         `evict.retry` apart. None is never, `auto` is as late as the attempt allows."),
    Row::new("unhealthy-node", "off", NextAttempt, field!(unhealthy_node),
        "Whether pods are deleted with grace 0, without waiting for their volumes, when this node has been unhealthy \
         for over 5 minutes: it is NotReady, or its file system is read-only."),

    // Pods with volumes
    Row::new("stateful.parallel", "1", NextAttempt, field!(stateful.parallel, 1..=64),
        "So many pods with attachable volumes leave at a time."),
    Row::new("stateful.order", "highest-first", NextAttempt, field!(stateful.order),
        "By priority, which of them leaves first."),
    Row::new("volumes.detach-timeout", "2m", NextAttempt, field!(volumes.detach_timeout, span(0, DAY)),
        "How long the next pod waits, after the pod's grace, for its volumes to be detached here; `0s` is no wait."),
    Row::new("volumes.reattach-timeout", "90s", NextAttempt, field!(volumes.reattach_timeout, span(0, DAY)),
        "How long it waits for them to be attached on another node; `0s` is no wait."),
    Row::new("volumes.on-detach-timeout", "fail", NextAttempt, field!(volumes.on_detach_timeout),
        "What a volume that is still attached at the end of an attempt means: the attempt has failed, or it is \
         only reported."),
    Row::new("storage.longhorn.node-drain-policy", "block-for-eviction-if-contains-last-replica", Yes,
        field!(longhorn.node_drain_policy),
        "Written to Longhorn's setting `node-drain-policy` when Longhorn is there and zedkube's credentials may: EVE's may, a node's own may not.").eve(),

    // The device
    Row::new("device-op.retry", "30m", Yes, field!(device_op.retry, span(0, 30 * DAY)),
        "How long after a failed drain device-op asks for another one."),
    Row::new("device.command", "-", NextAction, field!(device.command),
        "Carries out a reboot or poweroff where systemd-logind is not there."),
    Row::new("device.shutdown", "-", NextAction, field!(device.shutdown),
        "Stops the applications for the operation shutdown."),
    Row::new("device.pre", "[]", NextAction, field!(device.pre),
        "Run before every operation, 60 s each; one that fails is logged and passed."),
    Row::new("device.dry-run", "false", NextAction, field!(device.dry_run),
        "Operations of the device are only written down."),
    Row::new("baseos.retry", "30m", Yes, field!(baseos.retry, span(0, 30 * DAY)),
        "How long after a failed drain baseos asks for another one."),
    Row::new("baseos.activate", "-", NextAction, field!(baseos.activate),
        "Activates an image. Without it an image fails at once, and no drain is asked for."),
    Row::new("baseos.current", "-", NextAction, field!(baseos.current),
        "Tells which version is running: a command, or a file. Without it EVE's `/run/eve-release` and os-release are asked."),
    Row::new("baseos.timeout", "10m", NextAction, field!(baseos.timeout, span(1, DAY)),
        "How long the activation may run."),
    Row::new("baseos.dry-run", "false", NextAction, field!(baseos.dry_run),
        "Activations are only written down."),
];

/// Every key of a `[[rule]]`, in the order of the documentation.
#[rustfmt::skip] // a table is read by its rows
pub(crate) static RULE_ROWS: &[Row<Rule>] = &[
    Row::new("name", "", NextAttempt, field!(Rule: name),
        "What messages call the rule. No other rule of any file has this name."),
    Row::new("selector", "-", NextAttempt, field!(Rule: selector),
        "Which labels the pods have; none is any."),
    Row::new("namespace", "-", NextAttempt, field!(Rule: namespace),
        "Which namespace they are in; none is any."),
    Row::new("owner-kind", "-", NextAttempt, field!(Rule: owner_kind),
        "Which kind their controller is of, in exactly these letters; none is any, also no controller."),
    Row::new("behaviour", "drain", NextAttempt, field!(Rule: behaviour),
        "What is done with them: they leave like others, they stay and nobody waits for them, or they end by \
         themselves and are waited for."),
    Row::new("order", "0", NextAttempt, field!(Rule: order),
        "Pods of a higher order leave when all of the lower ones are gone. Pods without a rule have 0."),
    Row::new("grace", "-", NextAttempt, field!(Rule: grace, span(1, DAY)),
        "The grace period of their eviction; none leaves it to `pods.grace-period` or the pod. Zero is a verb of its \
         own: `ebb force delete-pods`."),
];
