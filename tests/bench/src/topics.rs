//! Measures how soon a subscriber has a published value: from the call of `publish`, including the durable write, to
//! the handler.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pubsub::{AgentLock, Change, Persistence, Publisher, Root, Subscription, TopicKey, Via};
use schemas::{DrainRequester, DrainStatus, NodeDrainStatus, agent};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::table::Summary;

/// A folder in memory, as `/run` is on a device.
const IN_MEMORY: &str = "/dev/shm";

/// Number of values at the start that are not counted.
const WARM_UP: usize = 5;

pub(crate) fn run(runs: usize) -> Result<String> {
    let on_disk = std::env::temp_dir();
    let mut lines = vec![
        format!("publish -> handler, {runs} runs, files made durable first"),
        format!("{:>26}{:>10}{:>10}{:>10}", "", "min", "median", "max"),
    ];
    for (name, folder) in [("in memory, as /run", Path::new(IN_MEMORY)), ("on this disk", &on_disk)] {
        for (way, via) in [("socket", Via::Socket), ("files", Via::Files)] {
            let millis = measured(folder, via, runs).with_context(|| format!("{way} {name}"))?;
            lines.push(format!("ms {way:<6} {name:<18}{}", Summary::of(&millis)));
        }
    }
    Ok(lines.join("\n"))
}

fn measured(folder: &Path, via: Via, runs: usize) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir_in(folder)?;
    let root = Root::new(folder.path());
    let lock = AgentLock::acquire(&root, agent::ZEDKUBE)?;
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let mut publisher = Publisher::open(&root, agent::ZEDKUBE, Persistence::Volatile, &lock)?.served()?;
        let mut seen = follow(&root, via);
        let mut millis = Vec::new();
        for run in 0..runs + WARM_UP {
            let status = if run % 2 == 0 { DrainStatus::Requested } else { DrainStatus::Complete };
            let value = NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp };
            let began = now();
            publisher.publish(&TopicKey::global(), &value)?;
            while timeout(Duration::from_secs(10), seen.recv()).await.context("not within 10 s")?
                != Some(value)
            {}
            if run >= WARM_UP {
                millis.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        Ok(millis)
    })
}

/// Runs the handler in a task of its own, as an agent's main loop does.
fn follow(root: &Root, via: Via) -> mpsc::UnboundedReceiver<NodeDrainStatus> {
    let (sender, seen) = mpsc::unbounded_channel();
    let place = root.topic::<NodeDrainStatus>(agent::ZEDKUBE, Persistence::Volatile);
    tokio::spawn(async move {
        let mut subscription = Subscription::<NodeDrainStatus>::of(&place, via);
        loop {
            if let Change::Created(_, value) | Change::Modified(_, value) = subscription.next().await
                && sender.send(value).is_err()
            {
                return;
            }
        }
    });
    seen
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
