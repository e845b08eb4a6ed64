//! Tests the HTTP side: both protocols, limits, tokens.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::SignedDuration;
use jiff::fmt::rfc2822::DateTimeParser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{call, get, passive};
use crate::object::text;
use crate::{FakeCluster, Settings, Time};

#[tokio::test]
async fn http_2_without_tls_works_too() {
    let cluster = passive();
    let stream =
        TcpStream::connect(cluster.server_url().trim_start_matches("http://")).await.expect("a connection");
    let (mut sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    let uri = format!("{}/api/v1/namespaces", cluster.server_url());
    for _ in 0..2 {
        let request = hyper::Request::get(&uri).body(Full::default()).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        assert!(body.starts_with(br#"{"kind":"NamespaceList""#));
    }
}

#[tokio::test]
async fn tokens() {
    let cluster = passive();
    for (header, code) in [
        ("", 200),
        ("|authorization: Bearer fake-cluster", 200),
        ("|authorization: Bearer other", 401),
        ("|authorization: Basic ZmFrZQ==", 401),
    ] {
        let answer = get(&cluster, &format!("/api/v1/nodes{header}")).await;
        assert_eq!(answer.code, code, "{header}");
        assert_eq!(code == 401, text(&answer.json(), "/reason") == "Unauthorized");
    }
}

#[tokio::test]
async fn the_date_is_the_clusters() {
    let date = async |cluster: &FakeCluster| {
        let answer = get(cluster, "/readyz").await;
        DateTimeParser::new().parse_timestamp(answer.header("date").expect("a date")).expect("a time")
    };
    let start = |clock_ahead| {
        let settings = Settings { time: Time::Manual, clock_ahead, ..Settings::passive() };
        FakeCluster::start_with(settings).expect("the cluster starts")
    };
    let (behind, ahead) = (start(SignedDuration::from_hours(-9)), start(SignedDuration::from_hours(9)));
    let (first, second) = (date(&behind).await, date(&ahead).await);
    assert_eq!(second.duration_since(first).as_hours(), 18);
    behind.advance(Duration::from_mins(7));
    assert_eq!(date(&behind).await.duration_since(first), SignedDuration::from_mins(7));
}

#[tokio::test]
async fn a_body_that_is_too_long() {
    let cluster = passive();
    let body = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(3 * 1024 * 1024));
    let refused = call(&cluster, "POST", "/api/v1/nodes", &body).await;
    assert_eq!((refused.code, text(&refused.json(), "/reason")), (413, "RequestEntityTooLarge"));
}

#[tokio::test]
async fn methods_and_odd_urls() {
    let cluster = passive();
    for (method, path, code) in [
        ("OPTIONS", "/api/v1/nodes", 405),
        ("HEAD", "/api/v1/nodes", 405),
        ("POST", "/readyz", 404),
        ("GET", "/api/v1/nodes?fieldSelector=%zz", 400),
        ("GET", "/api/v1/nodes/%ff%fe", 404),
        ("GET", "/api/v1/nodes?labelSelector=%", 200),
        ("GET", "/api/v1//pods", 404),
        ("GET", "/api/v1/namespaces//pods", 404),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/log", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/b/c", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/eviction", 405),
        ("POST", "/api/v1/nodes/edge-a/status", 405),
        ("GET", "/apis/storage.k8s.io/v1/csidrivers/x/status", 404),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/namespaces/default/pods/b", 405),
        ("DELETE", "/api/v1/nodes", 405),
        ("POST", "/api/v1/nodes/edge-a/eviction", 404),
    ] {
        assert_eq!(call(&cluster, method, path, "").await.code, code, "{method} {path}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_cut_off() {
    let cluster = passive();
    let mut stream =
        TcpStream::connect(cluster.server_url().trim_start_matches("http://")).await.expect("a connection");
    stream.write_all(b"\x00\x01 nonsense\r\n\r\n").await.expect("it is sent");
    let mut answer = Vec::new();
    // Either an answer of 400 or a closed connection; never a hang.
    drop(tokio::time::timeout(super::PATIENCE, stream.read_to_end(&mut answer)).await.expect("an end"));
    assert_eq!(get(&cluster, "/readyz").await.code, 200);
}

#[tokio::test]
async fn more_connections_than_allowed_wait() {
    let cluster =
        FakeCluster::start_with(Settings { max_connections: 1, ..Settings::passive() }).expect("it starts");
    let address = cluster.server_url().trim_start_matches("http://").to_owned();
    let first = TcpStream::connect(&address).await.expect("a connection");
    let second = get(&cluster, "/readyz");
    let freed = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    let (answer, ()) = futures::future::join(second, freed).await;
    assert_eq!(answer.code, 200);
}

#[test]
fn a_cluster_works_without_any_runtime() {
    let (one, other) = (passive(), passive());
    assert_ne!(one.server_url(), other.server_url());
    let config = one.kubeconfig();
    assert!(config.contains(&one.server_url()) && config.contains("\"token\": \"fake-cluster\""), "{config}");
}
