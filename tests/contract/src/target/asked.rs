//! The requests of one client, from the fake's own log or the real server's audit log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cluster::Cluster;
use fake_cluster::FakeCluster;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::{Server, Target, lock};

/// A client of the server with a name of its own, by which its requests are recognised.
#[derive(Debug)]
pub struct Client<'a> {
    target: &'a Target,
    cluster: Cluster,
    agent: String,
    /// The real server's audit log, and its length when the client was created.
    log: Option<(PathBuf, u64)>,
}

/// A request that a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `get`, `list`, `watch`, `create`, `patch`, `delete`, ….
    pub verb: String,
    /// `pods`, `pods/eviction`.
    pub resource: String,
    /// Namespace; empty if there is none.
    pub namespace: String,
    /// Name of the object. When a subresource is created it is that of the object; otherwise empty for lists and
    /// creations.
    pub name: String,
    /// The query (after the `?`).
    pub query: String,
}

impl Asked {
    /// True if the request changes something; a dry run by its query does not.
    pub fn is_change(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.query.contains("dryRun=All")
    }
}

impl Target {
    /// The fake, for faults that cannot be caused in a real server.
    pub fn as_fake(&self) -> Option<&FakeCluster> {
        match &self.server {
            Server::Fake(fake) => Some(fake),
            Server::Shared(_) | Server::Own(_) => None,
        }
    }

    /// A client that acts as the administrator, with this name, which no other client may have.
    pub async fn client(&self, name: &str) -> Result<Client<'_>> {
        self.client_of(self.kubeconfig()?, name).await
    }

    pub(super) async fn client_of(&self, config: Kubeconfig, name: &str) -> Result<Client<'_>> {
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let log = match self.audit_log() {
            Some(log) => Some((log.clone(), log.metadata()?.len())),
            None => None,
        };
        Ok(Client { target: self, cluster: Cluster::from_config(config, name)?, agent: name.to_owned(), log })
    }

    fn audit_log(&self) -> Option<PathBuf> {
        match &self.server {
            Server::Fake(_) => None,
            Server::Shared(plane) => Some(plane.coordinates().audit_log.clone()),
            Server::Own(plane) => Some(lock(plane).coordinates().audit_log.clone()),
        }
    }
}

impl Client<'_> {
    /// The `Cluster` by which drains are created.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// All requests of this client so far, in the order in which the server received them, also those not answered yet.
    pub fn asked(&self) -> Result<Vec<Asked>> {
        if let Some((log, start)) = &self.log {
            return self.received(log, *start).with_context(|| format!("cannot read {}", log.display()));
        }
        let all = self.target.as_fake().map(|fake| fake.requests().recent()).unwrap_or_default();
        Ok(all.into_iter().filter(|request| self.is_ours(&request.user_agent)).map(of_fake).collect())
    }

    /// The requests in the audit log. `ControlPlane::audit_since` would wait for the answers, which are not needed
    /// here.
    fn received(&self, log: &Path, start: u64) -> Result<Vec<Asked>> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(start))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // The first line may have begun before `start`, and the last one may not be complete: such lines cannot be read
        // and are skipped.
        let events = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let received = events.filter(|event: &Value| text_of(event, "/stage") == "RequestReceived");
        let ours = received.filter(|event| self.is_ours(text_of(event, "/userAgent")));
        Ok(ours.map(|event| of_plane(&event)).collect())
    }

    /// The requests by which the client has changed something.
    pub fn changes(&self) -> Result<Vec<Asked>> {
        Ok(self.asked()?.into_iter().filter(Asked::is_change).collect())
    }

    fn is_ours(&self, user_agent: &str) -> bool {
        user_agent
            .strip_prefix("ebb/")
            .and_then(|rest| rest.split_once(' '))
            .is_some_and(|(_, name)| name == self.agent)
    }
}

fn of_fake(request: fake_cluster::Request) -> Asked {
    Asked {
        verb: request.verb,
        resource: request.resource,
        namespace: request.namespace,
        name: request.name,
        query: request.query,
    }
}

fn of_plane(event: &Value) -> Asked {
    let object = |field: &str| text_of(event, &format!("/objectRef/{field}")).to_owned();
    let (_, query) = text_of(event, "/requestURI").split_once('?').unwrap_or_default();
    let resource = match object("subresource") {
        none if none.is_empty() => object("resource"),
        subresource => format!("{}/{subresource}", object("resource")),
    };
    Asked {
        verb: text_of(event, "/verb").to_owned(),
        resource,
        namespace: object("namespace"),
        name: object("name"),
        query: query.to_owned(),
    }
}

fn text_of<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
