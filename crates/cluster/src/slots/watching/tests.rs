use fake_cluster::{Effect, Fault, Reply};

use super::*;
use crate::slots::read_slots;
use crate::slots::tests::{map, put};
use crate::testing::{last, soon, still_cluster};

#[tokio::test]
async fn a_watch_is_of_one_map_only() {
    let (fake, cluster) = still_cluster();
    let mut watch = SlotWatch::start(&cluster, &map(), &std::sync::Arc::default());
    assert_eq!(soon(watch.changed()).await, Ok(Slots::default()));
    let list = last(&fake, "list", "configmaps");
    assert_eq!(list.namespace, "kube-system");
    assert!(list.query.contains("fieldSelector=metadata.name%3Debb-slots-default"), "{}", list.query);
}

#[tokio::test]
async fn changes_that_nobody_waited_for_are_told_once() {
    let (fake, cluster) = still_cluster();
    let mut watch = SlotWatch::start(&cluster, &map(), &std::sync::Arc::default());
    soon(watch.changed()).await.unwrap();
    for number in 0..50 {
        put(&fake, &[("edge-a", &number.to_string())]);
    }
    let last = read_slots(&cluster, &map()).await.unwrap();
    let mut times = 1;
    while soon(watch.changed()).await.unwrap() != last {
        times += 1;
    }
    assert!(times <= 50, "{times}");
}

#[tokio::test]
async fn a_watch_goes_on_after_failures() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "list", "configmaps", "kube-system", "");
    fake.faults().add(Fault::on("list", "configmaps", Effect::Answer(denied)).times(1));
    let mut watch = SlotWatch::start(&cluster, &map(), &std::sync::Arc::default());
    assert!(soon(watch.changed()).await.is_err());
    soon(watch.changed()).await.unwrap();
    assert_eq!(fake.requests().count("ebb/", "list", "configmaps"), 2, "refused, and then not");
    put(&fake, &[]);
    soon(watch.changed()).await.unwrap();
    fake.faults().break_watches(Some("configmaps"));
    put(&fake, &[("edge-a", "1")]);
    fake.faults().forget_history();
    let table = read_slots(&cluster, &map()).await.unwrap();
    soon(async { while watch.changed().await.as_ref() != Ok(&table) {} }).await;
}

/// zedkube starts a new watch every 10 s while its credentials are refused.
#[tokio::test]
async fn a_refusal_that_lasts_is_told_once_for_all_watches() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "list", "configmaps", "kube-system", "");
    fake.faults().add(Fault::on("list", "configmaps", Effect::Answer(denied)).always());
    let is_told = std::sync::Arc::default();
    for lists in 1..3 {
        let watch = SlotWatch::start(&cluster, &map(), &is_told);
        soon(async {
            while fake.requests().count("ebb/", "list", "configmaps") < lists
                || !is_told.load(Ordering::Relaxed)
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(watch);
    }
    fake.faults().clear();
    soon(SlotWatch::start(&cluster, &map(), &is_told).changed()).await.unwrap();
    assert!(!is_told.load(Ordering::Relaxed), "the next refusal is a new one");
}

#[tokio::test]
async fn a_watch_of_what_cannot_be_is_silent() {
    let (fake, cluster) = still_cluster();
    let map = SlotMap::new("a/b", "default");
    let mut watch = SlotWatch::start(&cluster, &map, &std::sync::Arc::default());
    tokio::select! {
        biased;
        _ = watch.changed() => panic!("it has changed"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 0);
}
