//! What the node of an entry looks like now, and whether the slot is in use.

use std::time::Duration;

use drain::view::NodeView;
use runtime::plain_text::one_line;
use schemas::agent::ZEDKUBE;

use crate::drain::span;

/// So much of an annotation is shown, in bytes.
const MOST_BYTES: usize = 100;

/// The node of an entry, if it is still there.
pub(super) fn node_of<'a>(name: &str, nodes: &'a [NodeView]) -> Option<&'a NodeView> {
    nodes.iter().find(|node| node.name == name)
}

/// The node is down, or zedkube has taken it out of service: another one that goes down now makes two.
pub(super) fn is_out(node: &NodeView) -> bool {
    !node.ready || node.cordoned_by.as_deref() == Some(ZEDKUBE)
}

/// `Ready, cordoned by zedkube`, `NotReady for 3m05s`.
pub(super) fn words(node: &NodeView) -> String {
    let owner = node.cordoned_by.as_ref().map(|owner| one_line(owner, MOST_BYTES));
    let cordon = match (node.cordoned, owner) {
        (true, Some(owner)) => format!(", cordoned by {owner}"),
        (true, None) => ", cordoned".to_owned(),
        (false, Some(owner)) => format!(", uncordoned by hand, with the mark of {owner}"),
        (false, None) => String::new(),
    };
    let ready = match down_for(node) {
        None => "Ready".to_owned(),
        Some(Duration::ZERO) => "NotReady".to_owned(),
        Some(lasting) => format!("NotReady for {}", span(lasting)),
    };
    format!("{ready}{cordon}")
}

/// For how long the node is not Ready, by the API server's clock; zero when that is not known. `None` for one that is.
pub(super) fn down_for(node: &NodeView) -> Option<Duration> {
    let lasting = node.unhealthy.as_ref().filter(|unhealthy| unhealthy.condition == "NotReady");
    (!node.ready).then(|| lasting.map_or(Duration::ZERO, |unhealthy| unhealthy.lasting))
}

#[cfg(test)]
mod tests {
    use drain::view::Unhealthy;

    use super::*;

    fn node(ready: bool, cordoned: bool, by: Option<&str>, condition: Option<(&str, u64)>) -> NodeView {
        NodeView {
            ready,
            cordoned,
            cordoned_by: by.map(str::to_owned),
            unhealthy: condition.map(|(condition, seconds)| Unhealthy {
                condition: condition.to_owned(),
                lasting: Duration::from_secs(seconds),
            }),
            ..NodeView::default()
        }
    }

    #[test]
    fn what_a_node_looks_like_and_whether_its_slot_is_in_use() {
        for (node, is_in_use, expected) in [
            (node(true, false, None, None), false, "Ready"),
            (node(true, true, Some("zedkube"), None), true, "Ready, cordoned by zedkube"),
            (node(true, true, Some("ebb:eve\u{1b}[2J"), None), false, "Ready, cordoned by ebb:eve [2J"),
            (node(true, true, None, None), false, "Ready, cordoned"),
            (
                node(true, false, Some("zedkube"), None),
                true,
                "Ready, uncordoned by hand, with the mark of zedkube",
            ),
            (node(false, false, None, Some(("NotReady", 185))), true, "NotReady for 3m05s"),
            (node(false, true, None, Some(("NotReady", 0))), true, "NotReady, cordoned"),
            (node(false, false, None, Some(("ReadonlyFilesystem", 9))), true, "NotReady"),
            (node(true, false, None, Some(("ReadonlyFilesystem", 9))), false, "Ready"),
        ] {
            assert_eq!((words(&node).as_str(), is_out(&node)), (expected, is_in_use), "{node:?}");
        }
    }
}
