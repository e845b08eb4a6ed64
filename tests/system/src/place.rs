//! Where a device lives: a node of its own among two, with its pods.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use control_plane::objects::DELETE_DELAY;
use control_plane::{ControlPlane, unique, until};
use serde_json::{Value, json};

use crate::{Api, Device, FaultyServer, Proxy, ZedkubeUser};

/// So many pods have to leave.
const PODS: u32 = 2;

/// A pod takes so long to end: a device that goes down too early is seen to.
const ENDS_AFTER: &str = "300ms";

const GONE_LIMIT: Duration = Duration::from_secs(30);

/// One node, and the administrator's eyes on it.
#[derive(Debug)]
pub struct Place {
    api: Api,
    /// The device's way to the API server.
    pub proxy: Proxy,
    /// Leads through [`Self::proxy`].
    kubeconfig: PathBuf,
    user: ZedkubeUser,
    namespace: String,
    node: String,
    other: String,
}

/// What is left of a drain on the node and in the slots.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    /// The node takes no pods.
    pub is_cordoned: bool,
    /// Whose cordon it is said to be.
    pub cordoned_by: String,
    /// Who has a slot.
    pub holders: String,
}

impl Place {
    /// Two nodes and a namespace, named after `prefix`.
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

    /// A device that is this node and does not like to wait. It reaches the API server by [`Self::proxy`].
    pub fn device(&self, program: &str) -> Result<Device> {
        self.device_through(program, &self.kubeconfig)
    }

    /// The same with another way to the API server.
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

    /// The other node takes a slot, and renews it this often: a write for each number.
    pub fn let_other_hold(&self, renewal: u32) -> Result<()> {
        let node = self.api.get(&format!("/api/v1/nodes/{}", self.other))?;
        let uid = node.pointer("/metadata/uid").cloned().unwrap_or_default();
        let holder = json!({"Node": self.other, "NodeUID": uid, "BootID": "b", "Renewal": renewal});
        self.write_slots(&json!({&self.other: holder.to_string()}))
    }

    /// Nobody holds a slot any more.
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

    /// As if nobody had been here: no cordon, no slot; and new pods.
    pub fn prepare(&self, is_cordoned: bool) -> Result<()> {
        self.proxy.mend();
        // The ConfigMap stays: zedkube may not make one.
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

    /// The pods on the node; none may stay.
    pub fn pods_left(&self) -> Result<Vec<String>> {
        let on_node = format!("/api/v1/pods?fieldSelector=spec.nodeName={}", self.node);
        let name = |pod: &Value| {
            pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(self.api.list(&on_node)?.iter().map(name).collect())
    }

    /// What is left behind.
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

    /// Bound by its maker, so that no scheduler has to be waited for.
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
