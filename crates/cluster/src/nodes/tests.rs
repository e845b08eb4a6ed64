use serde_json::json;

use super::*;
use crate::testing::still_cluster;

#[tokio::test]
async fn the_server_chooses_nodes_by_their_labels() {
    let (fake, cluster) = still_cluster();
    for (name, role) in [("edge-b", "edge"), ("edge-c", "edge"), ("core-a", "core")] {
        fake.node(name).unwrap();
        fake.edit("nodes", "", name, |node| node["metadata"]["labels"]["role"] = json!(role)).unwrap();
    }
    let cases: [(&str, &[&str]); 2] = [
        ("role in (core,edge),kubernetes.io/hostname!=edge-b", &["core-a", "edge-c"]),
        ("", &["core-a", "edge-a", "edge-b", "edge-c"]),
    ];
    for (selector, expected) in cases {
        fake.requests().clear();
        let nodes = list_nodes_selected(&cluster, selector).await.unwrap();
        let names: Vec<_> = nodes.iter().map(|node| node.view.name.as_str()).collect();
        assert_eq!(names, expected, "{selector}");
        assert_eq!(fake.requests().count("ebb/", "*", "*"), 1, "{selector}");
    }
    let failure = list_nodes_selected(&cluster, "a in (").await.unwrap_err();
    assert!(failure.text().starts_with("cannot list nodes: "), "{failure}");
}

#[tokio::test]
async fn how_long_a_node_has_been_unhealthy_is_known_from_its_own_answer() {
    let (fake, cluster) = still_cluster();
    fake.edit("nodes", "", "edge-a", |node| {
        node["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    })
    .unwrap();
    let listed = list_nodes(&cluster).await.unwrap().remove(0).view.unhealthy.unwrap();
    let found = get_node(&cluster, "edge-a").await.unwrap().unwrap().unhealthy.unwrap();
    for unhealthy in [listed, found] {
        assert_eq!(unhealthy.condition, "NotReady");
        assert!(unhealthy.lasting > std::time::Duration::from_hours(24), "{unhealthy:?}");
    }
}

#[tokio::test]
async fn a_sample_is_short_and_tells_how_many_there_are() {
    let (fake, cluster) = still_cluster();
    for (others, total) in [(vec![], 1), (vec!["edge-b"], 2), (vec!["edge-c", "edge-d"], 4)] {
        for name in others {
            fake.node(name).unwrap();
        }
        fake.requests().clear();
        let (nodes, found) = sample_nodes(&cluster).await.unwrap();
        assert_eq!((nodes.len(), found), (total.min(2), Some(total)));
        assert_eq!(fake.requests().count("ebb/", "list", "nodes"), 1, "one page");
    }
}
