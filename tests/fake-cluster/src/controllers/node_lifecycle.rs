//! Taints nodes that are unschedulable, and nodes whose kubelet has been silent for too long.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::placement::UNSCHEDULABLE;
use super::{Step, World, earlier};
use crate::object::{self, flag, items, set, set_condition, text};
use crate::resources::{NODES, Resource};
use crate::store::{Object, Store};
use crate::write;

/// How long a node without its kubelet still counts as Ready.
const GRACE: Duration = Duration::from_secs(40);

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[derive(Debug, Default)]
pub(super) struct NodeLifecycle {
    /// Since when each node's kubelet is silent.
    silent: BTreeMap<String, Duration>,
}

impl Step for NodeLifecycle {
    fn reads(&self) -> &'static [&'static Resource] {
        &[NODES]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let nodes: Vec<Object> = store.objects(NODES).cloned().collect();
        let before = std::mem::take(&mut self.silent);
        let mut next = None;
        for node in &nodes {
            let name = object::name(node);
            let mut is_lost = false;
            if !world.has_kubelet(name) {
                let since = before.get(name).copied().unwrap_or(world.now.elapsed);
                self.silent.insert(name.to_owned(), since);
                let due = since.saturating_add(GRACE);
                is_lost = due <= world.now.elapsed;
                next = earlier(next, Some(due).filter(|_| !is_lost));
            }
            judge(store, node, is_lost, world);
        }
        next
    }
}

fn judge(store: &mut Store, node: &Object, is_lost: bool, world: &World<'_>) {
    let wanted = [
        (UNSCHEDULABLE, "NoSchedule", flag(node, "/spec/unschedulable")),
        (UNREACHABLE, "NoSchedule", is_lost),
        (UNREACHABLE, "NoExecute", is_lost),
    ];
    let has_ready =
        |status| object::condition(node, "Ready").is_some_and(|ready| text(ready, "/status") == status);
    let is_tainted_right = wanted.iter().all(|(key, effect, holds)| has_taint(node, key, effect) == *holds);
    if is_tainted_right && (!is_lost || has_ready("Unknown")) {
        return;
    }
    let now = world.now.text();
    drop(write::edit(store, NODES, "", object::name(node), |node| {
        for (key, effect, holds) in wanted {
            set_taint(node, key, effect, holds, &now);
        }
        if is_lost {
            let condition = json!({
                "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            });
            set_condition(node, condition, &now);
        }
    }));
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    items(node, "/spec/taints").iter().any(|taint| is_taint(taint, key, effect))
}

fn is_taint(taint: &Value, key: &str, effect: &str) -> bool {
    text(taint, "/key") == key && text(taint, "/effect") == effect
}

fn set_taint(node: &mut Value, key: &str, effect: &str, holds: bool, now: &str) {
    if has_taint(node, key, effect) == holds {
        return;
    }
    let mut taints = items(node, "/spec/taints").to_vec();
    if holds {
        taints.push(json!({"key": key, "effect": effect, "timeAdded": now}));
    } else {
        taints.retain(|taint| !is_taint(taint, key, effect));
    }
    if taints.is_empty() {
        object::remove(node, &["spec", "taints"]);
    } else {
        set(node, &["spec", "taints"], taints);
    }
}
