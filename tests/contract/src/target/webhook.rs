//! An admission webhook for evictions, as KubeVirt has one. It runs in this process, and the real server calls it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::ControlPlane;
use fake_cluster::{Effect, Fault, Reply};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Server, Target, lock};

/// KubeVirt's name for its webhook for evictions.
pub const WEBHOOK: &str = "virt-launcher-eviction-interceptor.kubevirt.io";

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A running webhook; it serves as long as the runtime exists.
#[derive(Debug)]
pub(super) struct Webhook {
    answer: watch::Sender<Option<Value>>,
    called: Arc<Notify>,
}

impl Webhook {
    /// Sets the answer to later calls, and to those that wait.
    pub(super) fn answer(&self, response: Value) {
        self.answer.send_replace(Some(response));
    }

    /// Waits until the server calls the webhook, or has called it already.
    pub(super) async fn was_called(&self) {
        self.called.notified().await;
    }
}

impl Target {
    /// From now on the webhook [`WEBHOOK`] denies all evictions in this namespace with this code and text. The fake
    /// knows no webhooks, so it gets a rule.
    pub async fn deny_evictions(&self, namespace: &str, code: u16, text: &str) -> Result<()> {
        if let Server::Fake(fake) = &self.server {
            let denial = Effect::Answer(Reply::webhook_denial(code, WEBHOOK, text));
            fake.faults().add(Fault::on("create", "pods/eviction", denial).in_namespace(namespace).always());
            return Ok(());
        }
        let denial = json!({"allowed": false, "status": {"code": code, "message": text}});
        self.webhook(namespace, Some(denial)).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction?dryRun=All");
        // The server learns of webhooks by a watch, a little later: evictions are sent until it knows.
        loop {
            let reply = self.admin().await?.post(&path, &json!({"metadata": {"name": "nobody"}})).await?;
            if reply.code == code {
                return Ok(());
            }
            ensure!(reply.code == 404, "the server answered {}: {}", reply.code, reply.body);
        }
    }

    /// Removes the webhook.
    pub async fn allow_evictions(&self, namespace: &str) -> Result<()> {
        if let Server::Fake(fake) = &self.server {
            fake.faults().clear();
            return Ok(());
        }
        let path = format!("{CONFIGURATIONS}/{namespace}");
        self.admin().await?.delete(&path, &json!({})).await?.object().map(drop)
    }

    /// A webhook of the real server for evictions in this namespace. Without a response it lets the server wait until
    /// it gets one, for 30 s at most.
    pub(super) async fn webhook(&self, namespace: &str, response: Option<Value>) -> Result<Webhook> {
        let pair = match &self.server {
            Server::Fake(_) => bail!("the fake calls no webhooks"),
            Server::Shared(plane) => key_pair(plane)?,
            Server::Own(plane) => key_pair(&lock(plane))?,
        };
        let webhook = Webhook { answer: watch::Sender::new(response), called: Arc::default() };
        let port = serve(&pair, &webhook).await?;
        let configuration = configuration(namespace, port, &pair.certificates);
        self.admin().await?.post(CONFIGURATIONS, &configuration).await?.object()?;
        Ok(webhook)
    }
}

/// Certificates and key, as PEM texts.
struct KeyPair {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

/// The API server's own serving certificate: it is also valid for the webhook's address, so no other is needed.
fn key_pair(plane: &ControlPlane) -> Result<KeyPair> {
    let certificate = &plane.coordinates().certificate;
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(KeyPair { certificates: read(certificate)?, key: read(&certificate.with_extension("key"))? })
}

fn configuration(namespace: &str, port: u16, authority: &[u8]) -> Value {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"],
    });
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let client = json!({"url": format!("https://127.0.0.1:{port}/"), "caBundle": STANDARD.encode(authority)});
    json!({"metadata": {"name": namespace}, "webhooks": [{
        "name": WEBHOOK, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "timeoutSeconds": 30, "rules": [rule], "namespaceSelector": here, "clientConfig": client,
    }]})
}

/// Starts to serve; returns the port.
async fn serve(pair: &KeyPair, webhook: &Webhook) -> Result<u16> {
    let certificates = CertificateDer::pem_slice_iter(&pair.certificates).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&pair.key)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let (answer, called) = (webhook.answer.subscribe(), Arc::clone(&webhook.called));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(acceptor.clone(), stream, answer.clone(), Arc::clone(&called)));
        }
    });
    Ok(port)
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    answer: watch::Receiver<Option<Value>>,
    called: Arc<Notify>,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let answer = service_fn(move |request| review(request, answer.clone(), Arc::clone(&called)));
    // If the server has hung up meanwhile, there is no one to answer.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
}

/// Answers an `AdmissionReview`.
async fn review(
    request: Request<Incoming>,
    mut answer: watch::Receiver<Option<Value>>,
    called: Arc<Notify>,
) -> Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    called.notify_one();
    let question: Value = serde_json::from_slice(&body)?;
    let uid = question.pointer("/request/uid").context("a review without a uid")?.clone();
    // Waits for the answer; it never comes when the test has ended.
    let mut response = answer.wait_for(Option::is_some).await?.clone().unwrap_or_default();
    response.as_object_mut().context("a response is an object")?.insert("uid".to_owned(), uid);
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
