//! The whole path on a real control plane with four real processes.

use anyhow::Result;
use control_plane::{ControlPlane, Pool, objects, unique};
use schemas::{DrainStatus, NodeAgentStatus, Operation, Outcome, agent};
use serde_json::{Value, json};
use system::{ACTIONS, Device};

use crate::PROGRAM;

const STATUS: &str = "/run/zedkube/NodeDrainStatus/global.json";

/// Three nodes; on the first one a deployment with a budget, a DaemonSet, and a bare pod; and a device for this node.
struct Site {
    plane: ControlPlane,
    pool: Pool,
    device: Device,
}

impl Site {
    fn new(name: &str, replicas: u32, budget: (&str, u32)) -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let pool = plane.create_pool(&unique(name), &["a", "b", "c"])?;
        let namespace = pool.name.as_str();
        plane.apply(&[
            objects::deployment(namespace, "web", replicas),
            objects::disruption_budget(namespace, "web", budget),
            daemon_set(namespace),
        ])?;
        let mut bare = objects::pod(namespace, "bare");
        bare["spec"]["nodeName"] = json!(pool.nodes[0]);
        plane.apply(&[bare])?;
        plane.run(&["rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=5m"])?;
        plane.run(&["rollout", "status", "daemonset/sensor", "--namespace", namespace, "--timeout=5m"])?;
        let device = Device::in_pool(PROGRAM, &plane, &pool, &pool.nodes[0])?;
        Ok(Self { plane, pool, device })
    }

    /// Names of the pods on our node that a drain has to move away.
    fn pods_to_leave(&self) -> Result<Vec<String>> {
        let on_node = format!("--field-selector=spec.nodeName={}", self.pool.nodes[0]);
        let pods = self.plane.list(&["pods", "--all-namespaces", &on_node])?;
        let is_daemon = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet";
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(pods.iter().filter(|pod| !is_daemon(pod)).map(name).collect())
    }

    fn until_uncordoned(&self) -> Result<()> {
        self.device.until("the node is schedulable again", || {
            let node = self.plane.get(&["node", &self.pool.nodes[0]])?;
            Ok(node["spec"]["unschedulable"].is_null().then_some(()))
        })
    }

    /// The statuses in the order in which zedkube published them.
    fn statuses(&self) -> Result<Vec<String>> {
        let log = self.device.log("zedkube")?;
        let words = log.lines().filter_map(|line| line.split_once("NodeDrainStatus: "));
        Ok(words.filter_map(|(_, said)| said.split_whitespace().next().map(str::to_owned)).collect())
    }
}

fn daemon_set(namespace: &str) -> Value {
    let mut set = objects::deployment(namespace, "sensor", 1);
    set["kind"] = json!("DaemonSet");
    if let Some(spec) = set["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    set
}

#[test]
fn a_reboot_waits_for_the_drain() -> Result<()> {
    let mut site = Site::new("reboot", 6, ("maxUnavailable", 1))?;
    site.device.start_all()?;
    assert!(!site.pods_to_leave()?.is_empty());

    site.device.command(Operation::Reboot, 1)?;
    let action =
        site.device.until("the reboot is recorded", || Ok(site.device.actions()?.into_iter().next()))?;

    // The node is empty at the moment of the reboot, and COMPLETE was published before it.
    assert_eq!(site.pods_to_leave()?, Vec::<String>::new());
    assert_eq!(site.device.status(), DrainStatus::Complete);
    assert!(site.device.written(STATUS)? <= site.device.written(ACTIONS)?, "COMPLETE first, then the reboot");
    let boot_id = site.device.report().map(|report| report.boot_id).unwrap_or_default();
    assert_eq!((action.action.as_str(), action.counter, action.boot_id), ("reboot", 1, boot_id));
    assert_eq!(site.statuses()?, ["NOTREQUESTED", "REQUESTED", "STARTING", "CORDONED", "COMPLETE"]);
    let report = site.device.report().unwrap_or_default();
    assert_eq!((report.outcome, report.progress.gone), (Some(Outcome::Drained), report.progress.total));

    // One action per command; the request stays active until the command is withdrawn. Then the node returns.
    site.device.take_back(Operation::Reboot, 1)?;
    site.until_uncordoned()?;
    site.device.until_status(DrainStatus::NotRequested)?;
    assert_eq!(site.device.actions()?.len(), 1);
    Ok(())
}

#[test]
fn a_budget_that_never_allows_keeps_the_reboot_from_happening() -> Result<()> {
    let mut site = Site::new("blocked", 6, ("minAvailable", 6))?;
    site.device.start_all()?;
    let guarded = site.pods_to_leave()?.into_iter().filter(|name| name.starts_with("web")).count();
    assert!(guarded > 0);

    site.device.command(Operation::Reboot, 1)?;
    let report = site.device.until("all pods of the budget are blocked", || {
        Ok(site.device.report().filter(|report| report.blocked.len() == guarded))
    })?;
    assert_eq!(site.device.status(), DrainStatus::Cordoned);
    for blocked in &report.blocked {
        assert!(
            blocked.cause.contains("The disruption budget web needs 6 healthy pods and has 6"),
            "{blocked:?}"
        );
        assert!(blocked.hint.contains(&format!("budget {}/web never allows a disruption", site.pool.name)));
        assert_eq!(
            blocked.budgets.iter().map(|b| (b.name.as_str(), b.disruptions_allowed)).collect::<Vec<_>>(),
            [("web", 0)]
        );
    }
    let status = std::process::Command::new(PROGRAM)
        .args(["status", "--root", &site.device.root().path().display().to_string()])
        .output()?;
    let screen = String::from_utf8(status.stdout)?;
    assert!(screen.contains("budget") && screen.contains("web never allows a disruption"), "{screen}");
    assert_eq!(
        site.device.item::<NodeAgentStatus>(agent::NODEAGENT).map(|s| s.wait_drain_in_progress),
        Some(true)
    );
    assert_eq!(site.device.actions()?, [], "no reboot");

    // As soon as the budget allows it, the drain goes on and the reboot follows.
    site.plane.apply(&[objects::disruption_budget(&site.pool.name, "web", ("minAvailable", 1))])?;
    site.device.until("the reboot is recorded", || Ok(site.device.actions()?.into_iter().next()))?;
    assert_eq!(site.pods_to_leave()?, Vec::<String>::new());
    Ok(())
}
