//! What can be seen at any time.

use fake_cluster::FakeCluster;
use schemas::Agent;
use serde_json::Value;

use super::{
    AGREES, CALM, COMPLETE, DRAINS, FAILED, FAILED_CORDON, FIRST_SECONDS, HEARD, Judge, Known, MOST_REQUESTS,
    NOT_REQUESTED, NOT_SUPPORTED, NOT_TAKEN, SIGN_OF_LIFE, WATCHES_ARE_BACK, left_on,
};
use crate::device::Device;
use crate::kernel;
use crate::world::{MINUTE, SECOND, is_unschedulable};

impl Judge {
    /// Judges what can be seen at any time.
    pub(crate) fn look(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        self.look_at_server(cluster);
        self.look_at_hangs(cluster);
        // A watch whose answer never begins shows nothing.
        if ["pods", "nodes"].iter().any(|resource| cluster.requests().in_flight("watch", resource) > 0) {
            self.disturbed_at = kernel::now();
            self.watches_catch_up();
        }
        self.look_at_answers(cluster, devices);
        self.judge_requests(cluster, devices);
        let is_calm = self.is_calm(cluster);
        for (index, device) in devices.iter().enumerate() {
            let node = cluster.get("nodes", "", &device.node).unwrap_or_default();
            self.judge_kept(index, is_unschedulable(&node));
            if self.is_away(index) {
                continue;
            }
            self.judge_report(cluster, index, device, is_calm);
            self.judge_conditions(cluster, index, device, is_calm);
            self.judge_agreement(index, device);
            self.judge_idle(index, device);
            self.judge_handed_over(index, device);
            self.judge_progress(index, device, is_calm);
            self.judge_known(index, device);
            self.judge_named(index, device);
            self.judge_recorded(index, device);
            self.judge_orders(index, device);
            self.judge_locks(index, device);
            self.judge_held(index, device);
            self.judge_action_of_boot(index, device);
            self.judge_signs(index, device);
            self.judge_drain(cluster, index, device);
        }
    }

    /// True if the API server has answered for a while as it should.
    pub(super) fn is_calm(&self, cluster: &FakeCluster) -> bool {
        let now = kernel::now();
        self.away_since.is_none()
            && cluster.faults().waiting() == 0
            && now.saturating_sub(self.disturbed_at) > CALM
            && self.back_at.is_none_or(|back| now - back > CALM)
    }

    /// "The API server is not asked more often than need be."
    fn judge_requests(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        let now = kernel::now();
        // The first seconds of a process do not count, from its first request on: before that it may wait for a slow disk.
        // The clock of the process stands still while the device is suspended.
        let begun = |(device, known): (&Device, &Known)| {
            known.suspended_until.max(now - device.runs_for(Agent::Zedkube))
        };
        let begun = devices.iter().zip(&self.devices).map(begun).max().unwrap_or_default();
        if self.first_asked.0 != begun {
            self.first_asked = (begun, None);
        }
        let first = self.first_asked.1.or_else(|| self.asked.iter().copied().find(|at| *at >= begun));
        self.first_asked.1 = first;
        let from = first.map_or(begun, |first| first + FIRST_SECONDS);
        while self.asked.front().is_some_and(|at| *at < from || at + MINUTE <= now) {
            self.asked.pop_front();
        }
        self.most_asked = self.most_asked.max(self.asked.len());
        if self.asked.len() > MOST_REQUESTS * devices.len() {
            let what = format!("{} requests within a minute", self.asked.len());
            self.asked.clear();
            self.complain("the API server is not asked more often than need be", &what);
        }
        if now - self.counted_at >= MINUTE {
            self.judge_failed_lists(cluster, (now - self.counted_at).div_ceil(MINUTE));
            self.counted_at = now;
        }
    }

    /// "The report never contradicts the world for longer than 2 s."
    pub(super) fn judge_report(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        is_calm: bool,
    ) {
        let now = kernel::now();
        let is_calm = is_calm
            && self.devices[index].overridden_at.is_none()
            // Past the point of no return nothing is taken back.
            && self.devices[index].tried.is_empty()
            && self.devices[index].acting.is_none()
            && device.runs_for(Agent::Zedkube) > AGREES
            // Whoever was suspended, or stood still, asks anew, and may ask in vain at first.
            && now > self.devices[index].stood_still_until() + WATCHES_ARE_BACK;
        let is_complete = is_calm && self.devices[index].status == Some(COMPLETE);
        let left = if is_complete { left_on(cluster, &device.node, 0) } else { Vec::new() };
        // A list that was overtaken is followed by another one.
        let agrees = AGREES + 2 * self.late_answers;
        let known = &mut self.devices[index];
        let is_drained =
            is_complete && known.report.get("Outcome").and_then(Value::as_str) == Some("Drained");
        let node = if is_drained { cluster.get("nodes", "", &device.node) } else { None };
        let is_uncordoned = node.is_some_and(|node| !is_unschedulable(&node));
        if left.is_empty() && !is_uncordoned {
            known.contradicted_since = None;
            return;
        }
        let since = *known.contradicted_since.get_or_insert(now);
        if now.saturating_sub(since) > agrees {
            known.contradicted_since = Some(u64::MAX / 2);
            let what = format!("{} says COMPLETE, has {left:?}, uncordoned: {is_uncordoned}", device.node);
            self.complain("the report never contradicts the world", &what);
        }
    }

    /// "The report and the status say the same": both are there, and an answer is in both.
    pub(super) fn judge_agreement(&mut self, index: usize, device: &Device) {
        let now = kernel::now();
        let known = &mut self.devices[index];
        let lines = known.report.get("Requests").and_then(Value::as_array);
        let answers = lines.into_iter().flatten().filter_map(|line| line.get("Answer")?.as_u64());
        let is_answered = answers.into_iter().any(|answer| answer == COMPLETE);
        // After a restart, or if zedkube stood still, a list has to confirm an answer before the report shows it again.
        let reason = known.report.get("Reason").and_then(Value::as_str).unwrap_or_default();
        let is_confirmed = !reason.contains("a fresh list has to confirm");
        // One may be answered, because it was forced, while another waits.
        let is_there = known.status.is_some() && known.report.is_object();
        let agrees = is_there
            && (is_answered
                || !is_confirmed
                || known.status != Some(COMPLETE)
                || lines.is_none_or(Vec::is_empty));
        // zedkube writes to `/persist` several times at its start, before it has published anything.
        let is_kept_from_starting = known.status.is_none() && known.trials.has_a_bad_disk();
        if known.has_eve
            || agrees
            || is_kept_from_starting
            || device.runs_for(Agent::Zedkube) < HEARD
            || known.disturbed_at + CALM > now
        {
            known.disagree_since = None;
            return;
        }
        let since = (*known.disagree_since.get_or_insert(now)).max(known.suspended_until);
        if now.saturating_sub(since) > HEARD {
            known.disagree_since = Some(u64::MAX / 2);
            let what = format!("{}: status {:?}, report {}", device.node, known.status, known.report);
            self.complain("the report and the status say the same", &what);
        }
    }

    /// "The status speaks of a drain only while somebody asks for one", or has just asked.
    pub(super) fn judge_idle(&mut self, index: usize, device: &Device) {
        let now = kernel::now();
        let known = &mut self.devices[index];
        let speaks = known.status.is_some_and(|status| status > NOT_REQUESTED);
        let is_right = !speaks || !known.requests.is_empty() || known.has_eve;
        if is_right || device.runs_for(Agent::Zedkube) < HEARD || known.disturbed_at + CALM > now {
            known.idles_since = None;
            return;
        }
        let since = *known.idles_since.get_or_insert(now);
        if now.saturating_sub(since) > 2 * HEARD {
            known.idles_since = Some(u64::MAX / 2);
            let what = format!("{}: status {:?}, report {}", device.node, known.status, known.report);
            self.complain("the status speaks of a drain only while somebody asks for one", &what);
        }
    }

    /// "A command that nobody takes is given up": `runtime::agent_state::NOT_TAKEN_LIMIT_MS`.
    pub(super) fn judge_handed_over(&mut self, index: usize, device: &Device) {
        let known = &mut self.devices[index];
        let Some(since) = &mut known.not_taken_since else { return };
        if known.trials.is_prepared(device.runs_for(Agent::Nodeagent) > 0) {
            *since = kernel::now();
        }
        let since = *since;
        let since = since.max(known.suspended_until);
        let waits = (kernel::now() - since).min(device.runs_for(Agent::DeviceOp));
        if waits > NOT_TAKEN && known.disturbed_at + CALM < kernel::now() {
            known.not_taken_since = None;
            let what = format!("{}: for {} s", device.node, waits / SECOND);
            self.complain("a command that nobody takes is given up", &what);
        }
    }

    /// "A drain with nothing in its way ends."
    pub(super) fn judge_progress(&mut self, index: usize, device: &Device, is_calm: bool) {
        let now = kernel::now();
        let is_alone = self.devices.iter().enumerate().all(|(other, known)| {
            other == index || (known.requests.is_empty() && !known.is_down && known.suspended_until < now)
        });
        let known = &mut self.devices[index];
        let is_open = !known.requests.is_empty()
            && !matches!(known.status, Some(COMPLETE | FAILED | FAILED_CORDON | NOT_SUPPORTED));
        let is_free = is_calm
            && is_alone
            && !self.server.has_blind_scheduler
            && known.disturbed_at + CALM < now
            && Agent::ALL.iter().all(|agent| device.runs_for(*agent) > CALM);
        if !is_open || !is_free {
            known.drains_since = None;
            return;
        }
        let since = *known.drains_since.get_or_insert(now);
        let since = since.max(known.suspended_until);
        if now.saturating_sub(since) > DRAINS {
            known.drains_since = Some(u64::MAX / 2);
            let what = format!("{}: status {:?}, report {}", device.node, known.status, known.report);
            self.complain("a drain with nothing in its way ends", &what);
        }
    }

    /// "No watchdog is starved."
    pub(super) fn judge_signs(&mut self, index: usize, device: &Device) {
        let now = kernel::now();
        for (agent, touched) in device.touched() {
            let runs_for = device.runs_for(agent);
            let suspended_until = self.devices[index].suspended_until.max(self.devices[index].disturbed_at);
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
}
