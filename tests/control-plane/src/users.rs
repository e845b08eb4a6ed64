//! Users with few rights.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    credentials::{User, kubeconfig, write_private},
    plane::ControlPlane,
    wait::until,
};

/// Time limit for a new role: the API server knows the role once its own watch has reported it.
const ROLE_LIMIT: Duration = Duration::from_mins(5);

impl ControlPlane {
    /// Creates a service account with the rights in `rules`, cluster-wide, and returns its kubeconfig.
    ///
    /// `rules` are those of a `ClusterRole`: `[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]`. An empty
    /// list gives a user without rights. Account, role and binding are called `name`; the account is in namespace
    /// `default`. On a shared control plane use a [`crate::unique`] name. The token is valid for a day. The file is
    /// readable by its owner only and exists as long as this handle.
    pub fn create_service_user(&self, name: &str, rules: &Value) -> Result<PathBuf> {
        self.apply(&[
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": rules,
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }),
        ])
        .with_context(|| format!("cannot make user `{name}`"))?;
        self.until_rule_counts(name, rules)?;
        self.service_account_kubeconfig("default", name)
    }

    /// The kubeconfig of an existing service account. The token is valid for a day. The file is readable by its owner
    /// only and exists as long as this handle.
    pub fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let at = format!("--namespace={namespace}");
        let token = self.run(&["create", "token", name, &at, "--duration=24h"])?;
        let config = kubeconfig(
            self.server(),
            &self.coordinates().certificate,
            &User::Token(token.trim().to_owned()),
        )?;
        let path = self.scratch(&format!("{namespace}.{name}.kubeconfig"));
        write_private(&path, config.as_bytes())?;
        Ok(path)
    }

    /// As [`ControlPlane::service_account_kubeconfig`], with a token that is bound to a Node: the API server knows for
    /// which Node it was made.
    pub fn bound_token_kubeconfig(&self, namespace: &str, name: &str, node: &str) -> Result<PathBuf> {
        let (at, to) = (format!("--namespace={namespace}"), format!("--bound-object-name={node}"));
        let token =
            self.run(&["create", "token", name, &at, "--bound-object-kind=Node", &to, "--duration=24h"])?;
        let user = User::Token(token.trim().to_owned());
        let config = kubeconfig(self.server(), &self.coordinates().certificate, &user)?;
        let path = self.scratch(&format!("{namespace}.{name}.{node}.kubeconfig"));
        write_private(&path, config.as_bytes())?;
        Ok(path)
    }

    /// Waits until the first rule is in force; all rules of a role come into force together.
    fn until_rule_counts(&self, name: &str, rules: &Value) -> Result<()> {
        let first = |field: &str| {
            let text = rules.pointer(&format!("/0/{field}/0")).and_then(Value::as_str);
            text.map(str::to_owned)
        };
        let (Some(verb), Some(resource)) = (first("verbs"), first("resources")) else { return Ok(()) };
        let group = first("apiGroups").unwrap_or_default();
        let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
        let target = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let user = format!("--as=system:serviceaccount:default:{name}");
        let subresource = format!("--subresource={subresource}");
        until(&format!("user `{name}` may {verb} {target}"), ROLE_LIMIT, || {
            self.run(&["auth", "can-i", &verb, &target, &user, &subresource, "--all-namespaces"])
                .map(|_| Some(()))
        })
    }
}
