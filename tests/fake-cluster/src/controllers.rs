//! The controllers: what a cluster does by itself. Each controller reads the whole store again whenever something that
//! it depends on has changed, and brings it one step nearer to its wanted state. The steps are plain functions of the
//! store and the time; only this file waits.

mod attach_detach;
mod changes;
mod daemon_set;
mod deployment;
mod disruption;
mod garbage;
mod kubelet;
mod namespace;
mod node_lifecycle;
mod placement;
mod replica_set;
mod scheduler;
mod stateful_set;
#[cfg(test)]
mod tests;
mod volume_binder;
mod volumes;
mod workload;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::resources::Resource;
use crate::settings::{Controller, Settings};
use crate::shared::Shared;
use crate::store::Store;
use crate::write::Context;

/// One controller's step.
trait Step: Send {
    /// The kinds whose changes matter to this controller.
    fn reads(&self) -> &'static [&'static Resource];

    /// Reads the store, acts, and returns the time (since the cluster's start) at which the controller must run again
    /// even if nothing changes.
    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration>;
}

/// Everything that a step may know besides the store.
#[derive(Debug)]
struct World<'a> {
    now: Moment,
    settings: &'a Settings,
    dead_kubelets: BTreeSet<String>,
    scheduler_is_blind: bool,
}

impl World<'_> {
    fn context(&self) -> Context {
        Context::at(self.now)
    }

    fn has_kubelet(&self, node: &str) -> bool {
        !self.dead_kubelets.contains(node)
    }
}

fn controller(name: Controller) -> Box<dyn Step> {
    match name {
        Controller::Kubelet => Box::new(kubelet::Kubelet::default()),
        Controller::Scheduler => Box::new(scheduler::Scheduler),
        Controller::ReplicaSet => Box::new(replica_set::ReplicaSets::default()),
        Controller::Deployment => Box::new(deployment::Deployments::default()),
        Controller::StatefulSet => Box::new(stateful_set::StatefulSets::default()),
        Controller::DaemonSet => Box::new(daemon_set::DaemonSets::default()),
        Controller::Disruption => Box::new(disruption::Disruption::default()),
        Controller::NodeLifecycle => Box::new(node_lifecycle::NodeLifecycle::default()),
        Controller::Namespace => Box::new(namespace::Namespaces::default()),
        Controller::GarbageCollector => Box::new(garbage::GarbageCollector::default()),
        Controller::VolumeBinder => Box::new(volume_binder::VolumeBinder::default()),
        Controller::AttachDetach => Box::new(attach_detach::AttachDetach::default()),
    }
}

/// Starts the controllers of the settings on the current runtime.
pub(crate) fn spawn(shared: &Arc<Shared>) {
    for name in &shared.settings.controllers {
        tokio::spawn(run(Arc::clone(shared), *name, controller(*name)));
    }
}

async fn run(shared: Arc<Shared>, name: Controller, mut controller: Box<dyn Step>) {
    let mut revisions = shared.store().subscribe();
    let mut wakes = shared.wakes.subscribe();
    loop {
        revisions.borrow_and_update();
        wakes.borrow_and_update();
        let (seen, next) = step(&shared, name, controller.as_mut());
        loop {
            tokio::select! {
                () = shared.stop.cancelled() => return,
                _ = wakes.changed() => break,
                _ = revisions.changed() => {
                    revisions.borrow_and_update();
                    if shared.store().changed(controller.reads()) > seen { break }
                }
                () = sleep_until(&shared, next) => break,
            }
        }
        tokio::time::sleep(shared.settings.reaction).await;
    }
}

/// Runs one step, unless the controller is paused. Returns the revision that the controller has seen. Its own changes
/// come after that revision, so it runs once more after each of them.
fn step(shared: &Shared, name: Controller, controller: &mut dyn Step) -> (u64, Option<Duration>) {
    let mut store = shared.store();
    let world = {
        let conditions = shared.conditions();
        if conditions.paused.contains(&name) {
            return (u64::MAX, None);
        }
        World {
            now: shared.clock.now(),
            settings: &shared.settings,
            dead_kubelets: conditions.dead_kubelets.clone(),
            scheduler_is_blind: conditions.scheduler_is_blind,
        }
    };
    let seen = store.revision();
    let next = controller.step(&mut store, &world);
    (seen, next)
}

async fn sleep_until(shared: &Shared, next: Option<Duration>) {
    match next {
        Some(next) => tokio::time::sleep(shared.clock.until(next)).await,
        None => std::future::pending().await,
    }
}

/// The earlier of two times.
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}
