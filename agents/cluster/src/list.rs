//! Consistent lists, page by page.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::ApiFailure;
use crate::operation::Operation;
use crate::wire::Cluster;
use kube::core::Request;
use kube::core::params::ListParams;

/// Objects per page: client-go's size.
const PAGE: u32 = 500;

/// No list has more pages: a server that never ends one must not fill the memory.
const MOST_PAGES: usize = 200;

/// What a list is about.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// The whole collection.
    All,
    /// Objects with these field values, such as `spec.nodeName=edge-a`.
    Fields(String),
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    // Go writes an empty list as null.
    #[serde(default = "Option::default")]
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

impl Cluster {
    /// A list straight from the server's store: no resourceVersion is sent, so no cache may answer. All pages are of
    /// the same moment. Each page is trimmed before the next one comes.
    pub(crate) async fn list<T: DeserializeOwned, V>(
        &self,
        operation: &Operation<'_>,
        path: &str,
        selection: &Selection,
        trim: impl Fn(&T) -> V,
    ) -> Result<Vec<V>, ApiFailure> {
        let mut params = ListParams::default().limit(PAGE);
        if let Selection::Fields(fields) = selection {
            params = params.fields(fields);
        }
        let mut objects = Vec::new();
        for _ in 0..MOST_PAGES {
            let page: Page<T> = self.fetch(operation, Request::new(path).list(&params)).await?;
            objects.extend(page.items.unwrap_or_default().iter().map(&trim));
            if page.metadata.next.is_empty() {
                return Ok(objects);
            }
            params = params.continue_token(&page.metadata.next);
        }
        Err(ApiFailure::other(format!("cannot {operation}: the list has no end")))
    }
}
