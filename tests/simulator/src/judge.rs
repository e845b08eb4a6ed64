//! The invariants, by name, and what has to be known to judge them.

use std::collections::BTreeMap;

use fake_cluster::FakeCluster;
use schemas::{Agent, DeviceLine};
use serde_json::Value;

use crate::device::Device;
use crate::kernel;
use crate::story::tell;
use crate::world::{MINUTE, SECOND};

/// Default of `api.unreachable-timeout`: after so long an outage lets a device go down undrained.
const UNREACHABLE: u64 = 5 * MINUTE;
/// Default of `slots.down-max`: beside a node that is down an outage has to last so long.
const DOWN_MAX: u64 = 30 * MINUTE;
/// An answer that was right is taken back within this time after its reason is gone.
const TAKEN_BACK: u64 = 10 * SECOND;

/// What is known of a device.
#[derive(Debug, Default)]
struct Known {
    /// Lines of `device-actions.jsonl` that were judged.
    actions: usize,
    /// Number of actions by the command's counter.
    done: BTreeMap<u32, u32>,
    /// The command that is to be carried out.
    wanted: Option<u32>,
    is_down: bool,
    /// It is down because an agent of ours took it down.
    by_us: bool,
}

/// Judges what happens in a history.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    devices: Vec<Known>,
    away_since: Option<u64>,
    back_at: Option<u64>,
    writers: BTreeMap<String, String>,
    wrong: Vec<String>,
}

impl Judge {
    pub(crate) fn add(&mut self) {
        self.devices.push(Known::default());
    }

    /// The controller's command, or that there is none.
    pub(crate) fn commanded(&mut self, device: usize, counter: Option<u32>) {
        self.devices[device].wanted = counter;
    }

    pub(crate) fn is_down(&self, device: usize) -> bool {
        self.devices[device].is_down
    }

    /// Any boot counts as the reboot that was commanded.
    pub(crate) fn power_cut(&mut self, device: usize) {
        let known = &mut self.devices[device];
        (known.wanted, known.is_down) = (None, true);
    }

    pub(crate) fn is_back(&mut self, device: usize) {
        let known = &mut self.devices[device];
        (known.is_down, known.by_us) = (false, false);
    }

    pub(crate) fn api_is_away(&mut self) {
        self.away_since.get_or_insert(kernel::now());
    }

    pub(crate) fn api_is_back(&mut self) {
        if self.away_since.take().is_some() {
            self.back_at = Some(kernel::now());
        }
    }

    fn complain(&mut self, invariant: &str, what: &str) {
        tell("JUDGE", &format!("{invariant}: {what}"));
        self.wrong.push(format!("{invariant}: {what}"));
    }

    pub(crate) fn ended(&mut self, node: &str, agent: Agent, why: &str) {
        self.complain("an agent ends only when it is told to", &format!("{node} {}: {why}", agent.name()));
    }

    pub(crate) fn written(&mut self, who: &str, path: &str) {
        if who == "world" || path.contains("/.tmp.") {
            return;
        }
        let first = self.writers.entry(path.to_owned()).or_insert_with(|| who.to_owned());
        if first != who {
            let what = format!("{path} by {first} and {who}");
            self.complain("two agents never write one file", &what);
        }
    }

    /// Judges the actions that are new. True if there is one.
    pub(crate) fn acted(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        actions: &[DeviceLine],
    ) -> bool {
        let new = actions.get(self.devices[index].actions..).unwrap_or_default();
        for action in new {
            tell(&device.node, &format!("{} {}: {}", action.action, action.counter, action.reason));
            self.judge_action(cluster, index, &device.node, action);
        }
        if !new.is_empty() {
            let known = &mut self.devices[index];
            (known.actions, known.is_down, known.by_us) = (actions.len(), true, true);
        }
        !new.is_empty()
    }

    fn judge_action(&mut self, cluster: &FakeCluster, index: usize, node: &str, action: &DeviceLine) {
        let times = self.devices[index].done.entry(action.counter).or_default();
        *times += 1;
        let times = *times;
        if times > 1 {
            self.complain(
                "each command once",
                &format!("{node} does reboot {} {times} times", action.counter),
            );
        }
        let outage = self.away_since.map_or(0, |since| kernel::now() - since);
        if action.reason.contains("NOT DRAINED") {
            let has_just_ended = self.back_at.is_some_and(|at| kernel::now() - at < TAKEN_BACK);
            if outage < UNREACHABLE && !has_just_ended {
                let what = format!("{node}, in an outage of {} s", outage / SECOND);
                self.complain("undrained only when that is justified", &what);
            }
        } else {
            self.judge_drained(cluster, node);
        }
        let is_other = |(other, known): &(usize, &Known)| *other != index && known.by_us;
        let down = self.devices.iter().enumerate().filter(is_other).count();
        if down > 0 && outage < DOWN_MAX {
            self.complain("never two down", &format!("{node} goes down beside {down}"));
        }
    }

    fn judge_drained(&mut self, cluster: &FakeCluster, node: &str) {
        let leaves = |pod: &&Value| {
            let is_daemon =
                pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str) == Some("DaemonSet");
            let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            !is_daemon && !matches!(phase, "Succeeded" | "Failed")
        };
        let name = |pod: &Value| {
            pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let left: Vec<String> = cluster.pods_on(node).iter().filter(leaves).map(name).collect();
        if !left.is_empty() {
            self.complain("drained means that no pod is left", &format!("{node} has {left:?}"));
        }
        let is_here =
            |attachment: &Value| attachment.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node);
        let attached = cluster.list("volumeattachments", None).into_iter().filter(is_here).count();
        if attached > 0 {
            self.complain("drained means that no volume is attached", &format!("{node} has {attached}"));
        }
    }

    /// What is not at rest yet.
    pub(crate) fn missing(&self, cluster: &FakeCluster, devices: &[Device]) -> Vec<String> {
        let mut missing = Vec::new();
        for (device, known) in devices.iter().zip(&self.devices) {
            if let Some(wanted) = known.wanted.filter(|wanted| !known.done.contains_key(wanted)) {
                missing.push(format!("reboot {wanted} of {} is not done", device.node));
            }
            if known.is_down {
                missing.push(format!("{} is down", device.node));
            }
            let node = cluster.get("nodes", "", &device.node).unwrap_or_default();
            if node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
                missing.push(format!("{} is cordoned", device.node));
            }
        }
        let slots = cluster.get("configmaps", "kube-system", "ebb-slots-default").unwrap_or_default();
        let taken = slots.get("data").and_then(Value::as_object).filter(|taken| !taken.is_empty());
        missing.extend(taken.map(|taken| format!("slots are taken: {taken:?}")));
        missing
    }

    pub(crate) fn at_rest(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        for missing in self.missing(cluster, devices) {
            self.complain("everything is done and given back in the end", &missing);
        }
    }

    pub(crate) fn into_wrong(self) -> Vec<String> {
        self.wrong
    }
}
