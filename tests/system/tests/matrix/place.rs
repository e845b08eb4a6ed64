//! Where a device lives: a node of its own among two, with its pods.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use control_plane::objects::DELETE_DELAY;
use control_plane::{ControlPlane, unique, until};
use serde_json::{Value, json};
use system::{Api, Device, Proxy, ZedkubeUser};

use crate::PROGRAM;

/// So many pods have to leave.
const PODS: u32 = 2;

/// A pod takes so long to end: a device that goes down too early is seen to.
const ENDS_AFTER: &str = "300ms";

const GONE_LIMIT: Duration = Duration::from_secs(30);

/// One node, and the administrator's eyes on it.
pub(crate) struct Place {
    api: Api,
    pub(crate) proxy: Proxy,
    kubeconfig: PathBuf,
    namespace: String,
    node: String,
}

/// What is left of a drain on the node and in the Lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traces {
    pub(crate) is_cordoned: bool,
    /// Whose cordon it is said to be.
    pub(crate) cordoned_by: String,
    /// Who has a slot.
    pub(crate) holders: String,
}

impl Place {
    pub(crate) fn new(plane: &ControlPlane) -> Result<Self> {
        let pool = plane.create_pool(&unique("matrix"), &["a", "b"])?;
        let user = ZedkubeUser::create(plane, &pool.name)?;
        let proxy = Proxy::start(plane.server())?;
        Ok(Self {
            api: Api::open(plane.kubeconfig())?,
            kubeconfig: proxy.kubeconfig(&user.kubeconfig)?,
            proxy,
            node: pool.nodes[0].clone(),
            namespace: pool.name,
        })
    }

    /// A device that is this node and does not like to wait.
    pub(crate) fn device(&self) -> Result<Device> {
        let mut device = Device::new(PROGRAM, &self.kubeconfig, &self.node)?;
        device.set(&format!("slots.namespace={}", self.namespace));
        for setting in ["slots.group=default", "drain.settle=0s", "evict.retry=1s", "cordon.pause=1s"] {
            device.set(setting);
        }
        Ok(device)
    }

    /// As if nobody had been here: no cordon, no slot; and new pods.
    pub(crate) fn prepare(&self, is_cordoned: bool) -> Result<()> {
        self.proxy.mend();
        self.api.delete(&self.lease())?;
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
    pub(crate) fn pods_left(&self) -> Result<Vec<String>> {
        let on_node = format!("/api/v1/pods?fieldSelector=spec.nodeName={}", self.node);
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(self.api.list(&on_node)?.iter().map(name).collect())
    }

    pub(crate) fn traces(&self) -> Result<Traces> {
        let node = self.api.get(&format!("/api/v1/nodes/{}", self.node))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lease = self.api.find(&self.lease())?.unwrap_or_default();
        Ok(Traces {
            is_cordoned: node["spec"]["unschedulable"] == json!(true),
            cordoned_by: text(&node["metadata"]["annotations"]["ebb.dev/cordoned-by"]),
            holders: text(&lease["metadata"]["annotations"]["ebb.dev/holders"]).replace("[]", ""),
        })
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    fn lease(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/ebb-slots-default", self.namespace)
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
