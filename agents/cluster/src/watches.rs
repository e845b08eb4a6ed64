//! What all watches share: they go on for ever, pause after failures, and say what a failure means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drain::Moment;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};

use crate::clock::boot_time;
use crate::failure::{ApiFailure, classify, is_refusal};
use crate::operation::Operation;
use crate::shelf::Key;

/// A watch has failed. It goes on by itself.
pub(crate) struct Trouble {
    pub(crate) failure: ApiFailure,
    /// The server would answer the same again.
    pub(crate) is_refusal: bool,
}

/// A list, then changes, for ever; after a failure it goes on by itself.
pub(crate) fn follow<K>(
    api: Api<K>,
    config: Config,
    resource: &'static str,
) -> impl Stream<Item = Result<Event<K>, Trouble>> + Send
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let pauses = Pauses::default();
    let refused = Arc::clone(&pauses.refused);
    watcher(api, config)
        .inspect_err(move |error| refused.store(trouble(resource, error).is_refusal, Ordering::Relaxed))
        .backoff(pauses)
        .map(move |event| event.map_err(|error| trouble(resource, &error)))
}

/// The event with what is needed of its objects.
pub(crate) fn trimmed<K, V>(event: Event<K>, entry: impl Fn(&K) -> (Key, V)) -> Event<(Key, V)> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(entry(&object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(entry(&object)),
        Event::Delete(object) => Event::Delete(entry(&object)),
    }
}

fn trouble(resource: &'static str, error: &watcher::Error) -> Trouble {
    let of = |verb, error: &kube::Error| Trouble {
        failure: classify(&Operation::on_cluster(verb, resource, ""), error),
        is_refusal: is_refusal(error),
    };
    match error {
        watcher::Error::InitialListFailed(error) => of("list", error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => of("watch", error),
        watcher::Error::WatchError(status) => of("watch", &kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => Trouble {
            failure: ApiFailure::other(format!(
                "cannot watch {resource}: the server sent no resourceVersion"
            )),
            is_refusal: true,
        },
    }
}

/// Pauses after failures in a row: 0.25 s, doubling up to 3 s, so that a watch is back 3 s after the server; up to 30 s
/// as long as the server refuses, which only a person can change.
///
/// kube-runtime resets a backoff at every sign that is not a failure, and "a list begins" is one; so this one takes
/// only time for an answer.
#[derive(Debug, Default)]
struct Pauses {
    next: Duration,
    last: Moment,
    /// The last failure was a refusal.
    refused: Arc<AtomicBool>,
}

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(3);
    const LONGEST_REFUSED: Duration = Duration::from_secs(30);
    const FORGOTTEN: Duration = Duration::from_mins(1);
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = boot_time();
        if now.since(self.last) >= Self::FORGOTTEN {
            self.next = Self::SHORTEST;
        }
        self.last = now;
        let is_refused = self.refused.load(Ordering::Relaxed);
        let longest = if is_refused { Self::LONGEST_REFUSED } else { Self::LONGEST };
        let pause = self.next.min(longest);
        self.next = pause.saturating_mul(2).min(longest);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_three_seconds_and_to_thirty_while_refused() {
        let mut pauses = Pauses::default();
        let mut millis =
            |number| -> Vec<_> { pauses.by_ref().take(number).map(|pause| pause.as_millis()).collect() };
        assert_eq!(millis(6), [250, 500, 1_000, 2_000, 3_000, 3_000]);
        pauses.reset();
        assert_eq!(pauses.next(), Some(Duration::from_secs(3)), "a sign of life that is none resets nothing");
        pauses.refused.store(true, Ordering::Relaxed);
        let mut seconds =
            |number| -> Vec<_> { pauses.by_ref().take(number).map(|pause| pause.as_secs()).collect() };
        assert_eq!(seconds(6), [3, 6, 12, 24, 30, 30]);
        pauses.refused.store(false, Ordering::Relaxed);
        assert_eq!(pauses.next(), Some(Duration::from_secs(3)), "away now, no longer refused");
        pauses.last = Moment(0);
        assert_eq!(pauses.next(), Some(Duration::from_millis(250)), "long ago");
    }
}
