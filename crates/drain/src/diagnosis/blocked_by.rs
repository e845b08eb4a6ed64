//! The kinds of what keeps a pod, for counting.

/// What keeps a pod on the node. A pod has one kind at a time: that of its cause in [`super::Blocked`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedBy {
    /// A PodDisruptionBudget refuses its eviction, and nothing else does.
    Budget,
    /// More than one budget selects it, which the eviction API does not support.
    TwoBudgets,
    /// An admission webhook refuses its eviction, or changes it so that nothing is deleted.
    Webhook,
    /// Its owner creates it again on this node.
    Recreated,
    /// It is deleted, and finalizers keep it.
    Finalizers,
    /// It is deleted, and the kubelet does not end it.
    Kubelet,
    /// The policy of the drain does not allow its eviction.
    Policy,
    /// Anything else: the server rejects its eviction, or the kind is not known.
    #[default]
    Other,
}

impl BlockedBy {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Budget,
        Self::TwoBudgets,
        Self::Webhook,
        Self::Recreated,
        Self::Finalizers,
        Self::Kubelet,
        Self::Policy,
        Self::Other,
    ];

    /// One word, for reports and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Budget => "Budget",
            Self::TwoBudgets => "TwoBudgets",
            Self::Webhook => "Webhook",
            Self::Recreated => "Recreated",
            Self::Finalizers => "Finalizers",
            Self::Kubelet => "Kubelet",
            Self::Policy => "Policy",
            Self::Other => "Other",
        }
    }
}
