//! Finds out which DaemonSets exist: a pod whose DaemonSet is gone is an orphan and has to leave.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drain::Moment;
use drain::view::{Existence, PodView};
use futures::{StreamExt, stream};
use kube::core::Request;
use kube::core::params::GetParams;

use crate::clock::boot_time;
use crate::failure::refused;
use crate::operation::{Operation, is_name};
use crate::wire::{CALL_DEADLINE, Cluster};

/// How long an answer counts.
const FRESH: Duration = Duration::from_mins(5);

/// Pause before a question without an answer is asked again.
const RETRY: Duration = Duration::from_secs(30);

/// Most entries of the memory; a fuller one is emptied. A node has a few dozen DaemonSets at most.
const MOST: usize = 1_000;

/// Most questions in flight at a time.
const AT_A_TIME: usize = 8;

/// A DaemonSet that a pod names as its controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DaemonSetRef {
    pub(crate) uid: String,
    namespace: String,
    name: String,
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

    fn learn(&self, uid: &str, existence: Existence) {
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

impl Cluster {
    /// Asks for the DaemonSets of these pods that are not known, and copies the results into the views.
    pub(crate) async fn fill_in_owners(&self, pods: &mut [PodView]) {
        let mut due: Vec<_> = pods.iter().filter_map(DaemonSetRef::of).collect();
        due.sort();
        due.dedup();
        due.retain(|owner| self.daemon_sets().is_due(owner));
        stream::iter(due).for_each_concurrent(AT_A_TIME, |owner| self.look_up(owner)).await;
        for pod in pods {
            self.daemon_sets().fill_in(pod);
        }
    }

    /// Asks for one DaemonSet, by name as kubectl does. Only a 404 that names it counts as missing.
    pub(crate) async fn look_up(&self, owner: DaemonSetRef) {
        let existence = if is_name(&owner.name) && is_name(&owner.namespace) {
            self.ask(&owner).await
        } else {
            Existence::Unknown
        };
        self.daemon_sets().learn(&owner.uid, existence);
    }

    async fn ask(&self, owner: &DaemonSetRef) -> Existence {
        let operation =
            Operation { verb: "get", resource: "daemonsets", namespace: &owner.namespace, name: &owner.name };
        let path = format!("/apis/apps/v1/namespaces/{}/daemonsets", owner.namespace);
        // Only the status code counts, so the shortest possible answer, the metadata, is asked for.
        let request = Request::new(path).get_metadata(&owner.name, &GetParams::default());
        match self.call(&operation, request, CALL_DEADLINE).await {
            Ok(reply) if reply.status.is_success() => Existence::Present,
            Ok(reply) if reply.says_missing(&operation) => Existence::Missing,
            Ok(reply) => {
                tracing::warn!("{}", refused(&operation, reply.status.as_u16(), ""));
                Existence::Unknown
            }
            Err(failure) => {
                tracing::warn!("{failure}");
                Existence::Unknown
            }
        }
    }
}
