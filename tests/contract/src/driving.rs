//! Runs drains by a clock that only the case moves, until a condition is true: no test here waits for time to pass.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Result, bail};
use cluster::clock::boot_time;
use cluster::drainer::Drain;
use drain::progress::Line;
use drain::state::Stage;
use drain::{Moment, Outcome};
use tokio::time::timeout;

use crate::Client;

/// Time limit of one condition, for a drain that hangs: shorter than that of the case, so that the failure can say how far
/// the drain is.
const PATIENCE: Duration = Duration::from_mins(5);

thread_local! {
    /// How far the drains' clock is ahead of the machine's. Each test has a thread, and its runtime has no other.
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The drains' clock.
pub fn clock() -> Moment {
    boot_time() + AHEAD.get()
}

/// Moves the drains' clock forward: events that are due by then happen when the drain runs on.
pub fn turn(by: Duration) {
    AHEAD.set(AHEAD.get().saturating_add(by));
}

/// Moves the clock forward by which calls are given up: those whose time limit is over by then end.
pub async fn expire(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

/// Runs the drain until `look` returns a value for it. Fails if the drain ends before that, or takes too long.
pub async fn until<T>(drain: &mut Drain, what: &str, mut look: impl FnMut(&Drain) -> Option<T>) -> Result<T> {
    let found = timeout(PATIENCE, async {
        loop {
            if let Some(found) = look(drain) {
                return Some(found);
            }
            drain.next().await?;
        }
    });
    match found.await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => bail!("until {what}: it has ended before: {:?}; {}", drain.ended(), told(drain)),
        Err(_) => bail!("until {what}: not within {PATIENCE:?}; {}", told(drain)),
    }
}

/// Runs the drain to its end.
pub async fn end(drain: &mut Drain) -> Result<Outcome> {
    Ok(until(drain, "it ends", |drain| drain.ended().cloned()).await??)
}

/// How far the drain is, for a failed case.
pub fn told(drain: &Drain) -> String {
    format!("pods {:#?}, volumes {:#?}, blocked {:#?}", drain.lines(), drain.volumes(), drain.blocked())
}

/// The pod's line in the report.
pub fn line(drain: &Drain, pod: &str) -> Option<Line> {
    drain.lines().into_iter().find(|line| line.id.name == pod)
}

/// The stage of the pod.
pub fn stage(drain: &Drain, pod: &str) -> Option<Stage> {
    line(drain, pod)?.stage
}

/// Number of such requests that the client has sent.
pub fn count(client: &Client<'_>, verb: &str, resource: &str) -> Result<usize> {
    let asked = client.asked()?;
    Ok(asked.iter().filter(|asked| asked.verb == verb && asked.resource == resource).count())
}
