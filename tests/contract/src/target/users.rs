//! Users with all rights that a drain needs, except one.

use anyhow::{Context, Result};
use fake_cluster::{Effect, Fault, Reply};
use serde_json::{Value, json};

use super::{Client, Server, Target};

/// The rights that a drain and its slot need: API group, resource, verbs.
const NEEDED: &[(&str, &str, &[&str])] = &[
    ("", "nodes", &["get", "list", "watch", "patch"]),
    ("", "pods", &["get", "list", "watch", "delete"]),
    ("", "pods/eviction", &["create"]),
    ("policy", "poddisruptionbudgets", &["list", "watch"]),
    ("apps", "daemonsets", &["get"]),
    ("", "persistentvolumeclaims", &["get"]),
    ("", "persistentvolumes", &["get"]),
    ("coordination.k8s.io", "leases", &["get"]),
    ("", "configmaps", &["get", "list", "watch", "create", "patch"]),
    ("storage.k8s.io", "csidrivers", &["get"]),
    ("storage.k8s.io", "volumeattachments", &["list", "watch"]),
];

impl Target {
    /// A client with this name, which no other client may have, whose user has all rights of a drain except `verb` on
    /// `resource`. The fake knows no rights, so it refuses that to this client by a rule.
    pub async fn client_without(&self, name: &str, verb: &str, resource: &str) -> Result<Client<'_>> {
        let mut config = self.kubeconfig()?;
        if let Server::Fake(fake) = &self.server {
            let refusal = Effect::Answer(Reply::forbidden(name, verb, resource, "", ""));
            let agent = concat!("ebb/", env!("CARGO_PKG_VERSION"), " ");
            fake.faults()
                .add(Fault::on(verb, resource, refusal).from_agent(&format!("{agent}{name}")).always());
            return self.client_of(config, name).await;
        }
        self.grant(name, verb, resource).await?;
        for info in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            info.impersonate = Some(name.to_owned());
        }
        let client = self.client_of(config, name).await?;
        self.until_granted(name).await?;
        Ok(client)
    }

    async fn grant(&self, user: &str, verb: &str, resource: &str) -> Result<()> {
        let rules: Vec<Value> = NEEDED.iter().filter_map(|needed| rule(needed, verb, resource)).collect();
        let role = json!({"metadata": {"name": user}, "rules": rules});
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let admin = self.admin().await?;
        let group = "/apis/rbac.authorization.k8s.io/v1";
        admin.post(&format!("{group}/clusterroles"), &role).await?.object()?;
        admin.post(&format!("{group}/clusterrolebindings"), &binding).await?.object().map(drop)
    }

    /// Waits until the authorizer knows the roles: it learns of them by watches, a little later.
    async fn until_granted(&self, user: &str) -> Result<()> {
        let attributes = json!({"verb": "get", "group": "storage.k8s.io", "resource": "csidrivers"});
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        loop {
            let answer = self.admin().await?.post(path, &review).await?.object()?;
            let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
            if allowed.context("a review without an answer")? {
                return Ok(());
            }
        }
    }
}

/// The rule without this right; `None` if no verb is left, because the server accepts no rule without a verb.
fn rule((group, named, verbs): &(&str, &str, &[&str]), verb: &str, resource: &str) -> Option<Value> {
    let kept: Vec<&str> = verbs.iter().copied().filter(|one| *named != resource || *one != verb).collect();
    (!kept.is_empty()).then(|| json!({"apiGroups": [group], "resources": [named], "verbs": kept}))
}
