//! Waiting for what an agent makes of something that was written.

use std::path::Path;
use std::time::Duration;

use pubsub::PathWatch;
use tokio::time::timeout;

/// How long an agent that runs may take to take something: it is a matter of milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// Looks until something is found, anew whenever one of the folders has changed; nothing when it takes too long.
pub(crate) async fn until<T, P: AsRef<Path>>(
    folders: impl IntoIterator<Item = P>,
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let mut watch = PathWatch::new(folders);
    let looking = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            watch.changed().await;
        }
    };
    timeout(limit, looking).await.ok()
}
