//! A node with many pods on a real control plane, drained by zedkube and by `kubectl drain` in turn.

use std::time::Instant;

use anyhow::{Result, ensure};
use control_plane::{ControlPlane, Pool, objects, unique};
use schemas::{DrainStatus, agent};
use serde_json::json;
use system::Device;

use crate::table::Summary;

/// What one run cost.
struct Run {
    seconds: f64,
    requests: usize,
    verbs: Vec<String>,
}

pub(crate) fn run(runs: usize, pods: u32) -> Result<String> {
    let plane = ControlPlane::shared()?;
    let site = Site::new(&plane, pods)?;
    let program = crate::program()?;
    let mut device = Device::new(crate::text(&program)?, plane.kubeconfig(), site.node())?;
    device.start("zedkube")?;
    device.until_in_service()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        site.fill()?;
        ours.push(site.by_zedkube(&device)?);
        site.fill()?;
        theirs.push(site.by_kubectl()?);
    }
    Ok(report(pods, &ours, &theirs))
}

/// A pool of three nodes; the deployment's pods are all on the first.
struct Site<'a> {
    plane: &'a ControlPlane,
    pool: Pool,
    pods: u32,
}

impl<'a> Site<'a> {
    fn new(plane: &'a ControlPlane, pods: u32) -> Result<Self> {
        let pool = plane.create_pool(&unique("bench"), &["a", "b", "c"])?;
        Ok(Self { plane, pool, pods })
    }

    fn node(&self) -> &str {
        self.pool.nodes.first().map_or("", String::as_str)
    }

    /// Makes the deployment anew, all of it on the first node.
    fn fill(&self) -> Result<()> {
        let namespace = format!("--namespace={}", self.pool.name);
        self.plane.run(&["delete", "deployment/load", &namespace, "--ignore-not-found", "--wait"])?;
        self.plane.run(&["wait", "--for=delete", "pod", "--all", &namespace, "--timeout=60s"])?;
        self.on_others("cordon")?;
        self.plane.apply(&[objects::deployment(&self.pool.name, "load", self.pods)])?;
        self.plane.run(&["rollout", "status", "deployment/load", &namespace, "--timeout=120s"])?;
        self.on_others("uncordon")
    }

    fn on_others(&self, verb: &str) -> Result<()> {
        for node in self.pool.nodes.iter().skip(1) {
            self.plane.run(&[verb, node])?;
        }
        Ok(())
    }

    fn by_zedkube(&self, device: &Device) -> Result<Run> {
        device.until_in_service()?;
        let text = "{\"RequestedAt\":\"2026-08-22T16:10:11Z\",\"RequestedBy\":2,\"Context\":\"bench\"}";
        let run = self.measure("ebb/", || {
            let request = device.write_request(agent::ZEDAGENT, text)?;
            device.until_status(DrainStatus::Complete)?;
            Ok(request)
        })?;
        let (run, request) = run;
        std::fs::remove_file(request)?;
        device.until_in_service()?;
        let node = self.node().to_owned();
        device.until("the node is schedulable again", || {
            let found = self.plane.get(&["node", &node])?;
            Ok((found.pointer("/spec/unschedulable") != Some(&json!(true))).then_some(()))
        })?;
        Ok(run)
    }

    fn by_kubectl(&self) -> Result<Run> {
        let (run, ()) = self.measure("kubectl/", || {
            self.plane.run(&[
                "drain",
                self.node(),
                "--force",
                "--ignore-daemonsets",
                "--delete-emptydir-data",
            ])?;
            Ok(())
        })?;
        self.plane.run(&["uncordon", self.node()])?;
        Ok(run)
    }

    /// Times the work and counts what this client asked the API server for.
    fn measure<T>(&self, user_agent: &str, work: impl FnOnce() -> Result<T>) -> Result<(Run, T)> {
        let mark = self.plane.audit_mark()?;
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let began = Instant::now();
        let done = work()?;
        let seconds = began.elapsed().as_secs_f64();
        let requests = self.plane.audit_since(mark)?.of_agent(user_agent);
        self.ensure_empty()?;
        let verbs = requests.tally(|request| {
            let subresource = if request.subresource.is_empty() { "" } else { "/eviction" };
            format!("{} {}{subresource}", request.verb, request.resource)
        });
        let verbs = verbs.iter().map(|(verb, count)| format!("{count} {verb}")).collect();
        Ok((Run { seconds, requests: requests.count(), verbs }, done))
    }

    fn ensure_empty(&self) -> Result<()> {
        let on_node = format!("--field-selector=spec.nodeName={}", self.node());
        let left = self.plane.list(&["pods", "--all-namespaces", &on_node])?;
        ensure!(left.is_empty(), "{} pods are left on {} after the drain", left.len(), self.node());
        Ok(())
    }
}

fn report(pods: u32, ours: &[Run], theirs: &[Run]) -> String {
    let mut lines = vec![
        format!("{pods} pods on one node, {} runs each, in turn", ours.len()),
        format!("{:<28}{:>9} {:>9} {:>9}", "", "min", "median", "max"),
    ];
    for (name, runs) in [("zedkube", ours), ("kubectl", theirs)] {
        let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        #[expect(clippy::cast_precision_loss, reason = "a count of requests is small")]
        let requests: Vec<f64> = runs.iter().map(|run| run.requests as f64).collect();
        lines.push(format!("{:<28}{}", format!("{name}, wall time, s"), Summary::of(&seconds)));
        lines.push(format!("{:<28}{}", format!("{name}, API requests"), Summary::of(&requests)));
        let last = runs.last().map(|run| run.verbs.join(", ")).unwrap_or_default();
        lines.push(format!("  last run: {last}"));
    }
    let median = |runs: &[Run]| Summary::of(&runs.iter().map(|run| run.seconds).collect::<Vec<_>>()).median;
    lines.push(format!("ratio of medians, kubectl / zedkube: {:.1}", median(theirs) / median(ours)));
    lines.join("\n")
}
