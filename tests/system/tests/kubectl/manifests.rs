//! Kubernetes objects for the pods.

use control_plane::{Pool, objects};
use serde_json::{Value, json};

use crate::pods::{Owner, Volume, Wanted};

/// The DaemonSet that exists in every namespace. It selects no node, so its controller creates no pods.
const PRESENT: &str = "present";

/// A pod to be created, and its place.
pub(crate) struct Placed<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) namespace: &'a str,
    pub(crate) name: String,
    pub(crate) node: &'a str,
}

impl Placed<'_> {
    /// The pod, bound, and its claim. kwok ignores it: the pod does not start, and once deleted it does not end.
    pub(crate) fn objects(&self, driver: &str) -> Vec<Value> {
        let mut metadata = json!({
            "name": self.name, "namespace": self.namespace,
            "labels": self.labels(), "annotations": self.annotations(), "ownerReferences": self.owners(),
        });
        if self.wanted.terminating.is_some() {
            metadata["finalizers"] = json!(["example.org/hold"]);
        }
        let volumes: Vec<Value> = self.wanted.volumes.iter().map(|volume| self.volume(*volume)).collect();
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "main", "image": "main"}],
                "volumes": volumes,
            },
        })];
        if self.wanted.volumes.contains(&Volume::BoundClaim) {
            objects.extend(objects::volume(self.namespace, &self.claim(), driver));
        }
        objects
    }

    /// The status, which only the status subresource accepts.
    pub(crate) fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "status": {"phase": self.wanted.phase},
        })
    }

    /// Name of the pod as `namespace/name`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn labels(&self) -> Value {
        let labels =
            [("app", self.wanted.app), ("tier", self.wanted.tier), ("ebb.dev/drain", self.wanted.drain)];
        labels.iter().filter_map(|(key, value)| Some(((*key).to_owned(), json!((*value)?)))).collect()
    }

    fn annotations(&self) -> Value {
        let mut annotations = json!({objects::READY_DELAY: "1000h", objects::DELETE_DELAY: "1000h"});
        if self.wanted.mirror {
            annotations["kubernetes.io/config.mirror"] = json!("0123456789abcdef");
        }
        annotations
    }

    /// The pod's owners. None of their UIDs exists, so no controller manages the pod. Only the garbage collector would
    /// delete it for that; another owner, of a kind that is not served, makes it give up.
    fn owners(&self) -> Value {
        let (version, kind, name, is_controller) = match self.wanted.owner {
            Owner::Nobody => return json!([]),
            Owner::ReplicaSet => ("apps/v1", "ReplicaSet", "web-5d8f", true),
            Owner::StatefulSet => ("apps/v1", "StatefulSet", "db", true),
            Owner::Job => ("batch/v1", "Job", "backup", true),
            Owner::DaemonSet => ("apps/v1", "DaemonSet", PRESENT, true),
            Owner::MissingDaemonSet => ("apps/v1", "DaemonSet", "missing", true),
            Owner::ForeignDaemonSet => ("example.org/v1", "DaemonSet", "foreign", true),
            Owner::NotController => ("apps/v1", "ReplicaSet", "web-5d8f", false),
            Owner::NotControllingDaemonSet => ("apps/v1", "DaemonSet", PRESENT, false),
            Owner::Node => ("v1", "Node", self.node, true),
        };
        let uid = |kind: u8| format!("00000000-0000-4000-8000-{:06x}{kind:06x}", self.wanted.namespace);
        json!([
            {
                "apiVersion": version, "kind": kind, "name": name, "controller": is_controller,
                "uid": uid(self.wanted.owner as u8 + 1),
            },
            {"apiVersion": "example.org/v1", "kind": "Keeper", "name": "keeper", "uid": uid(0)},
        ])
    }

    fn volume(&self, volume: Volume) -> Value {
        let claim = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
        let mut source = match volume {
            Volume::EmptyDir => json!({"emptyDir": {}}),
            Volume::Memory => json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
            Volume::BoundClaim => claim(&self.claim()),
            Volume::UnboundClaim => claim("unbound"),
            Volume::MissingClaim => claim("missing"),
            Volume::Ephemeral => json!({"ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}}),
            Volume::HostPath => json!({"hostPath": {"path": "/var/data"}}),
            Volume::ConfigMap => json!({"configMap": {"name": "settings", "optional": true}}),
        };
        source["name"] = json!(format!("{volume:?}").to_lowercase());
        source
    }

    fn claim(&self) -> String {
        format!("data-{}", self.name)
    }
}

/// The objects that the pods of a namespace refer to, and budgets that would block a real drain.
pub(crate) fn namespace(name: &str) -> Vec<Value> {
    let mut everything = objects::disruption_budget(name, "everything", ("minAvailable", 1));
    everything["spec"]["selector"] = json!({});
    vec![
        daemon_set(name, PRESENT, &[]),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "unbound", "namespace": name}, "spec": claim_spec(),
        }),
        objects::disruption_budget(name, "web", ("maxUnavailable", 1)),
        objects::disruption_budget(name, "db", ("minAvailable", 1_000)),
        everything,
    ]
}

/// A DaemonSet with pods on these nodes.
pub(crate) fn daemon_set(namespace: &str, name: &str, nodes: &[&str]) -> Value {
    let labels = json!({"daemon": name});
    let mut hosts = json!({"key": "kubernetes.io/hostname", "operator": "DoesNotExist"});
    if !nodes.is_empty() {
        hosts = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": nodes});
    }
    let terms = json!([{"matchExpressions": [hosts, {"key": objects::POOL, "operator": "Exists"}]}]);
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [{"name": "main", "image": "main"}],
                "affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                }},
            }},
        },
    })
}

/// Installs the driver of the bound claims on every node.
pub(crate) fn driver(pool: &Pool, driver: &str) -> Vec<Value> {
    let mut objects = vec![objects::csi_driver(driver)];
    objects.extend(pool.nodes.iter().map(|node| objects::csi_node(node, &[driver])));
    objects
}

fn claim_spec() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    })
}
