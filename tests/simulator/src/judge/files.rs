//! What is judged when a file was written, and files that somebody has removed.

use std::collections::BTreeMap;

use schemas::Agent;

use super::Judge;
use crate::device::Device;
use crate::kernel;
use crate::world::SECOND;

/// An agent looks for its lock file at each beat, and a beat takes so long at most.
const LOCK_IS_BACK: u64 = 50 * SECOND;

/// When lock files were removed, by the agents' names.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<&'static str, u64>);

impl Judge {
    /// Judges the content of a file that was put in place, or that it was removed.
    pub(super) fn judge_written(
        &mut self,
        index: usize,
        device: &Device,
        path: &str,
        content: Option<&[u8]>,
    ) {
        if path.contains("/NodeDrainRequest/") {
            self.devices[index].note_request(path, content);
        }
        let Some(content) = content else { return };
        self.judge_commands(index, device, path, content);
        self.judge_time(index, device, path, content);
        let known = &mut self.devices[index];
        if path.contains("/kube-status/") {
            let is_taken = path.ends_with(".applied");
            if is_taken || path.ends_with(".refused") {
                known.note_read_order(is_taken, content);
            } else if path.ends_with("-global.json") {
                known.note_written_order(content);
            }
        } else if path.ends_with("/NodeDrainReport/global.json")
            && let Some(what) = known.note_forced().filter(|_| !known.has_eve)
        {
            self.complain("an override counts once", &format!("device {index}: {what}"));
        }
    }

    /// Somebody has removed the lock file of an agent.
    pub(crate) fn lock_is_removed(&mut self, device: usize, agent: Agent) {
        self.devices[device].locks.0.insert(agent.name(), kernel::now());
    }

    /// "An agent that runs is seen to run": its lock file is there again.
    pub(super) fn judge_locks(&mut self, index: usize, device: &Device) {
        let known = &mut self.devices[index];
        let from = known.disturbed_at.max(known.suspended_until);
        let due: Vec<Agent> = Agent::ALL
            .into_iter()
            .filter(|agent| {
                let removed = known.locks.0.get(agent.name());
                removed.is_some_and(|at| {
                    let since = (*at).max(from);
                    kernel::now() > since + LOCK_IS_BACK && device.runs_for(*agent) > LOCK_IS_BACK
                })
            })
            .collect();
        for agent in due {
            self.devices[index].locks.0.remove(agent.name());
            if !device.has_lock_file(agent) {
                let what = format!("{} {} has no lock file", device.node, agent.name());
                self.complain("an agent that runs is seen to run", &what);
            }
        }
    }
}
