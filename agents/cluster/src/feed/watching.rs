//! The watches of a feed, as one stream of updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drain::storage::{AttachmentView, ClaimView, VolumeView};
use drain::{BudgetView, Moment};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, TryStreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource, ResourceExt};

use crate::clock::boot_time;
use crate::failure::{ApiFailure, classify, is_refusal};
use crate::node_facts::{NodeFacts, takes_pods};
use crate::objects::{Budget, Node, Pod};
use crate::operation::{Operation, is_name};
use crate::shelf::Key;
use crate::storage::{
    Attachment, Claim, Driver, Volume, attachment_view, claim_view, never_attaches, volume_view,
};
use crate::views::{PodFacts, budget_view};
use crate::wire::Cluster;

/// Which watch.
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

/// What one of the watches says.
pub(super) struct Update {
    pub(super) source: Source,
    /// This came from the server. "A list begins" is said before the server is asked.
    pub(super) is_sign_of_life: bool,
    pub(super) says: Result<Says, Trouble>,
}

/// The event of a watch, trimmed.
pub(super) enum Says {
    Node(Event<(Key, NodeFacts)>),
    Pods(Event<(Key, PodFacts)>),
    Budgets(Event<(Key, BudgetView)>),
    Claims(Event<(Key, ClaimView)>),
    Volumes(Event<(Key, VolumeView)>),
    Attachments(Event<(Key, AttachmentView)>),
    /// The driver never attaches.
    Drivers(Event<(Key, bool)>),
    /// The node takes pods.
    Peers(Event<(Key, bool)>),
}

/// A watch has failed. It goes on by itself.
pub(super) struct Trouble {
    pub(super) failure: ApiFailure,
    /// The server would answer the same again.
    pub(super) is_refusal: bool,
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

/// The node, its pods, all budgets.
pub(super) fn of_node(cluster: &Cluster, node: &str) -> Updates {
    // A name that no Node can have selects nothing.
    let node = if is_name(node) { node } else { "-" };
    let config = |fields: String| Config::default().fields(&fields);
    let mut all = SelectAll::new();
    let only = config(format!("metadata.name={node}"));
    all.push(watch::<Node, _>(cluster, only, Source::Node, NodeFacts::of, Says::Node));
    let bound = config(format!("spec.nodeName={node}"));
    all.push(watch::<Pod, _>(cluster, bound, Source::Pods, PodFacts::of, Says::Pods));
    all.push(watch::<Budget, _>(cluster, Config::default(), Source::Budgets, budget_view, Says::Budgets));
    all
}

/// What volumes hang on, and whether another node takes pods.
pub(super) fn of_storage(cluster: &Cluster, updates: &mut Updates) {
    let all = Config::default;
    updates.push(watch::<Claim, _>(cluster, all(), Source::Claims, claim_view, Says::Claims));
    updates.push(watch::<Volume, _>(cluster, all(), Source::Volumes, volume_view, Says::Volumes));
    let attachments = Source::Attachments;
    updates.push(watch::<Attachment, _>(cluster, all(), attachments, attachment_view, Says::Attachments));
    updates.push(watch::<Driver, _>(cluster, all(), Source::Drivers, never_attaches, Says::Drivers));
    updates.push(watch::<Node, _>(cluster, all(), Source::Peers, takes_pods, Says::Peers));
}

/// One watch: a list, then changes, for ever; after a failure it goes on by itself.
fn watch<K, V>(
    cluster: &Cluster,
    config: Config,
    source: Source,
    trim: impl Fn(&K) -> V + Send + 'static,
    says: impl Fn(Event<(Key, V)>) -> Says + Send + 'static,
) -> BoxStream<'static, Update>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    V: 'static,
{
    let entry = move |object: &K| ((object.namespace().unwrap_or_default(), object.name_any()), trim(object));
    let pauses = Pauses::default();
    let refused = Arc::clone(&pauses.refused);
    watcher(Api::<K>::all(cluster.client().clone()), config)
        .inspect_err(move |error| refused.store(trouble(source, error).is_refusal, Ordering::Relaxed))
        .backoff(pauses)
        .map(move |event| Update {
            source,
            is_sign_of_life: !matches!(event, Ok(Event::Init) | Err(_)),
            says: event.map(|event| says(trimmed(event, &entry))).map_err(|error| trouble(source, &error)),
        })
        .boxed()
}

fn trimmed<K, V>(event: Event<K>, entry: impl Fn(&K) -> (Key, V)) -> Event<(Key, V)> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(entry(&object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(entry(&object)),
        Event::Delete(object) => Event::Delete(entry(&object)),
    }
}

fn trouble(source: Source, error: &watcher::Error) -> Trouble {
    let resource = source.resource();
    let of = |verb, error: &kube::Error| Trouble {
        failure: classify(&Operation::on_cluster(verb, resource, ""), error),
        is_refusal: is_refusal(error),
    };
    match error {
        watcher::Error::InitialListFailed(error) => of("list", error),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => of("watch", error),
        watcher::Error::WatchError(status) => of("watch", &kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => Trouble {
            failure: ApiFailure::other(format!(
                "cannot watch {resource}: the server sent no resourceVersion"
            )),
            is_refusal: true,
        },
    }
}

/// Pauses after failures in a row: 0.25 s, doubling up to 3 s, so that a watch is back 3 s after the server; up to 30 s
/// as long as the server refuses, which only a person can change.
///
/// kube-runtime resets a backoff at every sign that is not a failure, and "a list begins" is one; so this one takes
/// only time for an answer.
#[derive(Debug, Default)]
struct Pauses {
    next: Duration,
    last: Moment,
    /// The last failure was a refusal.
    refused: Arc<AtomicBool>,
}

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(3);
    const LONGEST_REFUSED: Duration = Duration::from_secs(30);
    const FORGOTTEN: Duration = Duration::from_mins(1);
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = boot_time();
        if now.since(self.last) >= Self::FORGOTTEN {
            self.next = Self::SHORTEST;
        }
        self.last = now;
        let is_refused = self.refused.load(Ordering::Relaxed);
        let longest = if is_refused { Self::LONGEST_REFUSED } else { Self::LONGEST };
        let pause = self.next.min(longest);
        self.next = pause.saturating_mul(2).min(longest);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_three_seconds_and_to_thirty_while_refused() {
        let mut pauses = Pauses::default();
        let mut millis =
            |number| -> Vec<_> { pauses.by_ref().take(number).map(|pause| pause.as_millis()).collect() };
        assert_eq!(millis(6), [250, 500, 1_000, 2_000, 3_000, 3_000]);
        pauses.reset();
        assert_eq!(pauses.next(), Some(Duration::from_secs(3)), "a sign of life that is none resets nothing");
        pauses.refused.store(true, Ordering::Relaxed);
        let mut seconds =
            |number| -> Vec<_> { pauses.by_ref().take(number).map(|pause| pause.as_secs()).collect() };
        assert_eq!(seconds(6), [3, 6, 12, 24, 30, 30]);
        pauses.refused.store(false, Ordering::Relaxed);
        assert_eq!(pauses.next(), Some(Duration::from_secs(3)), "away now, no longer refused");
        pauses.last = Moment(0);
        assert_eq!(pauses.next(), Some(Duration::from_millis(250)), "long ago");
    }
}
