//! Applies snapshots and answers.

use std::sync::Arc;

use crate::answer::Answer;
use crate::event::Effect;
use crate::plan::{Planned, plan};
use crate::pods::Newcomers;
use crate::policy::Policy;
use crate::relist::Relist;
use crate::storage::Attachments;
use crate::time::Moment;
use crate::view::Snapshot;

use super::Attempt;

/// Result of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relisted {
    /// No usable result, or the answer is out of date.
    Failed,
    /// The API server, the watch and the list of pods agree: the node does not exist any more.
    NodeGone,
    /// The node is schedulable again.
    Uncordoned,
    /// The relist was applied. `proves`: the final check has asked for it, and no pod in it has to leave.
    Applied { proves: bool },
}

impl Attempt {
    /// Applies a snapshot of the watches.
    pub(crate) fn watched(&mut self, snapshot: Arc<Snapshot>, now: Moment, policy: &Policy) {
        let known = self.relists.watch(snapshot, self.snapshot.as_deref());
        self.apply(known, now, policy);
    }

    /// Applies the answer to the eviction or deletion of the pod with this UID.
    pub(crate) fn answered(&mut self, uid: &str, answer: Answer, now: Moment, policy: &Policy) {
        self.pods.answer(uid, answer, self.snapshot.as_deref(), now, policy);
    }

    /// Asks for a relist.
    pub(crate) fn ask(&mut self, is_final_check: bool, now: Moment, policy: &Policy) -> Effect {
        let has_volumes =
            !self.volumes.all().is_empty() || self.pods.iter().any(|track| track.volumes_unknown().is_some());
        let asks = is_final_check || self.snapshot.is_none() || has_volumes;
        let volumes = asks && self.volumes_count(now, policy);
        self.relists.ask(is_final_check, volumes, now);
        Effect::Relist { attempt: self.number, volumes }
    }

    /// Applies the answer to the relist in flight.
    pub(crate) fn relisted(
        &mut self,
        answer: Result<Arc<Snapshot>, String>,
        now: Moment,
        policy: &Policy,
    ) -> Relisted {
        let Some(relist) = self.relists.answered() else {
            return Relisted::Failed;
        };
        let found = match answer {
            Ok(found) => found,
            Err(why) => return self.relist_failed(why, false, now),
        };
        let Some(node) = &found.node else {
            return match self.relists.contradiction(&found, self.seen_cordoned) {
                Some(why) => self.relist_failed(why, false, now),
                None => Relisted::NodeGone,
            };
        };
        // A watch may lag behind our cordon, but not the server itself.
        if !node.cordoned {
            return Relisted::Uncordoned;
        }
        if relist.volumes && found.storage.attachments == Attachments::NotAsked {
            return self.relist_failed(
                "it does not list what is attached to the node".to_owned(),
                false,
                now,
            );
        }
        if let Some(why) = found.storage.unreadable().filter(|_| relist.volumes && self.must_see(now, policy))
        {
            return self.relist_failed(why.to_owned(), true, now);
        }
        let known = self.relists.apply(&relist, &found, self.snapshot.as_deref());
        self.pods.relisted(self.relists.asked());
        self.apply(Arc::clone(&known), now, policy);
        let is_empty = !plan(&found, policy).iter().any(Planned::must_leave);
        let proves =
            relist.is_final_check && is_empty && self.has_needed_volumes(&relist, &found, now, policy);
        if proves {
            self.volumes.await_leftovers(&known, &self.planned, now, policy);
        }
        Relisted::Applied { proves }
    }

    fn relist_failed(&mut self, why: String, is_refusal: bool, now: Moment) -> Relisted {
        self.relists.note_failure(why, is_refusal, now);
        Relisted::Failed
    }

    /// True if the relist, which was just applied, has all facts about volumes that the policy needs.
    fn has_needed_volumes(&self, relist: &Relist, found: &Snapshot, now: Moment, policy: &Policy) -> bool {
        let is_listed = matches!(found.storage.attachments, Attachments::Listed(_) | Attachments::NotServed);
        !self.volumes_count(now, policy) || (relist.volumes && (is_listed || !self.must_see(now, policy)))
    }

    /// Applies the latest known state.
    fn apply(&mut self, snapshot: Arc<Snapshot>, now: Moment, policy: &Policy) {
        let planned = plan(&snapshot, policy);
        let newcomers = match &self.snapshot {
            None => Newcomers::First,
            Some(_) if self.may_bind_late(now) => Newcomers::MayBeLate,
            Some(_) => Newcomers::PastTheCordon,
        };
        self.seen_cordoned |= snapshot.node.as_ref().is_some_and(|node| node.cordoned);
        self.seen = now;
        self.pods.see_budgets(self.snapshot.as_deref(), &snapshot, now, policy);
        self.arrivals |= self.pods.see(&snapshot, &planned, newcomers, now, policy);
        for of_pod in self.volumes.see(&snapshot, &planned, now, policy) {
            if let Some(track) = self.pods.get_mut(&of_pod.uid) {
                track.learn_volumes(of_pod.is_known, of_pod.is_attached, of_pod.names, now);
            }
        }
        self.planned = planned;
        self.snapshot = Some(snapshot);
    }
}
