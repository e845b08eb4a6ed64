//! What an answer "drained" is based on, and what the report says about pods.

use std::collections::BTreeSet;

use fake_cluster::{Evicted, FakeCluster, Request};
use schemas::Agent;
use serde_json::Value;

use super::{
    COMPLETE, HEARD, Judge, NOT_REQUESTED, STALE_SCHEDULER, WATCHES_ARE_BACK, YOUNG, age, attached_to,
    left_on,
};
use crate::device::Device;
use crate::kernel;
use crate::world::{SECOND, is_unschedulable};

/// An outage of this time is noticed for sure by who waits for an answer (`drain::outage`).
const NOTICED: u64 = 30 * SECOND;
/// A call that was in flight when its drain ended is over after this time.
const ABORTED: u64 = 2 * SECOND;

/// What is known of the drain of a device.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// The requests that were answered because the node is drained, by their time.
    drained: BTreeSet<String>,
    /// The phase, as the report said it last.
    phase: String,
    /// The pods that have to leave, as the report said it last, and those that were gone from it.
    shown: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// The attempt and the boot that they are about.
    attempt: (String, u64),
    /// When pods that have to leave were on the node last.
    left_at: u64,
    /// When the first pod was evicted in this attempt.
    evicted_at: Option<u64>,
    /// When a pod was evicted last that had come after the first eviction.
    arrived_at: Option<u64>,
    /// Since when the API server is away, or was away last, if an attempt went on then.
    away_since: Option<u64>,
    /// When its pods were listed last.
    listed_at: Option<u64>,
    /// Since when the status has said that nobody asks for a drain.
    idle_since: Option<u64>,
}

impl Judge {
    /// Looks at what the agents asked the API server, and what they said since.
    pub(super) fn look_at_answers(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        let (asked, next) = cluster.requests().since(self.next_request);
        self.next_request = next;
        for request in &asked {
            self.judge_request(cluster, devices, request);
            if counts(request) {
                self.asked.push_back(u64::try_from(request.at.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        for (index, device) in devices.iter().enumerate() {
            if !self.devices[index].has_eve {
                self.judge_pods(index, device);
                self.judge_drained_answers(cluster, index, device);
            }
        }
    }

    /// Notes that the API server goes away.
    pub(super) fn note_outage(&mut self) {
        for known in &mut self.devices {
            let proof = &mut known.proof;
            proof.away_since = (proof.phase == "Attempting").then(kernel::now);
            proof.listed_at = None;
        }
    }

    /// Notes an eviction that was carried out.
    pub(super) fn note_evicted(&mut self, index: usize, device: &Device, evicted: &Evicted) {
        let now = kernel::now();
        let came_before = age(&evicted.since).saturating_add(1);
        let known = &mut self.devices[index];
        let proof = &mut known.proof;
        let first = *proof.evicted_at.get_or_insert(now);
        let since_first = i64::try_from(now.saturating_sub(first) / SECOND).unwrap_or_default();
        if came_before < since_first {
            proof.arrived_at = Some(now);
        }
        let idle = proof.idle_since.map_or(0, |since| now - since).min(device.runs_for(Agent::Zedkube));
        if !known.has_eve && idle > ABORTED {
            let what = format!("{} of {}, {} s later", evicted.pod, device.node, idle / SECOND);
            self.complain("no eviction outlives its drain", &what);
        }
    }

    /// "After an outage no pod is evicted before its node was listed": what was known before is out of date.
    fn judge_request(&mut self, cluster: &FakeCluster, devices: &[Device], request: &Request) {
        let at = u64::try_from(request.at.as_nanos()).unwrap_or(u64::MAX);
        let of_device = |node: &str| devices.iter().position(|device| device.node == node);
        if let Some(index) = devices.iter().position(|device| is_list_of(request, &device.node)) {
            self.devices[index].proof.listed_at = Some(at);
        } else if request.resource == "pods/eviction" {
            let pod = cluster.get("pods", &request.namespace, &request.name).unwrap_or_default();
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
            let Some(index) = of_device(node) else { return };
            let proof = &self.devices[index].proof;
            let Some((since, back)) = proof.away_since.zip(self.back_at) else { return };
            let is_seen = back > since + NOTICED
                && self.away_since.is_none()
                && devices[index].runs_for(Agent::Zedkube) > kernel::now() - since
                && self.devices[index].stood_still_until() < since;
            if is_seen && proof.listed_at.is_none() {
                let what = format!("{}, {} s after it", request.name, (at - back) / SECOND);
                self.complain("after an outage no pod is evicted before its node was listed", &what);
            }
        }
    }

    /// "A pod that is gone does not come back in the report": its UID is never given again.
    fn judge_pods(&mut self, index: usize, device: &Device) {
        // A watch that was late shows again what was so before the list, until it has told all.
        let catches_up = self.caught_up_at > 0 && kernel::now() - self.caught_up_at < WATCHES_ARE_BACK;
        let known = &mut self.devices[index];
        let (report, proof) = (&known.report, &mut known.proof);
        let phase = report.get("Phase").and_then(Value::as_str).unwrap_or_default();
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let attempt =
            (text(report, "DrainId"), report.get("DrainAttempt").and_then(Value::as_u64).unwrap_or_default());
        let is_judged = phase == "Attempting" && !catches_up;
        if !is_judged || attempt != proof.attempt || device.runs_for(Agent::Zedkube) < HEARD {
            (proof.shown, proof.gone, proof.attempt) = (BTreeSet::new(), BTreeSet::new(), attempt);
            if !is_judged {
                return;
            }
        }
        let is_whole = report.pointer("/Omitted/Pods").and_then(Value::as_u64) == Some(0);
        let pods = report.get("Pods").and_then(Value::as_array);
        let shown: BTreeSet<String> = pods.into_iter().flatten().map(|pod| text(pod, "Uid")).collect();
        let gone = proof.shown.difference(&shown).cloned().collect::<Vec<_>>();
        if is_whole {
            proof.gone.extend(gone);
        }
        let back: Vec<String> = shown.intersection(&proof.gone).cloned().collect();
        proof.shown = shown;
        if !back.is_empty() {
            for uid in &back {
                proof.gone.remove(uid);
            }
            let what = format!("{}: {back:?}, report {report}", device.node);
            self.complain("a pod that is gone does not come back in the report", &what);
        }
    }

    /// Judges new answers, and the end of a drain.
    fn judge_drained_answers(&mut self, cluster: &FakeCluster, index: usize, device: &Device) {
        let now = kernel::now();
        let known = &mut self.devices[index];
        let Value::Object(report) = &known.report else { return };
        let phase = report.get("Phase").and_then(Value::as_str).unwrap_or_default().to_owned();
        let outcome = report.get("Outcome").and_then(Value::as_str).unwrap_or_default();
        let is_drained = phase == "Complete" && known.proof.phase != "Complete" && outcome == "Drained";
        let begins = phase == "Attempting" && known.proof.phase != "Attempting";
        if phase != known.proof.phase {
            known.proof.phase.clone_from(&phase);
        }
        if begins {
            let proof = &mut known.proof;
            (proof.evicted_at, proof.arrived_at, proof.left_at) = (None, None, 0);
        }
        // The next attempt may ask pods to leave at once: its watches have gone on where they were.
        if begins || phase == "Pausing" {
            known.proof.away_since = None;
        }
        let is_idle = known.status.is_none_or(|status| status <= NOT_REQUESTED);
        known.proof.idle_since = if is_idle { known.proof.idle_since.or(Some(now)) } else { None };
        if phase == "Attempting" && !left_on(cluster, &device.node, 0).is_empty() {
            known.proof.left_at = now;
        }
        let lines = known.report.get("Requests").and_then(Value::as_array);
        let drained = lines.into_iter().flatten().filter(|line| {
            line.get("Answer").and_then(Value::as_u64) == Some(COMPLETE)
                && line.get("Outcome").and_then(Value::as_str) == Some("Drained")
        });
        let drained: BTreeSet<String> = drained
            .filter_map(|line| line.get("RequestedAt").and_then(Value::as_str).map(str::to_owned))
            .collect();
        let is_new = !drained.is_subset(&known.proof.drained);
        known.proof.drained = drained;
        if is_new {
            self.judge_answer(cluster, index, device);
        }
        if is_drained {
            self.judge_lists(cluster, index, device);
        }
    }

    /// "An answer is true when it is given."
    fn judge_answer(&mut self, cluster: &FakeCluster, index: usize, device: &Device) {
        let known = &self.devices[index];
        let now = kernel::now();
        // What came while the device stood still, or could not see the cluster, is known a moment later.
        let is_blind = self.is_blind(now)
            || self.server.has_trouble()
            || known.suspended_until + HEARD > now
            || known.disturbed_at + HEARD > now
            || device.runs_for(Agent::Zedkube) < HEARD;
        // Past the point of no return nothing is taken back.
        if is_blind || known.acting.is_some() || !known.tried.is_empty() {
            return;
        }
        let node = &device.node;
        let left = left_on(cluster, node, YOUNG);
        let attached = attached_to(cluster, node).len();
        // A person may uncordon it in the same moment.
        let was_lifted = known.ours_lifted_at.is_some_and(|at| now - at < HEARD);
        let is_cordoned =
            was_lifted || cluster.get("nodes", "", node).is_none_or(|node| is_unschedulable(&node));
        if !left.is_empty() || attached > 0 || !is_cordoned {
            let what = format!("{node}: cordoned {is_cordoned}, {left:?}, {attached} volumes attached");
            self.complain("an answer is true when it is given", &what);
        }
    }

    /// What a drain has to be based on: lists that were asked for when the node was empty.
    fn judge_lists(&mut self, cluster: &FakeCluster, index: usize, device: &Device) {
        let (known, now) = (&self.devices[index], kernel::now());
        let (node, proof) = (&device.node, &known.proof);
        let lists: Vec<u64> = cluster
            .requests()
            .recent()
            .iter()
            .filter(|request| is_list_of(request, node) && request.code == Some(200))
            .map(|request| u64::try_from(request.at.as_nanos()).unwrap_or_default())
            .filter(|at| *at >= proof.left_at)
            .collect();
        let Some((first, last)) = lists.first().zip(lists.last()) else {
            let what = format!("{node}: pods were there {} s ago", (now - proof.left_at) / SECOND);
            self.complain("a drain ends by a fresh list", &what);
            return;
        };
        let runs_for = device.runs_for(Agent::Zedkube);
        let arrived = proof.arrived_at.filter(|at| runs_for > now - at + HEARD);
        let is_settled = last - first + SECOND / 100 >= self.limits.settle;
        let outage = proof.away_since.zip(self.back_at).filter(|(since, back)| {
            *back > since + NOTICED && runs_for > now - since && known.stood_still_until() < *since
        });
        let is_fresh = outage.is_none_or(|(_, back)| now >= back + STALE_SCHEDULER);
        if arrived.is_some() && !is_settled {
            let what = format!("{node}: lists within {} ms", (last - first) / 1_000_000);
            self.complain("a drain in which pods came ends by two lists", &what);
        }
        if !is_fresh {
            let what = format!("{node}: {} s after it", outage.map_or(0, |(_, back)| now - back) / SECOND);
            self.complain("after an outage no drain ends before schedulers know of the cordon", &what);
        }
    }

    /// True if agents cannot see the cluster, or could not a moment ago.
    fn is_blind(&self, now: u64) -> bool {
        let blind = self.blind.is_some_and(|(_, end)| end.is_none_or(|end| now - end < WATCHES_ARE_BACK));
        blind || self.disturbed_at + WATCHES_ARE_BACK > now && self.disturbed_at > 0
    }
}

/// The request counts for the limit of an agent.
fn counts(request: &Request) -> bool {
    let is_page = request.query.split('&').any(|pair| pair.starts_with("continue="));
    let is_free = match (request.verb.as_str(), request.resource.as_str()) {
        ("create", "pods/eviction") | ("delete", "pods") => true,
        // A drain reads each of them once.
        ("get", "persistentvolumeclaims" | "persistentvolumes" | "csidrivers" | "daemonsets") => true,
        _ => is_page,
    };
    request.user_agent.ends_with("zedkube") && !is_free
}

/// The request lists the pods of this node.
fn is_list_of(request: &Request, node: &str) -> bool {
    request.verb == "list" && request.resource == "pods" && request.query.contains(node)
}
