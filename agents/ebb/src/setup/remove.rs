//! `ebb setup --remove`: takes ebb out of service. What is commanded is taken back, zedkube returns the node to service,
//! and only then the units are stopped: without its zedkube a node would stay cordoned, and keep its slot.

use std::time::Duration;

use anyhow::{Context, bail};
use cluster::{commanding, node_conditions};
use kubectl_ebb::screen;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::{AgentFlags, peers};
use schemas::{Agent, Member, OwnCordon, agent};
use tokio::time::timeout;

use crate::device::Device;
use crate::operator::OperatorFlags;
use crate::waiting::until;
use crate::{commands, operation, request};

use super::host::Host;
use super::steps::{UNITS, change};

/// Limit until zedkube has given the node back; normally this takes a second.
const LIMIT: Duration = Duration::from_mins(1);

/// Limit until the cluster has forgotten what zedkube has told it.
const SILENCE: Duration = Duration::from_secs(20);

const WHY: &str = "ebb setup --remove";

/// What stops the units for good, as a person types it.
fn stop() -> String {
    format!("systemctl disable --now {}", UNITS.join(" "))
}

/// Says what [`remove`] would do.
///
/// # Errors
/// It is not known whether something is requested, or the node is cordoned.
pub(super) fn show(root: &Root) -> anyhow::Result<()> {
    screen::line("`ebb setup --remove --yes` would do:");
    let standing = commands::standing(root).into_iter();
    screen::lines(
        standing
            .map(|((source, operation), counter)| format!("  take back {operation} {counter} of {source}")),
    );
    screen::lines(request::is_requested(root)?.then_some("  withdraw the request of `ebb request`"));
    screen::lines(own_cordon(root)?.map(|own| format!("  give node {} and its slot back", own.node)));
    screen::lines(Host::look(root).has_systemd.then(|| format!("  {}", stop())));
    Ok(())
}

/// Takes the device out of service.
///
/// # Errors
/// The node cannot be given back; then the agents run on. A unit cannot be stopped.
pub(crate) fn remove(root: &Root) -> anyhow::Result<()> {
    if let Some(OwnCordon { node, .. }) = own_cordon(root)?.filter(|_| !peers::runs(root, Agent::Zedkube)) {
        bail!(
            "node {node} is cordoned or has a slot, and zedkube, which gives both back, does not run: `systemctl start \
             ebb-zedkube`. {}",
            by_hand(&node)
        );
    }
    let is_member = peers::report(root).is_some_and(|report| report.member == Member::Yes);
    let place = OperatorFlags::of(root);
    for (kind, _) in commands::standing(root) {
        operation::cancel(kind, WHY, &place)?;
    }
    if request::is_requested(root)? {
        request::withdraw(&place)?;
    }
    give_back(root).context("what was commanded is taken back, but no unit has been stopped")?;
    if Host::look(root).has_systemd {
        screen::line(&format!("$ {}", stop()));
        kubectl_ebb::in_runtime(change("systemctl", &[&["disable", "--now"], &UNITS[..]].concat()))?;
    } else if Agent::ALL.into_iter().any(|agent| peers::runs(root, agent)) {
        screen::say("the agents run on: stop what starts them (`ebb run`)");
    }
    if is_member && let Err(error) = kubectl_ebb::in_runtime(silence(root)) {
        screen::say(&format!(
            "what zedkube has last told the cluster about this node stays there (conditions DrainInProgress and Drained, \
             annotation ebb.dev/state): {error:#}"
        ));
    }
    screen::line("ebb is out of service; the files stay: settings in /etc/ebb, records below /persist");
    Ok(())
}

/// What a person does if zedkube can never give the node back.
fn by_hand(node: &str) -> String {
    format!(
        "If zedkube can never give it back: `kubectl uncordon {node}`, `ebb slots release {node}` on another device, and here \
         `systemctl stop ebb.target` and `ebb slots forget`; then try again"
    )
}

/// Waits until zedkube has nothing on the node any more.
fn give_back(root: &Root) -> anyhow::Result<()> {
    let Some(OwnCordon { node, .. }) = own_cordon(root)? else { return Ok(()) };
    let folder = root.folder::<OwnCordon>(agent::ZEDKUBE, Persistence::Persistent);
    let is_back = || own_cordon(root).ok().filter(Option::is_none);
    let back = kubectl_ebb::in_runtime(async { Ok(until([folder], LIMIT, is_back).await) })?;
    if back.is_none() {
        let why = peers::report(root).map(|report| report.reason).unwrap_or_default();
        bail!("node {node} has not been given back within {} s: {why}. {}", LIMIT.as_secs(), by_hand(&node));
    }
    screen::line(&format!("node {node} is given back"));
    Ok(())
}

/// Takes back what zedkube has told the cluster about this node, with the credentials of zedkube.
async fn silence(root: &Root) -> anyhow::Result<()> {
    let flags = AgentFlags { root: root.path().to_owned(), ..AgentFlags::default() };
    let (device, _problems) = Device::load(&flags)?;
    let silence = async {
        let cluster = device.reach_as_service("setup").await?;
        let node = device.own_node(&cluster).await?;
        node_conditions::say(&cluster, &node.name, &node.uid, None, None).await?;
        anyhow::Ok(commanding::answer(&cluster, &node.name, &node.uid, None).await?)
    };
    timeout(SILENCE, silence).await.with_context(|| format!("no answer within {} s", SILENCE.as_secs()))?
}

/// What zedkube has on the node; `None` if the node is in service.
///
/// # Errors
/// The record cannot be read.
pub(crate) fn own_cordon(root: &Root) -> anyhow::Result<Option<OwnCordon>> {
    read_item(root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global())
        .context("cannot tell whether this node is cordoned by its drain")
}
