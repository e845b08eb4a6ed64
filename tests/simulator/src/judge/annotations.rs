//! Commands that the cluster gives by the annotation of a Node.

use std::collections::BTreeMap;

use cluster::node_commands::{CommandAnswer, NodeCommand, STATE};
use fake_cluster::FakeCluster;
use schemas::Agent;

use super::{CALM, HEARD, Judge, Known};
use crate::device::{Device, image_id};
use crate::kernel;
use crate::world::SECOND;

/// No agent runs before this time.
const FIRST_START: u64 = 10 * SECOND;

/// The texts that `ebb.dev/reboot` of a Node has had, each by the counter of its command.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Commands of the cluster count on the device.
    pub(super) are_on: bool,
    all: BTreeMap<u32, Text>,
    present: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Text {
    /// It stood before an agent ever ran, so it may be an old one.
    is_old: bool,
    /// When it was removed, or another one came.
    gone_at: Option<u64>,
}

impl Known {
    /// Commands of the cluster count on this device.
    pub(super) const fn obeys_the_cluster(&self) -> bool {
        self.texts.are_on
    }
}

impl Judge {
    /// Commands of the cluster count on this device.
    pub(crate) fn obeys_the_cluster(&mut self, device: usize) {
        self.devices[device].texts.are_on = true;
    }

    /// The text of `ebb.dev/reboot` has become the one with this counter, or is gone.
    pub(crate) fn annotated(&mut self, index: usize, counter: Option<u32>) {
        let known = &mut self.devices[index];
        known.trials.commanded(None);
        let texts = &mut known.texts;
        if let Some(gone) = texts.present.and_then(|present| texts.all.get_mut(&present)) {
            gone.gone_at = Some(kernel::now());
        }
        texts.present = counter;
        if let Some(counter) = counter {
            texts.all.insert(counter, Text { is_old: kernel::now() < FIRST_START, gone_at: None });
        }
    }

    /// A drain or an update is commanded, or taken back.
    pub(crate) fn another_annotated(&mut self, index: usize) {
        self.devices[index].trials.commanded(None);
    }

    /// Judges a reboot that the cluster has commanded.
    pub(super) fn judge_text(&mut self, index: usize, device: &Device, counter: u32, decided_at: u64) {
        let known = &self.devices[index];
        let text = known.texts.all.get(&counter);
        let is_old = text.is_some_and(|text| text.is_old) || !known.texts.are_on;
        let gone_at = text.and_then(|text| text.gone_at).unwrap_or(decided_at);
        let ran = device.runs_for(Agent::DeviceOp).min(device.runs_for(Agent::Zedkube));
        // Whoever could not see the Node, or could not write, sees some time after that that its text is gone.
        let blind = self.disturbed_at.max(self.back_at.unwrap_or_default()).max(known.stood_still_until());
        let seen_at = gone_at.max(blind + CALM).max(kernel::now() - ran);
        let late = decided_at.saturating_sub(seen_at);
        let is_blind = self.away_since.is_some() || known.trials.has_a_bad_disk();
        let node = &device.node;
        let wrong = match text {
            None => ("a reboot of the cluster stands on the Node", format!("{node} {counter}")),
            Some(_) if is_old => {
                ("a text that may be old is only recorded", format!("{node} carries {counter} out"))
            }
            Some(_) if late > HEARD && !is_blind => (
                "a command that was taken back is not carried out",
                format!("{node} does {counter} of the cluster, {} s later", late / SECOND),
            ),
            Some(_) => return,
        };
        self.complain(wrong.0, &wrong.1);
    }

    /// What the Node does not say yet of the command that stands on it, or what is left of one that is gone.
    pub(super) fn missing_answer(
        &self,
        index: usize,
        cluster: &FakeCluster,
        device: &Device,
    ) -> Option<String> {
        let node = cluster.get("nodes", "", &device.node).unwrap_or_default();
        let annotations = node.get("metadata")?.get("annotations");
        let text = annotations.and_then(|annotations| annotations.get(STATE)?.as_str());
        let answer: Option<CommandAnswer> = text.and_then(|text| serde_json::from_str(text).ok());
        let Some(counter) = self.devices[index].texts.present else {
            let file = device.text("/run/zedkube/DeviceOpsCmd/reboot.json").unwrap_or_default();
            let is_left = text.is_some()
                || file.contains(r#""DesiredState":true"#)
                || device.text("/run/zedkube/NodeDrainRequest/global.json").is_some()
                || device.text(&format!("/run/zedkube/BaseOsConfig/{}.json", image_id("2"))).is_some();
            return is_left
                .then(|| format!("no reboot stands on {}, and there is {text:?} {file}", device.node));
        };
        let is_final = |answer: &CommandAnswer| {
            (answer.command, answer.counter) == (NodeCommand::Reboot, counter) && answer.state.is_final()
        };
        let is_missing = !answer.as_ref().is_some_and(is_final);
        is_missing.then(|| format!("the answer to {counter} on {} is {text:?}", device.node))
    }
}
