//! Who owns a node's cordon, and so who may lift it.
//!
//! A cordon is ours only if the node carries our name in annotation `ebb.dev/cordoned-by`. Somebody else's cordon
//! is used as it is and is never lifted: an operator who cordoned a node on purpose finds it cordoned after the
//! reboot.

use crate::view::NodeView;

/// Annotation that names who cordoned the node: `zedkube`, or `ebb:<user>` for the command line.
pub const CORDONED_BY: &str = "ebb.dev/cordoned-by";

/// Annotation that says why the node was cordoned.
pub const CORDON_REASON: &str = "ebb.dev/cordon-reason";

/// What a cordon of ours has to change on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonChange {
    /// Set `spec.unschedulable` and both annotations, in one patch.
    Cordon,
    /// Nothing: it is cordoned, and ours already.
    AlreadyOurs,
    /// Nothing: it is cordoned, and not ours, and gets no annotation.
    AlreadyForeign,
}

/// What lifting our cordon has to change on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncordonChange {
    /// Clear `spec.unschedulable` and both annotations, in one patch.
    Uncordon,
    /// Clear the annotations: somebody lifted our cordon by hand.
    RemoveAnnotation,
    /// Nothing: the cordon, if any, is not ours.
    Nothing,
}

/// What `owner` has to change to have the node cordoned.
pub fn cordon_change(node: &NodeView, owner: &str) -> CordonChange {
    match (node.cordoned, node.cordoned_by.as_deref() == Some(owner)) {
        (true, true) => CordonChange::AlreadyOurs,
        (true, false) => CordonChange::AlreadyForeign,
        (false, _) => CordonChange::Cordon,
    }
}

/// What `owner` has to change to take its cordon back.
pub fn uncordon_change(node: &NodeView, owner: &str) -> UncordonChange {
    match (node.cordoned, node.cordoned_by.as_deref() == Some(owner)) {
        (true, true) => UncordonChange::Uncordon,
        (false, true) => UncordonChange::RemoveAnnotation,
        (_, false) => UncordonChange::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_cordon_is_removed() {
        use CordonChange as C;
        use UncordonChange as U;
        let cases = [
            (false, None, C::Cordon, U::Nothing),
            (false, Some("zedkube"), C::Cordon, U::RemoveAnnotation),
            (false, Some("ebb:eve"), C::Cordon, U::Nothing),
            (true, None, C::AlreadyForeign, U::Nothing),
            (true, Some("ebb:eve"), C::AlreadyForeign, U::Nothing),
            (true, Some("zedkube"), C::AlreadyOurs, U::Uncordon),
        ];
        for (cordoned, by, cordon, uncordon) in cases {
            let node = NodeView { cordoned, cordoned_by: by.map(str::to_owned), ..NodeView::default() };
            assert_eq!(cordon_change(&node, "zedkube"), cordon, "{cordoned} {by:?}");
            assert_eq!(uncordon_change(&node, "zedkube"), uncordon, "{cordoned} {by:?}");
        }
    }
}
