//! EVE's zedkube in the place of ours: what it publishes, and what it does to the node, as EVE-OS's source has it. It has no
//! report, no slots and no record; it does not hear that a request is withdrawn, and drains again for each that comes.

use std::fs::{self, File};
use std::io::Write;

use anyhow::Result;
use fake_cluster::FakeCluster;
use pubsub::Root;
use schemas::{DrainStatus, agent};
use serde_json::{Value, json};

use crate::judge::left_on;
use crate::kernel;
use crate::story::tell;
use crate::world::{MINUTE, SECOND, below, chance, is_unschedulable, pick};

/// What it publishes.
pub(crate) const STATUS: &str = "/run/zedkube/NodeDrainStatus/global.json";
const OVERRIDE: &str = "/persist/kube-status/force-NodeDrainStatus-global.json";
/// The agents whose requests it takes, as it numbers them.
const REQUESTERS: [(&str, u8); 2] = [(agent::ZEDAGENT, 2), (agent::BASEOSMGR, 3)];
const NOBODY: u8 = 1;
/// It waits so long for an API server that does not answer; then it says COMPLETE.
const UNREACHABLE: u64 = 5 * MINUTE;
/// It looks for an operator's file so often, while a request waits.
const OVERRIDE_POLL: u64 = 5 * MINUTE;
/// Tries of a drain, and the pause between two.
const TRIES: u32 = 4;
const RETRY: u64 = 5 * MINUTE;
/// It looks so often whether the node is empty.
const POLL: u64 = 5 * SECOND;

/// A step of its work; what follows is planned when it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It has started.
    Start,
    /// It has the cluster's configuration.
    Joined,
    /// It takes requests, and gives the node back that the last drain has cordoned.
    Online,
    /// It takes a request that was published.
    Take,
    /// It begins a drain; the API server has not answered for so many nanoseconds.
    Starting(u64),
    /// It could not cordon the node.
    FailedCordon,
    /// It has cordoned the node, and the time in which it looks for other nodes is over.
    Cordoned,
    /// It moves the pods away: the number of the try, and when that has to be done.
    Draining(u32, u64),
    /// It looks for an operator's file.
    Override,
}

/// What the device's zedkube knows.
#[derive(Debug)]
pub(crate) struct Eve {
    root: Root,
    node: String,
    /// It takes requests.
    is_online: bool,
    /// Number of its start.
    life: u32,
    status: DrainStatus,
}

impl Eve {
    pub(crate) fn new(root: &Root, node: &str) -> Self {
        Self {
            root: root.clone(),
            node: node.to_owned(),
            is_online: false,
            life: 0,
            status: DrainStatus::Unknown,
        }
    }

    /// It ends, because the device goes down.
    pub(crate) fn end(&mut self) {
        self.is_online = false;
        self.life += 1;
        self.status = DrainStatus::Unknown;
    }

    /// Number of its start; what was planned before it is nothing to it.
    pub(crate) const fn life(&self) -> u32 {
        self.life
    }

    /// The phase of a zedkube of ours that its status corresponds to.
    pub(crate) const fn phase(&self) -> &'static str {
        match self.status {
            DrainStatus::Requested => "Waiting",
            DrainStatus::Starting => "Cordoning",
            DrainStatus::Cordoned => "Attempting",
            DrainStatus::DrainRetrying => "Pausing",
            DrainStatus::Complete => "Complete",
            DrainStatus::FailedCordon | DrainStatus::FailedDrain => "Failed",
            _ => "Idle",
        }
    }

    /// A request for a drain was published at this path. Returns what follows.
    pub(crate) fn requested(&self, path: &str) -> Vec<(u64, Step)> {
        let is_heard =
            self.is_online && REQUESTERS.iter().any(|(agent, _)| path.ends_with(&request_of(agent)));
        // Its other work may keep it for a moment.
        let later = || kernel::below(pick(&[1, SECOND / 5, 5 * SECOND]));
        if is_heard { vec![(later(), Step::Take)] } else { Vec::new() }
    }

    /// For whom a status is: the first one whose request is published, as EVE numbers them.
    fn requester(&self) -> u8 {
        let asks = |(agent, _): &&(&str, u8)| self.root.join(request_of(agent)).exists();
        REQUESTERS.iter().find(asks).map_or(NOBODY, |(_, number)| *number)
    }

    fn take_request(&mut self) -> Result<Vec<(u64, Step)>> {
        self.publish(DrainStatus::Requested)?;
        Ok(vec![(pick(&[SECOND / 10, SECOND]), Step::Starting(0)), (OVERRIDE_POLL, Step::Override)])
    }

    /// Carries out a step. Returns what follows, each with the time until then.
    pub(crate) fn step(
        &mut self,
        step: Step,
        cluster: &FakeCluster,
        is_away: bool,
    ) -> Result<Vec<(u64, Step)>> {
        match step {
            Step::Start => {
                // An order from before its start does not count.
                fs::remove_file(self.root.join(OVERRIDE)).unwrap_or_default();
                self.publish(DrainStatus::NotSupported)?;
                Ok(vec![(kernel::below(10 * SECOND), Step::Joined)])
            }
            Step::Joined => {
                self.publish(DrainStatus::NotRequested)?;
                Ok(vec![(kernel::below(pick(&[SECOND, MINUTE, 3 * MINUTE])), Step::Online)])
            }
            Step::Online => self.go_online(cluster, is_away),
            Step::Take => self.take_request(),
            Step::Starting(waited) => self.start_drain(cluster, is_away, waited),
            Step::FailedCordon => {
                self.publish(DrainStatus::FailedCordon)?;
                Ok(Vec::new())
            }
            Step::Cordoned => Ok(vec![(0, self.begin_try(1))]),
            Step::Draining(number, until) => self.drain(cluster, is_away, number, until),
            Step::Override => self.obey(),
        }
    }

    fn go_online(&mut self, cluster: &FakeCluster, is_away: bool) -> Result<Vec<(u64, Step)>> {
        let node = cluster.get("nodes", "", &self.node).unwrap_or_default();
        let of_ready = |condition: &&Value| condition["type"] == "Ready";
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(of_ready);
        if is_away || ready.is_none_or(|ready| ready["status"] != "True") {
            return Ok(vec![(15 * SECOND, Step::Online)]);
        }
        self.cordon(cluster, false)?;
        self.is_online = true;
        if self.requester() == NOBODY { Ok(Vec::new()) } else { self.take_request() }
    }

    fn start_drain(&mut self, cluster: &FakeCluster, is_away: bool, waited: u64) -> Result<Vec<(u64, Step)>> {
        if waited == 0 {
            self.publish(DrainStatus::Starting)?;
        }
        if is_away && waited < UNREACHABLE {
            return Ok(vec![(POLL, Step::Starting(waited + POLL))]);
        }
        if is_away {
            self.publish(DrainStatus::Complete)?;
            return Ok(Vec::new());
        }
        if waited == 0 && chance(10) {
            return Ok(vec![(SECOND, Step::FailedCordon)]);
        }
        self.cordon(cluster, true)?;
        self.publish(DrainStatus::Cordoned)?;
        Ok(vec![(pick(&[10, 120]) * SECOND, Step::Cordoned)])
    }

    /// A try that is too short for the pods fails.
    fn begin_try(&self, number: u32) -> Step {
        let long = pick(&[0, 10, 10, 10]) * MINUTE;
        tell(&self.node, &format!("EVE's zedkube: try {number}, for {} s at most", long / SECOND));
        Step::Draining(number, kernel::now() + long)
    }

    fn drain(
        &mut self,
        cluster: &FakeCluster,
        is_away: bool,
        number: u32,
        until: u64,
    ) -> Result<Vec<(u64, Step)>> {
        let left = left_on(cluster, &self.node, 0);
        if left.is_empty() && !is_away {
            self.publish(DrainStatus::Complete)?;
            return Ok(Vec::new());
        }
        if kernel::now() < until {
            for pod in left.iter().filter(|_| !is_away) {
                cluster.delete("pods", "default", pod);
            }
            return Ok(vec![(POLL, Step::Draining(number, until))]);
        }
        if number == TRIES {
            self.publish(DrainStatus::FailedDrain)?;
            return Ok(Vec::new());
        }
        self.publish(DrainStatus::DrainRetrying)?;
        // The time of the pause belongs to the next try.
        let next = Step::Draining(number + 1, kernel::now() + RETRY + MINUTE * u64::from(below(3)));
        Ok(vec![(RETRY, next)])
    }

    /// What an operator wrote is published as it is. The file goes with the answer that ends the wait.
    fn obey(&mut self) -> Result<Vec<(u64, Step)>> {
        let path = self.root.join(OVERRIDE);
        let written = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let Some(written): Option<Value> = written else {
            let waits = self.is_online && self.status != DrainStatus::Complete;
            return Ok(if waits { vec![(OVERRIDE_POLL, Step::Override)] } else { Vec::new() });
        };
        fs::remove_file(path)?;
        self.put(&written)?;
        Ok(Vec::new())
    }

    fn cordon(&self, cluster: &FakeCluster, is_cordoned: bool) -> Result<()> {
        if is_unschedulable(&cluster.get("nodes", "", &self.node).unwrap_or_default()) == is_cordoned {
            return Ok(());
        }
        tell(&self.node, &format!("EVE's zedkube: cordoned: {is_cordoned}"));
        cluster.edit("nodes", "", &self.node, |node| {
            node["spec"]["unschedulable"] = if is_cordoned { json!(true) } else { Value::Null };
        })?;
        Ok(())
    }

    /// Publishes a status; for whom, it finds out at this moment.
    fn publish(&mut self, status: DrainStatus) -> Result<()> {
        self.status = status;
        self.put(&json!({"Status": status, "RequestedBy": self.requester()}))
    }

    fn put(&self, status: &Value) -> Result<()> {
        tell(&self.node, &format!("EVE's zedkube: {status}"));
        let path = self.root.join(STATUS);
        let beside = path.with_file_name("tmp4711");
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        File::create(&beside)?.write_all(status.to_string().as_bytes())?;
        fs::rename(beside, path)?;
        Ok(())
    }
}

/// Where an agent publishes its request.
fn request_of(agent: &str) -> String {
    format!("/run/{agent}/NodeDrainRequest/global.json")
}
