//! Shutdowns that go round ebb: `ebb-hold.service` keeps them back until the node is drained.

use fake_cluster::FakeCluster;
use schemas::Agent;

use super::{HEARD, Judge};
use crate::device::Device;
use crate::kernel;
use crate::world::SECOND;

/// `ebb hold` does not wait longer for a zedkube that does not run.
const WITHOUT_ZEDKUBE: u64 = 10 * SECOND;

impl Judge {
    /// A shutdown stops `ebb-hold.service`, or there is none any more.
    pub(crate) fn holds(&mut self, index: usize, is_held: bool) {
        self.devices[index].held_since = is_held.then(kernel::now);
    }

    /// "A shutdown is kept back for hold.timeout at most."
    pub(super) fn judge_held(&mut self, index: usize, device: &Device) {
        let limit = self.limits.hold.unwrap_or_default();
        let known = &mut self.devices[index];
        let Some(since) = known.held_since else { return };
        let held = kernel::now() - since.max(known.suspended_until);
        if held > limit + HEARD && !known.trials.has_a_bad_disk() {
            known.held_since = None;
            let what = format!("{}: for {} s", device.node, held / SECOND);
            self.complain("a shutdown is kept back for hold.timeout at most", &what);
        }
    }

    /// `ebb hold` lets a shutdown go on, and has left this reason to the next boot.
    pub(crate) fn lets_go(&mut self, cluster: &FakeCluster, index: usize, device: &Device, reason: &str) {
        let (now, limit) = (kernel::now(), self.limits.hold.unwrap_or_default());
        let known = &mut self.devices[index];
        let Some(since) = known.held_since.take() else { return };
        // Without a disk there is no reason, or an old one; and nodeagent leaves its own.
        if known.trials.has_a_bad_disk() || !reason.contains(".target: ") {
            return;
        }
        let why = match () {
            () if reason.contains("NOT DRAINED: hold.timeout") => {
                (now - since < limit).then(|| format!("after {} s", (now - since) / SECOND))
            }
            () if reason.contains("NOT DRAINED: zedkube does not run") => {
                (device.runs_for(Agent::Zedkube) > WITHOUT_ZEDKUBE).then(|| "it runs".to_owned())
            }
            () if reason.contains("NOT DRAINED") => {
                self.judge_undrained(cluster, index, device, now);
                None
            }
            () => {
                self.judge_drained(cluster, device, now);
                None
            }
        };
        self.judge_down(cluster, index, device, reason);
        if let Some(why) = why {
            let what = format!("{}: {reason}: {why}", device.node);
            self.complain("a shutdown goes on undrained only when that is justified", &what);
        }
    }
}
