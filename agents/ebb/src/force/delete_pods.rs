//! `ebb force delete-pods`: MCM's ForceDeletePods for this device's own node.
//!
//! All pods that a drain would have to move are deleted at once with grace 0, by the drain engine's own way of doing
//! that (`ebb drain --force-delete`) and the device's policy. Nobody waits for their end, for volumes, or for a proof.

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
use crate::drain::owner;
use crate::operator::{journal, reason};
use crate::screen;
use crate::waiting::{Interrupt, Interrupts, SOON};

/// So long all answers together may take. An API server that is away or busy is asked again until then.
const LONGEST: Duration = Duration::from_mins(1);

/// What it takes.
#[derive(Args, Debug)]
#[command(mut_arg("log_format", |flag| flag.hide(true)), mut_arg("beside_zedbox", |flag| flag.hide(true)))]
pub(super) struct DeletePodsArguments {
    /// Why: shown in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Print the answer as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: AgentFlags,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    node: &'a str,
    reason: &'a str,
    by: String,
    /// Why not all could be told to go; empty if nothing came in between.
    failure: String,
    pods: Vec<PodDocument<'a>>,
}

/// One pod as JSON.
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

/// Deletes the pods and says what became of each. Exit code 1 if one of them that has to leave was not deleted.
pub(super) fn run(arguments: &DeletePodsArguments) -> anyhow::Result<ExitCode> {
    let device = Device::read(&arguments.flags)?;
    crate::in_runtime(async {
        let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
        let cluster = device.reach("force-delete-pods").await?;
        let node = device.own_node(&cluster).await?;
        let policy = Policy { method: Method::ForceDelete, ..device.policy.clone() };
        let drainer = Drainer::new(cluster.clone(), policy).owned_by(&owner(), &arguments.reason);
        let cordoned = still_cordoned(&cluster, &drainer, &node).await?;
        let note = |text: &str| {
            journal(&device.root, &format!("force delete-pods on node {}: {text}", node.name));
        };
        note(&format!("by {}: {}", peers::user(), arguments.reason));
        let mut drain = drainer.drain_cordoned(cordoned);
        let mut pod_fates = PodFates::default();
        let (failure, interrupt) = tokio::select! {
            failure = all_told(&mut drain, &mut pod_fates) => (failure, None),
            interrupt = interrupts.next() => ("interrupted by a signal".to_owned(), Some(interrupt)),
        };
        // Dropped, so that nothing more is sent while people read.
        drop(drain);
        note(&format!("{}{}", pod_fates.counts(), and(&failure)));
        tell(arguments, &node.name, &pod_fates, failure, interrupt)
    })
}

/// The proof that the engine needs. It cordons nothing: a pod that is killed on a node that takes pods may be back
/// before the command ends.
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
        // Somebody has lifted it since: nobody wanted ours.
        uncordon(cluster, &node.name, &owner()).await?;
        bail!(refuse());
    }
    Ok(cordoned)
}

/// Goes on until every pod that was there in the beginning has its answer, then for a short while until those that were
/// deleted are seen to be gone. Why it ended before, if it did.
async fn all_told(drain: &mut Drain, pod_fates: &mut PodFates) -> String {
    if timeout(LONGEST, advance(drain, pod_fates, PodFates::is_pending)).await.is_err() {
        let trouble = drain.wait_reason().map(|trouble| format!(": {}", trouble.text()));
        return format!("no answer within {} s{}", LONGEST.as_secs(), trouble.unwrap_or_default());
    }
    // Whether they are gone by then or not is told either way.
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

fn tell(
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
        screen::line(&serde_json::to_string_pretty(&document).context("cannot write JSON")?);
    } else {
        for pod in &pods {
            screen::line(&pod.to_string());
        }
        screen::line(&format!("node {node}: {counts}"));
    }
    if counts.may_run() {
        screen::say(
            "WARNING: grace 0 takes pods out of the cluster, not off this machine: their CONTAINERS MAY STILL RUN here,\n\
             and when they are made anew elsewhere a VOLUME MAY BE USED TWICE. Switch this machine off, or make sure\n\
             that the containers are gone (`crictl ps`), before you rely on the new ones.",
        );
    }
    if let Some(interrupt) = interrupt {
        screen::say("interrupted: what was not answered yet may have been deleted all the same");
        return Ok(interrupt.exit_code());
    }
    if is_failure || counts.is_incomplete() {
        bail!(
            "not all pods of node {node} are deleted{text}; mend what refuses them and give the order again"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn and(failure: &str) -> String {
    if failure.is_empty() { String::new() } else { format!(" ({failure})") }
}
