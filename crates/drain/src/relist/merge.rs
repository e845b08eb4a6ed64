//! Merges a fresh list with the changes that the watches have shown since it was asked for.

use std::collections::BTreeMap;

use crate::storage::{AttachmentView, Attachments, ClaimView, Storage};
use crate::view::{NodeView, PodView, Snapshot, Terminating};

/// Merges the fresh list `found` with the watches: where their snapshot (`watched`) differs from the one when the list
/// was asked for (`before`), it is newer or equally good. A volume counts as attached if either says so, because an
/// attachment may be created again under its old name. `known` is the state before; `volumes`: the list covers volumes
/// too.
pub(super) fn snapshot(
    before: &Snapshot,
    watched: &Snapshot,
    found: &Snapshot,
    known: Option<&Snapshot>,
    volumes: bool,
) -> Snapshot {
    let storage = match known {
        Some(known) if volumes => storage(before, watched, found, &known.storage),
        Some(known) => known.storage.clone(),
        None => found.storage.clone(),
    };
    Snapshot {
        node: node(before.node.as_ref(), watched.node.as_ref(), found.node.as_ref()),
        pods: pods(&before.pods, &watched.pods, &found.pods),
        budgets: known.map_or_else(|| found.budgets.clone(), |known| known.budgets.clone()),
        storage,
    }
}

fn node(before: Option<&NodeView>, watched: Option<&NodeView>, found: Option<&NodeView>) -> Option<NodeView> {
    // A node that is gone says nothing about its volumes; another list will.
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

/// The pods of `found`, overridden by each pod whose state in `watched` differs from `before`. How long a pod is overdue,
/// and how much time it has left, changes by time alone: that is no news of the watch.
pub(super) fn pods(before: &[PodView], watched: &[PodView], found: &[PodView]) -> Vec<PodView> {
    let by_uid = |pods: &[PodView]| -> BTreeMap<String, PodView> {
        pods.iter().map(|pod| (pod.id.uid.clone(), pod.clone())).collect()
    };
    let (before, watched, mut pods) = (by_uid(before), by_uid(watched), by_uid(found));
    for uid in before.keys().chain(watched.keys()) {
        let (old, new) = (before.get(uid), watched.get(uid));
        if !is_same(old, new) {
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

/// The pods of `known` with the times of `watched`, which were read later, for each pod that both show in one state.
pub(super) fn at_the_time_of(watched: &[PodView], known: &[PodView]) -> Vec<PodView> {
    let watched: BTreeMap<&str, &PodView> = watched.iter().map(|pod| (pod.id.uid.as_str(), pod)).collect();
    let at_the_time = |pod: &PodView| match watched.get(pod.id.uid.as_str()) {
        Some(newer) if is_same(Some(pod), Some(newer)) => (*newer).clone(),
        _ => pod.clone(),
    };
    known.iter().map(at_the_time).collect()
}

/// True if both are in one state, whatever time has passed.
fn is_same(old: Option<&PodView>, new: Option<&PodView>) -> bool {
    let timeless = |pod: &PodView| {
        let grace =
            |terminating: Terminating| Terminating { grace: terminating.grace, ..Terminating::default() };
        PodView { terminating: pod.terminating.map(grace), ..pod.clone() }
    };
    old == new || old.zip(new).is_some_and(|(old, new)| timeless(old) == timeless(new))
}

/// Volumes: first the watches, then the fresh list, then the state before.
fn storage(before: &Snapshot, watched: &Snapshot, found: &Snapshot, known: &Storage) -> Storage {
    let (fresh, watched) = (&found.storage, &watched.storage);
    let mut storage =
        Storage { peer_takes_pods: known.peer_takes_pods.or(fresh.peer_takes_pods), ..fresh.clone() };
    let of_claim = |claim: &ClaimView| (claim.namespace.clone(), claim.name.clone());
    storage.claims = newest([&known.claims, &fresh.claims, &watched.claims], of_claim);
    storage.volumes =
        newest([&known.volumes, &fresh.volumes, &watched.volumes], |volume| volume.name.clone());
    if let (Attachments::Listed(all), Attachments::Listed(now)) =
        (&mut storage.attachments, &watched.attachments)
    {
        let is_old = |attachment: &AttachmentView| matches!(&before.storage.attachments, Attachments::Listed(then) if then.contains(attachment));
        let new = now.iter().filter(|new| !is_old(new) && !all.contains(new));
        let new: Vec<_> = new.cloned().collect();
        all.extend(new);
    }
    storage
}

/// The last known version of each object.
fn newest<T: Clone, K: Ord>(versions: [&[T]; 3], key: impl Fn(&T) -> K) -> Vec<T> {
    let all: BTreeMap<K, T> = versions.into_iter().flatten().map(|one| (key(one), one.clone())).collect();
    all.into_values().collect()
}
