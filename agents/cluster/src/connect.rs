//! The client: no retries of its own, every call under a deadline, as many connections as needed.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{ClientBuilder, ConfigExt, RustlsTlsError};
use tokio::sync::Semaphore;
use tower::service_fn;
use tower::timeout::TimeoutLayer;
use tower::util::option_layer;

use crate::connections::{Connections, Wish};
use crate::failure::{ApiFailure, classify};
use crate::kubeconfig::{Fingerprint, Origin, Search};
use crate::operation::Operation;
use crate::wire::{CALL_DEADLINE, Cluster, EVICTION_DEADLINE};

/// A TCP connection has to stand within this time.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// A connection that is silent for so long is asked for a sign of life (HTTP/2 PING), and given up when none comes
/// within the same time. Without it a server that hangs would hold all watches for five minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Readings of a kubeconfig under way in this process. One that hangs cannot be given up, only left behind; more than
/// these would pile up threads.
static READING: Semaphore = Semaphore::const_new(8);

/// A way to a cluster, and where it was described.
#[derive(Debug)]
pub struct Connection {
    /// The way.
    pub cluster: Cluster,
    /// Where it was described.
    pub origin: Origin,
    seen: Fingerprint,
}

impl Connection {
    /// The description has changed since, or another one counts now: connect anew. Reads no more than the files'
    /// sizes and times.
    pub fn is_outdated(&self, search: &Search) -> bool {
        search.find().as_ref() != Some(&self.origin) || self.origin.fingerprint() != self.seen
    }
}

/// Finds and reads the kubeconfig and makes a client from it. Nothing is sent yet.
///
/// The client names itself `ebb/<version>`, followed by the suffix if there is one (`ebb/0.1.0 drain`).
///
/// # Errors
/// [`ApiFailure::Unreachable`] for every kubeconfig that is missing, cannot be read or does not make sense; the text
/// names the file.
pub async fn connect(search: &Search, suffix: &str) -> Result<Connection, ApiFailure> {
    let Some(origin) = search.find() else {
        return Err(ApiFailure::unreachable(format!("no kubeconfig found: looked at {}", search.places())));
    };
    let late = || ApiFailure::unreachable(format!("cannot use {origin}: it could not be read within 10 s"));
    let reading = READING.try_acquire().map_err(|_| late())?;
    let seen = origin.fingerprint();
    let (from, context, suffix) = (origin.clone(), search.context.clone(), suffix.to_owned());
    // Reading may hang (a network file system, a credential plugin), and must not hold up a runtime thread.
    let loading = tokio::task::spawn_blocking(move || {
        let cluster = Cluster::from_config(from.load(context.as_deref())?, &suffix);
        drop(reading);
        cluster
    });
    let cluster = tokio::time::timeout(CALL_DEADLINE, loading).await;
    let cluster = cluster.ok().and_then(Result::ok).ok_or_else(late)??;
    Ok(Connection { cluster, origin, seen })
}

impl Cluster {
    /// Makes a client from kube's configuration, with this crate's rules instead of kube's: no retries, no waiting
    /// without end, HTTP/2 where the server has it. Must be called in a tokio runtime.
    pub fn from_config(mut config: Config, suffix: &str) -> Result<Self, ApiFailure> {
        config.headers.push((USER_AGENT, user_agent(suffix)));
        let wish = Wish::default();
        let client = client(&config, wish.clone())
            .map_err(|error| classify(&Operation::on_cluster("connect", "to the cluster", ""), &error))?;
        let server = config.cluster_url.authority().map_or("", |server| host_and_port(server.as_str()));
        Ok(Self::at(client, server, wish))
    }
}

/// Without a user and password that somebody may have put before it.
fn host_and_port(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, server)| server)
}

fn user_agent(suffix: &str) -> HeaderValue {
    const NAME: &str = concat!("ebb/", env!("CARGO_PKG_VERSION"));
    let long = HeaderValue::from_str(format!("{NAME} {suffix}").trim_end());
    long.unwrap_or_else(|_| HeaderValue::from_static(NAME))
}

/// kube's own stack (`ClientBuilder::try_from`) speaks only HTTP/1, so a connection per eviction in flight, and
/// repeats refused evictions.
fn client(config: &Config, wish: Wish) -> Result<kube::Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_DEADLINE));
    let mut https =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName);
        let resolver = FixedServerNameResolver::new(name.map_err(kube::Error::RustlsTls)?);
        https = https.with_server_name_resolver(resolver);
    }
    let https = https.enable_http1().enable_http2().wrap_connector(tcp);
    let one = move || {
        hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(SIGN_OF_LIFE)
            .http2_keep_alive_timeout(SIGN_OF_LIFE)
            .http2_keep_alive_while_idle(true)
            .http2_adaptive_window(true)
            .build(https.clone())
    };
    let connections = Connections::new(one, wish);
    let service = service_fn(move |request| connections.clone().send(request));
    Ok(ClientBuilder::new(service, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        // Calls have deadlines of their own; this one is for kube-runtime's watches, which have none for the
        // beginning of an answer.
        .with_layer(&TimeoutLayer::new(EVICTION_DEADLINE))
        .with_layer(&config.base_uri_layer())
        .build())
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
