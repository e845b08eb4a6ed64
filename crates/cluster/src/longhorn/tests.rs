use fake_cluster::{Effect, FakeCluster, Fault, Reply};

use super::*;
use crate::testing::still_cluster;

const OURS: &str = "block-for-eviction-if-contains-last-replica";

fn put(fake: &FakeCluster, value: &str) {
    fake.apply(json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Setting",
        "metadata": {"name": "node-drain-policy", "namespace": "longhorn-system"},
        "value": value, "status": {"applied": true},
    }))
    .unwrap();
}

#[tokio::test]
async fn nobody_elses_change_is_overwritten_and_failures_say_which() {
    let (fake, cluster) = still_cluster();
    put(&fake, "always-allow");
    let conflict = Effect::Answer(Reply::json(409, &json!({"message": "modified", "code": 409})));
    fake.faults().add(Fault::on("patch", "settings", conflict.clone()).times(3));
    assert_eq!(set_node_drain_policy(&cluster, OURS).await, Ok(DrainPolicy::Changed));
    assert_eq!(fake.requests().count("ebb/", "get", "settings"), 4);
    put(&fake, "always-allow");
    fake.faults().add(Fault::on("patch", "settings", conflict).times(10));
    let failure = set_node_drain_policy(&cluster, OURS).await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Conflict { .. }), "{failure}");
    for verb in ["get", "patch"] {
        let denied = Reply::forbidden("edge", verb, "settings", NAMESPACE, NAME);
        fake.faults().add(Fault::on(verb, "settings", Effect::Answer(denied)));
        let failure = set_node_drain_policy(&cluster, OURS).await.unwrap_err();
        assert!(matches!(failure, ApiFailure::Denied { .. }), "{failure}");
        let right = format!("needs the right to `{verb}` `settings.longhorn.io`");
        assert!(failure.to_string().contains(&right), "{failure}");
    }
    fake.faults().add(Fault::on("patch", "settings", Effect::Answer(Reply::text(404, ""))));
    assert_eq!(set_node_drain_policy(&cluster, OURS).await, Ok(DrainPolicy::NotInstalled), "just removed");
    let odd = Effect::Answer(Reply::json(200, &json!({"metadata": {"resourceVersion": "7"}, "value": 1})));
    fake.faults().add(Fault::on("get", "settings", odd));
    let failure = set_node_drain_policy(&cluster, OURS).await.unwrap_err();
    assert!(matches!(failure, ApiFailure::Other { .. }), "{failure}");
}
