//! "An override counts once": for the requests that are there when it comes, or else for the first one that comes.

use std::collections::{BTreeMap, BTreeSet};

use schemas::Agent;
use serde_json::Value;

use super::{CALM, COMPLETE, HEARD, Judge, Known};
use crate::device::Device;
use crate::kernel;
use crate::world::{MINUTE, SECOND};

/// Default of `force.ttl`.
const FORCE_TTL: u64 = 10 * MINUTE;
/// An order for which no request is there waits so long for one, and a moment.
const ORDER_WAITS: u64 = FORCE_TTL + 30 * SECOND;
/// The requests that are there are answered within this time, with pauses between two answers.
const ORDER_IS_OBEYED: u64 = 30 * SECOND;
/// `RequestedBy` of an order for all.
const ALL: u64 = 1;

/// What is known of the orders of a boot.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// When each request was published first, by its time.
    published: BTreeMap<String, u64>,
    /// The request that is in each file: its requester and its time.
    standing: BTreeMap<String, (u64, String)>,
    /// Whom the orders mean that were written since one was taken.
    written: Vec<u64>,
    /// Since when one of them is not taken.
    unread_since: Option<u64>,
    applied: Vec<Applied>,
    /// zedkube could not write its record at some time in this boot.
    is_off_record: bool,
    /// When it could write its record again; `u64::MAX` while it cannot.
    on_record_since: u64,
    /// The requests that were answered by an order.
    forced: BTreeSet<String>,
}

/// An order of COMPLETE that zedkube has taken.
#[derive(Debug)]
struct Applied {
    meant: u64,
    at: u64,
    /// When it answered a request first.
    used_at: Option<u64>,
    /// All that it names were answered before.
    is_needless: bool,
    /// The requests that it has to answer.
    due: Vec<(String, String)>,
}

impl Applied {
    /// True if this order may answer a request that was published at this time.
    fn explains(&self, requester: u64, published: u64) -> bool {
        let now = kernel::now();
        let is_meant = self.meant == ALL || self.meant == requester;
        let stood = published <= self.at + HEARD;
        let is_first = !self.is_needless && self.used_at.is_none_or(|used| published <= used + HEARD);
        is_meant && (stood || is_first) && published <= self.at + ORDER_WAITS && self.at <= now
    }
}

/// A request for a drain in a file: its requester and its time.
fn request_in(content: &[u8]) -> Option<(u64, String)> {
    let value: Value = serde_json::from_slice(content).ok()?;
    let by = value.get("RequestedBy")?.as_u64()?;
    Some((by, value.get("RequestedAt")?.as_str()?.to_owned()))
}

/// Whom an order of COMPLETE means.
fn meant_by(content: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(content).ok()?;
    let is_complete = value.get("Status")?.as_u64()? == COMPLETE;
    value.get("RequestedBy")?.as_u64().filter(|_| is_complete)
}

/// The lines of a report with an answer: requester, time of the request, outcome.
fn answered(report: &Value) -> impl Iterator<Item = (u64, &str, &str)> {
    let lines = report.get("Requests").and_then(Value::as_array);
    lines.into_iter().flatten().filter_map(|line| {
        let is_complete = line.get("Answer")?.as_u64()? == COMPLETE;
        let by = line.get("RequestedBy")?.as_u64()?;
        let outcome = line.get("Outcome").and_then(Value::as_str).unwrap_or_default();
        is_complete.then_some((by, line.get("RequestedAt")?.as_str()?, outcome))
    })
}

impl Orders {
    /// zedkube could not write its record at some time in this boot.
    pub(super) const fn is_off_record(&self) -> bool {
        self.is_off_record
    }

    /// Since when zedkube can write its record, if it could not; never, while it cannot.
    pub(super) const fn on_record_since(&self) -> u64 {
        self.on_record_since
    }
}

impl Known {
    /// Notes a request that was put in place or removed.
    pub(super) fn note_request(&mut self, path: &str, content: Option<&[u8]>) {
        let Some((by, at)) = content.and_then(request_in) else {
            self.orders.standing.remove(path);
            return;
        };
        self.orders.published.entry(at.clone()).or_insert_with(kernel::now);
        self.orders.standing.insert(path.to_owned(), (by, at));
    }

    /// Notes an order that was written, or put back: whether it is read before the next one is written, nobody knows.
    pub(super) fn note_written_order(&mut self, content: &[u8]) {
        self.orders.written.extend(meant_by(content));
        self.orders.unread_since = Some(kernel::now());
        if let Some(last) = self.orders.applied.last_mut() {
            last.due.clear();
        }
    }

    /// Notes an order whose file was renamed, because it was taken or refused.
    pub(super) fn note_read_order(&mut self, is_taken: bool, content: &[u8]) {
        self.orders.unread_since = None;
        if is_taken {
            self.note_order(content);
        }
    }

    fn note_order(&mut self, content: &[u8]) {
        let Some(meant) = meant_by(content) else { return };
        let told: BTreeSet<&str> = answered(&self.report).map(|(_, at, _)| at).collect();
        let Orders { standing, written, applied, .. } = &mut self.orders;
        let standing = |meant: u64| {
            let is_meant = move |(_, (by, _)): &(&String, &(u64, String))| meant == ALL || meant == *by;
            standing.iter().filter(is_meant)
        };
        let is_told = |at: &str| told.contains(at);
        for meant in written.drain(..).chain([meant]) {
            let is_needless =
                standing(meant).next().is_some() && standing(meant).all(|(_, (_, at))| is_told(at));
            let at = kernel::now();
            applied.push(Applied { meant, at, used_at: None, is_needless, due: Vec::new() });
        }
        // A new order takes the place of one that has not answered yet.
        for order in applied.iter_mut() {
            order.due.clear();
        }
        if let Some(last) = applied.last_mut() {
            let due = standing(meant).filter(|(_, (_, at))| !is_told(at));
            last.due = due.map(|(path, (_, at))| (path.clone(), at.clone())).collect();
        }
    }

    /// Notes the answers of a report by an order. Returns one that no order explains.
    pub(super) fn note_forced(&mut self) -> Option<String> {
        let Orders { published, applied, forced, is_off_record, .. } = &mut self.orders;
        let told: BTreeMap<&str, &str> =
            answered(&self.report).map(|(_, at, outcome)| (at, outcome)).collect();
        let mut wrong = None;
        for order in applied.iter_mut() {
            // An order that is not on record is lost with its zedkube.
            let is_late = kernel::now() - order.at > HEARD && !*is_off_record;
            order.due.retain(|(_, at)| {
                let outcome = told.get(&**at);
                if outcome.is_some_and(|outcome| *outcome != "Forced") && is_late {
                    wrong = Some(format!(
                        "{outcome:?} for {at}, for which an order had come: {order_at}",
                        order_at = order.at
                    ));
                }
                outcome.is_none()
            });
        }
        for (by, at, outcome) in answered(&self.report).filter(|(.., outcome)| *outcome == "Forced") {
            if !forced.insert(at.to_owned()) {
                continue;
            }
            let since = published.get(at).copied().unwrap_or_default();
            match applied.iter_mut().rev().find(|order| order.explains(by, since)) {
                Some(order) => drop(order.used_at.get_or_insert_with(kernel::now)),
                None => wrong = Some(format!("{outcome} for {by}, asked at {at}: {applied:?}")),
            }
        }
        wrong
    }
}

impl Judge {
    /// zedkube cannot write its record from now on, or it can again.
    pub(crate) fn is_off_record(&mut self, device: usize, is_so: bool) {
        let orders = &mut self.devices[device].orders;
        orders.is_off_record |= is_so;
        orders.on_record_since = if is_so { u64::MAX } else { kernel::now() };
    }

    /// "An override counts once": it does count, also while zedkube cannot write its record.
    pub(super) fn judge_orders(&mut self, index: usize, device: &Device) {
        let known = &mut self.devices[index];
        let since = known.orders.unread_since.unwrap_or(u64::MAX).max(known.disturbed_at + CALM);
        let is_late = kernel::now().saturating_sub(since) > HEARD && device.runs_for(Agent::Zedkube) > HEARD;
        if is_late && !known.has_eve && !known.trials.has_a_bad_disk() {
            known.orders.unread_since = None;
            self.complain("an override counts once", &format!("{}: an order is not read", device.node));
        }
        let known = &mut self.devices[index];
        let (suspended, disturbed) = (known.suspended_until, known.disturbed_at);
        let Orders { standing, applied, .. } = &mut known.orders;
        let mut wrong = None;
        for order in applied {
            let now = kernel::now();
            // An order that zedkube could not obey in time, because it stood still, is out of date.
            if now - order.at > FORCE_TTL {
                order.due.clear();
            }
            let from = order.at.max(suspended).max(disturbed);
            let is_over = now.saturating_sub(from) > ORDER_IS_OBEYED;
            if is_over && !order.due.is_empty() && device.runs_for(Agent::Zedkube) > ORDER_IS_OBEYED {
                let still =
                    |(path, at): &(String, String)| standing.get(path).is_some_and(|(_, is)| is == at);
                let left = std::mem::take(&mut order.due);
                wrong = left.into_iter().find(still).or(wrong);
            }
        }
        if let Some((path, at)) = wrong.filter(|_| !self.devices[index].has_eve) {
            let what = format!("{}: {path} of {at} is not answered", device.node);
            self.complain("an override counts once", &what);
        }
    }
}
