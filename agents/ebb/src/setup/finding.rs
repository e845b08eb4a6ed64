//! What has to be right on a device, and whether it is.

use std::path::Path;

use cluster::identity::identify;
use cluster::preflight::{Check, preflight};
use cluster::{ApiFailure, list_nodes};
use kubectl_ebb::screen::{size, wrapping};
use pubsub::Root;
use runtime::{AgentFlags, peers};
use schemas::Agent;
use serde::Serialize;
use textwrap::wrap;

use crate::device::Device;

use super::Wanted;
use super::host::Host;
use super::steps::{Step, is};

const SETTINGS: &str = "Settings";

const CHECK_SETTINGS: &str = "ebb config check";

/// The finding about the Node of this machine.
pub(super) const NODE: &str = "Node";

/// Columns before the text of a finding.
const INDENT: &str = "                     ";

/// One thing that has to be right.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Finding {
    pub(super) what: &'static str,
    state: State,
    text: String,
    /// What a person does; empty if all is well, or if `ebb setup --yes` does it.
    #[serde(rename = "Do")]
    remedy: String,
    /// What `ebb setup --yes` does.
    #[serde(skip)]
    pub(super) step: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum State {
    Good,
    /// `ebb setup --yes` does it.
    Missing,
    /// A person has to do something.
    Wrong,
}

impl Finding {
    fn good(what: &'static str, text: impl Into<String>) -> Self {
        Self { what, state: State::Good, text: text.into(), remedy: String::new(), step: None }
    }

    fn missing(what: &'static str, text: impl Into<String>, step: Step) -> Self {
        Self { state: State::Missing, step: Some(step), ..Self::good(what, text) }
    }

    fn wrong(what: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: State::Wrong, remedy: remedy.into(), ..Self::good(what, text) }
    }

    pub(super) const fn is_good(&self) -> bool {
        matches!(self.state, State::Good)
    }
}

/// The findings as lines that fit the terminal.
pub(super) fn lines(found: &[Finding]) -> Vec<String> {
    let options = wrapping(size().1).subsequent_indent(INDENT);
    let lines = found.iter().flat_map(|finding| {
        let mark = match finding.state {
            State::Good => "ok",
            State::Missing => "missing",
            State::Wrong => "WRONG",
        };
        let text = format!("{mark:<8} {:<12}{}", finding.what, finding.text);
        let remedy = format!("{INDENT}do: {}", finding.remedy);
        let remedy = (!finding.remedy.is_empty()).then_some(remedy);
        [text].into_iter().chain(remedy)
    });
    lines.flat_map(|line| wrap(&line, &options).into_iter().map(String::from).collect::<Vec<_>>()).collect()
}

/// Looks at everything, in the order in which a person would mend it. Changes nothing.
pub(super) async fn look(root: &Root, wanted: Wanted) -> Vec<Finding> {
    let host = Host::look(root);
    let mut found = vec![of_host(root, &host)];
    let flags = AgentFlags { root: root.path().to_owned(), ..AgentFlags::default() };
    match Device::load(&flags) {
        Ok((device, problems)) => {
            found.push(of_settings(&problems));
            of_cluster(&host, &device, &mut found).await;
            if host.has_systemd {
                of_units(&device, wanted, &mut found).await;
            }
        }
        Err(error) => found.push(Finding::wrong(SETTINGS, format!("{error:#}"), CHECK_SETTINGS)),
    }
    if found.iter().all(|finding| finding.step.is_none()) {
        found.push(of_agents(root));
    }
    found
}

fn of_host(root: &Root, host: &Host) -> Finding {
    const HOST: &str = "Host";
    if let Some(zedbox) = &host.zedbox {
        return Finding::wrong(HOST, zedbox, "which agents can run beside EVE's: docs/beside-eve.md");
    }
    if host.has_systemd || peers::runs(root, Agent::Zedkube) {
        return Finding::good(HOST, host.words());
    }
    let remedy = "have your init run `ebb run`: packaging/README.md, \"Without systemd\"";
    Finding::wrong(HOST, host.words(), remedy)
}

fn of_settings(problems: &[String]) -> Finding {
    let more = if problems.len() > 1 { format!(", and {} more", problems.len() - 1) } else { String::new() };
    let first =
        problems.first().map(|first| Finding::wrong(SETTINGS, format!("{first}{more}"), CHECK_SETTINGS));
    first.unwrap_or_else(|| Finding::good(SETTINGS, "no mistake"))
}

/// Whether zedkube would find its cluster and its Node, and what it would lack there.
async fn of_cluster(host: &Host, device: &Device, found: &mut Vec<Finding>) {
    let reached = async {
        let cluster = device.reach_as_service("setup").await?;
        let identity = device.identity()?;
        let node = match list_nodes(&cluster).await {
            Ok(nodes) => Some(identify(&nodes, &identity)?.node.name),
            // Without what the cluster grants to zedkube a kubelet may only see its own Node.
            Err(ApiFailure::Denied { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        anyhow::Ok((cluster, identity, node))
    };
    let (cluster, identity, node) = match reached.await {
        Ok(reached) => reached,
        Err(error) => {
            let remedy = "is Kubernetes up? If it keeps its credentials elsewhere: settings cluster.kubeconfig, node.name \
                          (docs/operations/preflight.md)";
            found.push(Finding::wrong(NODE, format!("{error:#}"), remedy));
            return;
        }
    };
    found.extend(node.map(|node| Finding::good(NODE, format!("this machine is node {node}"))));
    let slots = (device.settings.policy.slots_limit > 0).then(|| zedkube::slot_map(&device.settings));
    let mut problems = preflight(&cluster, &identity, slots.as_ref()).await.problems;
    problems.retain(|problem| problem.what != Check::Confinement || !device.settings.cluster.unconfined);
    if problems.is_empty() {
        found.push(Finding::good(Check::Rights.word(), "zedkube may do all that a drain needs"));
    }
    let of_problem = |problem: cluster::preflight::Problem| {
        let is_granted =
            matches!(problem.what, Check::Rights | Check::Slots | Check::Cluster | Check::Confinement);
        let remedy = if is_granted { host.grant() } else { problem.hint.to_owned() };
        Finding::wrong(problem.what.word(), problem.text, remedy)
    };
    found.extend(problems.into_iter().map(of_problem));
}

async fn of_units(device: &Device, wanted: Wanted, found: &mut Vec<Finding>) {
    const SENTINEL: &str = "ebb-sentinel.service";
    let sentinel = &device.settings.sentinel;
    if wanted.sentinel && sentinel.path.is_none() && sentinel.command.is_none() {
        let text = "no setting says when the host needs a reboot";
        found.push(Finding::missing("Sentinel", text, Step::sentinel(&device.root)));
    }
    let units =
        [("ebb.target", true), ("ebb-hold.service", !wanted.without_hold), (SENTINEL, wanted.sentinel)];
    for (unit, _) in units.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        let (is_enabled, is_active) = (is("is-enabled", unit).await, is("is-active", unit).await);
        found.push(if is_enabled && is_active {
            Finding::good("Unit", format!("{unit} is enabled and active"))
        } else {
            let lacks = if is_enabled { "not active" } else { "not enabled" };
            Finding::missing("Unit", format!("{unit} is {lacks}"), Step::Enable(unit))
        });
    }
}

fn of_agents(root: &Root) -> Finding {
    const AGENTS: &str = "Agents";
    let away = away(root);
    if away.is_empty() {
        let run = Agent::ALL.into_iter().filter(|agent| peers::runs(root, *agent)).map(Agent::name);
        return Finding::good(AGENTS, format!("{} run", run.collect::<Vec<_>>().join(", ")));
    }
    let text = format!("not running: {}", away.join(", "));
    Finding::wrong(AGENTS, text, format!("`ebb status`; journalctl -u ebb-{}", away.join(" -u ebb-")))
}

/// The names of the agents that should run, and do not.
pub(crate) fn away(root: &Root) -> Vec<&'static str> {
    let wanted = Agent::ALL.into_iter().filter(|agent| !is_masked(root, *agent));
    wanted.filter(|agent| !peers::runs(root, *agent)).map(Agent::name).collect()
}

/// True if somebody has switched the agent off for good, for example by `systemctl mask ebb-baseos`.
fn is_masked(root: &Root, agent: Agent) -> bool {
    let mask = root.join(format!("/etc/systemd/system/ebb-{}.service", agent.name()));
    std::fs::read_link(mask).is_ok_and(|target| target == Path::new("/dev/null"))
}
