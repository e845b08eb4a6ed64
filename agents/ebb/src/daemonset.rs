//! `ebb daemonset`: what the image of ebb's DaemonSet does on a node. `install` runs in the pod and puts the files on the
//! host; `start`, on the host, puts them into service; `follow`, a service of the host, takes ebb out again when the pod
//! is gone.

mod files;
mod follow;
mod start;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use kubectl_ebb::screen;
use pubsub::Root;

use crate::setup::{Host, Wanted};

use files::Installed;

/// Arguments of `ebb daemonset`.
#[derive(Args, Debug)]
pub(crate) struct DaemonsetArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// In the DaemonSet's pod: put the files of this image on the host, and start them there
    Install {
        /// Where the host's root folder is mounted
        #[arg(long, value_name = "DIR", default_value = "/host")]
        host: PathBuf,
        /// Name of the Node
        #[arg(long, value_name = "NAME")]
        node: String,
        /// Namespace of the pod
        #[arg(long, value_name = "NAME")]
        namespace: String,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// On the host: put what `install` has brought into service
    Start(Wanted),
    /// On the host: take ebb out of service, and remove it, when the DaemonSet's pod is gone from this node
    Follow(follow::FollowArguments),
}

/// Runs one of the verbs.
pub(crate) fn run(arguments: &DaemonsetArguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Install { host, node, namespace, wanted } => install(host, node, namespace, *wanted),
        Verb::Start(wanted) => start::run(&Root::new("/"), *wanted),
        Verb::Follow(arguments) => follow::run(arguments),
    }
}

/// Changes into the host's root folder, so that its links lead where they lead on the host, and copies the image there.
/// systemd runs the rest, outside of the pod. Exit code 0 if the agents run.
fn install(host: &Path, node: &str, namespace: &str, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let image = File::open("/").context("cannot open the root folder of the image")?;
    nix::unistd::chroot(host)
        .and_then(|()| nix::unistd::chdir("/"))
        .with_context(|| format!("cannot change into the host's root folder, {}", host.display()))?;
    let image = PathBuf::from(format!("/proc/self/fd/{}", image.as_raw_fd()));
    let root = Root::new("/");
    let seen = Host::look(&root);
    ensure!(
        seen.has_systemd,
        "this host has no systemd, by which the DaemonSet starts ebb: {}",
        seen.words()
    );
    if let Some(zedbox) = seen.zedbox {
        bail!("{zedbox}");
    }
    let count = Installed::put(&image, &root, node, namespace)?;
    screen::line(&format!("{count} files are new on this host"));
    let mut start = Command::new("systemd-run");
    start.args([
        "--unit=ebb-daemonset-start",
        "--pipe",
        "--wait",
        "--collect",
        "--quiet",
        "--service-type=exec",
    ]);
    let status = start.args(["/usr/bin/ebb", "daemonset", "start"]).args(wanted.words()).status();
    let status = status.context("cannot run the host's systemd-run")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
