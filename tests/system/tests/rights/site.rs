//! A cluster with everything that zedkube may have to read.

use std::time::Duration;

use anyhow::Result;
use control_plane::{AuditMark, AuditedRequest, ControlPlane, Pool, objects, unique, until};
use serde_json::{Value, json};
use system::{Device, Webhook, ZedkubeUser};

use crate::PROGRAM;

/// Time limit of a wait, for a busy machine.
const LIMIT: Duration = Duration::from_mins(5);

/// The ConfigMap of the slots, with the name in the role.
const SLOTS: &str = "ebb-slots-default";

const LONGHORN: &str = "longhorn-system";

/// The credentials of zedkube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kubelet's own credentials.
    Kubelet,
    /// A token that is bound to the node, from `ebb-tokens.yaml`.
    BoundToken,
}

/// Three nodes; pods of every kind on the first one, and a device for it.
pub(crate) struct Site {
    pub(crate) plane: ControlPlane,
    pub(crate) pool: Pool,
    pub(crate) user: ZedkubeUser,
    pub(crate) device: Device,
    webhook: Webhook,
}

impl Site {
    /// Starts on a control plane of its own, because the kinds of Longhorn and KubeVirt would be visible to all tests.
    pub(crate) fn new(way: Way) -> Result<Self> {
        let plane = ControlPlane::start()?;
        let pool = plane.create_pool(&unique("rights"), &["a", "b", "c"])?;
        plane.create_namespace(LONGHORN)?;
        let user = match way {
            Way::Kubelet => ZedkubeUser::of_node(&plane, &pool.name, &pool.nodes[0])?,
            Way::BoundToken => ZedkubeUser::of_token(&plane, &pool.name, &pool.nodes[0])?,
        };
        let mut device = Device::new(PROGRAM, &user.kubeconfig, &pool.nodes[0])?;
        device.set(&format!("slots.namespace={}", pool.name));
        device.set("slots.group=default");
        device.set("evict.retry=1s");
        // zedkube asks about blocked pods after 10 s; then the pods have to leave.
        device.set("evict.max-retries=20");
        // A pod that was replaced by another one with its name gives a conflict too; with a webhook it is certain.
        let conflict = json!({"code": 409, "message": "somebody else was faster"});
        let webhook = Webhook::start(&plane, json!({"allowed": false, "status": conflict}))?;
        let site = Self { plane, pool, user, device, webhook };
        site.install_kinds()?;
        site.fill()?;
        Ok(site)
    }

    fn install_kinds(&self) -> Result<()> {
        let kinds = [
            kind("longhorn.io", "v1beta2", "Setting", "settings", "setting"),
            kind("longhorn.io", "v1beta2", "Node", "nodes", "node"),
            kind(
                "kubevirt.io",
                "v1",
                "VirtualMachineInstance",
                "virtualmachineinstances",
                "virtualmachineinstance",
            ),
        ];
        self.plane.apply(&kinds)?;
        for kind in &kinds {
            let name = format!("crd/{}", kind["metadata"]["name"].as_str().unwrap_or_default());
            self.plane.run(&["wait", "--for=condition=established", &name, "--timeout=5m"])?;
        }
        let machine = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": {"name": "vm", "namespace": self.pool.name},
        });
        let setting = json!({
            "apiVersion": "longhorn.io/v1beta2", "kind": "Setting",
            "metadata": {"name": "node-drain-policy", "namespace": LONGHORN}, "value": "always-allow",
        });
        let node = json!({
            "apiVersion": "longhorn.io/v1beta2", "kind": "Node",
            "metadata": {"name": self.pool.nodes[0], "namespace": LONGHORN},
        });
        // A kind is served a little after it is established.
        until("the kinds are served", LIMIT, || {
            self.plane.apply(&[machine.clone(), setting.clone(), node.clone()]).map(Some)
        })
    }

    fn fill(&self) -> Result<()> {
        let namespace = self.pool.name.as_str();
        let driver = "detach-1s.rights.test";
        let mut all = vec![objects::csi_driver(driver)];
        all.extend(self.pool.nodes.iter().map(|node| objects::csi_node(node, &[driver])));
        all.extend(objects::volume(namespace, "data-db-0", driver));
        for node in self.pool.nodes.iter().skip(1) {
            self.plane.run(&["cordon", node])?;
        }
        all.push(objects::stateful_set(namespace, "db", 1));
        all.push(daemon_set(namespace));
        self.plane.apply(&all)?;
        self.plane.run(&["rollout", "status", "statefulset/db", "--namespace", namespace, "--timeout=5m"])?;
        self.plane.run(&[
            "rollout",
            "status",
            "daemonset/sensor",
            "--namespace",
            namespace,
            "--timeout=5m",
        ])?;
        until("the volume is attached", LIMIT, || {
            Ok((!self.plane.list(&["volumeattachments"])?.is_empty()).then_some(()))
        })?;
        self.place_blocked_pods()?;
        for node in self.pool.nodes.iter().skip(1) {
            self.plane.run(&["uncordon", node])?;
        }
        Ok(())
    }

    /// Creates a virtual machine's launcher and an instance-manager, both with budgets, and a pod whose eviction the
    /// webhook decides.
    fn place_blocked_pods(&self) -> Result<()> {
        let namespace = self.pool.name.as_str();
        let machine = self.plane.get(&["virtualmachineinstances", "vm", "--namespace", namespace])?;
        let mut launcher = self.bound(namespace, "launcher");
        launcher["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm",
            "uid": machine["metadata"]["uid"], "controller": true,
        }]);
        let mut manager = self.bound(LONGHORN, "manager");
        manager["metadata"]["labels"]["longhorn.io/component"] = json!("instance-manager");
        self.plane.create_namespace(&self.watched())?;
        self.webhook.decide_evictions(&self.plane, &self.watched())?;
        self.plane.apply(&[
            launcher,
            objects::disruption_budget(namespace, "launcher", ("minAvailable", 1)),
            manager,
            objects::disruption_budget(LONGHORN, "manager", ("minAvailable", 1)),
            self.bound(&self.watched(), "conflict"),
        ])?;
        for (namespace, name) in [(namespace, "launcher"), (LONGHORN, "manager")] {
            let at = format!("--namespace={namespace}");
            until("the budget counts its pod", LIMIT, || {
                let budget = self.plane.get(&["pdb", name, &at])?;
                Ok((budget["status"]["currentHealthy"] == 1).then_some(()))
            })?;
        }
        Ok(())
    }

    fn bound(&self, namespace: &str, name: &str) -> Value {
        let mut pod = objects::pod(namespace, name);
        pod["spec"]["nodeName"] = json!(self.pool.nodes[0]);
        pod
    }

    /// The namespace whose evictions the webhook decides.
    fn watched(&self) -> String {
        format!("{}-watched", self.pool.name)
    }

    /// Waits until zedkube has tried to find out why pods do not leave, and what a conflict means.
    pub(crate) fn until_asked_about_blocked_pods(&self) -> Result<()> {
        self.device.until("zedkube has asked about the blocked pods", || {
            let report = self.device.report().unwrap_or_default();
            // That KubeVirt has not begun is known from the answer only; Longhorn is asked in the same inquiry.
            let asked = |text: &str| {
                let mut blocked = report.blocked.iter();
                blocked.any(|blocked| blocked.hint.contains(text) || blocked.holder.contains(text))
            };
            Ok((asked("KubeVirt has not begun") && asked("Longhorn")).then_some(()))
        })
    }

    /// Removes the webhook.
    pub(crate) fn webhook_goes(&self) -> Result<()> {
        Webhook::leave(&self.plane, &self.watched())
    }

    /// Waits until the node takes pods and we have no slot.
    pub(crate) fn until_in_service(&self) -> Result<()> {
        self.device.until("the node is in service and the slot is free", || {
            let node = self.plane.get(&["node", &self.pool.nodes[0]])?;
            let is_free = node["spec"]["unschedulable"].is_null() && self.holders()?.is_empty();
            Ok(is_free.then_some(()))
        })
    }

    fn holders(&self) -> Result<Vec<String>> {
        let slots = self.plane.get(&["configmap", SLOTS, "--namespace", &self.pool.name])?;
        Ok(slots["data"].as_object().into_iter().flatten().map(|(node, _)| node.clone()).collect())
    }

    /// Gives the slot to the second node.
    pub(crate) fn give_the_slot_to_another(&self) -> Result<()> {
        let other = &self.pool.nodes[1];
        let uid = self.plane.get(&["node", other])?["metadata"]["uid"].clone();
        let entry = json!({"Node": other, "NodeUID": uid, "BootID": "other", "Renewal": 1});
        self.set_slots(&json!({other: entry.to_string()}))
    }

    /// Removes the second node's slot.
    pub(crate) fn free_the_slot(&self) -> Result<()> {
        self.set_slots(&json!({&self.pool.nodes[1]: null}))
    }

    fn set_slots(&self, data: &Value) -> Result<()> {
        let at = format!("--namespace={}", self.pool.name);
        let patch = json!({"data": data}).to_string();
        self.plane.run(&["patch", "configmap", SLOTS, "--type=merge", "--patch", &patch, &at]).map(drop)
    }

    /// Waits until the ConfigMap is watched; zedkube watches it also while there is no request for a drain.
    pub(crate) fn until_watching_the_slots(&self, began: AuditMark) -> Result<()> {
        self.device.until("the slots are watched", || {
            let asked = self.plane.audit_since(began)?.of_user(&self.user.name);
            let is_watch = |asked: &AuditedRequest| asked.verb == "watch" && asked.resource == "configmaps";
            Ok(asked.iter().any(is_watch).then_some(()))
        })
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

/// A kind whose objects may have any content.
fn kind(group: &str, version: &str, kind: &str, plural: &str, singular: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
