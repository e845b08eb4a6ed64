//! The API server's answer to one eviction or deletion, classified where the wire is.

use std::time::Duration;

/// The meaning of one answer to an eviction or deletion. `cluster::evict` is the only place that looks at status
/// codes; everybody else reads this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted: the pod is going.
    Accepted,
    /// The pod is not there any more, or another pod has its name.
    Gone,
    /// A PodDisruptionBudget refuses, for now.
    Budget(BudgetRefusal),
    /// More than one budget selects the pod, which the eviction API does not support. Stays so until a person
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
        /// The error.
        text: String,
    },
    /// The call failed in a way that may pass.
    Retry {
        /// The error.
        text: String,
    },
    /// The server denies the right (401, 403). Servers do so for moments after a restart and while credentials rotate,
    /// so a denial is final only when it lasts ([`crate::policy::REFUSAL_LASTS`]).
    Denied {
        /// The error, with the missing verb.
        text: String,
    },
    /// The call failed in a way that will not pass in this attempt: the server does not understand the request.
    Final {
        /// The error.
        text: String,
    },
}

/// A budget's refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// The server's words, with the numbers.
    pub text: String,
    /// The server's Retry-After, set when the budget's status is not up to date yet.
    pub after: Option<Duration>,
}
