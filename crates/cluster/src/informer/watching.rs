//! The watches of an informer, as one stream of updates.

use drain::BudgetView;
use drain::storage::{AttachmentView, ClaimView, VolumeView};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Resource, ResourceExt};

use crate::node_facts::{NodeFacts, takes_pods};
use crate::objects::{Budget, Node, Pod};
use crate::operation::is_name;
use crate::storage::{
    Attachment, Claim, Driver, Volume, attachment_view, claim_view, never_attaches, volume_view,
};
use crate::store::Key;
use crate::views::{PodFacts, budget_view};
use crate::watches::{Told, WatchError, follow, trimmed};
use crate::wire::Cluster;

/// The name of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Node,
    Pods,
    Budgets,
    Claims,
    Volumes,
    Attachments,
    Drivers,
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

/// An event of a watch, with trimmed objects.
pub(super) enum WatchEvent {
    Node(Event<(Key, NodeFacts)>),
    Pods(Event<(Key, PodFacts)>),
    Budgets(Event<(Key, BudgetView)>),
    Claims(Event<(Key, ClaimView)>),
    Volumes(Event<(Key, VolumeView)>),
    Attachments(Event<(Key, AttachmentView)>),
    /// The value is true if the driver never attaches.
    Drivers(Event<(Key, bool)>),
    /// The value is true if the node takes pods.
    Peers(Event<(Key, bool)>),
}

pub(super) type Updates = SelectAll<BoxStream<'static, Update>>;

impl Source {
    fn resource(self) -> &'static str {
        match self {
            Self::Node | Self::Peers => "nodes",
            Self::Pods => "pods",
            Self::Budgets => "poddisruptionbudgets",
            Self::Claims => "persistentvolumeclaims",
            Self::Volumes => "persistentvolumes",
            Self::Attachments => "volumeattachments",
            Self::Drivers => "csidrivers",
        }
    }
}

/// Watches the node, its pods and all budgets.
pub(super) fn of_node(cluster: &Cluster, node: &str) -> Updates {
    // A name that no Node can have selects nothing.
    let node = if is_name(node) { node } else { "-" };
    let config = |fields: String| Config::default().fields(&fields);
    let mut all = SelectAll::new();
    let only = config(format!("metadata.name={node}"));
    all.push(watch::<Node, _>(cluster, only, Source::Node, NodeFacts::of, WatchEvent::Node));
    let bound = config(format!("spec.nodeName={node}"));
    all.push(watch::<Pod, _>(cluster, bound, Source::Pods, PodFacts::of, WatchEvent::Pods));
    all.push(watch::<Budget, _>(
        cluster,
        Config::default(),
        Source::Budgets,
        budget_view,
        WatchEvent::Budgets,
    ));
    all
}

/// Watches the objects that a volume depends on, and all Nodes, to know whether another node takes pods.
pub(super) fn of_storage(cluster: &Cluster, updates: &mut Updates) {
    let all = Config::default;
    updates.push(watch::<Claim, _>(cluster, all(), Source::Claims, claim_view, WatchEvent::Claims));
    updates.push(watch::<Volume, _>(cluster, all(), Source::Volumes, volume_view, WatchEvent::Volumes));
    let attachments = Source::Attachments;
    updates.push(watch::<Attachment, _>(
        cluster,
        all(),
        attachments,
        attachment_view,
        WatchEvent::Attachments,
    ));
    updates.push(watch::<Driver, _>(cluster, all(), Source::Drivers, never_attaches, WatchEvent::Drivers));
    updates.push(watch::<Node, _>(cluster, all(), Source::Peers, takes_pods, WatchEvent::Peers));
}

/// One watch, with trimmed objects.
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
    let entry = move |object: &K| ((object.namespace().unwrap_or_default(), object.name_any()), trim(object));
    follow(cluster, Api::<K>::all, config, source.resource())
        .map(move |told| Update {
            source,
            is_sign_of_life: !matches!(told, Ok(Told::Event(Event::Init)) | Err(_)),
            change: told.map(|told| match told {
                Told::Event(event) => Some(change(trimmed(event, &entry))),
                Told::Lives => None,
            }),
        })
        .boxed()
}
