//! Tests the controllers one step at a time; the time moves only when a test moves it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Step, World, controller};
use crate::clock::Moment;
use crate::object::{self, flag, items, number, set, text};
use crate::resources::{self, BUDGETS, NAMESPACES, NODES, PODS, Resource};
use crate::settings::{Controller, Settings};
use crate::store::Store;
use crate::write::{self, Context, NewStatus};
use crate::{FINISH_AFTER, GONE_AFTER, Limit, PREFER_NODE, READY_AFTER, objects};

mod budgets;
mod nodes;
mod volumes;
mod workloads;

/// Some controllers on a store, without tasks and clocks.
struct Bench {
    store: Store,
    settings: Settings,
    controllers: Vec<Box<dyn Step>>,
    elapsed: Duration,
    dead_kubelets: BTreeSet<String>,
    scheduler_is_blind: bool,
}

impl Bench {
    fn new(controllers: &[Controller]) -> Self {
        let mut bench = Self {
            store: Store::new(4096, 10_000),
            settings: Settings { controllers: controllers.iter().copied().collect(), ..Settings::default() },
            controllers: controllers.iter().map(|name| controller(*name)).collect(),
            elapsed: Duration::ZERO,
            dead_kubelets: BTreeSet::new(),
            scheduler_is_blind: false,
        };
        bench.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
        bench
    }

    fn now(&self) -> Moment {
        let start: jiff::Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        Moment { elapsed: self.elapsed, wall: start.checked_add(self.elapsed).expect("a time") }
    }

    fn add(&mut self, object: Value) {
        let resource =
            resources::of_object(text(&object, "/apiVersion"), text(&object, "/kind")).expect("a kind");
        let namespace = if resource.is_namespaced() { "default" } else { "" };
        let context = Context::at(self.now());
        write::create(&mut self.store, resource, namespace, object, NewStatus::Kept, context)
            .expect("it is taken");
    }

    fn edit(&mut self, resource: &'static Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let namespace = if resource.is_namespaced() { "default" } else { "" };
        let edited = write::edit(&mut self.store, resource, namespace, name, change);
        assert!(edited.expect("room").is_some(), "{name} is there");
    }

    fn delete(&mut self, resource: &'static Resource, name: &str) {
        let namespace = if resource.is_namespaced() { "default" } else { "" };
        let (options, context) = (write::DeleteOptions::default(), Context::at(self.now()));
        write::delete(&mut self.store, resource, (namespace, name), &options, context).expect("it is there");
    }

    fn get(&self, resource: &Resource, name: &str) -> Option<Value> {
        let namespace = if resource.is_namespaced() { "default" } else { "" };
        self.store.get(resource, namespace, name).map(|object| (**object).clone())
    }

    fn all(&self, resource: &Resource) -> Vec<Value> {
        self.store.objects(resource).map(|object| (**object).clone()).collect()
    }

    /// Runs steps until nothing changes any more; returns when the next step is due.
    fn settle(&mut self) -> Option<Duration> {
        for _ in 0..1000 {
            let before = self.store.revision();
            let now = self.now();
            let mut next = None;
            for controller in &mut self.controllers {
                let world = World {
                    now,
                    settings: &self.settings,
                    dead_kubelets: self.dead_kubelets.clone(),
                    scheduler_is_blind: self.scheduler_is_blind,
                };
                next = super::earlier(next, controller.step(&mut self.store, &world));
            }
            if self.store.revision() == before {
                return next;
            }
        }
        panic!("the controllers never come to rest");
    }

    /// Moves the time, then runs steps until nothing changes.
    fn pass(&mut self, time: Duration) -> Option<Duration> {
        self.elapsed += time;
        self.settle()
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A ready pod of `web` on `edge-a`.
fn bound_pod(name: &str) -> Value {
    let mut pod = objects::pod(name, "edge-a");
    set(&mut pod, &["metadata", "labels", "app"], "web");
    let ready = json!({"type": "Ready", "status": "True"});
    set(&mut pod, &["status"], json!({"phase": "Running", "conditions": [ready]}));
    pod
}
