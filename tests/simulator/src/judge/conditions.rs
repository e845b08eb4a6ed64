//! What a Node says of its drain by its conditions.

use cluster::node_conditions::{DRAIN_IN_PROGRESS, DRAINED};
use fake_cluster::FakeCluster;
use schemas::Agent;
use serde_json::Value;

use super::{CALM, HEARD, Judge, WATCHES_ARE_BACK, text};
use crate::device::Device;
use crate::kernel;
use crate::world::SECOND;

impl Judge {
    /// "No condition contradicts the report for longer than 10 s while the API server answers." That the report does not
    /// contradict the world has an invariant of its own.
    pub(super) fn judge_conditions(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        is_calm: bool,
    ) {
        let now = kernel::now();
        let late_answers = self.late_answers;
        let known = &mut self.devices[index];
        let is_member = known.report.get("Member").and_then(Value::as_str) == Some("yes");
        let expected = expected(&known.report);
        let shown = shown(&cluster.get("nodes", "", &device.node).unwrap_or_default());
        let is_right = shown == expected;
        let is_judged = is_calm
            && is_member
            && !known.has_eve
            && now > known.was_elsewhere_at + CALM
            && text(&known.report, "/ApiAwaySince").starts_with("0001")
            // zedkube has sent its most of a minute.
            && !text(&known.report, "/Reason").contains("so the next ones wait")
            && device.runs_for(Agent::Zedkube) > WATCHES_ARE_BACK
            && now > known.stood_still_until() + WATCHES_ARE_BACK;
        if is_right || !is_judged {
            known.misleads_since = None;
            return;
        }
        let since = *known.misleads_since.get_or_insert(now);
        if now.saturating_sub(since) > HEARD + 2 * late_answers {
            known.misleads_since = Some(u64::MAX / 2);
            let (node, report) = (&device.node, &known.report);
            let what = format!("{node} shows {shown:?} for {} s, report {report}", (now - since) / SECOND);
            self.complain("no condition contradicts the report while the API server answers", &what);
        }
    }

    /// What zedkube has said on the Node, and nobody takes back.
    pub(super) fn left_conditions(cluster: &FakeCluster, device: &Device) -> Option<String> {
        let shown = shown(&cluster.get("nodes", "", &device.node).unwrap_or_default());
        shown.is_some().then(|| format!("{} still shows {shown:?}", device.node))
    }
}

/// Whether `DrainInProgress` and `Drained` are to be true, by the report; `None` if there is nothing to say.
fn expected(report: &Value) -> Option<(bool, bool)> {
    let drained = text(report, "/Outcome") == "Drained";
    match text(report, "/Phase") {
        "" | "Idle" => None,
        "Cordoning" | "Attempting" | "Pausing" => Some((true, false)),
        "Complete" => Some((false, drained)),
        _ => Some((false, false)),
    }
}

/// Whether `DrainInProgress` and `Drained` are true on the Node, by the word of zedkube.
fn shown(node: &Value) -> Option<(bool, bool)> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let find = |kind: &str| {
        let ours = |condition: &&Value| {
            text(condition, "/type") == kind && text(condition, "/message").starts_with("zedkube: ")
        };
        Some(text(conditions?.iter().find(ours)?, "/status") == "True")
    };
    Some((find(DRAIN_IN_PROGRESS)?, find(DRAINED)?))
}
