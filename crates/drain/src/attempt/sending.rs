//! Chooses the pods to evict now, and keeps the turns of pods with attached volumes.

use std::collections::BTreeMap;

use crate::budget::{guarding, in_flight_limit};
use crate::event::Effect;
use crate::pod::{DeletionMethod, Track};
use crate::pods::Pods;
use crate::policy::{Method, Policy};
use crate::storage::Attachments;
use crate::time::Moment;
use crate::turns::{End, Turn, Waits};
use crate::view::{PodView, Snapshot};
use crate::volumes::{StorageIndex, VolumeStage, Volumes};

use super::Attempt;

impl Attempt {
    /// Sends what may be sent: in order, within the policy's concurrency, within what each budget takes, and pods with
    /// attached volumes when their turn comes. By force all pods go, past all of these but the concurrency.
    pub(crate) fn send(&mut self, now: Moment, policy: &Policy) -> Vec<Effect> {
        let Some(snapshot) = self.snapshot.clone() else {
            return Vec::new();
        };
        let is_forced = self.is_forced(now, policy);
        let (order, mut budgets) = (self.current_order(policy), BudgetUse::of(&self.pods, &snapshot));
        let mut in_flight = self.pods.iter().filter(|track| track.is_in_flight()).count();
        let mut effects = Vec::new();
        for pod in self.in_turn(&snapshot, policy) {
            if in_flight >= policy.concurrency {
                break;
            }
            let sent = if is_forced {
                self.kill(pod, now, policy)
            } else {
                self.send_one(pod, order, &snapshot, &mut budgets, now, policy)
            };
            in_flight += usize::from(sent.is_some());
            effects.extend(sent);
        }
        effects
    }

    fn kill(&mut self, pod: &PodView, now: Moment, policy: &Policy) -> Option<Effect> {
        let track = self.pods.get_mut(&pod.id.uid)?;
        track.is_kill_due(now, policy).then(|| track.kill(self.number, now))
    }

    fn send_one<'a>(
        &mut self,
        pod: &'a PodView,
        order: i32,
        snapshot: &'a Snapshot,
        budgets: &mut BudgetUse<'a>,
        now: Moment,
        policy: &Policy,
    ) -> Option<Effect> {
        let never_evicts = self.pods.no_evictions() || policy.method != Method::Evict;
        let waits = self.pods.get(&pod.id.uid).is_some_and(|track| self.pods.parent(track).is_some());
        let track = self.pods.get_mut(&pod.id.uid)?;
        if never_evicts {
            track.give_up_evictions();
        }
        if pod.terminating.is_some() {
            // The pod is terminating: turn and budgets do not matter any more.
            return track.is_shortening_due(now, policy).then(|| track.shorten(self.number, now));
        }
        let may = !waits
            && track.is_due(now)
            && track.order() <= order
            && (track.needs_no_turn() || self.turns.has_room(pod, policy))
            && (track.by() != DeletionMethod::Eviction || budgets.take(pod, snapshot));
        if !may {
            return None;
        }
        let effect = track.send(self.number, pod, &snapshot.budgets, now);
        self.begin_turn(pod, now, policy);
        Some(effect)
    }

    /// First the pods without attached volumes, in the snapshot's order; then those with, by priority.
    fn in_turn<'a>(&self, snapshot: &'a Snapshot, policy: &Policy) -> Vec<&'a PodView> {
        let is_stateful = |pod: &PodView| self.pods.get(&pod.id.uid).is_some_and(Track::is_stateful);
        let (mut last, mut pods): (Vec<&PodView>, Vec<&PodView>) =
            snapshot.pods.iter().partition(|pod| is_stateful(pod));
        last.sort_by(|a, b| policy.stateful.order.compare(a.priority, b.priority));
        pods.append(&mut last);
        pods
    }

    /// The order whose pods may leave now: the lowest of all pods and awaited volumes that are left.
    fn current_order(&self, policy: &Policy) -> i32 {
        let awaited = self.volumes.iter().filter(|volume| volume.is_awaited(policy));
        let volumes = awaited.map(|volume| volume.order);
        self.pods.iter().map(Track::order).chain(volumes).min().unwrap_or(0)
    }

    /// Begins the turns of pods that are leaving, also of those that were terminating before the drain began, and ends
    /// turns.
    pub(crate) fn settle_turns(&mut self, now: Moment, policy: &Policy) {
        let Some(snapshot) = self.snapshot.clone() else {
            return;
        };
        for pod in &snapshot.pods {
            if self.pods.get(&pod.id.uid).is_some_and(Track::is_on_its_way) {
                self.begin_turn(pod, now, policy);
            }
        }
        if self.turns.iter().next().is_none() {
            return;
        }
        let index = StorageIndex::of(&snapshot);
        let (pods, volumes) = (&self.pods, &self.volumes);
        let waits = |turn: &Turn| Waits {
            pod: pods.get(&turn.pod.uid).map(Track::is_on_its_way),
            detaches: in_stage(turn, volumes, VolumeStage::Detaching).next().is_some(),
            attaches: may_reattach(turn, &snapshot, policy)
                && unattached(turn, volumes, &index).next().is_some(),
        };
        for (turn, end) in self.turns.settle(waits, now, policy) {
            match end {
                End::Over => {}
                End::Refused => {
                    if let Some(track) = self.pods.get_mut(&turn.pod.uid) {
                        track.end_turn();
                    }
                }
                End::NotReattached => {
                    let late: Vec<String> =
                        unattached(&turn, &self.volumes, &index).map(str::to_owned).collect();
                    for volume in late {
                        self.volumes.note_late(&volume);
                    }
                }
            }
        }
    }

    fn begin_turn(&mut self, pod: &PodView, now: Moment, policy: &Policy) {
        if let Some(track) = self.pods.get_mut(&pod.id.uid)
            && track.begin_turn()
        {
            let volumes = track.volumes().to_vec();
            self.turns.begin(pod, volumes, track.is_recreated(), track.grace(), now, policy);
        }
    }
}

/// Names of the turn's volumes in this stage.
fn in_stage<'a>(turn: &'a Turn, volumes: &'a Volumes, stage: VolumeStage) -> impl Iterator<Item = &'a str> {
    let known = turn.volumes.iter().filter_map(|name| volumes.all().get(name));
    known.filter(move |volume| volume.stage == stage).map(|volume| volume.volume.as_str())
}

/// Detached volumes of the turn that no other node has attached yet.
fn unattached<'a>(
    turn: &'a Turn,
    volumes: &'a Volumes,
    index: &'a StorageIndex<'_>,
) -> impl Iterator<Item = &'a str> {
    in_stage(turn, volumes, VolumeStage::Detached).filter(|volume| !index.is_elsewhere(volume))
}

/// True if the pod is created again, another node accepts it, and attachments can be read, so that its volumes may be
/// seen attached elsewhere.
fn may_reattach(turn: &Turn, snapshot: &Snapshot, policy: &Policy) -> bool {
    turn.reattaches
        && !policy.volumes.reattach_timeout.is_zero()
        && snapshot.storage.peer_takes_pods != Some(false)
        && matches!(snapshot.storage.attachments, Attachments::Listed(_))
}

/// Evictions that each budget has allowed and that its status does not show yet.
struct BudgetUse<'a>(BTreeMap<(&'a str, &'a str), usize>);

impl<'a> BudgetUse<'a> {
    fn of(pods: &Pods, snapshot: &'a Snapshot) -> Self {
        let mut taken = Self(BTreeMap::new());
        if snapshot.budgets.is_empty() {
            return taken;
        }
        for pod in &snapshot.pods {
            if pods.get(&pod.id.uid).is_some_and(|track| track.uses_budgets(pod, &snapshot.budgets)) {
                taken.add(pod, snapshot);
            }
        }
        taken
    }

    /// Uses one place of every budget of the pod, if all have one.
    fn take(&mut self, pod: &'a PodView, snapshot: &'a Snapshot) -> bool {
        let has_room = guarding(pod, &snapshot.budgets).all(|budget| {
            let key = (budget.namespace.as_str(), budget.name.as_str());
            self.0.get(&key).copied().unwrap_or(0) < in_flight_limit(budget)
        });
        if has_room {
            self.add(pod, snapshot);
        }
        has_room
    }

    fn add(&mut self, pod: &'a PodView, snapshot: &'a Snapshot) {
        for budget in guarding(pod, &snapshot.budgets) {
            *self.0.entry((&budget.namespace, &budget.name)).or_default() += 1;
        }
    }
}
