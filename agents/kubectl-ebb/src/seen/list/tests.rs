use cluster::NodeFacts;

use super::*;
use crate::seen::slots::{Slot, Table};

fn seen(name: &str, by: &str, slot: Slot) -> Seen {
    let mut node = NodeFacts::default();
    (node.view.name, node.view.ready) = (name.to_owned(), true);
    (node.view.cordoned, node.view.cordoned_by) = (!by.is_empty(), Some(by.to_owned()));
    Seen { node, now: None, slot }
}

#[test]
fn only_the_reason_is_cut_to_make_the_table_fit() {
    let free = || Slot::Free(Table::default());
    let all = [
        seen("edge-a", &"x".repeat(100), Slot::Held(Table::default())),
        seen("edge-b", "", Slot::Unknown("why".to_owned())),
        seen("edge-c", "eve\u{1b}[2J\n\u{202e}", free()),
    ];
    assert_eq!(
        render(&all, 60),
        [
            "NODE    STATE      SINCE  WHY                     SLOT  NEXT",
            "edge-a  Cordoned   -      by xxxxxxxxxxxxxxxxxx…  held  -",
            "edge-b  InService  -      -                       ?     -",
            "edge-c  Cordoned   -      by eve [2J              -     -",
        ]
    );
    for columns in [0, 40, 80, 81, 200] {
        let width = render(&all, columns).iter().map(|line| line.chars().count()).max();
        assert!(width <= Some(columns.max(56)), "{columns}: {width:?}");
    }
    // However narrow the terminal is, something of the reason is seen.
    assert!(render(&all, 0)[1].contains("by xxxxxxxxxxxxx…"), "{all:?}");
    // A reason of just the width is whole.
    for (letters, is_whole) in [(20, true), (21, false)] {
        let text = render(&[seen("edge-a", &"x".repeat(letters), free())], 60).join("\n");
        assert_eq!(text.contains(&"x".repeat(letters)), is_whole, "{text}");
    }
    assert_eq!(unknown(&all).into_iter().collect::<Vec<_>>(), ["why"]);
}
