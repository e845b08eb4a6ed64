//! A task that writes the newest of several values into the cluster, again and again until the server takes it.

use std::time::Duration;

use cluster::{ApiFailure, Cluster};
use runtime::retry::pause_after;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::link::Link;

/// Longest pause before a write that was refused is tried again: the right may be missing for good.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// A value that is to stand in the cluster.
pub(crate) trait Value: Clone + Send + Sync + 'static {
    /// What cannot be done if a write fails, as the beginning of a log line.
    const FAILED: &'static str;

    /// The other one says the same in other words. If not, a write of this one does not keep the other one waiting.
    fn tells_the_same(&self, other: &Self) -> bool;

    /// Writes it.
    fn write(&self, cluster: &Cluster) -> impl Future<Output = Result<(), ApiFailure>> + Send;
}

/// The task that writes, and the value that it was given last.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    wanted: watch::Sender<Option<T>>,
    task: AbortHandle,
}

impl<T> Drop for Newest<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Value> Newest<T> {
    /// Starts the task. Has to be called in a tokio runtime.
    pub(crate) fn start(link: Link) -> Self {
        let (wanted, given) = watch::channel(None);
        Self { wanted, task: tokio::spawn(write(link, given)).abort_handle() }
    }

    /// Has this value written, and no earlier one any more.
    pub(crate) fn give(&self, value: T) {
        self.wanted.send_replace(Some(value));
    }

    /// Writes nothing more: the last value stands, or there is no place for it.
    pub(crate) fn forget(&self) {
        self.wanted.send_if_modified(|wanted| wanted.take().is_some());
    }

    /// The value that is being written, or was written last; `None` after [`Newest::forget`].
    pub(crate) fn given(&self) -> Option<T> {
        self.wanted.borrow().clone()
    }

    /// For a test without a cluster: the receiver has each value that is given, and nothing is written.
    #[cfg(test)]
    pub(crate) fn unwritten() -> (Self, watch::Receiver<Option<T>>) {
        let (wanted, given) = watch::channel(None);
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        (Self { wanted, task }, given)
    }
}

/// Writes the newest value until the server takes it, or until nothing is wanted any more.
///
/// A newer value ends the pause after a failed write; only after a write that the server has refused the pause stays. A newer value
/// that tells something else ends a write that goes on, too: that may take long.
async fn write<T: Value>(link: Link, mut wanted: watch::Receiver<Option<T>>) {
    while wanted.changed().await.is_ok() {
        let mut failures = 0;
        loop {
            let Some(value) = wanted.borrow_and_update().clone() else { break };
            let written = tokio::select! {
                written = write_once(&link, &value) => written,
                () = overtaken(wanted.clone(), &value) => continue,
            };
            let Err(failure) = written else { break };
            failures += 1;
            if failures == 1 {
                tracing::warn!("{}: {failure}", T::FAILED);
            } else {
                tracing::debug!("{}: {failure}", T::FAILED);
            }
            let pause = pause_after(failures);
            if matches!(failure, ApiFailure::Denied { .. }) {
                tokio::time::sleep(pause.saturating_mul(2).min(REFUSED_PAUSE)).await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                is_open = wanted.changed() => if is_open.is_err() { return },
            }
        }
    }
}

/// Waits until something else is wanted. It does not end if nobody can want anything any more.
async fn overtaken<T: Value>(mut wanted: watch::Receiver<Option<T>>, value: &T) {
    while wanted.changed().await.is_ok() {
        if wanted.borrow_and_update().as_ref().is_none_or(|newer| !newer.tells_the_same(value)) {
            return;
        }
    }
    std::future::pending::<()>().await;
}

async fn write_once<T: Value>(link: &Link, value: &T) -> Result<(), ApiFailure> {
    let (cluster, _) = link.cluster().await?;
    value.write(&cluster).await
}
