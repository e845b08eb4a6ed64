use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use serde_json::Value;

use super::*;
use crate::testing::{connect_to, json, last, still_cluster};

pub(super) fn lease() -> SlotLease {
    SlotLease { namespace: "kube-system".to_owned(), group: "default".to_owned() }
}

pub(super) fn holder(node: &str, renewal: u64) -> Holder {
    Holder { node: node.to_owned(), node_uid: format!("uid-{node}"), boot_id: "boot".to_owned(), renewal }
}

/// Puts a Lease there whose annotation is this, if any. Gives its version.
pub(super) fn put(fake: &FakeCluster, text: Option<&str>) -> String {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "ebb-slots-default", "namespace": "kube-system", "annotations": {"other": "kept"}},
        "spec": {"holderIdentity": "kept"},
    });
    if let Some(text) = text {
        lease["metadata"]["annotations"][HOLDERS] = json!(text);
    }
    fake.apply(lease).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn stored(fake: &FakeCluster) -> Value {
    fake.get("leases", "kube-system", "ebb-slots-default").unwrap()
}

#[tokio::test]
async fn what_the_lease_says() {
    let (fake, cluster) = still_cluster();
    assert_eq!(read_slots(&cluster, &lease()).await, Ok(Slots::default()));
    let text = serde_json::to_string(&[holder("edge-a", 3)]).unwrap();
    for (text, holders) in [(None, vec![]), (Some("[]"), vec![]), (Some(&*text), vec![holder("edge-a", 3)])] {
        let version = Some(put(&fake, text));
        assert_eq!(read_slots(&cluster, &lease()).await, Ok(Slots { version, holders }), "{text:?}");
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 4);
}

#[tokio::test]
async fn an_annotation_that_does_not_parse_says_where_and_what_to_do() {
    let (fake, cluster) = still_cluster();
    put(&fake, Some("[{\"Node\": \"s3cret\"}]"));
    let failure = read_slots(&cluster, &lease()).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "cannot tell who has a slot: annotation `ebb.dev/holders` of lease kube-system/ebb-slots-default is not a list of \
         holders (line 1, column 19); make sure that no node is down, then free all slots with `ebb slots release --all`"
    );
    assert!(matches!(failure, SlotFailure::Unreadable { .. }));
}

#[tokio::test]
async fn a_write_creates_or_replaces_and_touches_nothing_else() {
    let (fake, cluster) = still_cluster();
    let first = write_slots(&cluster, &lease(), None, &[holder("edge-a", 1)]).await.unwrap();
    assert_eq!(first.holders, [holder("edge-a", 1)]);
    assert_eq!(read_slots(&cluster, &lease()).await, Ok(first.clone()));

    let version = put(&fake, Some("[]"));
    let both = [holder("edge-a", 1), holder("edge-b", 9)];
    let second = write_slots(&cluster, &lease(), Some(&version), &both).await.unwrap();
    assert_eq!(second.holders, both);
    assert_ne!(second.version, Some(version.clone()));
    assert_eq!(read_slots(&cluster, &lease()).await, Ok(second));
    let text = serde_json::to_string(&both).unwrap();
    let body = json(&last(&fake, "patch", "leases").body);
    assert_eq!(
        body,
        json!({"metadata": {"resourceVersion": version, "annotations": {"ebb.dev/holders": text}}})
    );
    let now = stored(&fake);
    assert_eq!([&now["metadata"]["annotations"]["other"], &now["spec"]["holderIdentity"]], ["kept", "kept"]);
}

#[tokio::test]
async fn a_write_that_comes_too_late_is_a_conflict() {
    let (fake, cluster) = still_cluster();
    let mine = [holder("edge-a", 1)];
    let old = put(&fake, Some("[]"));
    fake.edit("leases", "kube-system", "ebb-slots-default", |lease| {
        lease["metadata"]["labels"] = json!({"a": "b"});
    })
    .unwrap();
    let before = stored(&fake);
    for based_on in [None, Some(old.as_str())] {
        let failure = write_slots(&cluster, &lease(), based_on, &mine).await.unwrap_err();
        assert_eq!(failure, SlotFailure::Conflict, "{based_on:?}");
    }
    assert_eq!(stored(&fake), before);
    fake.delete("leases", "kube-system", "ebb-slots-default");
    let failure = write_slots(&cluster, &lease(), Some(&old), &mine).await.unwrap_err();
    assert_eq!(failure, SlotFailure::Conflict, "deleted");
    assert_eq!(read_slots(&cluster, &lease()).await, Ok(Slots::default()), "and not made again");
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_sent() {
    let (fake, cluster) = still_cluster();
    let bad = [
        (vec![holder("edge-a", 1); MOST + 1], "more than 1000"),
        (vec![Holder { node_uid: String::new(), ..holder("edge-a", 1) }], "without NodeUID"),
        (vec![holder("", 1)], "without the name of a Node"),
    ];
    for (holders, expected) in bad {
        for (based_on, verb) in [(None, "create"), (Some("1"), "patch")] {
            let failure = write_slots(&cluster, &lease(), based_on, &holders).await.unwrap_err();
            let text = failure.to_string();
            assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{text}");
            assert!(text.contains(expected), "{text}");
            assert!(
                text.starts_with(&format!("cannot {verb} leases kube-system/ebb-slots-default")),
                "{text}"
            );
        }
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 0);
}

/// A proxy's word, or that of an API server that is starting: nobody may take a slot for given back because of it.
#[tokio::test]
async fn a_404_that_does_not_name_the_lease_is_no_word_about_it() {
    let (fake, cluster) = still_cluster();
    let version = put(&fake, Some("[]"));
    let elsewhere = json!({
        "kind": "Status", "reason": "NotFound", "details": {"kind": "leases", "name": "another"},
    });
    for nobodys in [Reply::text(404, "404 page not found"), Reply::json(404, &elsewhere)] {
        let failed = |verb: &str| {
            fake.faults().add(Fault::on(verb, "leases", Effect::Answer(nobodys.clone())));
        };
        let refused = |outcome: Result<(), SlotFailure>| {
            assert!(matches!(outcome, Err(SlotFailure::Api(ApiFailure::Other { .. }))), "{outcome:?}");
        };
        failed("get");
        refused(read_slots(&cluster, &lease()).await.map(drop));
        failed("patch");
        refused(write_slots(&cluster, &lease(), Some(&version), &[]).await.map(drop));
        failed("get");
        refused(clear_slots(&cluster, &lease()).await);
        failed("patch");
        refused(clear_slots(&cluster, &lease()).await);
    }
}

#[tokio::test]
async fn failures_say_which() {
    let (fake, cluster) = still_cluster();
    let version = put(&fake, Some("[]"));
    for (verb, based_on) in [("get", None), ("create", None), ("patch", Some(version.as_str()))] {
        let denied = Reply::forbidden("edge", verb, "leases", "kube-system", "ebb-slots-default");
        fake.faults().add(Fault::on(verb, "leases", Effect::Answer(denied)));
        let outcome = match verb {
            "get" => read_slots(&cluster, &lease()).await,
            _ => write_slots(&cluster, &lease(), based_on, &[]).await,
        };
        let failure = outcome.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Denied { .. })), "{failure}");
        assert!(
            failure.to_string().contains(&format!("needs the right to `{verb}` `leases`")),
            "{verb}: {failure}"
        );
    }
    let nowhere = SlotLease { namespace: "none".to_owned(), ..lease() };
    let failure = write_slots(&cluster, &nowhere, None, &[]).await.unwrap_err();
    assert!(failure.to_string().contains("namespaces \"none\" not found"), "{failure}");
    for (namespace, group) in [("a/b", "default"), ("", "default"), ("kube-system", "a/b"), ("..", "x")] {
        let lease = SlotLease { namespace: namespace.to_owned(), group: group.to_owned() };
        fake.requests().clear();
        for outcome in [
            read_slots(&cluster, &lease).await,
            write_slots(&cluster, &lease, None, &[]).await,
            write_slots(&cluster, &lease, Some("1"), &[]).await,
            clear_slots(&cluster, &lease).await.map(|()| Slots::default()),
        ] {
            let failure = outcome.unwrap_err();
            assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{failure}");
        }
        assert_eq!(fake.requests().count("ebb/", "*", "*"), 0, "{namespace} {group}");
    }
    fake.faults().api_down().unwrap();
    let failure = read_slots(&connect_to(&fake), &lease()).await.unwrap_err();
    assert!(matches!(failure, SlotFailure::Api(ApiFailure::Unreachable { .. })), "{failure}");
}

/// Nothing could be changed safely on the strength of such an answer.
#[tokio::test]
async fn a_lease_without_version_is_not_read() {
    let (fake, cluster) = still_cluster();
    for metadata in [json!({}), json!({"resourceVersion": ""}), json!({"resourceVersion": "0"})] {
        let answer = Effect::Answer(Reply::json(200, &json!({"metadata": metadata})));
        fake.faults().add(Fault::on("get", "leases", answer));
        let failure = read_slots(&cluster, &lease()).await.unwrap_err();
        assert!(matches!(failure, SlotFailure::Api(ApiFailure::Other { .. })), "{metadata}: {failure}");
    }
}

#[tokio::test]
async fn a_person_frees_all_slots_whatever_is_there() {
    let (fake, cluster) = still_cluster();
    assert_eq!(clear_slots(&cluster, &lease()).await, Ok(()), "no lease");
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 1);
    let text = serde_json::to_string(&[holder("edge-a", 3)]).unwrap();
    let long = "x".repeat(200_000);
    for text in [None, Some(&*text), Some("nonsense"), Some(&*long)] {
        put(&fake, text);
        assert_eq!(clear_slots(&cluster, &lease()).await, Ok(()));
        assert_eq!(read_slots(&cluster, &lease()).await.unwrap().holders, []);
        assert_eq!(stored(&fake)["metadata"]["annotations"]["other"], "kept");
    }
    let conflict = Effect::Answer(Reply::json(409, &json!({"message": "modified", "code": 409})));
    fake.faults().add(Fault::on("patch", "leases", conflict.clone()).times(3));
    fake.requests().clear();
    assert_eq!(clear_slots(&cluster, &lease()).await, Ok(()));
    assert_eq!(fake.requests().count("ebb/", "get", "leases"), 4);
    fake.faults().add(Fault::on("patch", "leases", conflict).always());
    assert_eq!(clear_slots(&cluster, &lease()).await, Err(SlotFailure::Conflict));
}
