//! The preflight: tries everything that a drain needs, before a drain is requested. When the request comes it is too
//! late: the node goes down undrained.
//!
//! Rights are asked for with exactly the name, namespace and field selector that a drain uses (SelfSubjectAccessReview:
//! by default every user may ask it about itself; SelfSubjectRulesReview leaves out the grants of the node authorizer).
//! Writes are tried with `dryRun=All`, because admission may refuse a change that the rights allow. At most
//! [`MOST_CALLS`] calls, one at a time, each with a deadline; nothing is changed.

use drain::cordon::field_manager;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster_uid::cluster_uid;
use crate::failure::ApiFailure;
use crate::identity::{Identity, identify};
use crate::node_facts::NodeFacts;
use crate::nodes::{PATH, list_nodes};
use crate::operation::Operation;
use crate::slots::{SlotFailure, SlotMap, try_slots};
use crate::validity::Validity;
use crate::wire::Cluster;

/// Most calls of one preflight; a list of nodes counts once.
pub const MOST_CALLS: usize = 32;

/// Credentials that end within this many days are a problem, if less than a tenth of their whole life is left.
const SOON: i64 = 14;

/// A part of a drain that would not work now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The check that failed.
    pub what: Check,
    /// The failure as a sentence.
    pub text: String,
    /// Hint for a person.
    pub hint: &'static str,
}

/// The checks; the most important one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Whether the API server can be reached.
    Api,
    /// Whether one of the Nodes is this machine.
    Identity,
    /// Whether our user has the rights that a drain needs.
    Rights,
    /// Whether the slot table can be read and written.
    Slots,
    /// Whether our credentials are valid for some time.
    Credentials,
    /// Whether the server has budgets in a version that we know.
    Budgets,
    /// Whether we can tell this cluster from another one.
    Cluster,
    /// Whether the server refuses to let us change another Node.
    Confinement,
}

impl Check {
    /// The word for the report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Api => "API",
            Self::Identity => "Identity",
            Self::Rights => "Rights",
            Self::Slots => "Slots",
            Self::Credentials => "Credentials",
            Self::Budgets => "Budgets",
            Self::Cluster => "Cluster",
            Self::Confinement => "Confinement",
        }
    }
}

/// The result of a preflight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The problems, most important first.
    pub problems: Vec<Problem>,
    /// Whole days until our credentials end, negative if they have ended; `None` if no end is known.
    pub days_left: Option<i64>,
}

impl Found {
    fn add(&mut self, what: Check, text: impl Into<String>, hint: &'static str) {
        self.problems.push(Problem { what, text: text.into(), hint });
    }

    /// True if a missing right is already among the problems.
    fn misses_rights(&self) -> bool {
        self.problems.iter().any(|problem| problem.what == Check::Rights)
    }
}

/// The result if no connection could be made.
pub fn without_connection(failure: &ApiFailure) -> Found {
    let mut found = Found::default();
    found.add(Check::Api, failure.text(), "look at the API server (k3s) of this node and at the kubeconfig");
    found
}

/// Runs all checks. `map` is `None` if slots are switched off.
pub async fn preflight(cluster: &Cluster, identity: &Identity, map: Option<&SlotMap>) -> Found {
    let cluster = &cluster.at_leisure();
    let mut found = Found::default();
    let mut known = None;
    match list_nodes(cluster).await {
        Ok(nodes) => {
            let own = own_node(&nodes, identity, &mut found);
            rights(cluster, own.as_deref(), map, &mut found).await;
            if let Some(own) = &own {
                let other = other_node(&nodes, own);
                writes(cluster, own, other, &mut found).await;
                known = Some((own.clone(), other.map(str::to_owned)));
            }
        }
        Err(failure @ ApiFailure::Denied { .. }) => {
            found.add(
                Check::Rights,
                failure.text(),
                "grant it (/usr/share/ebb/kubernetes), or give valid credentials (a token that is bound to a Node ends with it)",
            );
        }
        Err(failure) => return without_connection(&failure),
    }
    if let Some((map, (own, other))) = map.zip(known) {
        slots(cluster, map, &own, other.as_deref(), &mut found).await;
    }
    budgets(cluster, &mut found).await;
    if let Ok(None) = cluster_uid(cluster).await {
        let text = "the cluster is not pinned: zedkube's user may not get namespaces kube-system, so a drain could be \
                    answered by another cluster to which a new kubeconfig leads";
        found.add(Check::Cluster, text, GRANT);
    }
    credentials(cluster, &mut found);
    found.problems.sort_by_key(|problem| problem.what);
    found
}

fn own_node(nodes: &[NodeFacts], identity: &Identity, found: &mut Found) -> Option<String> {
    match identify(nodes, identity) {
        Ok(identified) => {
            if let Some(doubt) = identified.doubt {
                let hint = "nothing, if EVE gave the label to this device; else take the label off that Node";
                found.add(Check::Identity, format!("the Node of this machine is in doubt: {doubt}"), hint);
            }
            Some(identified.node.name)
        }
        Err(problem) => {
            let hint =
                "set node.name to this machine's own Node, or cluster.mode = never, and restart zedkube";
            found.add(Check::Identity, problem.to_string(), hint);
            None
        }
    }
}

/// A right, exactly as a drain uses it.
struct Right<'a> {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespace: &'a str,
    name: &'a str,
    /// Only for lists and watches.
    field_selector: String,
}

impl Right<'_> {
    fn of(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Right { verb, group, resource, subresource, namespace: "", name: "", field_selector: String::new() }
    }

    fn shown(&self) -> String {
        let mut text = format!("{} {}", self.verb, self.resource);
        for (before, part) in [
            ("/", self.subresource),
            (" ", self.name),
            (" in ", self.namespace),
            (" where ", &self.field_selector),
        ] {
            if !part.is_empty() {
                text.push_str(before);
                text.push_str(part);
            }
        }
        text
    }

    fn review(&self) -> Value {
        let mut attributes = json!({
            "verb": self.verb, "group": self.group, "resource": self.resource,
            "subresource": self.subresource, "namespace": self.namespace, "name": self.name,
        });
        if let Some(attributes) = attributes.as_object_mut().filter(|_| !self.field_selector.is_empty()) {
            attributes.insert("fieldSelector".to_owned(), json!({"rawSelector": self.field_selector}));
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        })
    }
}

/// All rights that a drain and restoring use. Rights that only improve texts are left out.
fn needed<'a>(node: Option<&'a str>, map: Option<&'a SlotMap>, map_name: &'a str) -> Vec<Right<'a>> {
    let of_node = |verb| Right { name: node.unwrap_or_default(), ..Right::of(verb, "", "nodes") };
    let field_selector = node.map(|node| format!("spec.nodeName={node}")).unwrap_or_default();
    let of_pods = |verb| Right { field_selector: field_selector.clone(), ..Right::of(verb, "", "pods") };
    let mut needed = vec![
        Right::of("list", "", "nodes"),
        of_node("get"),
        of_node("patch"),
        Right::of("watch", "", "nodes"),
        of_pods("list"),
        of_pods("watch"),
        Right::of("create", "", "pods/eviction"),
        Right::of("delete", "", "pods"),
        Right::of("list", "policy", "poddisruptionbudgets"),
        Right::of("watch", "policy", "poddisruptionbudgets"),
        Right::of("get", "apps", "daemonsets"),
        Right::of("get", "", "persistentvolumeclaims"),
        Right::of("get", "", "persistentvolumes"),
        Right::of("list", "storage.k8s.io", "volumeattachments"),
        Right::of("get", "storage.k8s.io", "csidrivers"),
    ];
    if let Some(map) = map {
        let of_slots =
            |verb| Right { namespace: &map.namespace, name: map_name, ..Right::of(verb, "", "configmaps") };
        needed.extend(["get", "patch", "list", "watch"].map(of_slots));
    }
    needed
}

#[derive(Deserialize)]
struct Review {
    status: Option<ReviewStatus>,
}

#[derive(Deserialize)]
struct ReviewStatus {
    #[serde(default)]
    allowed: bool,
}

async fn rights(cluster: &Cluster, node: Option<&str>, map: Option<&SlotMap>, found: &mut Found) {
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let map_name = map.map(SlotMap::name).unwrap_or_default();
    let mut missing = Vec::new();
    for right in needed(node, map, &map_name) {
        let operation = Operation::on_cluster("create", "selfsubjectaccessreviews", "");
        let body = serde_json::to_vec(&right.review()).unwrap_or_default();
        let request = Request::new(REVIEWS).create(&PostParams::default(), body);
        match cluster.fetch::<Review>(&operation, request).await {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(right.shown()),
            Err(failure) => {
                let hint = "nothing, if drains work; by default every user may ask about its own rights";
                found.add(Check::Rights, format!("our rights cannot be found out: {}", failure.text()), hint);
                break;
            }
        }
    }
    if !missing.is_empty() {
        let text = format!("zedkube's user may not: {}", missing.join("; "));
        found.add(Check::Rights, text, GRANT);
    }
}

/// Tries the change that [`crate::cordon()`] makes, as a dry run.
async fn try_cordon(cluster: &Cluster, node: &str) -> Result<(), ApiFailure> {
    let operation = Operation::on_cluster("patch", "nodes", node);
    let body =
        json!({"spec": {"unschedulable": true}, "metadata": {"annotations": {"ebb.dev/preflight": "tried"}}});
    let manager = Some(field_manager("zedkube").to_owned());
    let params = PatchParams { dry_run: true, field_manager: manager, ..PatchParams::default() };
    let request = Request::new(PATH).patch(node, &params, &Patch::Merge(body));
    cluster.fetch::<IgnoredAny>(&operation, request).await.map(drop)
}

/// A node that is not ours. Tie-breakers come last: admission policies may treat them differently.
fn other_node<'a>(nodes: &'a [NodeFacts], own: &str) -> Option<&'a str> {
    let others = nodes.iter().filter(|node| node.view.name != own);
    others.min_by_key(|node| node.view.tie_breaker).map(|node| node.view.name.as_str())
}

async fn writes(cluster: &Cluster, own: &str, other: Option<&str>, found: &mut Found) {
    if let Err(failure @ ApiFailure::Denied { .. }) = try_cordon(cluster, own).await {
        let text = format!("a cordon of our own node would be refused: {}", failure.text());
        found.add(
            Check::Rights,
            text,
            "grant it (/usr/share/ebb/kubernetes), or fix the admission policy that the text names",
        );
    }
    let Some(other) = other else { return };
    if try_cordon(cluster, other).await.is_ok() {
        let text =
            format!("this cluster does not confine nodes: our credentials may change Node {other} as well");
        found.add(Check::Confinement, text, CONFINE);
    }
}

/// What to do about rights that are missing.
const GRANT: &str = "grant it: /usr/share/ebb/kubernetes has all rights that zedkube uses";

const CONFINE: &str = "use this node's own credentials, and the admission policies of /usr/share/ebb/kubernetes: anyone who \
                       controls this device can drain every node";

async fn slots(cluster: &Cluster, map: &SlotMap, own: &str, other: Option<&str>, found: &mut Found) {
    let hint = "fix what the text names (rights, the ConfigMap, an admission policy), or set slots.limit = 0";
    // Credentials that may drain every node may change every slot as well: one problem is enough.
    let other = other.filter(|_| found.problems.iter().all(|problem| problem.what != Check::Confinement));
    match try_slots(cluster, map, own, other).await {
        // After a conflict another client has written in between, so the table can be written.
        Ok(false) | Err(SlotFailure::Conflict) => {}
        Ok(true) => {
            let other = other.unwrap_or_default();
            let text = format!(
                "this cluster does not confine the slots: our credentials may take and free that of Node {other} as well"
            );
            found.add(Check::Confinement, text, CONFINE);
        }
        Err(SlotFailure::Api(ApiFailure::Denied { .. })) if found.misses_rights() => {}
        Err(failure) => found.add(Check::Slots, failure.to_string(), hint),
    }
}

/// An API group, as far as it is needed.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    #[serde(default)]
    version: String,
}

async fn budgets(cluster: &Cluster, found: &mut Found) {
    let operation = Operation::on_cluster("get", "apis/policy", "");
    let request = Request::new("/apis/policy").list(&kube::core::params::ListParams::default());
    let Ok(group) = cluster.fetch::<Group>(&operation, request).await else { return };
    if group.versions.iter().all(|version| version.version != "v1") {
        let hint = "bring the cluster to Kubernetes 1.22 or newer";
        found.add(Check::Budgets, "the API server has no PodDisruptionBudgets of policy/v1", hint);
    }
}

fn credentials(cluster: &Cluster, found: &mut Found) {
    let Some((validity, now)) = cluster.validity().zip(cluster.server_time()) else { return };
    let seconds = validity.ends.duration_since(now).as_secs();
    let days = seconds.div_euclid(24 * 60 * 60);
    found.days_left = Some(days);
    if !is_soon(validity, seconds) {
        return;
    }
    let Validity { what, ends, .. } = validity;
    let text = if seconds < 0 {
        format!("our {what} ended at {ends}")
    } else {
        format!("our {what} ends at {ends}, in {days} days")
    };
    found.add(
        Check::Credentials,
        text,
        "renew it, and see that it is renewed by itself: zedkube notices a new file",
    );
}

/// Credentials that are renewed all the time, such as a bound token of one hour, are no problem because they are short.
fn is_soon(validity: Validity, seconds: i64) -> bool {
    let life = validity.begins.map(|begins| validity.ends.duration_since(begins).as_secs());
    seconds < SOON * 24 * 60 * 60 && life.is_none_or(|life| seconds < life / 10)
}

#[cfg(test)]
mod tests;
