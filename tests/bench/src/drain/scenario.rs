//! The workloads on the node.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;

use super::tool::Tool;

/// A node to be drained. Pods take 1 s to end and 0.2 s to become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scenario {
    /// 100 pods of a deployment, no budget
    A,
    /// 10 pods of a deployment under a budget with maxUnavailable 1
    B,
    /// 10 pods of a StatefulSet with a CSI volume each, which takes 2 s to detach
    C,
    /// 500 pods of a deployment, no budget
    D,
    /// 10 StatefulSets of one pod with such a volume each
    E,
}

/// Time that one volume takes to detach.
pub(super) const DETACH: Duration = Duration::from_secs(2);

impl Scenario {
    /// Number of pods that have to leave.
    pub(super) fn pods(self) -> u32 {
        match self {
            Self::A => 100,
            Self::B | Self::C | Self::E => 10,
            Self::D => 500,
        }
    }

    /// Number of pods that may be missing at a time, if a budget limits it.
    pub(super) fn max_unavailable(self) -> Option<u32> {
        match self {
            Self::B => Some(1),
            Self::A | Self::C | Self::D | Self::E => None,
        }
    }

    /// Number of StatefulSets that have the pods, with a volume for each; 0 if a Deployment has them.
    pub(super) fn stateful_sets(self) -> u32 {
        match self {
            Self::A | Self::B | Self::D => 0,
            Self::C => 1,
            Self::E => 10,
        }
    }

    /// True if each pod has a volume.
    pub(super) fn has_volumes(self) -> bool {
        self.stateful_sets() > 0
    }

    /// The tools that drain the node, in turn.
    pub(super) fn tools(self) -> &'static [Tool] {
        match self {
            Self::A => &[Tool::Floor, Tool::Kubectl, Tool::Ebb, Tool::Zedkube],
            Self::B | Self::C | Self::D | Self::E => &[Tool::Floor, Tool::Kubectl, Tool::Ebb],
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::A => write!(f, "(a) 100 pods"),
            Self::B => write!(f, "(b) 10 pods, maxUnavailable 1"),
            Self::C => write!(f, "(c) 10 pods with a volume each"),
            Self::D => write!(f, "(d) 500 pods"),
            Self::E => write!(f, "(e) 10 owners, a pod with a volume each"),
        }
    }
}
