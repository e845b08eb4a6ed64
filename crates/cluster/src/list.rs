//! Consistent lists, read page by page.

use std::fmt::Debug;

use kube::core::Request;
use kube::core::params::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::bounds::{Items, Room, most_pages, shorter};
use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::{Cluster, Reply};

/// Number of tries of a list: it starts again if its next page has expired.
const TRIES: u32 = 3;

/// Objects to list.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// The whole collection.
    All,
    /// Objects with these field values, such as `spec.nodeName=edge-a`.
    Fields(String),
    /// Objects with these labels, such as `app in (db,web),!old`; all if empty.
    Labels(String),
}

impl Selection {
    /// The parameters of the list; `page` objects at a time, 0 = all at once.
    fn params(&self, page: u32) -> ListParams {
        let params = if page == 0 { ListParams::default() } else { ListParams::default().limit(page) };
        match self {
            Self::All => params,
            Self::Fields(fields) => params.fields(fields),
            Self::Labels(labels) if labels.is_empty() => params,
            Self::Labels(labels) => params.labels(labels),
        }
    }
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned", default)]
struct Page<T> {
    metadata: PageMetadata,
    items: Items<T>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { metadata: PageMetadata::default(), items: Items::default() }
    }
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(rename = "remainingItemCount")]
    remaining: Option<usize>,
}

/// The result of one try.
enum Listed<V> {
    Whole(Vec<V>),
    /// The server has forgotten the version to which the pages belong.
    Expired,
}

impl Cluster {
    /// Lists directly from the server's storage: no resourceVersion is sent, so no cache may answer. All pages belong to
    /// the same version; if the server has forgotten it, the list starts again, three times at most. Each page is
    /// trimmed before the next one comes. A page that is too long is asked for again with half the objects.
    pub(crate) async fn list<T: DeserializeOwned, V: Debug>(
        &self,
        operation: &Operation<'_>,
        path: &str,
        selection: &Selection,
        trim: impl Fn(&T) -> V,
    ) -> Result<Vec<V>, ApiFailure> {
        for _ in 0..TRIES {
            if let Listed::Whole(objects) = self.pages(operation, path, selection, &trim).await? {
                return Ok(objects);
            }
        }
        Err(ApiFailure::other(format!(
            "cannot {operation}: the next page had expired each of {TRIES} times; ask for larger pages"
        )))
    }

    /// Reads the first `limit` objects. Also tells how many there are in all, if the server says so.
    pub(crate) async fn first<T: DeserializeOwned, V>(
        &self,
        operation: &Operation<'_>,
        path: &str,
        limit: u32,
        trim: impl Fn(&T) -> V,
    ) -> Result<(Vec<V>, Option<usize>), ApiFailure> {
        let request = Request::new(path).list(&Selection::All.params(limit));
        let page: Page<T> = self.page_of(operation, request).await?.object(operation)?;
        let objects: Vec<V> = page.items.0.iter().map(trim).collect();
        let is_whole = page.metadata.next.is_empty();
        let remaining = if is_whole { Some(0) } else { page.metadata.remaining };
        let total = remaining.map(|remaining| objects.len().saturating_add(remaining));
        Ok((objects, total))
    }

    /// Reads one page. After a time-out the next page gets a longer deadline.
    async fn page_of(
        &self,
        operation: &Operation<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Reply, ApiFailure> {
        let (pace, resource) = (self.pace(), operation.resource);
        let request = self.admitted(operation, request).await?;
        // By the clock of the deadline, which stands still while the machine is suspended.
        let (begun, deadline) = (Instant::now(), pace.deadline(resource));
        let reply = self.send(operation, request, deadline).await;
        let took = begun.elapsed();
        pace.learn(resource, (reply.is_ok() || took < deadline).then_some(took));
        reply
    }

    async fn pages<T: DeserializeOwned, V: Debug>(
        &self,
        operation: &Operation<'_>,
        path: &str,
        selection: &Selection,
        trim: &impl Fn(&T) -> V,
    ) -> Result<Listed<V>, ApiFailure> {
        let mut size = self.pace().page(operation.resource, self.page());
        let mut params = selection.params(size);
        let (mut objects, mut room, mut number) = (Vec::new(), Room::default(), 0);
        while number < most_pages(size) {
            let reply = self.page_of(operation, Request::new(path).list(&params)).await?;
            if number > 0 && reply.is_expired() {
                return Ok(Listed::Expired);
            }
            if reply.is_too_long()
                && let Some(half) = shorter(size)
            {
                size = half;
                self.pace().ask_for_shorter_pages(operation.resource, half);
                params = params.limit(half);
                continue;
            }
            let page: Page<T> = reply.object(operation)?;
            for object in page.items.0.iter().map(trim) {
                if !room.takes(&object) {
                    return Err(ApiFailure::other(format!(
                        "cannot {operation}: the list is longer than 256 MiB"
                    )));
                }
                objects.push(object);
            }
            number += 1;
            if page.metadata.next.is_empty() {
                return Ok(Listed::Whole(objects));
            }
            params = params.continue_token(&page.metadata.next);
        }
        Err(ApiFailure::other(format!("cannot {operation}: the list has no end")))
    }
}
