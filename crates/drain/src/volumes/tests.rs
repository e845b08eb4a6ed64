//! Which volumes a pod has, and when each is detached.

use std::time::Duration;

use super::*;
use crate::Policy;
use crate::policy::{Method, OnDetachTimeout, Volumes};
use crate::state::{Failure, Outcome};
use crate::storage::{AttachmentView, ClaimView, CsiSource, VolumeView};
use crate::tests::{Bench, node, pod, with};
use crate::view::{NodeView, PodClaim};
use crate::{Effect, Event};

/// A claim `claim-<n>` of namespace `a`, bound to `pv-<n>` with the handle `vol-<n>`.
pub(crate) fn storage(numbers: &[&str], attachments: Vec<AttachmentView>) -> Storage {
    let csi = |n: &str| CsiSource { driver: "csi.example".into(), handle: format!("vol-{n}") };
    Storage {
        claims: numbers.iter().map(|n| claim(n)).collect(),
        volumes: numbers.iter().map(|n| VolumeView { name: format!("pv-{n}"), csi: Some(csi(n)) }).collect(),
        attachments: Attachments::Listed(attachments),
        peer_takes_pods: Some(true),
        ..Storage::default()
    }
}

fn claim(n: &str) -> ClaimView {
    ClaimView { namespace: "a".into(), name: format!("claim-{n}"), owner: None, volume: format!("pv-{n}") }
}

/// `pv-<n>` is attached to this node.
pub(crate) fn here(n: &str) -> AttachmentView {
    AttachmentView {
        name: format!("csi-{n}"),
        driver: "csi.example".into(),
        volume: Some(format!("pv-{n}")),
        node: "n".into(),
        attached: true,
        ..AttachmentView::default()
    }
}

/// `pv-<n>` is attached to another node.
pub(crate) fn elsewhere(n: &str) -> AttachmentView {
    AttachmentView { node: "other".into(), ..here(n) }
}

/// A pod that uses these claims.
pub(crate) fn using(uid: &str, claims: &[&str]) -> PodView {
    let claims = claims.iter().map(|n| PodClaim { name: format!("claim-{n}"), ephemeral: false }).collect();
    PodView { claims, ..pod(uid) }
}

pub(crate) fn snapshot(pods: Vec<PodView>, storage: Storage) -> Snapshot {
    Snapshot { storage, ..with(pods) }
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    StorageIndex::of(snapshot).of_pod(&snapshot.pods[0]).into_iter().map(|volume| volume.volume).collect()
}

#[test]
fn the_volumes_of_a_pod() {
    let bound = || storage(&["1", "2"], vec![]);
    let ephemeral = |owner: &str| {
        let pod =
            PodView { claims: vec![PodClaim { name: "pod-9-scratch".into(), ephemeral: true }], ..pod("9") };
        let claim = ClaimView { name: "pod-9-scratch".into(), owner: Some(owner.into()), ..claim("1") };
        snapshot(vec![pod], Storage { claims: vec![claim], ..bound() })
    };
    let changed = |change: fn(&mut Storage)| {
        let mut storage = bound();
        change(&mut storage);
        snapshot(vec![using("9", &["1"])], storage)
    };
    let cases: Vec<(&str, Snapshot, &[&str])> = vec![
        ("none", snapshot(vec![pod("9")], bound()), &[]),
        ("two", snapshot(vec![using("9", &["2", "1"])], bound()), &["pv-1", "pv-2"]),
        ("t40 the same claim twice", snapshot(vec![using("9", &["1", "1"])], bound()), &["pv-1"]),
        ("t35 an ephemeral volume", ephemeral("9"), &["pv-1"]),
        ("t35 a claim of that name that the pod does not own", ephemeral("8"), &[]),
        ("t42 an unbound claim", changed(|s| s.claims[0].volume.clear()), &[]),
        ("a claim that does not exist", changed(|s| s.claims.clear()), &[]),
        ("a claim of another namespace", changed(|s| s.claims[0].namespace = "b".into()), &[]),
        ("a volume that does not exist", changed(|s| s.volumes.clear()), &[]),
        ("a volume without csi", changed(|s| s.volumes[0].csi = None), &[]),
        (
            "a driver that never attaches",
            changed(|s| s.drivers_without_attach = vec!["csi.example".into()]),
            &[],
        ),
        (
            "another driver never attaches",
            changed(|s| s.drivers_without_attach = vec!["csi".into()]),
            &["pv-1"],
        ),
        (
            "an attachment overrules: a migrated in-tree volume",
            changed(|s| {
                s.volumes[0].csi = None;
                s.attachments = Attachments::Listed(vec![here("1")]);
            }),
            &["pv-1"],
        ),
        (
            "an attachment to another node does not",
            changed(|s| {
                s.volumes.clear();
                s.attachments = Attachments::Listed(vec![elsewhere("1")]);
            }),
            &[],
        ),
    ];
    for (name, snapshot, expected) in cases {
        assert_eq!(names(&snapshot), expected, "{name}");
    }
}

#[test]
fn names_are_compared_exactly() {
    let csi = |handle: &str| CsiSource { driver: "d".into(), handle: handle.into() };
    for (ours, listed, expected) in [
        ("vol-1", "kubernetes.io/csi/d^vol-1", Attachment::Yes),
        ("vol-1", "kubernetes.io/csi/d^vol-10", Attachment::No),
        ("vol-10", "kubernetes.io/csi/d^vol-1", Attachment::No),
        ("vol-1", "kubernetes.io/csi/dd^vol-1", Attachment::No),
        ("v.l+(1", "kubernetes.io/csi/d^v.l+(1", Attachment::Yes),
        ("v.l", "kubernetes.io/csi/d^vol", Attachment::No),
        ("[", "kubernetes.io/csi/d^x", Attachment::No),
    ] {
        let mut snapshot = snapshot(vec![], storage(&[], vec![]));
        snapshot.node = Some(NodeView { volumes_attached: vec![listed.into()], ..node(true) });
        let attachment = StorageIndex::of(&snapshot).attachment("pv", Some(&csi(ours).attached_name()));
        assert_eq!(attachment, expected, "{ours} in {listed}");
    }
}

#[test]
fn what_proves_that_a_volume_is_detached() {
    let inline = AttachmentView { volume: None, ..here("1") };
    let gone = AttachmentView { attached: false, ..here("1") };
    let listed = Attachments::Listed;
    for (name, attachments, is_listed, expected) in [
        ("nothing anywhere", listed(vec![]), false, Attachment::No),
        ("an attachment here", listed(vec![here("1")]), false, Attachment::Yes),
        ("one that is being removed", listed(vec![gone]), false, Attachment::Yes),
        ("one elsewhere", listed(vec![elsewhere("1")]), false, Attachment::No),
        ("one of another volume", listed(vec![here("10")]), false, Attachment::No),
        ("t41 an inline one", listed(vec![inline]), false, Attachment::No),
        ("only the node says so", listed(vec![]), true, Attachment::Yes),
        ("t46 no such API", Attachments::NotServed, false, Attachment::No),
        ("t46 no such API, the node says so", Attachments::NotServed, true, Attachment::Yes),
        ("no rights", Attachments::Unreadable("403".into()), false, Attachment::Unknown),
        ("nobody asked", Attachments::NotAsked, false, Attachment::Unknown),
        ("nobody asked, the node says so", Attachments::NotAsked, true, Attachment::Yes),
    ] {
        let mut snapshot = snapshot(vec![], Storage { attachments, ..storage(&["1"], vec![]) });
        let attached = if is_listed { vec!["name".to_owned()] } else { vec![] };
        snapshot.node = Some(NodeView { volumes_attached: attached, ..node(true) });
        assert_eq!(StorageIndex::of(&snapshot).attachment("pv-1", Some("name")), expected, "{name}");
    }
    let without_node = Snapshot { node: None, ..snapshot(vec![], storage(&["1"], vec![here("1")])) };
    assert_eq!(StorageIndex::of(&without_node).attachment("pv-1", Some("name")), Attachment::No);
}

#[test]
fn only_an_attached_volume_elsewhere_is_elsewhere() {
    let waiting = AttachmentView { attached: false, ..elsewhere("1") };
    for (attachment, expected) in
        [(elsewhere("1"), true), (waiting, false), (here("1"), false), (elsewhere("2"), false)]
    {
        let snapshot = snapshot(vec![], storage(&["1"], vec![attachment.clone()]));
        assert_eq!(StorageIndex::of(&snapshot).is_elsewhere("pv-1"), expected, "{attachment:?}");
    }
}

#[test]
fn obstacles_in_words() {
    let failed = AttachmentView { detach_error: "timed out".into(), ..here("1") };
    let never = AttachmentView { attached: false, attach_error: "no disk".into(), ..here("1") };
    let deleting = AttachmentView { deleting: true, ..never.clone() };
    let listed = |attachment| Attachments::Listed(vec![attachment]);
    let (there, gone) = ([""; 0].as_slice(), ["pv-1"].as_slice());
    for (attachments, missing, in_use, expected) in [
        (listed(here("1")), there, true, "the kubelet still has it mounted"),
        (listed(here("1")), there, false, "its VolumeAttachment csi-1 is still there"),
        (listed(deleting.clone()), there, false, "its VolumeAttachment csi-1 is still there"),
        (
            listed(never),
            there,
            false,
            "its VolumeAttachment csi-1 exists, but the storage driver has never attached it: no disk; if nothing on the node \
             uses it: kubectl delete volumeattachment csi-1",
        ),
        (
            listed(failed),
            there,
            false,
            "the storage driver cannot detach it, see VolumeAttachment csi-1: timed out",
        ),
        (listed(elsewhere("1")), gone, false, "the node still lists it as attached"),
        (
            listed(here("1")),
            gone,
            false,
            "its PersistentVolume does not exist, so no driver ever detaches it; if nothing on the node uses it: \
             kubectl delete volumeattachment csi-1",
        ),
        (
            listed(deleting),
            gone,
            false,
            "its PersistentVolume does not exist, so no driver ever removes the finalizers of VolumeAttachment csi-1; if \
             nothing on the node uses it: kubectl patch volumeattachment csi-1 --type=merge -p \
             '{\"metadata\":{\"finalizers\":null}}'",
        ),
        (
            Attachments::Unreadable("no right".into()),
            there,
            false,
            "it is not confirmed that it is detached: no right",
        ),
    ] {
        let missing_volumes = missing.iter().map(|&name| name.to_owned()).collect();
        let storage = Storage { missing_volumes, attachments, ..storage(&["1"], vec![]) };
        let mut snapshot = snapshot(vec![], storage);
        let volumes_in_use = if in_use { vec!["name".to_owned()] } else { vec!["name-2".to_owned()] };
        snapshot.node = Some(NodeView { volumes_in_use, ..node(true) });
        assert_eq!(StorageIndex::of(&snapshot).obstacle("pv-1", Some("name")), expected);
    }
}

#[test]
fn volumes_without_a_pod_in_a_forecast() {
    let failing = AttachmentView { detach_error: "timed out".into(), ..here("3") };
    let attachments = vec![here("1"), here("2"), failing, here("4"), elsewhere("5")];
    let storage = Storage { missing_volumes: vec!["pv-4".into()], ..storage(&["1"], attachments) };
    let snapshot = snapshot(vec![using("a", &["1"])], storage);
    let stuck = |policy: &Policy| -> Vec<(String, bool)> {
        leftovers(&snapshot, policy).into_iter().map(|left| (left.volume, left.is_stuck)).collect()
    };
    let expected = |is_stuck| {
        [("pv-2", false), ("pv-3", is_stuck), ("pv-4", is_stuck)].map(|(name, is)| (name.to_owned(), is))
    };
    let mut policy = Policy::device();
    assert_eq!(stuck(&policy), expected(true), "without the pod's own volume, and without the other node's");
    policy.volumes.on_detach_timeout = OnDetachTimeout::Proceed;
    assert_eq!(stuck(&policy), expected(false));
    for waits_for_none in [
        Policy { method: Method::ForceDelete, ..policy.clone() },
        Policy { volumes: Volumes { detach_timeout: Duration::ZERO, ..policy.volumes }, ..policy },
    ] {
        assert_eq!(stuck(&waits_for_none), [], "{waits_for_none:?}");
    }
}

fn bench(change: impl FnOnce(&mut Volumes)) -> Bench {
    let mut policy = Policy::device();
    change(&mut policy.volumes);
    Bench::with(policy, None)
}

fn proves(effects: &[Effect]) -> bool {
    effects.contains(&Effect::Relist { attempt: 1, volumes: true })
}

#[test]
fn the_node_is_not_drained_before_its_volumes_are_detached() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    let effects = bench.snapshot(snapshot(vec![], storage(&["1"], vec![here("1")])));
    assert!(!proves(&effects), "still attached");
    let effects = bench.snapshot(snapshot(vec![], storage(&["1"], vec![])));
    assert!(proves(&effects));
    assert_eq!(
        bench.answer_relist(snapshot(vec![], storage(&["1"], vec![here("1")]))),
        [],
        "the watch was wrong"
    );
    assert_eq!(bench.outcome(), None);
    assert!(proves(&bench.snapshot(snapshot(vec![], storage(&["1"], vec![])))));
    bench.answer_relist(snapshot(vec![], storage(&["1"], vec![])));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_detach_that_takes_too_long_fails_the_attempt_or_is_reported() {
    for (on_detach_timeout, is_drained) in [(OnDetachTimeout::Fail, false), (OnDetachTimeout::Proceed, true)]
    {
        let mut bench = bench(|volumes| volumes.on_detach_timeout = on_detach_timeout);
        let attached = || storage(&["1"], vec![here("1")]);
        bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
        bench.snapshot(snapshot(vec![], attached()));
        assert!(proves(&bench.after(Duration::from_secs(119))), "the watch has been silent for long");
        bench.answer_relist(snapshot(vec![], attached()));
        assert_eq!(bench.outcome(), None);
        let effects = bench.after(Duration::from_secs(1));
        if is_drained {
            assert!(proves(&effects));
            let lines = crate::progress::volume_lines(bench.attempt());
            assert_eq!((lines[0].volume.as_str(), lines[0].stage), ("pv-1", "DetachTimedOut"));
            bench.answer_relist(snapshot(vec![], attached()));
            assert_eq!(bench.outcome(), Some(Outcome::Drained));
        } else {
            let failure = Failure::Volumes(vec![
                "pv-1 of a/claim-1, driver csi.example (its VolumeAttachment csi-1 is still there)"
                    .to_owned(),
            ]);
            assert_eq!(bench.outcome(), Some(Outcome::Failed(failure)));
        }
    }
}

#[test]
fn a_volume_that_detaches_late_is_detached_all_the_same() {
    let mut bench = bench(|volumes| volumes.on_detach_timeout = OnDetachTimeout::Proceed);
    let attached = || storage(&["1", "2"], vec![here("1"), here("2")]);
    bench.snapshot(snapshot(vec![using("1", &["1"]), using("2", &["2"])], attached()));
    bench.snapshot(snapshot(vec![using("2", &["2"])], attached()));
    bench.after(Duration::from_mins(2));
    assert_eq!(bench.attempt().volumes()["pv-1"].stage, VolumeStage::TimedOut);
    bench.snapshot(snapshot(vec![using("2", &["2"])], attached()));
    assert_eq!(
        bench.attempt().volumes()["pv-1"].stage,
        VolumeStage::TimedOut,
        "its time does not begin anew"
    );
    bench.snapshot(snapshot(vec![using("2", &["2"])], storage(&["1", "2"], vec![here("2")])));
    assert_eq!(bench.attempt().volumes()["pv-1"].stage, VolumeStage::Detached);
}

#[test]
fn a_shared_volume_is_waited_for_when_its_last_user_is_gone() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1"], vec![here("1")]);
    let stage = |bench: &Bench| bench.attempt().volumes()["pv-1"].stage;
    bench.snapshot(snapshot(vec![using("1", &["1"]), using("2", &["1"])], attached()));
    bench.snapshot(snapshot(vec![using("2", &["1"])], attached()));
    assert_eq!(stage(&bench), VolumeStage::InUse);
    bench.snapshot(snapshot(vec![], attached()));
    assert_eq!(stage(&bench), VolumeStage::Detaching);
}

#[test]
fn a_volume_that_a_staying_pod_uses_is_not_waited_for() {
    let mut bench = bench(|_| {});
    let stays = PodView { mirror: true, ..using("2", &["1"]) };
    let attached = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"]), stays.clone()], attached()));
    assert!(proves(&bench.snapshot(snapshot(vec![stays], attached()))));
}

#[test]
fn without_a_detach_timeout_nothing_is_waited_for() {
    let mut bench = bench(|volumes| volumes.detach_timeout = Duration::ZERO);
    let attached = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    let effects = bench.snapshot(snapshot(vec![], attached()));
    assert_eq!(effects, [crate::tests::REFRESH], "and no attachments are listed");
}

#[test]
fn a_drain_that_cannot_see_its_end_moves_nothing() {
    let unreadable =
        |storage: Storage| Storage { attachments: Attachments::Unreadable("no right".into()), ..storage };
    let claimless =
        |storage: Storage| Storage { claims: vec![], claims_unreadable: Some("no right".into()), ..storage };
    let blind = || Some(Outcome::Failed(Failure::Blind("no right".into())));
    for spoil in [unreadable, claimless] {
        let store = || spoil(storage(&["1"], vec![]));
        let mut bench = bench(|_| {});
        assert_eq!(bench.snapshot(snapshot(vec![using("1", &["1"]), pod("2")], store())), [Effect::Abort]);
        assert_eq!(bench.outcome(), blind());
    }
    let store = || unreadable(storage(&["1"], vec![]));
    let stays = PodView { mirror: true, ..using("1", &["1"]) };
    let changes: [fn(&mut Volumes); 2] = [
        |volumes| volumes.on_detach_timeout = OnDetachTimeout::Proceed,
        |volumes| volumes.detach_timeout = Duration::ZERO,
    ];
    for change in changes {
        let mut bench = bench(change);
        bench.snapshot(snapshot(vec![using("1", &["1"])], store()));
        assert_eq!(bench.outcome(), None, "the policy does without");
    }
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(vec![stays, pod("2")], store()));
    assert_eq!(bench.outcome(), None, "no pod that leaves has a volume");
}

#[test]
fn what_cannot_be_read_any_more_proves_nothing() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    let unreadable =
        Storage { attachments: Attachments::Unreadable("no right".into()), ..storage(&["1"], vec![]) };
    bench.snapshot(snapshot(vec![], unreadable));
    bench.after(Duration::from_mins(2));
    let Some(Outcome::Failed(Failure::Volumes(volumes))) = bench.outcome() else {
        panic!("{:?}", bench.outcome());
    };
    assert!(volumes[0].contains("no right"), "{volumes:?}");
}

#[test]
fn the_next_attempt_still_waits_for_what_the_last_one_left_attached() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    bench.snapshot(snapshot(vec![], attached()));
    bench.after(Duration::from_mins(2));
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(_))));
    bench.send(Event::Start { attempt: 2, api_back: None });
    // The watches were opened again and ask for no attachments: no pod has a claim any more.
    let look = Effect::Relist { attempt: 2, volumes: true };
    assert_eq!(bench.snapshot(with(vec![])), std::slice::from_ref(&look));
    let proof =
        |storage| Event::Relisted { attempt: 2, result: Ok(std::sync::Arc::new(snapshot(vec![], storage))) };
    assert_eq!(bench.send(proof(attached())), []);
    assert_eq!(bench.after(Duration::from_millis(999)), []);
    assert_eq!(bench.after(Duration::from_millis(1)), std::slice::from_ref(&look), "and again");
    assert_eq!(bench.send(proof(storage(&[], vec![]))), [look]);
    assert_eq!(bench.snapshot(with(vec![])), [], "a watch without attachments takes nothing back");
    bench.send(proof(storage(&[], vec![])));
    assert_eq!(bench.outcome(), Some(Outcome::Drained));
}

#[test]
fn time_during_an_outage_does_not_count() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    bench.snapshot(snapshot(vec![], attached()));
    bench.send(Event::ApiAway);
    bench.after(Duration::from_mins(5));
    bench.send(Event::ApiBack);
    bench.after(Duration::from_secs(119));
    assert_eq!(bench.outcome(), None);
    bench.after(Duration::from_secs(1));
    assert!(matches!(bench.outcome(), Some(Outcome::Failed(Failure::Volumes(_)))));
}

#[test]
fn the_node_object_goes_away_in_mid_wait() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1"], vec![here("1")]);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    bench.snapshot(snapshot(vec![], attached()));
    let gone = Snapshot { node: None, ..snapshot(vec![], attached()) };
    assert!(proves(&bench.snapshot(gone.clone())));
    bench.answer_relist(gone);
    assert_eq!(bench.outcome(), Some(Outcome::NodeGone));
}

#[test]
fn a_volume_that_comes_back_without_a_user_is_waited_for_again() {
    let mut bench = bench(|_| {});
    bench.snapshot(snapshot(vec![using("1", &["1"]), using("2", &[])], storage(&["1"], vec![here("1")])));
    bench.snapshot(snapshot(vec![using("2", &[])], storage(&["1"], vec![])));
    bench.snapshot(snapshot(vec![using("2", &[])], storage(&["1"], vec![here("1")])));
    assert_eq!(bench.attempt().volumes()["pv-1"].stage, VolumeStage::Detaching);
}

#[test]
fn since_tells_when_the_stage_began() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1"], vec![here("1")]);
    let since = |bench: &Bench| bench.now.since(bench.attempt().volumes()["pv-1"].since);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    bench.now = bench.now + Duration::from_secs(5);
    bench.snapshot(snapshot(vec![using("1", &["1"])], attached()));
    assert_eq!(since(&bench), Duration::from_secs(5), "still in use");
    bench.snapshot(snapshot(vec![], attached()));
    assert_eq!(since(&bench), Duration::ZERO, "detaching from now on");
}

#[test]
fn a_new_pod_is_not_sent_before_its_claims_are_known() {
    let mut bench = bench(|_| {});
    let attached = || storage(&["1", "2"], vec![here("1"), here("2")]);
    bench.snapshot(snapshot(vec![using("1", &["1"])], storage(&["1"], vec![here("1")])));
    bench.silence();
    // The look began before the second pod's claim was known.
    let look =
        snapshot(vec![using("1", &["1"]), using("2", &["2"]), pod("3")], storage(&["1"], vec![here("1")]));
    assert_eq!(crate::tests::evicted(&bench.answer_relist(look)), ["3"], "a pod without volumes is clear");
    bench.answer("1", crate::answer::Answer::Accepted);
    assert!(bench.track("2").volumes_unknown().is_some());
    bench.snapshot(snapshot(vec![using("1", &["1"]), using("2", &["2"])], attached()));
    assert!(bench.track("2").is_stateful(), "it waits for its turn");
}
