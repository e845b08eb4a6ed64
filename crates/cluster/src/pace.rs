//! The one place that paces requests to an API server: how many an agent may send, how soon one is repeated, and how
//! long an answer is waited for.
//!
//! Every request of this crate passes [`Pace::admit`]: calls in [`Cluster::call`](crate::Cluster), lists and watches in
//! [`crate::watch_client`]. Above it, each caller has a pause of its own between two tries; the limit here holds also
//! when all of them come together, and when a pause has been forgotten. A proxy that ended each watch cleanly was asked
//! 11,000 times a second by one agent, because neither kube-runtime nor this crate took that for a failure.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drain::{Moment, retry};
use http::{HeaderMap, StatusCode};
use kube::runtime::utils::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::bounds::CALL_DEADLINE;
use crate::clock::boot_time;

/// Longest deadline of one page of a list: the API server itself gives up after 60 s.
pub(crate) const LONGEST_PAGE: Duration = Duration::from_mins(1);

/// Most requests of an agent within any minute; further ones wait.
pub const MOST: usize = 60;

/// Most of [`MOST`] that begin a watch or the list of one, and most that are calls, so that some are left for the other
/// kind. A drain of a node with volumes begins with nine watches, two requests each: two drains within a minute do not wait.
/// A node that waits for a slot sends about 25 calls.
const MOST_OF_A_KIND: usize = 44;

/// Most calls within any minute on which no decision depends, so that a call on which one depends never waits for them alone.
const MOST_AT_LEISURE: usize = 16;

/// The time that these limits are for.
const WINDOW: Duration = Duration::from_mins(1);

/// Requests of an agent's first seconds are not limited: it has to learn where it stands.
const START: Duration = Duration::from_secs(10);

/// A watch waits so long at most for a server that is away.
const LONGEST_AWAY: Duration = Duration::from_mins(10);

/// Most objects that are remembered as read once.
const MOST_READ: usize = 4_096;

/// How often it is logged that requests wait because an agent has sent its most.
const TOLD_EVERY: Duration = Duration::from_hours(1);

/// What a request counts as, for the limit of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A watch, or the first page of a watch's list.
    Watch,
    /// A call on which a decision depends.
    Call,
    /// A call that only improves a text.
    Leisure,
    /// An object that a drain reads once, by its name. If it is read again, that counts as a call.
    Once(String),
    /// A request that is not limited: an eviction, which has a pause of its own for each pod, and a page of a list after
    /// the first.
    Free,
}

/// Facts about one API server's speed, and what this process has sent to it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Deadline of the next page of a resource, if it is longer than [`CALL_DEADLINE`].
    patience: Mutex<BTreeMap<&'static str, Duration>>,
    /// Objects per page of a resource, if a page of the usual size was too long.
    pages: Mutex<BTreeMap<&'static str, u32>>,
    /// The server asked not to be called before this time, in milliseconds since boot.
    not_before: AtomicU64,
    /// The watches that have failed lately, by name.
    failed: Mutex<BTreeMap<String, Failed>>,
    /// `None` if there is no limit.
    sent: Option<Mutex<Sent>>,
    /// The agent's calls are not answered.
    away: watch::Sender<bool>,
    /// Number of requests that wait because of the limit, and on which a decision depends.
    held_back: AtomicUsize,
}

/// Counts a request as held back for as long as it lives.
struct HeldBack<'a>(&'a AtomicUsize);

impl<'a> HeldBack<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pace {
    /// For an agent, which runs for ever beside many others: at most 60 requests in any minute, of which at most 44 are
    /// for watches and at most 44 are calls. Evictions, the pages of one list after the first, objects that a drain reads
    /// once by name, and the first 10 s do not count. A request that is one too many waits.
    pub fn of_an_agent() -> Self {
        Self(Arc::new(Shared { sent: Some(Mutex::new(Sent::new(Instant::now()))), ..Shared::default() }))
    }

    /// Waits until a request of this kind may be sent, and counts it as sent. Cancel-safe.
    pub(crate) async fn admit(&self, kind: Kind) {
        let Some(sent) = &self.0.sent else { return };
        loop {
            let room_at = lock(sent).admit(&kind, Instant::now());
            let Some(room_at) = room_at else { return };
            let _held = (kind != Kind::Leisure).then(|| HeldBack::new(&self.0.held_back));
            sleep_until(room_at).await;
        }
    }

    /// Notes whether the server answers the calls of this agent. While it does not, watches wait: one call at a time is
    /// enough to see that the server is back.
    pub fn set_away(&self, is_away: bool) {
        self.0.away.send_if_modified(|away| std::mem::replace(away, is_away) != is_away);
    }

    /// Waits as long as the server does not answer, but not for ever: the answer to another call may be late.
    pub async fn until_back(&self) {
        let mut away = self.0.away.subscribe();
        tokio::select! {
            // The sender lives as long as this does.
            _ = away.wait_for(|is_away| !*is_away) => {}
            () = tokio::time::sleep(LONGEST_AWAY) => {}
        }
    }

    /// True while a request on which a decision depends waits, because this agent has sent its most of a minute.
    pub fn holds_back(&self) -> bool {
        self.0.held_back.load(Ordering::Relaxed) > 0
    }

    /// A new attempt begins: it may read each object once more.
    pub(crate) fn forget_what_was_read(&self) {
        if let Some(sent) = &self.0.sent {
            lock(sent).read.clear();
        }
    }

    /// Deadline of a page of this resource: 10 s, and 20, 40, 60 s after one, two, three time-outs in a row. A list over
    /// 150,000 pods takes an old server longer than any fixed limit.
    pub(crate) fn deadline(&self, resource: &'static str) -> Duration {
        lock(&self.0.patience).get(resource).copied().unwrap_or(CALL_DEADLINE)
    }

    /// Notes the duration of a page of this resource; `None` if it timed out.
    pub(crate) fn learn(&self, resource: &'static str, took: Option<Duration>) {
        let deadline = self.deadline(resource);
        match took {
            None => {
                lock(&self.0.patience).insert(resource, deadline.saturating_mul(2).min(LONGEST_PAGE));
            }
            // The server is quick again, so the usual deadline counts again and a hanging page is noticed soon.
            Some(took) if took < CALL_DEADLINE / 2 => {
                lock(&self.0.patience).remove(resource);
            }
            Some(_) => {}
        }
    }

    /// Objects per page of this resource; `usual` if no page of that size was too long. 0 = all at once.
    pub(crate) fn page(&self, resource: &'static str, usual: u32) -> u32 {
        let short = lock(&self.0.pages).get(resource).copied();
        short.filter(|short| usual == 0 || *short < usual).unwrap_or(usual)
    }

    /// A page was too long: from now on pages of this resource have so many objects at most.
    pub(crate) fn ask_for_shorter_pages(&self, resource: &'static str, page: u32) {
        lock(&self.0.pages).insert(resource, page);
    }

    /// Notes the `Retry-After` of a server that is busy (429) or cannot serve (503).
    pub(crate) fn note(&self, status: StatusCode, headers: &HeaderMap) {
        let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if let Some(after) = retry_after(headers).filter(|_| is_busy) {
            self.not_before(boot_time() + retry::retry_after(after));
        }
    }

    /// Notes that the server asked not to be called before this time.
    pub(crate) fn not_before(&self, at: Moment) {
        self.0.not_before.fetch_max(at.0, Ordering::Relaxed);
    }

    /// Time for which the server asked not to be called.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        now.until(Moment(self.0.not_before.load(Ordering::Relaxed)))
    }

    /// Waits until the server may be asked for another list.
    pub(crate) async fn wait(&self) {
        tokio::time::sleep(self.left(boot_time())).await;
    }

    /// The pauses of the watch with this name. They go on where those of an earlier watch of this name have stopped:
    /// a new connection is no reason to ask a failing server more often.
    pub(crate) fn pauses(&self, name: String) -> Pauses {
        Pauses { pace: self.clone(), name, random: RandomState::new() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requests of the last minute that count.
#[derive(Debug)]
struct Sent {
    begun: Instant,
    all: VecDeque<Instant>,
    watches: VecDeque<Instant>,
    calls: VecDeque<Instant>,
    at_leisure: VecDeque<Instant>,
    /// Objects that were read by name since the attempt began.
    read: BTreeSet<String>,
    told: Option<Instant>,
}

impl Sent {
    fn new(begun: Instant) -> Self {
        let none = VecDeque::new;
        Self {
            begun,
            all: none(),
            watches: none(),
            calls: none(),
            at_leisure: none(),
            read: BTreeSet::new(),
            told: None,
        }
    }

    /// Counts a request as sent now. If it may not be sent yet, gives the time at which to ask again.
    fn admit(&mut self, kind: &Kind, now: Instant) -> Option<Instant> {
        if now < self.begun + START {
            return None;
        }
        let is_read_first =
            matches!(kind, Kind::Once(key) if self.read.len() < MOST_READ && self.read.insert(key.clone()));
        if is_read_first || *kind == Kind::Free {
            return None;
        }
        let of_kind = match kind {
            Kind::Watch => (&mut self.watches, MOST_OF_A_KIND),
            Kind::Call | Kind::Leisure | Kind::Once(_) | Kind::Free => (&mut self.calls, MOST_OF_A_KIND),
        };
        let leisure = (*kind == Kind::Leisure).then_some((&mut self.at_leisure, MOST_AT_LEISURE));
        let mut counted: Vec<_> = [(&mut self.all, MOST), of_kind].into_iter().chain(leisure).collect();
        let room_at = counted.iter_mut().filter_map(|(sent, most)| room_at(sent, *most, now)).max();
        match room_at {
            Some(_) => self.tell(now),
            None => counted.into_iter().for_each(|(sent, _)| sent.push_back(now)),
        }
        room_at
    }

    fn tell(&mut self, now: Instant) {
        if self.told.is_some_and(|told| now < told + TOLD_EVERY) {
            return;
        }
        self.told = Some(now);
        tracing::warn!(
            "this agent has sent {} requests to the API server within a minute, {} of them for watches and their lists, and \
             may send {MOST}, at most {MOST_OF_A_KIND} for watches and {MOST_OF_A_KIND} for the rest: further ones wait; the \
             API server fails or ends requests, or something changes all the time",
            self.all.len(),
            self.watches.len()
        );
    }
}

/// The time at which there is room for one more; `None` if there is now.
fn room_at(sent: &mut VecDeque<Instant>, most: usize, now: Instant) -> Option<Instant> {
    while sent.front().is_some_and(|first| *first + WINDOW <= now) {
        sent.pop_front();
    }
    sent.front().filter(|_| sent.len() >= most).map(|first| *first + WINDOW)
}

/// Failures in a row of one watch.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// The next pause is a random part of this.
    limit: Duration,
    /// When the last pause ended.
    until: Moment,
}

impl Failed {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);
    /// Shortest pause, whatever the random number is: a failing server must not be called in a loop.
    const SHORTEST: Duration = Duration::from_millis(50);
    const FORGOTTEN: Duration = Duration::from_mins(1);

    fn is_forgotten(&self, now: Moment) -> bool {
        now.since(self.until) >= Self::FORGOTTEN
    }

    /// The pause after a failure at `now`; `share`, from 0 to 1, is the random part of the limit, and `asked` what the
    /// server asked for.
    fn again(before: Option<Self>, now: Moment, asked: Duration, share: f64) -> (Self, Duration) {
        let before = before.filter(|before| !before.is_forgotten(now));
        let limit = before.map_or(Self::FIRST, |before| before.limit.saturating_mul(2).min(Self::LONGEST));
        let pause = asked + limit.mul_f64(share).max(Self::SHORTEST);
        (Self { limit, until: now + pause }, pause)
    }
}

/// Back-off of a watch after failures in a row: a random time within a limit that doubles from 0.5 s to 30 s, so that
/// the agents of a cluster do not all come back at the moment when the API server does (client-go waits 0.8 to 30 s). If
/// a server asks for a longer pause (`Retry-After`), it gets that first.
///
/// kube-runtime resets a back-off at every event that is not a failure, also at "a list begins", which does not come
/// from the server. So this one is reset by time alone.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    pace: Pace,
    name: String,
    random: RandomState,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = boot_time();
        // The hasher's state is random, and differs from watch to watch.
        let dice = u32::try_from(self.random.hash_one(now.0) >> 32).unwrap_or_default();
        let share = f64::from(dice) / f64::from(u32::MAX);
        let mut all = lock(&self.pace.0.failed);
        all.retain(|_, failed| !failed.is_forgotten(now));
        let (failed, pause) = Failed::again(all.get(&self.name).copied(), now, self.pace.left(now), share);
        all.insert(self.name.clone(), failed);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

/// The seconds of a `Retry-After` header. The API server never sends the other form, a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_in_seconds() {
        use http::HeaderValue;
        use http::header::RETRY_AFTER;

        let cases =
            [("1", Some(1)), (" 10 ", Some(10)), ("-1", None), ("Sat, 21 Nov 2026 12:00:00 GMT", None)];
        for (text, expected) in cases {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

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
        for (status, after, expected) in [
            (StatusCode::OK, "30", 0),
            (StatusCode::TOO_MANY_REQUESTS, "", 0),
            (StatusCode::TOO_MANY_REQUESTS, "30", 30),
            (StatusCode::SERVICE_UNAVAILABLE, "5", 5),
            (StatusCode::SERVICE_UNAVAILABLE, "86400", 60),
        ] {
            let pace = Pace::default();
            let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, after.parse().unwrap())]);
            pace.note(status, &headers);
            let left = pace.left(boot_time()).as_millis().div_ceil(1000);
            assert_eq!(left, expected, "{status} {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_waits_for_a_server_that_is_away_but_not_for_ever() {
        let (pace, begun) = (Pace::default(), Instant::now());
        pace.until_back().await;
        pace.set_away(true);
        pace.until_back().await;
        assert_eq!(begun.elapsed().as_secs(), LONGEST_AWAY.as_secs());
        tokio::join!(pace.until_back(), async { pace.set_away(false) });
        assert_eq!(begun.elapsed().as_secs(), LONGEST_AWAY.as_secs());
    }

    #[test]
    fn pauses_are_random_within_a_limit_that_doubles_to_thirty_seconds() {
        let mut failed = None;
        let mut pause = |now, share| {
            let (next, pause) = Failed::again(failed, Moment(now), Duration::ZERO, share);
            failed = Some(next);
            pause
        };
        for limit in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert_eq!(pause(1_000, 1.0), Duration::from_millis(limit));
        }
        assert_eq!(pause(2_000, 0.5), Duration::from_secs(15));
        assert_eq!(pause(3_000, 0.0), Failed::SHORTEST, "never in a loop");
        assert_eq!(pause(60_000, 1.0), Failed::LONGEST, "not forgotten yet");
        assert_eq!(pause(150_000, 1.0), Failed::FIRST, "the last pause ended long ago");
        let asked = Duration::from_secs(9);
        assert_eq!(
            Failed::again(None, Moment(0), asked, 1.0).1,
            asked + Failed::FIRST,
            "what the server asks for comes first"
        );
    }

    /// Asks to send one request of each of these kinds ten times a second for ten minutes. The most that were admitted
    /// within [`WINDOW`].
    fn most_in_a_minute(kinds: &[Kind]) -> usize {
        let begun = Instant::now();
        let mut sent = Sent::new(begun);
        let mut times = VecDeque::new();
        let mut most = 0;
        for tenth in 0..6_000 {
            let now = begun + START + Duration::from_millis(tenth * 100);
            for kind in kinds {
                if sent.admit(kind, now).is_none() {
                    times.push_back(now);
                }
            }
            times.retain(|time| *time + WINDOW > now);
            most = most.max(times.len());
        }
        most
    }

    #[test]
    fn an_agent_never_sends_more_than_sixty_requests_within_a_minute() {
        let read = || Kind::Once("get persistentvolumes a".to_owned());
        for (kinds, most) in [
            (vec![Kind::Watch], 44),
            (vec![Kind::Call], 44),
            (vec![Kind::Leisure], 16),
            (vec![Kind::Leisure, Kind::Call], 44),
            (vec![read()], 45),
            (vec![Kind::Watch, Kind::Call], 60),
            (vec![Kind::Watch, Kind::Call, Kind::Leisure, read()], 61),
        ] {
            assert_eq!(most_in_a_minute(&kinds), most, "{kinds:?}");
        }
    }

    #[test]
    fn the_first_seconds_and_what_is_read_once_do_not_count() {
        let begun = Instant::now();
        let mut sent = Sent::new(begun);
        let mut all = |kind: fn(usize) -> Kind, now| {
            (0..1_000).filter(|&at| sent.admit(&kind(at), now).is_none()).count()
        };
        assert_eq!(all(|_| Kind::Call, begun), 1_000);
        let later = begun + START;
        assert_eq!(all(|at| Kind::Once(format!("get persistentvolumes {at}")), later), 1_000);
        assert_eq!(all(|_| Kind::Free, later), 1_000);
        assert_eq!(all(|_| Kind::Call, later), MOST_OF_A_KIND);
        assert_eq!(all(|_| Kind::Leisure, later), 0, "what is at leisure gives way");
        assert_eq!(all(|_| Kind::Watch, later), MOST - MOST_OF_A_KIND, "calls leave room for watches");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_too_many_waits_and_nothing_waits_without_a_limit() {
        let pace = Pace::of_an_agent();
        tokio::time::advance(START).await;
        let begun = Instant::now();
        for _ in 0..=MOST_OF_A_KIND {
            Pace::default().admit(Kind::Call).await;
            pace.admit(Kind::Call).await;
        }
        assert_eq!(begun.elapsed(), WINDOW);
        assert!(!pace.holds_back());
        for _ in 1..MOST_OF_A_KIND {
            pace.admit(Kind::Call).await;
        }
        for (kind, is_told) in [(Kind::Call, true), (Kind::Leisure, false)] {
            let mut waits = Box::pin(pace.admit(kind));
            assert!(futures::poll!(&mut waits).is_pending());
            assert_eq!(pace.holds_back(), is_told);
            drop(waits);
            assert!(!pace.holds_back(), "nobody waits any more");
        }
    }
}
