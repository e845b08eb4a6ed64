use fake_cluster::{Effect, Fault, Reply};
use serde_json::json;

use crate::failure::ApiFailure;
use crate::nodes::NodeWatch;
use crate::testing::{last, soon, still_cluster};

#[tokio::test]
async fn changes_failures_and_their_end_are_told() {
    let (fake, cluster) = still_cluster();
    fake.node("edge-b").unwrap();
    let denied = Reply::forbidden("edge", "list", "nodes", "", "");
    fake.faults().add(Fault::on("list", "nodes", Effect::Answer(denied)).times(1));
    let mut watch = NodeWatch::start(&cluster, "edge-a");
    assert!(matches!(soon(watch.changed()).await, Err(ApiFailure::Denied { .. })));
    assert_eq!(soon(watch.changed()).await.unwrap().unwrap().view.name, "edge-a");
    assert!(last(&fake, "list", "nodes").query.contains("fieldSelector=metadata.name%3Dedge-a"));
    fake.edit("nodes", "", "edge-a", |node| node["spec"]["unschedulable"] = json!(true)).unwrap();
    assert!(soon(watch.changed()).await.unwrap().unwrap().view.cordoned);
    // Nothing has changed meanwhile, and the failure is over all the same.
    fake.faults().add(Fault::on("watch", "nodes", Effect::Answer(Reply::text(500, "no"))).times(1));
    fake.faults().break_watches(Some("nodes"));
    assert!(soon(watch.changed()).await.is_err());
    assert!(soon(watch.changed()).await.unwrap().unwrap().view.cordoned);
    fake.delete("nodes", "", "edge-a");
    assert_eq!(soon(watch.changed()).await, Ok(None));
}
