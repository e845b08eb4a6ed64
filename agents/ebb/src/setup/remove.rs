//! `ebb setup --remove`: takes ebb out of service. What is commanded is taken back, zedkube returns the node to service,
//! and only then the units are stopped: without its zedkube a node would stay cordoned, and keep its slot.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use kubectl_ebb::screen;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::peers;
use schemas::{Agent, OwnCordon, agent};

use crate::operator::OperatorFlags;
use crate::waiting::until;
use crate::{commands, operation, request};

use super::host::Host;
use super::steps::{UNITS, change};

/// Limit until zedkube has given the node back; normally this takes a second.
const LIMIT: Duration = Duration::from_mins(1);

const WHY: &str = "ebb setup --remove";

/// Says what is to be done, and with `yes` does it. Exit code 0 if the device is out of service, or would be.
///
/// # Errors
/// The node cannot be given back; then the agents run on. A unit cannot be stopped.
pub(super) fn run(root: &Root, yes: bool) -> anyhow::Result<ExitCode> {
    let standing = commands::standing(root);
    let is_requested = request::is_requested(root)?;
    let has_systemd = Host::look(root).has_systemd;
    let stop = format!("systemctl disable --now {}", UNITS.join(" "));
    if !yes {
        screen::line("`ebb setup --remove --yes` would do:");
        screen::lines(
            standing.iter().map(|((source, operation), counter)| {
                format!("  take back {operation} {counter} of {source}")
            }),
        );
        screen::lines(is_requested.then_some("  withdraw the request of `ebb request`"));
        screen::lines(own_cordon(root)?.map(|own| format!("  give node {} and its slot back", own.node)));
        screen::lines(has_systemd.then(|| format!("  {stop}")));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(OwnCordon { node, .. }) = own_cordon(root)?.filter(|_| !peers::runs(root, Agent::Zedkube)) {
        bail!(
            "node {node} is cordoned or has a slot, and zedkube, which gives both back, does not run: `systemctl start \
             ebb-zedkube`. {}",
            by_hand(&node)
        );
    }
    let place = OperatorFlags::of(root);
    for (kind, _) in standing {
        operation::cancel(kind, WHY, &place)?;
    }
    if is_requested {
        request::withdraw(&place)?;
    }
    give_back(root).context("nothing has been stopped")?;
    if has_systemd {
        screen::line(&format!("$ {stop}"));
        kubectl_ebb::in_runtime(change(&[&["disable", "--now"], &UNITS[..]].concat()))?;
    } else if Agent::ALL.into_iter().any(|agent| peers::runs(root, agent)) {
        screen::say("the agents run on: stop what starts them (`ebb run`)");
    }
    screen::line("ebb is out of service; the files stay: settings in /etc/ebb, records below /persist");
    Ok(ExitCode::SUCCESS)
}

/// What a person does if zedkube can never give the node back.
fn by_hand(node: &str) -> String {
    format!(
        "If it never can: `kubectl uncordon {node}`, `ebb slots release {node}` on another device, and here `systemctl stop \
         ebb.target` and `ebb slots forget`; then try again"
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

fn own_cordon(root: &Root) -> anyhow::Result<Option<OwnCordon>> {
    read_item(root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global())
        .context("cannot tell whether this node is cordoned by its drain")
}
