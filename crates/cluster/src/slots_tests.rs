use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use serde_json::Value;

use super::*;
use crate::testing::{connect_to, json, last, still_cluster};

pub(super) fn map() -> SlotMap {
    SlotMap::new("kube-system", "default")
}

pub(super) fn holder(node: &str, renewal: u64) -> Holder {
    let (node_uid, boot_id) = (format!("uid-{node}"), "boot".to_owned());
    Holder { node: node.to_owned(), node_uid, boot_id, renewal, passed_over: vec![] }
}

/// Creates a ConfigMap with these keys. Gives its version.
pub(super) fn put(fake: &FakeCluster, data: &[(&str, &str)]) -> String {
    let data: std::collections::BTreeMap<_, _> = data.iter().copied().collect();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": "kube-system", "annotations": {"other": "kept"}},
        "data": data,
    });
    fake.apply(map).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn text(holder: &Holder) -> String {
    serde_json::to_string(holder).unwrap()
}

fn stored(fake: &FakeCluster) -> Value {
    fake.get("configmaps", "kube-system", NAME).unwrap()
}

const NAME: &str = "ebb-slots-default";

#[tokio::test]
async fn what_the_map_says() {
    let (fake, cluster) = still_cluster();
    let map = map();
    assert_eq!(read_slots(&cluster, &map).await, Ok(Slots::default()));
    let entry = text(&holder("edge-a", 3));
    let cases: [(&[(&str, &str)], _); 2] =
        [(&[], vec![]), (&[("edge-a", &*entry)], vec![holder("edge-a", 3)])];
    for (data, holders) in cases {
        let version = Some(put(&fake, data));
        assert_eq!(read_slots(&cluster, &map).await, Ok(Slots { version, holders, ..Slots::default() }));
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 3);
}

#[tokio::test]
async fn a_value_that_cannot_be_read_hides_no_other() {
    let (fake, cluster) = still_cluster();
    let entry = text(&holder("edge-a", 3));
    let long = "x".repeat(200_000);
    put(
        &fake,
        &[("edge-a", &*entry), ("edge-b", "{\"s3cret\": 1}"), ("edge-c", &*long), ("edge-d", &*entry)],
    );
    let slots = read_slots(&cluster, &map()).await.unwrap();
    assert_eq!(slots.holders, [holder("edge-a", 3)]);
    let unreadable: Vec<(&str, &str)> =
        slots.unreadable.iter().map(|unreadable| (&*unreadable.node, &*unreadable.why)).collect();
    assert_eq!(
        unreadable,
        [
            ("edge-b", "is not an entry of the slots (line 1, column 13)"),
            ("edge-c", "has 200000 bytes, more than 65536"),
            ("edge-d", "does not name its Node"),
        ]
    );
}

#[tokio::test]
async fn a_write_makes_or_changes_one_key_and_touches_nothing_else() {
    let (fake, cluster) = still_cluster();
    let (map, a, b) = (map(), holder("edge-a", 1), holder("edge-b", 9));
    let first = write_slots(&cluster, &map, None, "edge-a", Some(&a)).await.unwrap();
    assert_eq!(first.holders, std::slice::from_ref(&a));
    assert_eq!(read_slots(&cluster, &map).await, Ok(first.clone()));

    let version = put(&fake, &[("edge-a", &*text(&a)), ("edge-c", "nonsense")]);
    let second = write_slots(&cluster, &map, Some(&version), "edge-b", Some(&b)).await.unwrap();
    assert_eq!(second.holders, [a.clone(), b.clone()]);
    assert_ne!(second.version, Some(version.clone()));
    assert_eq!(read_slots(&cluster, &map).await, Ok(second.clone()));
    let body = json(&last(&fake, "patch", "configmaps").body);
    assert_eq!(body, json!({"metadata": {"resourceVersion": version}, "data": {"edge-b": text(&b)}}));

    let third = write_slots(&cluster, &map, second.version.as_deref(), "edge-a", None).await.unwrap();
    assert_eq!(third.holders, std::slice::from_ref(&b));
    let now = stored(&fake);
    assert_eq!(now["data"], json!({"edge-b": text(&b), "edge-c": "nonsense"}));
    assert_eq!(now["metadata"]["annotations"]["other"], "kept");
}

#[tokio::test]
async fn a_write_that_comes_too_late_is_a_conflict() {
    let (fake, cluster) = still_cluster();
    let (map, mine) = (map(), holder("edge-a", 1));
    let old = put(&fake, &[]);
    fake.edit("configmaps", "kube-system", NAME, |map| map["metadata"]["labels"] = json!({"a": "b"}))
        .unwrap();
    let before = stored(&fake);
    for based_on in [None, Some(old.as_str())] {
        let failure = write_slots(&cluster, &map, based_on, "edge-a", Some(&mine)).await.unwrap_err();
        assert_eq!(failure, SlotFailure::Conflict, "{based_on:?}");
    }
    for any_version in ["", "0"] {
        let failure =
            write_slots(&cluster, &map, Some(any_version), "edge-a", Some(&mine)).await.unwrap_err();
        assert!(failure.to_string().ends_with("it is not based on a version"), "{failure}");
    }
    assert_eq!(stored(&fake), before);
    fake.delete("configmaps", "kube-system", NAME);
    let failure = write_slots(&cluster, &map, Some(&old), "edge-a", Some(&mine)).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "deleted");
    assert_eq!(read_slots(&cluster, &map).await, Ok(Slots::default()), "and not made again");
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_sent() {
    let (fake, cluster) = still_cluster();
    let bad = [
        ("edge-a", Holder { node_uid: String::new(), ..holder("edge-a", 1) }, "has no NodeUID"),
        ("", holder("", 1), "does not name its Node"),
        ("edge-b", holder("edge-a", 1), "does not name its Node"),
    ];
    for (node, holder, expected) in bad {
        for (based_on, verb) in [(None, "create"), (Some("1"), "patch")] {
            let failure = write_slots(&cluster, &map(), based_on, node, Some(&holder)).await.unwrap_err();
            let text = failure.to_string();
            assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{text}");
            assert!(text.contains(expected), "{text}");
            assert!(
                text.starts_with(&format!("cannot {verb} configmaps kube-system/ebb-slots-default")),
                "{text}"
            );
        }
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 0);
}

/// A 404 of a proxy, or of an API server that is starting, must not look like a released slot.
#[tokio::test]
async fn a_404_that_does_not_name_the_map_is_no_word_about_it() {
    let (fake, cluster) = still_cluster();
    let version = put(&fake, &[]);
    let elsewhere = json!({
        "kind": "Status", "reason": "NotFound", "details": {"kind": "configmaps", "name": "another"},
    });
    for nobodys in [Reply::text(404, "404 page not found"), Reply::json(404, &elsewhere)] {
        let failed = |verb: &str, resource: &str| {
            fake.faults().add(Fault::on(verb, resource, Effect::Answer(nobodys.clone())));
        };
        let refused = |outcome: Result<(), SlotFailure>| {
            assert!(matches!(outcome, Err(SlotFailure::Api(ApiFailure::Other { .. }))), "{outcome:?}");
        };
        failed("get", "configmaps");
        refused(read_slots(&cluster, &map()).await.map(drop));
        failed("patch", "configmaps");
        refused(write_slots(&cluster, &map(), Some(&version), "a", None).await.map(drop));
    }
}

#[tokio::test]
async fn failures_say_which() {
    let (fake, cluster) = still_cluster();
    let version = put(&fake, &[]);
    for (verb, resource, based_on) in
        [("get", "configmaps", None), ("patch", "configmaps", Some(version.as_str()))]
    {
        let denied = Reply::forbidden("edge", verb, resource, "kube-system", NAME);
        fake.faults().add(Fault::on(verb, resource, Effect::Answer(denied)));
        let outcome = match verb {
            "get" => read_slots(&cluster, &map()).await,
            _ => write_slots(&cluster, &map(), based_on, "a", None).await,
        };
        let failure = outcome.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Denied { .. })), "{failure}");
        assert!(
            failure.to_string().contains(&format!("needs the right to `{verb}` `{resource}`")),
            "{verb}: {failure}"
        );
    }
    let denied = Reply::forbidden("edge", "create", "configmaps", "kube-system", "");
    fake.faults().add(Fault::on("create", "configmaps", Effect::Answer(denied)));
    let failure = write_slots(&cluster, &map(), None, "a", Some(&holder("a", 1))).await.unwrap_err();
    assert!(matches!(failure, SlotFailure::Missing { .. }), "{failure}");
    assert!(
        failure.to_string().contains("kubectl -n kube-system create configmap ebb-slots-default"),
        "{failure}"
    );
    let nowhere = SlotMap::new("none", "default");
    let failure = write_slots(&cluster, &nowhere, None, "a", Some(&holder("a", 1))).await.unwrap_err();
    assert!(failure.to_string().contains("namespaces \"none\" not found"), "{failure}");
    for (namespace, group) in [("a/b", "default"), ("", "default"), ("kube-system", "a/b"), ("..", "x")] {
        let map = SlotMap::new(namespace, group);
        fake.requests().clear();
        for outcome in [
            read_slots(&cluster, &map).await,
            write_slots(&cluster, &map, None, "a", None).await,
            write_slots(&cluster, &map, Some("1"), "a", None).await,
        ] {
            let failure = outcome.unwrap_err();
            assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{failure}");
        }
        assert_eq!(fake.requests().count("ebb/", "*", "*"), 0, "{namespace} {group}");
    }
    fake.faults().api_down().unwrap();
    let failure = read_slots(&connect_to(&fake), &map()).await.unwrap_err();
    assert!(matches!(failure, SlotFailure::Api(ApiFailure::Unreachable { .. })), "{failure}");
}

/// No change would be safe after such an answer.
#[tokio::test]
async fn a_map_without_version_is_not_read() {
    let (fake, cluster) = still_cluster();
    for metadata in [json!({}), json!({"resourceVersion": ""}), json!({"resourceVersion": "0"})] {
        let answer = Effect::Answer(Reply::json(200, &json!({"metadata": metadata})));
        fake.faults().add(Fault::on("get", "configmaps", answer));
        let failure = read_slots(&cluster, &map()).await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{metadata}: {failure}");
    }
}

#[tokio::test]
async fn a_person_takes_entries_away() {
    let (fake, cluster) = still_cluster();
    let map = map();
    put(&fake, &[("a", &*text(&holder("a", 1))), ("b", "nonsense"), ("c", &*text(&holder("c", 1)))]);
    let slots = read_slots(&cluster, &map).await.unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    release_slots(&cluster, &map, &slots, &names(&["none"])).await.unwrap();
    assert_eq!(read_slots(&cluster, &map).await.unwrap(), slots);
    release_slots(&cluster, &map, &slots, &names(&["a", "b"])).await.unwrap();
    let left = read_slots(&cluster, &map).await.unwrap();
    assert_eq!((left.holders, left.unreadable), (vec![holder("c", 1)], vec![]));
    assert_eq!(release_slots(&cluster, &map, &slots, &names(&["a"])).await, Err(SlotFailure::Conflict));
}
