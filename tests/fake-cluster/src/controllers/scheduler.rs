//! Binds each pending pod to the fitting node with the fewest pods.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::placement::{is_cordoned_for, is_selected_by, is_tainted_for};
use super::{Step, World};
use crate::PREFER_NODE;
use crate::object::{self, set, set_condition, text};
use crate::resources::{NODES, PODS, Resource};
use crate::store::{Object, Store};
use crate::write;

#[derive(Debug)]
pub(super) struct Scheduler;

impl Step for Scheduler {
    fn reads(&self) -> &'static [&'static Resource] {
        &[PODS, NODES]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let waiting: Vec<Object> = store.pods_on("").filter(|pod| is_waiting(pod)).cloned().collect();
        if waiting.is_empty() {
            return None;
        }
        let nodes: Vec<Object> = store.objects(NODES).cloned().collect();
        for pod in &waiting {
            let fitting = nodes.iter().filter(|node| problem(store, node, pod, world).is_none());
            let preferred = object::annotation(pod, PREFER_NODE).unwrap_or_default();
            let best = fitting
                .map(|node| object::name(node))
                .min_by_key(|name| (*name != preferred, store.load(name)));
            match best {
                Some(node) => bind(store, pod, node, world),
                None => explain(store, pod, &nodes, world),
            }
        }
        None
    }
}

fn is_waiting(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/status/phase") == "Pending"
        && text(pod, "/spec/schedulerName") == "default-scheduler"
        && !object::is_terminating(pod)
}

/// The reason why the pod cannot run on the node, in the scheduler's words.
fn problem(store: &Store, node: &Value, pod: &Value, world: &World<'_>) -> Option<&'static str> {
    let room = text(node, "/status/allocatable/pods").parse().unwrap_or(110);
    if !world.scheduler_is_blind && is_cordoned_for(node, pod) {
        Some("were unschedulable")
    } else if !object::is_ready(node) || is_tainted_for(node, pod) {
        Some("had untolerated taint(s)")
    } else if !is_selected_by(node, pod) {
        Some("didn't match Pod's node affinity/selector")
    } else if store.load(object::name(node)) >= room {
        Some("Too many pods")
    } else {
        None
    }
}

fn bind(store: &mut Store, pod: &Object, node: &str, world: &World<'_>) {
    let now = world.now.text();
    drop(write::edit(store, PODS, object::namespace(pod), object::name(pod), |pod| {
        set(pod, &["spec", "nodeName"], node);
        set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), &now);
    }));
}

/// Writes to the pod why it stays pending.
fn explain(store: &mut Store, pod: &Object, nodes: &[Object], world: &World<'_>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for problem in nodes.iter().filter_map(|node| problem(store, node, pod, world)) {
        *counts.entry(problem).or_default() += 1;
    }
    let reasons: Vec<String> =
        counts.iter().map(|(problem, count)| format!("{count} node(s) {problem}")).collect();
    let message = format!("0/{} nodes are available: {}.", nodes.len(), reasons.join(", "));
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    let now = world.now.text();
    drop(write::edit(store, PODS, object::namespace(pod), object::name(pod), |pod| {
        set_condition(pod, condition, &now);
    }));
}
