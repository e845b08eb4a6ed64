//! A drain whose clock the case turns, and which it drives until something is to be seen: nothing here waits for time to
//! pass.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::clock::boot_time;
use cluster::drainer::Drain;
use drain::progress::Line;
use drain::state::Stage;
use drain::{Moment, Outcome};
use tokio::time::timeout;

use crate::{Client, Target};

/// A case that takes longer hangs.
const LIMIT: Duration = Duration::from_mins(1);

/// A drain that does not come where it should has failed, early enough to say where it stands.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs one case against the target that `start` makes, within a minute.
pub fn run(
    start: impl FnOnce() -> Result<Target>,
    case: impl AsyncFnOnce(&Target) -> Result<()>,
) -> Result<()> {
    crate::run(start, async |target: &Target| {
        timeout(LIMIT, case(target)).await.with_context(|| format!("not within {LIMIT:?}"))?
    })
}

thread_local! {
    /// How far the drains' clock is ahead of the machine's. Each test has a thread, and its runtime no other.
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The drains' clock.
pub fn clock() -> Moment {
    boot_time() + AHEAD.get()
}

/// Turns the drains' clock forward: what one waits for is due as soon as it is driven again.
pub fn turn(by: Duration) {
    AHEAD.set(AHEAD.get().saturating_add(by));
}

/// Drives the drain until `look` finds something in it. Fails if it ends before, or does not come there.
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

/// Drives the drain to its end.
pub async fn end(drain: &mut Drain) -> Result<Outcome> {
    Ok(until(drain, "it ends", |drain| drain.ended().cloned()).await??)
}

/// Where it stands, for a failed case.
pub fn told(drain: &Drain) -> String {
    format!("pods {:#?}, volumes {:#?}, blocked {:#?}", drain.lines(), drain.volumes(), drain.blocked())
}

/// The pod's line in the report.
pub fn line(drain: &Drain, pod: &str) -> Option<Line> {
    drain.lines().into_iter().find(|line| line.id.name == pod)
}

/// Where the pod is on its way.
pub fn stage(drain: &Drain, pod: &str) -> Option<Stage> {
    line(drain, pod)?.stage
}

/// How many such requests the client has sent.
pub fn count(client: &Client<'_>, verb: &str, resource: &str) -> Result<usize> {
    let asked = client.asked()?;
    Ok(asked.iter().filter(|asked| asked.verb == verb && asked.resource == resource).count())
}
