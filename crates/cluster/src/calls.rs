//! Carries the effects of [`drain::step()`] out, each as a task.

use std::sync::Arc;
use std::time::Duration;

use drain::{Answer, Effect, Event, PodId, Snapshot};
use tokio::task::JoinSet;

use crate::cordon::Cordoned;
use crate::evict::{delete, evict};
use crate::eviction_limits::EvictionLimits;
use crate::inquire::inquire;
use crate::relist::relist;
use crate::wire::Cluster;

/// Time limit of one relist: in a large cluster it has many pages, and no list may hang for ever.
const RELIST_DEADLINE: Duration = Duration::from_mins(10);

/// The calls of a drain that are in flight.
///
/// Each call is a task with its own deadline and ends in one event. The step decides how many run at a time: it sends no
/// more than its policy allows. Dropping this ends all of them.
#[derive(Debug)]
pub(crate) struct Calls {
    cluster: Cluster,
    cordoned: Arc<Cordoned>,
    limits: EvictionLimits,
    running: JoinSet<Event>,
}

impl Calls {
    /// Creates it without calls. Every eviction needs `cordoned`.
    pub(crate) fn new(cluster: Cluster, cordoned: Cordoned, limits: EvictionLimits) -> Self {
        cluster.pace().forget_what_was_read();
        Self { cluster, cordoned: Arc::new(cordoned), limits, running: JoinSet::new() }
    }

    /// Later calls use this connection. Calls in flight stay on theirs, and are answered.
    pub(crate) fn reconnect(&mut self, cluster: Cluster) {
        self.cluster = cluster;
    }

    /// Starts a call, or ends all. The caller handles [`Effect::WakeAt`], because this struct has no clock.
    ///
    /// `last` is the newest snapshot. It tells the budget of an eviction; a relist takes over its budgets, and its known claims and volumes.
    pub(crate) fn perform(&mut self, effect: Effect, last: Option<&Arc<Snapshot>>) {
        match effect {
            Effect::Evict { attempt, pod, grace } => {
                let (cluster, cordoned) = (self.cluster.clone(), Arc::clone(&self.cordoned));
                let budget = last.and_then(|snapshot| snapshot.budget_of(&pod)).cloned();
                let limits = self.limits.clone();
                self.running.spawn(async move {
                    let eviction = evict(&cluster, &cordoned, &pod, grace);
                    let answer = limits.within(budget.as_ref(), eviction).await;
                    answered(attempt, pod, answer)
                });
            }
            Effect::Delete { attempt, pod, grace } => {
                let (cluster, cordoned) = (self.cluster.clone(), Arc::clone(&self.cordoned));
                self.running.spawn(async move {
                    let answer = delete(&cluster, &cordoned, &pod, grace).await;
                    answered(attempt, pod, answer)
                });
            }
            Effect::Relist { attempt, volumes } => {
                let (cluster, cordoned) = (self.cluster.clone(), Arc::clone(&self.cordoned));
                let last = last.cloned();
                self.running.spawn(async move {
                    let snapshot = relist(&cluster, cordoned.name(), last.as_deref(), volumes);
                    let snapshot = match tokio::time::timeout(RELIST_DEADLINE, snapshot).await {
                        Ok(snapshot) => snapshot.map(Arc::new).map_err(|failure| failure.to_string()),
                        Err(_) => Err(format!(
                            "the lists of the node's pods and attachments did not end within {} min",
                            RELIST_DEADLINE.as_secs() / 60
                        )),
                    };
                    Event::Relisted { attempt, result: snapshot }
                });
            }
            Effect::Inquire { attempt, inquiry } => {
                let (cluster, cordoned) = (self.cluster.clone(), Arc::clone(&self.cordoned));
                self.running.spawn(async move {
                    let findings = inquire(&cluster, cordoned.name(), &inquiry).await;
                    Event::Found { attempt, findings: Arc::new(findings) }
                });
            }
            Effect::Abort => self.abort(),
            Effect::WakeAt(_) => {}
        }
    }

    /// Waits for the next answer; for ever if no call is in flight. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        while let Some(ended) = self.running.join_next().await {
            match ended {
                Ok(event) => return event,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => {}
            }
        }
        std::future::pending().await
    }

    /// Ends all calls within milliseconds. Their answers are lost, also those that have already come; the next snapshot
    /// shows what the server did with them.
    pub(crate) fn abort(&mut self) {
        self.running = JoinSet::new();
    }

    /// Number of calls in flight or with an answer that [`Calls::next`] has not returned yet.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.running.len()
    }
}

fn answered(attempt: u32, pod: PodId, answer: Answer) -> Event {
    tracing::debug!(%pod, ?answer, "answered");
    Event::Answer { attempt, uid: pod.uid, answer }
}

#[cfg(test)]
mod tests;
