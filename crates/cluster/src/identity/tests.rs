use super::*;

/// A Node that reports boot `boot-NAME`.
fn node(name: &str, uuid: &str, machine: &str) -> NodeFacts {
    NodeFacts {
        view: NodeView { name: name.to_owned(), boot_id: format!("boot-{name}"), ..NodeView::default() },
        uuid_label: uuid.to_owned(),
        machine_id: machine.to_owned(),
        ..NodeFacts::default()
    }
}

/// `node.name`, device ID, device name, host name, machine ID; `-` is unknown.
fn identity(texts: [&str; 5]) -> Identity {
    let [node_name, device_id, device_name, host_name, machine_id] =
        texts.map(|text| (text != "-").then(|| text.to_owned()));
    let boot_id = Some("boot-of-us".to_owned());
    Identity { node_name, device_id, device_name, host_name, machine_id, boot_id }
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
        (
            ["edge-b", "uuid-a", "edge-a", "edge-a", "machine-a"],
            Err("Node edge-b, found by node.name, has machine ID machine-b, this machine has machine-a"),
            "node.name of another machine",
        ),
        (["edge-b", "-", "-", "edge-a", "MACHINE-B"], Ok("edge-b"), "the setting, and the machine agrees"),
        (
            ["edge-x", "uuid-a", "edge-a", "edge-a", "machine-a"],
            Err("node.name edge-x"),
            "also when it is wrong",
        ),
        (["", "uuid-a", "-", "edge-b", "machine-b"], Ok("edge-a"), "the label comes before names"),
        (["-", "uuid-t", "-", "edge-a", "machine-a"], Err("twin-1, twin-2"), "two Nodes"),
        (
            ["-", "uuid-x", "Edge_A", "edge-b", "machine-a"],
            Ok("edge-a"),
            "no label: the device's name, as nodes are named",
        ),
        (
            ["-", "-", "edge-x", "edge-b", "machine-b"],
            Err("device name edge-x"),
            "the device's name replaces the host name",
        ),
        (["-", "uuid-x", "-", "EDGE_A", "machine-a"], Ok("edge-a"), "the host name, and the machine agrees"),
        (["-", "-", "-", "edge-x", "-"], Err("host name edge-x"), "no such node"),
        (["-", "", " ", "-", "-"], Err("host name unknown"), "nothing is known"),
    ];
    for (texts, expected, why) in cases {
        let found = identify(&nodes, &identity(texts));
        match (&found, expected) {
            (Ok(node), Ok(name)) => assert_eq!(node.node.name, name, "{why}"),
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

/// A copied settings file, a host name or a device's name is weaker than a machine ID. A boot ID can prove a Node, and
/// rejects none.
#[test]
fn what_a_machine_and_its_boot_prove() {
    let facts = |machine: &str, boot: &str| NodeFacts {
        view: NodeView { name: "edge-a".to_owned(), boot_id: boot.to_owned(), ..NodeView::default() },
        uuid_label: "uuid-a".to_owned(),
        machine_id: machine.to_owned(),
        ..NodeFacts::default()
    };
    let ours = |found_by, machine: &str, boot: &str| {
        let when = |asked| (found_by == asked).then(|| "edge-a".to_owned());
        Identity {
            node_name: when(FoundBy::Setting),
            device_id: (found_by == FoundBy::Label).then(|| "uuid-a".to_owned()),
            device_name: when(FoundBy::DeviceName),
            host_name: when(FoundBy::HostName),
            machine_id: Some(machine.to_owned()),
            boot_id: Some(boot.to_owned()),
        }
    };
    // Node's machine and boot, ours, whether it differs.
    let cases = [
        ("m", "b", "m", "b", false, "all is equal"),
        (
            "n",
            "b",
            "m",
            "b",
            false,
            "the boot ID proves it: a kubelet in a container may have another machine ID",
        ),
        ("n", "B", "m", "b", false, "whatever the letters"),
        ("", "c", "m", "b", false, "an older boot refuses nothing, and the machine ID is not known"),
        ("n", "", "", "b", false, "ours is not known"),
        ("n", "c", "m", "b", true, "both differ"),
        ("n", "", "m", "b", true, "no boot ID proves it"),
        ("n", "b", "m", "", true, "our boot ID is not known"),
        ("n", "", "m", "", true, "two empty boot IDs are not equal"),
    ];
    for (machine, boot, our_machine, our_boot, differs, why) in cases {
        let nodes = [facts(machine, boot)];
        for found_by in [FoundBy::Setting, FoundBy::Label, FoundBy::DeviceName, FoundBy::HostName] {
            let found = identify(&nodes, &ours(found_by, our_machine, our_boot));
            match found {
                Ok(found) => {
                    assert!(!differs || found_by == FoundBy::Label, "{found_by}: {why}");
                    assert_eq!(found.doubt.is_some(), differs, "{found_by}: {why}");
                }
                Err(problem) => {
                    assert!(differs && found_by != FoundBy::Label, "{found_by}: {why}: {problem}");
                    let text = problem.to_string();
                    let parts = [machine, our_machine, "boot ID", "set node.name, or cluster.mode = never"];
                    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
                }
            }
        }
    }
}
