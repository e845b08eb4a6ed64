//! What zedkube says of the requests that are there.

use schemas::Agent;
use serde_json::Value;

use super::{CALM, COMPLETE, HEARD, Judge, Known};
use crate::device::Device;
use crate::kernel;

/// The folders of requests, and the numbers of their requesters.
const FOLDERS: [(&str, u64); 6] = [
    ("/ebb/", PERSON),
    ("/zedagent/", 2),
    ("/baseosmgr/", 3),
    ("/zedkube/", PERSON),
    ("/ebb-hold/", PERSON),
    ("/nodeagent/", PERSON),
];

const PERSON: u64 = 1;

/// Since when zedkube says something else than the files do.
#[derive(Debug, Default)]
pub(super) struct AskedFor {
    unknown: Option<u64>,
    unrecorded: Option<u64>,
    misnamed: Option<u64>,
}

impl Known {
    /// The numbers of those who ask.
    fn requesters(&self) -> impl Iterator<Item = u64> {
        let number = |path: &String| {
            FOLDERS.iter().find(|(folder, _)| path.contains(folder)).map(|(_, number)| *number)
        };
        self.requests.iter().filter_map(number)
    }

    /// The lines of its report for this requester.
    fn lines_of(&self, number: u64) -> impl Iterator<Item = &Value> {
        let lines = self.report.get("Requests").and_then(Value::as_array);
        let is_of = move |line: &&Value| line.get("RequestedBy").and_then(Value::as_u64) == Some(number);
        lines.into_iter().flatten().filter(is_of)
    }

    fn lists(&self, number: u64) -> bool {
        self.lines_of(number).next().is_some()
    }

    /// The drain has answered this requester, and not an operator.
    fn is_answered(&self, number: u64) -> bool {
        self.lines_of(number).any(|line| {
            line.get("Answer").and_then(Value::as_u64) == Some(COMPLETE)
                && line.get("Outcome").and_then(Value::as_str) == Some("Drained")
        })
    }

    /// A person asks for a drain.
    pub(super) fn is_held_by_a_person(&self) -> bool {
        self.requesters().any(|number| number == PERSON)
    }

    /// A boot begins with what is in `/run`. A file that is not whole asks for nothing then.
    pub(super) fn forget_half_a_request(&mut self) {
        if std::mem::take(&mut self.is_half_written) {
            self.requests.retain(|path| !path.contains("/run/ebb/"));
        }
    }

    /// The power went before a request that outlasts boots was on the disk.
    pub(super) fn forget_kept(&mut self) {
        self.requests.retain(|path| !path.contains("/persist/"));
        self.kept_since = None;
    }

    /// True if zedkube has had the time to see its files. While its disk is slow, it may take long.
    fn is_settled(&self, device: &Device) -> bool {
        let is_calm = self.disturbed_at + CALM < kernel::now() && !self.trials.has_a_bad_disk();
        !self.has_eve && is_calm && device.runs_for(Agent::Zedkube) > HEARD
    }
}

/// True at the end of a time that begins when this is wrong.
fn lasts(is_wrong: bool, since: &mut Option<u64>) -> bool {
    if !is_wrong {
        *since = None;
        return false;
    }
    let now = kernel::now();
    let is_over = now.saturating_sub(*since.get_or_insert(now)) > 2 * HEARD;
    if is_over {
        *since = Some(u64::MAX / 2);
    }
    is_over
}

impl Judge {
    /// The file of a person's request is not whole from now on. What zedkube has not read before, it cannot know.
    pub(crate) fn half_written(&mut self, device: usize) {
        let known = &mut self.devices[device];
        known.is_half_written = true;
        if !known.lists(PERSON) {
            known.forget_half_a_request();
        }
    }

    /// "A request is withdrawn only by its requester."
    pub(super) fn judge_known(&mut self, index: usize, device: &Device) {
        let known = &self.devices[index];
        let is_unknown = known.requesters().any(|number| !known.lists(number));
        let is_wrong = is_unknown && known.is_settled(device);
        let known = &mut self.devices[index];
        if lasts(is_wrong, &mut known.asked_for.unknown) {
            let what = format!("{}: requests {:?}, report {}", device.node, known.requests, known.report);
            self.complain("a request is withdrawn only by its requester", &what);
        }
    }

    /// "A kept node is not uncordoned", but by a person.
    pub(super) fn judge_kept(&mut self, index: usize, is_cordoned: bool) {
        let known = &mut self.devices[index];
        let was_cordoned = std::mem::replace(&mut known.was_cordoned, is_cordoned);
        // An uncordon that was sent before may wait, because zedkube has sent its most of a minute, or hang.
        let is_known = known.kept_since.is_some_and(|since| kernel::now() - since > CALM);
        if was_cordoned && !is_cordoned && is_known {
            self.complain("a kept node is not uncordoned", &format!("device {index}"));
        }
    }

    /// "What a person asks for is on record."
    pub(super) fn judge_recorded(&mut self, index: usize, device: &Device) {
        let known = &self.devices[index];
        let at = known.lines_of(PERSON).find_map(|line| line.get("RequestedAt")?.as_str());
        let is_wrong = at.is_some_and(|at| !known.order.is_on_record(at))
            && known.is_settled(device)
            && !known.orders.is_off_record();
        let known = &mut self.devices[index];
        if lasts(is_wrong, &mut known.asked_for.unrecorded) {
            self.complain("what a person asks for is on record", &device.node);
        }
    }

    /// "The status names somebody who asks", while there is somebody whom the drain has answered.
    pub(super) fn judge_named(&mut self, index: usize, device: &Device) {
        let known = &self.devices[index];
        let is_named = known.requesters().any(|number| Some(number) == known.named);
        let is_wrong = known.status == Some(COMPLETE)
            && known.requesters().any(|number| known.is_answered(number))
            && !is_named
            && known.is_settled(device);
        let known = &mut self.devices[index];
        if lasts(is_wrong, &mut known.asked_for.misnamed) {
            let what = format!("{}: {:?}, requests {:?}", device.node, known.named, known.requests);
            self.complain("the status names somebody who asks", &what);
        }
    }
}
