//! A fixture: a device's own node, one other node, and pods.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use control_plane::objects::DELETE_DELAY;
use control_plane::{ControlPlane, unique, until};
use serde_json::{Value, json};

use crate::{Api, Device, FaultyServer, Proxy, ZedkubeUser};

/// Number of pods that have to leave.
const PODS: u32 = 2;

/// Time that a pod takes to end: long enough to notice a device that goes down too early.
const ENDS_AFTER: &str = "300ms";

const GONE_LIMIT: Duration = Duration::from_secs(30);

/// One node, and the administrator's calls about it.
#[derive(Debug)]
pub struct Place {
    api: Api,
    /// The connection of the device to the API server.
    pub proxy: Proxy,
    /// A kubeconfig that uses [`Self::proxy`].
    kubeconfig: PathBuf,
    user: ZedkubeUser,
    namespace: String,
    node: String,
    other: String,
}

/// Traces of a drain on the node and in the slots.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    /// The node is cordoned.
    pub is_cordoned: bool,
    /// Owner of the cordon, by its annotation.
    pub cordoned_by: String,
    /// The nodes that have a slot.
    pub holders: String,
}

impl Place {
    /// Creates two nodes and a namespace, named after `prefix`.
    pub fn new(plane: &ControlPlane, prefix: &str) -> Result<Self> {
        let pool = plane.create_pool(&unique(prefix), &["a", "b"])?;
        let node = pool.nodes.first().cloned().unwrap_or_default();
        let user = ZedkubeUser::of_node(plane, &pool.name, &node)?;
        let proxy = Proxy::start(plane.server())?;
        Ok(Self {
            api: Api::open(plane.kubeconfig())?,
            kubeconfig: proxy.kubeconfig(&user.kubeconfig)?,
            proxy,
            user,
            node,
            other: pool.nodes.get(1).cloned().unwrap_or_default(),
            namespace: pool.name,
        })
    }

    /// A device for this node, with short waits. It reaches the API server by [`Self::proxy`].
    pub fn device(&self, program: &str) -> Result<Device> {
        self.device_through(program, &self.kubeconfig)
    }

    /// As [`Place::device`], with another kubeconfig.
    pub fn device_through(&self, program: &str, kubeconfig: &Path) -> Result<Device> {
        let mut device = Device::new(program, kubeconfig, &self.node)?;
        device.set(&format!("slots.namespace={}", self.namespace));
        for setting in ["slots.group=default", "drain.settle=0s", "evict.retry=1s", "cordon.pause=1s"] {
            device.set(setting);
        }
        Ok(device)
    }

    /// A server between the device and the API server that can be made to answer with errors. It has the rights of
    /// zedkube.
    pub fn faulty_server(&self) -> Result<FaultyServer> {
        FaultyServer::start(&self.user.kubeconfig)
    }

    /// The other node takes a slot, or renews it with this number: one write for each number.
    pub fn let_other_hold(&self, renewal: u32) -> Result<()> {
        let node = self.api.get(&format!("/api/v1/nodes/{}", self.other))?;
        let uid = node.pointer("/metadata/uid").cloned().unwrap_or_default();
        let holder = json!({"Node": self.other, "NodeUID": uid, "BootID": "b", "Renewal": renewal});
        self.write_slots(&json!({&self.other: holder.to_string()}))
    }

    /// Removes both nodes' slots.
    pub fn free_slots(&self) -> Result<()> {
        self.write_slots(&json!({&self.node: null, &self.other: null}))
    }

    fn write_slots(&self, data: &Value) -> Result<()> {
        if self.api.find(&self.slots())?.is_some() {
            self.api.patch(&self.slots(), &json!({"data": data}))?;
            return Ok(());
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ebb-slots-default"}, "data": data,
        });
        self.api.create(&format!("/api/v1/namespaces/{}/configmaps", self.namespace), &map)?;
        Ok(())
    }

    /// Restores the initial state: no cordon unless wanted, no slot, and new pods.
    pub fn prepare(&self, is_cordoned: bool) -> Result<()> {
        self.proxy.mend();
        // The ConfigMap stays, because zedkube has no right to create one.
        self.api.patch(&self.slots(), &json!({"data": null}))?;
        let annotations = json!({"ebb.dev/cordoned-by": null, "ebb.dev/cordon-reason": null});
        let unschedulable = if is_cordoned { json!(true) } else { Value::Null };
        let patch =
            json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}});
        self.api.patch(&format!("/api/v1/nodes/{}", self.node), &patch)?;
        for index in 0..PODS {
            self.api.delete(&format!("{}/{}", self.pods(), pod_name(index)))?;
        }
        until("the last pods are gone", GONE_LIMIT, || Ok(self.pods_left()?.is_empty().then_some(())))?;
        for index in 0..PODS {
            self.api.create(&self.pods(), &self.pod(&pod_name(index)))?;
        }
        Ok(())
    }

    /// The pods on the node that have to leave.
    pub fn pods_left(&self) -> Result<Vec<String>> {
        let on_node = format!("/api/v1/pods?fieldSelector=spec.nodeName={}", self.node);
        let name = |pod: &Value| {
            pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(self.api.list(&on_node)?.iter().map(name).collect())
    }

    /// The traces of a drain.
    pub fn traces(&self) -> Result<Traces> {
        let node = self.api.get(&format!("/api/v1/nodes/{}", self.node))?;
        let slots = self.api.find(&self.slots())?.unwrap_or_default();
        let text = |object: &Value, pointer| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(Traces {
            is_cordoned: node.pointer("/spec/unschedulable") == Some(&json!(true)),
            cordoned_by: text(&node, "/metadata/annotations/ebb.dev~1cordoned-by"),
            holders: slots
                .get("data")
                .and_then(Value::as_object)
                .map(|data| data.values().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
                .unwrap_or_default(),
        })
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    fn slots(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/ebb-slots-default", self.namespace)
    }

    /// A pod that its creator binds, so that the test need not wait for a scheduler.
    fn pod(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {DELETE_DELAY: ENDS_AFTER}},
            "spec": {"nodeName": self.node, "containers": [{"name": "main", "image": "main"}]},
        })
    }
}

fn pod_name(index: u32) -> String {
    format!("web-{index}")
}
