//! Fresh looks at the server: one at a time, in order with what the watches show, and what became of those in vain.
//!
//! A look is a consistent read, but it takes time: what a watch has shown since the look was asked for may be newer.
//! So the look remembers what the watches showed when it was asked for, and whatever they have changed since counts more
//! than the look (`merge`). Only one look is on its way at a time, so an answer is always that look's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::force::force;
use crate::plan::{Planned, plan};
use crate::policy::{OnDetachTimeout, Policy};
use crate::retry::pause;
use crate::state::{Attempt, Failure};
use crate::step::Effect;
use crate::storage::{AttachmentView, Attachments, ClaimView, Storage};
use crate::time::Moment;
use crate::tracking::take_in;
use crate::view::{NodeView, Picture, PodView};
use crate::volumes;

/// A look that was refused (401, 403) is asked for again this long before the refusal counts: API servers refuse for
/// moments after a restart and while tokens rotate.
const REFUSAL_LASTS: Duration = Duration::from_secs(30);

/// When nothing can go on without a fresh look, looks may be in vain for this long before the attempt fails. The same
/// time that the API server may be away by default.
const VAIN_LIMIT: Duration = Duration::from_mins(30);

/// Knowledge of volumes is waited for this long without a word.
const QUIET: Duration = Duration::from_secs(5);

/// What an attempt knows of its fresh looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looks {
    /// The one that is on its way.
    pub on_its_way: Option<Look>,
    /// When the last one was asked for.
    pub asked: Moment,
    /// Nothing is sent to the cluster before a look has come: the API server was away, and what is known is old.
    pub is_owed: bool,
    /// The last one showed something attached that the watches do not show: they may be late, or the look was.
    pub is_at_odds: bool,
    /// The last looks told nothing.
    pub in_vain: Option<InVain>,
}

/// A look that is on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// It has to show that the node is drained.
    pub is_proof: bool,
    /// Also what is attached to the node, and what the claims of its pods are bound to.
    pub volumes: bool,
    /// It was asked for before the API server went away: its answer is old.
    pub is_stale: bool,
    /// What the watches showed when it was asked for.
    pub seen: Option<Arc<Picture>>,
}

/// Looks that told nothing, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InVain {
    /// The first of them came then.
    pub since: Moment,
    /// How many there were.
    pub times: u32,
    /// Why the last one told nothing.
    pub why: String,
    /// Attachments have been refused (401, 403) since then, with every look.
    pub refused_since: Option<Moment>,
    /// The next one is asked for then.
    pub next: Moment,
}

/// What became of a look.
pub(crate) enum Looked {
    /// It told nothing, or nothing that counts any more.
    InVain,
    /// Node, watch and the list of pods agree: the node does not exist any more.
    NodeGone,
    /// The node is schedulable again.
    Uncordoned,
    /// It was taken in. `proves`: it was asked for as a proof, and no pod in it should leave.
    TakenIn { proves: bool },
}

/// Asks for a look.
pub(crate) fn ask(attempt: &mut Attempt, is_proof: bool, now: Moment, policy: &Policy) -> Effect {
    let counts = volumes_count(attempt, now, policy);
    let volumes = counts && (is_proof || attempt.picture.is_none() || wants_volumes(attempt));
    let seen = attempt.watched.clone();
    attempt.looks.on_its_way = Some(Look { is_proof, volumes, is_stale: false, seen });
    attempt.looks.asked = now;
    Effect::Prove { attempt: attempt.number, volumes }
}

/// Volumes are waited for: not without a detach time-out, and not with grace 0.
fn volumes_count(attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    !policy.volumes.detach_timeout.is_zero() && force(attempt, now, policy).is_none()
}

/// There are volumes to be told of.
fn wants_volumes(attempt: &Attempt) -> bool {
    !attempt.volumes.is_empty() || attempt.pods.values().any(|track| track.volumes_unknown.is_some())
}

/// A look may be asked for from then on; `None` while one is on its way.
pub(crate) fn free(attempt: &Attempt) -> Option<Moment> {
    let looks = &attempt.looks;
    looks.on_its_way.is_none().then(|| looks.in_vain.as_ref().map_or(Moment(0), |vain| vain.next))
}

/// The server was away and is back: nothing is sent before a look that was asked for from now on.
pub(crate) fn owe(attempt: &mut Attempt) {
    attempt.looks.is_owed = true;
    if let Some(look) = &mut attempt.looks.on_its_way {
        look.is_stale = true;
    }
    attempt.looks.in_vain = None;
}

/// Takes the answer to the look that is on its way in.
pub(crate) fn answered(
    attempt: &mut Attempt,
    answer: Result<Arc<Picture>, String>,
    now: Moment,
    policy: &Policy,
) -> Looked {
    let Some(look) = attempt.looks.on_its_way.take().filter(|look| !look.is_stale) else {
        return Looked::InVain;
    };
    let picture = match answer {
        Ok(picture) => picture,
        Err(why) => return note(attempt, why, false, now),
    };
    let Some(node) = &picture.node else {
        return match contradiction(attempt, &picture) {
            Some(why) => note(attempt, why, false, now),
            None => Looked::NodeGone,
        };
    };
    // A watch may lag behind our cordon; the server itself does not.
    if !node.cordoned {
        return Looked::Uncordoned;
    }
    if look.volumes && picture.storage.attachments == Attachments::NotAsked {
        let why = "it did not tell what is attached to the node".to_owned();
        return note(attempt, why, false, now);
    }
    let refused = refused(&picture.storage).filter(|_| look.volumes && must_see(attempt, now, policy));
    if let Some(why) = refused {
        return note(attempt, why.to_owned(), true, now);
    }
    let merged = merge(&look, &picture, attempt);
    attempt.looks.in_vain = None;
    attempt.looks.is_owed = false;
    attempt.looks.is_at_odds = look.volumes && is_at_odds(attempt, &picture);
    for track in attempt.pods.values_mut().filter(|track| track.since <= attempt.looks.asked) {
        track.said_gone = false;
    }
    take_in(attempt, merged, now, policy);
    let is_empty = !plan(&picture, policy).iter().any(Planned::must_leave);
    let proves = look.is_proof && is_empty && tells_enough(&look, &picture, attempt, now, policy);
    if proves {
        volumes::await_leftovers(attempt, now, policy);
    }
    Looked::TakenIn { proves }
}

/// What the server does not let us read of volumes, with the missing right: what is attached to the node, or whose it is.
fn refused(storage: &Storage) -> Option<&str> {
    match (&storage.attachments, &storage.claims_unreadable) {
        (Attachments::Unreadable(why), _) | (_, Some(why)) => Some(why),
        (Attachments::NotAsked | Attachments::NotServed | Attachments::Listed(_), None) => None,
    }
}

/// The look tells as much of volumes as the policy wants to know, now that it is taken in.
fn tells_enough(look: &Look, found: &Picture, attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    let is_told = matches!(found.storage.attachments, Attachments::Listed(_) | Attachments::NotServed);
    !volumes_count(attempt, now, policy) || (look.volumes && (is_told || !must_see(attempt, now, policy)))
}

/// The end of the drain depends on seeing whether volumes are detached.
pub(crate) fn must_see(attempt: &Attempt, now: Moment, policy: &Policy) -> bool {
    policy.volumes.on_detach_timeout == OnDetachTimeout::Fail && force(attempt, now, policy).is_none()
}

/// What speaks against the end of the node, although the server says that there is none.
fn contradiction(attempt: &Attempt, look: &Picture) -> Option<String> {
    let says = "the API server says that the node does not exist";
    if !look.pods.is_empty() {
        return Some(format!("{says}, but {} pods are bound to it", look.pods.len()));
    }
    match &attempt.watched {
        None => Some(format!("{says}, but no watch has shown that yet")),
        Some(watched) if watched.node.is_some() => Some(format!("{says}, but the watch shows it")),
        Some(_) if !attempt.seen_cordoned => Some(format!("{says}, and this drain has never seen it")),
        Some(_) => None,
    }
}

/// The look told nothing: the next one follows after a pause, 0.5 s at first and 20 s at most.
fn note(attempt: &mut Attempt, why: String, is_refusal: bool, now: Moment) -> Looked {
    let before = attempt.looks.in_vain.take();
    let times = before.as_ref().map_or(0, |vain| vain.times).saturating_add(1);
    let refused_before = before.as_ref().and_then(|vain| vain.refused_since);
    attempt.looks.in_vain = Some(InVain {
        since: before.map_or(now, |vain| vain.since),
        times,
        why,
        refused_since: is_refusal.then(|| refused_before.unwrap_or(now)),
        next: now + pause(times, None, ""),
    });
    Looked::InVain
}

/// The look, except where the watches have shown something else since it was asked for: that is newer, or as good. What
/// is attached counts as attached if either says so: an attachment may be made anew under its old name.
fn merge(look: &Look, found: &Picture, attempt: &Attempt) -> Arc<Picture> {
    let nothing = Picture::default();
    let before = look.seen.as_deref().unwrap_or(&nothing);
    let watched = attempt.watched.as_deref().unwrap_or(before);
    let known = attempt.picture.as_deref();
    Arc::new(Picture {
        node: merge_node(before.node.as_ref(), watched.node.as_ref(), found.node.as_ref()),
        pods: merge_pods(&before.pods, &watched.pods, &found.pods),
        budgets: known.map_or_else(|| found.budgets.clone(), |known| known.budgets.clone()),
        storage: merge_storage(look, before, watched, found, known),
    })
}

/// The look shows something attached to its node that the watches do not show.
fn is_at_odds(attempt: &Attempt, found: &Picture) -> bool {
    let (Some(watched), Some(node)) = (&attempt.watched, &found.node) else { return false };
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
        known
            .iter()
            .any(|known| (&known.name, &known.volume, &known.node) == (&here.name, &here.volume, &here.node))
    };
    found.iter().any(|attachment| attachment.node == node.name && !is_known(attachment))
}

fn merge_node(
    before: Option<&NodeView>,
    watched: Option<&NodeView>,
    found: Option<&NodeView>,
) -> Option<NodeView> {
    // That the node is gone is no news of its volumes; another look will tell.
    let Some(watched) = watched.filter(|_| watched != before) else {
        return found.cloned();
    };
    let mut node = watched.clone();
    let attached = found.into_iter().flat_map(|found| &found.volumes_attached);
    let missing: Vec<String> =
        attached.filter(|name| !node.volumes_attached.contains(name)).cloned().collect();
    node.volumes_attached.extend(missing);
    Some(node)
}

/// The pods that were `found`, except where `watched` shows another state of one than `before`.
pub(crate) fn merge_pods(before: &[PodView], watched: &[PodView], found: &[PodView]) -> Vec<PodView> {
    let by_uid = |pods: &[PodView]| -> BTreeMap<String, PodView> {
        pods.iter().map(|pod| (pod.id.uid.clone(), pod.clone())).collect()
    };
    let (before, watched, mut pods) = (by_uid(before), by_uid(watched), by_uid(found));
    for uid in before.keys().chain(watched.keys()) {
        let (old, new) = (before.get(uid), watched.get(uid));
        if old != new {
            match new {
                Some(pod) => pods.insert(uid.clone(), pod.clone()),
                None => pods.remove(uid),
            };
        }
    }
    let mut pods: Vec<PodView> = pods.into_values().collect();
    pods.sort_by(|a, b| a.id.cmp(&b.id));
    pods
}

fn merge_storage(
    look: &Look,
    before: &Picture,
    watched: &Picture,
    found: &Picture,
    known: Option<&Picture>,
) -> Storage {
    let Some(known) = known.map(|known| &known.storage) else {
        return found.storage.clone();
    };
    if !look.volumes {
        return known.clone();
    }
    let fresh = &found.storage;
    let mut storage =
        Storage { peer_takes_pods: known.peer_takes_pods.or(fresh.peer_takes_pods), ..fresh.clone() };
    // The watches know best, then the look; what neither tells of is as it was.
    let of_claim = |claim: &ClaimView| (claim.namespace.clone(), claim.name.clone());
    storage.claims = newest([&known.claims, &fresh.claims, &watched.storage.claims], of_claim);
    storage.volumes =
        newest([&known.volumes, &fresh.volumes, &watched.storage.volumes], |volume| volume.name.clone());
    if let (Attachments::Listed(all), Attachments::Listed(now)) =
        (&mut storage.attachments, &watched.storage.attachments)
    {
        let then: &[AttachmentView] = match &before.storage.attachments {
            Attachments::Listed(then) => then,
            Attachments::NotAsked | Attachments::NotServed | Attachments::Unreadable(_) => &[],
        };
        let is_new = |attachment: &&AttachmentView| !then.contains(attachment);
        let new: Vec<_> = now.iter().filter(is_new).filter(|new| !all.contains(new)).cloned().collect();
        all.extend(new);
    }
    storage
}

/// Of each the last that is told.
fn newest<T: Clone, K: Ord>(told: [&[T]; 3], key: impl Fn(&T) -> K) -> Vec<T> {
    let all: BTreeMap<K, T> = told.into_iter().flatten().map(|one| (key(one), one.clone())).collect();
    all.into_values().collect()
}

/// Why the attempt fails because looks are in vain, if it does.
pub(crate) fn failure(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Failure> {
    let vain = attempt.looks.in_vain.as_ref()?;
    let is_refused = refusal_counts(attempt).is_some_and(|at| at <= now);
    if is_refused && must_see(attempt, now, policy) {
        return Some(Failure::Blind(vain.why.clone()));
    }
    vain_counts(attempt).filter(|at| *at <= now).map(|_| Failure::Unproven(vain.why.clone()))
}

/// When the attempt fails if its looks go on to be in vain.
pub(crate) fn next_failure(attempt: &Attempt, now: Moment, policy: &Policy) -> Option<Moment> {
    let refusal = refusal_counts(attempt).filter(|_| must_see(attempt, now, policy));
    [refusal, vain_counts(attempt)].into_iter().flatten().min()
}

fn refusal_counts(attempt: &Attempt) -> Option<Moment> {
    Some(attempt.looks.in_vain.as_ref()?.refused_since? + REFUSAL_LASTS)
}

fn vain_counts(attempt: &Attempt) -> Option<Moment> {
    let nothing_goes_on =
        attempt.picture.is_none() || attempt.pods.values().all(|track| track.volumes_unknown.is_some());
    Some(attempt.looks.in_vain.as_ref().filter(|_| nothing_goes_on)?.since + VAIN_LIMIT)
}

/// What the attempt waits for besides pods and volumes, in words that do not change from second to second: a look that
/// keeps failing, a first picture, or knowledge of volumes. `None` if all is well.
pub fn trouble(attempt: &Attempt) -> Option<String> {
    if let Some(vain) = &attempt.looks.in_vain {
        return Some(format!("a fresh look at the node told nothing, and is tried again: {}", vain.why));
    }
    if attempt.picture.is_none() {
        let text = "the watches have not shown the node, its pods and their volumes yet, so a fresh look is taken; \
                    nothing is evicted before";
        return (attempt.looks.asked > attempt.started).then(|| text.to_owned());
    }
    let latest = attempt.seen.max(attempt.looks.asked);
    let is_long = |since: &Moment| latest.since(*since) >= QUIET;
    let unknown = attempt.pods.values().filter_map(|track| track.volumes_unknown).filter(is_long).count();
    (unknown > 0).then(|| {
        format!("it is not known yet which volumes {unknown} of the pods have; they are not evicted before")
    })
}

#[cfg(test)]
mod tests;
