//! Answers of an API server, or of anything in its place: lists, objects, Statuses, lines of watches. Every call ends
//! after a bounded number of requests, with a result or with a failure of one line; what was found can be judged.
//!
//! Parts: `PATH CODE [SECONDS]`. A request whose path contains the word PATH is answered with this code, this
//! `Retry-After` and the content; further parts of the same PATH answer its further requests, and the last one answers
//! all that come after. `watch/RESOURCE CODE` answers watches in the same way; without such a part a watch stays open
//! and sends nothing. Any other request without a part is answered with 404.
#![no_main]

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::answer::{Asked, classify};
use cluster::evict::{would_delete, would_evict};
use cluster::identity::Identity;
use cluster::preflight::preflight;
use cluster::{
    ApiFailure, Cluster, Informer, SlotFailure, SlotMap, Trial, full_snapshot, get_node, inquire, list_nodes,
    read_slots,
};
use drain::findings::{BudgetQuery, MachineQuery};
use drain::{Answer, Inquiry, PodId, Policy, Selector, Snapshot, plan};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use libfuzzer_sys::fuzz_target;
use parts::{Part, parts};
use tokio::time::timeout;
use tower::service_fn;

const NODE: &str = "edge-a";

/// More requests than all calls together make: 200 pages of each list, three times for a call, and up to twelve times in
/// [`WATCHED`] for a watch, because the pauses between its tries grow.
const MOST_REQUESTS: usize = 40_000;

/// For how long a drain's watches are watched, by the clock that stands still while something happens.
const WATCHED: Duration = Duration::from_mins(1);

struct Reply {
    path: String,
    code: StatusCode,
    seconds: String,
    body: Vec<u8>,
    is_used: bool,
}

/// The API server.
#[derive(Clone)]
struct Server(Arc<Mutex<(Vec<Reply>, usize)>>);

impl Server {
    fn of(parts: &[Part<'_>]) -> Self {
        let reply = |part: &Part<'_>| Reply {
            path: part.word(0).to_owned(),
            code: part
                .word(1)
                .parse()
                .ok()
                .and_then(|code| StatusCode::from_u16(code).ok())
                .unwrap_or_default(),
            seconds: part.word(2).to_owned(),
            body: part.content.to_vec(),
            is_used: false,
        };
        Self(Arc::new(Mutex::new((parts.iter().map(reply).collect(), 0))))
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let is_watch = query.contains("watch=true");
        let response = self.response(path, is_watch);
        match response {
            Some(response) => Ok(response),
            None if is_watch => pending().await,
            None => Ok(Response::builder().status(404).body(Body::empty()).expect("a response")),
        }
    }

    fn response(&self, path: &str, is_watch: bool) -> Option<Response<Body>> {
        let mut state = self.0.lock().expect("one thread");
        let (replies, requests) = &mut *state;
        *requests += 1;
        assert!(*requests < MOST_REQUESTS, "calls without an end");
        let fits = |reply: &Reply| match reply.path.strip_prefix("watch/") {
            Some(resource) => is_watch && path.ends_with(resource),
            None => !is_watch && path.contains(&reply.path),
        };
        let last = replies.iter().rposition(fits);
        let place = replies.iter().position(|reply| fits(reply) && !reply.is_used);
        let reply = replies.get_mut(place.or(last)?)?;
        reply.is_used = true;
        let response = Response::builder().status(reply.code);
        let response = match reply.seconds.parse::<u32>() {
            Ok(seconds) => response.header("Retry-After", seconds),
            Err(_) => response,
        };
        response.body(Body::from(reply.body.clone())).ok()
    }
}

/// A text for a report: one line, not endless.
fn check_text(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(!text.is_empty() && text.chars().count() < 2_000, "{text}");
}

fn check_failure<T>(result: &Result<T, ApiFailure>) {
    if let Err(failure) = result {
        check_text(failure.text());
    }
}

/// The text in an answer to an eviction.
fn check_answer(answer: &Answer) {
    match answer {
        Answer::Budget(refusal) => check_text(&refusal.text),
        Answer::Throttled { text, .. }
        | Answer::Webhook { text }
        | Answer::Denied { text }
        | Answer::Retry { text }
        | Answer::Rejected { text } => check_text(text),
        _ => {}
    }
}

/// What an answer means does not depend on the text if the code says it all.
fn check_classification(part: &Part<'_>) {
    let Ok(code) = part.word(1).parse::<u16>() else { return };
    let body = String::from_utf8_lossy(part.content);
    for asked in [Asked::Eviction, Asked::Deletion] {
        let answer = classify(asked, code, None, &body);
        check_answer(&answer);
        assert_eq!(answer == Answer::Accepted, (200..300).contains(&code), "{code}: {answer:?}");
        assert!(code == 404 || !matches!(answer, Answer::Gone | Answer::NoEvictions), "{code}: {answer:?}");
        let is_about_a_pod = body.contains("pods") || body.contains("namespaces") || body.contains('\\');
        assert!(is_about_a_pod || answer != Answer::Gone, "a 404 that names no pod: {body}");
    }
}

/// A decision about what was found.
fn check_snapshot(snapshot: &Snapshot) {
    assert_eq!(plan(snapshot, &Policy::device()).len(), snapshot.pods.len());
    assert!(snapshot.pods.is_sorted_by(|one, other| one.id <= other.id));
}

async fn check_slots(cluster: &Cluster) {
    match read_slots(cluster, &SlotMap::new("kube-system", "default")).await {
        Ok(slots) => {
            for holder in &slots.holders {
                assert!(!holder.node.is_empty() && !holder.node_uid.is_empty(), "{holder:?}");
            }
            assert!(slots.holders.is_sorted_by(|one, other| one.node < other.node));
            assert!(slots.version.is_some() || slots.holders.is_empty());
            slots.unreadable.iter().for_each(|entry| check_text(&entry.why));
        }
        Err(SlotFailure::Conflict) => panic!("nothing was written"),
        Err(failure) => check_text(&failure.to_string()),
    }
}

async fn check_inquiry(cluster: &Cluster) {
    let name = |name: &str| name.to_owned();
    let inquiry = Inquiry {
        budgets: vec![BudgetQuery {
            namespace: name("shop"),
            name: name("db"),
            selector: Selector::default(),
        }],
        machines: vec![MachineQuery { pod: name("shop/vm"), namespace: name("shop"), name: name("vm") }],
        longhorn: Some(name("longhorn-system")),
        controller_manager: true,
    };
    let findings = inquire(cluster, NODE, &inquiry).await;
    findings.trouble.iter().for_each(|line| check_text(line));
}

async fn check_watches(cluster: &Cluster) {
    let mut informer = Informer::start(cluster, NODE);
    let all = async {
        loop {
            let snapshot = informer.changed().await;
            check_snapshot(&snapshot);
        }
    };
    timeout(WATCHED, all).await.ok();
    if let Some(failure) = informer.last_error() {
        check_text(failure.text());
    }
}

async fn check_all(server: Server) {
    let service = service_fn(move |request| server.clone().answer(request));
    let cluster = Cluster::new(kube::Client::new(service, "default"));
    check_failure(&list_nodes(&cluster).await);
    check_failure(&get_node(&cluster, NODE).await);
    let snapshot = full_snapshot(&cluster, NODE).await;
    check_failure(&snapshot);
    snapshot.iter().for_each(check_snapshot);
    check_slots(&cluster).await;
    check_inquiry(&cluster).await;
    let pod = PodId { namespace: "shop".to_owned(), name: "db-0".to_owned(), uid: "u-db-0".to_owned() };
    check_answer(&would_evict(&cluster, &pod, None).await);
    check_answer(&would_delete(&cluster, &pod, None).await);
    check_failure(&Trial::ask(&cluster, NODE, &Policy::device()).await);
    let identity = Identity { node_name: Some(NODE.to_owned()), ..Identity::default() };
    let found = preflight(&cluster, &identity, Some(&SlotMap::new("kube-system", "default"))).await;
    found.problems.iter().for_each(|problem| check_text(&problem.text));
    check_watches(&cluster).await;
}

fuzz_target!(|input: &[u8]| {
    let parts = parts(input);
    parts.iter().for_each(check_classification);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(check_all(Server::of(&parts)));
});
