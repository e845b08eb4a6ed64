//! Why a drain shows nothing: its watches do not say so themselves when a right is missing.

use std::time::Duration;

use cluster::{Cluster, fresh_look};
use futures::FutureExt;
use futures::future::BoxFuture;

/// Watches that have shown nothing for so long may never show anything.
pub(crate) const BLIND_AFTER: Duration = Duration::from_secs(2);

/// Then it is asked again this often.
pub(crate) const BLIND_AGAIN: Duration = Duration::from_secs(10);

/// Why nothing can be seen of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blindness {
    /// It may pass, and the drain goes on then.
    Passing(String),
    /// A missing right, mostly: it does not pass by itself.
    Lasting(String),
}

/// A question under way; `None` once something is seen.
pub(crate) type Asking = Option<BoxFuture<'static, Blindness>>;

/// The answer, for ever without a question.
pub(crate) async fn ask(asking: &mut Asking) -> Blindness {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// After this pause: why the watches show nothing.
pub(crate) fn why_blind(cluster: Cluster, node: String, pause: Duration) -> BoxFuture<'static, Blindness> {
    async move {
        tokio::time::sleep(pause).await;
        match fresh_look(&cluster, &node, None, false).await {
            Err(failure) if failure.is_unreachable() => Blindness::Passing(failure.to_string()),
            Err(failure) => Blindness::Lasting(failure.to_string()),
            Ok(_) => Blindness::Passing("its pods can be listed, but watches show nothing".to_owned()),
        }
    }
    .boxed()
}
