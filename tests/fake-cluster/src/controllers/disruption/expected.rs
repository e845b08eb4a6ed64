//! How many pods a budget expects, and how many of them must be healthy.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::{self, at, number, text};
use crate::resources::{DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS};
use crate::store::{Object, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pods: i64,
    pub(super) healthy: i64,
}

/// The expected pods. A number counts the pods themselves; a percentage, and `maxUnavailable`, refer to the scale of
/// the pods' controllers.
pub(super) fn expected(store: &Store, budget: &Value, pods: &[Object]) -> Result<Expected, String> {
    let field = |pointer| at(budget, pointer).filter(|value| !value.is_null());
    if let Some(limit) = field("/spec/maxUnavailable") {
        let scale = scale(store, pods)?;
        let unavailable = scaled(limit, scale)?;
        return Ok(Expected { pods: scale, healthy: scale.saturating_sub(unavailable).max(0) });
    }
    match field("/spec/minAvailable") {
        None => Ok(Expected { pods: count(pods), healthy: 0 }),
        Some(Value::Number(number)) => {
            Ok(Expected { pods: count(pods), healthy: number.as_i64().unwrap_or_default() })
        }
        Some(percent) => {
            let scale = scale(store, pods)?;
            Ok(Expected { pods: scale, healthy: scaled(percent, scale)? })
        }
    }
}

fn count(pods: &[Object]) -> i64 {
    i64::try_from(pods.len()).unwrap_or(i64::MAX)
}

/// A number as it is; a percentage of `whole`, rounded up, also for `maxUnavailable`.
fn scaled(value: &Value, whole: i64) -> Result<i64, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let percent =
        value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|digits| digits.parse::<i64>().ok());
    let percent =
        percent.ok_or_else(|| format!("invalid value for IntOrString: {value} is not a percentage"))?;
    let parts = percent.saturating_mul(whole);
    Ok(parts.div_euclid(100) + i64::from(parts.rem_euclid(100) > 0))
}

/// The sum of the replicas of the pods' controllers, each counted once. Pods without a controller do not count; if a
/// controller has no scale, the count fails.
fn scale(store: &Store, pods: &[Object]) -> Result<i64, String> {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(reference) = object::controller(pod) else { continue };
        let owner = scaled_owner(store, pod, reference)?;
        let replicas = number(&owner, "/spec/replicas").unwrap_or(1);
        scales.insert(object::uid(&owner).to_owned(), replicas);
    }
    Ok(scales.values().fold(0, |sum, scale| sum.saturating_add(*scale)))
}

/// The pod's controller, or the deployment above its replica set.
fn scaled_owner(store: &Store, pod: &Value, reference: &Value) -> Result<Object, String> {
    let (kind, name) = (text(reference, "/kind"), text(reference, "/name"));
    let namespace = object::namespace(pod);
    let is_apps = text(reference, "/apiVersion").starts_with("apps/");
    let resource = match kind {
        "ReplicaSet" if is_apps => REPLICA_SETS,
        "StatefulSet" if is_apps => STATEFUL_SETS,
        "Deployment" if is_apps => DEPLOYMENTS,
        _ if is_apps => return Err(format!("{kind} {name} does not implement the scale subresource")),
        _ => return Err(format!("found no controllers for pod \"{}\"", object::name(pod))),
    };
    let owner =
        store.get(resource, namespace, name).filter(|owner| object::uid(owner) == text(reference, "/uid"));
    let owner = owner.ok_or_else(|| format!("found no controllers for pod \"{}\"", object::name(pod)))?;
    match object::controller(owner) {
        Some(above) if resource == REPLICA_SETS => {
            let deployment = store.get(DEPLOYMENTS, namespace, text(above, "/name"));
            Ok(Object::clone(deployment.unwrap_or(owner)))
        }
        _ => Ok(Object::clone(owner)),
    }
}
