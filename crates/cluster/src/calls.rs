//! The effects of [`drain::step()`] as tasks.

use std::sync::Arc;
use std::time::Duration;

use drain::{Answer, Effect, Event, Picture, PodId};
use tokio::task::JoinSet;

use crate::cordon::Cordoned;
use crate::evict::{delete, evict};
use crate::inquire::inquire;
use crate::look::fresh_look;
use crate::wire::Cluster;

/// A look is given up after this time: its lists have many pages in a large cluster, and none may hang for ever.
const LONGEST_LOOK: Duration = Duration::from_mins(10);

/// The calls of a drain that are in flight.
///
/// Each runs as a task under its own deadline and ends in one event. How many there are at a time is the step's
/// decision: it sends no more than its policy allows. Dropping this gives all of them up.
#[derive(Debug)]
pub(crate) struct Calls {
    cluster: Cluster,
    proof: Arc<Cordoned>,
    running: JoinSet<Event>,
}

impl Calls {
    /// Nothing is in flight yet. The proof is needed for every eviction.
    pub(crate) fn new(cluster: Cluster, proof: Cordoned) -> Self {
        Self { cluster, proof: Arc::new(proof), running: JoinSet::new() }
    }

    /// From now on calls go over this connection. Those in flight stay on theirs, and are answered.
    pub(crate) fn reconnect(&mut self, cluster: Cluster) {
        self.cluster = cluster;
    }

    /// Begins a call, or gives all up. [`Effect::WakeAt`] is the caller's: this has no clock.
    ///
    /// `last` is the last picture; a fresh look takes its budgets over, and what it knows of claims and volumes.
    pub(crate) fn perform(&mut self, effect: Effect, last: Option<&Arc<Picture>>) {
        match effect {
            Effect::Evict { attempt, pod, grace } => {
                let (cluster, proof) = (self.cluster.clone(), Arc::clone(&self.proof));
                self.running.spawn(async move {
                    let answer = evict(&cluster, &proof, &pod, grace).await;
                    answered(attempt, pod, answer)
                });
            }
            Effect::Delete { attempt, pod, grace } => {
                let (cluster, proof) = (self.cluster.clone(), Arc::clone(&self.proof));
                self.running.spawn(async move {
                    let answer = delete(&cluster, &proof, &pod, grace).await;
                    answered(attempt, pod, answer)
                });
            }
            Effect::Prove { attempt, volumes } => {
                let (cluster, proof) = (self.cluster.clone(), Arc::clone(&self.proof));
                let last = last.cloned();
                self.running.spawn(async move {
                    let look = fresh_look(&cluster, proof.name(), last.as_deref(), volumes);
                    let look = match tokio::time::timeout(LONGEST_LOOK, look).await {
                        Ok(look) => look.map(Arc::new).map_err(|failure| failure.to_string()),
                        Err(_) => Err(format!(
                            "the lists of the node's pods and attachments did not end within {} min",
                            LONGEST_LOOK.as_secs() / 60
                        )),
                    };
                    Event::Proof { attempt, look }
                });
            }
            Effect::Inquire { attempt, inquiry } => {
                let (cluster, proof) = (self.cluster.clone(), Arc::clone(&self.proof));
                self.running.spawn(async move {
                    let findings = inquire(&cluster, proof.name(), &inquiry).await;
                    Event::Found { attempt, findings: Arc::new(findings) }
                });
            }
            Effect::Abort => self.abort(),
            Effect::WakeAt(_) => {}
        }
    }

    /// Waits for the next answer; for ever if nothing is in flight. May be dropped and called again at any time.
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

    /// Gives up all calls within milliseconds. Their answers, also those that are there already, are lost; what the
    /// server did with them, the next picture shows.
    pub(crate) fn abort(&mut self) {
        self.running = JoinSet::new();
    }

    /// How many calls are in flight or not yet fetched by [`Calls::next`].
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
#[path = "calls_tests.rs"]
mod tests;
