//! Objects on the control plane: applying and reading them, and a namespace with nodes for one test.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{objects, plane::ControlPlane, wait::until};

/// Time limit for nodes and namespaces to be usable, on a busy machine.
const USABLE_LIMIT: Duration = Duration::from_mins(5);

/// The namespace and the nodes of one test on a shared control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Name of the namespace, and value of the nodes' label [`objects::POOL`].
    pub name: String,
    /// Names of the nodes, in the order asked for.
    pub nodes: Vec<String>,
}

impl ControlPlane {
    /// Creates or changes these objects (server-side apply), all in one call of `kubectl`.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.apply_text(&serde_json::to_string(&list)?)
    }

    /// As [`ControlPlane::apply`], for YAML or JSON text, also with several documents.
    pub fn apply_text(&self, manifests: &str) -> Result<()> {
        self.run_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests.as_bytes())
            .map(drop)
    }

    /// The result of `kubectl get` with these arguments, for example `&["pod", "web", "--namespace=shop"]`.
    ///
    /// That is one object if a name is given, else a list with `items`. Fails if the named object does not exist.
    pub fn get(&self, args: &[&str]) -> Result<Value> {
        let all: Vec<&str> = ["get", "--output=json"].iter().chain(args).copied().collect();
        serde_json::from_str(&self.run(&all)?).context("`kubectl get` wrote no JSON")
    }

    /// The `items` of [`ControlPlane::get`]; `args` names no object.
    pub fn list(&self, args: &[&str]) -> Result<Vec<Value>> {
        match self.get(args)?.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => anyhow::bail!("`kubectl get {}` is no list", args.join(" ")),
        }
    }

    /// Creates the namespace `name` and nodes called `<name>-<suffix>`, and waits until they can be used.
    ///
    /// Use a [`crate::unique`] name. Nothing is removed at the end: the whole control plane is.
    pub fn create_pool(&self, name: &str, suffixes: &[&str]) -> Result<Pool> {
        self.create_namespace(name)?;
        let nodes: Vec<String> = suffixes.iter().map(|suffix| format!("{name}-{suffix}")).collect();
        let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
        self.create_nodes_of(name, &names)?;
        Ok(Pool { name: name.to_owned(), nodes })
    }

    /// Creates a namespace and waits until pods can be created in it: they need its default service account.
    pub fn create_namespace(&self, name: &str) -> Result<()> {
        self.apply(&[objects::namespace(name)])?;
        let namespace = format!("--namespace={name}");
        until(&format!("namespace `{name}` has its service account"), USABLE_LIMIT, || {
            self.run(&["get", "serviceaccount", "default", &namespace]).map(Some)
        })
        .map(drop)
    }

    fn create_nodes_of(&self, pool: &str, names: &[&str]) -> Result<()> {
        let nodes: Vec<Value> = names.iter().map(|name| objects::node(name, pool)).collect();
        self.apply(&nodes)?;
        for name in names {
            until(&format!("node `{name}` is Ready"), USABLE_LIMIT, || {
                let node = self.get(&["node", name])?;
                Ok(is_usable(&node).then_some(()))
            })?;
        }
        Ok(())
    }
}

/// True if the node is Ready and the controller-manager has removed its `not-ready` taint.
fn is_usable(node: &Value) -> bool {
    let ready = node.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|conditions| {
        let has = |condition: &Value, key, value| condition.get(key).and_then(Value::as_str) == Some(value);
        conditions.iter().any(|condition| has(condition, "type", "Ready") && has(condition, "status", "True"))
    });
    let tainted =
        node.pointer("/spec/taints").and_then(Value::as_array).is_some_and(|taints| !taints.is_empty());
    ready && !tainted
}
