use drain::PodId;
use drain::view::PodClaim;

use super::*;

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
fn listed(claims: &[(&str, &str)], volumes: &[&str], attachments: &[(&str, &str)]) -> StorageShelves {
    let mut shelves = StorageShelves::of("edge-a");
    let mut says = vec![
        Says::Claims(Event::Init),
        Says::Volumes(Event::Init),
        Says::Attachments(Event::Init),
        Says::Drivers(Event::Init),
        Says::Peers(Event::Init),
    ];
    says.extend(claims.iter().map(|(name, volume)| Says::Claims(Event::InitApply(claim(name, volume)))));
    says.extend(volumes.iter().map(|name| Says::Volumes(Event::InitApply(volume(name)))));
    let attached =
        |(volume, node): &(&str, &str)| Says::Attachments(Event::InitApply(attachment(volume, node)));
    says.extend(attachments.iter().map(attached));
    says.extend([
        Says::Claims(Event::InitDone),
        Says::Volumes(Event::InitDone),
        Says::Attachments(Event::InitDone),
        Says::Drivers(Event::InitDone),
        Says::Peers(Event::InitDone),
    ]);
    for says in says {
        shelves.apply(says);
    }
    shelves
}

fn names(storage: &Storage) -> (Vec<String>, Vec<String>) {
    let bound = |claim: &ClaimView| format!("{}={}", claim.name, claim.volume);
    let claims = storage.claims.iter().map(bound).collect();
    (claims, storage.volumes.iter().map(|volume| volume.name.clone()).collect())
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn only_what_pods_use_or_have_used_is_shown() {
    let claims = [("a", "vol-a"), ("b", "vol-b"), ("open", "")];
    let mut shelves = listed(&claims, &["vol-a", "vol-b", "vol-x"], &[]);
    let first = shelves.view(&[pod(&["a", "open", "missing"])]);
    assert_eq!(
        names(&first),
        (texts(["a=vol-a", "missing=", "open="]), texts(["vol-a"])),
        "a missing one is not bound"
    );
    let other_namespace = PodView { id: PodId::default(), ..pod(&["b"]) };
    let (claims, volumes) = names(&shelves.view(&[other_namespace]));
    assert_eq!((claims.len(), volumes), (4, names(&first).1), "remembered, and no more bound");
    assert_eq!(names(&shelves.view(&[pod(&["b"])])).1, texts(["vol-a", "vol-b"]));
}

#[test]
fn what_is_gone_is_shown_as_it_was_seen_last_and_what_is_new_as_it_is() {
    let mut shelves = listed(&[("a", "vol-a")], &["vol-a", "vol-2"], &[]);
    shelves.view(&[pod(&["a"])]);
    assert!(shelves.apply(Says::Claims(Event::Delete(claim("a", "vol-a")))));
    assert!(shelves.apply(Says::Volumes(Event::Delete(volume("vol-a")))));
    assert_eq!(names(&shelves.view(&[pod(&["a"])])), (texts(["a=vol-a"]), texts(["vol-a"])));
    // A claim of the same name was deleted and created again: the old volume still has to be detached.
    assert!(shelves.apply(Says::Claims(Event::Apply(claim("a", "vol-2")))));
    assert_eq!(names(&shelves.view(&[])), (texts(["a=vol-2"]), texts(["vol-2", "vol-a"])));
}

#[test]
fn too_many_remembered_are_forgotten_unless_they_are_in_use() {
    let claims: Vec<_> =
        (0..1_200).map(|number| (format!("c{number:04}"), format!("v{number:04}"))).collect();
    let claims: Vec<_> = claims.iter().map(|(name, volume)| (name.as_str(), volume.as_str())).collect();
    let volumes: Vec<_> = claims.iter().map(|(_, volume)| *volume).collect();
    let mut shelves = listed(&claims, &volumes, &[("v0001", "edge-a"), ("v0002", "edge-b")]);
    let all_names: Vec<_> = claims.iter().map(|(name, _)| *name).collect();
    shelves.view(&[pod(&all_names[..1_000])]);
    assert_eq!(shelves.used.claims.len(), 1_000, "as many as may be");
    let left = shelves.view(&[pod(&["c0003", "c1100"])]);
    let expected = (texts(["c0001=v0001", "c0003=v0003", "c1100=v1100"]), texts(["v0001", "v0003", "v1100"]));
    assert_eq!(names(&left), expected);
    let all = shelves.view(&[pod(&all_names)]);
    assert_eq!(all.claims.len(), 1_200, "what is in use is never forgotten");
}

#[test]
fn a_refusal_settles_a_watch_until_it_lists_and_never_after() {
    let denied = ApiFailure::Denied { text: "cannot list volumeattachments".to_owned() };
    let missing = ApiFailure::NotFound { text: "no".to_owned() };
    let mut shelves = StorageShelves::of("edge-a");
    assert!(shelves.refuse(Source::Attachments, &denied));
    assert!(!shelves.refuse(Source::Attachments, &denied), "the same again is no news");
    assert_eq!(shelves.view(&[]).attachments, Attachments::Unreadable(denied.text().to_owned()));
    assert!(shelves.refuse(Source::Attachments, &missing));
    assert_eq!(shelves.view(&[]).attachments, Attachments::NotServed);
    assert!(!shelves.apply(Says::Attachments(Event::Init)));
    assert!(!shelves.apply(Says::Attachments(Event::InitApply(attachment("vol-a", "edge-a")))));
    assert_eq!(shelves.view(&[]).attachments, Attachments::NotServed, "not before the end of the list");
    assert!(shelves.apply(Says::Attachments(Event::InitDone)), "readable after all");
    let listed = Attachments::Listed(vec![attachment("vol-a", "edge-a").1]);
    assert_eq!(shelves.view(&[]).attachments, listed);
    assert!(!shelves.refuse(Source::Attachments, &denied), "what is known stays known");
    assert_eq!(shelves.view(&[]).attachments, listed);
}

#[test]
fn claims_volumes_and_attachments_have_to_settle() {
    let denied = ApiFailure::Denied { text: "no".to_owned() };
    let sources = [Source::Drivers, Source::Peers, Source::Claims, Source::Volumes, Source::Attachments];
    let mut shelves = StorageShelves::of("edge-a");
    for source in sources {
        assert!(!shelves.is_settled(), "before {source:?}");
        assert!(shelves.refuse(source, &denied));
    }
    assert!(shelves.is_settled());
    let storage = shelves.view(&[pod(&["a"])]);
    let expected = Storage {
        claims_unreadable: Some("no".to_owned()),
        attachments: Attachments::Unreadable("no".to_owned()),
        ..Storage::default()
    };
    assert_eq!(storage, expected, "all else is unknown");
}

#[test]
fn drivers_and_peers() {
    let entry = |name: &str, value| (key("", name), value);
    let mut shelves = listed(&[], &[], &[]);
    let seen = |shelves: &mut StorageShelves| {
        let storage = shelves.view(&[]);
        (storage.drivers_without_attach, storage.peer_takes_pods)
    };
    assert_eq!(seen(&mut shelves), (vec![], Some(false)));
    shelves.apply(Says::Peers(Event::Apply(entry("edge-a", true))));
    assert_eq!(seen(&mut shelves).1, Some(false), "the node itself is no peer");
    shelves.apply(Says::Peers(Event::Apply(entry("edge-b", false))));
    assert_eq!(seen(&mut shelves).1, Some(false));
    shelves.apply(Says::Peers(Event::Apply(entry("edge-b", true))));
    shelves.apply(Says::Drivers(Event::Apply(entry("nfs.csi", true))));
    shelves.apply(Says::Drivers(Event::Apply(entry("csi.bench", false))));
    assert_eq!(seen(&mut shelves), (texts(["nfs.csi"]), Some(true)));
    shelves.refuse(Source::Peers, &ApiFailure::Denied { text: "no".to_owned() });
    assert_eq!(seen(&mut shelves).1, Some(true), "what is known stays known");
}
