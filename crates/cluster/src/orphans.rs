//! Finds out which DaemonSets exist: a pod whose DaemonSet is gone is an orphan and has to leave.

use drain::view::{Existence, PodView};
use futures::{StreamExt, stream};
use kube::core::Request;
use kube::core::params::GetParams;

use crate::bounds::CALL_DEADLINE;
use crate::daemon_sets::DaemonSetRef;
use crate::failure::refused;
use crate::operation::{Operation, is_name};
use crate::wire::Cluster;

/// Most questions in flight at a time.
const AT_A_TIME: usize = 8;

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
