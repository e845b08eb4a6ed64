//! The Events that zedkube has written about a Node.

use jiff::Timestamp;
use serde::Deserialize;
use text::one_line;

use super::{COMPONENT, LONGEST_MESSAGE, NAMESPACE};
use crate::failure::ApiFailure;
use crate::list::Selection;
use crate::nodes::check_name;
use crate::objects::readable_time;
use crate::operation::Operation;
use crate::wire::Cluster;

/// Most Events that are returned: the newest.
const MOST: usize = 200;

/// Longest reason, in bytes.
const LONGEST_REASON: usize = 128;

/// One Event about a Node. Its texts are on one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEvent {
    /// When it happened last; `None` if it does not say.
    pub at: Option<Timestamp>,
    /// `Normal` or `Warning`.
    pub kind: String,
    /// What has happened, one word.
    pub reason: String,
    /// How often it has happened, at least once.
    pub count: u32,
    /// The same for people.
    pub message: String,
}

/// The Events that zedkube has written about the Node with this name and UID, oldest first; of very many the newest ones.
///
/// Kubelets write the name of a Node in the place of its UID, so an Event with it counts too.
pub async fn list_node_events(
    cluster: &Cluster,
    node: &str,
    uid: &str,
) -> Result<Vec<NodeEvent>, ApiFailure> {
    check_name(&Operation::on_cluster("get", "nodes", node))?;
    let operation = Operation { verb: "list", resource: "events", namespace: NAMESPACE, name: "" };
    let selection = Selection::Fields(format!("involvedObject.kind=Node,involvedObject.name={node}"));
    let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
    let trim = |event: &Event| event.is_about(node, uid).then(|| NodeEvent::of(event));
    let mut events: Vec<NodeEvent> =
        cluster.list(&operation, &path, &selection, trim).await?.into_iter().flatten().collect();
    events.sort_by_key(|event| event.at);
    let old = events.len().saturating_sub(MOST);
    Ok(events.split_off(old))
}

impl NodeEvent {
    fn of(event: &Event) -> Self {
        let text = |text: &Option<String>, most| one_line(text.as_deref().unwrap_or_default(), most);
        let series = event.series.as_ref();
        let times = [
            series.and_then(|series| series.last_observed_time),
            event.last_timestamp,
            event.once,
            event.first_timestamp,
        ];
        let count = series.and_then(|series| series.count).or(event.count);
        Self {
            at: times.into_iter().flatten().next(),
            kind: text(&event.kind, LONGEST_REASON),
            reason: text(&event.reason, LONGEST_REASON),
            count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1),
            message: text(&event.message, LONGEST_MESSAGE),
        }
    }
}

/// The fields of an Event that are needed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    involved_object: Involved,
    source: Option<Source>,
    reporting_component: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    count: Option<i64>,
    series: Option<Series>,
    #[serde(deserialize_with = "readable_time")]
    first_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "readable_time")]
    last_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "readable_time")]
    #[serde(rename = "eventTime")]
    once: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Involved {
    uid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    component: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    count: Option<i64>,
    #[serde(deserialize_with = "readable_time")]
    last_observed_time: Option<Timestamp>,
}

impl Event {
    /// True if zedkube has written it about this Node. An older Node of this name had another UID.
    fn is_about(&self, node: &str, uid: &str) -> bool {
        let source = self.source.as_ref().and_then(|source| source.component.as_deref());
        let is_ours = [source, self.reporting_component.as_deref()].contains(&Some(COMPONENT));
        let about = self.involved_object.uid.as_deref();
        is_ours && (about == Some(uid) || about == Some(node))
    }
}

#[cfg(test)]
mod tests {
    use fake_cluster::FakeCluster;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::still_cluster;

    /// An Event of this number about `edge-a`, with these fields changed.
    fn put(fake: &FakeCluster, number: usize, fields: &Value) {
        let second = number % 60;
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("edge-a.{number}"), "namespace": NAMESPACE},
            "involvedObject": {"kind": "Node", "name": "edge-a", "uid": "edge-a"},
            "source": {"component": "zedkube"}, "type": "Normal", "reason": format!("E{number}"), "message": "said",
            "count": 2, "lastTimestamp": format!("2026-11-29T17:{:02}:{second:02}Z", number / 60),
        });
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        fake.apply(event).unwrap();
    }

    async fn found(cluster: &Cluster) -> Vec<NodeEvent> {
        list_node_events(cluster, "edge-a", "n1").await.unwrap()
    }

    #[tokio::test]
    async fn the_events_of_zedkube_about_this_node_are_found() {
        let (fake, cluster) = still_cluster();
        let about = |uid: &str| json!({"kind": "Node", "name": "edge-a", "uid": uid});
        let of = |component: &str| json!({"component": component});
        for (number, (fields, is_found)) in [
            (json!({}), true),
            (json!({"involvedObject": about("n1")}), true),
            (json!({"involvedObject": about("n0")}), false),
            (json!({"involvedObject": {"kind": "Pod", "name": "edge-a", "uid": "n1"}}), false),
            (json!({"involvedObject": {"kind": "Node", "name": "edge-b", "uid": "n1"}}), false),
            (json!({"source": of("kubelet")}), false),
            (json!({"source": of("kubelet"), "reportingComponent": "zedkube"}), true),
            (json!({"source": null}), false),
        ]
        .into_iter()
        .enumerate()
        {
            put(&fake, number, &fields);
            let names: Vec<String> = found(&cluster).await.into_iter().map(|event| event.reason).collect();
            assert_eq!(names.contains(&format!("E{number}")), is_found, "{fields}");
        }
    }

    #[tokio::test]
    async fn odd_fields_are_harmless() {
        let (fake, cluster) = still_cluster();
        let (hour, day) = ("2026-11-29T18:00:00Z", "2026-11-30T17:00:00Z");
        let series = json!({"count": 7, "lastObservedTime": day});
        let evil = "\u{1b}[2J\n\u{202e}".repeat(1000);
        for (fields, at, count) in [
            (json!({}), Some("2026-11-29T17:00:00Z"), 2),
            (json!({"series": series}), Some(day), 7),
            (json!({"lastTimestamp": null, "eventTime": hour}), Some(hour), 2),
            (json!({"lastTimestamp": "soon", "firstTimestamp": hour, "count": -1}), Some(hour), 1),
            (json!({"lastTimestamp": null, "count": null, "message": evil, "reason": evil}), None, 1),
        ] {
            put(&fake, 0, &fields);
            let [event] = &found(&cluster).await[..] else { panic!("{fields}") };
            assert_eq!((event.at.map(|at| at.to_string()).as_deref(), event.count), (at, count), "{fields}");
            let shown = [&event.message, &event.reason].map(|text| text.chars().all(text::is_plain));
            assert!(event.message.len() <= LONGEST_MESSAGE + 3 && shown == [true; 2], "{event:?}");
            assert!(fake.delete("events", NAMESPACE, "edge-a.0"));
        }
    }

    #[tokio::test]
    async fn the_newest_are_kept_and_the_oldest_comes_first() {
        let (fake, cluster) = still_cluster();
        for number in (0..MOST + 5).rev() {
            put(&fake, number, &json!({}));
        }
        let events = found(&cluster).await;
        let ends = [events.first(), events.last()].map(|event| event.unwrap().reason.clone());
        assert_eq!((events.len(), ends), (MOST, ["E5".to_owned(), format!("E{}", MOST + 4)]));
    }
}
