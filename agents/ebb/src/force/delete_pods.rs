//! `ebb force delete-pods`: MCM's ForceDeletePods for this device's own node.
//!
//! All pods that a drain would evict are deleted at once with grace period 0. The drain engine does it as for `ebb
//! drain --force-delete`, with the policy of the device, but the verb does not wait for the end of the pods, for
//! volumes, or for the final check.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use cluster::cordon::PriorCordon;
use cluster::drainer::Drain;
use cluster::{Cluster, Cordoned, Drainer, uncordon};
use drain::pod_fates::{PodFate, PodFates};
use drain::policy::Method;
use drain::progress::attempt;
use drain::view::NodeView;
use drain::{Outcome, Policy};
use runtime::AgentFlags;
use runtime::peers;
use serde::Serialize;
use tokio::time::timeout;

use crate::device::Device;
use crate::operator::{journal, reason};
use crate::waiting::SOON;
use kubectl_ebb::interrupts::{Interrupt, Interrupts};
use kubectl_ebb::kubectl::owner;
use kubectl_ebb::screen;

/// Limit for the answers to all deletions together. An API server that is away or busy is asked again until then.
const LONGEST: Duration = Duration::from_mins(1);

/// Arguments of `ebb force delete-pods`.
#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
pub(super) struct DeletePodsArguments {
    /// Reason, written to the journal
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: AgentFlags,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    node: &'a str,
    reason: &'a str,
    by: String,
    /// Why not every deletion was answered; empty if all were.
    failure: String,
    pods: Vec<PodDocument<'a>>,
}

/// JSON form of one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct PodDocument<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(rename = "UID")]
    uid: &'a str,
    fate: &'static str,
    detail: &'a str,
}

impl<'a> From<&'a PodFate> for PodDocument<'a> {
    fn from(PodFate { pod, fate, detail }: &'a PodFate) -> Self {
        Self { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid, fate: fate.name(), detail }
    }
}

/// Deletes the pods and prints the result of each. Exit code 1 if a pod that has to leave was not deleted.
pub(super) fn run(arguments: &DeletePodsArguments) -> anyhow::Result<ExitCode> {
    let device = Device::read(&arguments.flags)?;
    kubectl_ebb::in_runtime(async {
        let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
        let cluster = device.reach("force-delete-pods").await?;
        let node = device.own_node(&cluster).await?;
        let policy = Policy { method: Method::ForceDelete, ..device.policy.clone() };
        let drainer = Drainer::new(cluster.clone(), policy).owned_by(&owner(), &arguments.reason);
        let cordoned = still_cordoned(&cluster, &drainer, &node).await?;
        let note = |text: &str| {
            journal(
                &device.root,
                &format!("force delete-pods on node {}: {text}", node.name),
                &arguments.reason,
            );
        };
        note(&format!("by {}: {}", peers::user(), arguments.reason));
        let mut drain = drainer.drain_cordoned(cordoned);
        let mut pod_fates = PodFates::default();
        let (failure, interrupt) = tokio::select! {
            failure = all_answered(&mut drain, &mut pod_fates) => (failure, None),
            interrupt = interrupts.next() => ("interrupted by a signal".to_owned(), Some(interrupt)),
        };
        // Dropped here, so that no further call is sent while the result is printed.
        drop(drain);
        note(&format!("{}{}", pod_fates.counts(), and(&failure)));
        print_result(arguments, &node.name, &pod_fates, failure, interrupt)
    })
}

/// The `Cordoned` value that the drain engine requires. The verb refuses a node that is not cordoned instead of
/// cordoning it: a pod that is killed on a schedulable node may be back before the command ends.
async fn still_cordoned(cluster: &Cluster, drainer: &Drainer, node: &NodeView) -> anyhow::Result<Cordoned> {
    let refuse = || {
        format!(
            "node {} is not cordoned, so its pods would come back to it: `ebb cordon {}` first, or ask for a drain with `ebb \
             request`",
            node.name, node.name
        )
    };
    if !node.cordoned {
        bail!(refuse());
    }
    let cordoned = drainer.cordon(&node.name).await?;
    if cordoned.before() == PriorCordon::Schedulable {
        // The cordon was lifted since our check, so the call above has set a new one, which was not asked for: lift it.
        uncordon(cluster, &node.name, &owner()).await?;
        bail!(refuse());
    }
    Ok(cordoned)
}

/// Drives the drain until every pod of the first snapshot has an answer, then for a short time until the deleted pods
/// are gone. Returns the reason if not all were answered, else an empty text.
async fn all_answered(drain: &mut Drain, pod_fates: &mut PodFates) -> String {
    if timeout(LONGEST, advance(drain, pod_fates, PodFates::is_pending)).await.is_err() {
        let trouble = drain.wait_reason().map(|trouble| format!(": {}", trouble.text()));
        return format!("no answer within {} s{}", LONGEST.as_secs(), trouble.unwrap_or_default());
    }
    // The result is printed whether the pods are gone by then or not.
    let seen = timeout(SOON, advance(drain, pod_fates, PodFates::is_lingering)).await;
    tracing::debug!(?seen, "looked for what was deleted");
    match drain.ended() {
        Some(Ok(Outcome::Failed(failure))) if !pod_fates.is_answered() => failure.to_string(),
        Some(Err(failure)) => failure.to_string(),
        Some(Ok(Outcome::Failed(_) | Outcome::Drained | Outcome::NodeGone)) | None => String::new(),
    }
}

async fn advance(drain: &mut Drain, pod_fates: &mut PodFates, goes_on: impl Fn(&PodFates) -> bool) {
    loop {
        if attempt(drain.state()).is_some_and(|attempt| attempt.snapshot().is_some()) {
            pod_fates.see(drain.lines());
        }
        if !goes_on(pod_fates) || drain.next().await.is_none() {
            return;
        }
    }
}

fn print_result(
    arguments: &DeletePodsArguments,
    node: &str,
    pod_fates: &PodFates,
    failure: String,
    interrupt: Option<Interrupt>,
) -> anyhow::Result<ExitCode> {
    let (counts, pods) = (pod_fates.counts(), pod_fates.pods());
    let (text, reason, is_failure) = (and(&failure), &arguments.reason, !failure.is_empty());
    if arguments.json {
        let pods = pods.iter().map(PodDocument::from).collect();
        let document = Document { node, reason, by: peers::user(), failure, pods };
        screen::json(&document)?;
    } else {
        for pod in &pods {
            screen::line(&pod.to_string());
        }
        screen::line(&format!("node {node}: {counts}"));
    }
    if counts.may_run() {
        screen::say(
            "WARNING: grace 0 takes pods out of the cluster, not off this machine: their CONTAINERS MAY STILL RUN here, \
             and when they are created again elsewhere a VOLUME MAY BE USED TWICE. Switch this machine off, or make sure \
             that the containers are gone (`crictl ps`), before you rely on the new ones.",
        );
    }
    if let Some(interrupt) = interrupt {
        screen::say("interrupted: pods without an answer may have been deleted nevertheless");
        return Ok(interrupt.exit_code());
    }
    if is_failure || counts.is_incomplete() {
        bail!(
            "not all pods of node {node} are deleted{text}; fix what refuses them, then run this command again"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn and(failure: &str) -> String {
    if failure.is_empty() { String::new() } else { format!(" ({failure})") }
}
