//! Settings that are one of a few words.

use schemas::OnTimeout;

use super::raw::Raw;
use super::value::SettingValue;

/// Declares an enum whose variants are written as the given words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$meaning])* $variant,)+
        }

        impl $name {
            /// The word in settings files.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl SettingValue for $name {
            type Limits = ();

            fn read(raw: &Raw, (): &()) -> Option<Self> {
                match raw.text()? {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn accepted((): &()) -> String {
                [$(concat!("`", $word, "`")),+].join(", ")
            }

            fn show(&self) -> String {
                self.word().to_owned()
            }
        }
    };
}

words! {
    /// What to answer when a drain is not possible or has nowhere to go.
    WithoutDrain {
        /// Let the operation go on (EVE's behaviour).
        Complete = "complete",
        /// Hold the operation until a drain is possible. The safe word: also taken for a bad value.
        #[default]
        Wait = "wait",
    }
}

words! {
    /// What an agent does when zedkube stays away.
    WithoutZedkube {
        /// Go on without a drain.
        Proceed = "proceed",
        /// Go on waiting. The safe word: also taken for a bad value.
        #[default]
        Wait = "wait",
    }
}

impl From<WithoutZedkube> for OnTimeout {
    fn from(without: WithoutZedkube) -> Self {
        match without {
            WithoutZedkube::Proceed => Self::Proceed,
            WithoutZedkube::Wait => Self::Wait,
        }
    }
}

words! {
    /// Whether this device counts as a member of a cluster when EVE does not say so.
    ClusterMode {
        /// Ask the API server.
        #[default]
        Auto = "auto",
        /// Always a member.
        Always = "always",
        /// Never a member.
        Never = "never",
    }
}

words! {
    /// Longhorn's setting `node-drain-policy`, with Longhorn's own words (EVE accepts the same five).
    LonghornDrainPolicy {
        /// Rebuild the last replica elsewhere, then let go.
        #[default]
        BlockForEvictionIfContainsLastReplica = "block-for-eviction-if-contains-last-replica",
        /// Rebuild every replica elsewhere, then let go.
        BlockForEviction = "block-for-eviction",
        /// Hold on to the last replica.
        BlockIfContainsLastReplica = "block-if-contains-last-replica",
        /// Let go when the last replica is stopped.
        AllowIfReplicaIsStopped = "allow-if-replica-is-stopped",
        /// Never hold on.
        AlwaysAllow = "always-allow",
    }
}

words! {
    /// What a rule does with the pods that it selects.
    Behaviour {
        /// They leave, as all others do.
        #[default]
        Drain = "drain",
        /// They stay, and nobody waits for them.
        Skip = "skip",
        /// They end by themselves, and are waited for.
        WaitCompleted = "wait-completed",
    }
}

words! {
    /// In which order pods with volumes leave.
    StatefulOrder {
        /// Highest priority first (MCM).
        #[default]
        HighestFirst = "highest-first",
        /// Lowest priority first.
        LowestFirst = "lowest-first",
    }
}

words! {
    /// What a volume that stays attached means at the end of an attempt.
    DetachTimeout {
        /// The attempt has failed.
        #[default]
        Fail = "fail",
        /// It is reported, and the drain completes.
        Proceed = "proceed",
    }
}

words! {
    /// Whether pods are deleted with grace 0 when this node has been unhealthy for over 5 minutes.
    UnhealthyNode {
        /// Never.
        #[default]
        Off = "off",
        /// Yes.
        Force = "force",
    }
}
