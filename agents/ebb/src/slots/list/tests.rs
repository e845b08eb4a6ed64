use std::time::Duration;

use drain::view::Unhealthy;

use super::*;

fn holder(node: &str) -> Holder {
    Holder {
        node: node.to_owned(),
        node_uid: format!("uid-{node}"),
        boot_id: "0f3c21aa-7c1e-4b7e-9a55-0a1b2c3d4e5f".to_owned(),
        renewal: 17,
        passed_over: vec![],
    }
}

fn node(name: &str, down_for: Option<u64>, cordoned_by: Option<&str>) -> NodeView {
    let unhealthy =
        |seconds| Unhealthy { condition: "NotReady".into(), lasting: Duration::from_secs(seconds) };
    NodeView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ready: down_for.is_none(),
        cordoned: cordoned_by.is_some(),
        cordoned_by: cordoned_by.map(str::to_owned),
        unhealthy: down_for.map(unhealthy),
        slots_group: cordoned_by.map(|_| "kube-system/line-3".to_owned()),
        ..NodeView::default()
    }
}

fn map() -> SlotMap {
    SlotMap::new("kube-system", "line-3")
}

fn listed(holders: &[&str], nodes: &[NodeView], limit: u32) -> Document {
    let holders = holders.iter().map(|name| holder(name)).collect();
    let limits =
        Policy { slots_limit: limit, slots_group: Some("kube-system/line-3".to_owned()), ..Policy::device() };
    document(&map(), &Slots { holders, ..Slots::default() }, nodes, &limits)
}

#[test]
fn who_has_a_slot_and_who_counts_besides() {
    let nodes = [
        node("edge-a", None, Some("zedkube")),
        node("edge-b", Some(185), None),
        node("edge-c", Some(185), None),
        node("edge-d", Some(1800), None),
        node("edge-e", None, Some("ebb:alice")),
        node("edge-f", None, Some("zedkube")),
        NodeView { slots_group: None, ..node("edge-g", None, Some("zedkube")) },
    ];
    // edge-b holds one and is down: it counts once. edge-d is down for too long, edge-e is merely cordoned. edge-f has
    // lost its entry and counts all the same; edge-g is of another group.
    insta::assert_snapshot!(render(&listed(&["edge-a", "edge-b", "edge-x"], &nodes, 2)).join("\n"));
}

#[test]
fn entries_that_are_not_as_usual() {
    let nodes = [
        node("edge-a", None, Some("zedkube")),
        NodeView { slots_group: None, ..node("edge-b", None, Some("zedkube")) },
        node("edge-c", None, None),
        node("edge-d", None, Some("zedkube")),
        node("edge-e", None, None),
    ];
    let passed = |name: &str, renewal| cluster::PassedOver {
        node: name.to_owned(),
        node_uid: format!("uid-{name}"),
        renewal,
    };
    let unreadable = |name: &str| Unreadable { node: name.to_owned(), why: "is not an entry".to_owned() };
    let slots = Slots {
        holders: vec![
            Holder { passed_over: vec![passed("edge-b", 17), passed("edge-e", 17)], ..holder("edge-a") },
            holder("edge-b"),
            holder("edge-e"),
        ],
        unreadable: vec![unreadable("edge-c"), unreadable("edge-d"), unreadable("\u{1b}[2J")],
        ..Slots::default()
    };
    // Of the two that were passed over, edge-b is cordoned by zedkube and counts all the same, once. edge-c is in service,
    // so that nonsense in its entry does not count.
    insta::assert_snapshot!(render(&document(&map(), &slots, &nodes, &Policy::device())).join("\n"));
}

#[test]
fn what_counts() {
    let (up, down) = (node("edge-a", None, None), node("edge-b", Some(1), None));
    let cases: [(&[&str], &[&NodeView], usize, &str); 5] = [
        (&[], &[&up], 0, "no node has a slot; group line-3: 0 taken, limit 1 "),
        (&[], &[&up, &down], 1, "no node has a slot; group line-3: 1 taken, limit 1 "),
        (&["edge-b"], &[&up, &down], 1, "group line-3: 1 taken, limit 1 "),
        (&["edge-a", "edge-a"], &[&up], 1, "group line-3: 1 taken, limit 1 "),
        (&["edge-x"], &[&up], 0, "group line-3: 0 taken, limit 1 "),
    ];
    for (holders, nodes, taken, start) in cases {
        let nodes: Vec<NodeView> = nodes.iter().copied().cloned().collect();
        let document = listed(holders, &nodes, 1);
        assert_eq!(document.taken, taken, "{holders:?} {nodes:?}");
        let text = render(&document).join("\n");
        assert!(text.starts_with(start), "{text}");
    }
    assert!(render(&listed(&[], &[], 0)).concat().contains("0 taken, no limit (slots.limit = 0)"));
}

#[test]
fn a_boot_id_that_is_none_is_shown_plainly() {
    for (boot_id, expected) in [("0f3c21aa-7c1e", "0f3c21aa"), ("", "-"), ("\u{1b}[2J\nx", "2Jx"), ("é", "-")]
    {
        assert_eq!(short(boot_id), expected, "{boot_id:?}");
    }
}
