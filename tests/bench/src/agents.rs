//! What agents cost the API server: zedkube processes, each on a node of its own.

mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use control_plane::{AuditMark, Component, ControlPlane, Pool, objects, unique};
use schemas::{DrainStatus, agent};
use system::{Device, Fault, FaultyServer, Proxy, ZedkubeUser};

use self::report::{Report, Window};
use crate::idle::{number, rest};
use crate::table::{Summary, kind};

/// What the agents do. Each state begins from the one before it: agents that wait still do so when the API server is
/// away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Nobody asks for anything
    Idle,
    /// One more agent drains a node with 30 pods, and keeps its slot
    Draining,
    /// All ask for a drain, and wait for the slot of that agent
    Waiting,
    /// All begin anew without a request, and a server then answers 429 to everything, with Retry-After: 30
    Overloaded,
    /// All connections of the agents are closed as soon as they are made
    Away,
}

/// So many agents start at a time.
const AT_A_TIME: usize = 10;

/// Time that the agents are left alone before they are measured.
const SETTLE: Duration = Duration::from_mins(1);

/// After its start an agent looks a second time after a minute, and then every half hour.
const SETTLE_AT_REST: Duration = Duration::from_mins(3);

/// The longest time for which a state is measured in which agents do the same within a minute.
const LONGEST: Duration = Duration::from_mins(3);

/// The longest time for waiting agents, which list the nodes every 7 to 9 min.
const LONGEST_WAIT: Duration = Duration::from_mins(9);

/// Seconds after which an overloaded server wants to be asked again.
const RETRY_AFTER: u32 = 30;

/// Number of pods on the node that is drained.
const PODS: u32 = 30;

/// `USER_HZ`: the unit of CPU times in `/proc`, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// A request for a drain, in the file of the agent that asks.
const REQUEST: &str = "{\"RequestedAt\":\"2026-08-22T16:10:11Z\",\"RequestedBy\":2,\"Context\":\"bench\"}";

/// Measures `count` agents in these states: idle for `time`, the others for the same time, but not longer than
/// [`LONGEST`] or [`LONGEST_WAIT`]. If a state fails, the error contains the tables of those before it.
pub(crate) fn run(count: u32, time: Duration, states: &[State]) -> Result<String> {
    let program = crate::program()?;
    let plane = ControlPlane::shared()?;
    let mut fleet = Fleet::new(&plane, crate::text(&program)?, count)?;
    rest(SETTLE);
    let mut report = Report::new(count);
    let mut began = fleet.now()?;
    report.add("no agent", &fleet.watch(time.min(LONGEST), began)?)?;
    fleet.start()?;
    for state in states {
        let measured = measure(&mut fleet, *state, time, began, &mut report);
        measured.with_context(|| format!("{}\nthe agents could not be measured {state:?}", report.text()))?;
        began = fleet.now()?;
    }
    Ok(report.text())
}

fn measure(
    fleet: &mut Fleet<'_>,
    state: State,
    time: Duration,
    began: Now,
    report: &mut Report,
) -> Result<()> {
    let (settle, time) = match state {
        State::Idle => (SETTLE_AT_REST, time),
        State::Waiting => (SETTLE, time.min(LONGEST_WAIT)),
        State::Draining | State::Overloaded | State::Away => (SETTLE, time.min(LONGEST)),
    };
    match state {
        State::Idle => {}
        State::Draining => return report.add_drain(PODS, &fleet.hold_slot()?),
        State::Waiting => fleet.wait()?,
        State::Overloaded => fleet.overload()?,
        State::Away => fleet.proxy.cut(),
    }
    rest(settle);
    report.add(&format!("{state:?}").to_lowercase(), &fleet.watch(time, began)?)?;
    fleet.mend()
}

/// A moment: what is measured is counted from here on.
#[derive(Clone, Copy)]
struct Now {
    audit: AuditMark,
    connections: u64,
    refused: u64,
}

/// The agents, their nodes, and one more agent that keeps the slot.
struct Fleet<'a> {
    plane: &'a ControlPlane,
    pool: Pool,
    /// Between the API server and all agents but the one that keeps the slot.
    proxy: Proxy,
    /// Is between the agents and the API server while that is overloaded.
    overloaded: Option<FaultyServer>,
    agents: Vec<Device>,
    runs: bool,
    holder: Device,
    /// The user of the holder at the API server.
    holder_user: String,
    holds: bool,
}

impl<'a> Fleet<'a> {
    /// Creates the nodes, and the pods of the one that will be drained. No agent runs yet.
    fn new(plane: &'a ControlPlane, program: &str, count: u32) -> Result<Self> {
        let (name, proxy) = (unique("agents"), Proxy::start(plane.server())?);
        let device = |node: &str, kubeconfig: PathBuf| {
            let mut device = Device::new(program, &kubeconfig, node)?;
            device.set(&format!("slots.namespace={name}"));
            device.set("slots.group=default");
            anyhow::Ok(device)
        };
        let first = plane.create_pool(&name, &["holder"])?;
        let first = first.nodes.first().context("the pool has no node")?;
        // There is no other node yet: all pods are on this one.
        plane.apply(&[objects::deployment(&name, "load", PODS)])?;
        plane.run(&[
            "rollout",
            "status",
            "deployment/load",
            &format!("--namespace={name}"),
            "--timeout=5m",
        ])?;
        let user = ZedkubeUser::of_node(plane, &name, first)?;
        let holder = device(first, user.kubeconfig)?;
        let suffixes: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
        let pool = plane.create_pool(&name, &suffixes.iter().map(String::as_str).collect::<Vec<_>>())?;
        // The rights of the holder are those of the group of all nodes.
        let each = |node: &String| device(node, kubeconfig_of(plane, &proxy, node)?);
        let agents = pool.nodes.iter().map(each).collect::<Result<_>>()?;
        Ok(Self {
            plane,
            pool,
            proxy,
            overloaded: None,
            agents,
            runs: false,
            holder,
            holder_user: user.name,
            holds: false,
        })
    }

    /// Starts all agents but the one that keeps the slot, and waits until their nodes are in service.
    fn start(&mut self) -> Result<()> {
        self.runs = true;
        for some in self.agents.chunks_mut(AT_A_TIME) {
            some.iter_mut().try_for_each(|agent| agent.start("zedkube"))?;
            some.iter().try_for_each(Device::until_in_service)?;
        }
        Ok(())
    }

    /// Makes one more agent drain its node and keep the slot. Returns the requests of the drain, by kind.
    fn hold_slot(&mut self) -> Result<BTreeMap<String, u32>> {
        ensure!(!self.holds, "the slot is taken already: `draining` comes once, before `waiting`");
        self.holds = true;
        self.holder.start("zedkube")?;
        self.holder.until_in_service()?;
        rest(SETTLE);
        let began = self.now()?;
        self.holder.write_request(agent::ZEDAGENT, REQUEST)?;
        self.holder.until_status(DrainStatus::Complete)?;
        self.requests(began, self.now()?, true)
    }

    /// Makes all agents wait for the slot.
    fn wait(&mut self) -> Result<()> {
        if !self.holds {
            self.hold_slot()?;
        }
        for agent in &self.agents {
            agent.write_request(agent::ZEDAGENT, REQUEST)?;
        }
        self.agents.iter().try_for_each(|agent| {
            agent.until("the node waits for a slot", || {
                let slot = agent.report().map(|report| report.slot);
                Ok(slot.filter(|slot| !slot.waiting_since.is_zero()).map(drop))
            })
        })
    }

    /// Boots all devices anew, with a server between them and the API server, which then refuses all requests. A
    /// kubeconfig that changes in mid-run is no way to it: an agent stays with the old one until the new server answers.
    fn overload(&mut self) -> Result<()> {
        let server = FaultyServer::start(self.plane.kubeconfig())?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = server.kubeconfig(folder.path())?;
        for node in &self.pool.nodes {
            fs::copy(&kubeconfig, kubeconfig_of(self.plane, &self.proxy, node)?)?;
        }
        self.agents.iter_mut().try_for_each(Device::boot)?;
        self.start()?;
        rest(SETTLE);
        server.set(Some(Fault { code: 429, percent: 100, is_plain: false, retry_after: RETRY_AFTER }));
        self.overloaded = Some(server);
        Ok(())
    }

    /// Leads the agents to the API server again.
    fn mend(&mut self) -> Result<()> {
        if self.overloaded.take().is_some() {
            for node in &self.pool.nodes {
                kubeconfig_of(self.plane, &self.proxy, node)?;
            }
        }
        self.proxy.mend();
        Ok(())
    }

    fn now(&self) -> Result<Now> {
        let refused = self.overloaded.as_ref().map_or(0, FaultyServer::refused);
        Ok(Now { audit: self.plane.audit_mark()?, connections: self.proxy.connections(), refused })
    }

    /// Watches the agents for this time. The time before that, in which they came into this state, began at `began`.
    fn watch(&mut self, time: Duration, began: Now) -> Result<Window> {
        let server = *self.plane.coordinates().pids.get(&Component::ApiServer).context("no API server")?;
        let cpu = || ticks(&fs::read_to_string(format!("/proc/{server}/stat"))?);
        let (from, cpu_before) = (self.now()?, cpu()?);
        #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
        let start = Instant::now();
        rest(time);
        let (seconds, ticks) = (start.elapsed().as_secs_f64(), f64::from(cpu()? - cpu_before));
        let to = self.now()?;
        let mut memory = Vec::new();
        for agent in self.agents.iter_mut().filter(|_| self.runs) {
            memory.push(resident(agent.agent("zedkube")?.id())? / 1024.0);
        }
        Ok(Window {
            minutes: seconds / 60.0,
            before: self.requests(began, from, false)?.values().sum(),
            requests: self.requests(from, to, false)?,
            connections: u32::try_from(to.connections - from.connections)?,
            cpu: ticks / TICKS_PER_SECOND / seconds * 100.0,
            memory: Summary::of(&memory),
        })
    }

    /// Requests between two moments, by kind: of the agent that keeps the slot, or of all others.
    fn requests(&self, from: Now, to: Now, of_holder: bool) -> Result<BTreeMap<String, u32>> {
        let mut kinds = BTreeMap::new();
        for request in self.plane.audit_between(from.audit, to.audit)?.of_agent("ebb/").iter() {
            if (request.user == self.holder_user) == of_holder {
                let error = request.code.filter(|code| *code >= 400);
                let answer = error.map(|code| format!(" -> {code}")).unwrap_or_default();
                *kinds.entry(kind(request) + &answer).or_default() += 1;
            }
        }
        let refused = to.refused.saturating_sub(from.refused);
        if refused > 0 && !of_holder {
            kinds.insert("any -> 429, by the server in between".to_owned(), u32::try_from(refused)?);
        }
        Ok(kinds)
    }
}

/// Writes the kubeconfig of a node through the proxy, always to the same file.
fn kubeconfig_of(plane: &ControlPlane, proxy: &Proxy, node: &str) -> Result<PathBuf> {
    proxy.kubeconfig(&plane.node_kubeconfig(node)?)
}

/// CPU time that a process has used, of user and system, in `USER_HZ`, from its `/proc/PID/stat`.
fn ticks(stat: &str) -> Result<u32> {
    // The name of the program may contain anything. `utime` and `stime` are 11 fields after the state.
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    Ok(times.next().context("no utime")?? + times.next().context("no stime")??)
}

/// Resident memory of a process, KiB.
fn resident(id: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let kib = number(&status, "VmRSS:").with_context(|| format!("process {id} has ended"))?;
    Ok(f64::from(u32::try_from(kib)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_is_that_of_user_and_system_without_children() {
        assert_eq!(ticks("7 (a) 1 b) S 1 2 3 4 5 -1 7 8 9 10 200 30 4 5 20").unwrap(), 230);
        assert!(resident(std::process::id()).unwrap() > 100.0);
    }
}
