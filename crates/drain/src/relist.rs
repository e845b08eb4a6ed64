//! Fresh lists from the server ("relists"): one at a time, in order with what the watches show, and what became of those
//! that told nothing.
//!
//! A relist is a consistent read, but it takes time: what a watch has shown since the relist was asked for may be newer.
//! So the relist remembers what the watches showed when it was asked for, and whatever they have changed since counts
//! more than the relist ([`merge`]). Only one is on its way at a time, so an answer is always that relist's.

mod merge;

use std::sync::Arc;
use std::time::Duration;

use crate::policy::REFUSAL_LASTS;
use crate::retry::pause;
use crate::storage::{AttachmentView, Attachments};
use crate::time::Moment;
use crate::view::Snapshot;

/// When nothing can go on without a relist, relists may fail for this long before the attempt does. The same time that the
/// API server may be away by default.
const VAIN_LIMIT: Duration = Duration::from_mins(30);

/// Bookkeeping of an attempt's relists, and of the watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Relists {
    on_its_way: Option<Relist>,
    /// When the last relist was asked for.
    asked: Moment,
    /// Nothing is sent to the cluster before a relist has come: the API server was away, and what is known is old.
    is_owed: bool,
    /// The last relist showed something attached that the watches do not show: they may be late, or the relist was.
    is_at_odds: bool,
    /// The last relists told nothing.
    in_vain: Option<InVain>,
    /// The last snapshot of the watches alone.
    watched: Option<Arc<Snapshot>>,
}

/// A relist that is on its way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relist {
    /// It has to show that the node is drained.
    pub(crate) is_final_check: bool,
    /// It also lists what is attached to the node, and what the claims of its pods are bound to.
    pub(crate) volumes: bool,
    /// It was asked for before the API server went away: its answer is old.
    is_stale: bool,
    /// The snapshot of the watches when it was asked for.
    watched_before: Option<Arc<Snapshot>>,
}

/// Relists that told nothing, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InVain {
    /// The first of them came then.
    since: Moment,
    times: u32,
    /// Why the last one told nothing.
    why: String,
    /// Since when the server refuses to list attachments (401, 403), with every relist.
    refused_since: Option<Moment>,
    /// The next relist is asked for then.
    next: Moment,
}

impl Relists {
    /// Notes that a relist is asked for.
    pub(crate) fn ask(&mut self, is_final_check: bool, volumes: bool, now: Moment) {
        let watched_before = self.watched.clone();
        self.on_its_way = Some(Relist { is_final_check, volumes, is_stale: false, watched_before });
        self.asked = now;
    }

    /// When the last relist was asked for.
    pub(crate) fn asked(&self) -> Moment {
        self.asked
    }

    /// When a relist may be asked for; `None` while one is on its way.
    pub(crate) fn free(&self) -> Option<Moment> {
        let next = self.in_vain.as_ref().map_or(Moment(0), |vain| vain.next);
        self.on_its_way.is_none().then_some(next)
    }

    /// Nothing is sent to the cluster before a relist has come.
    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// The API server was away and is back: nothing is sent before a relist that was asked for from now on.
    pub(crate) fn owe(&mut self) {
        self.is_owed = true;
        if let Some(relist) = &mut self.on_its_way {
            relist.is_stale = true;
        }
        self.in_vain = None;
    }

    /// The relist that is answered now; `None` if none was asked for, or its answer is old.
    pub(crate) fn answered(&mut self) -> Option<Relist> {
        self.on_its_way.take().filter(|relist| !relist.is_stale)
    }

    /// The relist told nothing: the next one follows after a back-off, 0.5 s at first and 20 s at most.
    pub(crate) fn note_vain(&mut self, why: String, is_refusal: bool, now: Moment) {
        let before = self.in_vain.take();
        let times = before.as_ref().map_or(0, |vain| vain.times).saturating_add(1);
        let refused_before = before.as_ref().and_then(|vain| vain.refused_since);
        self.in_vain = Some(InVain {
            since: before.map_or(now, |vain| vain.since),
            times,
            why,
            refused_since: is_refusal.then(|| refused_before.unwrap_or(now)),
            next: now + pause(times, None, ""),
        });
    }

    /// The relist tells enough to be taken in. The snapshot that is known with it: that of the relist, except where the
    /// watches have shown something newer. `known` is what was known before.
    pub(crate) fn take_in(
        &mut self,
        relist: &Relist,
        found: &Snapshot,
        known: Option<&Snapshot>,
    ) -> Arc<Snapshot> {
        self.in_vain = None;
        self.is_owed = false;
        self.is_at_odds = relist.volumes && self.shows_more_attached(found);
        let nothing = Snapshot::default();
        let before = relist.watched_before.as_deref().unwrap_or(&nothing);
        let watched = self.watched.as_deref().unwrap_or(before);
        Arc::new(merge::snapshot(before, watched, found, known, relist.volumes))
    }

    /// Takes a snapshot of the watches, and tells what is known with it. `known` is what was known before.
    ///
    /// Of the pods only what the watches show otherwise than before is news: a watch that lags behind the last relist goes
    /// on to show pods that the relist has shown to be gone.
    pub(crate) fn watch(&mut self, mut snapshot: Arc<Snapshot>, known: Option<&Snapshot>) -> Arc<Snapshot> {
        let before = self.watched.replace(Arc::clone(&snapshot));
        let Some(known) = known else {
            return snapshot;
        };
        // Where the watches are not asked about volumes, relists tell.
        if snapshot.storage.attachments == Attachments::NotAsked
            && known.storage.attachments != Attachments::NotAsked
        {
            Arc::make_mut(&mut snapshot).storage = known.storage.clone();
        }
        let before = before.as_ref().map(|before| before.pods.as_slice()).unwrap_or_default();
        if before != known.pods {
            let pods = merge::pods(before, &snapshot.pods, &known.pods);
            Arc::make_mut(&mut snapshot).pods = pods;
        }
        snapshot
    }

    /// The contradiction, if there is one, when the server says that the node does not exist. `is_known`: this drain has
    /// seen the node cordoned.
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

    /// The watches show other pods than are known from the last relist: they are late, however busy they are.
    pub(crate) fn is_watch_late(&self, known: &Snapshot) -> bool {
        let Some(watched) = &self.watched else { return false };
        known.pods.iter().map(|pod| &pod.id).ne(watched.pods.iter().map(|pod| &pod.id))
    }

    /// The watches tell what is attached to the node, and the last relist agrees.
    pub(crate) fn is_watching_attachments(&self) -> bool {
        let is_asked = |watched: &Arc<Snapshot>| watched.storage.attachments != Attachments::NotAsked;
        self.watched.as_ref().is_some_and(is_asked) && !self.is_at_odds
    }

    /// The relist shows something attached to its node that the watches do not show.
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

    /// Why the last relist told nothing.
    pub(crate) fn error(&self) -> Option<&str> {
        self.in_vain.as_ref().map(|vain| vain.why.as_str())
    }

    /// How often and since when relists have told nothing.
    pub(crate) fn failures(&self) -> Option<(u32, Moment)> {
        self.in_vain.as_ref().map(|vain| (vain.times, vain.since))
    }

    /// When the server's refusal to list attachments counts.
    pub(crate) fn refusal_counts(&self) -> Option<Moment> {
        Some(self.in_vain.as_ref()?.refused_since? + REFUSAL_LASTS)
    }

    /// When relists have failed for too long, for an attempt that cannot go on without.
    pub(crate) fn vain_counts(&self) -> Option<Moment> {
        Some(self.in_vain.as_ref()?.since + VAIN_LIMIT)
    }
}
