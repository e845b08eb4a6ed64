//! Computes, for each budget, how many of its pods may be disrupted, as the disruption controller does.

mod expected;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::changes::Changes;
use super::{Step, World, earlier};
use crate::object::{self, at, number, set, set_condition, text};
use crate::resources::{BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS, Resource, STATEFUL_SETS};
use crate::selector::Labels;
use crate::store::{Key, Object, Store};
use crate::write;

use expected::{Expected, expected};

/// How long a disruption that did not happen counts against a budget.
const TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, Default)]
pub(super) struct Disruption {
    changes: Changes,
    /// For each budget: when a disruption that did not happen is forgotten.
    due: BTreeMap<Key, Duration>,
    /// Pods with the condition DisruptionTarget.
    marked: BTreeSet<Key>,
}

impl Step for Disruption {
    fn reads(&self) -> &'static [&'static Resource] {
        &[BUDGETS, PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS]
    }

    fn step(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let mut touched = self.touched(store);
        let is_due = |due: &Duration| *due <= world.now.elapsed;
        touched.extend(self.due.iter().filter(|(_, due)| is_due(due)).map(|(key, _)| key.clone()));
        for key in touched {
            self.due.remove(&key);
            let budget = store.get(BUDGETS, &key.namespace, &key.name).cloned();
            let budget = budget.filter(|budget| !object::is_terminating(budget));
            if let Some(due) = budget.and_then(|budget| count(store, &budget, world)) {
                self.due.insert(key, due);
            }
        }
        let next = self.due.values().min().copied();
        earlier(next, self.clear_stale_marks(store, world))
    }
}

impl Disruption {
    /// The budgets whose numbers may have changed since the last step, because the budget, its pods, or the scale of a
    /// controller in its namespace has changed.
    fn touched(&mut self, store: &Store) -> BTreeSet<Key> {
        let select = |budget: &Object| (Key::of(budget), selector(budget));
        let budgets: Vec<(Key, Option<Labels>)> = store.objects(BUDGETS).map(select).collect();
        let Some(changes) = self.changes.read(store) else {
            self.marked = store.objects(PODS).filter(|pod| is_marked(pod)).map(|pod| Key::of(pod)).collect();
            return budgets.into_iter().map(|(key, _)| key).collect();
        };
        let mut touched = BTreeSet::new();
        for change in changes {
            if change.resource == PODS && change.after.as_ref().is_some_and(|pod| is_marked(pod)) {
                self.marked.insert(change.key());
            }
            for (key, selector) in budgets.iter().filter(|(key, _)| key.namespace == change.namespace) {
                let selects = |pod: &Object| {
                    selector.as_ref().is_some_and(|selector| selector.matches(&object::labels(pod)))
                };
                let concerns = match change.resource {
                    resource if resource == BUDGETS => *key == change.key(),
                    resource if resource == PODS => change.versions().any(selects),
                    _ => true,
                };
                if concerns {
                    touched.insert(key.clone());
                }
            }
        }
        touched
    }

    /// Removes the condition DisruptionTarget from pods whose eviction did not happen.
    fn clear_stale_marks(&mut self, store: &mut Store, world: &World<'_>) -> Option<Duration> {
        let mut next = None;
        self.marked.retain(|key| {
            let pod = store.get(PODS, &key.namespace, &key.name).filter(|pod| is_marked(pod));
            let since = pod.and_then(|pod| object::condition(pod, "DisruptionTarget"));
            let Some(since) = since.map(|mark| text(mark, "/lastTransitionTime")) else { return false };
            if let Some(left) = left(since, world) {
                next = earlier(next, Some(world.now.elapsed.saturating_add(left)));
                return true;
            }
            drop(write::edit(store, PODS, &key.namespace, &key.name, |pod| {
                set_condition(pod, json!({"type": "DisruptionTarget", "status": "False"}), &world.now.text());
            }));
            false
        });
        next
    }
}

/// True if the pod has the condition but is neither terminating nor finished.
fn is_marked(pod: &Value) -> bool {
    let mark = object::condition(pod, "DisruptionTarget");
    mark.is_some_and(|mark| text(mark, "/status") == "True")
        && !object::is_terminating(pod)
        && !object::is_finished(pod)
}

/// Updates one budget's status. Returns when a disruption that did not happen is to be forgotten.
fn count(store: &mut Store, budget: &Object, world: &World<'_>) -> Option<Duration> {
    let pods = pods_of(store, budget);
    let Expected { pods: expected, healthy: desired } = match expected(store, budget, &pods) {
        Ok(expected) => expected,
        Err(problem) => {
            report_problem(store, budget, &problem, world);
            return None;
        }
    };
    let (disrupted, next) = still_disrupted(budget, &pods, world);
    let is_healthy = |pod: &&Object| {
        !object::is_terminating(pod) && !disrupted.contains_key(object::name(pod)) && object::is_ready(pod)
    };
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let now = world.now.text();
    drop(write::edit(store, BUDGETS, object::namespace(budget), object::name(budget), |budget| {
        let generation = number(budget, "/metadata/generation").unwrap_or_default();
        let counts = [
            ("observedGeneration", generation),
            ("expectedPods", expected),
            ("currentHealthy", healthy),
            ("desiredHealthy", desired),
            ("disruptionsAllowed", allowed),
        ];
        for (field, count) in counts {
            set(budget, &["status", field], count);
        }
        if disrupted.is_empty() {
            object::remove(budget, &["status", "disruptedPods"]);
        } else {
            set(budget, &["status", "disruptedPods"], disrupted);
        }
        let (status, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        set_condition(budget, condition(status, reason, "", generation), &now);
    }));
    next
}

fn condition(status: &str, reason: &str, message: &str, generation: i64) -> Value {
    json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": message,
        "observedGeneration": generation,
    })
}

/// The budget's selector. Without a selector a budget selects nothing; an empty selector selects everything.
fn selector(budget: &Value) -> Option<Labels> {
    let selector = at(budget, "/spec/selector").filter(|selector| !selector.is_null())?;
    Labels::from_object(selector).ok()
}

fn pods_of(store: &Store, budget: &Object) -> Vec<Object> {
    let Some(selector) = selector(budget) else { return Vec::new() };
    let pods = store.objects_in(PODS, object::namespace(budget));
    pods.filter(|pod| selector.matches(&object::labels(pod))).cloned().collect()
}

/// Reports that the count failed: no pod may be disrupted, and the generation stays unobserved.
fn report_problem(store: &mut Store, budget: &Object, problem: &str, world: &World<'_>) {
    let now = world.now.text();
    drop(write::edit(store, BUDGETS, object::namespace(budget), object::name(budget), |budget| {
        let generation = number(budget, "/status/observedGeneration").unwrap_or_default();
        set(budget, &["status", "disruptionsAllowed"], 0);
        set_condition(budget, condition("False", "SyncFailed", problem, generation), &now);
    }));
}

/// The disruptions that the server has granted but that are not visible on the pods yet, and when the first of them is
/// forgotten.
fn still_disrupted(
    budget: &Object,
    pods: &[Object],
    world: &World<'_>,
) -> (Map<String, Value>, Option<Duration>) {
    let mut disrupted = Map::new();
    let mut next = None;
    for (name, since) in object::map(budget, "/status/disruptedPods").into_iter().flatten() {
        let is_coming = pods.iter().any(|pod| object::name(pod) == name && !object::is_terminating(pod));
        let left = left(since.as_str().unwrap_or_default(), world);
        if let Some(left) = left.filter(|_| is_coming) {
            disrupted.insert(name.clone(), since.clone());
            next = earlier(next, Some(world.now.elapsed.saturating_add(left)));
        }
    }
    (disrupted, next)
}

/// The remaining waiting time of a disruption that was granted at `since`; `None` once it is over.
fn left(since: &str, world: &World<'_>) -> Option<Duration> {
    let since: Timestamp = since.parse().ok()?;
    let end = since.checked_add(TIMEOUT).ok()?;
    let left = end.as_millisecond().checked_sub(world.now.wall.as_millisecond())?;
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
}
