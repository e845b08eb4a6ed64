//! How patient lists are, and when the server wants to be left alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drain::Moment;
use http::StatusCode;

use crate::clock::boot_time;
use crate::wire::{CALL_DEADLINE, Reply};

/// No page of a list is waited for longer: the API server itself gives up after 60 s.
pub(crate) const LONGEST_PAGE: Duration = Duration::from_mins(1);

/// No `Retry-After` is followed for longer: a wrong header must not cost a whole drain.
const LONGEST_WISH: Duration = Duration::from_mins(1);

/// What all clones of a connection have learned about the server's pace.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How long the next page of this resource is waited for, where that is longer than [`CALL_DEADLINE`].
    patience: Mutex<BTreeMap<&'static str, Duration>>,
    /// Milliseconds since boot: the server has asked to be left alone until then.
    not_before: AtomicU64,
}

impl Pace {
    /// How long a page of this resource is waited for: 10 s, and 20, 40, 60 s after one, two, three time-outs in a row.
    /// A list over 150,000 pods takes an old server longer than any fixed limit.
    pub(crate) fn deadline(&self, resource: &'static str) -> Duration {
        self.patience().get(resource).copied().unwrap_or(CALL_DEADLINE)
    }

    /// A page of this resource took so long; `None`: it was given up.
    pub(crate) fn learn(&self, resource: &'static str, took: Option<Duration>) {
        let deadline = self.deadline(resource);
        match took {
            None => {
                self.patience().insert(resource, deadline.saturating_mul(2).min(LONGEST_PAGE));
            }
            // Quick again: whoever hangs next is found out soon.
            Some(took) if took < CALL_DEADLINE / 2 => {
                self.patience().remove(resource);
            }
            Some(_) => {}
        }
    }

    /// Remembers the `Retry-After` of a server that is busy (429) or cannot serve (503).
    pub(crate) fn hear(&self, reply: &Reply) {
        let is_busy = matches!(reply.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if let Some(wish) = reply.retry_after.filter(|_| is_busy) {
            self.not_before.fetch_max((boot_time() + wish.min(LONGEST_WISH)).0, Ordering::Relaxed);
        }
    }

    /// Waits until the server may be asked for another look.
    pub(crate) async fn wait(&self) {
        tokio::time::sleep(self.left()).await;
    }

    /// How long the server is to be left alone.
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
        let wish = |seconds| Some(Duration::from_secs(seconds));
        for (status, after, expected) in [
            (StatusCode::OK, wish(30), 0),
            (StatusCode::TOO_MANY_REQUESTS, None, 0),
            (StatusCode::TOO_MANY_REQUESTS, wish(30), 30),
            (StatusCode::SERVICE_UNAVAILABLE, wish(5), 5),
            (StatusCode::SERVICE_UNAVAILABLE, wish(86_400), 60),
        ] {
            let pace = Pace::default();
            pace.hear(&reply(status, after));
            let left = pace.left().as_millis().div_ceil(1000);
            assert_eq!(left, expected, "{status} {after:?}");
        }
    }
}
