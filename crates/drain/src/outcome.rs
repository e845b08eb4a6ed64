//! Outcome of an attempt.

use std::fmt;

/// Outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Drained: the final check has found no pod that should leave, and no attached volume except those of pods that
    /// stay (and, if the policy allows it, volumes that were not detached in time).
    Drained,
    /// The node, which this attempt had seen, does not exist any more: the API server, the watch and the list of its
    /// pods agree.
    NodeGone,
    /// The attempt failed.
    Failed(Failure),
}

/// Reason of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The deadline has passed, and pods are left.
    Deadline,
    /// The node was made schedulable again during the drain.
    Uncordoned,
    /// The policy forbids to evict some pods; nothing was evicted.
    Refused,
    /// None of the pods that are left can be evicted.
    Stuck,
    /// The API server was away for too long.
    ApiAway,
    /// The node could not be watched, for this reason; no pod was evicted.
    Unseen(String),
    /// The state of the pods' volumes could not be read, for this reason, so no further pods were evicted.
    Blind(String),
    /// All pods have left, but these volumes are not detached. Each text has the driver and what holds the volume.
    Volumes(Vec<String>),
    /// No known pod is left, but the final check could not confirm it, for this reason.
    Unproven(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "time is over and pods are left on the node",
            Self::Uncordoned => "the node was made schedulable again during the drain",
            Self::Refused => "the policy does not allow to evict some pods; nothing was evicted",
            Self::Stuck => "none of the pods that are left can be evicted",
            Self::ApiAway => "the API server was away for too long",
            Self::Unseen(why) => return write!(f, "the node cannot be watched: {why}"),
            Self::Blind(why) => {
                return write!(f, "it is not known whether volumes are detached: {why}");
            }
            Self::Volumes(volumes) => {
                return write!(
                    f,
                    "volumes are not detached from the node: {}. What to do: fix what detaches them (the storage driver, \
                     the kubelet); or continue without them: volumes.on-detach-timeout = \"proceed\" (ebb drain: \
                     --on-detach-timeout=proceed), on a device also `ebb force complete`",
                    volumes.join("; ")
                );
            }
            Self::Unproven(why) => {
                return write!(f, "the final check has not confirmed that the node is drained: {why}");
            }
        })
    }
}
