use fake_cluster::{Effect, FakeCluster, Fault, Reply};

use super::*;
use crate::testing::still_cluster;

pub(super) fn map() -> SlotMap {
    SlotMap::new("kube-system", "default")
}

fn holder(node: &str) -> Holder {
    Holder { node: node.to_owned(), node_uid: format!("uid-{node}"), ..Holder::default() }
}

/// Creates a ConfigMap with these keys.
pub(super) fn put(fake: &FakeCluster, data: &[(&str, &str)]) {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ebb-slots-default", "namespace": "kube-system"}, "data": data,
    });
    fake.apply(map).unwrap();
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_sent() {
    let (fake, cluster) = still_cluster();
    for (based_on, verb) in [(None, "create"), (Some("1"), "patch")] {
        let failure = write_slots(&cluster, &map(), based_on, "edge-b", Some(&holder("edge-a"))).await;
        let expected = format!(
            "cannot {verb} configmaps kube-system/ebb-slots-default: key `edge-b` does not name its Node"
        );
        assert_eq!(failure.unwrap_err().to_string(), expected);
    }
    assert_eq!(fake.requests().count("ebb/", "*", "*"), 0);
}

#[tokio::test]
async fn a_map_that_we_may_not_make_is_for_an_administrator() {
    let (fake, cluster) = still_cluster();
    let denied = Reply::forbidden("edge", "create", "configmaps", "kube-system", "");
    fake.faults().add(Fault::on("create", "configmaps", Effect::Answer(denied)));
    let failure = write_slots(&cluster, &map(), None, "a", Some(&holder("a"))).await.unwrap_err();
    let command = "kubectl -n kube-system create configmap ebb-slots-default";
    assert!(failure.to_string().contains(command), "{failure}");
}

#[tokio::test]
async fn names_that_would_be_another_path_are_not_sent() {
    let (fake, cluster) = still_cluster();
    for (namespace, group) in [("a/b", "default"), ("", "default"), ("kube-system", "a/b"), ("..", "x")] {
        let map = SlotMap::new(namespace, group);
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
async fn a_table_that_is_full_names_its_longest_entry() {
    let (fake, cluster) = still_cluster();
    let map = map();
    put(&fake, &[("edge-a", "x"), ("edge-9", &"y".repeat(1_000_000))]);
    let version = read_slots(&cluster, &map).await.unwrap().version;
    let full = Effect::Answer(Reply::text(422, "Too long"));
    fake.faults().add(Fault::on("patch", "configmaps", full));
    let failure = write_slots(&cluster, &map, version.as_deref(), "edge-a", Some(&holder("edge-a"))).await;
    let text = failure.unwrap_err().to_string();
    assert!(text.contains("the longest entry is that of edge-9, 1000000 of 1000013 bytes"), "{text}");
}
