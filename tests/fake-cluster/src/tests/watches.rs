//! Tests WATCH: what a fault does to it, and what is left of it.

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

    async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).expect("a line of JSON");
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("an event in time");
            let frame = frame.expect("the watch goes on").expect("the watch holds");
            self.buffer.extend(frame.into_data().expect("data"));
        }
    }

    /// Type and name of the next event.
    async fn step(&mut self) -> String {
        let event = self.next().await;
        format!("{} {}", text(&event, "/type"), name(&event["object"])).trim().to_owned()
    }
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
