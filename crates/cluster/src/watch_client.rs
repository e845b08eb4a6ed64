//! The client of one watch: it limits what the watch may ask of the server.
//!
//! kube-runtime asks again at once when a page of a list or a watch has ended without a failure. A server, or a proxy in
//! its place, that sends pages of a list without an end, or that ends each watch at once, would be asked without a pause
//! for as long as it goes on.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{BoxError, service_fn};

use crate::bounds::{LONGEST_ANSWER, LONGEST_ERROR, LONGEST_OBJECT, PAGE, TooLong, count_items, most_pages};
use crate::connections::is_watch;
use crate::pace::{Kind, LONGEST_PAGE};
use crate::wire::{Cluster, is_next_page};

/// A watch that ends sooner without a change counts as a failure, as in client-go. It is also the shortest time between
/// the starts of two watches.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Longest time between the starts of two watches that bring no change. A real one lasts for minutes.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// A watch that is silent for this long may be dead, and ends: an API server sends a bookmark once a minute.
const SILENT: Duration = Duration::from_mins(3);

/// A watch whose answer does not begin within this time has failed: an API server answers at once, or puts the request off
/// for 15 s at most (API Priority and Fairness). Until then nobody knows that nothing is seen.
const ANSWERED: Duration = Duration::from_secs(20);

/// Text of the failure of a watch without an answer.
const UNANSWERED: &str = "the API server, or a proxy before it, does not answer";

/// Text of the failure of a watch with a longer one.
const TOO_LONG: &str = "the API server, or a proxy before it, sends a change of more than 4 MiB";

/// Text of the failure of a watch that has ended too soon. It has no numbers, so that it is logged once.
const ENDED: &str = "the API server, or a proxy before it, ends the watch at once";

/// What a watch has asked until now. It makes one request at a time.
#[derive(Debug, Default)]
struct Asked {
    /// Pages of the list that is being read.
    pages: usize,
    /// Start of the last request for changes.
    watch: Option<Instant>,
    /// Time between the starts of the last two.
    gap: Duration,
    /// The last one has brought a change.
    has_changed: Arc<AtomicBool>,
}

impl Asked {
    /// Notes a request.
    ///
    /// # Returns
    /// The time at which it may be sent.
    ///
    /// # Errors
    /// It is for one page more than a list may have.
    fn note(&mut self, request: &Request<Body>, now: Instant) -> Result<Instant, &'static str> {
        if is_watch(request) {
            let start = self.watch.map_or(now, |last| now.max(last + self.next_gap(last, now)));
            self.watch = Some(start);
            self.has_changed = Arc::default();
            return Ok(start);
        }
        self.pages = if is_next_page(request) { self.pages + 1 } else { 1 };
        if self.pages > most_pages(limit_of(request)) { Err("the list has no end") } else { Ok(now) }
    }

    /// It doubles for as long as watches end soon without a change.
    fn next_gap(&mut self, last: Instant, now: Instant) -> Duration {
        let is_useful = self.has_changed.load(Ordering::Relaxed) || now >= last + LONGEST_GAP;
        self.gap = if is_useful { SHORTEST_WATCH } else { (self.gap * 2).clamp(SHORTEST_WATCH, LONGEST_GAP) };
        self.gap
    }
}

/// A client for one watch, which uses the connections of the cluster, and what tells that the watch lives: it has been
/// answered, and goes on. It has to be called in a tokio runtime.
pub(crate) fn watch_client(cluster: &Cluster) -> (kube::Client, Arc<Notify>) {
    let (asked, of, lives) =
        (Arc::new(Mutex::new(Asked::default())), cluster.clone(), Arc::new(Notify::new()));
    let told = Arc::clone(&lives);
    let limited = service_fn(move |request: Request<Body>| {
        let (cluster, asked, lives) = (of.clone(), Arc::clone(&asked), Arc::clone(&told));
        let start = asked.lock().unwrap_or_else(PoisonError::into_inner).note(&request, Instant::now());
        async move {
            sleep_until(start?).await;
            cluster.pace().until_back().await;
            cluster.pace().admit(if is_next_page(&request) { Kind::Free } else { Kind::Watch }).await;
            let (is_watch, limit) = (is_watch(&request), limit_of(&request));
            let answer = cluster.client().send(request);
            let answer = if is_watch {
                tokio::time::timeout(ANSWERED, answer).await.map_err(|_| io::Error::other(UNANSWERED))?
            } else {
                answer.await
            };
            let response = answer.map_err(BoxError::from)?;
            cluster.pace().note(response.status(), response.headers());
            if is_watch && response.status().is_success() {
                let has_changed =
                    Arc::clone(&asked.lock().unwrap_or_else(PoisonError::into_inner).has_changed);
                return Ok(response.map(|body| Changes::of(body, has_changed, lives).boxed_unsync()));
            }
            whole(response, limit).await
        }
    });
    (kube::Client::new(limited, cluster.client().default_namespace()), lives)
}

/// The `limit` of a list: the number of objects per page.
fn limit_of(request: &Request<Body>) -> u32 {
    let query = request.uri().query().unwrap_or_default();
    let limit = query.split('&').find_map(|pair| pair.strip_prefix("limit=")?.parse().ok());
    limit.unwrap_or(PAGE)
}

/// Reads a page, or an error, to its end. `limit` is the number of objects that were asked for.
///
/// # Errors
/// [`TooLong`], and what breaks the answer off.
async fn whole(
    response: Response<Body>,
    limit: u32,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let (head, body) = response.into_parts();
    let is_page = head.status.is_success();
    let longest = if is_page { LONGEST_ANSWER } else { LONGEST_ERROR };
    let body = tokio::time::timeout(LONGEST_PAGE, Limited::new(body, longest).collect());
    let body = match body.await.map_err(|_| io::Error::other("no whole answer within 60 s"))? {
        Ok(body) => body.to_bytes(),
        Err(error) => match error.downcast::<kube::Error>() {
            Ok(error) => return Err(error),
            Err(_) if is_page => return Err(TooLong.into()),
            Err(_) => Bytes::new(),
        },
    };
    if is_page && count_items(&body) > usize::try_from(limit).unwrap_or(usize::MAX) {
        return Err(TooLong.into());
    }
    Ok(Response::from_parts(head, Full::from(body).map_err(|never| match never {}).boxed_unsync()))
}

/// The answer to a watch. If it ends soon without a change, its end is a failure. A silent one ends.
#[derive(Debug)]
struct Changes {
    body: Body,
    has_changed: Arc<AtomicBool>,
    /// Is told once, when the watch has lived for [`SHORTEST_WATCH`].
    lives: Arc<Notify>,
    is_alive: bool,
    /// The end of [`SHORTEST_WATCH`], then of [`SILENT`].
    timer: Pin<Box<Sleep>>,
    /// Length of the present line, and its beginning, until it shows what the line is.
    length: usize,
    line: Vec<u8>,
    is_over: bool,
}

impl Changes {
    fn of(body: Body, has_changed: Arc<AtomicBool>, lives: Arc<Notify>) -> Self {
        let timer = Box::pin(tokio::time::sleep(SHORTEST_WATCH));
        let (is_alive, length, line, is_over) = (false, 0, Vec::new(), false);
        Self { body, has_changed, lives, is_alive, timer, length, line, is_over }
    }

    /// Notes what has come: a change is any line but a bookmark.
    ///
    /// # Errors
    /// A line that is too long.
    fn see(&mut self, data: &[u8]) -> io::Result<()> {
        /// The type is the first thing in a line.
        const BEGINNING: usize = 64;
        for (number, part) in data.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                self.end_line();
            }
            self.length += part.len();
            let room = BEGINNING.saturating_sub(self.line.len());
            self.line.extend(part.iter().take(room));
            if self.length > LONGEST_OBJECT {
                return Err(io::Error::other(TOO_LONG));
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let is_bookmark = self.line.windows(10).any(|word| word == b"\"BOOKMARK\"");
        if !is_bookmark && !self.line.trim_ascii().is_empty() {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        self.line.clear();
        self.length = 0;
    }

    fn has_failed(&self) -> bool {
        !self.has_changed.load(Ordering::Relaxed) && !self.is_alive
    }

    /// True if the watch is silent for too long.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(context).is_ready() {
            if self.is_alive {
                return true;
            }
            self.is_alive = true;
            self.lives.notify_one();
            self.timer.as_mut().reset(Instant::now() + SILENT);
        }
        false
    }
}

impl hyper::body::Body for Changes {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            self.is_over = self.is_silent(context);
            return if self.is_over { Poll::Ready(None) } else { Poll::Pending };
        };
        let ended = match frame {
            Some(Ok(frame)) => {
                let seen = frame.data_ref().map_or(Ok(()), |data| self.see(data));
                if self.is_alive {
                    self.timer.as_mut().reset(Instant::now() + SILENT);
                }
                match seen {
                    Ok(()) => return Poll::Ready(Some(Ok(frame))),
                    Err(too_long) => Some(Err(too_long.into())),
                }
            }
            // kube-runtime takes the end of an answer, and one in the middle of it, for the usual end of a watch.
            Some(Err(_)) | None if self.has_failed() => Some(Err(io::Error::other(ENDED).into())),
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        };
        self.is_over = true;
        Poll::Ready(ended)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use futures::StreamExt;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::runtime::watcher::Config;

    use super::*;
    use crate::bounds::MOST_PAGES;
    use crate::watches::{Told, follow};

    const EMPTY: &str =
        r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}"#;

    /// The starts of a watch's requests, in seconds, within this time; the server gives these answers to a list and to a
    /// watch. Also the texts of the watch's failures. The clock is paused.
    async fn asked_within(
        limit: Duration,
        list: &'static str,
        watch: fn() -> Sent,
    ) -> (Vec<u64>, Vec<String>) {
        let (starts, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let noted = Arc::clone(&starts);
        let server = service_fn(move |request: Request<Body>| {
            let mut starts = noted.lock().unwrap();
            assert!(starts.len() < 10_000, "asked without a pause");
            starts.push(begun.elapsed().as_secs());
            let answer = if is_watch(&request) { watch() } else { text(list) };
            ready(Ok::<_, Infallible>(Response::new(answer)))
        });
        let cluster = Cluster::new(kube::Client::new(server, "default"));
        let events = follow(&cluster, Api::<Pod>::all, Config::default(), "pods");
        let failures =
            events.filter_map(async |event| event.err().map(|error| error.failure.text().to_owned()));
        let texts: Vec<String> = failures.take_until(tokio::time::sleep(limit)).collect().await;
        let starts = starts.lock().unwrap().clone();
        (starts, texts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_an_end_is_given_up_and_tried_again_after_a_pause() {
        let endless = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "more"}, "items": []}"#;
        let (starts, failures) = asked_within(Duration::from_secs(20), endless, || text("")).await;
        assert!(
            !failures.is_empty() && starts.len() <= (failures.len() + 1) * MOST_PAGES,
            "{}",
            starts.len()
        );
        assert_eq!(failures[0], "cannot list pods: the list has no end");
    }

    /// The body of an answer.
    type Sent = UnsyncBoxBody<Bytes, BoxError>;

    fn text(text: &'static str) -> Sent {
        Full::from(text).map_err(|never| match never {}).boxed_unsync()
    }

    const BOOKMARK: &str = concat!(
        r#"{"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}}}"#,
        "\n"
    );
    const CHANGE: &str = concat!(
        r#"{"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "9"}}}"#,
        "\n"
    );

    /// An answer that breaks off in the middle.
    fn broken() -> Sent {
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "cut");
        StreamBody::new(futures::stream::iter([Err::<Frame<Bytes>, BoxError>(cut.into())])).boxed_unsync()
    }

    /// An answer that ends after so many seconds.
    fn after<const SECONDS: u64>() -> Sent {
        let end = tokio::time::sleep(Duration::from_secs(SECONDS));
        let nothing =
            futures::stream::once(end).filter_map(async |()| None::<Result<Frame<Bytes>, BoxError>>);
        StreamBody::new(nothing).boxed_unsync()
    }

    /// A change without an end.
    fn endless() -> Sent {
        let part = Bytes::from(vec![b'a'; 1024 * 1024]);
        let parts = futures::stream::repeat_with(move || Ok::<_, BoxError>(Frame::data(part.clone())));
        StreamBody::new(parts).boxed_unsync()
    }

    /// What a watch's server sends, how many watches begin within 10 minutes, and the text of their failures.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_brings_no_change_is_begun_again_after_growing_pauses() {
        type Case = (&'static str, fn() -> Sent, std::ops::RangeInclusive<usize>, Option<&'static str>);
        let cases: [Case; 8] = [
            ("nothing", || text(""), 10..=60, Some(ENDED)),
            ("a bookmark", || text(BOOKMARK), 10..=60, Some(ENDED)),
            ("half an answer", broken, 10..=60, Some(ENDED)),
            ("a change without an end", endless, 10..=60, Some(TOO_LONG)),
            ("nothing for 2 s", after::<2>, 10..=30, None),
            ("a change each time", || text(CHANGE), 600..=601, None),
            ("nothing for a minute", after::<60>, 10..=11, None),
            ("silence", after::<10_000>, 4..=4, None),
        ];
        for (name, answer, times, failure) in cases {
            let (starts, failures) = asked_within(Duration::from_mins(10), EMPTY, answer).await;
            assert!(times.contains(&(starts.len() - 1)), "{name}: {starts:?}");
            let expected = failure.map(|text| format!("cannot watch pods: {text}"));
            assert_eq!(failures.first(), expected.as_ref(), "{name}");
            assert!(failures.iter().all(|text| Some(text) == expected.as_ref()), "{name}: {failures:?}");
        }
    }

    /// Nothing changes, and the failure before is over all the same.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_was_answered_and_goes_on_is_told_to_live() {
        let answers = Mutex::new(vec![after::<10_000>(), text("")]);
        let server = service_fn(move |request: Request<Body>| {
            let watch = || answers.lock().unwrap().pop().expect("one watch too many");
            let answer = if is_watch(&request) { watch() } else { text(EMPTY) };
            ready(Ok::<_, Infallible>(Response::new(answer)))
        });
        let cluster = Cluster::new(kube::Client::new(server, "default"));
        let told = follow(&cluster, Api::<Pod>::all, Config::default(), "pods");
        let words = told.filter_map(async |told| match told {
            Ok(Told::Event(_)) => None,
            Ok(Told::Lives) => Some("lives"),
            Err(_) => Some("failed"),
        });
        assert_eq!(words.take(2).collect::<Vec<_>>().await, ["failed", "lives"]);
    }
}
