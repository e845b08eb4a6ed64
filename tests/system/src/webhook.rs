//! An admission webhook that gives every eviction of a namespace the same answer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use control_plane::{ControlPlane, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::api::runtime;

const LIMIT: Duration = Duration::from_mins(5);

/// Greatest length of a request, in bytes: more than the API server sends here.
const LONGEST: usize = 1 << 20;

/// A webhook; it serves until this process ends.
#[derive(Debug)]
pub struct Webhook {
    port: u16,
    certificates: Vec<u8>,
    was_asked: Arc<AtomicBool>,
}

impl Webhook {
    /// Starts the webhook with the `response` of its reviews, without a `uid`. No server calls it yet. It uses the API
    /// server's own certificate, which is valid for its address as well.
    pub fn start(plane: &ControlPlane, response: Value) -> Result<Self> {
        let certificate = &plane.coordinates().certificate;
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let (certificates, key) = (read(certificate)?, read(&certificate.with_extension("key"))?);
        let chain = CertificateDer::pem_slice_iter(&certificates).collect::<Result<_, _>>()?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = runtime()?.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        let was_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&was_asked);
        runtime()?.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, asked, response) = (acceptor.clone(), Arc::clone(&asked), response.clone());
                // If the server has hung up meanwhile, there is no one to answer.
                tokio::spawn(async move { drop(serve(acceptor, stream, &asked, response).await) });
            }
        });
        Ok(Self { port, certificates, was_asked })
    }

    /// From now on the API server asks the webhook about all evictions in this namespace. The configuration is a mutating
    /// one, which may deny as well, and is called like the namespace.
    pub fn decide_evictions(&self, plane: &ControlPlane, namespace: &str) -> Result<()> {
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods/eviction"],
        });
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let authority = BASE64_STANDARD.encode(&self.certificates);
        let client = json!({"url": format!("https://127.0.0.1:{}/", self.port), "caBundle": authority});
        plane.apply(&[json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "evictions.system.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "rules": [rule], "namespaceSelector": here, "clientConfig": client,
            }],
        })])?;
        // The server learns of webhooks by a watch, a little later.
        let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction?dryRun=All");
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "nobody"}});
        until("the webhook is asked", LIMIT, || {
            // It fails in any case: there is no such pod.
            drop(
                plane.run_with_input(&["create", "--raw", &path, "-f", "-"], eviction.to_string().as_bytes()),
            );
            Ok(self.was_asked.load(Ordering::SeqCst).then_some(()))
        })
    }

    /// The API server asks no more, at last a little later.
    pub fn leave(plane: &ControlPlane, namespace: &str) -> Result<()> {
        plane.run(&["delete", "mutatingwebhookconfigurations", namespace]).map(drop)
    }
}

/// Serves one connection: HTTP/1.1 with bodies of a known length, as the API server sends them.
async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    was_asked: &AtomicBool,
    mut response: Value,
) -> Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>()?.min(LONGEST);
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let question: Value = serde_json::from_slice(&body)?;
        let uid = question.pointer("/request/uid").context("a review without a uid")?.clone();
        response.as_object_mut().context("a response is an object")?.insert("uid".to_owned(), uid);
        was_asked.store(true, Ordering::SeqCst);
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
        .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.get_mut().write_all(format!("{head}{answer}").as_bytes()).await?;
    }
}
