//! Connections to one API server: as many as the requests under way need.
//!
//! An HTTP/2 server lets a connection have only so many streams at a time (kube-apiserver 100), and a client's request
//! beyond that waits until another one ends. A watch never ends: once watches have taken all streams of the one
//! connection that hyper's pool opens, every call waits for ever. So each connection here takes fewer requests than any
//! sound server allows, the next request gets another connection, and watches are never on a connection with calls:
//! whatever a server allows, a call only ever waits for calls, and each of those has a deadline.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drain::Moment;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::Body;
use tower::BoxError;

use crate::clock::boot_time;
use crate::wire::retry_after;

/// Requests on one connection at a time. HTTP/2 recommends servers to allow no fewer than 100 (RFC 9113, 6.5.2);
/// kube-apiserver allows 100.
const STREAMS: usize = 64;

/// The first request on a connection opens it; the others wait for that, but no longer than this. Without it a burst of
/// requests would make a TLS handshake each, of which all but one were for nothing.
const GREETING: Duration = Duration::from_secs(1);

/// A watch that is not answered for so long may wait for a stream: its connection takes no more requests.
const UNANSWERED: Duration = Duration::from_secs(10);

/// What one connection is made by.
type Connector = Client<HttpsConnector<HttpConnector>, Body>;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, hyper::Error>;

/// The connections to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    /// Each has a pool of its own, so that with HTTP/2 it has one connection.
    new: Box<dyn Fn() -> Connector + Send + Sync>,
    watches: Mutex<Vec<Arc<Lane>>>,
    calls: Mutex<Vec<Arc<Lane>>>,
    wish: Wish,
}

/// One connection where the server has HTTP/2, else one for each request under way.
struct Lane {
    connector: Connector,
    /// Requests under way: from the sending to the end of the answer's body.
    streams: AtomicUsize,
    /// It has answered once.
    is_open: AtomicBool,
    /// Held by the request that opens it.
    door: tokio::sync::Mutex<()>,
    /// It takes no more requests.
    is_full: AtomicBool,
}

impl Lane {
    /// Of the requests that come before the first answer, one goes first and opens the connection; it may take its time (an
    /// eviction that a webhook thinks about), so the others do not wait for long.
    async fn door(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if self.is_open.load(Ordering::Acquire) {
            return None;
        }
        tokio::time::timeout(GREETING, self.door.lock()).await.ok()
    }
}

/// One of a lane's streams; given back when dropped.
struct Stream(Arc<Lane>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A watch that is not answered yet. Dropped unanswered after a while, it closes its lane to further requests.
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
    /// No connection stands yet.
    pub(crate) fn new(new: impl Fn() -> Connector + Send + Sync + 'static, wish: Wish) -> Self {
        let lanes = || Mutex::new(Vec::new());
        Self(Arc::new(Shared { new: Box::new(new), watches: lanes(), calls: lanes(), wish }))
    }

    /// Sends the request on a connection that has room for it.
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
        self.0.wish.learn(&response);
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
        // Under the lock, so that no two requests take the last place.
        lane.streams.fetch_add(1, Ordering::AcqRel);
        Stream(lane)
    }
}

/// As kube asks for one.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Until when the server wants to be left alone by what asks again by itself (`Retry-After` of a 429 or 503). All clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish(Arc<AtomicU64>);

impl Wish {
    fn learn<B>(&self, response: &Response<B>) {
        let is_overload =
            matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if let Some(after) = retry_after(response.headers()).filter(|_| is_overload) {
            self.set(boot_time() + drain::retry::wish(after));
        }
    }

    /// The server wants to be left alone until then.
    pub(crate) fn set(&self, until: Moment) {
        self.0.fetch_max(until.0, Ordering::Relaxed);
    }

    /// For how much longer.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        now.until(Moment(self.0.load(Ordering::Relaxed)))
    }
}
