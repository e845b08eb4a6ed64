//! Sets and lifts the cordon of a node, with its owner.
//!
//! Evictions need a [`Cordoned`]: a pod that leaves a schedulable node may come back at once. Only a cordon makes one,
//! so the compiler refuses the wrong order.

use std::fmt;

use drain::cordon::{
    ADOPTED_FROM, CORDON_REASON, CORDONED_BY, Claims, CordonChange, KEEP_CORDONED, NO_SLOT, Ownerless,
    SLOTS_GROUP, UncordonChange, cordon_change, field_manager, renews_reason, uncordon_change,
};
use drain::view::NodeView;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use serde_json::{Value, json};
use text::one_line;

use crate::failure::{ApiFailure, json_text};
use crate::node_facts::{NodeFacts, is_unschedulable};
use crate::nodes::{PATH, find_node};
use crate::objects::{Node, version};
use crate::operation::{DryRun, Operation, TRIES};
use crate::views::annotation;
use crate::wire::Cluster;

/// Longest reason in an annotation, in bytes.
const LONGEST_REASON: usize = 1024;

/// Whether a cordon needs our annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Without them the node is not changed: an agent knows its own cordon by them.
    Required,
    /// Where an admission policy refuses them, `spec.unschedulable` alone is changed, as kubectl does: for a person, who
    /// is told.
    Wished,
}

/// Evidence that the node takes no new pods. Only [`cordon`] and the like make it, and every eviction needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    node: NodeView,
    before: PriorCordon,
    unmarked: Option<String>,
}

/// The state of the node before our cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorCordon {
    /// The node was schedulable.
    Schedulable,
    /// The node had our cordon already.
    Ours,
    /// Another party had cordoned the node. That cordon stays, and we never remove it.
    Foreign,
}

/// The result of an uncordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncordoned {
    /// The node is uncordoned.
    Changed,
    /// Another party had uncordoned the node; our annotation is removed now.
    AnnotationRemoved,
    /// Our annotations are removed and the node stays cordoned, because annotation `ebb.dev/keep-cordoned` is there, or
    /// another party has cordoned the node after us.
    StaysCordoned,
    /// The node is uncordoned; an admission policy refused to remove our annotations ([`uncordon_any`] only).
    AnnotationsStay,
    /// The node had no cordon of ours.
    NotOurs,
    /// The node was not cordoned at all ([`uncordon_any`] only).
    AlreadySchedulable,
    /// The node does not exist any more.
    NodeGone,
}

/// Why the node could not be cordoned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CordonFailure {
    /// The node does not exist.
    #[error("cannot cordon node {node}: it does not exist")]
    NodeGone {
        /// Name of the node.
        node: String,
    },
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl Cordoned {
    /// The node as last read or written.
    pub fn node(&self) -> &NodeView {
        &self.node
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The state of the node before our cordon.
    pub fn before(&self) -> PriorCordon {
        self.before
    }

    /// Why the node has no annotations of ours: they were refused ([`Marks::Wished`] only). `None` if it has them, or its
    /// cordon is not ours.
    pub fn unmarked(&self) -> Option<&str> {
        self.unmarked.as_deref()
    }
}

impl fmt::Display for Cordoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            PriorCordon::Schedulable => write!(f, "node {} cordoned", self.node.name),
            PriorCordon::Ours => write!(f, "node {} already cordoned", self.node.name),
            PriorCordon::Foreign => write!(f, "node {} already cordoned by another owner", self.node.name),
        }
    }
}

/// Cordons the node, and writes `owner` and `reason` into annotations, in one patch of the version just read: two calls.
/// A node that is cordoned already is not changed: one call. The exception is an agent's own cordon with another reason,
/// or with other slots, which gets the new ones: two calls. After a conflict it reads again at once.
pub async fn cordon(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
) -> Result<Cordoned, CordonFailure> {
    cordon_in_group(cluster, node, owner, reason, None).await
}

/// As [`cordon`], and writes the slots that the node uses into an annotation, if they are not `kube-system/default`.
pub async fn cordon_in_group(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
    slots_group: Option<&str>,
) -> Result<Cordoned, CordonFailure> {
    set_cordon(
        cluster,
        node,
        &Order { owner, reason, slots_group, marks: Marks::Required, dry_run: DryRun::No },
    )
    .await
}

/// As [`cordon`]. If the patch is refused and the annotations are only wished, it is tried once more without them: three
/// calls.
pub async fn cordon_marked(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
    marks: Marks,
) -> Result<Cordoned, CordonFailure> {
    set_cordon(cluster, node, &Order { owner, reason, slots_group: None, marks, dry_run: DryRun::No }).await
}

/// Tries what [`cordon_marked`] would do; the server checks the patch and discards it (`dryRun=All`). The
/// result is not a [`Cordoned`], so it allows no eviction.
pub async fn would_cordon(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
    marks: Marks,
) -> Result<PriorCordon, CordonFailure> {
    let order = Order { owner, reason, slots_group: None, marks, dry_run: DryRun::Yes };
    set_cordon(cluster, node, &order).await.map(|cordoned| cordoned.before)
}

/// How a node is to be cordoned.
#[derive(Clone, Copy)]
struct Order<'a> {
    owner: &'a str,
    reason: &'a str,
    slots_group: Option<&'a str>,
    marks: Marks,
    dry_run: DryRun,
}

async fn set_cordon(cluster: &Cluster, node: &str, order: &Order<'_>) -> Result<Cordoned, CordonFailure> {
    let Order { owner, slots_group, marks, dry_run, .. } = *order;
    let (manager, reason) = (field_manager(owner), &shown_reason(order.reason));
    let whole = &Change {
        spec: Some(json!({"unschedulable": true})),
        annotations: Some(json!({CORDONED_BY: owner, CORDON_REASON: reason, SLOTS_GROUP: slots_group})),
        manager,
        dry_run,
    };
    let marks_only = &Change {
        spec: None,
        annotations: Some(json!({CORDON_REASON: reason, SLOTS_GROUP: slots_group})),
        manager,
        dry_run,
    };
    let cordoned = change_newest(cluster, node, "cordon", |found, _| async move {
        let before = match cordon_change(&by_field(&found), owner) {
            CordonChange::Cordon => PriorCordon::Schedulable,
            CordonChange::AlreadyOurs => PriorCordon::Ours,
            CordonChange::AlreadyForeign => PriorCordon::Foreign,
        };
        let has = |key, value| annotation(&found.metadata, key).map(String::as_str) == value;
        let is_outdated = renews_reason(owner)
            && dry_run == DryRun::No
            && !(has(CORDON_REASON, Some(reason)) && has(SLOTS_GROUP, slots_group));
        let cordoned = |node: &Node, unmarked| Cordoned { node: by_field(node), before, unmarked };
        let change = match before {
            PriorCordon::Schedulable => whole,
            PriorCordon::Ours if is_outdated => marks_only,
            PriorCordon::Ours | PriorCordon::Foreign => return Ok(cordoned(&found, None)),
        };
        match patch_marked(cluster, &found, change, marks).await {
            Ok((changed, unmarked)) => Ok(cordoned(&changed, unmarked)),
            Err(conflict @ ApiFailure::Conflict { .. }) => Err(conflict),
            // The cordon is there, its reason is only a text for people, and the entry in the slot table counts anyway: no
            // drain waits for it.
            Err(failure) if before == PriorCordon::Ours => {
                tracing::warn!("the annotations of our cordon of node {node} stay the old ones: {failure}");
                Ok(cordoned(&found, None))
            }
            Err(failure) => Err(failure),
        }
    });
    cordoned.await?.ok_or_else(|| CordonFailure::NodeGone { node: node.to_owned() })
}

/// Removes the cordon of `owner`, spec and annotations in one patch of the version just read: two calls. Another party's
/// cordon stays: one call. If a person wants to keep the cordon, or another party has set it after us, only our
/// annotations are removed: two calls. After a conflict it reads again at once.
pub async fn uncordon(cluster: &Cluster, node: &str, owner: &str) -> Result<Uncordoned, ApiFailure> {
    let decide = |node: &Node, claims: &Claims| match uncordon_change(&by_field(node), owner, claims) {
        UncordonChange::Uncordon => Uncordoned::Changed,
        UncordonChange::RemoveAnnotation => Uncordoned::AnnotationRemoved,
        UncordonChange::LeaveCordoned => Uncordoned::StaysCordoned,
        UncordonChange::Nothing => Uncordoned::NotOurs,
    };
    lift_cordon(cluster, node, field_manager(owner), Marks::Required, decide).await
}

/// Removes the cordon, whoever has set it, because a person has ordered that; annotations that name an owner are removed
/// as well, if no admission policy refuses that. Two or three calls, or one for a node without cordon and annotations.
/// After a conflict it reads again at once.
pub async fn uncordon_any(cluster: &Cluster, node: &str) -> Result<Uncordoned, ApiFailure> {
    let decide = |node: &Node, _: &Claims| {
        let is_marked =
            [CORDONED_BY, CORDON_REASON].iter().any(|key| annotation(&node.metadata, key).is_some());
        match (is_unschedulable(node), is_marked) {
            (true, _) => Uncordoned::Changed,
            (false, true) => Uncordoned::AnnotationRemoved,
            (false, false) => Uncordoned::AlreadySchedulable,
        }
    };
    lift_cordon(cluster, node, field_manager("ebb:"), Marks::Wished, decide).await
}

async fn lift_cordon(
    cluster: &Cluster,
    node: &str,
    manager: &'static str,
    marks: Marks,
    decide: impl Fn(&Node, &Claims) -> Uncordoned,
) -> Result<Uncordoned, ApiFailure> {
    let decide = &decide;
    let lifted = change_newest(cluster, node, "uncordon", |found, claims| async move {
        let outcome = decide(&found, &claims);
        let spec = match outcome {
            Uncordoned::Changed => Some(json!({"unschedulable": null})),
            Uncordoned::AnnotationRemoved | Uncordoned::StaysCordoned => None,
            Uncordoned::NotOurs
            | Uncordoned::AlreadySchedulable
            | Uncordoned::AnnotationsStay
            | Uncordoned::NodeGone => return Ok(outcome),
        };
        let annotations =
            Some(json!({CORDONED_BY: null, CORDON_REASON: null, ADOPTED_FROM: null, SLOTS_GROUP: null}));
        let change = Change { spec, annotations, manager, dry_run: DryRun::No };
        let (_, unmarked) = patch_marked(cluster, &found, &change, marks).await?;
        Ok(unmarked.map_or(outcome, |_| Uncordoned::AnnotationsStay))
    });
    Ok(lifted.await?.unwrap_or(Uncordoned::NodeGone))
}

/// Makes `owner` the owner of a cordon without owner, and writes down the reason: two calls. True if it did; false if
/// the node does not exist, is not cordoned, or its cordon names an owner or is not of `whose`: one call. After a conflict
/// it reads again at once.
pub async fn adopt(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
    whose: Ownerless,
) -> Result<bool, ApiFailure> {
    let adopted = change_newest(cluster, node, "adopt the cordon of", |found, claims| async move {
        let is_owned = annotation(&found.metadata, CORDONED_BY).is_some();
        if !is_unschedulable(&found) || is_owned || !claims.allows(whose, owner) {
            return Ok(false);
        }
        let adopted_from = match whose {
            // Null if the server does not say who cordoned the node: then only the annotation counts.
            Ownerless::Eves => claims.managers.first(),
            Ownerless::Ours => None,
        };
        let annotations = Some(json!({
            CORDONED_BY: owner,
            CORDON_REASON: shown_reason(reason),
            ADOPTED_FROM: adopted_from,
        }));
        let change = Change { spec: None, annotations, manager: field_manager(owner), dry_run: DryRun::No };
        patch(cluster, &found, &change).await.map(|_| true)
    });
    Ok(adopted.await?.unwrap_or(false))
}

/// Marks the cordon of `owner` as one that takes no slot ([`NO_SLOT`]): two calls; one if it is marked so already, if the
/// node has no cordon of `owner`, or does not exist. After a conflict it reads again at once. The next [`cordon_in_group`]
/// takes the mark back.
pub async fn mark_without_slot(cluster: &Cluster, node: &str, owner: &str) -> Result<(), ApiFailure> {
    let marked = change_newest(cluster, node, "mark the cordon of", |found, _| async move {
        let is_marked = annotation(&found.metadata, SLOTS_GROUP).is_some_and(|group| group == NO_SLOT);
        if is_marked || cordon_change(&by_field(&found), owner) != CordonChange::AlreadyOurs {
            return Ok(());
        }
        let annotations = Some(json!({SLOTS_GROUP: NO_SLOT}));
        let change = Change { spec: None, annotations, manager: field_manager(owner), dry_run: DryRun::No };
        patch(cluster, &found, &change).await.map(drop)
    });
    marked.await.map(Option::unwrap_or_default)
}

/// Reads the Node and gives it to `change`, which patches this version of it or leaves it; again at once after a conflict.
/// Gives the result of `change`; `None` if the node does not exist.
async fn change_newest<T, F: Future<Output = Result<T, ApiFailure>>>(
    cluster: &Cluster,
    node: &str,
    verb: &str,
    change: impl Fn(Node, Claims) -> F,
) -> Result<Option<T>, ApiFailure> {
    for _ in 0..TRIES {
        let Some((found, claims)) = read_claims(cluster, node).await? else { return Ok(None) };
        match change(found, claims).await {
            Ok(result) => return Ok(Some(result)),
            Err(ApiFailure::NotFound { .. }) => return Ok(None),
            Err(ApiFailure::Conflict { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    let text = format!("cannot {verb} node {node}: another client changed it in each of {TRIES} tries");
    Err(ApiFailure::Conflict { text })
}

/// The reason as every tool may show it: others have written it, into a request or a command.
fn shown_reason(reason: &str) -> String {
    one_line(reason, LONGEST_REASON)
}

/// The node, and all data about the owner of its cordon; `None` if it does not exist. Managed fields are long and are read
/// only here.
async fn read_claims(cluster: &Cluster, name: &str) -> Result<Option<(Node, Claims)>, ApiFailure> {
    let Some(whole) = find_node::<Value>(cluster, name).await? else { return Ok(None) };
    let annotation =
        |key: &str| whole.get("metadata")?.get("annotations")?.get(key)?.as_str().map(str::to_owned);
    let claims = Claims {
        managers: managers_of_cordon(&whole),
        adopted_from: annotation(ADOPTED_FROM),
        keep: annotation(KEEP_CORDONED).is_some(),
    };
    let node = serde_json::from_value(whole);
    let node =
        node.map_err(|error| ApiFailure::other(format!("cannot get nodes {name}: {}", json_text(&error))))?;
    Ok(Some((node, claims)))
}

/// The field managers of `spec.unschedulable`.
fn managers_of_cordon(node: &Value) -> Vec<String> {
    let entries = node.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let owners = entries.filter(|entry| entry.pointer("/fieldsV1/f:spec/f:unschedulable").is_some());
    owners.filter_map(|entry| entry.get("manager")?.as_str().map(str::to_owned)).collect()
}

/// The node, with `spec.unschedulable` alone as its cordon: the taint may stay for a moment after an uncordon, and does
/// not last.
fn by_field(node: &Node) -> NodeView {
    NodeView { cordoned: is_unschedulable(node), ..NodeFacts::of(node).view }
}

/// The content of a patch; null removes a field.
#[derive(Clone)]
struct Change {
    spec: Option<Value>,
    annotations: Option<Value>,
    /// The field manager under which the server records the change.
    manager: &'static str,
    dry_run: DryRun,
}

/// Sends the patch. If it is refused and the annotations are only wished, sends it without them, and returns the refusal
/// beside the node; if that is refused as well, the first refusal is the failure.
async fn patch_marked(
    cluster: &Cluster,
    node: &Node,
    change: &Change,
    marks: Marks,
) -> Result<(Node, Option<String>), ApiFailure> {
    let refusal = match patch(cluster, node, change).await {
        Ok(changed) => return Ok((changed, None)),
        Err(refusal @ (ApiFailure::Denied { .. } | ApiFailure::Other { .. }))
            if marks == Marks::Wished && change.spec.is_some() =>
        {
            refusal
        }
        Err(failure) => return Err(failure),
    };
    match patch(cluster, node, &Change { annotations: None, ..change.clone() }).await {
        // The right to patch nodes is there, as this answer shows.
        Ok(changed) => Ok((changed, refusal.text().split("; needs the right to ").next().map(str::to_owned))),
        Err(ApiFailure::Denied { .. } | ApiFailure::Other { .. }) => Err(refusal),
        Err(failure) => Err(failure),
    }
}

async fn patch(cluster: &Cluster, node: &Node, change: &Change) -> Result<Node, ApiFailure> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let operation = Operation::on_cluster("patch", "nodes", name);
    let version = version(&operation, &node.metadata)?;
    let mut metadata = json!({"resourceVersion": version});
    insert(&mut metadata, "annotations", change.annotations.as_ref());
    let mut body = json!({"metadata": metadata});
    insert(&mut body, "spec", change.spec.as_ref());
    let params = PatchParams {
        dry_run: change.dry_run == DryRun::Yes,
        field_manager: Some(change.manager.to_owned()),
        ..PatchParams::default()
    };
    let request = Request::new(PATH).patch(name, &params, &Patch::Merge(body));
    cluster.fetch(&operation, request).await
}

/// Adds a field that is there: a null would remove all that is in it.
fn insert(object: &mut Value, field: &str, value: Option<&Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        object.insert(field.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests;
