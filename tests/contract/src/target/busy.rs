//! Makes a server too busy for the evictions of one user.

use anyhow::{Result, ensure};
use fake_cluster::{Effect, Fault, Reply};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::webhook::Webhook;
use super::{Server, Target};

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// The server is busy as long as this exists.
#[derive(Debug)]
pub struct Busy<'a> {
    target: &'a Target,
    /// The call that keeps the real server busy.
    holder: Option<(Webhook, JoinHandle<Result<crate::Reply>>)>,
}

impl Target {
    /// Refuses the evictions of this user in this namespace, as a server does that has too much to do. `user` is the
    /// name of a client, not the administrator, whom the real server never refuses.
    ///
    /// On the real server priority and fairness refuses the calls, by a level without seats: a call passes only if no
    /// other is under way, and one is, at our webhook. The fake gets a rule.
    pub async fn make_busy(&self, user: &str, namespace: &str) -> Result<Busy<'_>> {
        if let Server::Fake(fake) = &self.server {
            let busy = Effect::Answer(Reply::too_many_requests());
            fake.faults().add(Fault::on("create", "pods/eviction", busy).in_namespace(namespace).always());
            return Ok(Busy { target: self, holder: None });
        }
        let admin = self.admin().await?;
        let levels = format!("{GROUP}/prioritylevelconfigurations");
        admin.post(&levels, &no_seats(user)).await?.object()?;
        admin.post(&format!("{GROUP}/flowschemas"), &evictions_of(user)).await?.object()?;
        let webhook = self.webhook(namespace, None).await?;
        let caller = self.caller(self.kubeconfig()?, Some(user)).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction?dryRun=All");
        // The server learns of the webhook by a watch, a little later: evictions are sent until it calls the webhook.
        let held = loop {
            let (caller, path) = (caller.clone(), path.clone());
            let mut call = tokio::spawn(async move { caller.post(&path, &nobody()).await });
            tokio::select! {
                () = webhook.was_called() => break call,
                reply = &mut call => {
                    let reply = reply??;
                    ensure!(reply.code == 404, "the server answered {}: {}", reply.code, reply.body);
                }
            }
        };
        let refused = caller.post(&path, &nobody()).await?;
        ensure!(
            refused.code == 429,
            "the server is not busy: it answered {}: {}",
            refused.code,
            refused.body
        );
        Ok(Busy { target: self, holder: Some((webhook, held)) })
    }
}

impl Busy<'_> {
    /// Ends the busy time.
    pub async fn end(self) -> Result<()> {
        if let Some(fake) = self.target.as_fake() {
            fake.faults().clear();
        }
        if let Some((webhook, held)) = self.holder {
            webhook.answer(json!({"allowed": true}));
            held.await??;
        }
        Ok(())
    }
}

fn nobody() -> Value {
    json!({"metadata": {"name": "nobody"}})
}

fn no_seats(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }}})
}

fn evictions_of(user: &str) -> Value {
    let rule = json!({
        "verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"], "namespaces": ["*"],
    });
    json!({"metadata": {"name": user}, "spec": {
        "priorityLevelConfiguration": {"name": user}, "matchingPrecedence": 500,
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [rule],
        }],
    }})
}
