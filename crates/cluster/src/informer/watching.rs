//! The watches of an informer, as one stream of updates.

use std::sync::Arc;

use drain::BudgetView;
use drain::storage::AttachmentView;
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Resource, ResourceExt};

use super::shared::{SharedWatch, SharedWatches, WatchResult};
use crate::node_facts::{NodeFacts, takes_pods};
use crate::objects::{Budget, Node, Pod};
use crate::operation::is_name;
use crate::storage::{Attachment, attachment_view};
use crate::store::Key;
use crate::views::{PodFacts, budget_view};
use crate::watches::{Told, WatchError, follow, trimmed};
use crate::wire::Cluster;

/// The name of a watch, or of what is read by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Node,
    Pods,
    Budgets,
    /// Claims, volumes and drivers, which are read by name.
    Claims,
    Attachments,
    Peers,
}

/// An update of one watch.
pub(super) struct Update {
    pub(super) source: Source,
    /// True if this update came from the server. The event "a list begins" comes before the server is asked.
    pub(super) is_sign_of_life: bool,
    /// `None` if nothing has changed.
    pub(super) change: Result<Option<WatchEvent>, WatchError>,
}

/// A change that a watch shows, with trimmed objects.
#[expect(clippy::large_enum_variant, reason = "each is moved once and taken apart at once")]
pub(super) enum WatchEvent {
    Node(Event<(Key, NodeFacts)>),
    Pods(Event<(Key, PodFacts)>),
    /// The objects of a [`SharedWatch`] have changed, which has them.
    Shared,
}

pub(super) type Updates = SelectAll<BoxStream<'static, Update>>;

impl Source {
    fn resource(self) -> &'static str {
        match self {
            Self::Node | Self::Peers => "nodes",
            Self::Pods => "pods",
            Self::Budgets => "poddisruptionbudgets",
            Self::Claims => "persistentvolumeclaims",
            Self::Attachments => "volumeattachments",
        }
    }
}

/// Watches the node and its pods.
pub(super) fn of_node(cluster: &Cluster, node: &str) -> Updates {
    // A name that no Node can have selects nothing.
    let node = if is_name(node) { node } else { "-" };
    let config = |fields: String| Config::default().fields(&fields);
    let mut all = SelectAll::new();
    let only = config(format!("metadata.name={node}"));
    all.push(watch::<Node, _>(cluster, only, Source::Node, NodeFacts::of, WatchEvent::Node));
    let bound = config(format!("spec.nodeName={node}"));
    all.push(watch::<Pod, _>(cluster, bound, Source::Pods, PodFacts::of, WatchEvent::Pods));
    all
}

/// Each joins the watch that runs already, or begins it.
impl SharedWatches {
    pub(super) fn budgets(&self, cluster: &Cluster) -> Arc<SharedWatch<BudgetView>> {
        self.0.budgets.join(|| results::<Budget, _>(cluster, Config::default(), Source::Budgets, budget_view))
    }

    pub(super) fn attachments(&self, cluster: &Cluster) -> Arc<SharedWatch<AttachmentView>> {
        self.0.attachments.join(|| {
            results::<Attachment, _>(cluster, Config::default(), Source::Attachments, attachment_view)
        })
    }

    /// All Nodes by name: true if the node takes pods.
    pub(super) fn peers(&self, cluster: &Cluster) -> Arc<SharedWatch<bool>> {
        self.0.peers.join(|| results::<Node, _>(cluster, Config::default(), Source::Peers, takes_pods))
    }
}

/// One watch, with trimmed objects.
fn results<K, V>(
    cluster: &Cluster,
    config: Config,
    source: Source,
    trim: impl Fn(&K) -> V + Send + 'static,
) -> BoxStream<'static, WatchResult<V>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    V: 'static,
{
    let entry = move |object: &K| ((object.namespace().unwrap_or_default(), object.name_any()), trim(object));
    follow(cluster, Api::<K>::all, config, source.resource())
        .map(move |told| {
            told.map(|told| match told {
                Told::Event(event) => Told::Event(trimmed(event, &entry)),
                Told::Lives => Told::Lives,
            })
        })
        .boxed()
}

/// The updates of a watch that is not shared.
fn watch<K, V>(
    cluster: &Cluster,
    config: Config,
    source: Source,
    trim: impl Fn(&K) -> V + Send + 'static,
    change: impl Fn(Event<(Key, V)>) -> WatchEvent + Send + 'static,
) -> BoxStream<'static, Update>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    V: 'static,
{
    results(cluster, config, source, trim)
        .map(move |told| Update {
            source,
            is_sign_of_life: !matches!(told, Ok(Told::Event(Event::Init)) | Err(_)),
            change: told.map(|told| match told {
                Told::Event(event) => Some(change(event)),
                Told::Lives => None,
            }),
        })
        .boxed()
}
