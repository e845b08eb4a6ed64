//! Makes the client: no retries of its own, a deadline for every call, as many connections as needed.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drain::Moment;
use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{ClientBuilder, ConfigExt, RustlsTlsError};
use tokio::sync::Semaphore;
use tower::filter::AsyncFilterLayer;
use tower::service_fn;
use tower::timeout::TimeoutLayer;
use tower::util::option_layer;

use crate::bound_token::TokenFile;
use crate::bounds::{CALL_DEADLINE, EVICTION_DEADLINE};
use crate::clock::boot_time;
use crate::connections::Connections;
use crate::credentials::{self, Tokens};
use crate::exec_plugin;
use crate::failure::{ApiFailure, classify, words};
use crate::kubeconfig::{Description, Fingerprint, Origin, Search};
use crate::operation::Operation;
use crate::pace::LONGEST_PAGE;
use crate::pinned::Pinned;
use crate::validity::{self, Validity};
use crate::wire::Cluster;

/// Time limit for a TCP connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for the beginning of an answer. It is for kube-runtime's lists and watches, which have no deadline of
/// their own. All other calls have a shorter deadline, and a better error text.
const ANSWER_DEADLINE: Duration = Duration::from_secs(65);

const _: () = assert!(
    ANSWER_DEADLINE.as_secs() > EVICTION_DEADLINE.as_secs()
        && ANSWER_DEADLINE.as_secs() > LONGEST_PAGE.as_secs(),
    "a call is cut before its own deadline"
);

/// A connection that is silent for this long is asked for a sign of life (HTTP/2 PING), and closed if none comes within
/// the same time. Otherwise a server that hangs would hold all watches for five minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Limits how many readings of a kubeconfig's files run at a time in this process. A reading that hangs (a network file
/// system) cannot be ended, only abandoned, and more of them would fill the process with threads. Credential plugins
/// are not among them.
static READING: Semaphore = Semaphore::const_new(8);

/// A client of a cluster, and the kubeconfig that describes it.
#[derive(Debug)]
pub struct Connection {
    /// The client.
    pub cluster: Cluster,
    /// The kubeconfig.
    pub origin: Origin,
    /// The file of the token, if the token is from a file.
    pub token_file: Option<TokenFile>,
    seen: Fingerprint,
    made: Moment,
    /// The end of a client certificate that a plugin gave.
    ends: Moment,
}

/// Shortest time between two connects after the server has refused our credentials, or we its certificate.
const ANEW: Duration = Duration::from_secs(10);

impl Connection {
    /// True if a new connection is needed: the kubeconfig or a file that it names has changed, another kubeconfig has
    /// precedence now, or one side has refused the other's credentials, which may have been replaced meanwhile. Reads
    /// only sizes and times of files.
    pub fn is_outdated(&self, search: &Search) -> bool {
        self.is_outdated_at(search, boot_time())
    }

    fn is_outdated_at(&self, search: &Search, now: Moment) -> bool {
        search.find().as_ref() != Some(&self.origin)
            || self.seen.has_changed()
            || self.ends <= now
            || (self.cluster.is_refused() && now >= self.made + ANEW)
    }
}

/// Finds and loads the kubeconfig and makes a client from it. No call is made yet.
///
/// The client's name is `ebb/<version>`, followed by the suffix if there is one (`ebb/0.1.0 drain`).
///
/// # Errors
/// [`ApiFailure::Unreachable`] for every kubeconfig that is missing, cannot be read or is not valid; the text names the
/// file.
pub async fn connect(search: &Search, suffix: &str) -> Result<Connection, ApiFailure> {
    let Some(origin) = search.find() else {
        return Err(ApiFailure::unreachable(format!("no kubeconfig found: looked at {}", search.places())));
    };
    let late = || ApiFailure::unreachable(format!("cannot use {origin}: it could not be read within 10 s"));
    let reading = READING.try_acquire().map_err(|_| late())?;
    let (from, overrides, trust) = (origin.clone(), search.overrides.clone(), search.trust);
    // Reading may hang (a network file system), and must not hold up a runtime thread.
    let loading = tokio::task::spawn_blocking(move || {
        let description = from.load(&overrides, trust);
        drop(reading);
        description
    });
    let description = tokio::time::timeout(CALL_DEADLINE, loading).await;
    let Description { mut config, tokens, seen } =
        description.ok().and_then(Result::ok).ok_or_else(late)??;
    let made = boot_time();
    let cannot = |why: String| ApiFailure::unreachable(format!("cannot use {origin}: {}", words(&why)));
    // Credentials from a plugin are renewed by it, so their end is no problem.
    let is_renewed = matches!(tokens, credentials::Origin::Plugin(..));
    let token_file = match &tokens {
        credentials::Origin::File(path, trust) => Some(TokenFile { path: path.clone(), trust: *trust }),
        credentials::Origin::Fixed | credentials::Origin::Plugin(..) => None,
    };
    let (tokens, ends) = begin(&mut config, tokens, made).await.map_err(cannot)?;
    let validity = if is_renewed { None } else { validity_of(&config, tokens.as_ref()).await };
    let cluster = Cluster::made(config, tokens, validity, suffix);
    let cluster = cluster.map_err(|failure| cannot(failure.text().to_owned()))?;
    Ok(Connection { cluster, origin, token_file, seen, made, ends })
}

/// The earliest end of our credentials.
async fn validity_of(config: &Config, tokens: Option<&Tokens>) -> Option<Validity> {
    let token = match tokens {
        Some(tokens) => tokens.header().await.ok().flatten(),
        None => None,
    };
    let token =
        token.as_ref().and_then(|header| validity::of_token(header.to_str().ok()?.strip_prefix("Bearer ")?));
    validity::of_user(&config.auth_info).into_iter().chain(token).min_by_key(|validity| validity.ends)
}

/// Gets the first token or certificate, so that a kubeconfig that cannot work is reported at once. Returns the end of a
/// certificate.
async fn begin(
    config: &mut Config,
    origin: credentials::Origin,
    now: Moment,
) -> Result<(Option<Tokens>, Moment), String> {
    let first = match &origin {
        credentials::Origin::Plugin(exec, trust) => {
            Some(exec_plugin::run(exec, *trust, exec_plugin::LIMIT).await?)
        }
        credentials::Origin::Fixed | credentials::Origin::File(..) => None,
    };
    let tokens = Tokens::of(origin, boot_time);
    let Some(first) = first else {
        if let Some(tokens) = &tokens {
            tokens.header().await.map_err(|why| why.to_string())?;
        }
        return Ok((tokens, Moment::NEVER));
    };
    if let Some(tokens) = &tokens {
        tokens.take(&first).await.map_err(|why| why.to_string())?;
    }
    let mut ends = Moment::NEVER;
    if let Some((certificate, key)) = first.certificate {
        config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
        config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        ends = first.lifetime.map_or(Moment::NEVER, |lifetime| now + lifetime.max(ANEW));
    }
    Ok((tokens.filter(|_| first.token.is_some()), ends))
}

impl Cluster {
    /// Makes a client from kube's configuration, with this crate's rules instead of kube's: no retries, a deadline for
    /// each call, HTTP/2 if the server has it. Has to be called in a tokio runtime.
    pub fn from_config(config: Config, suffix: &str) -> Result<Self, ApiFailure> {
        let validity = validity::of_user(&config.auth_info);
        Self::made(config, None, validity, suffix)
    }

    fn made(
        mut config: Config,
        tokens: Option<Tokens>,
        validity: Option<Validity>,
        suffix: &str,
    ) -> Result<Self, ApiFailure> {
        config.headers.push((USER_AGENT, user_agent(suffix)));
        let client = client(&config, tokens)
            .map_err(|error| classify(&Operation::on_cluster("connect", "to the cluster", ""), &error))?;
        let server = config.cluster_url.authority().map_or("", |server| host_and_port(server.as_str()));
        Ok(Self::at(client, server, validity))
    }
}

/// Host and port, without a user and password that may stand before them.
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
fn client(config: &Config, tokens: Option<Tokens>) -> Result<kube::Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_DEADLINE));
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls(config)?).https_or_http();
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
    let connections = Connections::new(one);
    let service = service_fn(move |request| connections.clone().send(request));
    Ok(ClientBuilder::new(service, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&option_layer(tokens.map(AsyncFilterLayer::new)))
        .with_layer(&TimeoutLayer::new(ANSWER_DEADLINE))
        .with_layer(&config.base_uri_layer())
        .build())
}

/// kube's TLS, which also trusts a certificate that is itself given. A pod's roots are read again and again by kube.
fn tls(config: &Config) -> Result<rustls::ClientConfig, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    let roots = config.root_cert.as_ref().filter(|_| !config.accept_invalid_certs);
    if let Some(roots) = roots.filter(|_| config.root_cert_file.is_none()) {
        let pinned = Pinned::new(roots)
            .map_err(|error| kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(Box::new(error))))?;
        tls.dangerous().set_certificate_verifier(Arc::new(pinned));
    }
    Ok(tls)
}

#[cfg(test)]
mod tests;
