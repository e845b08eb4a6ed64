//! An admission webhook that answers every eviction with a conflict.
//!
//! A pod that was replaced by another one with its name gives a conflict too; with a webhook the conflict is certain.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use control_plane::{ControlPlane, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const LIMIT: Duration = Duration::from_mins(5);

/// Greatest length of a request, in bytes: more than the API server sends here.
const LONGEST: usize = 1 << 20;

/// A webhook; it serves as long as this exists.
pub(crate) struct Webhook {
    port: u16,
    certificates: Vec<u8>,
    _runtime: Runtime,
}

impl Webhook {
    /// Starts the webhook. No server calls it yet. It uses the API server's own certificate, which is valid for its
    /// address as well.
    pub(crate) fn start(plane: &ControlPlane) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let certificate = &plane.coordinates().certificate;
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let (certificates, key) = (read(certificate)?, read(&certificate.with_extension("key"))?);
        let chain = CertificateDer::pem_slice_iter(&certificates).collect::<Result<_, _>>()?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // If the server has hung up meanwhile, there is no one to answer.
                let acceptor = acceptor.clone();
                tokio::spawn(async move { drop(serve(acceptor, stream).await) });
            }
        });
        Ok(Self { port, certificates, _runtime: runtime })
    }

    /// From now on the API server asks the webhook about all evictions in this namespace.
    pub(crate) fn deny_evictions(&self, plane: &ControlPlane, namespace: &str) -> Result<()> {
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods/eviction"],
        });
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let authority = BASE64_STANDARD.encode(&self.certificates);
        let client = json!({"url": format!("https://127.0.0.1:{}/", self.port), "caBundle": authority});
        plane.apply(&[json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "conflict.rights.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "rules": [rule], "namespaceSelector": here, "clientConfig": client,
            }],
        })])?;
        until_asked(plane, namespace)
    }
}

/// Waits until the server calls the webhook: it learns of webhooks by a watch, a little later.
fn until_asked(plane: &ControlPlane, namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/nobody/eviction?dryRun=All");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "nobody"}}).to_string();
    until("the webhook is asked", LIMIT, || {
        match plane.run_with_input(&["create", "--raw", &path, "-f", "-"], eviction.as_bytes()) {
            Err(error) if format!("{error:#}").contains(CONFLICT) => Ok(Some(())),
            Err(error) => Err(error),
            Ok(answer) => bail!("a pod that does not exist was evicted: {answer}"),
        }
    })
}

/// The webhook's answer.
const CONFLICT: &str = "somebody else was faster";

/// Serves one connection: HTTP/1.1 with bodies of a known length, as the API server sends them.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> Result<()> {
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
        let answer = review(&serde_json::from_slice(&body)?).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.get_mut().write_all(format!("{head}{answer}").as_bytes()).await?;
    }
}

/// The answer to an `AdmissionReview`.
fn review(question: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": question["request"]["uid"], "allowed": false,
            "status": {"code": 409, "message": CONFLICT},
        },
    })
}
