//! What `ebb drain` costs in a cluster that has many claims and volumes of other nodes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use fake_cluster::{Controller, FakeCluster, Settings};
use serde_json::json;

use crate::drain::process;

/// Number of pods on the node, each with a volume.
const PODS: u32 = 10;

/// What would look at each new object while the cluster is filled.
const PAUSED: [Controller; 2] = [Controller::VolumeBinder, Controller::GarbageCollector];

/// Drains a node of a fake cluster that has so many claims and volumes elsewhere; then so many that are attached there.
pub(crate) fn run(elsewhere: u32) -> Result<String> {
    let mut rows = vec![
        "| claims and volumes elsewhere | attached | wall s | peak MiB | requests |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for (count, attached) in [(0, 0), (elsewhere, 0), (elsewhere, elsewhere)] {
        let mut settings = Settings { max_objects: usize::MAX, ..Settings::quick() };
        // It would detach what no pod uses. Without it the pods' own volumes are not attached: nothing waits for them.
        settings.controllers.remove(&Controller::AttachDetach);
        let fake = FakeCluster::start_with(settings)?;
        for node in ["edge-a", "edge-b"] {
            fake.node(node).context("a node")?;
        }
        for controller in PAUSED {
            fake.faults().pause(controller);
        }
        fill(&fake, count, attached)?;
        for controller in PAUSED {
            fake.faults().resume(controller);
        }
        fake.apply(fake_cluster::objects::stateful_set_with_volumes("db", PODS, "edge-a"))?;
        let claims = || fake.list("persistentvolumeclaims", None);
        let is_bound = || claims().iter().all(|claim| claim.pointer("/spec/volumeName").is_some());
        let expected = usize::try_from(PODS + count).unwrap_or_default();
        control_plane::until("the volumes are bound", Duration::from_mins(2), || {
            Ok((claims().len() == expected && is_bound()).then_some(()))
        })?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        #[expect(clippy::disallowed_methods, reason = "the file need not survive a power cut")]
        fs::write(&kubeconfig, fake.kubeconfig())?;
        let mut command = Command::new(crate::program()?);
        command.args(["drain", "edge-a", "--timeout=5m"]).env("KUBECONFIG", &kubeconfig);
        let needed = process::run(&mut command)?;
        let peak = needed.peak / 1024;
        let requests = fake.requests().since(0).1;
        rows.push(format!(
            "| {count} | {attached} | {:.2} | {peak} | {requests} |",
            needed.time.as_secs_f64()
        ));
    }
    Ok(rows.join("\n"))
}

/// Creates claims and volumes that are bound to each other; so many of them are attached to the other node.
fn fill(fake: &FakeCluster, count: u32, attached: u32) -> Result<()> {
    for number in 0..count {
        let (claim, volume) =
            (format!("data-app-{number}"), format!("pvc-{number:08x}-0000-4000-8000-000000000000"));
        fake.apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "default", "labels": {"app": "elsewhere"}},
            "spec": {"volumeName": volume, "accessModes": ["ReadWriteOnce"], "storageClassName": "longhorn",
                "resources": {"requests": {"storage": "10Gi"}}},
            "status": {"phase": "Bound"},
        }))?;
        fake.apply(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"csi": {"driver": "driver.longhorn.io", "volumeHandle": volume, "fsType": "ext4"},
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "longhorn",
                "claimRef": {"namespace": "default", "name": claim}},
            "status": {"phase": "Bound"},
        }))?;
        if number >= attached {
            continue;
        }
        fake.apply(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": format!("csi-{number:064x}")},
            "spec": {"attacher": "driver.longhorn.io", "nodeName": "edge-b", "source": {"persistentVolumeName": volume}},
            "status": {"attached": true},
        }))?;
    }
    Ok(())
}
