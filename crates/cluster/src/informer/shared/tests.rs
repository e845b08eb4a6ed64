use drain::storage::Attachments;
use fake_cluster::{Effect, Fault, Reply};
use tokio::sync::oneshot;

use super::*;
use crate::clock::boot_time;
use crate::failure::ApiFailure;
use crate::informer::Informer;
use crate::testing::{attach, attached, pod_with_volume_on, soon, still_cluster};

/// A clock on which 30 s, the time that a refusal has to last, pass in a third of a second.
fn hasty() -> drain::Moment {
    drain::Moment(boot_time().0 * 100)
}

fn failure() -> WatchError {
    WatchError { failure: ApiFailure::other("no".to_owned()), is_refusal: true }
}

#[test]
fn a_user_that_looks_seldom_is_told_all_that_counts() {
    type Told = fn() -> WatchResult<u8>;
    let failed: Told = || Err(failure());
    let begun: Told = || Ok(super::Told::Event(Event::Init));
    let listed: Told = || Ok(super::Told::Event(Event::InitDone));
    let lives: Told = || Ok(super::Told::Lives);
    let cases: [(&str, &[Told], &[Told], &[&str]); 8] = [
        ("nothing yet", &[], &[begun], &[]),
        ("a list", &[], &[begun, listed], &["changed"]),
        ("a list, then failures", &[], &[listed, failed, failed], &["changed", "failed", "failed"]),
        ("another failure", &[failed], &[failed], &["failed"]),
        ("no more failures than count", &[], &[failed; 9], &["failed"; 3]),
        ("a failure that is over", &[listed, failed], &[lives], &["lives"]),
        ("it lived in between", &[failed, failed], &[lives, failed], &["lives", "failed"]),
        ("the same list again", &[listed], &[begun, listed, lives], &[]),
    ];
    for (what, before, then, expected) in cases {
        let content = Content { store: RwLock::default(), condition: watch::Sender::default() };
        for told in before {
            content.see(told());
        }
        let seen = content.condition.borrow().clone();
        for told in then {
            content.see(told());
        }
        let updates = content.condition.borrow().since(&seen, Source::Budgets);
        let words = updates.iter().map(|update| match (&update.change, update.is_sign_of_life) {
            (Ok(Some(_)), true) => "changed",
            (Ok(None), true) => "lives",
            (Err(_), false) => "failed",
            (Ok(_), false) | (Err(_), true) => "contradicts itself",
        });
        assert_eq!(words.collect::<Vec<_>>(), expected, "{what}");
    }
}

#[tokio::test]
async fn a_shared_watch_ends_with_its_last_user() {
    let (alive, mut ended) = oneshot::channel::<()>();
    let watched = stream::pending::<WatchResult<u8>>().inspect(move |_| assert!(!alive.is_closed()));
    let entry = Entry::default();
    let first = entry.join(|| watched);
    let second = entry.join(|| -> stream::Pending<_> { panic!("one watch is enough") });
    drop(first);
    tokio::task::yield_now().await;
    assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has a user");
    drop(second);
    assert!(soon(ended).await.is_err(), "its stream is dropped");
}

/// Also to one that comes when the watch is silent after its failures.
#[tokio::test]
async fn a_refusal_of_a_shared_watch_is_told_to_all_its_users() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "list", "poddisruptionbudgets", "", "");
    let on_lists = |effect| Fault::on("list", "poddisruptionbudgets", effect);
    fake.faults().add(on_lists(Effect::Answer(denied)).times(REFUSAL_TIMES));
    fake.faults().add(on_lists(Effect::Hang).always());
    let shared = SharedWatches::default();
    let join = || Informer::sharing(&shared, &cluster, "edge-a", hasty);
    let mut informers = vec![join(), join()];
    for late in [false, true] {
        for informer in &informers {
            let refusal = soon(informer.failures().refused()).await;
            assert!(matches!(refusal, ApiFailure::Denied { .. }), "late: {late}, {refusal:?}");
            assert_eq!(informer.last_error(), Some(refusal));
        }
        informers.push(join());
    }
}

/// What a watch showed before it failed may be out of date: a drain that begins now lists for itself, as it always did.
#[tokio::test]
async fn nobody_joins_a_watch_that_has_listed_and_fails() {
    let (fake, cluster) = still_cluster();
    pod_with_volume_on(&fake, "db", "edge-a");
    let shared = SharedWatches::default();
    let mut first = Informer::sharing(&shared, &cluster, "edge-a", boot_time);
    soon(first.changed()).await;
    let busy = Effect::Answer(Reply::text(503, "not now"));
    fake.faults().add(Fault::on("watch", "volumeattachments", busy).always());
    let mut failures = first.failures();
    fake.faults().cut_watches(Some("volumeattachments"));
    soon(failures.next()).await;
    attach(&fake, "vol-new", "edge-a");
    let mut second = Informer::sharing(&shared, &cluster, "edge-a", boot_time);
    let both = Attachments::Listed(vec![attached("vol-db", "edge-a"), attached("vol-new", "edge-a")]);
    assert_eq!(soon(second.changed()).await.storage.attachments, both);
}
