//! The pods that have to leave the node, and the history of those that have left.
//!
//! Pods may come back: their owner creates them again on this node in spite of the cordon. That happens when the pod's
//! template names the node (`spec.nodeName`, so no scheduler is asked) or tolerates the cordon. Such a drain would
//! never end; so from the third return on the owner's pods are evicted slowly, and the report shows it. A pod that its owner
//! puts on this node ([`PodView::is_placed_here`]) is left alone from its second return on: it waits for a person. All
//! others may have come by chance (a toleration, a scheduler with an old cache), and may go elsewhere the next time.
//!
//! Rounds are counted, not pods: pods of one owner that come together, before one of them was evicted, count as one
//! return.

mod escalation;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::answer::Answer;
use crate::plan::Planned;
use crate::pod::Track;
use crate::policy::Policy;
use crate::time::Moment;
use crate::view::{PodView, Snapshot};

use self::escalation::{Budget, BudgetHistory};

/// The pods that have to leave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pods {
    /// By UID.
    tracks: BTreeMap<String, Track>,
    /// Number of pods that have left.
    gone: u64,
    /// Returns of each owner's pods to this node, by the owner's UID.
    returns: BTreeMap<String, Returns>,
    /// Recent events of each budget; kept only if the policy escalates.
    history: BTreeMap<Budget, BudgetHistory>,
    /// First refusal of pods in the previous process, by UID.
    refused_before: BTreeMap<String, Moment>,
    /// True if the server does not support evictions.
    no_evictions: bool,
}

/// Returns of one owner's pods to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Returns {
    /// Rounds so far. 0: only the pods that were there from the beginning.
    rounds: u32,
    /// True if a pod of the last round is leaving or has left: a pod that comes now begins the next round.
    is_left: bool,
}

impl Returns {
    /// Notes that a pod of this round is leaving, or has left.
    fn note_left(&mut self, round: u32) {
        self.is_left |= round == self.rounds;
    }
}

/// Whether pods that are new in a snapshot may have come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newcomers {
    /// The first snapshot: all pods are new.
    First,
    /// A scheduler may have bound them from a cache without the cordon.
    MayBeLate,
    /// They have come in spite of the cordon.
    PastTheCordon,
}

impl Pods {
    /// The pods of an attempt that another process began.
    pub(crate) fn resumed(refused_before: BTreeMap<String, Moment>) -> Self {
        Self { refused_before, ..Self::default() }
    }

    /// All pods that have to leave, by UID.
    pub(crate) fn all(&self) -> &BTreeMap<String, Track> {
        &self.tracks
    }

    /// All pods that have to leave.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Track> {
        self.tracks.values()
    }

    /// The pod with this UID.
    pub(crate) fn get(&self, uid: &str) -> Option<&Track> {
        self.tracks.get(uid)
    }

    /// The pod with this UID.
    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut Track> {
        self.tracks.get_mut(uid)
    }

    /// The pod of this node that is the controller of this one, such as the pod of a virtual machine of the one that holds its
    /// hot-plugged disk: it leaves first. `None` if there is none; if a rule has it leave later; and if owners go round in a
    /// circle.
    pub(crate) fn parent(&self, track: &Track) -> Option<&Track> {
        let of = |track: &Track| self.tracks.get(track.owner()?);
        let parent = of(track).filter(|parent| parent.order() <= track.order())?;
        let mut up = Some(parent);
        for _ in 0..self.tracks.len() {
            up = up.and_then(of);
            if up.is_none() {
                return Some(parent);
            }
        }
        None
    }

    /// True if no action of this attempt can make the pod, or one that has to leave before it, leave.
    pub(crate) fn is_immovable(&self, track: &Track) -> bool {
        track.is_immovable() || self.parent(track).is_some_and(|parent| self.is_immovable(parent))
    }

    /// Number of pods that have left.
    pub(crate) fn gone(&self) -> u64 {
        self.gone
    }

    /// True if the server does not support evictions.
    pub(crate) fn no_evictions(&self) -> bool {
        self.no_evictions
    }

    /// True if an eviction was sent, or a pod has left.
    pub(crate) fn is_begun(&self) -> bool {
        self.gone > 0 || self.iter().any(|track| track.tries() > 0)
    }

    /// First refusal of each refused pod, by UID.
    pub(crate) fn refused_since(&self) -> BTreeMap<String, Moment> {
        let refused = |(uid, track): (&String, &Track)| Some((uid.clone(), track.refused_since()?));
        self.tracks.iter().filter_map(refused).collect()
    }

    /// Applies a snapshot: pods that are missing in it have left, new ones are added, all others are updated. True if a
    /// pod came that was not there at the beginning, or one that may come back after it has left.
    pub(crate) fn see(
        &mut self,
        snapshot: &Snapshot,
        planned: &[Planned],
        newcomers: Newcomers,
        now: Moment,
        policy: &Policy,
    ) -> bool {
        self.forget_the_gone(snapshot, planned);
        let is_begun = self.is_begun();
        let mut may_return = false;
        let must_leave = snapshot.pods.iter().zip(planned).filter(|(_, planned)| planned.must_leave());
        let (known, new): (Vec<_>, Vec<_>) =
            must_leave.partition(|(pod, _)| self.tracks.contains_key(&pod.id.uid));
        // The known pods come first: a new pod has come back only if one of them is leaving or has left.
        for (pod, planned) in known {
            if let Some(track) = self.tracks.get_mut(&pod.id.uid) {
                track.see(planned, pod, &snapshot.budgets, is_begun, now, policy);
            }
        }
        for (pod, planned) in new {
            may_return |= newcomers != Newcomers::First || pod.tolerates_cordon;
            let counts = match newcomers {
                Newcomers::First => false,
                Newcomers::MayBeLate => pod.is_placed_here(),
                Newcomers::PastTheCordon => true,
            };
            let returns = if counts { self.returns(pod) } else { 0 };
            let refused_since = self.refused_before.remove(&pod.id.uid);
            let mut track = Track::new(planned, pod, returns, refused_since, now);
            track.see(planned, pod, &snapshot.budgets, is_begun, now, policy);
            self.tracks.insert(pod.id.uid.clone(), track);
        }
        may_return
    }

    /// Removes the pods that are not in the snapshot any more, or that may stay now.
    fn forget_the_gone(&mut self, snapshot: &Snapshot, planned: &[Planned]) {
        let present: BTreeSet<&str> = snapshot.pods.iter().map(|pod| pod.id.uid.as_str()).collect();
        let leaving = planned.iter().filter(|planned| planned.must_leave());
        let leaving: BTreeSet<&str> = leaving.map(|planned| planned.id.uid.as_str()).collect();
        for (uid, track) in &self.tracks {
            if present.contains(uid.as_str()) {
                continue;
            }
            self.gone += 1;
            if let Some(owner) = track.owner() {
                self.returns.entry(owner.to_owned()).or_default().note_left(track.returns());
            }
        }
        self.tracks.retain(|uid, _| leaving.contains(uid.as_str()));
    }

    /// Round of its owner in which this new pod has come back; 0 if it has not come back.
    fn returns(&mut self, pod: &PodView) -> u32 {
        let Some(owner) = pod.controller.as_ref().map(|owner| owner.uid.as_str()) else {
            return 0;
        };
        let of_owner = self.tracks.values().filter(|track| track.owner() == Some(owner));
        for track in of_owner.filter(|track| track.is_leaving()) {
            self.returns.entry(owner.to_owned()).or_default().note_left(track.returns());
        }
        let Some(returns) = self.returns.get_mut(owner) else {
            return 0;
        };
        if std::mem::take(&mut returns.is_left) {
            returns.rounds = returns.rounds.saturating_add(1);
        }
        returns.rounds
    }

    /// Applies the answer to the eviction or deletion of the pod with this UID.
    pub(crate) fn answer(
        &mut self,
        uid: &str,
        answer: Answer,
        snapshot: Option<&Snapshot>,
        now: Moment,
        policy: &Policy,
    ) {
        self.no_evictions |= answer == Answer::NoEvictions;
        let Some(track) = self.tracks.get_mut(uid) else {
            return;
        };
        let pod = snapshot.and_then(|snapshot| snapshot.pods.iter().find(|pod| pod.id.uid == uid));
        let budgets = snapshot.map(|snapshot| snapshot.budgets.as_slice()).unwrap_or_default();
        let is_taken = answer == Answer::Accepted && track.takes_escalation();
        if track.answer(answer, pod, budgets, now, policy) {
            self.note_let_go(uid, now, policy);
        } else if is_taken {
            self.note_escalated(uid, now);
        }
    }

    /// Notes that a fresh list was applied which was asked for at this time.
    pub(crate) fn relisted(&mut self, asked: Moment) {
        self.tracks.values_mut().for_each(|track| track.relisted(asked));
    }

    /// Stops waiting for this pod.
    pub(crate) fn give_up(&mut self, uid: &str) {
        self.tracks.remove(uid);
    }

    /// The API server is back after an outage of this length, during which the clocks stood still. Its budgets may have let
    /// pods go meanwhile, so no pod is deleted in their spite before its eviction was refused again.
    pub(crate) fn come_back(&mut self, away: Duration) {
        for track in self.tracks.values_mut() {
            track.delay(away);
            track.take_back_escalation();
        }
        self.history.values_mut().for_each(|history| history.delay(away));
    }
}
