//! Slots: the Lease that says who may be down for a drain.

use anyhow::{Context, Result};
use cluster::slots::HOLDERS;
use cluster::{
    ApiFailure, Holder, SlotFailure, SlotLease, SlotWatch, Slots, clear_slots, read_slots, write_slots,
};
use contract::{Place, Target};
use futures::future::join_all;
use serde_json::{Value, json};

fn lease_of(place: &Place<'_>) -> SlotLease {
    SlotLease { namespace: place.namespace.clone(), group: "default".to_owned() }
}

fn holder(node: &str, renewal: u64) -> Holder {
    Holder { node: node.to_owned(), node_uid: format!("uid-{node}"), boot_id: "boot".to_owned(), renewal }
}

const PATH: &str = "leases/ebb-slots-default";

/// Deletes the Lease by hand.
async fn delete(place: &Place<'_>) -> Result<()> {
    place.caller().delete(&place.path(PATH), &json!({})).await?.object().map(drop)
}

/// Writes the annotation by hand; null removes it.
async fn annotate(place: &Place<'_>, text: Value) -> Result<()> {
    place.patch(PATH, &json!({"metadata": {"annotations": {HOLDERS: text}}})).await.map(drop)
}

pub(crate) async fn slots_are_created_read_and_replaced(target: &Target) -> Result<()> {
    let place = Place::new(target, "slots").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    assert_eq!(read_slots(cluster, &lease).await?, Slots::default());

    let first = write_slots(cluster, &lease, None, &[holder("a", 1)]).await?;
    assert_eq!(first.holders, [holder("a", 1)]);
    assert_eq!(read_slots(cluster, &lease).await?, first);
    let both = [holder("a", 2), holder("b", 0)];
    let patch = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"holderIdentity": "somebody"}});
    place.patch(PATH, &patch).await?;
    let version = read_slots(cluster, &lease).await?.version;
    assert_ne!(version, first.version);
    let second = write_slots(cluster, &lease, version.as_deref(), &both).await?;
    assert_eq!(second.holders, both);
    assert_eq!(read_slots(cluster, &lease).await?, second);

    let stored = place.get(PATH).await?;
    let text = stored["metadata"]["annotations"][HOLDERS].as_str().context("no annotation")?;
    let expected = json!([
        {"Node": "a", "NodeUID": "uid-a", "BootID": "boot", "Renewal": 2},
        {"Node": "b", "NodeUID": "uid-b", "BootID": "boot", "Renewal": 0},
    ]);
    assert_eq!(serde_json::from_str::<Value>(text)?, expected);
    let rest = [&stored["metadata"]["labels"]["l"], &stored["spec"]["holderIdentity"]];
    assert_eq!(rest, ["1", "somebody"], "the rest stays");

    annotate(&place, Value::Null).await?;
    let without = read_slots(cluster, &lease).await?;
    assert_eq!((without.version.is_some(), without.holders), (true, vec![]), "no annotation, no holders");
    Ok(())
}

/// Six want the last slot, on the strength of the same version.
pub(crate) async fn of_many_writers_one_gets_the_slot(target: &Target) -> Result<()> {
    let place = Place::new(target, "race").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    for round in ["create", "patch"] {
        let before = read_slots(cluster, &lease).await?;
        let wanted: Vec<_> = (0..6).map(|number| [holder(&format!("{round}-{number}"), 0)]).collect();
        let write = |holders| write_slots(cluster, &lease, before.version.as_deref(), holders);
        let outcomes = join_all(wanted.iter().map(|holders| write(holders))).await;
        let won: Vec<&Slots> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [winner] = won.as_slice() else { panic!("{round}: {outcomes:?}") };
        let lost = outcomes.iter().filter(|outcome| **outcome == Err(SlotFailure::Conflict)).count();
        assert_eq!(lost, 5, "{round}: {outcomes:?}");
        assert_eq!(read_slots(cluster, &lease).await?, **winner, "{round}");
    }
    Ok(())
}

/// Not without a version, and not with one that was.
pub(crate) async fn a_lease_is_never_overwritten_blindly(target: &Target) -> Result<()> {
    let place = Place::new(target, "blind").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    let first = write_slots(cluster, &lease, None, &[holder("a", 1)]).await?;
    let second = write_slots(cluster, &lease, first.version.as_deref(), &[holder("b", 1)]).await?;
    for based_on in [None, first.version.as_deref(), Some("1")] {
        let failure = write_slots(cluster, &lease, based_on, &[]).await.unwrap_err();
        assert_eq!(failure, SlotFailure::Conflict, "{based_on:?}");
    }
    for based_on in ["", "0"] {
        let failure = write_slots(cluster, &lease, Some(based_on), &[]).await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{based_on}: {failure}");
    }
    assert_eq!(read_slots(cluster, &lease).await?, second);
    Ok(())
}

pub(crate) async fn a_lease_that_is_deleted_under_us(target: &Target) -> Result<()> {
    let place = Place::new(target, "deleted").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    let old = write_slots(cluster, &lease, None, &[holder("a", 1)]).await?;
    delete(&place).await?;
    let failure = write_slots(cluster, &lease, old.version.as_deref(), &[]).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "it is gone");
    assert_eq!(read_slots(cluster, &lease).await?, Slots::default());
    let new = write_slots(cluster, &lease, None, &[holder("b", 1)]).await?;
    let failure = write_slots(cluster, &lease, old.version.as_deref(), &[]).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "it is another one");
    assert_eq!(read_slots(cluster, &lease).await?, new);
    Ok(())
}

pub(crate) async fn a_watch_tells_what_others_do(target: &Target) -> Result<()> {
    let place = Place::new(target, "watch").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    let other = target.client(&format!("{}-other", place.namespace)).await?;
    let mut watch = SlotWatch::start(cluster, &lease);
    watch.changed().await;
    assert_eq!(read_slots(cluster, &lease).await?, Slots::default());

    let first = write_slots(other.cluster(), &lease, None, &[holder("a", 1)]).await?;
    watch.changed().await;
    assert_eq!(read_slots(cluster, &lease).await?, first);
    let second = write_slots(other.cluster(), &lease, first.version.as_deref(), &[]).await?;
    watch.changed().await;
    assert_eq!(read_slots(cluster, &lease).await?, second);
    annotate(&place, json!("nonsense")).await?;
    watch.changed().await;
    clear_slots(other.cluster(), &lease).await?;
    watch.changed().await;
    delete(&place).await?;
    watch.changed().await;
    assert_eq!(read_slots(cluster, &lease).await?, Slots::default());
    Ok(())
}

pub(crate) async fn what_does_not_parse_waits_for_a_person(target: &Target) -> Result<()> {
    let place = Place::new(target, "unreadable").await?;
    let (cluster, lease) = (place.caller().cluster(), lease_of(&place));
    clear_slots(cluster, &lease).await?;
    assert_eq!(read_slots(cluster, &lease).await?, Slots::default(), "clearing makes no Lease");
    write_slots(cluster, &lease, None, &[]).await?;
    for text in ["nonsense".to_owned(), r#"[{"Node": "a"}]"#.to_owned(), " ".repeat(200_000)] {
        annotate(&place, json!(text)).await?;
        let failure = read_slots(cluster, &lease).await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Unreadable { .. }), "{failure}");
        let said = failure.to_string();
        for part in [&format!("{}/ebb-slots-default", place.namespace), HOLDERS, "ebb slots release --all"] {
            assert!(said.contains(part), "{said}");
        }
        clear_slots(cluster, &lease).await?;
        assert_eq!(read_slots(cluster, &lease).await?.holders, []);
    }
    Ok(())
}

pub(crate) async fn who_may_have_slots(target: &Target) -> Result<()> {
    let place = Place::new(target, "rights").await?;
    let lease = lease_of(&place);
    for verb in ["get", "create", "patch"] {
        let user = format!("{}-{verb}", place.namespace);
        let client = target.client_without(&user, verb, "leases").await?;
        let cluster = client.cluster();
        let failure = async {
            let before = read_slots(cluster, &lease).await?;
            let made = write_slots(cluster, &lease, before.version.as_deref(), &[]).await?;
            write_slots(cluster, &lease, made.version.as_deref(), &[holder("a", 1)]).await
        };
        let failure = failure.await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Denied { .. })), "{verb}: {failure}");
        let right = format!("needs the right to `{verb}` `leases`");
        assert!(failure.to_string().contains(&right), "{verb}: {failure}");
    }
    Ok(())
}
