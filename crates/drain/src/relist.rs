//! Fresh lists from the server ("relists"): one at a time, merged in order with the watches; and the failures of
//! relists.
//!
//! A relist is a consistent read, but it takes time: changes that a watch has shown since the relist was asked for may
//! be newer. So the relist remembers the watches' snapshot from when it was asked for, and a later change in the
//! watches overrides the relist ([`merge`]). Only one relist is in flight at a time, so an answer always belongs to it.
//!
//! The result of a relist stays known until the watches show a change: a watch that hangs beside a busy one would bring
//! gone pods back. A pod that the server calls gone is looked up, not evicted again, because each eviction with an old
//! UID uses up a place of its budget (M3 in `docs/reference/measured.md`).

mod merge;

use std::sync::Arc;
use std::time::Duration;

use crate::policy::REFUSAL_LASTS;
use crate::retry::pause;
use crate::storage::{AttachmentView, Attachments};
use crate::time::Moment;
use crate::view::Snapshot;

/// If no work can go on without a relist, the attempt fails after relists have failed for this long. Equal to the
/// default of the longest outage of the API server.
const FAILURE_LIMIT: Duration = Duration::from_mins(30);

/// State of an attempt's relists, and of the watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Relists {
    in_flight: Option<Relist>,
    /// Time when the last relist was asked for.
    asked: Moment,
    /// True if no eviction may be sent before a relist has come: the API server was away, so the known state is out of
    /// date.
    is_required: bool,
    /// True if the last relist showed an attachment that the watches do not show: either of them may be late.
    is_contradicted: bool,
    /// The last relists failed: they had no usable result.
    failed: Option<FailedRelists>,
    /// The last snapshot of the watches alone.
    watched: Option<Arc<Snapshot>>,
}

/// A relist in flight.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relist {
    /// True for the final check: it must show that the node is drained.
    pub(crate) is_final_check: bool,
    /// True if it also lists the node's attachments, and the volumes to which the claims of its pods are bound.
    pub(crate) volumes: bool,
    /// True if it was asked for before the API server went away: its answer is out of date.
    is_stale: bool,
    /// Snapshot of the watches when it was asked for.
    watched_before: Option<Arc<Snapshot>>,
}

/// Relists without a usable result, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailedRelists {
    /// Time of the first of them.
    since: Moment,
    times: u32,
    /// Error of the last one.
    why: String,
    /// Start of the server's refusals (401, 403) to list attachments, if every relist since then was refused.
    refused_since: Option<Moment>,
    /// Time for the next relist.
    next: Moment,
}

impl Relists {
    /// Notes that a relist is asked for.
    pub(crate) fn ask(&mut self, is_final_check: bool, volumes: bool, now: Moment) {
        let watched_before = self.watched.clone();
        self.in_flight = Some(Relist { is_final_check, volumes, is_stale: false, watched_before });
        self.asked = now;
    }

    /// Time when the last relist was asked for.
    pub(crate) fn asked(&self) -> Moment {
        self.asked
    }

    /// Earliest time for a relist; `None` while one is in flight.
    pub(crate) fn free(&self) -> Option<Moment> {
        let next = self.failed.as_ref().map_or(Moment(0), |failed| failed.next);
        self.in_flight.is_none().then_some(next)
    }

    /// True if no eviction may be sent before a relist has come.
    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    /// The API server is back after an outage: no eviction is sent before a relist that is asked for from now on.
    pub(crate) fn require(&mut self) {
        self.is_required = true;
        if let Some(relist) = &mut self.in_flight {
            relist.is_stale = true;
        }
        self.failed = None;
    }

    /// The final check has ended because a pod has come: the relist in flight was asked for before that, so it does not
    /// count for the next final check.
    pub(crate) fn end_final_check(&mut self) {
        if let Some(relist) = &mut self.in_flight {
            relist.is_final_check = false;
        }
    }

    /// Takes the relist that is answered now; `None` if none was asked for, or its answer is out of date.
    pub(crate) fn answered(&mut self) -> Option<Relist> {
        self.in_flight.take().filter(|relist| !relist.is_stale)
    }

    /// Notes a relist without a usable result: the next one follows after a back-off, 0.5 s at first and 20 s at most.
    pub(crate) fn note_failure(&mut self, why: String, is_refusal: bool, now: Moment) {
        let before = self.failed.take();
        let times = before.as_ref().map_or(0, |failed| failed.times).saturating_add(1);
        let refused_before = before.as_ref().and_then(|failed| failed.refused_since);
        self.failed = Some(FailedRelists {
            since: before.map_or(now, |failed| failed.since),
            times,
            why,
            refused_since: is_refusal.then(|| refused_before.unwrap_or(now)),
            next: now + pause(times, None, ""),
        });
    }

    /// Applies a relist. Returns the new known state: that of the relist, except where the watches have shown a later
    /// change. `known` is the state before.
    pub(crate) fn apply(
        &mut self,
        relist: &Relist,
        found: &Snapshot,
        known: Option<&Snapshot>,
    ) -> Arc<Snapshot> {
        self.failed = None;
        self.is_required = false;
        self.is_contradicted = relist.volumes && self.shows_more_attached(found);
        let nothing = Snapshot::default();
        let before = relist.watched_before.as_deref().unwrap_or(&nothing);
        let watched = self.watched.as_deref().unwrap_or(before);
        Arc::new(merge::snapshot(before, watched, found, known, relist.volumes))
    }

    /// Applies a snapshot of the watches. Returns the new known state; `known` is the state before.
    ///
    /// Only pods that have changed in the watches override the known state: a watch that lags behind the last relist
    /// still shows pods which the relist has shown to be gone.
    pub(crate) fn watch(&mut self, mut snapshot: Arc<Snapshot>, known: Option<&Snapshot>) -> Arc<Snapshot> {
        let before = self.watched.replace(Arc::clone(&snapshot));
        let Some(known) = known else {
            return snapshot;
        };
        // If the watches do not cover volumes, keep what relists have shown.
        if snapshot.storage.attachments == Attachments::NotAsked
            && known.storage.attachments != Attachments::NotAsked
        {
            Arc::make_mut(&mut snapshot).storage = known.storage.clone();
        } else if !known.storage.missing_volumes.is_empty() {
            let missing = known.storage.missing_volumes.clone();
            Arc::make_mut(&mut snapshot).storage.missing_volumes = missing;
        }
        let before = before.as_ref().map(|before| before.pods.as_slice()).unwrap_or_default();
        if before != known.pods {
            let known = merge::at_the_time_of(&snapshot.pods, &known.pods);
            let pods = merge::pods(before, &snapshot.pods, &known);
            Arc::make_mut(&mut snapshot).pods = pods;
        }
        snapshot
    }

    /// The contradiction, if there is one, when the server says that the node does not exist. `is_known`: this drain
    /// has seen the node cordoned.
    pub(crate) fn contradiction(&self, found: &Snapshot, is_known: bool) -> Option<String> {
        let says = "the API server says that the node does not exist";
        if !found.pods.is_empty() {
            return Some(format!("{says}, but {} pods are bound to it", found.pods.len()));
        }
        match &self.watched {
            None => Some(format!("{says}, but no watch has shown that yet")),
            Some(watched) if watched.node.is_some() => Some(format!("{says}, but the watch shows it")),
            Some(_) => (!is_known).then(|| format!("{says}, and this drain has never seen it")),
        }
    }

    /// True if the watches show other pods than the last relist: they are late, even if they show many changes.
    pub(crate) fn is_watch_late(&self, known: &Snapshot) -> bool {
        let Some(watched) = &self.watched else { return false };
        known.pods.iter().map(|pod| &pod.id).ne(watched.pods.iter().map(|pod| &pod.id))
    }

    /// True if the watches cover the node's attachments, and the last relist agrees with them.
    pub(crate) fn is_watching_attachments(&self) -> bool {
        let is_asked = |watched: &Arc<Snapshot>| watched.storage.attachments != Attachments::NotAsked;
        self.watched.as_ref().is_some_and(is_asked) && !self.is_contradicted
    }

    /// True if the relist shows an attachment of its node that the watches do not show.
    fn shows_more_attached(&self, found: &Snapshot) -> bool {
        let (Some(watched), Some(node)) = (&self.watched, &found.node) else { return false };
        let listed = watched.node.as_ref().map(|node| node.volumes_attached.as_slice()).unwrap_or_default();
        if node.volumes_attached.iter().any(|name| !listed.contains(name)) {
            return true;
        }
        let (Attachments::Listed(found), Attachments::Listed(known)) =
            (&found.storage.attachments, &watched.storage.attachments)
        else {
            return false;
        };
        let is_known = |here: &AttachmentView| {
            known.iter().any(|known| {
                (&known.name, &known.volume, &known.node) == (&here.name, &here.volume, &here.node)
            })
        };
        found.iter().any(|attachment| attachment.node == node.name && !is_known(attachment))
    }

    /// Error of the last relist, if it had no usable result.
    pub(crate) fn error(&self) -> Option<&str> {
        self.failed.as_ref().map(|failed| failed.why.as_str())
    }

    /// Number and start of the failed relists in a row.
    pub(crate) fn failures(&self) -> Option<(u32, Moment)> {
        self.failed.as_ref().map(|failed| (failed.times, failed.since))
    }

    /// Time from which on the server's refusal to list attachments counts.
    pub(crate) fn refusal_counts_from(&self) -> Option<Moment> {
        Some(self.failed.as_ref()?.refused_since? + REFUSAL_LASTS)
    }

    /// Time from which on failed relists fail an attempt that cannot go on without one.
    pub(crate) fn failures_count_from(&self) -> Option<Moment> {
        Some(self.failed.as_ref()?.since + FAILURE_LIMIT)
    }
}
