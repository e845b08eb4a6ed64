//! Plays the kubelet of every node: bound pods become Ready, deleted pods end, nodes report Ready.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::changes::Changes;
use super::volumes::{Volume, attachable_volumes, is_attached};
use super::{Step, World, earlier};
use crate::object::{self, at, items, set, set_condition, set_default, text};
use crate::resources::{ATTACHMENTS, CLAIMS, NODES, PODS, Resource, VOLUMES};
use crate::settings::Controller;
use crate::store::{Key, Object, Store};
use crate::write::{self, DeleteOptions};
use crate::{FINISH_AFTER, GONE_AFTER, READY_AFTER};

#[derive(Debug, Default)]
pub(super) struct Kubelet {
    changes: Changes,
    /// The pods that will change.
    pods: BTreeMap<Key, Progress>,
}

/// Since when a pod is in its stage.
#[derive(Clone, Debug)]
struct Progress {
    uid: String,
    stage: Stage,
    since: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Ending,
}

impl Step for Kubelet {
    fn reads(&self) -> &'static [&'static Resource] {
        &[PODS, NODES, ATTACHMENTS, CLAIMS, VOLUMES]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        self.note_changes(store, world);
        let nodes: Vec<Object> = store.objects(NODES).cloned().collect();
        let nodes: Vec<&Object> = nodes.iter().filter(|node| world.has_kubelet(object::name(node))).collect();
        let alive: BTreeSet<&str> = nodes.iter().map(|node| object::name(node)).collect();
        let mut next = None;
        for (key, progress) in &self.pods {
            let Some(pod) = store.get(PODS, &key.namespace, &key.name).cloned() else { continue };
            if !alive.contains(text(&pod, "/spec/nodeName")) {
                continue;
            }
            let due = delay(&pod, progress.stage, world).map(|delay| progress.since.saturating_add(delay));
            if due.is_some_and(|due| due <= world.now.elapsed) {
                act(store, &pod, progress.stage, world);
            } else {
                next = earlier(next, due);
            }
        }
        let mut mounted = mounted(store);
        for node in nodes {
            report_node(store, node, mounted.remove(object::name(node)).unwrap_or_default(), world);
        }
        next
    }
}

impl Kubelet {
    fn note_changes(&mut self, store: &Store, world: &World<'_>) {
        for key in self.changes.keys(store, PODS) {
            let pod = store.get(PODS, &key.namespace, &key.name);
            let Some((pod, stage)) = pod.and_then(|pod| Some((pod, stage(pod)?))) else {
                self.pods.remove(&key);
                continue;
            };
            let progress = Progress { uid: object::uid(pod).to_owned(), stage, since: world.now.elapsed };
            let known = self.pods.entry(key).or_insert_with(|| progress.clone());
            if known.stage != stage || known.uid != progress.uid {
                *known = progress;
            }
        }
    }
}

/// The next change of a pod; `None` if there is none.
fn stage(pod: &Value) -> Option<Stage> {
    match text(pod, "/status/phase") {
        _ if object::is_terminating(pod) => Some(Stage::Ending),
        "Pending" => Some(Stage::Starting),
        "Running" if object::annotation(pod, FINISH_AFTER).is_some() => Some(Stage::Running),
        _ => None,
    }
}

/// How long the pod stays in its stage; `None` means for ever.
fn delay(pod: &Value, stage: Stage, world: &World<'_>) -> Option<Duration> {
    match stage {
        // A pod that never becomes ready still starts, see `start`.
        Stage::Starting => Some(wanted(pod, READY_AFTER, world.settings.pod_ready_after).unwrap_or_default()),
        Stage::Running => wanted(pod, FINISH_AFTER, Duration::ZERO),
        Stage::Ending => {
            let grace = object::number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or_default();
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
            wanted(pod, GONE_AFTER, world.settings.pod_gone_after).map(|delay| delay.min(grace))
        }
    }
}

/// The annotation's milliseconds; `None` for `never`. The default if there is no readable annotation.
fn wanted(pod: &Value, annotation: &str, default: Duration) -> Option<Duration> {
    match object::annotation(pod, annotation) {
        Some("never") => None,
        Some(text) => Some(text.parse().map_or(default, Duration::from_millis)),
        None => Some(default),
    }
}

fn act(store: &mut Store, pod: &Object, stage: Stage, world: &World<'_>) {
    match stage {
        Stage::Starting if !has_volumes(store, pod, world) => {}
        Stage::Starting => start(store, pod, world),
        Stage::Running => finish(store, pod, world),
        Stage::Ending => {
            let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
            let key = (object::namespace(pod), object::name(pod));
            // If finalizers hold the pod, only its grace ends here.
            drop(write::delete(store, PODS, key, &now, world.context()));
        }
    }
}

/// True if the pod's volumes are attached, or no controller attaches volumes. A container waits for its volumes.
fn has_volumes(store: &Store, pod: &Value, world: &World<'_>) -> bool {
    !world.settings.controllers.contains(&Controller::AttachDetach)
        || attachable_volumes(store, pod).is_some_and(|volumes| {
            volumes.iter().all(|volume| is_attached(store, volume, text(pod, "/spec/nodeName")))
        })
}

fn start(store: &mut Store, pod: &Object, world: &World<'_>) {
    let is_ready = object::annotation(pod, READY_AFTER) != Some("never");
    let now = world.now.text();
    let containers: Vec<Value> = object::items(pod, "/spec/containers")
        .iter()
        .map(|container| {
            json!({
                "name": text(container, "/name"), "image": text(container, "/image"), "imageID": "",
                "ready": is_ready, "started": true, "restartCount": 0, "state": {"running": {"startedAt": now}},
            })
        })
        .collect();
    drop(write::edit(store, PODS, object::namespace(pod), object::name(pod), |pod| {
        set(pod, &["status", "phase"], "Running");
        set(pod, &["status", "startTime"], now.as_str());
        set(pod, &["status", "hostIP"], "127.0.0.1");
        set(pod, &["status", "containerStatuses"], containers);
        for (kind, holds) in [("Initialized", true), ("ContainersReady", is_ready), ("Ready", is_ready)] {
            let condition = json!({"type": kind, "status": if holds { "True" } else { "False" }});
            set_condition(pod, condition, &now);
        }
    }));
}

/// The pod's containers end by themselves, with success.
fn finish(store: &mut Store, pod: &Object, world: &World<'_>) {
    drop(write::edit(store, PODS, object::namespace(pod), object::name(pod), |pod| {
        set(pod, &["status", "phase"], "Succeeded");
        for kind in ["ContainersReady", "Ready"] {
            let condition = json!({"type": kind, "status": "False", "reason": "PodCompleted"});
            set_condition(pod, condition, &world.now.text());
        }
    }));
}

/// The mounted volumes of each node: attached there and used by a pod that still exists.
fn mounted(store: &Store) -> BTreeMap<String, BTreeSet<String>> {
    let mut mounted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let nodes: BTreeSet<&str> = store.objects(ATTACHMENTS).map(|one| text(one, "/spec/nodeName")).collect();
    for node in nodes {
        for pod in store.pods_on(node).filter(|pod| !object::is_finished(pod)) {
            let volumes = attachable_volumes(store, pod).unwrap_or_default();
            let here = volumes.iter().filter(|volume| is_attached(store, volume, node));
            mounted.entry(node.to_owned()).or_default().extend(here.map(Volume::attached_name));
        }
    }
    mounted
}

/// Writes the node's status: Ready, its capacity and its mounted volumes.
fn report_node(store: &mut Store, node: &Object, mounted: BTreeSet<String>, world: &World<'_>) {
    let known = items(node, "/status/volumesInUse").iter().filter_map(Value::as_str);
    let has_room = at(node, "/status/allocatable").is_some() && at(node, "/status/capacity").is_some();
    if object::is_ready(node) && has_room && known.eq(mounted.iter().map(String::as_str)) {
        return;
    }
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
    });
    drop(write::edit(store, NODES, "", object::name(node), |node| {
        set_condition(node, ready, &world.now.text());
        for field in ["capacity", "allocatable"] {
            set_default(node, &["status", field], json!({"cpu": "4", "memory": "8Gi", "pods": "110"}));
        }
        if mounted.is_empty() {
            object::remove(node, &["status", "volumesInUse"]);
        } else {
            set(node, &["status", "volumesInUse"], mounted.into_iter().collect::<Vec<_>>());
        }
    }));
}
