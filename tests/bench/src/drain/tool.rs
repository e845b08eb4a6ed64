//! The tools, and the cost of one run of each.

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

/// Flags of both command lines.
const FLAGS: [&str; 4] = ["--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"];

/// The tool that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Tool {
    /// The requests that a drain has to send, by a client that decides nothing
    Floor,
    /// `kubectl drain`
    Kubectl,
    /// `ebb drain`
    Ebb,
    /// The agent zedkube, from the moment a request appears to COMPLETE.
    Zedkube,
}

/// The cost of one drain.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Time from the start of the program, or from the request, to the end of the drain.
    pub(super) time: Duration,
    /// The greatest resident set of the program, in KiB.
    pub(super) peak: u64,
    /// Requests to the API server, without those for Leases: verb with resource, and their number.
    pub(super) requests: BTreeMap<String, usize>,
    /// Number of volumes that were still attached to the node right after the drain (counting them takes 0.1 s).
    pub(super) volumes_left: usize,
}

impl Tool {
    /// Drains the site's node, whose pods are all ready. Fails if pods remain on it.
    pub(super) fn drain(self, site: &Site<'_>, program: &Path) -> Result<Run> {
        let mut command = match self {
            Self::Floor => Command::new(std::env::current_exe()?),
            Self::Kubectl => site.plane.kubectl(),
            Self::Ebb => Command::new(program),
            Self::Zedkube => return by_zedkube(site, program),
        };
        if self == Self::Floor {
            command.arg("floor").arg(site.node());
        } else {
            command.arg("drain").arg(site.node()).args(FLAGS);
        }
        command.env("KUBECONFIG", site.plane.kubeconfig());
        let mark = site.plane.audit_mark()?;
        let needed = process::run(&mut command)?;
        self.account(site, mark, needed)
    }

    /// Counts what the tool itself used: the benchmark's own requests come after `end`.
    fn account(self, site: &Site<'_>, mark: AuditMark, needed: Needed) -> Result<Run> {
        let end = site.plane.audit_mark()?;
        let volumes_left = if site.scenario.has_volumes() { site.volumes_on_node()? } else { 0 };
        let pods_left = site.pods_on_node()?;
        ensure!(pods_left == 0, "{pods_left} pods are left on {} after the drain", site.node());
        let requests = site.plane.audit_between(mark, end)?.of_agent(self.user_agent());
        let mut tally = requests.tally(crate::table::kind);
        tally.retain(|what, _| !what.ends_with(" leases"));
        Ok(Run { time: needed.time, peak: needed.peak, requests: tally, volumes_left })
    }

    fn user_agent(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl/",
            Self::Floor | Self::Ebb | Self::Zedkube => "ebb/",
        }
    }
}

/// Drains by zedkube, which runs only for this, so that it sends no requests while the other tools are measured.
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
    // zedkube lifts its cordon before it ends.
    fs::remove_file(request)?;
    device.until_in_service()?;
    Ok(run)
}

impl Run {
    /// Number of requests in all.
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
            Self::Floor => write!(f, "floor"),
            Self::Kubectl => write!(f, "kubectl drain"),
            Self::Ebb => write!(f, "ebb drain"),
            Self::Zedkube => write!(f, "zedkube"),
        }
    }
}
