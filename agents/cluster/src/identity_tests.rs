use super::*;

fn node(name: &str, uuid: &str, machine: &str) -> NodeFacts {
    NodeFacts {
        view: NodeView { name: name.to_owned(), ..NodeView::default() },
        uuid_label: uuid.to_owned(),
        machine_id: machine.to_owned(),
        ..NodeFacts::default()
    }
}

/// `node.name`, device ID, device name, host name, machine ID; `-` is unknown.
fn identity(texts: [&str; 5]) -> Identity {
    let [node_name, device_id, device_name, host_name, machine_id] =
        texts.map(|text| (text != "-").then(|| text.to_owned()));
    Identity { node_name, device_id, device_name, host_name, machine_id }
}

#[test]
fn which_node_is_this_machine() {
    let nodes = [
        node("edge-a", "uuid-a", "machine-a"),
        node("edge-b", "uuid-b", "machine-b"),
        node("edge-c", "", ""),
        node("twin-1", "uuid-t", "machine-1"),
        node("twin-2", "uuid-t", "machine-2"),
    ];
    let cases = [
        (["edge-b", "uuid-a", "edge-a", "edge-a", "machine-a"], Ok("edge-b"), "the setting decides alone"),
        (
            ["edge-x", "uuid-a", "edge-a", "edge-a", "machine-a"],
            Err("node.name edge-x"),
            "also when it is wrong",
        ),
        (["", "uuid-a", "-", "edge-b", "machine-b"], Ok("edge-a"), "the label comes before names"),
        (["-", "uuid-t", "-", "edge-a", "machine-a"], Err("twin-1, twin-2"), "two Nodes"),
        (
            ["-", "uuid-x", "Edge_A", "edge-b", "machine-b"],
            Ok("edge-a"),
            "no label: the device's name, as nodes are named",
        ),
        (
            ["-", "-", "edge-x", "edge-b", "machine-b"],
            Err("device name edge-x"),
            "the device's name replaces the host name",
        ),
        (["-", "-", "edge-a", "-", "machine-b"], Ok("edge-a"), "a device's name needs no machine ID"),
        (["-", "uuid-x", "-", "EDGE_A", "machine-a"], Ok("edge-a"), "the host name, and the machine agrees"),
        (
            ["-", "-", "-", "edge-a", "machine-b"],
            Err("edge-a has our host name"),
            "the host name of another machine",
        ),
        (["-", "-", "-", "edge-a", "-"], Ok("edge-a"), "our machine ID is unknown"),
        (["-", "-", "-", "edge-c", "machine-a"], Ok("edge-c"), "the node's machine ID is unknown"),
        (["-", "-", "-", "edge-x", "-"], Err("host name edge-x"), "no such node"),
        (["-", "", " ", "-", "-"], Err("host name unknown"), "nothing is known"),
    ];
    for (texts, expected, why) in cases {
        let found = identify(&nodes, &identity(texts));
        match (&found, expected) {
            (Ok(node), Ok(name)) => assert_eq!(node.name, name, "{why}"),
            (Err(problem), Err(part)) => {
                let text = problem.to_string();
                assert!(text.contains(part), "{why}: {text}");
                assert!(text.starts_with("no Node of this cluster is this machine"), "{why}: {text}");
                assert!(text.contains("set node.name, or cluster.mode = never"), "{why}: {text}");
            }
            _ => panic!("{why}: {found:?}"),
        }
    }
}

#[test]
fn an_empty_label_is_no_label() {
    let nodes = [node("edge-a", "", "")];
    assert!(identify(&nodes, &identity(["-", "", "-", "-", "-"])).is_err());
}
