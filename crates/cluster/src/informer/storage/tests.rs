use drain::PodId;
use drain::view::PodClaim;
use kube::runtime::watcher::Event;

use super::*;
use crate::testing::at;

/// What one of the watches shows.
enum Shown {
    Claims(Event<(Key, ClaimView)>),
    Volumes(Event<(Key, VolumeView)>),
    Attachments(Event<(Key, AttachmentView)>),
    Drivers(Event<(Key, bool)>),
    Peers(Event<(Key, bool)>),
}

/// The stores of edge-a. The test itself is their watches, which are never polled.
fn unlisted() -> StorageStores {
    StorageStores::begin("edge-a", &SharedWatches::default(), &at("http://127.0.0.1:1"))
}

/// True if the objects change.
fn show(stores: &mut StorageStores, shown: Shown) -> bool {
    let (source, has_changed) = match shown {
        Shown::Claims(event) => (Source::Claims, stores.claims.watch.show(event)),
        Shown::Volumes(event) => (Source::Volumes, stores.volumes.watch.show(event)),
        Shown::Attachments(event) => (Source::Attachments, stores.attachments.watch.show(event)),
        Shown::Drivers(event) => (Source::Drivers, stores.drivers.watch.show(event)),
        Shown::Peers(event) => (Source::Peers, stores.peers.watch.show(event)),
    };
    if has_changed {
        stores.note_change(source);
    }
    has_changed
}

fn pod(claims: &[&str]) -> PodView {
    let claim = |name: &&str| PodClaim { name: (*name).to_owned(), ephemeral: false };
    let id = PodId { namespace: "shop".to_owned(), ..PodId::default() };
    PodView { id, claims: claims.iter().map(claim).collect(), ..PodView::default() }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn claim(name: &str, volume: &str) -> (Key, ClaimView) {
    let view = ClaimView {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        volume: volume.to_owned(),
        ..ClaimView::default()
    };
    (key("shop", name), view)
}

fn volume(name: &str) -> (Key, VolumeView) {
    (key("", name), VolumeView { name: name.to_owned(), csi: None })
}

fn attachment(volume: &str, node: &str) -> (Key, AttachmentView) {
    let view = AttachmentView {
        volume: Some(volume.to_owned()),
        node: node.to_owned(),
        attached: true,
        ..AttachmentView::default()
    };
    (key("", volume), view)
}

/// The stores of edge-a, whose five watches have listed these objects.
fn listed(claims: &[(&str, &str)], volumes: &[&str], attachments: &[(&str, &str)]) -> StorageStores {
    let mut stores = unlisted();
    let claimed = |(name, volume): &(&str, &str)| Shown::Claims(Event::InitApply(claim(name, volume)));
    let mut change: Vec<_> = claims.iter().map(claimed).collect();
    change.extend(volumes.iter().map(|name| Shown::Volumes(Event::InitApply(volume(name)))));
    let attached =
        |(volume, node): &(&str, &str)| Shown::Attachments(Event::InitApply(attachment(volume, node)));
    change.extend(attachments.iter().map(attached));
    change.extend([
        Shown::Claims(Event::InitDone),
        Shown::Volumes(Event::InitDone),
        Shown::Attachments(Event::InitDone),
        Shown::Drivers(Event::InitDone),
        Shown::Peers(Event::InitDone),
    ]);
    for change in change {
        show(&mut stores, change);
    }
    stores
}

fn names(storage: &Storage) -> (Vec<String>, Vec<String>) {
    let bound = |claim: &ClaimView| format!("{}={}", claim.name, claim.volume);
    let claims = storage.claims.iter().map(bound).collect();
    (claims, storage.volumes.iter().map(|volume| volume.name.clone()).collect())
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[tokio::test]
async fn only_what_pods_use_or_have_used_is_shown() {
    let claims = [("a", "vol-a"), ("b", "vol-b"), ("open", "")];
    let mut stores = listed(&claims, &["vol-a", "vol-b", "vol-x"], &[]);
    let first = stores.view(&[pod(&["a", "open", "missing"])]);
    assert_eq!(
        names(&first),
        (texts(["a=vol-a", "missing=", "open="]), texts(["vol-a"])),
        "a missing one is not bound"
    );
    let other_namespace = PodView { id: PodId::default(), ..pod(&["b"]) };
    let (claims, volumes) = names(&stores.view(&[other_namespace]));
    assert_eq!((claims.len(), volumes), (4, names(&first).1), "remembered, and no more bound");
    assert_eq!(names(&stores.view(&[pod(&["b"])])).1, texts(["vol-a", "vol-b"]));
}

#[tokio::test]
async fn what_is_gone_is_shown_as_it_was_seen_last_and_what_is_new_as_it_is() {
    let mut stores = listed(&[("a", "vol-a")], &["vol-a", "vol-2"], &[]);
    stores.view(&[pod(&["a"])]);
    assert!(show(&mut stores, Shown::Claims(Event::Delete(claim("a", "vol-a")))));
    assert!(show(&mut stores, Shown::Volumes(Event::Delete(volume("vol-a")))));
    assert_eq!(names(&stores.view(&[pod(&["a"])])), (texts(["a=vol-a"]), texts(["vol-a"])));
    // A claim of the same name was deleted and created again: the old volume still has to be detached.
    assert!(show(&mut stores, Shown::Claims(Event::Apply(claim("a", "vol-2")))));
    assert_eq!(names(&stores.view(&[])), (texts(["a=vol-2"]), texts(["vol-2", "vol-a"])));
}

#[tokio::test]
async fn too_many_remembered_are_forgotten_unless_they_are_in_use() {
    let claims: Vec<_> =
        (0..1_200).map(|number| (format!("c{number:04}"), format!("v{number:04}"))).collect();
    let claims: Vec<_> = claims.iter().map(|(name, volume)| (name.as_str(), volume.as_str())).collect();
    let volumes: Vec<_> = claims.iter().map(|(_, volume)| *volume).collect();
    let mut stores = listed(&claims, &volumes, &[("v0001", "edge-a"), ("v0002", "edge-b")]);
    let all_names: Vec<_> = claims.iter().map(|(name, _)| *name).collect();
    stores.view(&[pod(&all_names[..1_000])]);
    assert_eq!(stores.used.claims.len(), 1_000, "as many as may be");
    let left = stores.view(&[pod(&["c0003", "c1100"])]);
    let expected = (texts(["c0001=v0001", "c0003=v0003", "c1100=v1100"]), texts(["v0001", "v0003", "v1100"]));
    assert_eq!(names(&left), expected);
    let all = stores.view(&[pod(&all_names)]);
    assert_eq!(all.claims.len(), 1_200, "what is in use is never forgotten");
}

#[tokio::test]
async fn a_refusal_settles_a_watch_until_it_lists_and_never_after() {
    let denied = ApiFailure::Denied { text: "cannot list volumeattachments".to_owned() };
    let missing = ApiFailure::NotFound { text: "no".to_owned() };
    let mut stores = unlisted();
    assert!(stores.refuse(Source::Attachments, &denied));
    assert!(!stores.refuse(Source::Attachments, &denied), "the same again is no news");
    assert_eq!(stores.view(&[]).attachments, Attachments::Unreadable(denied.text().to_owned()));
    assert!(stores.refuse(Source::Attachments, &missing));
    assert_eq!(stores.view(&[]).attachments, Attachments::NotServed);
    assert!(!show(&mut stores, Shown::Attachments(Event::Init)));
    assert!(!show(&mut stores, Shown::Attachments(Event::InitApply(attachment("vol-a", "edge-a")))));
    assert_eq!(stores.view(&[]).attachments, Attachments::NotServed, "not before the end of the list");
    assert!(show(&mut stores, Shown::Attachments(Event::InitDone)), "readable after all");
    let listed = Attachments::Listed(vec![attachment("vol-a", "edge-a").1]);
    assert_eq!(stores.view(&[]).attachments, listed);
    assert!(!stores.refuse(Source::Attachments, &denied), "what is known stays known");
    assert_eq!(stores.view(&[]).attachments, listed);
}

#[tokio::test]
async fn claims_volumes_and_attachments_have_to_settle() {
    let denied = ApiFailure::Denied { text: "no".to_owned() };
    let sources = [Source::Drivers, Source::Peers, Source::Claims, Source::Volumes, Source::Attachments];
    let mut stores = unlisted();
    for source in sources {
        assert!(!stores.is_settled(), "before {source:?}");
        assert!(stores.refuse(source, &denied));
    }
    assert!(stores.is_settled());
    let storage = stores.view(&[pod(&["a"])]);
    let expected = Storage {
        claims_unreadable: Some("no".to_owned()),
        attachments: Attachments::Unreadable("no".to_owned()),
        ..Storage::default()
    };
    assert_eq!(storage, expected, "all else is unknown");
}

#[tokio::test]
async fn drivers_and_peers() {
    let entry = |name: &str, value| (key("", name), value);
    let mut stores = listed(&[], &[], &[]);
    let seen = |stores: &mut StorageStores| {
        let storage = stores.view(&[]);
        (storage.drivers_without_attach, storage.peer_takes_pods)
    };
    assert_eq!(seen(&mut stores), (vec![], Some(false)));
    show(&mut stores, Shown::Peers(Event::Apply(entry("edge-a", true))));
    assert_eq!(seen(&mut stores).1, Some(false), "the node itself is no peer");
    show(&mut stores, Shown::Peers(Event::Apply(entry("edge-b", false))));
    assert_eq!(seen(&mut stores).1, Some(false));
    show(&mut stores, Shown::Peers(Event::Apply(entry("edge-b", true))));
    show(&mut stores, Shown::Drivers(Event::Apply(entry("nfs.csi", true))));
    show(&mut stores, Shown::Drivers(Event::Apply(entry("csi.bench", false))));
    assert_eq!(seen(&mut stores), (texts(["nfs.csi"]), Some(true)));
    stores.refuse(Source::Peers, &ApiFailure::Denied { text: "no".to_owned() });
    assert_eq!(seen(&mut stores).1, Some(true), "what is known stays known");
}
