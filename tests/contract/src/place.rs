//! The fixture of one case: a namespace and nodes of its own, created through the API.

use anyhow::{Context, Result, bail};
use cluster::{Cordoned, cordon};
use control_plane::unique;
use drain::{Answer, PodId};
use serde_json::{Value, json};

use crate::caller::{Caller, Change};
use crate::objects::{self, Kubelet};
use crate::reply::Reply;
use crate::target::Target;

/// State of a pod at the start of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Bound, running, Ready.
    Ready,
    /// Like `Ready`, but once deleted the pod stays until it is deleted with grace 0.
    ReadyForLong,
    /// Running and not Ready.
    Unready,
    /// Bound, not started.
    Pending,
    /// Not bound.
    Unbound,
    /// Succeeded.
    Finished,
}

/// A namespace with nodes of its own. Nothing is removed at the end: the whole control plane is.
#[derive(Debug)]
pub struct Place<'a> {
    caller: &'a Caller,
    /// The namespace; also the name of the pool to which its nodes belong.
    pub namespace: String,
    /// The first node.
    pub node: String,
}

impl<'a> Place<'a> {
    /// Creates a namespace whose name begins with `prefix`, and one node that is ready for pods.
    pub async fn new(target: &'a Target, prefix: &str) -> Result<Self> {
        let caller = target.admin().await?;
        let namespace = unique(prefix);
        caller.post("/api/v1/namespaces", &objects::namespace(&namespace)).await?.object()?;
        if !target.is_fake() {
            // No pod is accepted before the account exists. The controller-manager creates it too, at the same time or
            // later.
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            caller.post(&path, &json!({"metadata": {"name": "default"}})).await?;
        }
        let mut place = Self { caller, namespace, node: String::new() };
        place.node = place.add_node("a").await?;
        Ok(place)
    }

    /// Adds a node, called `NAMESPACE-suffix`, that is ready for pods.
    pub async fn add_node(&self, suffix: &str) -> Result<String> {
        let name = format!("{}-{suffix}", self.namespace);
        self.caller.post("/api/v1/nodes", &objects::node(&name, &self.namespace)).await?.object()?;
        let is_free = |node: &Value| node.is_object() && node.pointer("/spec/taints").is_none();
        self.caller
            .until("the node takes pods", &node_path(&name), |node| is_free(node).then_some(()))
            .await?;
        Ok(name)
    }

    /// The calls of the administrator.
    pub fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Path of objects of this namespace, such as `pods`, `pods/a`, `pods/a/eviction?dryRun=All`.
    pub fn path(&self, rest: &str) -> String {
        let resource = rest.split(['/', '?']).next().unwrap_or_default();
        let group = match resource {
            "deployments" | "replicasets" | "statefulsets" | "daemonsets" => "/apis/apps/v1",
            "poddisruptionbudgets" => "/apis/policy/v1",
            "leases" => "/apis/coordination.k8s.io/v1",
            _ => "/api/v1",
        };
        format!("{group}/namespaces/{}/{rest}", self.namespace)
    }

    /// Path of the first node.
    pub fn node_path(&self) -> String {
        node_path(&self.node)
    }

    /// Creates an object in this namespace; fails if the server refuses it.
    pub async fn create(&self, resource: &str, object: &Value) -> Result<Value> {
        self.caller.post(&self.path(resource), object).await?.object()
    }

    /// Reads an object of this namespace; fails if it does not exist.
    pub async fn get(&self, rest: &str) -> Result<Value> {
        self.caller.get(&self.path(rest)).await?.object()
    }

    /// Changes an object of this namespace by a merge patch; fails if the server refuses it.
    pub async fn patch(&self, rest: &str, patch: &Value) -> Result<Value> {
        self.caller.patch(&self.path(rest), Change::Merge, patch).await?.object()
    }

    /// Waits until `look` returns a value for the object; `look` gets null if the object does not exist.
    pub async fn until<T>(&self, what: &str, rest: &str, look: impl FnMut(&Value) -> Option<T>) -> Result<T> {
        self.caller.until(what, &self.path(rest), look).await
    }

    /// Waits until the object is gone.
    pub async fn until_gone(&self, rest: &str) -> Result<()> {
        self.until(&format!("{rest} is gone"), rest, |object| object.is_null().then_some(())).await
    }

    /// Creates pods on the first node and waits until they are in these states. Returns the last one.
    pub async fn pods(&self, pods: &[(&str, PodState)]) -> Result<Value> {
        for (name, state) in pods {
            self.create("pods", &self.pod_object(name, *state)).await?;
        }
        let mut last = Value::Null;
        for (name, state) in pods {
            last = self.bring(name, *state).await?;
        }
        Ok(last)
    }

    fn pod_object(&self, name: &str, state: PodState) -> Value {
        let kubelet = match state {
            PodState::Ready | PodState::Unready => Kubelet::Quick,
            PodState::ReadyForLong | PodState::Finished => Kubelet::NeverEnds,
            PodState::Pending => Kubelet::NeverStarts,
            PodState::Unbound => return objects::abandoned_pod(name),
        };
        objects::bound_pod(name, &self.node, kubelet)
    }

    async fn bring(&self, name: &str, state: PodState) -> Result<Value> {
        let path = format!("pods/{name}");
        if matches!(state, PodState::Pending | PodState::Unbound) {
            return self.get(&path).await;
        }
        let is_ready = |pod: &Value| condition(pod, "Ready") == "True";
        let pod = self.until("the pod is Ready", &path, |pod| is_ready(pod).then(|| pod.clone())).await?;
        let phase = match state {
            PodState::Unready => "Running",
            PodState::Finished => "Succeeded",
            PodState::Ready | PodState::ReadyForLong | PodState::Pending | PodState::Unbound => {
                return Ok(pod);
            }
        };
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False"}]});
        self.patch(&format!("{path}/status"), &json!({"status": status})).await
    }

    /// Creates a budget for the pods of [`Place::pods`] and waits until its status has these numbers: expected pods,
    /// healthy now, healthy desired, disruptions allowed.
    pub async fn budget(&self, name: &str, limit: &Value, numbers: [i64; 4]) -> Result<Value> {
        self.create("poddisruptionbudgets", &objects::budget(name, objects::APP, limit)).await?;
        self.until_budget(name, numbers).await
    }

    /// Waits until the budget's status is of its present generation and has these numbers.
    pub async fn until_budget(&self, name: &str, numbers: [i64; 4]) -> Result<Value> {
        let path = format!("poddisruptionbudgets/{name}");
        let what = format!("the budget counts {numbers:?}");
        self.until(&what, &path, |budget| (counts(budget) == Some(numbers)).then(|| budget.clone())).await
    }

    /// Evicts a pod; `query` such as `?dryRun=All`, `options` are the `deleteOptions`.
    pub async fn evict_with(&self, pod: &str, query: &str, options: &Value) -> Result<Reply> {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace}, "deleteOptions": options,
        });
        self.caller.post(&self.path(&format!("pods/{pod}/eviction{query}")), &body).await
    }

    /// Evicts a pod.
    pub async fn evict(&self, pod: &str) -> Result<Reply> {
        self.evict_with(pod, "", &json!({})).await
    }

    /// Cordons the first node.
    pub async fn cordoned(&self) -> Result<Cordoned> {
        Ok(cordon(self.caller.cluster(), &self.node, "contract", "test").await?)
    }

    /// Identity of the pod; without a UID if the pod does not exist.
    pub async fn pod_id(&self, pod: &str) -> Result<PodId> {
        let reply = self.caller.get(&self.path(&format!("pods/{pod}"))).await?;
        let uid = match reply.code {
            404 => String::new(),
            200 => uid(&reply.object()?)?,
            _ => bail!("cannot read pod {pod}: {}", reply.body),
        };
        Ok(PodId { namespace: self.namespace.clone(), name: pod.to_owned(), uid })
    }

    /// Evicts a pod as our agents do, with its UID, and returns the answer as they understand it.
    pub async fn answer(&self, pod: &str) -> Result<Answer> {
        let id = self.pod_id(pod).await?;
        Ok(cluster::evict::evict(self.caller.cluster(), &self.cordoned().await?, &id, None).await)
    }
}

/// Path of a node.
fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Status of a condition; empty if there is none.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let field = |condition: &'a Value, key| condition.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut found = conditions.into_iter().flatten().filter(|condition| field(condition, "type") == kind);
    found.next().map_or("", |condition| field(condition, "status"))
}

/// The numbers of a budget's status, if they are of its present generation.
fn counts(budget: &Value) -> Option<[i64; 4]> {
    let number = |pointer: &str| budget.pointer(pointer).and_then(Value::as_i64);
    let is_observed = number("/status/observedGeneration")? >= number("/metadata/generation")?;
    is_observed.then_some([
        number("/status/expectedPods")?,
        number("/status/currentHealthy")?,
        number("/status/desiredHealthy")?,
        number("/status/disruptionsAllowed")?,
    ])
}

fn uid(object: &Value) -> Result<String> {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.map(str::to_owned).context("an object without a UID")
}
