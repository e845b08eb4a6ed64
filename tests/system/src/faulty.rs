//! A server between one device and the API server. It answers some requests with errors, as a busy, broken or
//! half-configured server would, or a proxy in front of it.

use std::convert::Infallible;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::api::runtime;

/// The answer that replaces the API server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The status code.
    pub code: u16,
    /// Percentage of the requests that get this answer.
    pub percent: u64,
    /// The answer is plain text, as from a proxy; otherwise a `Status`, as from the API server.
    pub is_plain: bool,
    /// Seconds in the header `Retry-After` of an answer 429 or 503.
    pub retry_after: u32,
}

/// Forwards requests with the credentials of one kubeconfig. Dropping it ends the server.
#[derive(Debug)]
pub struct FaultyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Counts how often all connections were broken.
    breaks: watch::Sender<u64>,
}

struct Shared {
    client: Client,
    fault: Mutex<Option<Fault>>,
    /// Counts requests, to choose the ones that fail.
    requests: AtomicU64,
    refused: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("fault", &self.fault).finish_non_exhaustive()
    }
}

impl FaultyServer {
    /// Starts to forward.
    pub fn start(kubeconfig: &Path) -> Result<Self> {
        let (listener, client) = runtime()?.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let mut config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            // A watch lasts for minutes.
            config.read_timeout = None;
            config.default_retry = false;
            anyhow::Ok((TcpListener::bind("127.0.0.1:0").await?, Client::try_from(config)?))
        })?;
        let address = listener.local_addr()?;
        let (requests, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { client, fault: Mutex::new(None), requests, refused });
        let (breaks, follow) = watch::channel(0);
        let accepted = Arc::clone(&shared);
        runtime()?.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if follow.has_changed().is_err() {
                    return;
                }
                tokio::spawn(connection(stream, Arc::clone(&accepted), follow.clone()));
            }
        });
        Ok(Self { address, shared, breaks })
    }

    /// Sets the answer to requests from now on. Open watches break.
    pub fn set(&self, fault: Option<Fault>) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        if fault.is_some() {
            self.breaks.send_modify(|breaks| *breaks += 1);
        }
    }

    /// Number of requests so far that got a fault as their answer.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Writes a kubeconfig for this server. It contains no secret: every client of this server has the rights of
    /// zedkube.
    pub fn kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "faulty",
            "clusters": [{"name": "faulty", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "faulty", "context": {"cluster": "faulty", "user": "faulty"}}],
            "users": [{"name": "faulty", "user": {}}],
        });
        let path = folder.join(format!("faulty-{}", self.address.port()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(&config)?)?;
        Ok(path)
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, mut breaks: watch::Receiver<u64>) {
    // Without this option the connection is only slower.
    drop(stream.set_nodelay(true));
    breaks.mark_unchanged();
    let service = hyper::service::service_fn(move |request| answer(Arc::clone(&shared), request));
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A killed device leaves its connection open.
        served = serving => drop(served),
        _ = breaks.changed() => {}
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let fault = *shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    // 37 and 100 have no common divisor: so any percentage is spread evenly over 100 requests.
    if let Some(fault) = fault.filter(|fault| number * 37 % 100 < fault.percent) {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        return Ok(refusal(fault));
    }
    Ok(forward(&shared.client, request).await.unwrap_or_else(|_| {
        let code = StatusCode::BAD_GATEWAY.as_u16();
        refusal(Fault { code, percent: 100, is_plain: true, retry_after: 0 })
    }))
}

async fn forward(client: &Client, request: Request<Incoming>) -> Result<Response<Body>> {
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    head.headers.remove(http::header::HOST);
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    head.version = http::Version::HTTP_11;
    Ok(client.send(Request::from_parts(head, Body::from(body))).await?)
}

fn refusal(fault: Fault) -> Response<Body> {
    let code = StatusCode::from_u16(fault.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let reason = code.canonical_reason().unwrap_or_default();
    let (kind, body) = if fault.is_plain {
        ("text/plain", format!("{} {reason}\n", fault.code))
    } else {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": fault.code,
            "message": format!("a fault of the test: {reason}"), "reason": reason.replace(' ', ""),
        });
        ("application/json", status.to_string())
    };
    let mut answer = Response::new(Body::from(body.into_bytes()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    if matches!(fault.code, 429 | 503) {
        answer.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from(fault.retry_after));
    }
    answer
}
