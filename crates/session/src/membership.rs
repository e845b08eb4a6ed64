//! Whether this device is a member of a cluster: yes, no, or not known.
//!
//! A wrong `no` lets a node go down without a drain, so `no` needs proof, and `yes` is only taken back by proof and
//! while nobody requests a drain. A `no` that was stored in an earlier boot counts only after the cluster was asked
//! once in this boot (`State::member_now`).

use schemas::{DrainRequester, Member};

pub use crate::policy::Mode;

/// What the device itself knows about its membership.
#[expect(clippy::struct_excessive_bools, reason = "facts, each on its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// EVE's topic EdgeNodeClusterConfig: `None` where the topic does not exist, otherwise whether its item says
    /// `Valid`. `Some(false)` also if the item is gone: EVE publishes the same for a leave and for a parse error (D20).
    pub eve_config_valid: Option<bool>,
    /// EVE's agents are here: zedagent publishes its topic EdgeNodeClusterConfig, or zedbox runs.
    pub is_beside_eve: bool,
    /// Setting `cluster.mode`.
    pub mode: Mode,
    /// A kubeconfig was found.
    pub has_kubeconfig: bool,
    /// How far the device's nodeagent has come.
    pub nodeagent: NodeAgent,
    /// This machine runs a kubelet: it has an enabled unit, a live process or its own kubeconfig. Only searched for if
    /// zedkube has no kubeconfig.
    pub has_kubelet: bool,
    /// A drain that the cluster commands by an annotation of our Node counts.
    pub obeys_drains: bool,
    /// A request that is kept over boots exists and cannot be read: the node may have to stay drained.
    pub may_be_kept: bool,
}

impl Facts {
    /// This machine runs a kubelet, but zedkube has no access to its cluster.
    pub fn lacks_access(&self) -> bool {
        self.mode == Mode::Auto && self.eve_config_valid.is_none() && self.has_kubelet && !self.has_kubeconfig
    }
}

/// How far the device's nodeagent has come, by its topic DeviceAction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeAgent {
    /// The topic does not exist in this boot: EVE's nodeagent does not publish it, and ours has not run yet.
    #[default]
    Silent,
    /// nodeagent has not begun: the command can still be taken back.
    NotActing,
    /// nodeagent is past the point of no return with a command of this requester: the device goes down.
    Acting(DrainRequester),
}

impl NodeAgent {
    /// nodeagent is past the point of no return.
    pub fn is_acting(self) -> bool {
        matches!(self, Self::Acting(_))
    }
}

/// The result of a successful list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// How many nodes there are.
    pub nodes: usize,
    /// One of them is this machine.
    pub has_own: bool,
}

/// Gives the new membership; `listed` is `None` if the API server has not answered.
pub fn next(before: Member, facts: &Facts, listed: Option<Listed>) -> Member {
    match facts.eve_config_valid {
        Some(true) => Member::Yes,
        Some(false) => by_eve(before, listed),
        None => by_mode(before, facts, listed),
    }
}

/// True if there is no cluster that could be asked, so that a stored membership counts without asking in this boot.
pub(crate) fn needs_no_look(facts: &Facts) -> bool {
    let is_never = facts.eve_config_valid.is_none() && facts.mode == Mode::Never;
    is_never || (!facts.has_kubeconfig && !facts.has_kubelet)
}

/// EVE says that the device is in no cluster. EVE says the same if it could not read its configuration, so a member has
/// left only if a list proves it: without our Node, or with ours alone.
fn by_eve(before: Member, listed: Option<Listed>) -> Member {
    let left = listed.is_some_and(|listed| listed.nodes == 1 || (!listed.has_own && listed.nodes > 0));
    if before != Member::Yes || left { Member::No } else { before }
}

fn by_mode(before: Member, facts: &Facts, listed: Option<Listed>) -> Member {
    match (facts.mode, listed) {
        (Mode::Always, _) => Member::Yes,
        (Mode::Never, _) => Member::No,
        (Mode::Auto, Some(Listed { nodes: 0, .. })) => before,
        (Mode::Auto, Some(Listed { nodes: 1, .. })) => Member::No,
        (Mode::Auto, Some(_)) => Member::Yes,
        // A machine with a kubelet may be a member although zedkube has no kubeconfig: workers of k3s or kubeadm have
        // none in the places where zedkube searches.
        (Mode::Auto, None) if !facts.has_kubeconfig && before != Member::Yes => {
            if facts.has_kubelet {
                Member::Unknown
            } else {
                Member::No
            }
        }
        (Mode::Auto, None) => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D20: EVE publishes the same for a leave and for a parse error, and then drains and deletes its own Node.
    #[test]
    fn an_invalid_config_alone_takes_no_membership() {
        let facts = Facts {
            eve_config_valid: Some(false),
            has_kubeconfig: true,
            has_kubelet: true,
            ..Facts::default()
        };
        for (listed, expected) in [
            (None, Member::Yes),
            (Some(Listed { nodes: 3, has_own: true }), Member::Yes),
            (Some(Listed { nodes: 2, has_own: false }), Member::No),
        ] {
            assert_eq!(next(Member::Yes, &facts, listed), expected, "{listed:?}");
        }
    }

    #[test]
    fn each_rule() {
        use Member::{No, Unknown, Yes};
        let list = |nodes, has_own| Some(Listed { nodes, has_own });
        let cases = [
            // EVE's topic decides where it exists.
            (Unknown, Some(true), Mode::Never, true, None, Yes),
            (Unknown, Some(false), Mode::Always, true, None, No),
            (No, Some(false), Mode::Auto, true, list(3, true), No),
            (Yes, Some(false), Mode::Auto, true, None, Yes),
            (Yes, Some(false), Mode::Auto, true, list(3, true), Yes),
            (Yes, Some(false), Mode::Auto, true, list(0, false), Yes),
            (Yes, Some(false), Mode::Auto, true, list(2, false), No),
            (Yes, Some(false), Mode::Auto, true, list(1, true), No),
            (Yes, Some(false), Mode::Auto, true, list(1, false), No),
            // The setting.
            (No, None, Mode::Always, false, None, Yes),
            (Yes, None, Mode::Never, true, list(3, true), No),
            // What the API server says.
            (Unknown, None, Mode::Auto, true, list(2, true), Yes),
            (No, None, Mode::Auto, true, list(3, false), Yes),
            (Yes, None, Mode::Auto, true, list(1, true), No),
            (Yes, None, Mode::Auto, true, list(0, false), Yes),
            (Yes, None, Mode::Auto, true, None, Yes),
            (Unknown, None, Mode::Auto, true, None, Unknown),
            // No kubeconfig at all: a plain single device, unless it was a member.
            (Unknown, None, Mode::Auto, false, None, No),
            (Yes, None, Mode::Auto, false, None, Yes),
        ];
        for (before, eve_config_valid, mode, has_kubeconfig, listed, expected) in cases {
            let facts = Facts { eve_config_valid, mode, has_kubeconfig, ..Facts::default() };
            assert_eq!(next(before, &facts, listed), expected, "{before:?} {facts:?} {listed:?}");
        }
    }

    /// A k3s agent or a kubeadm worker: its kubelet has credentials, we have none.
    #[test]
    fn a_kubelet_without_access_for_us_is_never_a_no() {
        use Member::{No, Unknown, Yes};
        let cases = [
            (Unknown, Mode::Auto, false, None, Unknown, true),
            (No, Mode::Auto, false, None, Unknown, true),
            (Yes, Mode::Auto, false, None, Yes, true),
            (No, Mode::Auto, true, None, No, false),
            (Unknown, Mode::Never, false, None, No, false),
            (Unknown, Mode::Always, false, None, Yes, false),
            (Unknown, Mode::Auto, false, Some(false), No, false),
        ];
        for (before, mode, has_kubeconfig, eve_config_valid, expected, lacks_access) in cases {
            let facts =
                Facts { eve_config_valid, mode, has_kubeconfig, has_kubelet: true, ..Facts::default() };
            assert_eq!(next(before, &facts, None), expected, "{before:?} {facts:?}");
            assert_eq!(facts.lacks_access(), lacks_access, "{facts:?}");
        }
    }
}
