//! What has to be in the end.

use fake_cluster::FakeCluster;
use pubsub::{Persistence, TopicKey};
use runtime::{drain_history, read_or_none};
use schemas::{
    CommandLine, CommandState, DeviceOpStatus, DrainEvent, DrainTotals, Operation, Source, agent, parse,
};
use serde_json::Value;

use super::{GHOST, Judge};
use crate::device::{Device, image_id};
use crate::world::is_unschedulable;

const DEVICE_OP_STATUS: &str = "/run/zedagent/DeviceOpStatus/global.json";

impl Judge {
    /// What is not at rest yet.
    pub(crate) fn missing(&self, cluster: &FakeCluster, devices: &[Device]) -> Vec<String> {
        let mut missing = Vec::new();
        for (index, (device, known)) in devices.iter().zip(&self.devices).enumerate() {
            // EVE's zedkube publishes an operator's order as it is, and answers nobody else then.
            let is_confused = known.has_eve && known.overridden_at.is_some();
            let is_stuck = known.has_no_means || is_worn_out(device);
            if known.is_wanted_here && !is_stuck && !is_confused {
                missing.push(format!("the reboot of an operator on {} is not done", device.node));
            }
            if Self::is_asked_by_the_host(device) && !is_stuck && !is_confused && !known.has_eve {
                missing.push(format!("the reboot that the host of {} asks for is not done", device.node));
            }
            for (operation, counter) in &known.wanted {
                if !is_stuck && !is_confused && !is_settled(device, *operation, *counter) {
                    missing.push(format!("{operation} {counter} of {} is not done", device.node));
                }
            }
            let answer = self.missing_answer(index, cluster, device);
            missing.extend(answer.filter(|_| !is_stuck && !known.has_eve));
            missing.extend(Self::left_conditions(cluster, device).filter(|_| !is_stuck && !known.has_eve));
            missing.extend(open_history(device).filter(|_| !is_stuck && !known.has_eve));
            let runs = device.version();
            // It answers the first who asks, and nobody else. One who takes its command back leaves the other waiting.
            let is_left_waiting = known.has_eve && !known.taken_back.is_empty();
            if !is_stuck
                && !is_confused
                && !is_left_waiting
                && !known.wanted_image.is_empty()
                && known.wanted_image != runs
                && !has_image_error(device, &known.wanted_image)
            {
                missing.push(format!("image {} of {} does not run", known.wanted_image, device.node));
            }
            if known.is_down {
                missing.push(format!("{} is down", device.node));
            }
            let node = cluster.get("nodes", "", &device.node).unwrap_or_default();
            // EVE's zedkube lifts any cordon at its start, and none at another time.
            match (is_unschedulable(&node), known.is_cordoned) {
                _ if known.has_eve => {}
                (true, false) => missing.push(format!("{} is cordoned", device.node)),
                (false, true) => missing.push(format!("the cordon of a person on {} is gone", device.node)),
                _ => {}
            }
        }
        let slots = cluster.get("configmaps", "kube-system", "ebb-slots-default").unwrap_or_default();
        let taken = slots.get("data").and_then(Value::as_object);
        for (node, entry) in taken.into_iter().flatten().filter(|(node, _)| *node != GHOST) {
            missing.push(format!("{node} has a slot: {entry}"));
        }
        missing
    }

    pub(crate) fn at_rest(&mut self, cluster: &FakeCluster, devices: &[Device]) {
        for missing in self.missing(cluster, devices) {
            self.complain("everything is done and given back in the end", &missing);
        }
    }
}

/// What is wrong with the last drain that zedkube has written down: it has no end there, or its outcome is not counted.
fn open_history(device: &Device) -> Option<String> {
    let folder = drain_history::folder(&device.root);
    let file = drain_history::list(&folder).unwrap_or_default().pop()?;
    let lines = drain_history::read(&folder, &file).unwrap_or_default();
    let last = lines.last().map(|line| &line.event);
    let has_end = matches!(last, Some(DrainEvent::Ended { .. }));
    if !has_end {
        return Some(format!("the history of drain {} of {} ends with {last:?}", file.number, device.node));
    }
    let outcome = lines.iter().rev().find_map(|line| {
        let DrainEvent::Phase { outcome, .. } = &line.event else { return None };
        *outcome
    })?;
    let totals = read_or_none(&device.root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global());
    let DrainTotals { last_drain_id, last_outcome, .. } = totals.unwrap_or_default();
    let is_counted = last_drain_id == file.drain_id && last_outcome == Some(outcome);
    (!is_counted)
        .then(|| format!("outcome {outcome:?} of drain {} of {} is not counted", file.number, device.node))
}

/// True if device-op says that nodeagent has begun a command so often in this boot that it does not try again.
fn is_worn_out(device: &Device) -> bool {
    device
        .text(DEVICE_OP_STATUS)
        .is_some_and(|text| text.contains("times in this boot and the device is still up"))
}

/// True if device-op says that it does not carry this command of the controller out, and why: it is the first of its
/// kind that a device sees, for example because the disk took no record until then, or it has failed for good.
fn is_settled(device: &Device, operation: Operation, counter: u32) -> bool {
    let text = device.text(DEVICE_OP_STATUS).unwrap_or_default();
    let status: Option<DeviceOpStatus> = parse(text.as_bytes()).ok();
    let is_it = |line: &CommandLine| {
        (line.source, line.operation, line.counter) == (Source::Controller, operation, counter)
            && match line.state {
                CommandState::Recorded | CommandState::Failed => !line.reason.is_empty(),
                // A reboot is done by a boot only.
                CommandState::Done => operation != Operation::Reboot,
                CommandState::Waiting | CommandState::HandedOver | CommandState::TakenBack => false,
            }
    };
    status.is_some_and(|status| status.commands.iter().any(is_it))
}

/// True if baseos says why an image does not run.
fn has_image_error(device: &Device, version: &str) -> bool {
    let path = format!("/run/baseosmgr/BaseOsStatus/{}.json", image_id(version));
    let status: Value = serde_json::from_str(&device.text(&path).unwrap_or_default()).unwrap_or_default();
    status.get("Error").and_then(Value::as_str).is_some_and(|error| !error.is_empty())
}
