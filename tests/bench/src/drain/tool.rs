//! The tools, and what one run of each costs.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use control_plane::AuditMark;
use schemas::{DrainStatus, agent};
use system::Device;

use super::process::{self, Needed};
use super::site::Site;

/// What both command lines get.
const FLAGS: [&str; 4] = ["--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"];

/// Who drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Tool {
    /// `kubectl drain`
    Kubectl,
    /// `ebb drain`
    Ebb,
    /// The agent, from a request that appears to COMPLETE.
    Zedkube,
}

/// What one drain cost.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// From the start of the program, or the request, to its end.
    pub(super) time: Duration,
    /// Its largest resident set, KiB.
    pub(super) peak: u64,
    /// What it asked the API server for, Lease traffic apart: verb with resource, and how often.
    pub(super) requests: BTreeMap<String, usize>,
    /// Volumes that were still attached to the node right after that (a look takes 0.1 s).
    pub(super) volumes_left: usize,
}

impl Tool {
    /// Drains the site's node, whose pods are all ready. Fails if pods are left.
    pub(super) fn drain(self, site: &Site<'_>, program: &Path) -> Result<Run> {
        let mut command = match self {
            Self::Kubectl => site.plane.kubectl(),
            Self::Ebb => Command::new(program),
            Self::Zedkube => return by_zedkube(site, program),
        };
        command.arg("drain").arg(site.node()).args(FLAGS).env("KUBECONFIG", site.plane.kubeconfig());
        let mark = site.plane.audit_mark()?;
        let needed = process::run(&mut command)?;
        self.account(site, mark, needed)
    }

    /// Only what the tool did itself: the looks of the benchmark come after the end.
    fn account(self, site: &Site<'_>, mark: AuditMark, needed: Needed) -> Result<Run> {
        let end = site.plane.audit_mark()?;
        let volumes_left = if site.scenario.has_volumes() { site.volumes_on_node()? } else { 0 };
        let pods_left = site.pods_on_node()?;
        ensure!(pods_left == 0, "{pods_left} pods are left on {} after the drain", site.node());
        let requests = site.plane.audit_between(mark, end)?.of_agent(self.user_agent());
        let mut tally = requests.tally(|request| {
            let slash = if request.subresource.is_empty() { "" } else { "/" };
            let resource = if request.resource.is_empty() { "other" } else { &request.resource };
            format!("{} {resource}{slash}{}", request.verb, request.subresource)
        });
        tally.retain(|what, _| !what.ends_with(" leases"));
        Ok(Run { time: needed.time, peak: needed.peak, requests: tally, volumes_left })
    }

    fn user_agent(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl/",
            Self::Ebb | Self::Zedkube => "ebb/",
        }
    }
}

/// The agent runs only now, so that it does not ask for anything while the others are measured.
fn by_zedkube(site: &Site<'_>, program: &Path) -> Result<Run> {
    let mut device = Device::new(crate::text(program)?, site.plane.kubeconfig(), site.node())?;
    device.start("zedkube")?;
    device.until_in_service()?;
    let id = device.agent("zedkube")?.id();
    process::forget_peak(id)?;
    let text = "{\"RequestedAt\":\"2026-08-22T16:10:11Z\",\"RequestedBy\":2,\"Context\":\"bench\"}";
    let mark = site.plane.audit_mark()?;
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let began = Instant::now();
    let request = device.write_request(agent::ZEDAGENT, text)?;
    device.until_status(DrainStatus::Complete)?;
    let time = began.elapsed();
    let peak = process::peak(id).context("zedkube has ended")?;
    let run = Tool::Zedkube.account(site, mark, Needed { time, peak })?;
    // It lifts its cordon before it ends.
    fs::remove_file(request)?;
    device.until_in_service()?;
    Ok(run)
}

impl Run {
    /// How many requests in all.
    pub(super) fn count(&self) -> usize {
        self.requests.values().sum()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, requests) = (self.time.as_secs_f64(), self.count());
        write!(
            f,
            "{seconds:.2} s, {requests} requests, {} KiB, {} volumes left",
            self.peak, self.volumes_left
        )
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubectl => write!(f, "kubectl drain"),
            Self::Ebb => write!(f, "ebb drain"),
            Self::Zedkube => write!(f, "zedkube"),
        }
    }
}
