//! Who owns a node's cordon, and so who may lift it.
//!
//! A cordon is ours only if the node carries our name in annotation `ebb.dev/cordoned-by`. A cordon of another owner
//! is used as it is and is never lifted: an operator who cordoned a node on purpose finds it cordoned after the
//! reboot.

use crate::view::NodeView;

/// Annotation that names who cordoned the node: `zedkube`, or `ebb:<user>` for the command line.
pub const CORDONED_BY: &str = "ebb.dev/cordoned-by";

/// Annotation that says why the node was cordoned.
pub const CORDON_REASON: &str = "ebb.dev/cordon-reason";

/// Annotation of a person, with any value: on the way back the node stays cordoned.
pub const KEEP_CORDONED: &str = "ebb.dev/keep-cordoned";

/// Annotation that names the field manager whose cordon was adopted: that manager still owns `spec.unschedulable`.
pub const ADOPTED_FROM: &str = "ebb.dev/cordon-adopted-from";

/// The field manager under which zedkube writes to Nodes.
const ZEDKUBE: &str = "ebb-zedkube";

/// The field manager of the command line, and of versions that named none: the API server takes it from `ebb/0.1.0`.
const COMMAND_LINE: &str = "ebb";

/// The field manager under which `owner` writes: by it `metadata.managedFields` tells who set a field last.
pub fn field_manager(owner: &str) -> &'static str {
    if owner.starts_with("ebb:") { COMMAND_LINE } else { ZEDKUBE }
}

/// Signs on a node with our annotation that its cordon belongs to another owner by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The field managers that own `spec.unschedulable`: who changed it last. Empty where the server does not say.
    pub managers: Vec<String>,
    /// Annotation [`ADOPTED_FROM`].
    pub adopted_from: Option<String>,
    /// Annotation [`KEEP_CORDONED`] is there.
    pub keep: bool,
}

impl Claims {
    /// Another client changed `spec.unschedulable` after us: an uncordon and a cordon by hand leave our annotation.
    fn is_cordon_of_others(&self, owner: &str) -> bool {
        let ours = |manager: &String| {
            [field_manager(owner), COMMAND_LINE].contains(&manager.as_str())
                || self.adopted_from.as_ref() == Some(manager)
        };
        !self.managers.is_empty() && !self.managers.iter().any(ours)
    }
}

/// The changes on the node that our cordon needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonChange {
    /// Set `spec.unschedulable` and both annotations, in one patch.
    Cordon,
    /// Nothing: the node carries our cordon already.
    AlreadyOurs,
    /// Nothing: the node carries the cordon of another owner, and gets no annotation.
    AlreadyForeign,
}

/// The changes on the node that lifting our cordon needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncordonChange {
    /// Clear `spec.unschedulable` and both annotations, in one patch.
    Uncordon,
    /// Clear the annotations: a person lifted our cordon.
    RemoveAnnotation,
    /// Clear the annotations and leave the cordon: a person wants it kept, or has cordoned the node after us.
    LeaveCordoned,
    /// Nothing: the cordon, if any, is not ours.
    Nothing,
}

/// The changes that `owner` has to make to have the node cordoned.
pub fn cordon_change(node: &NodeView, owner: &str) -> CordonChange {
    match (node.cordoned, node.cordoned_by.as_deref() == Some(owner)) {
        (true, true) => CordonChange::AlreadyOurs,
        (true, false) => CordonChange::AlreadyForeign,
        (false, _) => CordonChange::Cordon,
    }
}

/// The changes that `owner` has to make to lift its own cordon.
pub fn uncordon_change(node: &NodeView, owner: &str, claims: &Claims) -> UncordonChange {
    match (node.cordoned, node.cordoned_by.as_deref() == Some(owner)) {
        (true, true) if claims.keep || claims.is_cordon_of_others(owner) => UncordonChange::LeaveCordoned,
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
            assert_eq!(uncordon_change(&node, "zedkube", &Claims::default()), uncordon, "{cordoned} {by:?}");
        }
    }

    /// `kubectl uncordon` and `kubectl cordon` on a node that we cordoned leave our annotation on a person's cordon.
    #[test]
    fn a_cordon_that_somebody_made_or_wants_to_keep_stays() {
        use UncordonChange as U;
        // Who owns spec.unschedulable, whose cordon was adopted, whether it is to be kept.
        let cases: [(&[&str], Option<&str>, bool, U); 8] = [
            (&[], None, false, U::Uncordon),
            (&["ebb-zedkube"], None, false, U::Uncordon),
            (&["kubectl", "ebb-zedkube"], None, false, U::Uncordon),
            (&["ebb"], None, false, U::Uncordon),
            (&["kubectl"], None, false, U::LeaveCordoned),
            (&["zedbox"], Some("zedbox"), false, U::Uncordon),
            (&["kubectl"], Some("zedbox"), false, U::LeaveCordoned),
            (&["ebb-zedkube"], None, true, U::LeaveCordoned),
        ];
        for (managers, adopted_from, keep, expected) in cases {
            let managers = managers.iter().map(|&name| name.to_owned()).collect();
            let claims = Claims { managers, adopted_from: adopted_from.map(str::to_owned), keep };
            let node = |cordoned, by: &str| NodeView {
                cordoned,
                cordoned_by: Some(by.to_owned()),
                ..NodeView::default()
            };
            assert_eq!(uncordon_change(&node(true, "zedkube"), "zedkube", &claims), expected, "{claims:?}");
            assert_eq!(uncordon_change(&node(false, "zedkube"), "zedkube", &claims), U::RemoveAnnotation);
            assert_eq!(uncordon_change(&node(true, "ebb:eve"), "zedkube", &claims), U::Nothing);
        }
    }
}
