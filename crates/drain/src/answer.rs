//! What the API server said to one eviction, classified where the wire is.

use std::time::Duration;

/// The meaning of one answer to an eviction or deletion. `cluster::evict` is the only place that looks at status
/// codes; everybody else reads this.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub enum Answer {
    /// Accepted: the pod is going.
    Accepted,
    /// The pod is not there any more, or another pod has its name.
    Gone,
    /// A PodDisruptionBudget refuses, for now.
    Budget(BudgetRefusal),
    /// More than one budget selects the pod, which the eviction API does not support. Stays so until somebody
    /// changes the budgets.
    TwoBudgets,
    /// An admission webhook refuses.
    Webhook {
        /// The webhook's own words.
        text: String,
    },
    /// The pod's namespace is being deleted: evictions never work there, plain deletion does.
    NamespaceTerminating,
    /// The server does not know evictions: pods can only be deleted.
    NoEvictions,
    /// The server is busy or cannot be reached: try later.
    Throttled {
        /// The server's Retry-After.
        after: Option<Duration>,
        /// What happened.
        text: String,
    },
    /// An error that may pass.
    Retry {
        /// What happened.
        text: String,
    },
    /// The server does not let us (401, 403). It says so for moments after a restart and while credentials rotate, so
    /// this is final only when it lasts ([`crate::policy::REFUSAL_LASTS`]).
    Denied {
        /// What happened, with the missing verb.
        text: String,
    },
    /// An error that will not pass in this attempt: a request that the server does not understand.
    Final {
        /// What happened.
        text: String,
    },
}

/// A budget's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace", derive(serde::Serialize, serde::Deserialize))]
pub struct BudgetRefusal {
    /// The server's words, with the numbers.
    pub text: String,
    /// The server's Retry-After, set when the budget's status is not up to date yet.
    pub after: Option<Duration>,
}
