//! Events: what happened to a Node or a pod, for people who look at it with `kubectl describe`. The API server forgets them
//! after an hour (`--event-ttl`).
//!
//! They are Events of core/v1: kubelets may create and change those, and none of group events.k8s.io.

mod reading;

use kube::core::Request;
use kube::core::params::{Patch, PatchParams, PostParams};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use text::one_line;

use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::Cluster;

pub use reading::{NodeEvent, list_node_events};

/// Namespace of the Events about objects that have none, such as Nodes.
pub const NAMESPACE: &str = "default";

/// Component that reports our Events.
const COMPONENT: &str = "zedkube";

/// Longest message of an Event, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Longest part of the object's name in the name of an Event, in bytes: a name has 253 at most.
const LONGEST_PREFIX: usize = 200;

/// What an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The Node of zedkube.
    Node,
    /// A pod on it.
    Pod {
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        name: String,
        /// UID of the pod.
        uid: String,
    },
}

/// An Event, and how many times it has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Name of the Node of zedkube.
    pub node: String,
    /// UID of that Node.
    pub node_uid: String,
    /// What it is about.
    pub about: About,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// Somebody should look at it.
    pub is_warning: bool,
    /// The same for people.
    pub message: String,
    /// What it belongs to, a drain in a boot: the same reason there is the same Event, whichever process tells it.
    pub occasion: String,
    /// How many times it has happened, from 1.
    pub count: u32,
}

impl Happening {
    fn object(&self) -> (&str, &str, &str, &str) {
        match &self.about {
            About::Node => ("Node", "", &self.node, &self.node_uid),
            About::Pod { namespace, name, uid } => ("Pod", namespace, name, uid),
        }
    }

    fn namespace(&self) -> &str {
        let (_, namespace, ..) = self.object();
        if namespace.is_empty() { NAMESPACE } else { namespace }
    }

    fn name(&self) -> String {
        let (_, _, name, uid) = self.object();
        let whole = [uid, self.reason, &self.occasion].join("\0");
        let digest = digest(&SHA256, whole.as_bytes());
        let hash = digest.as_ref().iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
        let end = name.floor_char_boundary(LONGEST_PREFIX);
        // A name must not have two dots in a row.
        let prefix = name.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
        format!("{prefix}.{hash:016x}")
    }

    fn message(&self) -> String {
        one_line(&self.message, LONGEST_MESSAGE - 3)
    }
}

/// Tells what has happened: the first time as a new Event, later as another count of it. An Event that exists already was
/// told by an earlier process. At most two calls.
pub async fn tell(cluster: &Cluster, happening: &Happening) -> Result<(), ApiFailure> {
    let cluster = cluster.at_leisure();
    let now = cluster.server_time().map(|now| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let name = happening.name();
    let path = format!("/api/v1/namespaces/{}/events", happening.namespace());
    let operation =
        |verb| Operation { verb, resource: "events", namespace: happening.namespace(), name: &name };
    if happening.count > 1 {
        let body = json!({"count": happening.count, "lastTimestamp": now, "message": happening.message()});
        let request = Request::new(path.as_str()).patch(&name, &PatchParams::default(), &Patch::Merge(body));
        match cluster.fetch::<Value>(&operation("patch"), request).await {
            Err(ApiFailure::NotFound { .. }) => {}
            told => return told.map(drop),
        }
    }
    let (kind, namespace, of, uid) = happening.object();
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": happening.namespace()},
        "involvedObject": {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": of, "uid": uid},
        "type": if happening.is_warning { "Warning" } else { "Normal" },
        "reason": happening.reason, "message": happening.message(), "count": happening.count,
        "firstTimestamp": now, "lastTimestamp": now,
        "source": {"component": COMPONENT, "host": happening.node},
        "reportingComponent": COMPONENT, "reportingInstance": happening.node,
    });
    let body = serde_json::to_vec(&event).map_err(|error| ApiFailure::other(error.to_string()))?;
    let request = Request::new(path.as_str()).create(&PostParams::default(), body);
    match cluster.fetch::<Value>(&operation("create"), request).await {
        Ok(_) | Err(ApiFailure::Conflict { .. }) => Ok(()),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use fake_cluster::{Effect, Fault, Reply};

    use super::*;
    use crate::testing::still_cluster;

    #[tokio::test]
    async fn an_event_is_made_once_and_counted_up() {
        let (fake, cluster) = still_cluster();
        fake.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
        let of_node = Happening {
            node: "edge-a".to_owned(),
            node_uid: "n1".to_owned(),
            about: About::Node,
            reason: "Blocked",
            is_warning: true,
            message: format!("a\nb {}", "é".repeat(2000)),
            occasion: "drain 1".to_owned(),
            count: 1,
        };
        let (namespace, uid) = ("shop".to_owned(), "p1".to_owned());
        let of_pod = Happening {
            about: About::Pod { namespace, name: format!("{}.", "x".repeat(240)), uid },
            ..of_node.clone()
        };
        for happening in [&of_node, &of_node, &of_pod, &Happening { count: 2, ..of_node.clone() }] {
            tell(&cluster, happening).await.unwrap();
        }
        tell(&cluster, &Happening { occasion: "drain 2".to_owned(), ..of_node.clone() }).await.unwrap();
        let found = fake.list("events", Some("default"));
        let counts: Vec<_> = found.iter().map(|event| event["count"].as_u64()).collect();
        assert_eq!(counts.len(), 2, "{found:?}");
        assert!(counts.contains(&Some(1)) && counts.contains(&Some(2)), "{found:?}");
        for event in &found {
            assert_eq!(event["involvedObject"]["uid"], "n1", "kubectl describe looks for it");
            let message = event["message"].as_str().unwrap();
            assert!(message.starts_with("a b é") && message.len() <= LONGEST_MESSAGE, "{message}");
        }
        let [of_pod] = &*fake.list("events", Some("shop")) else { panic!("one Event about the pod") };
        assert_eq!(of_pod["involvedObject"]["namespace"], "shop");

        // It was forgotten meanwhile, and is made again.
        let third = Happening { count: 3, ..of_node };
        assert!(fake.delete("events", "default", &third.name()));
        tell(&cluster, &third).await.unwrap();
        assert_eq!(fake.get("events", "default", &third.name()).unwrap()["count"], 3);
        let refusal = Reply::json(403, &json!({"kind": "Status", "code": 403, "message": "no"}));
        fake.faults().add(Fault::on("patch", "events", Effect::Answer(refusal)));
        assert!(matches!(tell(&cluster, &third).await, Err(ApiFailure::Denied { .. })));
    }
}
