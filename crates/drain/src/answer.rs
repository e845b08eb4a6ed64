//! The API server's answer to one eviction or deletion, as classified by `cluster`.

use std::time::Duration;

/// Meaning of an answer to an eviction or deletion. Only `cluster::evict` looks at status codes; all other code uses
/// this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted: the pod will terminate.
    Accepted,
    /// The pod does not exist any more, or another pod has its name.
    Gone,
    /// A PodDisruptionBudget refuses, for now.
    Budget(BudgetRefusal),
    /// More than one budget selects the pod, which the eviction API does not support. This stays so until a person
    /// changes the budgets.
    TwoBudgets,
    /// An admission webhook refuses.
    Webhook {
        /// Message of the webhook.
        text: String,
    },
    /// The pod's namespace is being deleted: evictions never work there, deletions do.
    NamespaceTerminating,
    /// The server does not know evictions: pods can only be deleted.
    NoEvictions,
    /// Nothing was sent, because for some seconds other drains had the most evictions in flight that this budget takes.
    /// The caller has waited, so the step decides anew at once.
    NotSent,
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
    /// The call failed in a way that will not pass in this attempt, for example because the server does not understand
    /// the request.
    Rejected {
        /// The error.
        text: String,
    },
}

impl Answer {
    /// The names of all answers of a server.
    pub const NAMES: [&str; 11] = [
        "Accepted",
        "Gone",
        "Budget",
        "TwoBudgets",
        "Webhook",
        "NamespaceTerminating",
        "NoEvictions",
        "Throttled",
        "Retry",
        "Denied",
        "Rejected",
    ];

    /// One word, for reports and metrics; none if nothing was sent.
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Accepted => "Accepted",
            Self::Gone => "Gone",
            Self::Budget(_) => "Budget",
            Self::TwoBudgets => "TwoBudgets",
            Self::Webhook { .. } => "Webhook",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::NoEvictions => "NoEvictions",
            Self::NotSent => return None,
            Self::Throttled { .. } => "Throttled",
            Self::Retry { .. } => "Retry",
            Self::Denied { .. } => "Denied",
            Self::Rejected { .. } => "Rejected",
        })
    }
}

/// Refusal of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// Message of the server, with the numbers.
    pub text: String,
    /// Retry-After of the server, which it sends while the budget's status is not up to date.
    pub after: Option<Duration>,
}
