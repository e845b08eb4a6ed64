//! Tests HTTP/2: without TLS our clients speak HTTP/1.1, so no other test speaks it with the fake.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::passive;

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
