//! Turns the input and output of an attempt into events of [`drain::step()`].
//!
//! Both callers of the step, [`crate::Drainer`] for a command and zedkube on a device, use a [`Driver`]. The watches on
//! the node, the calls in flight, a watch that is refused for long, and the probe that finds out whether the API server
//! is away become events here and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use drain::{Answer, Effect, Event, Findings, Snapshot};
use tokio::sync::mpsc;

use crate::calls::Calls;
use crate::clock::{Clock, boot_time};
use crate::cordon::Cordoned;
use crate::eviction_limits::EvictionLimits;
use crate::failure::ApiFailure;
use crate::informer::{Failures, Informer, SharedWatches};
use crate::probe::Probe;
use crate::wire::Cluster;

/// Pause before an eviction that could not be sent is tried again.
const NO_CONNECTION: Duration = Duration::from_secs(1);

/// Drives the attempts to drain one node. Dropping it ends all its watches and calls.
#[derive(Debug)]
pub struct Driver {
    clock: Clock,
    limits: EvictionLimits,
    watching: Option<Watching>,
    calls: Option<Calls>,
    /// Answers to effects that could not be sent.
    unsent: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    awaits_snapshot: bool,
}

/// The watches on a node, and the probe that finds out whether their API server is away.
#[derive(Debug)]
struct Watching {
    cluster: Cluster,
    informer: Informer,
    failures: Failures,
    probe: Probe,
}

impl Default for Driver {
    fn default() -> Self {
        Self::with_clock(boot_time, EvictionLimits::default())
    }
}

impl Driver {
    /// Uses another clock than `CLOCK_BOOTTIME`, and evicts within these limits. No node is watched yet.
    pub(crate) fn with_clock(clock: Clock, limits: EvictionLimits) -> Self {
        let unsent = mpsc::unbounded_channel();
        Self { clock, limits, watching: None, calls: None, unsent, awaits_snapshot: false }
    }

    /// Begins to watch the node. Earlier watches end; calls in flight stay on their connection and are answered, later
    /// calls use this one. Has to be called in a tokio runtime.
    pub fn watch(&mut self, cluster: &Cluster, node: &str) {
        self.watch_sharing(&SharedWatches::default(), cluster, node);
    }

    /// As [`Driver::watch`], but shares watches with the other drivers of this cluster that use the same ones.
    pub(crate) fn watch_sharing(&mut self, shared: &SharedWatches, cluster: &Cluster, node: &str) {
        let informer = Informer::sharing(shared, cluster, node, boot_time);
        self.watching = Some(Watching {
            cluster: cluster.clone(),
            failures: informer.failures(),
            informer,
            probe: Probe::new(cluster.clone(), node, self.clock),
        });
        if let Some(calls) = &mut self.calls {
            calls.reconnect(cluster.clone());
        }
    }

    /// Ends the watches. Calls in flight go on.
    pub fn unwatch(&mut self) {
        self.watching = None;
    }

    /// Sets whether an attempt waits for its first snapshot. Meanwhile a watch that the server refuses for good becomes
    /// [`Event::Unseen`], because no snapshot will come.
    pub fn await_snapshot(&mut self, awaits: bool) {
        self.awaits_snapshot = awaits;
    }

    /// Allows evictions from now on, because the node is cordoned. An earlier `Cordoned` is kept until
    /// [`Effect::Abort`].
    pub fn permit(&mut self, cordoned: &Cordoned) {
        if let (None, Some(watching)) = (&self.calls, &self.watching) {
            self.calls = Some(Calls::new(watching.cluster.clone(), cordoned.clone(), self.limits.clone()));
        }
    }

    /// Carries out an effect of the step. An effect that cannot be sent, because there is no connection or no
    /// [`Driver::permit`], gets an answer too, because otherwise the step would wait for ever. The caller handles
    /// [`Effect::WakeAt`].
    ///
    /// `known` is the attempt's newest snapshot. A relist takes over its budgets, and its known claims and volumes.
    pub fn perform(&mut self, effect: Effect, known: Option<&Arc<Snapshot>>) {
        if effect == Effect::Abort {
            self.calls = None;
        } else if let Some(calls) = &mut self.calls {
            calls.perform(effect, known);
        } else if let Some(event) = not_sent(effect) {
            // The receiver is in this struct, so sending cannot fail.
            self.unsent.0.send(event).unwrap_or_default();
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> Event {
        let Self { watching, calls, unsent, awaits_snapshot, .. } = self;
        let call = async {
            match calls {
                Some(calls) => calls.next().await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            Some(event) = unsent.1.recv() => event,
            event = call => event,
            event = watch_event(watching.as_mut(), *awaits_snapshot) => event,
        };
        if let (Some(watching), true) = (&mut self.watching, raises_doubt(&event)) {
            watching.probe.doubt();
        }
        event
    }

    /// Failure of a watch, if no event has come from that watch since: the snapshot may be out of date.
    pub fn last_error(&self) -> Option<ApiFailure> {
        self.watching.as_ref()?.informer.last_error()
    }
}

/// The next event of the watches: a snapshot, a refusal, or an outage of the API server.
async fn watch_event(watching: Option<&mut Watching>, awaits_snapshot: bool) -> Event {
    let Some(Watching { informer, failures, probe, .. }) = watching else {
        return std::future::pending().await;
    };
    let mut refused = failures.clone();
    loop {
        tokio::select! {
            snapshot = informer.changed() => return Event::Snapshot(snapshot),
            event = probe.changed() => return event,
            failure = failures.next() => {
                if failure.is_unreachable() {
                    probe.doubt();
                }
            }
            refusal = refused.refused(), if awaits_snapshot => {
                return Event::Unseen { why: refusal.text().to_owned() };
            }
        }
    }
}

/// True if the server may be away after this event: the watches do not report an eviction that was not carried out or a
/// list that failed. A server that says when to come again is there.
fn raises_doubt(event: &Event) -> bool {
    matches!(
        event,
        Event::Answer { answer: Answer::Throttled { after: None, .. }, .. }
            | Event::Relisted { result: Err(_), .. }
    )
}

/// The answer to an effect that could not be sent.
fn not_sent(effect: Effect) -> Option<Event> {
    let text = "there is no connection to the API server just now".to_owned();
    match effect {
        Effect::Evict { attempt, pod, .. } | Effect::Delete { attempt, pod, .. } => {
            let answer = Answer::Throttled { after: Some(NO_CONNECTION), text };
            Some(Event::Answer { attempt, uid: pod.uid, answer })
        }
        Effect::Relist { attempt, .. } => Some(Event::Relisted { attempt, result: Err(text) }),
        Effect::Inquire { attempt, .. } => {
            let findings = Arc::new(Findings { trouble: vec![text], ..Findings::default() });
            Some(Event::Found { attempt, findings })
        }
        Effect::WakeAt(_) | Effect::Abort => None,
    }
}
