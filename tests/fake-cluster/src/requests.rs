//! The log of requests: which client sent which requests, as an audit log would count them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;

/// Number of requests that are kept with their bodies.
const MAX_RECENT: usize = 4096;

/// Number of bytes that are kept of a body.
const MAX_LENGTH: usize = 4096;

/// One request to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The headers that say who asks, `Authorization` and `Impersonate-…`, as `name: value` in the order of the names.
    pub identity: Vec<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `other`.
    pub verb: String,
    /// `pods`, `pods/eviction`; the path if it names no kind.
    pub resource: String,
    /// Namespace; empty for all namespaces and for cluster-wide kinds.
    pub namespace: String,
    /// Name of the object; empty for lists.
    pub name: String,
    /// The query (after the `?`).
    pub query: String,
    /// The first 4 KiB of the request's body.
    pub body: Bytes,
    /// When it came, in the cluster's time since its start.
    pub at: Duration,
    /// Status code of the answer; `None` if no answer was sent (yet).
    pub code: Option<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counters: BTreeMap<Counter, u64>,
    recent: VecDeque<(u64, Request)>,
    next: u64,
    /// Number of requests that were answered with an error, by verb and resource.
    failed: BTreeMap<(String, String), u64>,
    /// Number of requests that a fault has kept from their answer.
    met_by_faults: u64,
    /// Number of requests under way, now and at most, by verb and resource.
    in_flight: BTreeMap<(String, String), (usize, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counter {
    user_agent: String,
    verb: String,
    resource: String,
}

impl Log {
    /// Records a request; its answer is recorded through the ticket.
    pub(crate) fn begin(&self, mut request: Request) -> Ticket<'_> {
        // A copy, because a slice of a longer body would keep all of it in memory.
        request.body = Bytes::copy_from_slice(request.body.get(..MAX_LENGTH).unwrap_or(&request.body));
        let kind = (request.verb.clone(), request.resource.clone());
        let mut state = self.state();
        state.count(&request);
        let (now, peak) = state.in_flight.entry(kind.clone()).or_default();
        *now += 1;
        *peak = (*peak).max(*now);
        let number = state.next;
        state.next += 1;
        state.recent.push_back((number, request));
        if state.recent.len() > MAX_RECENT {
            state.recent.pop_front();
        }
        Ticket { log: self, kind, number }
    }

    /// Notes that a fault keeps a request from its answer.
    pub(crate) fn meets_fault(&self) {
        self.state().met_by_faults += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self, request: &Request) {
        let counter = Counter {
            user_agent: request.user_agent.clone(),
            verb: request.verb.clone(),
            resource: request.resource.clone(),
        };
        *self.counters.entry(counter).or_default() += 1;
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    log: &'a Log,
    kind: (String, String),
    number: u64,
}

impl Ticket<'_> {
    /// Records the answer.
    pub(crate) fn answered(self, code: u16) {
        let mut state = self.log.state();
        if code >= 400 {
            *state.failed.entry(self.kind.clone()).or_default() += 1;
        }
        let place = state.recent.binary_search_by_key(&self.number, |(number, _)| *number);
        if let Some((_, request)) = place.ok().and_then(|index| state.recent.get_mut(index)) {
            request.code = Some(code);
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.log.state().in_flight.get_mut(&self.kind) {
            *now = now.saturating_sub(1);
        }
    }
}

/// The requests to the API; from [`FakeCluster::requests`](crate::FakeCluster::requests).
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    pub(crate) log: &'a Log,
}

impl Requests<'_> {
    /// Number of requests of clients whose `User-Agent` begins with `user_agent`, with this verb on this resource; `*`
    /// matches all.
    pub fn count(self, user_agent: &str, verb: &str, resource: &str) -> u64 {
        let is = |wanted: &str, given: &str| wanted == "*" || wanted == given;
        let fits = |counter: &Counter| {
            (user_agent == "*" || counter.user_agent.starts_with(user_agent))
                && is(verb, &counter.verb)
                && is(resource, &counter.resource)
        };
        self.log.state().counters.iter().filter(|(counter, _)| fits(counter)).map(|(_, count)| count).sum()
    }

    /// Number of requests that were answered with an error, as `(verb, resource, count)`, in that order.
    pub fn failed(self) -> Vec<(String, String, u64)> {
        let state = self.log.state();
        let failed = state.failed.iter();
        failed.map(|((verb, resource), count)| (verb.clone(), resource.clone(), *count)).collect()
    }

    /// Number of requests that a fault has kept from their answer: by another answer, or by none.
    pub fn met_by_faults(self) -> u64 {
        self.log.state().met_by_faults
    }

    /// The last 4096 requests, oldest first.
    pub fn recent(self) -> Vec<Request> {
        self.log.state().recent.iter().map(|(_, request)| request.clone()).collect()
    }

    /// The requests with this number or a higher one, oldest first, as far as they are kept; and the number that the
    /// next request will have. The first request has the number 0.
    pub fn since(self, number: u64) -> (Vec<Request>, u64) {
        let state = self.log.state();
        let from = state.recent.partition_point(|(other, _)| *other < number);
        (state.recent.range(from..).map(|(_, request)| request.clone()).collect(), state.next)
    }

    /// The greatest number of such requests that were under way at one time.
    pub fn peak(self, verb: &str, resource: &str) -> usize {
        let key = (verb.to_owned(), resource.to_owned());
        self.log.state().in_flight.get(&key).map_or(0, |(_, peak)| *peak)
    }

    /// The number of such requests that are under way now: a watch is, until its answer begins.
    pub fn in_flight(self, verb: &str, resource: &str) -> usize {
        let key = (verb.to_owned(), resource.to_owned());
        self.log.state().in_flight.get(&key).map_or(0, |(now, _)| *now)
    }

    /// Resets all counters to zero.
    pub fn clear(self) {
        let mut state = self.log.state();
        state.counters.clear();
        state.recent.clear();
        state.failed.clear();
        state.met_by_faults = 0;
        for (now, peak) in state.in_flight.values_mut() {
            *peak = *now;
        }
    }
}
