//! Ownership of a node's cordon, which decides who may lift it.
//!
//! A cordon is ours only if annotation `ebb.dev/cordoned-by` of the node has our name, and `managedFields` name no
//! other client that set it after us. If the annotation is gone, it is ours only if both topic OwnCordon and
//! `managedFields` say so. A cordon of another owner is used as it is and never lifted: a node that an operator has
//! cordoned on purpose is still cordoned after the reboot.

use crate::view::NodeView;

/// Annotation with the owner of the cordon: `zedkube`, or `ebb:<user>` for the command line.
pub const CORDONED_BY: &str = "ebb.dev/cordoned-by";

/// Annotation with the reason of the cordon: of an agent, the reason at the beginning of its last attempt to drain.
pub const CORDON_REASON: &str = "ebb.dev/cordon-reason";

/// Annotation that a person may set, with any value: zedkube then leaves the node cordoned after the reboot.
pub const KEEP_CORDONED: &str = "ebb.dev/keep-cordoned";

/// Annotation with the field manager whose cordon we adopted: that manager still owns `spec.unschedulable`.
pub const ADOPTED_FROM: &str = "ebb.dev/cordon-adopted-from";

/// Annotation with the slots that zedkube uses on this node (`slots.namespace`, `/`, `slots.group`), beside
/// [`CORDONED_BY`]. A cordon of zedkube without it belongs to `kube-system/default`.
pub const SLOTS_GROUP: &str = "ebb.dev/slots-group";

/// Value of [`SLOTS_GROUP`] that marks a cordon of zedkube as one that takes no slot: like a cordon by a person, it holds up
/// no other node. No group has this name, as a slash is missing.
pub const NO_SLOT: &str = "-";

/// Field manager under which zedkube writes to Nodes.
const ZEDKUBE: &str = "ebb-zedkube";

/// Field manager of the command line, and of versions that set none: the API server derives it from `ebb/0.1.0`.
const COMMAND_LINE: &str = "ebb";

/// Field manager under which `owner` writes. `metadata.managedFields` shows by it who set a field last.
pub fn field_manager(owner: &str) -> &'static str {
    if is_person(owner) { COMMAND_LINE } else { ZEDKUBE }
}

/// True if `owner` writes a new reason onto its own cordon. An agent does. The command line keeps the reason that the
/// person gave first: the next command has often no reason of its own, only the name of the command.
pub fn renews_reason(owner: &str) -> bool {
    !is_person(owner)
}

fn is_person(owner: &str) -> bool {
    owner.starts_with("ebb:")
}

/// Signs on a node with our annotation that the cordon now belongs to another owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Field managers that own `spec.unschedulable`: the clients that changed it last. Empty if the server does not
    /// report them.
    pub managers: Vec<String>,
    /// Annotation [`ADOPTED_FROM`].
    pub adopted_from: Option<String>,
    /// True if annotation [`KEEP_CORDONED`] exists.
    pub keep: bool,
}

impl Claims {
    /// True if the cordon without our annotation may be marked as ours.
    pub fn allows(&self, whose: Ownerless, owner: &str) -> bool {
        let is_ours = |manager: &String| manager == field_manager(owner);
        match whose {
            Ownerless::Eves => true,
            Ownerless::Ours => self.managers.iter().any(is_ours),
        }
    }

    /// True if another client changed `spec.unschedulable` after us: an uncordon and a cordon by hand leave our
    /// annotation.
    fn is_cordon_of_others(&self, owner: &str) -> bool {
        let ours = |manager: &String| {
            [field_manager(owner), COMMAND_LINE].contains(&manager.as_str())
                || self.adopted_from.as_ref() == Some(manager)
        };
        !self.managers.is_empty() && !self.managers.iter().any(ours)
    }
}

/// Whose a cordon without our annotation is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownerless {
    /// EVE's zedkube's, which writes no owner. The caller has to know that.
    Eves,
    /// Ours, if the API server says so: somebody has removed the annotation.
    Ours,
}

/// Change of the node that makes it cordoned by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonChange {
    /// Set `spec.unschedulable` and both annotations, in one patch.
    Cordon,
    /// The node has our cordon already; at most its reason changes.
    AlreadyOurs,
    /// No change: the node has the cordon of another owner, and gets no annotation.
    AlreadyForeign,
}

/// Change of the node that lifts our cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncordonChange {
    /// Clear `spec.unschedulable` and both annotations, in one patch.
    Uncordon,
    /// Clear the annotations: a person has lifted our cordon.
    RemoveAnnotation,
    /// Clear the annotations and leave the cordon: a person wants it kept, or has cordoned the node after us.
    LeaveCordoned,
    /// No change: the cordon, if any, is not ours.
    Nothing,
}

/// The change that `owner` must make to have the node cordoned.
pub fn cordon_change(node: &NodeView, owner: &str) -> CordonChange {
    match (node.cordoned, node.cordoned_by.as_deref() == Some(owner)) {
        (true, true) => CordonChange::AlreadyOurs,
        (true, false) => CordonChange::AlreadyForeign,
        (false, _) => CordonChange::Cordon,
    }
}

/// The change that `owner` must make to lift its own cordon.
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
        // Owners of spec.unschedulable, manager of the adopted cordon, keep-cordoned annotation.
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
