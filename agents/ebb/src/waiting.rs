//! Waits for an agent's reaction to a file, with a limit.

use std::path::Path;
use std::time::Duration;

use pubsub::PathWatch;
use tokio::time::{Instant, sleep_until, timeout};

/// Limit for the reaction of a running agent, which normally takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// Waits until a person's `--timeout` is over; zero is no limit.
pub(crate) async fn over(limit: Duration) {
    match Instant::now().checked_add(limit).filter(|_| !limit.is_zero()) {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Calls `look` now and after each change in the folders until it returns a value; `None` after `limit`.
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
