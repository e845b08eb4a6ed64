//! How an attempt ends.

use std::fmt;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A fresh list proved that no pod is left that should leave, and that only volumes of pods that stay are attached to
    /// the node (or, if the policy allows it, volumes that were not detached in time).
    Drained,
    /// The node, which this attempt had seen, does not exist any more: the server, the watch and the list of its pods
    /// agree.
    NodeGone,
    /// The attempt failed.
    Failed(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The deadline has passed and pods are left.
    Deadline,
    /// The node was made schedulable again during the drain.
    Uncordoned,
    /// The policy forbids to evict some pods; nothing was evicted.
    Refused,
    /// None of the pods that are left can be evicted.
    Stuck,
    /// The API server was away for too long.
    ApiAway,
    /// The node could not be watched, for this reason; nothing was evicted.
    Unseen(String),
    /// It could not be seen whether the pods' volumes are detached, for this reason; so no more pods were evicted.
    Blind(String),
    /// All pods have left, but these volumes are still attached; each with its driver and what holds it.
    Volumes(Vec<String>),
    /// No pod is left that was seen, but no fresh list could prove the end, for this reason.
    Unproven(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "time is over and pods are left on the node",
            Self::Uncordoned => "somebody made the node schedulable again during the drain",
            Self::Refused => "the policy does not allow to evict some pods; nothing was evicted",
            Self::Stuck => "none of the pods that are left can be evicted",
            Self::ApiAway => "the API server was away for too long",
            Self::Unseen(why) => return write!(f, "the node cannot be watched: {why}"),
            Self::Blind(why) => {
                return write!(f, "it cannot be seen whether volumes are detached: {why}");
            }
            Self::Volumes(volumes) => {
                return write!(
                    f,
                    "volumes are still attached to the node: {}. Ways out: mend what detaches them (the storage driver, \
                     the kubelet); or go on without: volumes.on-detach-timeout = \"proceed\" (ebb drain: \
                     --on-detach-timeout=proceed), on a device also `ebb force complete`",
                    volumes.join("; ")
                );
            }
            Self::Unproven(why) => {
                return write!(f, "nothing proves that the node is drained: {why}");
            }
        })
    }
}
