//! Commands that wait for a time: for the maintenance window, or for the time for which a person has given them.

use std::collections::BTreeMap;

use schemas::Source;
use serde_json::Value;

use super::{Judge, Known};
use crate::device::Device;
use crate::kernel;
use crate::world::SECOND;

/// What an agent has decided is in its file after this time.
const MOMENT: u64 = 5 * SECOND;

/// What a device may begin when.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The last request of each publisher, by the path of its file.
    requests: BTreeMap<String, String>,
    /// The phase of its drain.
    phase: String,
    /// When its wall clock was set last.
    set_at: Option<u64>,
}

impl Judge {
    /// The wall clock of the device was set.
    pub(crate) fn clock_is_set(&mut self, index: usize) {
        self.devices[index].times.set_at = Some(kernel::now());
    }

    /// "A drain begins in the window", also its next attempt, and "a drain begins at the time of its command": a request or
    /// a report was written.
    pub(super) fn judge_time(&mut self, index: usize, device: &Device, path: &str, content: &[u8]) {
        let known = &mut self.devices[index];
        let Some(causes) = known.begun(device, path, content) else { return };
        let now = kernel::now();
        // Whoever stands still, or has a slow disk, writes later.
        let is_late = known.times.set_at.is_some_and(|at| now - at < MOMENT)
            || now < known.stood_still_until() + MOMENT
            || known.trials.has_a_bad_disk();
        if is_late || causes.is_empty() {
            return;
        }
        let wall = kernel::wall_clock(device.machine);
        let is_open = self.limits.window.is_none_or(|window| window.is_open(wall, MOMENT));
        let what = format!("{path} for {causes:?}, at {} s", wall / SECOND);
        if !is_open && causes.iter().all(|cause| cause.waits) {
            self.complain("a drain begins in the window", &what);
        }
        let is_early = |cause: &Cause| {
            jiff::Timestamp::from_nanosecond(i128::from(wall + MOMENT))
                .is_ok_and(|wall| wall < cause.not_before)
        };
        if causes.iter().all(is_early) {
            self.complain("a drain begins at the time of its command", &what);
        }
    }
}

impl Known {
    /// What a drain, or its next attempt, is for, if one begins when this content is written into this file; else None.
    fn begun(&mut self, device: &Device, path: &str, content: &[u8]) -> Option<Vec<Cause>> {
        let value: Value = serde_json::from_slice(content).unwrap_or_default();
        if path.ends_with("/NodeDrainReport/global.json") {
            let phase = value.get("Phase").and_then(Value::as_str).unwrap_or_default().to_owned();
            let before = std::mem::replace(&mut self.times.phase, phase);
            let begins = before == "Pausing" && self.times.phase == "Attempting";
            return begins.then(|| self.requests.iter().map(|path| cause_of(device, path)).collect())?;
        }
        let cause = cause_of(device, path)?;
        let requested_at = value.get("RequestedAt").map(Value::to_string).unwrap_or_default();
        let before = self.times.requests.insert(path.to_owned(), requested_at.clone());
        (before != Some(requested_at)).then(|| vec![cause])
    }
}

/// What a request is for.
#[derive(Debug)]
struct Cause {
    /// It waits for the window.
    waits: bool,
    /// The time for which it was given.
    not_before: jiff::Timestamp,
}

/// What the request at this path is for, as the record of its agent says; None if it is for no command.
fn cause_of(device: &Device, path: &str) -> Option<Cause> {
    let read = |path: &str| -> Option<Value> { serde_json::from_str(&device.text(path)?).ok() };
    let waits =
        |source: &Value| matches!(serde_json::from_value(source.clone()), Ok(Source::Host | Source::Cluster));
    if path.ends_with("/run/baseosmgr/NodeDrainRequest/global.json") {
        let record = read("/persist/status/baseosmgr/ActivationRecord/global.json")?;
        let waits = waits(record.pointer("/Current/Source")?);
        return Some(Cause { waits, not_before: jiff::Timestamp::UNIX_EPOCH });
    }
    if !path.ends_with("/run/zedagent/NodeDrainRequest/global.json") {
        return None;
    }
    let record = read("/persist/status/zedagent/OperationRecord/global.json")?;
    let (source, operation) = (record.pointer("/Attempt/0")?, record.pointer("/Attempt/1")?);
    let is_it = |command: &&Value| {
        command.get("Source") == Some(source) && command.get("Operation") == Some(operation)
    };
    let command = record.get("Waiting")?.as_array()?.iter().find(is_it)?;
    let is_urgent = command.get("Now") == Some(&Value::Bool(true));
    let not_before = command.get("NotBefore").and_then(Value::as_str)?.parse().ok()?;
    let not_before = if is_urgent { jiff::Timestamp::UNIX_EPOCH } else { not_before };
    Some(Cause { waits: waits(source) && !is_urgent, not_before })
}
