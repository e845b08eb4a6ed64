//! What clients ask about pods that are to leave, and what they are told: evictions and deletions, for whoever judges them.

use serde_json::Value;

use crate::eviction::budgets_of;
use crate::object;
use crate::refusal::Refusal;
use crate::resources::PODS;
use crate::store::Store;

/// A request of a client to remove a pod, and the pod as it was at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's node.
    pub node: String,
    /// The names of the budgets that select the pod.
    pub budgets: Vec<String>,
    /// True if the pod was ready, so that a budget counted it.
    pub is_ready: bool,
    /// True if the pod, or its namespace, was being deleted already.
    pub is_ending: bool,
    /// What became of the request.
    pub answer: Answered,
}

/// What becomes of a request to remove a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The pod was evicted.
    Evicted,
    /// A budget has refused the eviction.
    Refused,
    /// The pod was deleted, whatever its budgets say.
    Deleted,
}

impl Removal {
    /// The pod before the request, if it exists.
    pub(crate) fn of(store: &Store, namespace: &str, name: &str, answer: Answered) -> Option<Self> {
        let pod = store.get(PODS, namespace, name)?;
        let budgets = budgets_of(store, pod).iter().map(|budget| object::name(budget).to_owned()).collect();
        let space = store.get(crate::resources::NAMESPACES, "", namespace);
        Some(Self {
            pod: name.to_owned(),
            uid: object::uid(pod).to_owned(),
            node: object::text(pod, "/spec/nodeName").to_owned(),
            budgets,
            is_ready: object::is_ready(pod),
            is_ending: object::is_terminating(pod) || space.is_some_and(|space| is_ending(space)),
            answer,
        })
    }
}

fn is_ending(object: &Value) -> bool {
    object::is_terminating(object)
}

/// What became of an eviction; `None` if it was refused for another reason than a budget.
pub(crate) fn answered(result: Result<&(), &Refusal>) -> Option<Answered> {
    match result {
        Ok(()) => Some(Answered::Evicted),
        Err(refusal) => (refusal.code == 429).then_some(Answered::Refused),
    }
}
