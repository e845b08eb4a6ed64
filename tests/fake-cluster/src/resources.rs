//! The kinds that the server knows: one line each.

use serde_json::{Value, json};

/// One kind of object and how the server treats it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resource {
    /// Plural name, as in the URL.
    pub(crate) plural: &'static str,
    /// Group; empty for core.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) status: StatusField,
    pub(crate) update: UpdateRule,
    /// `metadata.generation` counts the changes of the specification.
    pub(crate) has_generation: bool,
    /// Short names, as discovery tells them to `kubectl get po`.
    pub(crate) short_names: &'static [&'static str],
    /// Fields that a field selector may name, besides name and namespace.
    pub(crate) fields: &'static [&'static str],
}

/// Whether objects of a kind are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// The handling of `status` outside of the status subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusField {
    /// There is no status subresource; `status` is a field like any other.
    Plain,
    /// A creator may set the status, as a kubelet does for its node; an update keeps the old one.
    KeptOnCreate,
    /// A creator's status is dropped; an update keeps the old one.
    Dropped,
}

/// The effect of a PUT without `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UpdateRule {
    /// Without a version the PUT overwrites the object.
    Unconditional,
    /// Without a version the PUT is refused.
    Versioned,
}

impl Resource {
    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            plural,
            group,
            version,
            kind,
            scope: Scope::Namespaced,
            status: StatusField::Plain,
            update: UpdateRule::Unconditional,
            has_generation: false,
            short_names: &[],
            fields: &[],
        }
    }

    const fn cluster_wide(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    const fn status(mut self, status: StatusField) -> Self {
        self.status = status;
        self
    }

    const fn update(mut self, update: UpdateRule) -> Self {
        self.update = update;
        self
    }

    const fn generation(mut self) -> Self {
        self.has_generation = true;
        self
    }

    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    const fn selectable(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status != StatusField::Plain
    }

    /// Group and version: `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }

    /// Name in messages: `pods` or `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `name`, `group` and `kind` of an error's details.
    pub(crate) fn details(&self, name: &str) -> Value {
        let mut details = json!({});
        for (key, value) in [("name", name), ("group", self.group), ("kind", self.plural)] {
            if !value.is_empty() {
                crate::object::set(&mut details, &[key], value);
            }
        }
        details
    }
}

/// The `version`, or `group/version` outside of core.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The kind by its plural name or `plural.group`.
pub(crate) fn find(name: &str) -> Option<&'static Resource> {
    RESOURCES.iter().copied().find(|resource| resource.plural == name || resource.qualified() == name)
}

/// The kind of an object by its `apiVersion` and `kind`.
pub(crate) fn of_object(api_version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().copied().find(|resource| resource.kind == kind && resource.api_version() == api_version)
}

use StatusField::{Dropped, KeptOnCreate};
use UpdateRule::Versioned;

const APPS: &str = "apps";
const STORAGE: &str = "storage.k8s.io";

pub(crate) const NODES: &Resource =
    &Resource::new("", "v1", "Node", "nodes").cluster_wide().status(KeptOnCreate).short(&["no"]);
pub(crate) const PODS: &Resource = &Resource::new("", "v1", "Pod", "pods")
    .status(Dropped)
    .generation()
    .short(&["po"])
    .selectable(&["spec.nodeName", "status.phase"]);
pub(crate) const NAMESPACES: &Resource =
    &Resource::new("", "v1", "Namespace", "namespaces").cluster_wide().status(Dropped).short(&["ns"]);
pub(crate) const CLAIMS: &Resource =
    &Resource::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        .status(Dropped)
        .short(&["pvc"]);
pub(crate) const VOLUMES: &Resource = &Resource::new("", "v1", "PersistentVolume", "persistentvolumes")
    .cluster_wide()
    .status(Dropped)
    .short(&["pv"]);
pub(crate) const DEPLOYMENTS: &Resource =
    &Resource::new(APPS, "v1", "Deployment", "deployments").status(Dropped).generation().short(&["deploy"]);
pub(crate) const REPLICA_SETS: &Resource =
    &Resource::new(APPS, "v1", "ReplicaSet", "replicasets").status(Dropped).generation().short(&["rs"]);
pub(crate) const DAEMON_SETS: &Resource =
    &Resource::new(APPS, "v1", "DaemonSet", "daemonsets").status(Dropped).generation().short(&["ds"]);
pub(crate) const STATEFUL_SETS: &Resource =
    &Resource::new(APPS, "v1", "StatefulSet", "statefulsets").status(Dropped).generation().short(&["sts"]);
pub(crate) const BUDGETS: &Resource =
    &Resource::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .status(Dropped)
        .generation()
        .update(Versioned)
        .short(&["pdb"]);
pub(crate) const ATTACHMENTS: &Resource =
    &Resource::new(STORAGE, "v1", "VolumeAttachment", "volumeattachments")
        .cluster_wide()
        .status(Dropped)
        .update(Versioned);

/// All kinds. A new kind is a line here; it needs a constant of its own only if a controller uses it.
pub(crate) static RESOURCES: &[&Resource] = &[
    NODES,
    PODS,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    DEPLOYMENTS,
    REPLICA_SETS,
    DAEMON_SETS,
    STATEFUL_SETS,
    BUDGETS,
    ATTACHMENTS,
    &Resource::new(STORAGE, "v1", "CSIDriver", "csidrivers").cluster_wide().generation().update(Versioned),
    &Resource::new("", "v1", "Event", "events").short(&["ev"]).selectable(&[
        "involvedObject.kind",
        "involvedObject.name",
        "source",
    ]),
    &Resource::new("", "v1", "ConfigMap", "configmaps").short(&["cm"]),
    &Resource::new("events.k8s.io", "v1", "Event", "events"),
    &Resource::new("coordination.k8s.io", "v1", "Lease", "leases").update(Versioned),
    &Resource::new("batch", "v1", "Job", "jobs").status(Dropped).generation(),
    &Resource::new(STORAGE, "v1", "StorageClass", "storageclasses").cluster_wide().short(&["sc"]),
    &Resource::new(STORAGE, "v1", "CSINode", "csinodes").cluster_wide(),
    &Resource::new("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances").short(&["vmi"]),
    // Like any custom resource, it can only be written with a version.
    &Resource::new("longhorn.io", "v1beta2", "Setting", "settings")
        .status(Dropped)
        .update(Versioned)
        .short(&["lhs"]),
    &Resource::new("longhorn.io", "v1beta2", "Node", "nodes"),
    &Resource::new("postgresql.cnpg.io", "v1", "Cluster", "clusters").status(Dropped).update(Versioned),
];
