//! Tests the whole cluster from outside: over HTTP, with a client that knows no Kubernetes.

mod faults;
mod life;
mod lists;
mod server;
mod watches;
mod writes;

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{FakeCluster, Settings};

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_mins(5);

/// A complete answer.
#[derive(Debug)]
struct Answer {
    code: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("the body is JSON")
    }

    /// Names of the items of a list.
    fn names(&self) -> Vec<String> {
        crate::object::items(&self.json(), "/items")
            .iter()
            .map(|item| crate::object::name(item).to_owned())
            .collect()
    }
}

fn passive() -> FakeCluster {
    FakeCluster::start_with(Settings::passive()).expect("the cluster starts")
}

fn quick() -> FakeCluster {
    FakeCluster::start_with(Settings::quick()).expect("the cluster starts")
}

/// Sends a request on a connection of its own.
async fn open(
    cluster: &FakeCluster,
    method: &str,
    path: &str,
    body: &str,
) -> Result<hyper::Response<Incoming>, String> {
    let address = cluster.server_url().trim_start_matches("http://").to_owned();
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let request = hyper::Request::builder().method(method).uri(path);
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request");
    timeout(PATIENCE, sender.send_request(request))
        .await
        .expect("an answer in time")
        .map_err(|error| error.to_string())
}

async fn try_call(cluster: &FakeCluster, method: &str, path: &str, body: &str) -> Result<Answer, String> {
    let (parts, body) = open(cluster, method, path, body).await?.into_parts();
    let bytes = timeout(PATIENCE, body.collect())
        .await
        .expect("a body in time")
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes.to_bytes().to_vec()).expect("UTF-8");
    Ok(Answer { code: parts.status.as_u16(), text })
}

async fn call(cluster: &FakeCluster, method: &str, path: &str, body: &str) -> Answer {
    try_call(cluster, method, path, body).await.expect("an answer")
}

async fn get(cluster: &FakeCluster, path: &str) -> Answer {
    call(cluster, "GET", path, "").await
}

/// Waits until `find` returns a value.
async fn wait<T>(cluster: &FakeCluster, what: &str, find: impl FnMut(&FakeCluster) -> Option<T>) -> T {
    timeout(PATIENCE, cluster.wait_for(find)).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}
