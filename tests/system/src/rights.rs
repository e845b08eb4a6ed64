//! Users with exactly the rights that `packaging/kubernetes` gives to zedkube.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use control_plane::{ControlPlane, until};
use serde_json::{Value, json};

const NODES: &str = include_str!("../../../packaging/kubernetes/ebb-nodes.yaml");
const HINTS: &str = include_str!("../../../packaging/kubernetes/ebb-nodes-hints.yaml");
const TOKENS: &str = include_str!("../../../packaging/kubernetes/ebb-tokens.yaml");

/// The service account of `ebb-tokens.yaml`.
const ACCOUNT: &str = "ebb-node";

/// Time limit for a new role: the API server knows the role once its own watch has reported it.
const KNOWN_LIMIT: Duration = Duration::from_mins(5);

/// Requests that show that the server knows a role of the manifests: verb, object, and whether it is in kube-system.
const SIGNS: [(&str, &str, bool); 3] = [
    ("list", "nodes", false),
    ("patch", "configmaps/ebb-slots-default", false),
    ("get", "leases.coordination.k8s.io/kube-controller-manager", true),
];

/// zedkube's user at the API server.
#[derive(Debug)]
pub struct ZedkubeUser {
    /// Name of the user in the audit log.
    pub name: String,
    /// Kubeconfig of the user; it exists as long as the control plane's handle.
    pub kubeconfig: PathBuf,
    /// Roles of the user, in the form that the API server accepts.
    pub roles: Vec<Value>,
}

impl ZedkubeUser {
    /// The kubelet of a node of the pool, with the additional rights that `ebb-nodes.yaml` and `ebb-nodes-hints.yaml`
    /// grant.
    ///
    /// The manifests are applied for one pool of a control plane: the namespace of the pool takes the place of
    /// kube-system, so `slots.namespace` must be set to it. The rest of the cluster is shared, so objects that are not
    /// in a namespace of the pool get the pool's name.
    pub fn of_node(plane: &ControlPlane, pool: &str, node: &str) -> Result<Self> {
        let name = format!("system:node:{node}");
        let roles = apply(plane, pool, &[NODES, HINTS])?;
        let user = Self { name, kubeconfig: plane.node_kubeconfig(node)?, roles };
        user.until_known(plane, pool, "--as-group=system:nodes")?;
        Ok(user)
    }

    /// The service account of `ebb-tokens.yaml`, with a token that is bound to a node of the pool.
    pub fn of_token(plane: &ControlPlane, pool: &str, node: &str) -> Result<Self> {
        let name = format!("system:serviceaccount:{pool}:{ACCOUNT}");
        let roles = apply(plane, pool, &[NODES, HINTS, TOKENS])?;
        let user = Self { name, kubeconfig: plane.bound_token_kubeconfig(pool, ACCOUNT, node)?, roles };
        user.until_known(plane, pool, "--as-group=system:serviceaccounts")?;
        Ok(user)
    }

    fn until_known(&self, plane: &ControlPlane, pool: &str, group: &str) -> Result<()> {
        let user = format!("--as={}", self.name);
        for (verb, object, is_system) in SIGNS {
            let namespace = format!("--namespace={}", if is_system { "kube-system" } else { pool });
            until(&format!("zedkube may {verb} {object}"), KNOWN_LIMIT, || {
                plane.run(&["auth", "can-i", verb, object, &user, group, &namespace]).map(Some)
            })?;
        }
        Ok(())
    }
}

/// Applies the manifests for one pool; returns their roles.
fn apply(plane: &ControlPlane, pool: &str, manifests: &[&str]) -> Result<Vec<Value>> {
    let parsed: Vec<Vec<Value>> = manifests.iter().map(|text| parse(plane, text)).collect::<Result<_>>()?;
    let mut objects: Vec<Value> = parsed.into_iter().flatten().collect();
    for object in &mut objects {
        move_to(object, pool);
    }
    plane.apply(&objects)?;
    objects.retain(|object| object.get("rules").is_some());
    Ok(objects)
}

/// The documents of a YAML text.
fn parse(plane: &ControlPlane, text: &str) -> Result<Vec<Value>> {
    let create = ["create", "--dry-run=client", "--output=json", "-f", "-"];
    let json = plane.run_with_input(&create, text.as_bytes())?;
    let documents = serde_json::Deserializer::from_str(&json).into_iter();
    documents.collect::<Result<_, _>>().context("`kubectl create --dry-run` wrote no JSON")
}

/// Changes the object for the pool, see [`ZedkubeUser::of_node`].
fn move_to(object: &mut Value, pool: &str) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let role = text("/roleRef/name");
    rename_account(object, pool);
    // This lease belongs to the server itself and does not move.
    let stays = name.ends_with("-controller-manager");
    if namespace == "kube-system" && !stays {
        set(object, "/metadata/namespace", pool);
    } else if namespace.is_empty() || stays {
        set(object, "/metadata/name", &format!("{name}-{pool}"));
        set(object, "/roleRef/name", &format!("{role}-{pool}"));
        set(object, "/spec/policyName", &format!("{name}-{pool}"));
    }
    set(object, "/subjects/0/namespace", pool);
    set(object, "/subjects/1/namespace", pool);
}

/// Policies contain the service account's name with its namespace.
fn rename_account(object: &mut Value, pool: &str) {
    match object {
        Value::String(text) => *text = text.replace(":kube-system:ebb-node", &format!(":{pool}:ebb-node")),
        Value::Array(all) => all.iter_mut().for_each(|one| rename_account(one, pool)),
        Value::Object(all) => all.values_mut().for_each(|one| rename_account(one, pool)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Sets the field; does nothing if it does not exist.
fn set(object: &mut Value, pointer: &str, text: &str) {
    if let Some(field) = object.pointer_mut(pointer) {
        *field = json!(text);
    }
}
