//! Shared parts of all watches: they go on for ever, pause after failures, and classify failures.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::time::Duration;

use drain::retry;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};

use crate::bounds::{PAGE, Room, TooLong, shorter};
use crate::clock::boot_time;
use crate::failure::{ApiFailure, classify, is_refusal};
use crate::operation::Operation;
use crate::pace::{Pace, Pauses};
use crate::store::Key;
use crate::watch_client::watch_client;
use crate::wire::Cluster;

/// For how many seconds the server is asked to keep a watch: a random number of them, so that the watches of many agents
/// do not begin anew together. A dead connection is found sooner, by pings and by a silence of 3 minutes.
const LASTS: Range<u32> = 40 * 60..60 * 60;

/// A failure of a watch. The watch goes on by itself.
#[derive(Clone, Debug)]
pub(crate) struct WatchError {
    pub(crate) failure: ApiFailure,
    /// True if the server would give the same answer again.
    pub(crate) is_refusal: bool,
}

/// What a watch tells.
pub(crate) enum Told<K> {
    /// What has changed.
    Event(Event<K>),
    /// The watch has been answered and goes on: earlier failures are over, also if nothing changes.
    Lives,
}

/// Watches objects for ever: a list, then changes. After a failure it goes on by itself.
///
/// `api` gets the client for the watch; `resource` is its plural name. Has to be called in a tokio runtime.
pub(crate) fn follow<K, A>(
    cluster: &Cluster,
    api: A,
    config: Config,
    resource: &'static str,
) -> impl Stream<Item = Result<Told<K>, WatchError>> + Send + use<K, A>
where
    A: FnOnce(kube::Client) -> Api<K>,
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let pace = cluster.pace().clone();
    let pauses = pace.pauses(format!("{resource} {}", config.field_selector.as_deref().unwrap_or_default()));
    let (client, lives) = watch_client(cluster);
    let (size, api, room) = (pace.page(resource, PAGE), api(client), Room::default());
    let following = Following { resource, pace, pauses, api, config, size, room, events: None };
    let events = stream::unfold(following, async |mut following| {
        let told = following.next().await?;
        Some((told.map(Told::Event), following))
    });
    let lives = stream::unfold(lives, async |lives| {
        lives.notified().await;
        Some((Ok(Told::Lives), lives))
    });
    stream::select(events, lives)
}

/// A list and watch that goes on for ever.
struct Following<K> {
    resource: &'static str,
    pace: Pace,
    pauses: Pauses,
    api: Api<K>,
    config: Config,
    /// Objects per page of a list.
    size: u32,
    /// How much of the present list may still be kept.
    room: Room,
    /// `None` before the first list, and after one that was too long.
    events: Option<BoxStream<'static, watcher::Result<Event<K>>>>,
}

impl<K> Following<K>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    async fn next(&mut self) -> Option<Result<Event<K>, WatchError>> {
        let Self { api, config, size, events, pauses, pace, .. } = self;
        let events = events.get_or_insert_with(|| {
            let config = config.clone().page_size(*size).timeout(lasts());
            let pace = pace.clone();
            let noted = watcher(api.clone(), config).inspect_err(move |error| {
                if let Some(after) = asked_pause(error) {
                    pace.not_before(boot_time() + retry::retry_after(after));
                }
            });
            noted.backoff(pauses.clone()).boxed()
        });
        let event = events.next().await?;
        if matches!(&event, Ok(Event::InitApply(object)) if !self.room.takes(object)) {
            drop(event);
            self.events = None;
            tokio::time::sleep(self.pauses.next().unwrap_or_default()).await;
            let text = format!("cannot list {}: the list is longer than 256 MiB", self.resource);
            return Some(Err(WatchError { failure: ApiFailure::other(text), is_refusal: false }));
        }
        match &event {
            Err(error) if is_too_long(error) => {
                if let Some(half) = shorter(self.size) {
                    self.size = half;
                    self.pace.ask_for_shorter_pages(self.resource, half);
                    self.events = None;
                }
            }
            Ok(Event::Init) => self.room = Room::default(),
            Ok(Event::InitApply(_) | Event::InitDone | Event::Apply(_) | Event::Delete(_)) | Err(_) => {}
        }
        Some(event.map_err(|error| watch_error(self.resource, &error)))
    }
}

fn lasts() -> u32 {
    // The hasher's state is random.
    let dice = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    LASTS.start + dice % (LASTS.end - LASTS.start)
}

/// A page was too long.
fn is_too_long(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Service(error)) if error.is::<TooLong>())
}

/// The event, with its objects trimmed to what is needed.
pub(crate) fn trimmed<K, V>(event: Event<K>, entry: impl Fn(&K) -> (Key, V)) -> Event<(Key, V)> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(entry(&object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(entry(&object)),
        Event::Delete(object) => Event::Delete(entry(&object)),
    }
}

fn watch_error(resource: &'static str, error: &watcher::Error) -> WatchError {
    let of = |verb, error: &kube::Error| WatchError {
        failure: classify(&Operation::on_cluster(verb, resource, ""), error),
        is_refusal: is_refusal(error),
    };
    match error {
        watcher::Error::InitialListFailed(error) => of("list", error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => of("watch", error),
        watcher::Error::WatchError(status) => of("watch", &kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => WatchError {
            failure: ApiFailure::other(format!(
                "cannot watch {resource}: the server sent no resourceVersion"
            )),
            is_refusal: true,
        },
    }
}

/// The pause that the server asks for in the Status of its failure. A pause in a header is noted by
/// [`crate::watch_client`].
fn asked_pause(error: &watcher::Error) -> Option<Duration> {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => return None,
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// A cluster whose server refuses everything with this Status.
    fn busy(asked_seconds: u32) -> Cluster {
        let details = json!({"retryAfterSeconds": asked_seconds});
        let status = json!({"kind": "Status", "status": "Failure", "code": 429, "message": "busy", "details": details});
        let server = tower::service_fn(move |_: Request<Body>| {
            let response = Response::builder().status(429).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        Cluster::new(kube::Client::new(server, "default"))
    }

    /// The next pauses of a watch that fails. The clock is paused: no time passes.
    async fn pauses_of_a_watch(cluster: &Cluster, count: usize) -> Vec<Duration> {
        let events = follow(cluster, Api::<Pod>::all, Config::default(), "pods");
        let failed = events.filter_map(async |event| event.err().map(|_| Instant::now()));
        let failed: Vec<Instant> = failed.take(count + 1).collect().await;
        failed.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_pauses_for_a_random_time_within_a_growing_limit() {
        let pauses = pauses_of_a_watch(&busy(0), 8).await;
        let limits = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Duration::from_millis);
        assert_eq!(pauses.len(), limits.len());
        // tokio's timers have a granularity of 1 ms.
        let slack = Duration::from_millis(2);
        for (pause, limit) in pauses.iter().zip(limits) {
            assert!(*pause <= limit + slack, "{pauses:?}");
        }
        assert!(pauses.iter().zip(limits).any(|(pause, limit)| *pause + slack < limit), "{pauses:?}");
        assert_ne!(pauses, pauses_of_a_watch(&busy(0), 8).await, "each watch has its own");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_asked_for_a_time_of_its_own() {
        let mut asked = Vec::new();
        for _ in 0..8 {
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            let server = tower::service_fn(move |request: Request<Body>| {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let seconds = query.split('&').find_map(|pair| pair.strip_prefix("timeoutSeconds="));
                if let Some(seconds) = seconds {
                    tell.send(seconds.parse::<u32>().unwrap()).unwrap();
                }
                let list = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}"#;
                std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(list.as_bytes().to_vec()))))
            });
            let cluster = Cluster::new(kube::Client::new(server, "default"));
            let events = follow(&cluster, Api::<Pod>::all, Config::default(), "pods");
            let following = tokio::spawn(events.for_each(async |_| ()));
            asked.push(told.recv().await.unwrap());
            following.abort();
        }
        assert!(asked.iter().all(|seconds| LASTS.contains(seconds)), "{asked:?}");
        assert!(asked.iter().any(|seconds| *seconds != asked[0]), "{asked:?}");
    }

    /// The credentials are refused, and each new connection begins its watches anew.
    #[tokio::test(start_paused = true)]
    async fn the_pauses_go_on_in_the_next_connection() {
        let pace = crate::Pace::default();
        pauses_of_a_watch(&busy(0).with_pace(pace.clone()), 8).await;
        let mut longest = Duration::ZERO;
        for _ in 0..8 {
            let pauses = pauses_of_a_watch(&busy(0).with_pace(pace.clone()), 1).await;
            longest = longest.max(pauses[0]);
        }
        assert!(longest > Duration::from_secs(2), "{longest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_waits_first_for_as_long_as_the_server_asks() {
        // The clock that these are measured by goes on while the test runs.
        let nearly = |seconds: u64| Duration::from_millis(seconds * 1_000 - 500);
        let pauses = pauses_of_a_watch(&busy(20), 8).await;
        assert!(pauses.iter().all(|pause| *pause >= nearly(20)), "in the Status: {pauses:?}");
        // A call of the same connection was told so, in a header.
        let cluster = busy(0);
        cluster.pace().not_before(boot_time() + Duration::from_secs(40));
        let pauses = pauses_of_a_watch(&cluster, 8).await;
        assert!(pauses.iter().all(|pause| *pause >= nearly(40)), "in a header: {pauses:?}");
    }

    #[test]
    fn the_pause_in_a_status_is_found() {
        let text = r#"{"code": 429, "details": {"retryAfterSeconds": 7}}"#;
        let status: Box<kube::core::Status> = serde_json::from_str(text).unwrap();
        let asked = |error| asked_pause(&error).map(|pause| pause.as_secs());
        let api = || kube::Error::Api(status.clone());
        assert_eq!(asked(watcher::Error::InitialListFailed(api())), Some(7));
        assert_eq!(asked(watcher::Error::WatchStartFailed(api())), Some(7));
        assert_eq!(asked(watcher::Error::NoResourceVersion), None);
    }
}
