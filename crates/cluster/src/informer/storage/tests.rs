use drain::PodId;
use drain::storage::VolumeView;
use drain::view::PodClaim;
use kube::runtime::watcher::Event;

use super::*;
use crate::testing::at;

/// The stores of edge-a. The test itself is their watches, which are never polled.
fn unlisted() -> StorageStores {
    StorageStores::begin("edge-a", &SharedWatches::default(), &at("http://127.0.0.1:1"))
}

/// Shows an event of the watch on attachments. True if the objects change.
fn show(stores: &mut StorageStores, event: Event<(Key, AttachmentView)>) -> bool {
    let has_changed = stores.attachments.watch.show(event);
    if has_changed {
        stores.note_change(Source::Attachments);
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

fn claim(name: &str, volume: &str) -> ClaimView {
    let (namespace, name, volume) = ("shop".to_owned(), name.to_owned(), volume.to_owned());
    ClaimView { namespace, name, volume, ..ClaimView::default() }
}

/// What a read by name finds.
fn found(claims: &[(&str, &str)], volumes: &[&str]) -> Storage {
    Storage {
        claims: claims.iter().map(|(name, volume)| claim(name, volume)).collect(),
        volumes: volumes.iter().map(|name| VolumeView { name: (*name).to_owned(), csi: None }).collect(),
        ..Storage::default()
    }
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

/// The stores of edge-a, for which this was read and whose watch has listed these attachments.
fn listed(claims: &[(&str, &str)], volumes: &[&str], attachments: &[(&str, &str)]) -> StorageStores {
    let mut stores = unlisted();
    stores.learn(found(claims, volumes), Moment(0));
    for (volume, node) in attachments {
        show(&mut stores, Event::InitApply(attachment(volume, node)));
    }
    show(&mut stores, Event::InitDone);
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
async fn each_claim_is_read_once_and_again_while_it_is_not_bound_or_its_volume_is_not_known() {
    let (first, later) = (Moment(1_000), Moment(1_000) + INCOMPLETE);
    let mut stores = unlisted();
    let pause = |stores: &StorageStores, claims: &[&str], at| {
        stores.to_read([&pod(claims)], at).map(|(_, pause)| pause)
    };
    let is_due = |stores: &StorageStores, claims: &[&str], at| pause(stores, claims, at).is_some();
    assert!(!is_due(&stores, &[], first));
    assert_eq!(pause(&stores, &["a"], first), Some(Duration::ZERO));
    stores.note_failure();
    assert!(pause(&stores, &["a"], first) >= Some(Duration::from_millis(500)), "not in a loop");
    let claims = [("a", "vol-a"), ("open", ""), ("hidden", "vol-x")];
    stores.learn(found(&claims, &["vol-a"]), first);
    assert!(is_due(&stores, &["a", "new"], first), "another pod has come");
    for (claim, is_again) in [("a", false), ("open", true), ("hidden", true)] {
        assert!(!is_due(&stores, &[claim], first), "{claim}");
        assert_eq!(is_due(&stores, &[claim], later), is_again, "{claim}");
    }
    stores.learn(found(&[("open", "vol-b"), ("hidden", "vol-x")], &["vol-b", "vol-x"]), later);
    assert!(!is_due(&stores, &["a", "open", "hidden"], later + INCOMPLETE));
    let known = stores.view(&[]);
    let claims = texts(["a=vol-a", "hidden=vol-x", "open=vol-b"]);
    assert_eq!(names(&known), (claims, texts(["vol-a", "vol-b", "vol-x"])), "remembered");
}

#[tokio::test]
async fn too_many_remembered_are_forgotten_unless_they_are_in_use() {
    let claims: Vec<_> =
        (0..1_200).map(|number| (format!("c{number:04}"), format!("v{number:04}"))).collect();
    let claims: Vec<_> = claims.iter().map(|(name, volume)| (name.as_str(), volume.as_str())).collect();
    let volumes: Vec<_> = claims.iter().map(|(_, volume)| *volume).collect();
    let attached = [("v0001", "edge-a"), ("v0002", "edge-b")];
    let mut stores = listed(&claims[..1_000], &volumes[..1_000], &attached);
    assert_eq!(stores.view(&[]).claims.len(), 1_000, "as many as may be");
    stores.learn(found(&claims[1_000..], &volumes[1_000..]), Moment(0));
    let all_names: Vec<_> = claims.iter().map(|(name, _)| *name).collect();
    assert_eq!(stores.view(&[pod(&all_names)]).claims.len(), 1_200, "what is in use is never forgotten");
    let left = stores.view(&[pod(&["c0003", "c1100"])]);
    let expected = (texts(["c0001=v0001", "c0003=v0003", "c1100=v1100"]), texts(["v0001", "v0003", "v1100"]));
    assert_eq!(names(&left), expected);
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
    assert!(!show(&mut stores, Event::Init));
    assert!(!show(&mut stores, Event::InitApply(attachment("vol-a", "edge-a"))));
    assert_eq!(stores.view(&[]).attachments, Attachments::NotServed, "not before the end of the list");
    assert!(show(&mut stores, Event::InitDone), "readable after all");
    let listed = Attachments::Listed(vec![attachment("vol-a", "edge-a").1]);
    assert_eq!(stores.view(&[]).attachments, listed);
    assert!(!stores.refuse(Source::Attachments, &denied), "what is known stays known");
    assert_eq!(stores.view(&[]).attachments, listed);
}

#[tokio::test]
async fn claims_and_attachments_have_to_settle() {
    let denied = ApiFailure::Denied { text: "no".to_owned() };
    let sources = [Source::Peers, Source::Claims, Source::Attachments];
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
    let mut stores = listed(&[], &[], &[]);
    let peers = |stores: &mut StorageStores, event| {
        stores.peers.watch.show(event);
        stores.view(&[]).peer_takes_pods
    };
    let node = |name: &str, takes_pods| Event::Apply((key("", name), takes_pods));
    assert_eq!(peers(&mut stores, Event::InitDone), Some(false));
    assert_eq!(peers(&mut stores, node("edge-a", true)), Some(false), "the node itself is no peer");
    assert_eq!(peers(&mut stores, node("edge-b", false)), Some(false));
    assert_eq!(peers(&mut stores, node("edge-b", true)), Some(true));
    stores.refuse(Source::Peers, &ApiFailure::Denied { text: "no".to_owned() });
    assert_eq!(stores.view(&[]).peer_takes_pods, Some(true), "what is known stays known");
    for drivers in [texts(["nfs.csi"]), texts(["local.csi", "nfs.csi"]), vec![]] {
        stores.learn(Storage { drivers_without_attach: drivers, ..Storage::default() }, Moment(0));
    }
    assert_eq!(stores.view(&[]).drivers_without_attach, texts(["local.csi", "nfs.csi"]));
}
