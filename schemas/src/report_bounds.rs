//! Keeps a report small enough for one socket message.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::report::{Blocked, NodeDrainReport, Omitted, PodLine};
use crate::write::encode;

/// The longest report, in bytes of JSON: 45 KiB are 60 KiB in base64 and so fit into one of EVE's socket messages
/// (65,533 bytes).
pub const MAX_REPORT_BYTES: usize = 45 * 1024;

/// Number of characters that are kept of a text when the report is too long: enough for a sentence and a name.
const MAX_TEXT: usize = 300;
/// Number of entries that are kept of a list inside an entry.
const MAX_INNER: usize = 10;
/// Number of nodes that are kept of those that say that this node's slot was abandoned: more than one is rare.
const MAX_ACCUSERS: usize = 3;

/// Shares of [`MAX_REPORT_BYTES`] for the short lists, in bytes. The rest is for blocked pods, volumes and pods.
const REQUESTS_SHARE: usize = 6 * 1024;
const ATTEMPTS_SHARE: usize = 4 * 1024;
const REFUSED_SHARE: usize = 4 * 1024;
const VOLUMES_SHARE: usize = 4 * 1024;
/// Blocked pods get 1/2 of the rest; the other half is for the pods themselves.
const BLOCKED_PART: usize = 2;

impl NodeDrainReport {
    /// This report, shortened to [`MAX_REPORT_BYTES`] if it is longer: first long texts are cut, then entries are left
    /// out and counted in [`Omitted`]. Blocked pods are kept longest; of the attempts the newest are kept.
    #[must_use]
    pub fn bounded(self) -> Self {
        if encode(&self).len() <= MAX_REPORT_BYTES {
            return self;
        }
        let cut = self.with_short_texts();
        if encode(&cut).len() <= MAX_REPORT_BYTES {
            return cut;
        }
        cut.with_short_lists()
    }

    fn with_short_texts(mut self) -> Self {
        for text in [
            &mut self.drain_id,
            &mut self.boot_id,
            &mut self.node,
            &mut self.phase,
            &mut self.reason,
            &mut self.hint,
            &mut self.outlook,
        ] {
            shorten(text);
        }
        self.disabled.iter_mut().for_each(|disabled| shorten(&mut disabled.by));
        self.spent_order.iter_mut().for_each(|order| shorten(&mut order.by));
        shorten_list(&mut self.slot.holders);
        self.slot.passed_over_by.truncate(MAX_ACCUSERS);
        self.slot.passed_over_by.iter_mut().for_each(shorten);
        for request in &mut self.requests {
            shorten(&mut request.context);
            shorten(&mut request.publisher);
            shorten(&mut request.by);
        }
        self.attempts.iter_mut().for_each(|attempt| shorten(&mut attempt.error));
        for blocker in &mut self.blockers {
            shorten(&mut blocker.what);
            shorten(&mut blocker.hint);
            blocker.examples.iter_mut().for_each(shorten);
        }
        self.pods.iter_mut().for_each(shorten_pod);
        self.blocked.iter_mut().for_each(shorten_blocked);
        for volume in &mut self.volumes {
            shorten(&mut volume.pv);
            shorten(&mut volume.pod);
            shorten(&mut volume.stage);
        }
        for problem in self.preflight.iter_mut().flat_map(|preflight| &mut preflight.problems) {
            shorten(&mut problem.text);
            shorten(&mut problem.hint);
        }
        for refused in &mut self.refused {
            shorten(&mut refused.path);
            shorten(&mut refused.reason);
        }
        self
    }

    fn with_short_lists(mut self) -> Self {
        let requests = std::mem::take(&mut self.requests);
        let mut attempts = std::mem::take(&mut self.attempts);
        let blocked = std::mem::take(&mut self.blocked);
        let pods = blocked_first(std::mem::take(&mut self.pods), &blocked);
        let volumes = std::mem::take(&mut self.volumes);
        let refused = std::mem::take(&mut self.refused);
        self.omitted = WIDEST_COUNTS;
        let mut room = MAX_REPORT_BYTES.saturating_sub(encode(&self).len());
        let mut omitted = Omitted::default();

        (self.requests, omitted.requests) = fitting(requests, &mut room, REQUESTS_SHARE);
        attempts.reverse();
        (self.attempts, omitted.attempts) = fitting(attempts, &mut room, ATTEMPTS_SHARE);
        self.attempts.reverse();
        (self.refused, omitted.refused) = fitting(refused, &mut room, REFUSED_SHARE);
        let share = room / BLOCKED_PART;
        (self.blocked, omitted.blocked) = fitting(blocked, &mut room, share);
        (self.volumes, omitted.volumes) = fitting(volumes, &mut room, VOLUMES_SHARE);
        let share = room;
        (self.pods, omitted.pods) = fitting(pods, &mut room, share);
        self.omitted = omitted;
        self
    }
}

/// The counts at their greatest width: their bytes are reserved before the counts are known.
const WIDEST_COUNTS: Omitted = Omitted {
    requests: u32::MAX,
    attempts: u32::MAX,
    pods: u32::MAX,
    blocked: u32::MAX,
    volumes: u32::MAX,
    refused: u32::MAX,
};

/// The first entries that fit into both `room` and `share`, and how many do not fit. Takes their bytes from `room`.
fn fitting<T: Serialize>(entries: Vec<T>, room: &mut usize, share: usize) -> (Vec<T>, u32) {
    let mut left = share.min(*room);
    let all = entries.len();
    let kept: Vec<T> = entries
        .into_iter()
        .take_while(|entry| {
            let bytes = encode(entry).len() + 1; // and a comma
            let fits = bytes <= left;
            if fits {
                left -= bytes;
                *room -= bytes;
            }
            fits
        })
        .collect();
    let omitted = u32::try_from(all - kept.len()).unwrap_or(u32::MAX);
    (kept, omitted)
}

fn blocked_first(pods: Vec<PodLine>, blocked: &[Blocked]) -> Vec<PodLine> {
    let names: BTreeSet<&str> = blocked.iter().map(|entry| entry.pod.as_str()).collect();
    let (mut first, rest): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| names.contains(format!("{}/{}", pod.namespace, pod.name).as_str()));
    first.extend(rest);
    first
}

fn shorten_pod(pod: &mut PodLine) {
    for text in [
        &mut pod.namespace,
        &mut pod.name,
        &mut pod.uid,
        &mut pod.owner,
        &mut pod.verdict,
        &mut pod.stage,
        &mut pod.detail,
    ] {
        shorten(text);
    }
    shorten_list(&mut pod.reasons);
}

fn shorten_blocked(blocked: &mut Blocked) {
    for text in [&mut blocked.pod, &mut blocked.cause, &mut blocked.holder, &mut blocked.hint] {
        shorten(text);
    }
    blocked.budgets.truncate(MAX_INNER);
    for budget in &mut blocked.budgets {
        shorten(&mut budget.name);
        shorten_list(&mut budget.unhealthy_pods);
    }
}

fn shorten_list(texts: &mut Vec<String>) {
    texts.truncate(MAX_INNER);
    texts.iter_mut().for_each(shorten);
}

/// Cuts a text to [`MAX_TEXT`] characters and marks the cut with an ellipsis.
fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}
