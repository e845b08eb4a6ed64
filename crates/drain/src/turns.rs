//! The turns of pods with attached volumes, which leave one after another.
//!
//! A pod with attached volumes has its turn from its eviction until its volumes are attached elsewhere, or until the
//! policy does not wait any longer. A refusal ends a turn: one blocked pod must not hold up the others.

use std::time::Duration;

use crate::policy::Policy;
use crate::time::Moment;
use crate::view::PodId;

/// The turns that are not over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turns(Vec<Turn>);

/// The turn of one pod. Others only read it: [`Turns`] hands none out to be changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) pod: PodId,
    /// Names of the pod's volumes.
    pub(crate) volumes: Vec<String>,
    /// The pod's owner recreates it elsewhere, as far as one can tell, so its volumes will be attached there.
    pub(crate) reattaches: bool,
    /// The pod has to be gone and its volumes detached by then, or the next pod's turn comes.
    limit: Moment,
    /// Since when its volumes are detached.
    detached: Option<Moment>,
}

/// The conditions that a turn waits for, as the last snapshot shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// The pod is still there; true if it is on its way out.
    pub(crate) pod: Option<bool>,
    /// A volume of the pod is still being detached.
    pub(crate) detaches: bool,
    /// A volume of the pod is detached and may be attached to another node, which has not happened yet.
    pub(crate) attaches: bool,
}

/// How a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The pod was refused: it needs another turn.
    Refused,
    /// All is done, or the pod and its volumes took too long.
    Over,
    /// No other node has attached the volumes in time.
    NotReattached,
}

impl Turn {
    /// The turn waits until another node has this volume.
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
    /// All that are not over.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Turn> {
        self.0.iter()
    }

    /// Another pod with attached volumes may leave.
    pub(crate) fn has_room(&self, policy: &Policy) -> bool {
        self.0.len() < policy.stateful.parallel
    }

    /// Begins the turn of this pod, which may take `grace` to end.
    pub(crate) fn begin(
        &mut self,
        pod: PodId,
        volumes: Vec<String>,
        reattaches: bool,
        grace: Duration,
        now: Moment,
        policy: &Policy,
    ) {
        // MCM's limit: the grace and the detach time-out together.
        let limit = now + grace + policy.volumes.detach_timeout;
        self.0.push(Turn { pod, volumes, reattaches, limit, detached: None });
    }

    /// Ends the turns that are over.
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

    /// When the next turn is over without any event.
    pub(crate) fn next_end(&self, policy: &Policy) -> Option<Moment> {
        let end = |turn: &Turn| match turn.detached {
            Some(since) => since + policy.volumes.reattach_timeout,
            None => turn.limit,
        };
        self.0.iter().map(end).min()
    }

    /// The clocks stood still for so long.
    pub(crate) fn delay(&mut self, away: Duration) {
        for turn in &mut self.0 {
            turn.limit = turn.limit + away;
            turn.detached = turn.detached.map(|since| since + away);
        }
    }
}
