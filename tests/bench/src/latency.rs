//! Measures how soon zedkube accepts a request: from the rename of the request's file to REQUESTED on disk.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fake_cluster::FakeCluster;
use schemas::{DrainStatus, agent};
use system::Device;

use crate::table::Summary;

/// Interval at which the status file is read: small against the measured time.
const LOOK: Duration = Duration::from_micros(100);

/// Number of requests at the start that are not counted.
const WARM_UP: usize = 3;

pub(crate) fn run(runs: usize) -> Result<String> {
    let cluster = FakeCluster::start()?;
    for node in ["edge-a", "edge-b"] {
        cluster.node(node)?;
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&kubeconfig)?;
    file.write_all(cluster.kubeconfig().as_bytes())?;
    let program = crate::program()?;
    let mut device = Device::new(crate::text(&program)?, &kubeconfig, "edge-a")?;
    device.start("zedkube")?;
    device.until_in_service()?;

    let mut millis = Vec::new();
    for run in 0..runs + WARM_UP {
        let elapsed = one(&device, run)?;
        if run >= WARM_UP {
            millis.push(elapsed.as_secs_f64() * 1000.0);
        }
    }
    let summary = Summary::of(&millis);
    Ok(format!(
        "rename of the request file -> REQUESTED on disk, {runs} runs\n{:>14}{:>10}{:>10}\nms   {summary}",
        "min", "median", "max"
    ))
}

fn one(device: &Device, run: usize) -> Result<Duration> {
    let aside = device.write_request("aside", "")?;
    let request = device.write_request(agent::ZEDAGENT, "")?;
    fs::remove_file(&request)?;
    let second = run % 60;
    let text = format!(
        "{{\"RequestedAt\":\"2026-08-22T16:10:{second:02}Z\",\"RequestedBy\":2,\"Context\":\"bench\"}}"
    );
    device.write_request("aside", &text)?;
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let began = Instant::now();
    fs::rename(&aside, &request).context("cannot rename the request")?;
    while !is_asked(device.status()) {
        anyhow::ensure!(began.elapsed() < Duration::from_secs(10), "no REQUESTED within 10 s");
        #[expect(clippy::disallowed_methods, reason = "nothing else to do in this thread")]
        std::thread::sleep(LOOK);
    }
    let elapsed = began.elapsed();
    fs::remove_file(&request)?;
    device.until_in_service()?;
    Ok(elapsed)
}

/// True for REQUESTED, or for a status that may follow it between two reads.
fn is_asked(status: DrainStatus) -> bool {
    match status {
        DrainStatus::Requested | DrainStatus::Starting | DrainStatus::Cordoned | DrainStatus::Complete => {
            true
        }
        DrainStatus::Unknown
        | DrainStatus::NotSupported
        | DrainStatus::NotRequested
        | DrainStatus::FailedCordon
        | DrainStatus::DrainRetrying
        | DrainStatus::FailedDrain => false,
    }
}
