//! Calls that the server has received and does not answer.

use anyhow::{Result, ensure};
use control_plane::objects::POOL;
use fake_cluster::{Effect, Fault};
use serde_json::{Value, json};

use super::webhook::{WEBHOOK, Webhook};
use super::{Server, Target};
use crate::caller::{Caller, Change};
use crate::reply::Reply;

/// Calls without an answer. The real server keeps them waiting for 30 s at most.
#[derive(Debug)]
pub struct Held<'a> {
    target: &'a Target,
    webhook: Option<Webhook>,
}

impl Target {
    /// From now on the server answers no eviction in this namespace. On the real server our webhook keeps them waiting.
    pub async fn hold_evictions(&self, namespace: &str) -> Result<Held<'_>> {
        if let Server::Fake(fake) = &self.server {
            fake.faults()
                .add(Fault::on("create", "pods/eviction", Effect::Hang).in_namespace(namespace).always());
            return Ok(Held { target: self, webhook: None });
        }
        let webhook = self.webhook(namespace, None).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction?dryRun=All");
        let probe = async |caller: Caller| caller.post(&path, &json!({"metadata": {"name": "nobody"}})).await;
        self.until_called(&webhook, 404, probe).await?;
        Ok(Held { target: self, webhook: Some(webhook) })
    }

    /// From now on the server answers no change of this node, which belongs to the place with this namespace.
    pub async fn hold_node(&self, namespace: &str, node: &str) -> Result<Held<'_>> {
        if let Server::Fake(fake) = &self.server {
            fake.faults().add(Fault::on("patch", "nodes", Effect::Hang).named(node).always());
            return Ok(Held { target: self, webhook: None });
        }
        let webhook = self.webhook(namespace, None).await?;
        let configuration =
            format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace}");
        let admin = self.admin().await?;
        admin.patch(&configuration, Change::Strategic, &nodes_instead(namespace)).await?.object()?;
        let path = format!("/api/v1/nodes/{node}?dryRun=All");
        let note = json!({"metadata": {"annotations": {"example.org/note": "probe"}}});
        let probe = async |caller: Caller| caller.patch(&path, Change::Merge, &note).await;
        self.until_called(&webhook, 200, probe).await?;
        Ok(Held { target: self, webhook: Some(webhook) })
    }

    /// Waits until the real server calls our webhook: it learns of webhooks by a watch, a little later. Until then it
    /// answers with this code.
    async fn until_called(
        &self,
        webhook: &Webhook,
        code: u16,
        probe: impl AsyncFn(Caller) -> Result<Reply>,
    ) -> Result<()> {
        let caller = self.admin().await?;
        loop {
            tokio::select! {
                () = webhook.was_called() => return Ok(()),
                reply = probe(caller.clone()) => {
                    let reply = reply?;
                    ensure!(reply.code == code, "the server answered {}: {}", reply.code, reply.body);
                }
            }
        }
    }
}

impl Held<'_> {
    /// Answers waiting and new calls again. On the fake the calls that wait already are never answered: their senders
    /// have to give them up.
    pub fn let_go(self) {
        if let Some(fake) = self.target.as_fake() {
            fake.faults().clear();
        }
        if let Some(webhook) = self.webhook {
            webhook.answer(json!({"allowed": true}));
        }
    }
}

/// Changes a webhook for evictions into one for the nodes of a pool.
fn nodes_instead(pool: &str) -> Value {
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]});
    json!({"webhooks": [{
        "name": WEBHOOK, "rules": [rule], "objectSelector": {"matchLabels": {POOL: pool}},
        "namespaceSelector": {"matchLabels": null},
    }]})
}
