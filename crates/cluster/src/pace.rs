//! Adapts to the server's speed: deadlines of lists, and pauses that a busy server asks for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drain::Moment;
use http::StatusCode;

use crate::clock::boot_time;
use crate::wire::{CALL_DEADLINE, Reply};

/// Longest deadline of one page of a list: the API server itself gives up after 60 s.
pub(crate) const LONGEST_PAGE: Duration = Duration::from_mins(1);

/// Longest `Retry-After` that is obeyed: a wrong header must not cost a whole drain.
const LONGEST_WISH: Duration = Duration::from_mins(1);

/// Facts that a connection has learned about the server's speed; shared by all its clones.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Deadline of the next page of a resource, if it is longer than [`CALL_DEADLINE`].
    patience: Mutex<BTreeMap<&'static str, Duration>>,
    /// The server asked not to be called before this time, in milliseconds since boot.
    not_before: AtomicU64,
}

impl Pace {
    /// Deadline of a page of this resource: 10 s, and 20, 40, 60 s after one, two, three time-outs in a row. A list over
    /// 150,000 pods takes an old server longer than any fixed limit.
    pub(crate) fn deadline(&self, resource: &'static str) -> Duration {
        self.patience().get(resource).copied().unwrap_or(CALL_DEADLINE)
    }

    /// Notes the duration of a page of this resource; `None` if it timed out.
    pub(crate) fn learn(&self, resource: &'static str, took: Option<Duration>) {
        let deadline = self.deadline(resource);
        match took {
            None => {
                self.patience().insert(resource, deadline.saturating_mul(2).min(LONGEST_PAGE));
            }
            // The server is quick again, so the usual deadline counts again and a hanging page is noticed soon.
            Some(took) if took < CALL_DEADLINE / 2 => {
                self.patience().remove(resource);
            }
            Some(_) => {}
        }
    }

    /// Notes the `Retry-After` of a server that is busy (429) or cannot serve (503).
    pub(crate) fn note(&self, reply: &Reply) {
        let is_busy = matches!(reply.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if let Some(retry_after) = reply.retry_after.filter(|_| is_busy) {
            self.not_before.fetch_max((boot_time() + retry_after.min(LONGEST_WISH)).0, Ordering::Relaxed);
        }
    }

    /// Waits until the server may be asked for another list.
    pub(crate) async fn wait(&self) {
        tokio::time::sleep(self.left()).await;
    }

    /// Time for which the server must not be asked.
    fn left(&self) -> Duration {
        let not_before = Moment(self.not_before.load(Ordering::Relaxed));
        boot_time().until(not_before).min(LONGEST_WISH)
    }

    fn patience(&self) -> MutexGuard<'_, BTreeMap<&'static str, Duration>> {
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_times_out_is_given_more_time_and_a_quick_one_the_usual_again() {
        let pace = Pace::default();
        let seconds = |pace: &Pace| pace.deadline("pods").as_secs();
        let mut given = vec![seconds(&pace)];
        for _ in 0..4 {
            pace.learn("pods", None);
            given.push(seconds(&pace));
        }
        assert_eq!(given, [10, 20, 40, 60, 60]);
        assert_eq!(pace.deadline("nodes"), CALL_DEADLINE, "each list has its own");
        pace.learn("pods", Some(Duration::from_secs(11)));
        assert_eq!(seconds(&pace), 60, "still slow");
        pace.learn("pods", Some(Duration::from_secs(1)));
        assert_eq!(seconds(&pace), 10);
    }

    #[test]
    fn a_busy_server_is_left_alone_for_as_long_as_it_wants() {
        let reply = |status, after| Reply { status, retry_after: after, body: Vec::new() };
        let retry_after = |seconds| Some(Duration::from_secs(seconds));
        for (status, after, expected) in [
            (StatusCode::OK, retry_after(30), 0),
            (StatusCode::TOO_MANY_REQUESTS, None, 0),
            (StatusCode::TOO_MANY_REQUESTS, retry_after(30), 30),
            (StatusCode::SERVICE_UNAVAILABLE, retry_after(5), 5),
            (StatusCode::SERVICE_UNAVAILABLE, retry_after(86_400), 60),
        ] {
            let pace = Pace::default();
            pace.note(&reply(status, after));
            let left = pace.left().as_millis().div_ceil(1000);
            assert_eq!(left, expected, "{status} {after:?}");
        }
    }
}
