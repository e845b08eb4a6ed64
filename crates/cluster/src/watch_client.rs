//! The client of one watch: it limits what the watch may ask of the server.
//!
//! kube-runtime asks again at once when a page of a list or a watch has ended without a failure. A server, or a proxy in
//! its place, that sends pages of a list without an end, or that ends each watch at once, would be asked without a pause
//! for as long as it goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, service_fn};

use crate::connections::is_watch;
use crate::list::MOST_PAGES;

/// Shortest time between the starts of two requests of one watch. A real one lasts for minutes; a watch that ends
/// sooner without an event counts as a failure in client-go too.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// What a watch has asked until now. It makes one request at a time.
#[derive(Debug, Default)]
struct Asked {
    /// Pages of the list that is being read.
    pages: usize,
    /// Start of the last request for changes.
    watch: Option<Instant>,
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
            let start = self.watch.map_or(now, |last| now.max(last + SHORTEST_WATCH));
            self.watch = Some(start);
            return Ok(start);
        }
        let query = request.uri().query().unwrap_or_default();
        let is_next_page = query.split('&').any(|pair| pair.starts_with("continue="));
        self.pages = if is_next_page { self.pages + 1 } else { 1 };
        if self.pages > MOST_PAGES { Err("the list has no end") } else { Ok(now) }
    }
}

/// A client for one watch, which uses the connections of `client`. It has to be called in a tokio runtime.
pub(crate) fn watch_client(client: &kube::Client) -> kube::Client {
    let (asked, sender) = (Arc::new(Mutex::new(Asked::default())), client.clone());
    let limited = service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        let start = asked.lock().unwrap_or_else(PoisonError::into_inner).note(&request, Instant::now());
        async move {
            sleep_until(start?).await;
            sender.send(request).await.map_err(BoxError::from)
        }
    });
    kube::Client::new(limited, client.default_namespace())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use futures::StreamExt;
    use http::Response;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::runtime::watcher::Config;

    use super::*;
    use crate::connections::RetryAfter;
    use crate::watches::follow;

    /// The starts of a watch's requests, in seconds, within this time; the server gives these answers to a list and to a
    /// watch. Also the texts of the watch's failures. The clock is paused.
    async fn asked_within(
        limit: Duration,
        list: &'static str,
        watch: &'static str,
    ) -> (Vec<u64>, Vec<String>) {
        let (starts, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let noted = Arc::clone(&starts);
        let server = service_fn(move |request: Request<Body>| {
            let mut starts = noted.lock().unwrap();
            assert!(starts.len() < 10_000, "asked without a pause");
            starts.push(begun.elapsed().as_secs());
            let answer = if is_watch(&request) { watch } else { list };
            ready(Ok::<_, Infallible>(Response::new(Body::from(answer.as_bytes().to_vec()))))
        });
        let api: Api<Pod> = Api::all(watch_client(&kube::Client::new(server, "default")));
        let events = follow(api, Config::default(), "pods", RetryAfter::default());
        let failures =
            events.filter_map(async |event| event.err().map(|error| error.failure.text().to_owned()));
        let texts: Vec<String> = failures.take_until(tokio::time::sleep(limit)).collect().await;
        let starts = starts.lock().unwrap().clone();
        (starts, texts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_an_end_is_given_up_and_tried_again_after_a_pause() {
        let endless = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "more"}, "items": []}"#;
        let (starts, failures) = asked_within(Duration::from_secs(20), endless, "").await;
        assert!(
            !failures.is_empty() && starts.len() <= (failures.len() + 1) * MOST_PAGES,
            "{}",
            starts.len()
        );
        assert_eq!(failures[0], "cannot list pods: the list has no end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_at_once_begins_again_once_a_second() {
        let empty =
            r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}"#;
        let (starts, failures) = asked_within(Duration::from_millis(3_500), empty, "").await;
        assert_eq!((starts, failures), (vec![0, 0, 1, 2, 3], vec![]));
    }
}
