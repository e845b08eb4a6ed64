//! Slots: the ConfigMap of the nodes that may be down for a drain.

use anyhow::Result;
use cluster::{
    ApiFailure, Holder, SlotFailure, SlotMap, SlotWatch, Slots, read_slots, release_slots, write_slots,
};
use contract::{Place, Target};
use futures::future::join_all;
use serde_json::{Value, json};

fn map_of(place: &Place<'_>) -> SlotMap {
    SlotMap::new(place.namespace.as_str(), "default")
}

fn holder(node: &str, renewal: u64) -> Holder {
    let (node_uid, boot_id) = (format!("uid-{node}"), "boot".to_owned());
    Holder { node: node.to_owned(), node_uid, boot_id, renewal, passed_over: vec![] }
}

const PATH: &str = "configmaps/ebb-slots-default";

/// Deletes the ConfigMap as a person would.
async fn delete(place: &Place<'_>) -> Result<()> {
    place.caller().delete(&place.path(PATH), &json!({})).await?.object().map(drop)
}

/// Writes a key as a person would; null removes it.
async fn set(place: &Place<'_>, node: &str, text: Value) -> Result<()> {
    place.patch(PATH, &json!({"data": {node: text}})).await.map(drop)
}

pub(crate) async fn slots_are_created_read_and_replaced(target: &Target) -> Result<()> {
    let place = Place::new(target, "slots").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    assert_eq!(read_slots(cluster, &map).await?, Slots::default());

    let first = write_slots(cluster, &map, None, "a", Some(&holder("a", 1))).await?;
    assert_eq!(first.holders, [holder("a", 1)]);
    assert_eq!(read_slots(cluster, &map).await?, first);
    place.patch(PATH, &json!({"metadata": {"labels": {"l": "1"}}, "data": {"b": "nonsense"}})).await?;
    let found = read_slots(cluster, &map).await?;
    assert_ne!(found.version, first.version);
    assert_eq!((found.holders, found.unreadable.len()), (vec![holder("a", 1)], 1));
    let passed_over = vec![cluster::PassedOver { node: "b".into(), node_uid: "uid-b".into(), renewal: 4 }];
    let renewed = Holder { passed_over, ..holder("a", 2) };
    let second = write_slots(cluster, &map, found.version.as_deref(), "a", Some(&renewed)).await?;
    assert_eq!(second.holders, [renewed]);
    assert_eq!(read_slots(cluster, &map).await?, second);

    let stored = place.get(PATH).await?;
    let text = stored["data"]["a"].as_str().unwrap_or_default();
    let expected = json!({
        "Node": "a", "NodeUID": "uid-a", "BootID": "boot", "Renewal": 2,
        "PassedOver": [{"Node": "b", "NodeUID": "uid-b", "Renewal": 4}],
    });
    assert_eq!(serde_json::from_str::<Value>(text)?, expected);
    assert_eq!(
        [&stored["metadata"]["labels"]["l"], &stored["data"]["b"]],
        ["1", "nonsense"],
        "the rest stays"
    );

    let third = write_slots(cluster, &map, second.version.as_deref(), "b", None).await?;
    let last = write_slots(cluster, &map, third.version.as_deref(), "a", None).await?;
    assert_eq!((last.holders.len(), last.unreadable.len()), (0, 0));
    // An entry that does not exist can be removed without an error.
    write_slots(cluster, &map, last.version.as_deref(), "a", None).await?;
    Ok(())
}

/// Six writers want the last slot, based on the same version.
pub(crate) async fn of_many_writers_one_gets_the_slot(target: &Target) -> Result<()> {
    let place = Place::new(target, "race").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    for round in ["create", "patch"] {
        let before = read_slots(cluster, &map).await?;
        let wanted: Vec<_> = (0..6).map(|number| holder(&format!("{round}-{number}"), 0)).collect();
        let version = before.version.as_deref();
        let writes =
            wanted.iter().map(|holder| write_slots(cluster, &map, version, &holder.node, Some(holder)));
        let outcomes = join_all(writes).await;
        let won: Vec<&Slots> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [winner] = won.as_slice() else { panic!("{round}: {outcomes:?}") };
        let lost = outcomes.iter().filter(|outcome| **outcome == Err(SlotFailure::Conflict)).count();
        assert_eq!(lost, 5, "{round}: {outcomes:?}");
        assert_eq!(read_slots(cluster, &map).await?, **winner, "{round}");
    }
    Ok(())
}

/// A write needs a version, and an old version is refused.
pub(crate) async fn slots_are_never_overwritten_blindly(target: &Target) -> Result<()> {
    let place = Place::new(target, "blind").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    let first = write_slots(cluster, &map, None, "a", Some(&holder("a", 1))).await?;
    let second = write_slots(cluster, &map, first.version.as_deref(), "b", Some(&holder("b", 1))).await?;
    for based_on in [None, first.version.as_deref(), Some("1")] {
        let failure = write_slots(cluster, &map, based_on, "a", None).await.unwrap_err();
        assert_eq!(failure, SlotFailure::Conflict, "{based_on:?}");
    }
    let failure = release_slots(cluster, &map, &first, &["a".to_owned()]).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "a person, too");
    for based_on in ["", "0"] {
        let failure = write_slots(cluster, &map, Some(based_on), "a", None).await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{based_on}: {failure}");
    }
    assert_eq!(read_slots(cluster, &map).await?, second);
    Ok(())
}

pub(crate) async fn slots_that_are_deleted_under_us(target: &Target) -> Result<()> {
    let place = Place::new(target, "deleted").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    let old = write_slots(cluster, &map, None, "a", Some(&holder("a", 1))).await?;
    delete(&place).await?;
    let failure = write_slots(cluster, &map, old.version.as_deref(), "a", None).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "it is gone");
    assert_eq!(read_slots(cluster, &map).await?, Slots::default());
    let new = write_slots(cluster, &map, None, "b", Some(&holder("b", 1))).await?;
    let failure = write_slots(cluster, &map, old.version.as_deref(), "a", None).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "it is another one");
    assert_eq!(read_slots(cluster, &map).await?, new);
    Ok(())
}

pub(crate) async fn a_watch_tells_what_others_do(target: &Target) -> Result<()> {
    let place = Place::new(target, "watch").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    let other = target.client(&format!("{}-other", place.namespace)).await?;
    let mut watch = SlotWatch::start(cluster, &map, &std::sync::Arc::default());
    assert_eq!(watch.changed().await?, Slots::default());

    let first = write_slots(other.cluster(), &map, None, "a", Some(&holder("a", 1))).await?;
    assert_eq!(watch.changed().await?, first);
    let second = write_slots(other.cluster(), &map, first.version.as_deref(), "a", None).await?;
    assert_eq!(watch.changed().await?, second);
    set(&place, "a", json!("nonsense")).await?;
    assert_eq!(watch.changed().await?, read_slots(cluster, &map).await?);
    set(&place, "a", Value::Null).await?;
    assert_eq!(watch.changed().await?, read_slots(cluster, &map).await?);
    delete(&place).await?;
    assert_eq!(watch.changed().await?, Slots::default());
    Ok(())
}

/// An unreadable entry hides no other entry, and a person can remove it.
pub(crate) async fn what_does_not_parse_waits_for_a_person(target: &Target) -> Result<()> {
    let place = Place::new(target, "unreadable").await?;
    let (cluster, map) = (place.caller().cluster(), map_of(&place));
    write_slots(cluster, &map, None, "b", Some(&holder("b", 1))).await?;
    for text in ["nonsense".to_owned(), r#"{"Node": "a"}"#.to_owned(), " ".repeat(200_000)] {
        set(&place, "a", json!(text)).await?;
        let slots = read_slots(cluster, &map).await?;
        assert_eq!((slots.holders, slots.unreadable.len()), (vec![holder("b", 1)], 1));
    }
    let slots = read_slots(cluster, &map).await?;
    release_slots(cluster, &map, &slots, &["a".to_owned()]).await?;
    let slots = read_slots(cluster, &map).await?;
    assert_eq!((slots.holders, slots.unreadable), (vec![holder("b", 1)], vec![]));
    Ok(())
}

pub(crate) async fn who_may_have_slots(target: &Target) -> Result<()> {
    let place = Place::new(target, "rights").await?;
    for verb in ["get", "create", "patch"] {
        let user = format!("{}-{verb}", place.namespace);
        let client = target.client_without(&user, verb, "configmaps").await?;
        let (cluster, map) = (client.cluster(), map_of(&place));
        let failure = async {
            let before = read_slots(cluster, &map).await?;
            let made =
                write_slots(cluster, &map, before.version.as_deref(), "a", Some(&holder("a", 1))).await?;
            write_slots(cluster, &map, made.version.as_deref(), "a", Some(&holder("a", 2))).await
        };
        let failure = failure.await.unwrap_err();
        let said = failure.to_string();
        if verb == "create" {
            assert!(matches!(failure, SlotFailure::Missing { .. }) && said.contains("kubectl"), "{said}");
            continue;
        }
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Denied { .. })), "{verb}: {said}");
        assert!(said.contains(&format!("needs the right to `{verb}` `configmaps`")), "{verb}: {said}");
    }
    Ok(())
}
