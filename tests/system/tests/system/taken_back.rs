//! The reason to go down without a drain is gone before any device has gone down: the device is held again.

use std::time::Duration;

use anyhow::{Context, Result};
use control_plane::{ControlPlane, Pool, objects, unique};
use schemas::{
    DeviceOpState, DeviceOpStatus, DrainStatus, KnownHolders, NodeDrainReport, Operation, OtherHolders,
    Outcome, agent,
};
use serde_json::Value;
use system::{Device, Proxy, ZedkubeUser};

use crate::PROGRAM;

/// Twice the `api.unreachable-timeout` of the test that uses it, plus one poll.
const LONGER_THAN_THE_TIMEOUT: Duration = Duration::from_secs(12);

/// Time limit after an outage: an empty node is not believed in the first minute.
const AFTER_AN_OUTAGE: Duration = Duration::from_secs(150);

/// Two devices of one cluster that share its slots, each with its own proxy to the API server.
struct Site {
    plane: ControlPlane,
    pool: Pool,
    devices: Vec<(Device, Proxy)>,
}

impl Site {
    fn new(name: &str, settings: &[&str]) -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let pool = plane.create_pool(&unique(name), &["a", "b", "c"])?;
        plane.apply(&[objects::deployment(&pool.name, "web", 6)])?;
        plane.run(&["rollout", "status", "deployment/web", "--namespace", &pool.name, "--timeout=60s"])?;
        let mut devices = Vec::new();
        for node in pool.nodes.iter().take(2) {
            let user = ZedkubeUser::of_node(&plane, &pool.name, node)?;
            let proxy = Proxy::start(plane.server())?;
            let mut device = Device::new(PROGRAM, &proxy.kubeconfig(&user.kubeconfig)?, node)?;
            device.set(&format!("slots.namespace={}", pool.name));
            device.set("slots.group=default");
            for setting in settings {
                device.set(setting);
            }
            devices.push((device, proxy));
        }
        Ok(Self { plane, pool, devices })
    }

    fn device(&mut self, index: usize) -> Result<(&mut Device, &Proxy)> {
        self.devices.get_mut(index).map(|(device, proxy)| (device, &*proxy)).context("no such device")
    }

    fn pods_on(&self, index: usize) -> Result<usize> {
        let node = self.pool.nodes.get(index).context("no such node")?;
        let on_node = format!("--field-selector=spec.nodeName={node}");
        let pods = self.plane.list(&["pods", "--namespace", &self.pool.name, &on_node])?;
        Ok(pods.len())
    }

    fn holders(&self) -> Result<String> {
        let slots = self.plane.get(&["configmap", "ebb-slots-default", "--namespace", &self.pool.name])?;
        Ok(slots.get("data").map(Value::to_string).unwrap_or_default())
    }
}

fn outcome(device: &Device) -> Option<Outcome> {
    device.report().as_ref().and_then(|report: &NodeDrainReport| report.outcome)
}

fn op_state(device: &Device) -> Option<DeviceOpState> {
    device.item::<DeviceOpStatus>(agent::ZEDAGENT).map(|status| status.state)
}

#[test]
fn an_api_server_that_comes_back_before_the_reboot_means_a_drain() -> Result<()> {
    // Nodes of other tests in the same cluster may be down for a drain: then the device would wait longer.
    let mut site = Site::new("comes-back", &["api.unreachable-timeout=10s", "slots.down-max=10s"])?;
    let node = site.pool.nodes.first().cloned().unwrap_or_default();
    let (device, proxy) = site.device(0)?;
    for verb in ["zedkube", "device-op", "baseos"] {
        device.start(verb)?;
    }
    device.until_in_service()?;
    proxy.cut();
    device.command(Operation::Reboot, 1)?;
    device.until_status(DrainStatus::Complete)?;
    assert_eq!(outcome(device), Some(Outcome::ApiUnreachable));
    device.until("device-op lets it go", || {
        Ok((op_state(device) == Some(DeviceOpState::HandedOver)).then_some(()))
    })?;

    // There is no nodeagent to act. The server comes back: REQUESTED, a drain, a slot.
    proxy.mend();
    device.until("device-op holds it again", || {
        Ok((op_state(device) == Some(DeviceOpState::Deferred)).then_some(()))
    })?;
    control_plane::until("the node is drained", AFTER_AN_OUTAGE, || {
        Ok((outcome(device) == Some(Outcome::Drained)).then_some(()))
    })?;
    device.until_status(DrainStatus::Complete)?;
    let statuses: Vec<String> = device
        .log("zedkube")?
        .lines()
        .filter_map(|line| {
            line.split_once("NodeDrainStatus: ")?.1.split_whitespace().next().map(str::to_owned)
        })
        .collect();
    assert_eq!(
        statuses,
        ["NOTREQUESTED", "REQUESTED", "COMPLETE", "REQUESTED", "STARTING", "CORDONED", "COMPLETE"]
    );
    assert_eq!(device.actions()?, []);

    device.start("nodeagent")?;
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next()))?;
    assert_eq!(outcome(device), Some(Outcome::Drained));
    assert_eq!(site.pods_on(0)?, 0);
    assert!(site.holders()?.contains(&node), "the slot is held: {}", site.holders()?);
    Ok(())
}

/// Three nodes, one slot. The node that has it goes down and takes the API server with it. During the outage zedkube of
/// the next node is killed and started again, and that device boots.
#[test]
fn nobody_goes_down_undrained_beside_a_holder_whoever_is_killed() -> Result<()> {
    let mut site =
        Site::new("holder", &["api.unreachable-timeout=5s", "slots.down-max=10m", "slots.wait=1h"])?;
    for index in [0, 1] {
        site.device(index)?.0.start_all()?;
    }
    // The other node has read the slots for the first time long before.
    let (first, _) = site.device(0)?;
    first.command(Operation::Reboot, 1)?;
    first.until("the first one goes down", || Ok(first.actions()?.into_iter().next()))?;
    let (second, proxy) = site.device(1)?;
    second.until("the second one knows of it", || {
        let known = second.stored::<KnownHolders>(agent::ZEDKUBE);
        Ok(known.filter(|known| known.others == OtherHolders::Hold))
    })?;
    proxy.cut();
    second.command(Operation::Reboot, 1)?;
    for happens in ["an outage", "a kill", "a boot"] {
        match happens {
            "a kill" => {
                second.kill("zedkube");
                second.start("zedkube")?;
            }
            "a boot" => {
                second.boot()?;
                for verb in ["zedkube", "device-op", "nodeagent", "baseos"] {
                    second.start(verb)?;
                }
                second.command(Operation::Reboot, 2)?;
            }
            _ => {}
        }
        // Longer than `api.unreachable-timeout`: the report mentions the failed reads, and what the device waits for.
        let reason = second.until(&format!("it waits after {happens}"), || {
            let report = second.report().unwrap_or_default();
            Ok(report.reason.contains("another node had a slot").then_some(report.reason))
        })?;
        #[expect(clippy::disallowed_methods, reason = "a blocking test has nothing else to do")]
        std::thread::sleep(LONGER_THAN_THE_TIMEOUT);
        assert_eq!(
            (second.status(), second.actions()?),
            (DrainStatus::Requested, vec![]),
            "{happens}: {reason}"
        );
    }
    Ok(())
}
