//! Turns of pods with attached volumes, which leave one after another, or one of each owner at a time.
//!
//! A pod's turn lasts from its eviction until its volumes are attached elsewhere, or until a time limit of the policy.
//! A refusal ends the turn, so that one blocked pod does not hold up the others.

use std::time::Duration;

use crate::policy::{Policy, StatefulParallel};
use crate::time::Moment;
use crate::view::{PodId, PodView};

/// The turns that have not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turns(Vec<Turn>);

/// Turn of one pod. Other modules can only read it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) pod: PodId,
    /// UID of the pod's controller; of the pod itself, if it has none.
    pub(crate) owner: String,
    /// Priority of the pod.
    pub(crate) priority: i32,
    /// Names of the pod's volumes.
    pub(crate) volumes: Vec<String>,
    /// True if the pod's owner probably creates it again elsewhere, so that its volumes will be attached there.
    pub(crate) reattaches: bool,
    /// Time limit for the end of the pod and the detaching of its volumes; after it the next pod's turn comes.
    limit: Moment,
    /// Time when its volumes were detached.
    detached: Option<Moment>,
}

/// Conditions that a turn waits for, from the last snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// `Some` while the pod exists; true if it is terminating or about to.
    pub(crate) pod: Option<bool>,
    /// True while a volume of the pod is being detached.
    pub(crate) detaches: bool,
    /// True while a detached volume of the pod is expected on another node.
    pub(crate) attaches: bool,
}

/// Reason for the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The pod was refused: it needs another turn.
    Refused,
    /// The turn is complete, or the pod and its volumes took too long.
    Over,
    /// No other node has attached the volumes in time.
    NotReattached,
}

impl Turn {
    /// True if the turn waits until another node has attached this volume.
    pub(crate) fn awaits_reattach_of(&self, volume: &str) -> bool {
        self.detached.is_some() && self.volumes.iter().any(|name| name == volume)
    }

    fn end(&mut self, waits: Waits, now: Moment, policy: &Policy) -> Option<End> {
        let is_too_long = self.limit <= now;
        match waits.pod {
            Some(false) => return Some(End::Refused),
            Some(true) => return is_too_long.then_some(End::Over),
            None if is_too_long && self.detached.is_none() => return Some(End::Over),
            None if waits.detaches => return None,
            None if !waits.attaches => return Some(End::Over),
            None => {}
        }
        let since = *self.detached.get_or_insert(now);
        (since + policy.volumes.reattach_timeout <= now).then_some(End::NotReattached)
    }
}

impl Turns {
    /// All turns that have not ended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Turn> {
        self.0.iter()
    }

    /// True if this pod, which has attached volumes, may leave beside the pods whose turns have not ended.
    pub(crate) fn has_room(&self, pod: &PodView, policy: &Policy) -> bool {
        match policy.stateful.parallel {
            StatefulParallel::Count(most) => self.0.len() < most,
            StatefulParallel::Auto => self.0.iter().all(|turn| {
                let is_before = policy.stateful.order.compare(turn.priority, pod.priority).is_lt();
                !is_before && turn.owner != owner(pod)
            }),
        }
    }

    /// Begins the turn of this pod, which has `grace` to terminate.
    pub(crate) fn begin(
        &mut self,
        pod: &PodView,
        volumes: Vec<String>,
        reattaches: bool,
        grace: Duration,
        now: Moment,
        policy: &Policy,
    ) {
        // The same limit as MCM's: grace period and detach time-out together.
        let limit = now + grace + policy.volumes.detach_timeout;
        let (owner, priority) = (owner(pod).to_owned(), pod.priority);
        self.0.push(Turn {
            pod: pod.id.clone(),
            owner,
            priority,
            volumes,
            reattaches,
            limit,
            detached: None,
        });
    }

    /// Ends turns, and returns each with its reason.
    pub(crate) fn settle(
        &mut self,
        waits: impl Fn(&Turn) -> Waits,
        now: Moment,
        policy: &Policy,
    ) -> Vec<(Turn, End)> {
        let mut ended = Vec::new();
        self.0.retain_mut(|turn| match turn.end(waits(turn), now, policy) {
            Some(end) => {
                ended.push((turn.clone(), end));
                false
            }
            None => true,
        });
        ended
    }

    /// Earliest time at which a turn ends without an event.
    pub(crate) fn next_end(&self, policy: &Policy) -> Option<Moment> {
        let end = |turn: &Turn| match turn.detached {
            Some(since) => since + policy.volumes.reattach_timeout,
            None => turn.limit,
        };
        self.0.iter().map(end).min()
    }

    /// Moves all times by the length of an outage, during which the clocks stood still.
    pub(crate) fn delay(&mut self, away: Duration) {
        for turn in &mut self.0 {
            turn.limit = turn.limit + away;
            turn.detached = turn.detached.map(|since| since + away);
        }
    }
}

/// UID of the pod's controller; of the pod itself, if it has none.
fn owner(pod: &PodView) -> &str {
    pod.controller.as_ref().map_or(&pod.id.uid, |controller| &controller.uid)
}
