//! Connections to one API server: as many as the requests in flight need.
//!
//! An HTTP/2 server allows a limited number of streams on a connection at a time (kube-apiserver 100), and a further
//! request waits until another one ends. A watch never ends: once watches have taken all streams of the one connection
//! that hyper's pool opens, every call waits for ever. So here each connection takes fewer requests than a server has to
//! allow, the next request gets another connection, and watches never share a connection with calls: however few streams
//! a server allows, a call only waits for other calls, and each of those has a deadline.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drain::Moment;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::Body;
use tower::BoxError;

use crate::clock::boot_time;

/// Most requests on one connection at a time. HTTP/2 recommends that servers allow at least 100 (RFC 9113, 6.5.2);
/// kube-apiserver allows 100.
const STREAMS: usize = 64;

/// How long other requests wait for the first one, which opens the connection. Without this wait each request of a burst
/// would make its own TLS handshake, and all but one would be useless.
const GREETING: Duration = Duration::from_secs(1);

/// A watch without an answer for this long may be waiting for a stream: its connection takes no more requests.
const UNANSWERED: Duration = Duration::from_secs(10);

/// The part of hyper that makes one connection.
type Connector = Client<HttpsConnector<HttpConnector>, Body>;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, hyper::Error>;

/// The connections to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    /// Each has its own pool, so with HTTP/2 it has one connection.
    new: Box<dyn Fn() -> Connector + Send + Sync>,
    watches: Mutex<Vec<Arc<Lane>>>,
    calls: Mutex<Vec<Arc<Lane>>>,
}

/// One connection if the server has HTTP/2, otherwise one for each request in flight.
struct Lane {
    connector: Connector,
    /// Number of requests in flight: from sending to the end of the answer's body.
    streams: AtomicUsize,
    /// The connection has answered at least once.
    is_open: AtomicBool,
    /// Locked by the request that opens the connection.
    door: tokio::sync::Mutex<()>,
    /// The connection takes no more requests.
    is_full: AtomicBool,
}

impl Lane {
    /// Lets one request open the connection: the others wait for it before the first answer, but not for long, because
    /// it may be slow (an eviction that waits for a webhook).
    async fn door(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if self.is_open.load(Ordering::Acquire) {
            return None;
        }
        tokio::time::timeout(GREETING, self.door.lock()).await.ok()
    }
}

/// One stream of a lane, released when dropped.
struct Stream(Arc<Lane>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A watch without an answer. If it is dropped after a while without one, its lane takes no more requests.
struct Unanswered {
    lane: Arc<Lane>,
    since: Moment,
    is_answered: bool,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.is_answered && boot_time().since(self.since) >= UNANSWERED {
            self.lane.is_full.store(true, Ordering::Release);
        }
    }
}

impl Connections {
    /// Creates it without connections.
    pub(crate) fn new(new: impl Fn() -> Connector + Send + Sync + 'static) -> Self {
        let lanes = || Mutex::new(Vec::new());
        Self(Arc::new(Shared { new: Box::new(new), watches: lanes(), calls: lanes() }))
    }

    /// Sends the request on a connection with a free stream.
    pub(crate) async fn send(self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let is_watch = is_watch(&request);
        let stream = self.0.stream(is_watch);
        let lane = Arc::clone(&stream.0);
        let mut unanswered =
            Unanswered { lane: Arc::clone(&lane), since: boot_time(), is_answered: !is_watch };
        let door = lane.door().await;
        let response = lane.connector.request(request).await?;
        lane.is_open.store(true, Ordering::Release);
        drop(door);
        unanswered.is_answered = true;
        Ok(response.map(|body| {
            // The stream is in use until the whole answer has come.
            let held = body.map_frame(move |frame| {
                let _stream = &stream;
                frame
            });
            held.boxed_unsync()
        }))
    }
}

impl Shared {
    fn stream(&self, is_watch: bool) -> Stream {
        let lanes = if is_watch { &self.watches } else { &self.calls };
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| !lane.is_full.load(Ordering::Acquire));
        let free = lanes.iter().find(|lane| lane.streams.load(Ordering::Acquire) < STREAMS);
        let lane = if let Some(lane) = free {
            Arc::clone(lane)
        } else {
            let lane = Arc::new(Lane {
                connector: (self.new)(),
                streams: AtomicUsize::new(0),
                is_open: AtomicBool::new(false),
                door: tokio::sync::Mutex::new(()),
                is_full: AtomicBool::new(false),
            });
            lanes.push(Arc::clone(&lane));
            lane
        };
        // Counted under the lock, so that two requests cannot take the last stream.
        lane.streams.fetch_add(1, Ordering::AcqRel);
        Stream(lane)
    }
}

/// True if the request is a watch, by the query that kube writes.
pub(crate) fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}
