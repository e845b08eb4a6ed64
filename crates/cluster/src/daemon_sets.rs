//! Remembers which DaemonSets exist; [`crate::orphans`] asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drain::Moment;
use drain::view::{Existence, PodView};

use crate::clock::boot_time;

/// How long an answer counts.
const FRESH: Duration = Duration::from_mins(5);

/// Pause before a question without an answer is asked again.
const RETRY: Duration = Duration::from_secs(30);

/// Most entries of the memory; a fuller one is emptied. A node has a few dozen DaemonSets at most.
const MOST: usize = 1_000;

/// A DaemonSet that a pod names as its controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DaemonSetRef {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl DaemonSetRef {
    /// The DaemonSet that the pod names as its controller, if it names one.
    pub(crate) fn of(pod: &PodView) -> Option<Self> {
        let controller = pod.controller.as_ref().filter(|controller| controller.is_daemon_set())?;
        Some(Self {
            uid: controller.uid.clone(),
            namespace: pod.id.namespace.clone(),
            name: controller.name.clone(),
        })
    }
}

/// Known DaemonSets, by UID.
#[derive(Debug, Default)]
pub(crate) struct DaemonSets(Mutex<BTreeMap<String, Known>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    existence: Existence,
    until: Moment,
}

impl DaemonSets {
    /// Copies the known state of its DaemonSet into the pod's view.
    pub(crate) fn fill_in(&self, pod: &mut PodView) {
        if let Some(owner) = DaemonSetRef::of(pod)
            && let Some(controller) = &mut pod.controller
        {
            controller.existence = self.existence(&owner.uid);
        }
    }

    /// True if the DaemonSet has to be asked for, for the first time or again.
    pub(crate) fn is_due(&self, owner: &DaemonSetRef) -> bool {
        self.known().get(&owner.uid).is_none_or(|known| known.until <= boot_time())
    }

    fn existence(&self, uid: &str) -> Existence {
        self.known().get(uid).map_or(Existence::Unknown, |known| known.existence)
    }

    /// Notes an answer; `Unknown` if there was none.
    pub(crate) fn learn(&self, uid: &str, existence: Existence) {
        let holds = if existence == Existence::Unknown { RETRY } else { FRESH };
        let mut all = self.known();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(uid.to_owned(), Known { existence, until: boot_time() + holds });
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
