//! The cordon and its owner.
//!
//! Without a [`Cordoned`] nothing can be evicted: a pod that leaves a schedulable node may come back at once.

use std::fmt;

use drain::cordon::{
    CORDON_REASON, CORDONED_BY, CordonChange, UncordonChange, cordon_change, uncordon_change,
};
use drain::view::NodeView;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::failure::ApiFailure;
use crate::nodes::{PATH, read_node};
use crate::objects::Node;
use crate::operation::Operation;
use crate::views::{NodeFacts, is_unschedulable};
use crate::wire::Cluster;

/// The kubelet writes its Node every few seconds, so a conflict is an accident and ten in a row are not.
const TRIES: u32 = 10;

/// Proof that the node does not take pods: made by [`cordon`] only, needed by every eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    node: NodeView,
    before: Before,
}

/// What the cordon was before ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// The node took pods.
    Schedulable,
    /// It was ours already.
    Ours,
    /// It was somebody else's, and stays so: it is never lifted by us.
    Foreign,
}

/// What became of our cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncordoned {
    /// Lifted.
    Changed,
    /// Somebody had lifted it by hand; our annotation is gone now.
    AnnotationRemoved,
    /// There was none of ours.
    NotOurs,
    /// The node exists no more.
    NodeGone,
}

/// Why the node could not be cordoned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CordonFailure {
    /// The node does not exist.
    #[error("cannot cordon node {node}: it does not exist")]
    NodeGone {
        /// Its name.
        node: String,
    },
    /// A call failed.
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl Cordoned {
    /// The node as it was read or written last.
    pub fn node(&self) -> &NodeView {
        &self.node
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// What the cordon was before.
    pub fn before(&self) -> Before {
        self.before
    }
}

impl fmt::Display for Cordoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            Before::Schedulable => write!(f, "node {} cordoned", self.node.name),
            Before::Ours => write!(f, "node {} already cordoned", self.node.name),
            Before::Foreign => write!(f, "node {} already cordoned by somebody else", self.node.name),
        }
    }
}

/// Cordons the node and writes down that it was `owner`, and why, in one patch of the version just read. A node that
/// is cordoned already is left as it is. A conflict reads again at once.
pub async fn cordon(
    cluster: &Cluster,
    node: &str,
    owner: &str,
    reason: &str,
) -> Result<Cordoned, CordonFailure> {
    let spec = json!({"unschedulable": true});
    let annotations = json!({CORDONED_BY: owner, CORDON_REASON: reason});
    for _ in 0..TRIES {
        let found = match read_node(cluster, node).await {
            Ok(found) => found,
            Err(failure) => return Err(cordon_failure(node, failure)),
        };
        let before = match cordon_change(&by_field(&found), owner) {
            CordonChange::Cordon => Before::Schedulable,
            CordonChange::AlreadyOurs => Before::Ours,
            CordonChange::AlreadyForeign => Before::Foreign,
        };
        if before != Before::Schedulable {
            return Ok(Cordoned { node: by_field(&found), before });
        }
        match patch(cluster, &found, Some(&spec), &annotations).await {
            Ok(changed) => return Ok(Cordoned { node: by_field(&changed), before }),
            Err(ApiFailure::Conflict { .. }) => {}
            Err(failure) => return Err(cordon_failure(node, failure)),
        }
    }
    Err(contended("cordon", node).into())
}

/// Lifts the cordon of `owner`, spec and annotations in one patch of the version just read. Somebody else's cordon
/// stays. A conflict reads again at once.
pub async fn uncordon(cluster: &Cluster, node: &str, owner: &str) -> Result<Uncordoned, ApiFailure> {
    let spec = json!({"unschedulable": null});
    let annotations = json!({CORDONED_BY: null, CORDON_REASON: null});
    for _ in 0..TRIES {
        let found = match read_node(cluster, node).await {
            Ok(found) => found,
            Err(ApiFailure::NotFound { .. }) => return Ok(Uncordoned::NodeGone),
            Err(failure) => return Err(failure),
        };
        let (spec, outcome) = match uncordon_change(&by_field(&found), owner) {
            UncordonChange::Uncordon => (Some(&spec), Uncordoned::Changed),
            UncordonChange::RemoveAnnotation => (None, Uncordoned::AnnotationRemoved),
            UncordonChange::Nothing => return Ok(Uncordoned::NotOurs),
        };
        match patch(cluster, &found, spec, &annotations).await {
            Ok(_) => return Ok(outcome),
            Err(ApiFailure::NotFound { .. }) => return Ok(Uncordoned::NodeGone),
            Err(ApiFailure::Conflict { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(contended("uncordon", node))
}

/// The node with `spec.unschedulable` alone as its cordon. A taint that outlives the field for a moment is not a
/// cordon that would hold.
fn by_field(node: &Node) -> NodeView {
    NodeView { cordoned: is_unschedulable(node), ..NodeFacts::of(node).view }
}

async fn patch(
    cluster: &Cluster,
    node: &Node,
    spec: Option<&Value>,
    annotations: &Value,
) -> Result<Node, ApiFailure> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let operation = Operation::on_cluster("patch", "nodes", name);
    let Some(version) = &node.metadata.resource_version else {
        // Without it the patch would overwrite whatever somebody else did in between.
        return Err(ApiFailure::other(format!("cannot {operation}: the server sent no resourceVersion")));
    };
    let mut change = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
    if let (Some(spec), Some(change)) = (spec, change.as_object_mut()) {
        change.insert("spec".to_owned(), spec.clone());
    }
    let request = Request::new(PATH).patch(name, &PatchParams::default(), &Patch::Merge(change));
    cluster.fetch(&operation, request).await
}

fn cordon_failure(node: &str, failure: ApiFailure) -> CordonFailure {
    if matches!(failure, ApiFailure::NotFound { .. }) {
        return CordonFailure::NodeGone { node: node.to_owned() };
    }
    failure.into()
}

fn contended(verb: &str, node: &str) -> ApiFailure {
    ApiFailure::Conflict {
        text: format!("cannot {verb} node {node}: somebody else changed it each of {TRIES} times"),
    }
}

#[cfg(test)]
#[path = "cordon_tests.rs"]
mod tests;
