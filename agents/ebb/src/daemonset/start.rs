//! `ebb daemonset start`: puts into service what the DaemonSet's image has brought to this host.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use kubectl_ebb::screen;
use pubsub::{Persistence, Root};
use schemas::{Agent, OwnCordon, agent};

use crate::setup::{self, Wanted, away, change, own_cordon};
use crate::waiting::until;

use super::files::Installed;

/// Limit until a drain of this node is over. After it the agents are restarted in the middle of the drain, and go on where
/// they were.
const DRAIN: Duration = Duration::from_mins(30);

/// Limit until all agents run; normally this takes a second.
const AGENTS: Duration = Duration::from_mins(1);

/// What runs the program all the time. ebb-hold.service does not: it runs it when the machine goes down.
const SERVICES: [&str; 6] = [
    "ebb-zedkube.service",
    "ebb-device-op.service",
    "ebb-nodeagent.service",
    "ebb-baseos.service",
    "ebb-sentinel.service",
    "ebb-daemonset.service",
];

/// Exit code 0 if the agents run in the version that is installed. What else is wrong is printed: it does not end with the
/// next version.
///
/// # Errors
/// systemd refuses, an agent does not run.
pub(super) fn run(root: &Root, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let installed = Installed::read(root)?.context("the DaemonSet has installed nothing on this host")?;
    kubectl_ebb::in_runtime(change("systemctl", &["daemon-reload"]))?;
    kubectl_ebb::in_runtime(change("systemd-tmpfiles", &["--create", "ebb.conf"]))?;
    if !installed.is_started {
        await_the_end_of_a_drain(root)?;
        kubectl_ebb::in_runtime(change("systemctl", &[&["try-restart"], &SERVICES[..]].concat()))?;
    }
    // What it finds is printed.
    let _code: ExitCode = setup::put_into_service(root, wanted)?;
    kubectl_ebb::in_runtime(change("systemctl", &["enable", "--now", "ebb-daemonset.service"]))?;
    let folders = Agent::ALL.map(|agent| root.agent_folder(agent.wire_name(), Persistence::Volatile));
    let all_run = || away(root).is_empty().then_some(());
    if kubectl_ebb::in_runtime(async { Ok(until(folders, AGENTS, all_run).await) })?.is_none() {
        let (limit, away) = (AGENTS.as_secs(), away(root));
        bail!(
            "not running within {limit} s: {}; on the host: journalctl -u ebb-{}",
            away.join(", "),
            away.join(" -u ebb-")
        );
    }
    Installed { is_started: true, ..installed }.write(root)?;
    Ok(ExitCode::SUCCESS)
}

fn await_the_end_of_a_drain(root: &Root) -> anyhow::Result<()> {
    let Some(OwnCordon { node, .. }) = own_cordon(root)? else { return Ok(()) };
    screen::line(&format!(
        "node {node} is drained, or is being drained: the agents are restarted with the new version when it is back in service, in {} min at \
         the latest",
        DRAIN.as_secs() / 60
    ));
    let folder = root.folder::<OwnCordon>(agent::ZEDKUBE, Persistence::Persistent);
    let is_over = || own_cordon(root).ok().filter(Option::is_none);
    let _over = kubectl_ebb::in_runtime(async { Ok(until([folder], DRAIN, is_over).await) })?;
    Ok(())
}
