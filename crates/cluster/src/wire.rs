//! The connection to one cluster. All calls are made here.
//!
//! An object counts as missing only if a Status names it: any proxy in between can answer 404.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use drain::Moment;
use http::header::{DATE, HeaderMap};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bounds::{CALL_DEADLINE, LONGEST_ANSWER, LONGEST_ERROR, LONGEST_OBJECT, PAGE, TooLong};
use crate::clock::boot_time;
use crate::daemon_sets::DaemonSets;
use crate::failure::{ApiFailure, classify, json_text, refused, tls_error, words};
use crate::operation::Operation;
use crate::pace::{Kind, Pace, retry_after};
use crate::validity::Validity;

/// A connection to one cluster. Cheap to clone; all clones share the facts that were learned about the server.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    /// Objects per page of a list; 0 = all at once.
    page: u32,
    pace: Pace,
    is_at_leisure: bool,
}

struct Shared {
    client: kube::Client,
    /// Host and port, for messages; empty when not known.
    server: String,
    server_clock: ServerClock,
    daemon_sets: DaemonSets,
    /// True if one side has refused the other's credentials.
    refused: AtomicBool,
    /// End of our credentials.
    validity: Option<Validity>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Uses this client and only its connections. hyper's pool has one connection to an HTTP/2 server; the watches of
    /// about a dozen simultaneous drains take all its streams, and then no call is answered any more. For more drains at
    /// a time use [`Cluster::from_config`], which opens as many connections as it needs. The client has to be made with
    /// `default_retry = false`, as [`crate::connect()`] does: otherwise kube itself repeats refused evictions for
    /// minutes, and a budget's refusal is never seen.
    pub fn new(client: kube::Client) -> Self {
        Self::at(client, "", None)
    }

    /// Creates it with the server's host and port, for messages about outages, and the end of our credentials.
    pub(crate) fn at(client: kube::Client, server: &str, validity: Option<Validity>) -> Self {
        let shared = Shared {
            client,
            server: server.to_owned(),
            server_clock: ServerClock::default(),
            daemon_sets: DaemonSets::default(),
            refused: AtomicBool::new(false),
            validity,
        };
        Self { shared: Arc::new(shared), page: PAGE, pace: Pace::default(), is_at_leisure: false }
    }

    /// Lists this many objects at a time (`--chunk-size` of kubectl), 500 by default; 0 = all at once. The watches of a
    /// [`crate::Informer`] always use 500.
    #[must_use]
    pub fn with_page(self, chunk: u32) -> Self {
        Self { page: chunk, ..self }
    }

    /// Paces the requests by this. An agent keeps one [`Pace`] over all its connections.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// For calls on which no decision depends: the others of an agent do not wait for them.
    pub(crate) fn at_leisure(&self) -> Self {
        Self { is_at_leisure: true, ..self.clone() }
    }

    /// The client, for watches and for calls that this crate does not make.
    pub fn client(&self) -> &kube::Client {
        &self.shared.client
    }

    /// The API server's wall clock now, estimated from the last answer's `Date` header; `None` before the first answer.
    /// It is late by up to a second and never early, because the header has no fractions.
    pub fn server_time(&self) -> Option<Timestamp> {
        self.shared.server_clock.at(boot_time())
    }

    /// True if the server has refused our credentials (401), or we its certificate: they have to be read again.
    pub(crate) fn is_refused(&self) -> bool {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The end of our credentials, if it is known.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.shared.validity
    }

    pub(crate) fn page(&self) -> u32 {
        self.page
    }

    pub(crate) fn daemon_sets(&self) -> &DaemonSets {
        &self.shared.daemon_sets
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Reads one object; `None` only if an API server itself says that no object has this name.
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Option<T>, ApiFailure> {
        let reply = self.call(operation, request, CALL_DEADLINE).await?;
        match reply.object(operation) {
            Ok(found) => Ok(Some(found)),
            Err(ApiFailure::NotFound { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes a call and reads the object in its answer.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        operation: &Operation<'_>,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ApiFailure> {
        self.call(operation, request, CALL_DEADLINE).await?.object(operation)
    }

    /// Makes a call. Any answer within the deadline is a reply, everything else is a failure. Dropping the future ends
    /// the call.
    pub(crate) async fn call(
        &self,
        operation: &Operation<'_>,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        deadline: Duration,
    ) -> Result<Reply, ApiFailure> {
        let request = self.admitted(operation, request).await?;
        self.send(operation, request, deadline).await
    }

    /// Waits until the request may be sent, which is no part of its deadline.
    pub(crate) async fn admitted(
        &self,
        operation: &Operation<'_>,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Request<Body>, ApiFailure> {
        let request = request.map_err(|error| classify(operation, &kube::Error::BuildRequest(error)))?;
        self.pace.admit(self.kind(operation, &request)).await;
        Ok(request.map(Body::from))
    }

    /// Sends a request that may be sent.
    pub(crate) async fn send(
        &self,
        operation: &Operation<'_>,
        request: Request<Body>,
        deadline: Duration,
    ) -> Result<Reply, ApiFailure> {
        let reply = tokio::time::timeout(deadline, self.exchange(operation, request)).await;
        let reply = reply.unwrap_or_else(|_| {
            let seconds = deadline.as_secs();
            Err(ApiFailure::unreachable(format!("cannot {operation}: no answer within {seconds} s")))
        });
        reply.map_err(|failure| self.name_the_server(failure))
    }

    /// What this request counts as.
    fn kind<B>(&self, operation: &Operation<'_>, request: &Request<B>) -> Kind {
        match (operation.verb, operation.resource) {
            ("create", "pods/eviction") | ("delete", "pods") => Kind::Free,
            ("get", "persistentvolumeclaims" | "persistentvolumes" | "csidrivers" | "daemonsets") => {
                Kind::Once(operation.to_string())
            }
            _ if is_next_page(request) => Kind::Free,
            _ if self.is_at_leisure => Kind::Leisure,
            _ => Kind::Call,
        }
    }

    /// Adds the server's address to a failure, because a person needs to know which server does not answer.
    fn name_the_server(&self, failure: ApiFailure) -> ApiFailure {
        match failure {
            ApiFailure::Unreachable { text } if !self.shared.server.is_empty() => {
                ApiFailure::unreachable(format!("{text} (API server {})", self.shared.server))
            }
            failure @ (ApiFailure::Unreachable { .. }
            | ApiFailure::Denied { .. }
            | ApiFailure::NotFound { .. }
            | ApiFailure::Conflict { .. }
            | ApiFailure::Busy { .. }
            | ApiFailure::Other { .. }) => failure,
        }
    }

    async fn exchange(&self, operation: &Operation<'_>, request: Request<Body>) -> Result<Reply, ApiFailure> {
        let response = self.shared.client.send(request).await.map_err(|error| {
            if tls_error(&error).is_some() {
                self.shared.refused.store(true, Ordering::Relaxed);
            }
            classify(operation, &error)
        })?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::UNAUTHORIZED {
            self.shared.refused.store(true, Ordering::Relaxed);
        }
        let limit = match head.status.is_success() {
            false => LONGEST_ERROR,
            true if operation.name.is_empty() => LONGEST_ANSWER,
            true => LONGEST_OBJECT,
        };
        let (body, is_too_long) = match Limited::new(body, limit).collect().await {
            Ok(body) => (Vec::from(body.to_bytes()), false),
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => return Err(classify(operation, &error)),
                Err(_) => (Vec::new(), true),
            },
        };
        self.shared.server_clock.learn(&head.headers, boot_time());
        // The refusal of a budget has a `Retry-After` too, and says nothing about the server.
        if operation.resource != "pods/eviction" {
            self.pace.note(head.status, &head.headers);
        }
        let retry_after = retry_after(&head.headers);
        Ok(Reply { status: head.status, retry_after, body, is_too_long })
    }
}

/// An answer of the server, of any status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    /// Empty if it was too long.
    pub(crate) body: Vec<u8>,
    is_too_long: bool,
}

/// What is read of an error: it may hold anything besides.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorStatus {
    kind: String,
    reason: String,
    message: Option<String>,
    details: ErrorDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDetails {
    kind: String,
    name: String,
}

impl Reply {
    /// The object, or the failure. An object counts as missing only if an API server's Status names it: a 404 from
    /// anything else (a proxy, a load balancer, an API server that is starting) does not count.
    pub(crate) fn object<T: DeserializeOwned>(&self, operation: &Operation<'_>) -> Result<T, ApiFailure> {
        let is_about_one = !operation.name.is_empty();
        if self.status == StatusCode::NOT_FOUND && is_about_one && !self.says_missing(operation) {
            return Err(ApiFailure::other(format!(
                "cannot {operation}: the answer is 404, but not an API server's word that it does not exist: {}",
                words(&self.message())
            )));
        }
        if !self.status.is_success() {
            return Err(refused(operation, self.status.as_u16(), &self.message()));
        }
        if self.is_too_long {
            return Err(ApiFailure::other(format!("cannot {operation}: {TooLong}")));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiFailure::other(format!("cannot {operation}: {}", json_text(&error))))
    }

    /// True if the answer is an API server's Status that names this very object as missing.
    pub(crate) fn says_missing(&self, operation: &Operation<'_>) -> bool {
        let Ok(status) = serde_json::from_slice::<ErrorStatus>(&self.body) else { return false };
        self.status == StatusCode::NOT_FOUND
            && (status.kind.as_str(), status.reason.as_str()) == ("Status", "NotFound")
            && status.details.kind == operation.resource
            && status.details.name == operation.name
    }

    /// True if a page of a list was too long: a shorter one may not be.
    pub(crate) fn is_too_long(&self) -> bool {
        self.is_too_long && self.status.is_success()
    }

    /// True if the server has forgotten the requested version (410).
    pub(crate) fn is_expired(&self) -> bool {
        self.status == StatusCode::GONE
    }

    /// The body as text.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The server's message: that of a Status, otherwise the body.
    fn message(&self) -> String {
        if self.is_too_long {
            return "its text is longer than 1 MiB".to_owned();
        }
        let status: Option<ErrorStatus> = serde_json::from_slice(&self.body).ok();
        status.and_then(|status| status.message).unwrap_or_else(|| self.text().into_owned())
    }
}

/// True if the request is for a page of a list after the first.
pub(crate) fn is_next_page<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair.starts_with("continue="))
}

/// The difference between the server's wall clock and our boot clock.
///
/// Our own wall clock may be years off until NTP answers, and all times in objects are by the server's clock.
#[derive(Debug)]
struct ServerClock {
    /// Milliseconds since 1970 at our boot, by the server's clock; [`Self::UNKNOWN`] before the first answer.
    at_boot: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self { at_boot: AtomicI64::new(Self::UNKNOWN) }
    }
}

impl ServerClock {
    const UNKNOWN: i64 = i64::MIN;

    fn learn(&self, headers: &HeaderMap, now: Moment) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else {
            return;
        };
        let Ok(boot) = i64::try_from(now.0) else {
            return;
        };
        self.at_boot.store(date.as_millisecond().saturating_sub(boot), Ordering::Relaxed);
    }

    fn at(&self, now: Moment) -> Option<Timestamp> {
        let at_boot = self.at_boot.load(Ordering::Relaxed);
        if at_boot == Self::UNKNOWN {
            return None;
        }
        Timestamp::from_millisecond(at_boot.saturating_add(i64::try_from(now.0).ok()?)).ok()
    }
}

#[cfg(test)]
mod tests;
