use std::cell::Cell;

use drain::Moment;
use drain::storage::{Attachments, Storage};
use futures::stream::{SelectAll, pending};
use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;
use crate::testing::at;

thread_local! {
    /// The time by the bench's clock.
    static NOW: Cell<Moment> = const { Cell::new(Moment(0)) };
}

/// A feed whose watches are the test itself.
struct Bench {
    builder: SnapshotBuilder,
    updates: Updates,
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
}

impl Bench {
    fn new() -> Self {
        let (snapshots, receive) = watch::channel(None);
        let (health, _) = watch::channel(Health::default());
        // The watches are never polled, so nothing is asked there.
        let access = (at("http://127.0.0.1:1"), SharedWatches::default());
        let builder = SnapshotBuilder::new(access, || NOW.get(), "edge-a", snapshots, health);
        Self { builder, updates: SelectAll::new(), snapshots: receive }
    }

    /// Applies an update as the feed's loop does. True if there is a new snapshot.
    fn tell(&mut self, source: Source, change: Result<WatchEvent, WatchError>) -> bool {
        let changed =
            self.builder.apply(Update { source, is_sign_of_life: change.is_ok(), change: change.map(Some) });
        self.go_on(changed)
    }

    fn go_on(&mut self, changed: bool) -> bool {
        self.builder.ask_for_storage(&mut self.updates);
        if changed {
            self.builder.publish();
        }
        let is_new = self.snapshots.has_changed().unwrap();
        self.snapshots.mark_unchanged();
        is_new
    }

    /// An empty list of a shared watch ends, or a read by name finds nothing. True if there is a new snapshot.
    fn list(&mut self, source: Source) -> bool {
        let watches = &self.builder.shared.0;
        match source {
            Source::Budgets => watches.budgets.join(pending).show(Event::InitDone),
            Source::Attachments => watches.attachments.join(pending).show(Event::InitDone),
            Source::Peers => watches.peers.join(pending).show(Event::InitDone),
            Source::Claims => {
                let changed = self.builder.learn(Ok(Storage::default()));
                return self.go_on(changed);
            }
            Source::Node | Source::Pods => panic!("not shared: {source:?}"),
        };
        self.tell(source, Ok(WatchEvent::Shared))
    }

    fn refuse(&mut self, source: Source, is_refusal: bool) -> bool {
        let text = format!("no {source:?}");
        if source == Source::Claims {
            let changed = self.builder.learn(if is_refusal {
                Ok(Storage { claims_unreadable: Some(text), ..Storage::default() })
            } else {
                Err(ApiFailure::unreachable(text))
            });
            return self.go_on(changed);
        }
        self.tell(source, Err(WatchError { failure: ApiFailure::Denied { text }, is_refusal }))
    }

    fn pod(
        &mut self,
        event: fn((crate::store::Key, PodFacts)) -> Event<(crate::store::Key, PodFacts)>,
        claim: Option<&str>,
    ) -> bool {
        let volumes = claim.map(|claim| json!([{"persistentVolumeClaim": {"claimName": claim}}]));
        let pod = json!({"metadata": {"name": "db"}, "spec": {"volumes": volumes}});
        let pod = PodFacts::of(&serde_json::from_value(pod).unwrap());
        self.tell(Source::Pods, Ok(WatchEvent::Pods(event((key("db"), pod)))))
    }

    /// Lists the node, the pods and the budgets.
    fn begin(&mut self, claim: Option<&str>) -> bool {
        self.pod(Event::InitApply, claim);
        self.tell(Source::Node, Ok(WatchEvent::Node(Event::InitDone)));
        self.list(Source::Budgets);
        self.tell(Source::Pods, Ok(WatchEvent::Pods(Event::InitDone)))
    }

    fn attachments(&self) -> Attachments {
        self.snapshots.borrow().as_ref().unwrap().storage.attachments.clone()
    }
}

fn key(name: &str) -> crate::store::Key {
    (String::new(), name.to_owned())
}

/// The sources of storage; the first two have to be known before a pod with a claim is shown.
const STORAGE: [Source; 3] = [Source::Claims, Source::Attachments, Source::Peers];

#[tokio::test]
async fn a_pod_with_a_claim_is_not_shown_until_its_claims_and_attachments_have_settled() {
    let settled = &STORAGE[..2];
    for last in 0..settled.len() {
        let mut bench = Bench::new();
        assert!(bench.begin(None), "without claims nothing is waited for");
        assert_eq!(bench.updates.len(), 0);
        assert!(!bench.pod(Event::Apply, Some("data")));
        assert_eq!(bench.updates.len(), 2, "the watches have begun");
        assert!(!bench.refuse(Source::Peers, true), "other nodes are not waited for");
        for source in settled.iter().cycle().skip(last + 1).take(settled.len() - 1) {
            assert!(!bench.list(*source), "{source:?} alone is not enough");
        }
        let source = settled[last];
        assert!(!bench.refuse(source, false), "away is no answer");
        assert!(!bench.pod(Event::Apply, Some("other")), "still none");
        assert!(bench.list(source), "{source:?} was the last");
        assert_eq!(bench.attachments(), Attachments::Listed(vec![]));
    }
}

#[tokio::test]
async fn refusals_settle_when_they_last_and_the_watches_stay() {
    let mut bench = Bench::new();
    assert!(!bench.begin(Some("data")), "not even a first snapshot");
    let needed = [Source::Claims, Source::Attachments];
    // A drain goes on without peers: their first refusal is enough.
    assert!(!bench.refuse(Source::Peers, true));
    for at in [0, 1_000, 29_999] {
        NOW.set(Moment(at));
        for source in needed {
            assert!(!bench.refuse(source, true), "{source:?} at {at}");
        }
    }
    NOW.set(Moment(30_000));
    assert!(bench.refuse(Source::Claims, true), "both have lasted");
    assert_eq!(bench.attachments(), Attachments::Unreadable("no Attachments".to_owned()));
    assert!(!bench.refuse(Source::Claims, true), "the same again is no news");
    assert!(bench.pod(Event::Apply, None));
    assert_eq!(bench.updates.len(), 2, "they stay on");
    assert_eq!(bench.attachments(), Attachments::Unreadable("no Attachments".to_owned()));
}

#[tokio::test]
async fn a_refusal_in_the_middle_never_makes_what_is_known_unknown() {
    let mut bench = Bench::new();
    bench.begin(Some("data"));
    for source in STORAGE {
        bench.list(source);
    }
    let known = bench.snapshots.borrow().clone();
    assert!(known.is_some());
    for at in [0, 1_000, 30_000, 60_000] {
        NOW.set(Moment(at));
        for source in STORAGE {
            assert!(!bench.refuse(source, true), "{source:?} at {at}");
        }
    }
    assert_eq!(*bench.snapshots.borrow(), known);
}

#[tokio::test]
async fn a_drain_that_may_not_see_what_it_needs_hears_so_when_that_lasts() {
    for source in [Source::Node, Source::Pods, Source::Budgets] {
        let mut bench = Bench::new();
        let is_refused = move |bench: &Bench| bench.builder.health.borrow().refused.contains_key(&source);
        for at in [0, 1_000, 29_999] {
            NOW.set(Moment(at));
            bench.refuse(source, true);
            assert!(!is_refused(&bench), "{source:?} at {at}");
        }
        NOW.set(Moment(30_000));
        bench.builder.count_refusals();
        assert!(is_refused(&bench), "{source:?}: time alone is enough, the next try may be far off");
        if source == Source::Pods {
            bench.pod(Event::Apply, None);
            assert!(!is_refused(&bench), "it may be watched after all");
        }
        NOW.set(Moment(0));
        let mut bench = Bench::new();
        for at in [0, 10_000, 20_000, 40_000] {
            NOW.set(Moment(at));
            bench.refuse(source, at != 20_000);
            assert!(!is_refused(&bench), "{source:?}: another failure in between");
        }
    }
    // Pods could be watched in between: the count starts again.
    let mut bench = Bench::new();
    for at in [0, 10_000, 20_000, 30_000, 40_000] {
        NOW.set(Moment(at));
        if at == 20_000 {
            bench.pod(Event::Apply, None);
        } else {
            bench.refuse(Source::Pods, true);
        }
        let refused = bench.builder.health.borrow().refused.clone();
        assert!(refused.is_empty(), "{at}: {refused:?}");
    }
}
