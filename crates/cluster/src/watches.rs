//! Shared parts of all watches: they go on for ever, pause after failures, and classify failures.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use drain::{Moment, retry};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};

use crate::clock::boot_time;
use crate::connections::RetryAfter;
use crate::failure::{ApiFailure, classify, is_refusal};
use crate::operation::Operation;
use crate::store::Key;

/// A failure of a watch. The watch goes on by itself.
pub(crate) struct WatchError {
    pub(crate) failure: ApiFailure,
    /// True if the server would give the same answer again.
    pub(crate) is_refusal: bool,
}

/// Watches objects for ever: a list, then changes. After a failure it goes on by itself.
pub(crate) fn follow<K>(
    api: Api<K>,
    config: Config,
    resource: &'static str,
    retry_after: RetryAfter,
) -> impl Stream<Item = Result<Event<K>, WatchError>> + Send
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let pauses = Pauses { retry_after: retry_after.clone(), ..Pauses::default() };
    let told = retry_after;
    watcher(api, config)
        .inspect_err(move |error| {
            if let Some(after) = asked_pause(error) {
                told.set(boot_time() + retry::retry_after(after));
            }
        })
        .backoff(pauses)
        .map(move |event| event.map_err(|error| watch_error(resource, &error)))
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
/// [`crate::connections::RetryAfter`].
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

/// Back-off after failures in a row: a random time within a limit that doubles from 0.5 s to 30 s, so that the agents of
/// a cluster do not all come back at the moment when the API server does (client-go waits 0.8 to 30 s). If a server asks
/// for a longer pause (`Retry-After`), it gets that first.
///
/// kube-runtime resets a back-off at every event that is not a failure, also at "a list begins", which does not come
/// from the server. So this one is reset by time alone.
#[derive(Debug)]
struct Pauses {
    limit: Duration,
    last: Moment,
    retry_after: RetryAfter,
    random: RandomState,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            limit: Self::FIRST,
            last: Moment::default(),
            retry_after: RetryAfter::default(),
            random: RandomState::new(),
        }
    }
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);
    /// Shortest pause, whatever the random number is: a failing server must not be called in a loop.
    const SHORTEST: Duration = Duration::from_millis(50);
    const FORGOTTEN: Duration = Duration::from_mins(1);

    /// The pause after a failure at `now`; `share`, from 0 to 1, is the random part of the limit.
    fn after(&mut self, now: Moment, share: f64) -> Duration {
        if now.since(self.last) >= Self::FORGOTTEN {
            self.limit = Self::FIRST;
        }
        self.last = now;
        let pause = self.limit.mul_f64(share).max(Self::SHORTEST);
        self.limit = self.limit.saturating_mul(2).min(Self::LONGEST);
        self.retry_after.left(now) + pause
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = boot_time();
        // The hasher's state is random, and differs from watch to watch.
        let dice = u32::try_from(self.random.hash_one(now.0) >> 32).unwrap_or_default();
        let share = f64::from(dice) / f64::from(u32::MAX);
        Some(self.after(now, share))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
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

    /// The pauses of a real watch whose server refuses each list with this Status. The clock is paused: no time passes.
    async fn pauses_of_a_watch(asked_seconds: u32, retry_after: RetryAfter) -> Vec<Duration> {
        let details = json!({"retryAfterSeconds": asked_seconds});
        let status = json!({"kind": "Status", "status": "Failure", "code": 429, "message": "busy", "details": details});
        let server = tower::service_fn(move |_: Request<Body>| {
            let response = Response::builder().status(429).body(Body::from(status.to_string().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        let pods: Api<Pod> = Api::all(kube::Client::new(server, "default"));
        let events = follow(pods, Config::default(), "pods", retry_after);
        let failed = events.filter_map(async |event| event.err().map(|_| Instant::now()));
        let failed: Vec<Instant> = failed.take(9).collect().await;
        failed.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_pauses_for_a_random_time_within_a_growing_limit() {
        let pauses = pauses_of_a_watch(0, RetryAfter::default()).await;
        let limits = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Duration::from_millis);
        assert_eq!(pauses.len(), limits.len());
        // tokio's timers have a granularity of 1 ms.
        let slack = Duration::from_millis(2);
        for (pause, limit) in pauses.iter().zip(limits) {
            assert!((Pauses::SHORTEST..=limit + slack).contains(pause), "{pauses:?}");
        }
        assert!(pauses.iter().zip(limits).any(|(pause, limit)| *pause + slack < limit), "{pauses:?}");
        assert_ne!(pauses, pauses_of_a_watch(0, RetryAfter::default()).await, "each watch has its own");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_waits_first_for_as_long_as_the_server_asks() {
        // The clock that these are measured by goes on while the test runs.
        let nearly = |seconds: u64| Duration::from_millis(seconds * 1_000 - 500);
        let pauses = pauses_of_a_watch(20, RetryAfter::default()).await;
        assert!(pauses.iter().all(|pause| *pause >= nearly(20)), "in the Status: {pauses:?}");
        // A call of the same connection was told so, in a header.
        let retry_after = RetryAfter::default();
        retry_after.set(boot_time() + Duration::from_secs(40));
        let pauses = pauses_of_a_watch(0, retry_after).await;
        assert!(pauses.iter().all(|pause| *pause >= nearly(40)), "in a header: {pauses:?}");
    }

    #[test]
    fn pauses_are_random_within_a_limit_that_doubles_to_thirty_seconds() {
        let mut pauses = Pauses::default();
        let limits = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        for limit in limits {
            assert_eq!(pauses.after(Moment(1_000), 1.0), Duration::from_millis(limit));
        }
        pauses.reset();
        assert_eq!(
            pauses.after(Moment(2_000), 0.5),
            Duration::from_secs(15),
            "an event that is not from the server resets nothing"
        );
        assert_eq!(pauses.after(Moment(2_000), 0.0), Pauses::SHORTEST, "never in a loop");
        assert_eq!(pauses.after(Moment(90_000), 1.0), Pauses::FIRST, "the last failure was long ago");
    }

    #[test]
    fn what_the_server_asks_for_comes_first() {
        let mut pauses = Pauses::default();
        pauses.retry_after.set(Moment(10_000));
        pauses.retry_after.set(Moment(5_000));
        assert_eq!(pauses.after(Moment(1_000), 1.0), Duration::from_millis(9_500));
        assert_eq!(pauses.after(Moment(12_000), 1.0), Duration::from_secs(1), "it is over");
        let text = r#"{"code": 429, "details": {"retryAfterSeconds": 7}}"#;
        let status: Box<kube::core::Status> = serde_json::from_str(text).unwrap();
        let asked = |error| asked_pause(&error).map(|pause| pause.as_secs());
        let api = || kube::Error::Api(status.clone());
        assert_eq!(asked(watcher::Error::InitialListFailed(api())), Some(7));
        assert_eq!(asked(watcher::Error::WatchStartFailed(api())), Some(7));
        assert_eq!(asked(watcher::Error::NoResourceVersion), None);
    }
}
