//! What has to be on disk before what follows from it: judged at each write, by the files as they were at that moment.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{Agent, Operation, Source};
use serde_json::Value;

use crate::device::Device;
use crate::judge::COMPLETE;
use crate::world::SECOND;

const OPERATIONS: &str = "/persist/status/zedagent/OperationRecord/global.json";
const WITHOUT: &str = "/run/zedagent/OperationRecord/global.json";
pub(crate) const COMMAND: &str = "/run/zedagent/ZedAgentStatus/zedagent.json";
const STATUS: &str = "/run/zedkube/NodeDrainStatus/global.json";
const REPORT: &str = "/run/zedkube/NodeDrainReport/global.json";
const DRAIN: &str = "/run/zedkube/DrainRecord/global.json";
const ACTION: &str = "/persist/status/nodeagent/ActionRecord/global.json";

/// An invariant that is broken, and how.
pub(crate) type Broken = Option<(&'static str, String)>;

/// The files of a device as they were written last in this boot, by their paths; null if they were removed.
#[derive(Debug, Default)]
pub(crate) struct Order {
    files: BTreeMap<String, Value>,
    /// The requests whose answer zedkube's report has shown since its phase became Complete.
    shown: BTreeSet<String>,
}

impl Order {
    /// A boot begins. What is on disk is read again: a power cut may have undone it.
    pub(crate) fn begins_boot(&mut self) {
        *self = Self::default();
    }

    fn last(&self, device: &Device, path: &str) -> Value {
        let on_disk = || serde_json::from_str(&device.text(path).unwrap_or_default()).unwrap_or_default();
        self.files.get(path).cloned().unwrap_or_else(on_disk)
    }

    /// True if this request is in the record of zedkube's drain.
    pub(crate) fn is_on_record(&self, requested_at: &str) -> bool {
        let names = |value: &Value| value.get("RequestedAt").and_then(Value::as_str) == Some(requested_at);
        self.files.get(DRAIN).is_some_and(|record| has_object(record, &names))
    }

    /// Judges a write of this device, which an agent of ours has made.
    pub(crate) fn written(&mut self, device: &Device, path: &str, content: Option<&[u8]>) -> Broken {
        let root = device.root.path().to_string_lossy();
        let path = path.strip_prefix(&*root)?;
        let value: Value = content.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
        let broken = match path {
            COMMAND => self.judge_command(device, &value),
            STATUS => {
                self.note_status(device, &value);
                None
            }
            REPORT => {
                let broken = self.judge_answers(device, &value);
                self.note_answers(&value);
                broken
            }
            _ => counter_of(path).and_then(|kind| self.judge_counter(device, kind, path, &value)),
        };
        self.files.insert(path.to_owned(), value);
        broken
    }

    /// "A command is on record before its counter is": the counter makes it count as done.
    fn judge_counter(
        &self,
        device: &Device,
        (source, operation): (Source, Operation),
        path: &str,
        command: &Value,
    ) -> Broken {
        let record = self.last(device, OPERATIONS);
        let counter = command.get("Counter")?;
        let is_old = record.get("HasSources") != Some(&Value::Bool(true));
        // The first command of its kind that a device sees may have been done already.
        let is_first = self.last(device, path).is_null();
        let is_taken_back = command.get("DesiredState") == Some(&Value::Bool(false));
        let is_cancelled =
            !self.last(device, &format!("/run/ebb/CancelCommand/{source}-{operation}.json")).is_null();
        let names = |accepted: &Value| {
            accepted.get("Counter") == Some(counter)
                && accepted.get("Operation").and_then(Value::as_str) == Some(operation.name())
        };
        if is_old || is_first || is_taken_back || is_cancelled || has_object(&record, &names) {
            return None;
        }
        let what = format!("{}: {operation} {counter} of {source}, record {record}", device.node);
        Some(("a command is on record before its counter is", what))
    }

    /// "A command is handed over on record only."
    fn judge_command(&self, device: &Device, status: &Value) -> Broken {
        let wanted = handed_over(status)?;
        let record = self.last(device, OPERATIONS);
        let handed_over = record.pointer("/HandedOver/Operation").and_then(Value::as_str);
        if handed_over == Some(wanted.name()) || self.is_without_record(device, wanted) {
            return None;
        }
        Some((
            "a command is handed over on record only",
            format!("{}: {wanted}, record {record}", device.node),
        ))
    }

    /// True if an operator's command without a record is handed over: its record is in `/run` alone.
    pub(crate) fn is_without_record(&self, device: &Device, operation: Operation) -> bool {
        let record = self.last(device, WITHOUT);
        let is_set = |field: &str| record.pointer(field) == Some(&Value::Bool(true));
        record.get("BootId").and_then(Value::as_str) == Some(&device.boot_id())
            && record.pointer("/HandedOver/Operation").and_then(Value::as_str) == Some(operation.name())
            && is_set("/HandedOver/WithoutRecord")
    }

    /// True if the record is in `/run` alone, because an operator's command without a record is handed over or waits. What is
    /// done meanwhile is not known in the next boot.
    pub(crate) fn is_off_record(&self, device: &Device) -> bool {
        let record = self.last(device, WITHOUT);
        record.get("BootId").and_then(Value::as_str) == Some(&device.boot_id())
    }

    /// While nodeagent acts for one requester, the report does not show what another one was answered before.
    fn note_status(&mut self, device: &Device, status: &Value) {
        if status.get("Status").and_then(Value::as_u64) == Some(COMPLETE) {
            let record = self.last(device, DRAIN);
            let requests = record.pointer("/Record/Requests").and_then(Value::as_array);
            let is_answered = |request: &&Value| request.get("Answer").is_some_and(|answer| !is_open(answer));
            self.shown.extend(requests.into_iter().flatten().filter(is_answered).map(requested_at));
        }
    }

    fn note_answers(&mut self, report: &Value) {
        if report.get("Phase").and_then(Value::as_str) != Some("Complete") {
            self.shown.clear();
        }
        let lines =
            report.get("Requests").and_then(Value::as_array).into_iter().flatten().filter(is_answered);
        self.shown.extend(lines.map(requested_at));
    }

    /// "An answer is on record, and in the status, before it is in the report." An operator's order needs no record.
    fn judge_answers(&self, device: &Device, report: &Value) -> Broken {
        let before = self.last(device, REPORT);
        let was_answered = |line: &Value| {
            let same = |old: &Value| old.get("RequestedAt") == line.get("RequestedAt") && is_answered(&old);
            has_object(&before, &same)
        };
        let lines = report.get("Requests").and_then(Value::as_array)?;
        let line = lines.iter().filter(is_answered).find(|line| !was_answered(line))?;
        let status = self.last(device, STATUS);
        // A zedkube that was started again repeats what it has answered, also if it has to confirm it for others; and what it
        // has confirmed it shows again.
        let repeats = device.runs_for(Agent::Zedkube) < SECOND || self.shown.contains(&requested_at(line));
        if status.get("Status").and_then(Value::as_u64) != Some(COMPLETE) && !repeats {
            let what = format!("{}: status {status}, report {report}", device.node);
            return Some(("an answer is in the status before it is in the report", what));
        }
        let is_ordered = matches!(line.get("Outcome").and_then(Value::as_str), Some("Forced" | "Disabled"));
        let record = self.last(device, DRAIN);
        let on_record = |request: &Value| {
            request.get("RequestedAt") == line.get("RequestedAt")
                && request.get("Answer").is_some_and(|answer| !is_open(answer))
        };
        if is_ordered || has_object(&record, &on_record) {
            return None;
        }
        let what = format!("{}: report {report}, record {record}", device.node);
        Some(("an answer is on record before it is in the report", what))
    }

    /// "What nodeagent begins is on record": it has started the program that takes the device down.
    pub(crate) fn judge_action(&self, device: &Device, operation: Operation, counter: u32) -> Broken {
        let record = self.last(device, ACTION);
        let is_it = record.get("BootId").and_then(Value::as_str) == Some(&device.boot_id())
            && record.get("Counter").and_then(Value::as_u64) == Some(u64::from(counter))
            && record.get("Command").and_then(Value::as_str) == Some(operation.name());
        if is_it || self.is_without_record(device, operation) {
            return None;
        }
        Some((
            "what nodeagent begins is on record",
            format!("{}: {operation} {counter}, record {record}", device.node),
        ))
    }
}

/// The operation that device-op has handed over to nodeagent, by its `ZedAgentStatus`.
pub(crate) fn handed_over(status: &Value) -> Option<Operation> {
    let is_set = |field: &str| status.get(field) == Some(&Value::Bool(true));
    match () {
        () if is_set("RebootCmd") => Some(Operation::Reboot),
        () if is_set("ShutdownCmd") => Some(Operation::Shutdown),
        () if is_set("PoweroffCmd") => Some(Operation::Poweroff),
        () => None,
    }
}

/// An answer of the record that is not given yet.
fn is_open(answer: &Value) -> bool {
    answer.as_str() == Some("None") || answer.is_null()
}

/// Source and operation of a counter file.
fn counter_of(path: &str) -> Option<(Source, Operation)> {
    let (folder, file) = path.rsplit_once('/')?;
    let source = Source::ALL.into_iter().find(|source| source.counter_folder() == folder)?;
    let operation = Operation::ALL.into_iter().find(|operation| operation.counter_file() == file)?;
    Some((source, operation))
}

/// True if an object in this value fits.
fn has_object(value: &Value, fits: &impl Fn(&Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => fits(value) || fields.values().any(|field| has_object(field, fits)),
        Value::Array(items) => items.iter().any(|item| has_object(item, fits)),
        _ => false,
    }
}

fn is_answered(line: &&Value) -> bool {
    line.get("Answer").and_then(Value::as_u64) == Some(COMPLETE)
}

fn requested_at(line: &Value) -> String {
    line.get("RequestedAt").and_then(Value::as_str).unwrap_or_default().to_owned()
}
