//! Tests WATCH: where it starts, what faults do to it, and how it ends.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use super::{PATIENCE, open, passive};
use crate::object::{name, text};
use crate::{FakeCluster, Settings};

const WATCH: &str = "/api/v1/pods?watch=true";

/// A watch that is read line by line.
struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    async fn open(cluster: &FakeCluster, path: &str) -> Self {
        let response = open(cluster, "GET", path, "").await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event; `None` at the orderly end, an error if the watch breaks.
    async fn try_next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).expect("a line of JSON")));
            }
            match timeout(PATIENCE, self.body.frame()).await.expect("an event in time") {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => self.buffer.extend(frame.into_data().expect("data")),
            }
        }
    }

    async fn next(&mut self) -> Value {
        self.try_next().await.expect("the watch holds").expect("the watch goes on")
    }

    /// Type and name of the next event.
    async fn step(&mut self) -> String {
        let event = self.next().await;
        format!("{} {}", text(&event, "/type"), name(&event["object"])).trim().to_owned()
    }

    async fn steps(&mut self, count: usize) -> Vec<String> {
        let mut steps = Vec::new();
        for _ in 0..count {
            steps.push(self.step().await);
        }
        steps
    }
}

#[tokio::test]
async fn a_watch_begins_where_it_is_told() {
    for (path, first) in [
        ("/api/v1/namespaces/default/pods/b?watch=1", vec!["ADDED b"]),
        ("/api/v1/pods?watch=true&sendInitialEvents=false", vec![]),
        (
            "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            vec!["ADDED a", "ADDED b"],
        ),
    ] {
        let cluster = passive();
        cluster.pod("a", "").expect("a pod");
        cluster.pod("b", "").expect("a pod");
        let mut lines = Lines::open(&cluster, path).await;
        assert_eq!(lines.steps(first.len()).await, first, "{path}");
        // No other event comes until a watched object changes.
        cluster.node("edge-a").expect("a node");
        cluster.delete("pods", "default", "b");
        assert_eq!(lines.step().await, "MODIFIED b", "{path}");
    }
}

#[tokio::test]
async fn a_version_that_is_forgotten_is_gone() {
    let cluster =
        FakeCluster::start_with(Settings { watch_history: 3, ..Settings::passive() }).expect("it starts");
    let old = cluster.revision();
    for name in ["a", "b", "c", "d"] {
        cluster.pod(name, "").expect("a pod");
    }
    let mut lines = Lines::open(&cluster, &format!("{WATCH}&resourceVersion={old}")).await;
    let event = lines.next().await;
    assert_eq!(text(&event, "/object/message"), format!("too old resource version: {old} ({})", old + 1));
    // The oldest version that is kept still works.
    let mut lines = Lines::open(&cluster, &format!("{WATCH}&resourceVersion={}", old + 1)).await;
    assert_eq!(lines.steps(3).await, ["ADDED b", "ADDED c", "ADDED d"]);
    cluster.faults().forget_history();
    let mut lines = Lines::open(&cluster, &format!("{WATCH}&resourceVersion={}", old + 1)).await;
    assert_eq!(lines.step().await, "ERROR");
}

#[tokio::test]
async fn a_watch_ends_in_four_ways() {
    let settings = Settings { watch_timeout: Duration::from_millis(1), ..Settings::passive() };
    let impatient = FakeCluster::start_with(settings).expect("it starts");
    let mut timed = Lines::open(&impatient, &format!("{WATCH}&timeoutSeconds=9")).await;
    assert_eq!(timed.try_next().await, Ok(None));
    let cluster = passive();
    let mut pods = Lines::open(&cluster, WATCH).await;
    let mut nodes = Lines::open(&cluster, "/api/v1/nodes?watch=true").await;
    cluster.faults().cut_watches(Some("pods"));
    assert_eq!(pods.try_next().await, Ok(None));
    cluster.node("edge-a").expect("a node");
    assert_eq!(nodes.step().await, "ADDED edge-a");
    cluster.faults().break_watches(None);
    assert!(nodes.try_next().await.is_err());
    let mut pods = Lines::open(&cluster, WATCH).await;
    cluster.faults().api_down().expect("it goes down");
    assert!(pods.try_next().await.is_err());
}

#[tokio::test]
async fn silent_watches_go_on_where_they_were() {
    let cluster =
        FakeCluster::start_with(Settings { bookmark_every: Duration::from_millis(1), ..Settings::passive() })
            .expect("a cluster");
    let mut pods = Lines::open(&cluster, &format!("{WATCH}&allowWatchBookmarks=true")).await;
    let mut nodes = Lines::open(&cluster, "/api/v1/nodes?watch=true").await;
    assert!(pods.step().await.starts_with("BOOKMARK"));
    cluster.faults().silence_watches(Some("pods"));
    cluster.pod("a", "").expect("a pod");
    cluster.node("edge-a").expect("a node");
    assert_eq!(nodes.step().await, "ADDED edge-a", "others speak");
    // Events that were on their way before still arrive.
    let heard = async {
        loop {
            assert!(pods.step().await.starts_with("BOOKMARK"));
        }
    };
    assert!(timeout(Duration::from_millis(50), heard).await.is_err());
    cluster.faults().resume_watches(Some("pods"));
    loop {
        let step = pods.step().await;
        if step == "ADDED a" {
            break;
        }
        assert!(step.starts_with("BOOKMARK"), "{step}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_watch_whose_client_is_gone() {
    let cluster = passive();
    let watches = || cluster.shared().cuts.receiver_count();
    let lines = Lines::open(&cluster, WATCH).await;
    assert_eq!(watches(), 1);
    drop(lines);
    let gone = async {
        while watches() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("it ends although nothing changes");
}

#[tokio::test]
async fn options_that_do_not_fit() {
    let cluster = passive();
    for (query, code) in [
        ("&sendInitialEvents=true", 422),
        ("&resourceVersionMatch=NotOlderThan&resourceVersion=0", 422),
        ("&sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999", 504),
        ("&resourceVersion=x", 400),
        ("&labelSelector=a+b", 400),
        ("&timeoutSeconds=x", 400),
    ] {
        assert_eq!(super::get(&cluster, &format!("{WATCH}{query}")).await.code, code, "{query}");
    }
}
