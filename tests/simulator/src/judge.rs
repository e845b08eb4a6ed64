//! The invariants, by name, and what has to be known to judge them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fake_cluster::FakeCluster;
use schemas::{Agent, CommandLine, CommandState, DeviceLine, DeviceOpStatus, Source, parse};
use serde_json::Value;

use crate::device::Device;
use crate::kernel;
use crate::story::tell;
use crate::world::{MINUTE, SECOND, is_unschedulable};

/// Default of `api.unreachable-timeout`: after so long an outage lets a device go down undrained.
const UNREACHABLE: u64 = 5 * MINUTE;
/// Default of `slots.down-max`: beside a node that is down an outage has to last so long.
const DOWN_MAX: u64 = 30 * MINUTE;
/// Default of `drain.start.timeout`: a zedkube that was away for so long in this boot is not waited for.
const START: u64 = 10 * MINUTE;
/// An agent asks a server that is away so often, and waits so long for an answer.
const UNSEEN: u64 = 60 * SECOND;
/// An override counts for so long: `force.ttl`, and time to act, with kills and outages in between.
const OVERRIDE: u64 = 30 * MINUTE;
/// What the report says must agree with the world after this time.
const AGREES: u64 = 2 * SECOND;
/// After a fault of the API server, watches and backoffs need so long until all is seen again.
const CALM: u64 = 2 * MINUTE;
/// The service manager ends an agent that gave no sign of life for so long.
const SIGN_OF_LIFE: u64 = 3 * MINUTE;
/// A pod that is younger may have come after the decision.
const YOUNG: i64 = 3;
/// An answer that was right is taken back within this time after its reason is gone.
const TAKEN_BACK: u64 = 10 * SECOND;

/// What is known of a device.
#[derive(Debug, Default)]
struct Known {
    /// Lines of `device-actions.jsonl` that were judged.
    actions: usize,
    /// Number of actions by the command's source and counter.
    done: BTreeMap<(String, u32), u32>,
    /// The controller's command that is to be carried out.
    wanted: Option<u32>,
    /// An operator has commanded a reboot, and neither took it back nor was there a boot since.
    is_wanted_here: bool,
    is_down: bool,
    /// Since when it is down, if an agent of ours took it down.
    by_us: Option<u64>,
    /// It stands still until this time.
    suspended_until: u64,
    /// When an operator overrode the drain; None once a boot has used that up.
    overridden_at: Option<u64>,
    /// A person cordoned the node.
    is_cordoned: bool,
    /// Since when the report has said COMPLETE while pods were left, and nothing excused that.
    contradicted_since: Option<u64>,
    /// When an agent was last seen to give a sign of life, by its name.
    signs: BTreeMap<&'static str, (Option<SystemTime>, u64)>,
}

impl Known {
    /// A boot uses up what was ordered for the boot before.
    fn begins_boot(&mut self) {
        // Any boot is the reboot that was commanded before it.
        (self.wanted, self.is_wanted_here) = (None, false);
        (self.overridden_at, self.contradicted_since) = (None, None);
        self.signs.clear();
    }
}

/// Judges what happens in a history.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    devices: Vec<Known>,
    away_since: Option<u64>,
    /// When the last outage that is over began.
    was_away_since: Option<u64>,
    back_at: Option<u64>,
    /// The last time at which a fault of the API server began or ended.
    disturbed_at: u64,
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

    /// A fault of the API server begins or ends.
    pub(crate) fn disturbed(&mut self) {
        self.disturbed_at = kernel::now();
    }

    pub(crate) fn overridden(&mut self, device: usize) {
        self.devices[device].overridden_at = Some(kernel::now());
    }

    pub(crate) fn suspended(&mut self, device: usize, nanos: u64) {
        self.devices[device].suspended_until = kernel::now() + nanos;
    }

    pub(crate) fn cordoned(&mut self, device: usize, is_cordoned: bool) {
        self.devices[device].is_cordoned = is_cordoned;
    }

    /// A verb of an operator has ended.
    pub(crate) fn verb(&mut self, device: usize, words: &str, is_done: bool) {
        let known = &mut self.devices[device];
        match words.split(' ').next() {
            Some("reboot") if is_done && !known.is_down => known.is_wanted_here = true,
            // A refusal may come after the command was taken back.
            Some("cancel") => known.is_wanted_here = false,
            Some("force") => known.overridden_at = Some(kernel::now()),
            _ => {}
        }
    }

    /// The device is down, or stands still.
    pub(crate) fn is_away(&self, device: usize) -> bool {
        let known = &self.devices[device];
        known.is_down || kernel::now() < known.suspended_until
    }

    pub(crate) fn is_down(&self, device: usize) -> bool {
        self.devices[device].is_down
    }

    /// Any boot counts as the reboot that was commanded.
    pub(crate) fn power_cut(&mut self, device: usize) {
        let known = &mut self.devices[device];
        known.is_down = true;
        known.begins_boot();
    }

    pub(crate) fn is_back(&mut self, device: usize) {
        let known = &mut self.devices[device];
        (known.is_down, known.by_us) = (false, None);
    }

    pub(crate) fn api_is_away(&mut self) {
        if self.away_since.is_none() {
            let is_new = self.back_at.is_none_or(|back| kernel::now() - back > UNSEEN);
            self.away_since = if is_new { None } else { self.was_away_since };
            self.away_since.get_or_insert(kernel::now());
        }
    }

    pub(crate) fn api_is_back(&mut self) {
        if let Some(since) = self.away_since.take() {
            (self.was_away_since, self.back_at) = (Some(since), Some(kernel::now()));
        }
    }

    /// How long the API server has not answered, as an agent sees it: one that answers no request is away, and a moment
    /// in between may be missed.
    fn outage(&self, cluster: &FakeCluster) -> u64 {
        let fails = cluster.faults().waiting() > 0;
        let since = self.away_since.or(self.was_away_since.filter(|_| fails));
        since.map_or(0, |since| kernel::now() - since)
    }

    fn complain(&mut self, invariant: &str, what: &str) {
        tell("JUDGE", &format!("{invariant}: {what}"));
        self.wrong.push(format!("{invariant}: {what}"));
    }

    pub(crate) fn ended(&mut self, node: &str, agent: Agent, why: &str) {
        self.complain("an agent ends only when it is told to", &format!("{node} {}: {why}", agent.name()));
    }

    pub(crate) fn written(&mut self, who: &str, path: &str) {
        // `ebb force` takes the lock of a zedkube that does not run, and writes in its place.
        let is_in_its_place = who.ends_with(" ebb") && path.contains("/zedkube/");
        if who == "world" || path.contains("/.tmp.") || is_in_its_place {
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
            self.judge_action(cluster, index, device, action);
        }
        if !new.is_empty() {
            let known = &mut self.devices[index];
            // A device that was forced has no slot: the operator answers for it. Nor has one without a zedkube.
            let is_forced = known.overridden_at.is_some() || device.zedkube_was_away() >= START;
            (known.actions, known.is_down) = (actions.len(), true);
            known.by_us = (!is_forced).then(kernel::now);
            known.begins_boot();
        }
        !new.is_empty()
    }

    fn judge_action(&mut self, cluster: &FakeCluster, index: usize, device: &Device, action: &DeviceLine) {
        let node = &device.node;
        let command = (action.source.to_string(), action.counter);
        let times = self.devices[index].done.entry(command).or_default();
        *times += 1;
        let times = *times;
        if times > 1 {
            let what = format!("{node} does reboot {} of {} {times} times", action.counter, action.source);
            self.complain("each command once", &what);
        }
        let outage = self.outage(cluster);
        if action.reason.contains("NOT DRAINED") {
            let has_just_ended = self.back_at.is_some_and(|at| kernel::now() - at < TAKEN_BACK);
            let is_overridden =
                self.devices[index].overridden_at.is_some_and(|at| kernel::now() - at < OVERRIDE);
            let away = device.zedkube_was_away();
            if outage < UNREACHABLE && !has_just_ended && !is_overridden && away < START {
                let (outage, away) = (outage / SECOND, away / SECOND);
                let what =
                    format!("{node}, in an outage of {outage} s, with a zedkube that was away for {away} s");
                self.complain("undrained only when that is justified", &what);
            }
        } else {
            self.judge_drained(cluster, node);
        }
        // Of one that goes down in the same outage nobody can know.
        let before = self.away_since.unwrap_or(u64::MAX);
        let is_known = |known: &Known| known.by_us.is_some_and(|since| since < before);
        let is_other = |(other, known): &(usize, &Known)| *other != index && is_known(known);
        let down = self.devices.iter().enumerate().filter(is_other).count();
        let is_overridden = self.devices[index].overridden_at.is_some() || device.zedkube_was_away() >= START;
        if down > 0 && outage < DOWN_MAX && !is_overridden {
            self.complain("never two down", &format!("{node} goes down beside {down}"));
        }
    }

    /// Judges what can be seen at any time.
    pub(crate) fn look(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        for (index, device) in devices.iter().enumerate() {
            if self.is_away(index) {
                continue;
            }
            self.judge_report(cluster, index, device);
            self.judge_signs(index, device);
        }
    }

    /// "The report never contradicts the world for longer than 2 s."
    fn judge_report(&mut self, cluster: &FakeCluster, index: usize, device: &Device) {
        let now = kernel::now();
        let is_calm = self.away_since.is_none()
            && cluster.faults().waiting() == 0
            && now.saturating_sub(self.disturbed_at) > CALM
            && self.back_at.is_none_or(|back| now - back > CALM)
            && self.devices[index].overridden_at.is_none()
            && device.runs_for(Agent::Zedkube) > AGREES;
        let report = device.text("/run/zedkube/NodeDrainStatus/global.json").unwrap_or_default();
        let report: Value = serde_json::from_str(&report).unwrap_or_default();
        let is_complete = report.get("Status").and_then(Value::as_u64) == Some(COMPLETE);
        let left = if is_calm && is_complete { left_on(cluster, &device.node, 0) } else { Vec::new() };
        let known = &mut self.devices[index];
        if left.is_empty() {
            known.contradicted_since = None;
            return;
        }
        let since = *known.contradicted_since.get_or_insert(now);
        if now - since > AGREES {
            known.contradicted_since = Some(u64::MAX / 2);
            let what = format!("{} says COMPLETE, and has {left:?}", device.node);
            self.complain("the report never contradicts the world", &what);
        }
    }

    /// "No watchdog is starved."
    fn judge_signs(&mut self, index: usize, device: &Device) {
        let now = kernel::now();
        for (agent, touched) in device.touched() {
            let runs_for = device.runs_for(agent);
            let suspended_until = self.devices[index].suspended_until;
            let (last, at) = self.devices[index].signs.entry(agent.name()).or_insert((touched, now));
            if *last != touched {
                (*last, *at) = (touched, now);
            }
            let silent = now.saturating_sub((*at).max(suspended_until)).min(runs_for);
            if silent > SIGN_OF_LIFE {
                *at = now;
                let what = format!("{} {} gave none for {} s", device.node, agent.name(), silent / SECOND);
                self.complain("signs of life", &what);
            }
        }
    }

    fn judge_drained(&mut self, cluster: &FakeCluster, node: &str) {
        let left = left_on(cluster, node, YOUNG);
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
            if known.is_wanted_here {
                missing.push(format!("the reboot of an operator on {} is not done", device.node));
            }
            if let Some(wanted) = known.wanted.filter(|wanted| !is_refused(device, *wanted)) {
                missing.push(format!("reboot {wanted} of {} is not done", device.node));
            }
            if known.is_down {
                missing.push(format!("{} is down", device.node));
            }
            let node = cluster.get("nodes", "", &device.node).unwrap_or_default();
            match (is_unschedulable(&node), known.is_cordoned) {
                (true, false) => missing.push(format!("{} is cordoned", device.node)),
                (false, true) => missing.push(format!("the cordon of a person on {} is gone", device.node)),
                _ => {}
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

/// True if device-op says why it does not carry this command of the controller out: it is the first of its kind that a
/// device sees, for example because the disk took no record until then.
fn is_refused(device: &Device, counter: u32) -> bool {
    let text = device.text("/run/zedagent/DeviceOpStatus/global.json").unwrap_or_default();
    let status: Option<DeviceOpStatus> = parse(text.as_bytes()).ok();
    let is_it = |line: &CommandLine| {
        (line.source, line.counter, line.state) == (Source::Controller, counter, CommandState::Recorded)
            && !line.reason.is_empty()
    };
    status.is_some_and(|status| status.commands.iter().any(is_it))
}

/// `DrainStatus::Complete` as a number.
const COMPLETE: u64 = 9;

/// The pods on the node that a drain has to move away, and that are at least so many seconds old.
fn left_on(cluster: &FakeCluster, node: &str, age: i64) -> Vec<String> {
    let now = runtime::clock::wall();
    let is_old = |pod: &Value| {
        let made = pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        let made = made.and_then(|made| made.parse::<jiff::Timestamp>().ok());
        made.is_none_or(|made| now.as_second() - made.as_second() >= age)
    };
    let leaves = |pod: &&Value| {
        let is_daemon =
            pod.pointer("/metadata/ownerReferences/0/kind").and_then(Value::as_str) == Some("DaemonSet");
        let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        !is_daemon && !matches!(phase, "Succeeded" | "Failed") && is_old(pod)
    };
    let name =
        |pod: &Value| pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    cluster.pods_on(node).iter().filter(leaves).map(name).collect()
}
