//! The body of an answer that grows: a watch's, line by line, or one without an end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{Batch, Watch};
use crate::faults::Cut;
use crate::shared::Shared;

/// Number of lines that wait for a slow client; the real buffer is the store's history.
const LINES: usize = 16;

/// The growing body.
#[derive(Debug)]
pub(crate) struct WatchBody {
    lines: mpsc::Receiver<Result<Bytes, Broken>>,
}

/// The answer ends in the middle.
#[derive(Debug, thiserror::Error)]
#[error("the watch was broken off on demand")]
pub(crate) struct Broken;

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.lines.poll_recv(context).map(|line| line.map(|line| line.map(Frame::data)))
    }
}

/// Starts to send a watch.
pub(super) fn spawn(shared: Arc<Shared>, watch: Watch) -> WatchBody {
    let (sender, lines) = mpsc::channel(LINES);
    // Subscribed here, not in the task, so that a cut right after the answer's headers counts.
    let cuts = shared.cuts.subscribe();
    tokio::spawn(run(shared, watch, cuts, sender));
    WatchBody { lines }
}

/// Starts to send these bytes, then the text again and again until the client hangs up.
pub(super) fn endless(start: Bytes, again: &str) -> WatchBody {
    /// So much at a time.
    const PIECE: usize = 64 * 1024;
    let (sender, lines) = mpsc::channel(LINES);
    let piece = Bytes::from(again.repeat((PIECE / again.len().max(1)).max(1)));
    tokio::spawn(async move {
        let mut next = start;
        while sender.send(Ok(next)).await.is_ok() {
            next = piece.clone();
        }
    });
    WatchBody { lines }
}

/// Sends events until the client hangs up, the time is over, or a fault cuts the watch.
async fn run(
    shared: Arc<Shared>,
    watch: Watch,
    cuts: watch::Receiver<Cut>,
    lines: mpsc::Sender<Result<Bytes, Broken>>,
) {
    let (resource, timeout) = (watch.resource.plural, watch.timeout);
    tokio::select! {
        biased;
        () = lines.closed() => {}
        () = shared.stop.cancelled() => {}
        is_broken = cut(cuts, resource) => if is_broken {
            // A client that no longer reads does not need the error.
            drop(lines.try_send(Err(Broken)));
        },
        () = send(&shared, watch, &lines) => {}
        () = tokio::time::sleep(timeout) => {}
    }
}

/// Waits for a cut of this kind's watches; returns true if the watch must break in the middle.
async fn cut(mut cuts: watch::Receiver<Cut>, resource: &str) -> bool {
    while cuts.changed().await.is_ok() {
        let cut = cuts.borrow_and_update().clone();
        if cut.resource.is_none_or(|cut| cut == resource) {
            return cut.is_broken;
        }
    }
    std::future::pending().await
}

async fn send(shared: &Shared, mut watch: Watch, lines: &mpsc::Sender<Result<Bytes, Broken>>) {
    let mut revisions = shared.store().subscribe();
    let mut wakes = shared.wakes.subscribe();
    let mut bookmarks = interval(shared.settings.bookmark_every.max(Duration::from_millis(1)));
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    bookmarks.reset();
    loop {
        revisions.borrow_and_update();
        wakes.borrow_and_update();
        let Some(batch) = next(shared, &mut watch) else {
            if wakes.changed().await.is_err() {
                return;
            }
            continue;
        };
        for event in &batch.events {
            if lines.send(Ok(Bytes::from(event.line()))).await.is_err() {
                return;
            }
        }
        if batch.is_last {
            return;
        }
        if batch.has_more {
            continue;
        }
        tokio::select! {
            changed = revisions.changed() => if changed.is_err() { return },
            _ = bookmarks.tick(), if watch.has_bookmarks => {
                if shared.conditions().is_silent(watch.resource.plural) {
                    continue;
                }
                let mut line = watch.bookmark(false).to_string().into_bytes();
                line.push(b'\n');
                if lines.send(Ok(Bytes::from(line))).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The next events; `None` while watches of this kind are silent.
fn next(shared: &Shared, watch: &mut Watch) -> Option<Batch> {
    let store = shared.store();
    let is_silent = shared.conditions().is_silent(watch.resource.plural);
    (!is_silent).then(|| watch.next(&store))
}
