//! Three nodes; before each run all pods are on the first one, ready to be drained.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control_plane::{ControlPlane, Pool, objects, unique, until};
use serde_json::Value;

use super::scenario::{DETACH, Scenario};

/// Time limit for pods, budgets and volumes to be ready: 500 pods take half a minute.
const LIMIT: Duration = Duration::from_mins(5);

/// The workload, its budget, and the label `app` of its pods.
const LOAD: &str = "load";

/// A pool of nodes with the scenario's workload.
pub(super) struct Site<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) scenario: Scenario,
    pool: Pool,
}

impl<'a> Site<'a> {
    /// Creates the nodes and the objects that the workload needs, but no pods yet.
    pub(super) fn new(plane: &'a ControlPlane, scenario: Scenario) -> Result<Self> {
        let pool = plane.create_pool(&unique("bench"), &["a", "b", "c"])?;
        let site = Self { plane, scenario, pool };
        let mut all = Vec::new();
        if let Some(number) = scenario.max_unavailable() {
            all.push(objects::disruption_budget(&site.pool.name, LOAD, ("maxUnavailable", number)));
        }
        if scenario.has_volumes() {
            let driver = site.driver();
            all.push(objects::csi_driver(&driver));
            all.extend(site.pool.nodes.iter().map(|node| objects::csi_node(node, &[&driver])));
            let claims =
                site.sets().flat_map(|(set, pods)| (0..pods).map(move |index| format!("data-{set}-{index}")));
            all.extend(claims.flat_map(|claim| objects::volume(&site.pool.name, &claim, &driver)));
        }
        if !all.is_empty() {
            plane.apply(&all)?;
        }
        Ok(site)
    }

    /// The node to be drained.
    pub(super) fn node(&self) -> &str {
        self.pool.nodes.first().map_or("", String::as_str)
    }

    /// Creates the workload again, with all pods on the first node, and waits until the node can be drained.
    pub(super) fn fill(&self) -> Result<()> {
        self.clear()?;
        self.uncordon(self.node())?;
        for node in self.pool.nodes.iter().skip(1) {
            self.plane.run(&["cordon", node])?;
        }
        let workloads = self.workloads();
        self.plane.apply(&workloads)?;
        for workload in &workloads {
            let name = format!("{}/{}", self.kind(), text(workload, "/metadata/name"));
            self.plane.run(&["rollout", "status", &name, &self.namespace(), "--timeout=5m"])?;
        }
        for node in self.pool.nodes.iter().skip(1) {
            self.uncordon(node)?;
        }
        let pods = self.pods_on_node()?;
        ensure!(pods == self.expected(), "{pods} pods are on {}", self.node());
        if self.scenario.max_unavailable().is_some() {
            until("the budget counts the pods", LIMIT, || self.is_budget_ready())?;
        }
        if self.scenario.has_volumes() {
            until("the volumes are attached", LIMIT, || self.are_volumes_ready())?;
        }
        Ok(())
    }

    /// Removes the workload at once.
    pub(super) fn clear(&self) -> Result<()> {
        let namespace = self.namespace();
        self.plane.run(&["delete", self.kind(), "--all", &namespace, "--wait"])?;
        // One request for all pods: with a request for each, kubectl's rate limit and the pods' grace would slow this
        // down.
        let pods = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", self.pool.name);
        until("the old pods are gone", LIMIT, || {
            self.plane.run(&["delete", "--raw", &pods])?;
            Ok(self.plane.list(&["pods", &namespace])?.is_empty().then_some(()))
        })
    }

    /// Number of pods that are bound to the node.
    pub(super) fn pods_on_node(&self) -> Result<usize> {
        let on_node = format!("--field-selector=spec.nodeName={}", self.node());
        Ok(self.plane.list(&["pods", "--all-namespaces", &on_node])?.len())
    }

    /// Number of volumes that are attached to the node or on their way: each has a VolumeAttachment until it is
    /// detached.
    pub(super) fn volumes_on_node(&self) -> Result<usize> {
        Ok(self.attachments()?.iter().filter(|one| text(one, "/spec/nodeName") == self.node()).count())
    }

    fn workloads(&self) -> Vec<Value> {
        if self.scenario.has_volumes() {
            self.sets().map(|(set, pods)| objects::stateful_set(&self.pool.name, &set, pods)).collect()
        } else {
            vec![objects::deployment(&self.pool.name, LOAD, self.scenario.pods())]
        }
    }

    /// Name and number of pods of each StatefulSet.
    fn sets(&self) -> impl Iterator<Item = (String, u32)> + use<> {
        let (sets, pods) = (self.scenario.stateful_sets(), self.scenario.pods());
        (0..sets).map(move |index| (format!("{LOAD}-{index}"), pods / sets))
    }

    fn kind(&self) -> &'static str {
        if self.scenario.has_volumes() { "statefulset" } else { "deployment" }
    }

    fn expected(&self) -> usize {
        usize::try_from(self.scenario.pods()).unwrap_or(usize::MAX)
    }

    fn namespace(&self) -> String {
        format!("--namespace={}", self.pool.name)
    }

    /// The driver's name; kwok reads the detach time from it.
    fn driver(&self) -> String {
        format!("detach-{}s.{}.test", DETACH.as_secs(), self.pool.name)
    }

    /// Uncordons a node, and removes what our cordon leaves behind when another client uncordons the node.
    fn uncordon(&self, node: &str) -> Result<()> {
        self.plane.run(&["uncordon", node])?;
        self.plane
            .run(&["annotate", "node", node, "ebb.dev/cordoned-by-", "ebb.dev/cordon-reason-"])
            .map(drop)
    }

    fn is_budget_ready(&self) -> Result<Option<()>> {
        let budget = self.plane.get(&["poddisruptionbudget", LOAD, &self.namespace()])?;
        let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_u64);
        let allowed = self.scenario.max_unavailable().map(u64::from);
        let is_ready = number("/status/currentHealthy") == Some(u64::from(self.scenario.pods()))
            && number("/status/disruptionsAllowed") == allowed
            && number("/status/observedGeneration") == number("/metadata/generation");
        Ok(is_ready.then_some(()))
    }

    /// True if all volumes are attached to the node, none to another one, and the node lists them.
    fn are_volumes_ready(&self) -> Result<Option<()>> {
        let attachments = self.attachments()?;
        let is_here = |one: &Value| {
            text(one, "/spec/nodeName") == self.node()
                && one.pointer("/status/attached").and_then(Value::as_bool) == Some(true)
                && one.pointer("/metadata/deletionTimestamp").is_none()
        };
        let node = self.plane.get(&["node", self.node()])?;
        let listed =
            node.pointer("/status/volumesAttached").and_then(Value::as_array).context("no volumes yet")?;
        let is_ready = attachments.len() == self.expected()
            && attachments.iter().all(is_here)
            && listed.len() == self.expected();
        Ok(is_ready.then_some(()))
    }

    /// The VolumeAttachments of this site.
    fn attachments(&self) -> Result<Vec<Value>> {
        let driver = self.driver();
        let all = self.plane.list(&["volumeattachments"])?;
        Ok(all.into_iter().filter(|one| text(one, "/spec/attacher") == driver).collect())
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
