//! Volumes that only one node may have, and pods that use them.

use anyhow::Result;
use contract::objects::{self, Kubelet};
use contract::{Change, Objects, Place};
use serde_json::{Value, json};

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// The case's own finalizer on an attachment: as long as it is set, the attachment stays.
const HOLD: &str = "example.org/hold";

/// A CSI driver of the place, installed on its first node. It detaches a volume in 10 ms.
#[derive(Debug)]
pub(crate) struct Disks<'a> {
    place: &'a Place<'a>,
    driver: String,
}

impl<'a> Disks<'a> {
    /// The existing driver of the place.
    pub(crate) fn of(place: &'a Place<'a>) -> Self {
        // kwok reads the detach time from the name.
        Self { place, driver: format!("detach-10ms.{}.test", place.namespace) }
    }

    /// Creates the driver.
    pub(crate) async fn new(place: &'a Place<'a>) -> Result<Self> {
        let disks = Self::of(place);
        let driver = json!({"metadata": {"name": disks.driver}, "spec": {"attachRequired": true}});
        place.caller().post("/apis/storage.k8s.io/v1/csidrivers", &driver).await?.object()?;
        disks.install(&place.node).await?;
        Ok(disks)
    }

    /// Installs the driver on the node.
    pub(crate) async fn install(&self, node: &str) -> Result<()> {
        let drivers = json!([{"name": self.driver, "nodeID": node}]);
        let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
        self.place.caller().post("/apis/storage.k8s.io/v1/csinodes", &csi_node).await?.object().map(drop)
    }

    /// Adds a node to the place, with the driver.
    pub(crate) async fn add_node(&self, suffix: &str) -> Result<String> {
        let node = self.place.add_node(suffix).await?;
        self.install(&node).await?;
        Ok(node)
    }

    /// Creates a volume with this handle for the claim of this name. Returns the volume's name.
    pub(crate) async fn volume_for(&self, claim: &str, handle: &str) -> Result<String> {
        let volume = format!("{}-{claim}", self.place.namespace);
        let new = json!({"metadata": {"name": volume}, "spec": {
            "capacity": room(), "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "claimRef": {"namespace": self.place.namespace, "name": claim},
            "csi": {"driver": self.driver, "volumeHandle": handle},
        }});
        self.place.caller().post("/api/v1/persistentvolumes", &new).await?.object()?;
        Ok(volume)
    }

    /// Creates a volume with this handle and its claim. Returns the volume's name.
    pub(crate) async fn disk(&self, claim: &str, handle: &str) -> Result<String> {
        let volume = self.volume_for(claim, handle).await?;
        let new = json!({"metadata": {"name": claim}, "spec": claim_spec(&volume)});
        self.place.create("persistentvolumeclaims", &new).await?;
        Ok(volume)
    }

    /// Creates a pod on the first node with a disk of the pod's name; returns the volume's name once it is attached.
    pub(crate) async fn pod_with_disk(&self, pod: &str, kubelet: Kubelet) -> Result<String> {
        let volume = self.disk(pod, &format!("handle-{pod}")).await?;
        self.pod(pod, &[pod], kubelet).await?;
        self.until_attached(&volume, &self.place.node).await?;
        Ok(volume)
    }

    /// Creates a pod on the first node that mounts these claims, if such volumes exist. Does not wait until it runs.
    pub(crate) async fn pod_that_waits(&self, name: &str, claims: &[&str], kubelet: Kubelet) -> Result<()> {
        let mut pod = objects::bound_pod(name, &self.place.node, kubelet);
        pod["spec"]["volumes"] = volumes(claims);
        self.place.create("pods", &pod).await.map(drop)
    }

    /// Creates a pod on the first node that mounts these claims, and waits until it runs.
    pub(crate) async fn pod(&self, name: &str, claims: &[&str], kubelet: Kubelet) -> Result<()> {
        self.pod_that_waits(name, claims, kubelet).await?;
        let is_running = |pod: &Value| (pod["status"]["phase"] == "Running").then_some(());
        self.place.until("the pod runs", &format!("pods/{name}"), is_running).await
    }

    /// Creates a StatefulSet of one pod with a disk of the set's name; returns the volume's name once it is attached to
    /// `node`.
    pub(crate) async fn set_with_disk(&self, name: &str, node: &str) -> Result<String> {
        let volume = self.disk(name, &format!("handle-{name}")).await?;
        let mut set = objects::stateful_set(name, 1, &self.place.namespace);
        set["spec"]["template"]["spec"]["volumes"] = volumes(&[name]);
        self.place.create("statefulsets", &set).await?;
        self.until_attached(&volume, node).await?;
        Ok(volume)
    }

    /// Waits until the volume is attached to the node, by its object and in the node's list.
    pub(crate) async fn until_attached(&self, volume: &str, node: &str) -> Result<()> {
        let attached = |all: &Objects| {
            all.values()
                .any(|one| is_of(one, volume, node) && one["status"]["attached"] == true)
                .then_some(())
        };
        let what = format!("{volume} is attached to {node}");
        self.place.caller().until_all(&what, ATTACHMENTS, "", attached).await?;
        let name = self.attached_name(volume).await?;
        let listed = |node: &Value| is_listed(node, &name).then_some(());
        self.place
            .caller()
            .until(&format!("{what} and listed"), &format!("/api/v1/nodes/{node}"), listed)
            .await
    }

    /// From now on the volume cannot be detached from the node.
    pub(crate) async fn hold(&self, volume: &str, node: &str) -> Result<()> {
        let path = self.attachment(volume, node, |_| true).await?;
        // Added as the first finalizer: kwok removes its own by its index in the list, and sometimes a second time from
        // an old view, which removes whatever has that index by then.
        let found = self.place.caller().get(&path).await?.object()?;
        let known = found["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let finalizers: Vec<Value> = [json!(HOLD)].into_iter().chain(known).collect();
        let hold = json!({"metadata": {"finalizers": finalizers}});
        self.place.caller().patch(&path, Change::Merge, &hold).await?.object().map(drop)
    }

    /// Waits until the volume's detach has begun, and lets it end.
    pub(crate) async fn release(&self, volume: &str, node: &str) -> Result<()> {
        let path =
            self.attachment(volume, node, |one| one["metadata"]["deletionTimestamp"].is_string()).await?;
        let free = json!({"metadata": {"finalizers": null}});
        self.place.caller().patch(&path, Change::Merge, &free).await?.object()?;
        let is_gone = |one: &Value| one.is_null().then_some(());
        self.place.caller().until(&format!("{volume} is detached from {node}"), &path, is_gone).await
    }

    /// Waits until the node's list contains the volume, or no longer does.
    pub(crate) async fn until_listed(&self, volume: &str, node: &str, wanted: bool) -> Result<()> {
        let name = self.attached_name(volume).await?;
        let look = |node: &Value| (is_listed(node, &name) == wanted).then_some(());
        let what = format!("{name} is listed: {wanted}");
        self.place.caller().until(&what, &format!("/api/v1/nodes/{node}"), look).await
    }

    /// Creates an attachment as a person would, of any source, to any node. Its finalizer keeps it: the fake's
    /// controller, unlike the real one, deletes attachments that it has not created.
    pub(crate) async fn attach(&self, name: &str, source: &Value, node: &str) -> Result<()> {
        let new = json!({"metadata": {"name": name, "finalizers": [HOLD]}, "spec": {
            "attacher": self.driver, "nodeName": node, "source": source,
        }});
        self.place.caller().post(ATTACHMENTS, &new).await?.object().map(drop)
    }

    /// Name of the driver.
    pub(crate) fn driver(&self) -> &str {
        &self.driver
    }

    /// Name of the volume in a node's `volumesAttached`.
    pub(crate) async fn attached_name(&self, volume: &str) -> Result<String> {
        let path = format!("/api/v1/persistentvolumes/{volume}");
        let found = self.place.caller().get(&path).await?.object()?;
        let handle = found["spec"]["csi"]["volumeHandle"].as_str().unwrap_or_default();
        Ok(format!("kubernetes.io/csi/{}^{handle}", self.driver))
    }

    /// Waits for the attachment of the volume to the node that fulfils the condition. Returns its path.
    async fn attachment(&self, volume: &str, node: &str, wanted: impl Fn(&Value) -> bool) -> Result<String> {
        let find = |all: &Objects| {
            let found = all.iter().find(|(_, one)| is_of(one, volume, node) && wanted(one));
            found.map(|(name, _)| format!("{ATTACHMENTS}/{name}"))
        };
        self.place
            .caller()
            .until_all(&format!("an attachment of {volume} to {node}"), ATTACHMENTS, "", find)
            .await
    }
}

/// Changes an annotation of an attachment.
pub(crate) async fn touch_attachment(place: &Place<'_>, name: &str, number: u32) -> Result<()> {
    let note = json!({"metadata": {"annotations": {"example.org/note": number.to_string()}}});
    place.caller().patch(&format!("{ATTACHMENTS}/{name}"), Change::Merge, &note).await?.object().map(drop)
}

/// The specification of a claim for this volume.
pub(crate) fn claim_spec(volume: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": room()},
        "volumeName": volume,
    })
}

fn room() -> Value {
    json!({"storage": "1Gi"})
}

/// The volumes of a pod, each with a name of its own.
fn volumes(claims: &[&str]) -> Value {
    let volume = |(number, claim): (usize, &&str)| json!({"name": format!("volume-{number}"), "persistentVolumeClaim": {"claimName": claim}});
    claims.iter().enumerate().map(volume).collect()
}

fn is_of(attachment: &Value, volume: &str, node: &str) -> bool {
    let spec = &attachment["spec"];
    spec["source"]["persistentVolumeName"] == volume && spec["nodeName"] == node
}

fn is_listed(node: &Value, name: &str) -> bool {
    node["status"]["volumesAttached"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name))
}
