//! `ebb daemonset follow`: takes ebb out of service, and removes it, when the DaemonSet's pod is gone from this node for good:
//! the DaemonSet has been deleted, or does not select this node any more. The pod itself cannot tell: it also ends at each
//! upgrade and each shutdown.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use cluster::has_daemon_pod;
use kubectl_ebb::kubectl::go_duration;
use kubectl_ebb::screen;
use pubsub::Root;
use runtime::AgentFlags;
use schemas::age;
use tokio::time::Instant;

use crate::device::Device;
use crate::setup::{Host, change, remove};

use super::files::Installed;

/// Arguments of `ebb daemonset follow`.
#[derive(Args, Debug)]
pub(super) struct FollowArguments {
    /// How long the API server has to answer, without a break, that the pod is not there
    #[arg(long, value_name = "DURATION", value_parser = go_duration, default_value = "10m")]
    absent: Duration,
    /// Time between two questions
    #[arg(long, value_name = "DURATION", value_parser = go_duration, default_value = "2m")]
    every: Duration,
    /// Folder that is used as the root of the host's files (for tests)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Returns when ebb is removed.
///
/// # Errors
/// The DaemonSet has installed nothing here; a file cannot be removed.
pub(super) fn run(arguments: &FollowArguments) -> anyhow::Result<ExitCode> {
    let root = &Root::new(&arguments.root);
    let installed = Installed::read(root)?.context("the DaemonSet has installed nothing on this host")?;
    let mut said = String::new();
    let mut say = move |text: String| {
        if text != said {
            screen::say(&text);
            said = text;
        }
    };
    loop {
        kubectl_ebb::in_runtime(until_gone(root, arguments, &mut say))?;
        screen::say(&format!(
            "for {} there has been no pod of a DaemonSet in namespace {} on node {}: ebb is removed from this host",
            age(u64::try_from(arguments.absent.as_millis()).unwrap_or(u64::MAX)),
            installed.namespace,
            installed.node
        ));
        match remove(root) {
            Ok(()) => break,
            Err(error) => say(format!("{error:#}; ebb stays until that is possible")),
        }
    }
    let tell = |words: &[&str]| {
        if Host::look(root).has_systemd {
            kubectl_ebb::in_runtime(change("systemctl", words))
        } else {
            Ok(())
        }
    };
    tell(&["disable", "ebb-daemonset.service"])?;
    // A new version may have been installed meanwhile.
    Installed::read(root)?.unwrap_or(installed).remove(root)?;
    tell(&["daemon-reload"])?;
    screen::say("ebb is removed; settings in /etc/ebb and records below /persist stay");
    Ok(ExitCode::SUCCESS)
}

async fn until_gone(
    root: &Root,
    arguments: &FollowArguments,
    say: &mut impl FnMut(String),
) -> anyhow::Result<()> {
    let mut since: Option<Instant> = None;
    loop {
        tokio::time::sleep(arguments.every).await;
        match is_there(root).await {
            Ok(false) if since.is_some_and(|since| since.elapsed() >= arguments.absent) => return Ok(()),
            Ok(false) => since = since.or_else(|| Some(Instant::now())),
            Ok(true) => since = None,
            Err(error) => {
                since = None;
                say(format!("it is not known whether the DaemonSet's pod is there: {error:#}"));
            }
        }
    }
}

/// Asks with the credentials of this node's zedkube, as the kubelet may.
async fn is_there(root: &Root) -> anyhow::Result<bool> {
    // The pod's next version may be in another namespace.
    let installed = Installed::read(root)?.context("the DaemonSet has installed nothing on this host")?;
    let flags = AgentFlags { root: root.path().to_owned(), ..AgentFlags::default() };
    let (device, _problems) = Device::load(&flags)?;
    let cluster = device.reach_as_service("daemonset").await?;
    Ok(has_daemon_pod(&cluster, &installed.namespace, &installed.node).await?)
}
