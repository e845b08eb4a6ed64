//! Gives a command to the device of a Node, takes it back, and answers it: the calls behind [`crate::node_commands`].

use drain::cordon::field_manager;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::failure::ApiFailure;
use crate::node_commands::{CommandAnswer, NodeCommand, STATE};
use crate::nodes::{PATH, check_name};
use crate::operation::Operation;
use crate::wire::Cluster;

/// Who answers, by its name as owner of a cordon.
const AGENT: &str = "zedkube";

/// Who commands by our command line.
const COMMAND_LINE: &str = "ebb:";

/// Writes zedkube's answer into the Node with this UID; `None` removes it. One call.
pub async fn answer(
    cluster: &Cluster,
    node: &str,
    uid: &str,
    answer: Option<&CommandAnswer>,
) -> Result<(), ApiFailure> {
    let text = answer.map(CommandAnswer::to_text);
    annotate(cluster, node, uid, Map::from_iter([(STATE.to_owned(), json!(text))]), AGENT).await
}

/// Gives a command to the device of the Node with this UID. One call.
pub async fn command(
    cluster: &Cluster,
    node: &str,
    uid: &str,
    command: NodeCommand,
    text: &str,
) -> Result<(), ApiFailure> {
    annotate(cluster, node, uid, Map::from_iter([(command.key().to_owned(), json!(text))]), COMMAND_LINE)
        .await
}

/// Takes these commands of the Node with this UID back. One call.
pub async fn take_back(
    cluster: &Cluster,
    node: &str,
    uid: &str,
    commands: &[NodeCommand],
) -> Result<(), ApiFailure> {
    let annotations = commands.iter().map(|command| (command.key().to_owned(), Value::Null)).collect();
    annotate(cluster, node, uid, annotations, COMMAND_LINE).await
}

/// Changes annotations. The UID in the patch makes the server refuse it if the Node was created anew meanwhile.
async fn annotate(
    cluster: &Cluster,
    node: &str,
    uid: &str,
    annotations: Map<String, Value>,
    owner: &str,
) -> Result<(), ApiFailure> {
    let operation = Operation::on_cluster("patch", "nodes", node);
    check_name(&operation)?;
    let params =
        PatchParams { field_manager: Some(field_manager(owner).to_owned()), ..PatchParams::default() };
    let body = json!({"metadata": {"uid": uid, "annotations": annotations}});
    let request = Request::new(PATH).patch(node, &params, &Patch::Merge(body));
    cluster.fetch::<Value>(&operation, request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_commands::AnswerState;
    use crate::nodes::get_node;
    use crate::testing::still_cluster;

    #[tokio::test]
    async fn commands_and_answers_are_written_into_the_node_that_was_read_and_into_no_other() {
        let (fake, cluster) = still_cluster();
        fake.edit("nodes", "", "edge-a", |node| node["metadata"]["annotations"] = json!({"a": "b"})).unwrap();
        let uid = get_node(&cluster, "edge-a").await.unwrap().unwrap().uid;
        let since = "2026-11-28T15:00:00Z".to_owned();
        let given =
            CommandAnswer { since, ..CommandAnswer::new(NodeCommand::Reboot, 7, AnswerState::Done, "") };
        command(&cluster, "edge-a", &uid, NodeCommand::Reboot, "now").await.unwrap();
        answer(&cluster, "edge-a", &uid, Some(&given)).await.unwrap();
        let annotations = || fake.get("nodes", "", "edge-a").unwrap()["metadata"]["annotations"].clone();
        let state =
            r#"{"command":"reboot","counter":7,"state":"Done","reason":"","since":"2026-11-28T15:00:00Z"}"#;
        assert_eq!(annotations(), json!({"a": "b", "ebb.dev/reboot": "now", STATE: state}));
        take_back(&cluster, "edge-a", &uid, &NodeCommand::ALL).await.unwrap();
        answer(&cluster, "edge-a", &uid, None).await.unwrap();
        assert_eq!(annotations(), json!({"a": "b"}));
        let other = command(&cluster, "edge-a", "another", NodeCommand::Reboot, "now").await;
        assert!(other.is_err_and(|failure| failure.text().contains("metadata.uid")));
        assert!(command(&cluster, "../edge-a", &uid, NodeCommand::Reboot, "now").await.is_err());
        assert_eq!(annotations(), json!({"a": "b"}));
    }
}
