//! Why a device went down without a drain, found out from its reboot reason.

use crate::gate::{NOT_DRAINED, ProceedReason};
use crate::{NodeAgentStatus, Outcome};

/// The reboot reason if the boot before has left none.
pub const WENT_PAST_EBB: &str = "went down past ebb, without a drain: a power cut, a crash, `reboot -f`, or a shutdown that \
                                 ebb-hold.service did not hold";

/// The setting that limits how long ebb-hold keeps a shutdown back. Its name is in the reboot reason when that time is over.
pub const HOLD_TIMEOUT: &str = "hold.timeout";

/// Why a device went down without a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndrainedCause {
    /// Nobody left a reason: a power cut, a crash, `reboot -f`.
    PastEbb,
    /// An operator's order (`ebb force`).
    Forced,
    /// An operator has switched drains off.
    SwitchedOff,
    /// The API server did not answer for too long.
    ApiUnreachable,
    /// No other node could take the pods.
    NoSchedulablePeer,
    /// zedkube did not run, or hung, for too long.
    ZedkubeAway,
    /// The time of ebb-hold was over.
    HoldTimeout,
    /// Another reason, also one of somebody who does not wait for a drain, such as EVE's watchdog.
    Other,
}

impl UndrainedCause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::PastEbb,
        Self::Forced,
        Self::SwitchedOff,
        Self::ApiUnreachable,
        Self::NoSchedulablePeer,
        Self::ZedkubeAway,
        Self::HoldTimeout,
        Self::Other,
    ];

    /// One word, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PastEbb => "PastEbb",
            Self::Forced => "Forced",
            Self::SwitchedOff => "SwitchedOff",
            Self::ApiUnreachable => "ApiUnreachable",
            Self::NoSchedulablePeer => "NoSchedulablePeer",
            Self::ZedkubeAway => "ZedkubeAway",
            Self::HoldTimeout => "HoldTimeout",
            Self::Other => "Other",
        }
    }

    /// The cause in `RebootReason` of [`NodeAgentStatus`]; none if the device was drained, or if nothing had to be drained.
    pub fn of(reboot_reason: &str) -> Option<Self> {
        if reboot_reason.starts_with(WENT_PAST_EBB) {
            return Some(Self::PastEbb);
        }
        let Some((_, why)) = reboot_reason.split_once(NOT_DRAINED) else {
            // nodeagent and EVE begin with the first, ebb-hold with the name of a target. Nobody else waits for a drain.
            let is_by_ebb =
                reboot_reason.starts_with(NodeAgentStatus::NORMAL) || reboot_reason.contains(".target: ");
            return (!reboot_reason.is_empty() && !is_by_ebb).then_some(Self::Other);
        };
        let answered = |outcome| format!("({outcome:?})");
        let signs = [
            (answered(Outcome::Forced), Self::Forced),
            (answered(Outcome::ApiUnreachable), Self::ApiUnreachable),
            (answered(Outcome::NoSchedulablePeer), Self::NoSchedulablePeer),
            (ProceedReason::Passed.words().to_owned(), Self::Forced),
            (ProceedReason::Disabled.words().to_owned(), Self::SwitchedOff),
            ("drains are switched off".to_owned(), Self::SwitchedOff),
            (ProceedReason::ZedkubeAway.words().to_owned(), Self::ZedkubeAway),
            (ProceedReason::ZedkubeHung.words().to_owned(), Self::ZedkubeAway),
            ("zedkube does not run".to_owned(), Self::ZedkubeAway),
            (HOLD_TIMEOUT.to_owned(), Self::HoldTimeout),
        ];
        // What people write comes behind our own words.
        let found = signs.iter().filter_map(|(sign, cause)| Some((why.find(sign.as_str())?, *cause)));
        Some(found.min_by_key(|(at, _)| *at).map_or(Self::Other, |(_, cause)| cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reboot_reason_has_its_cause() {
        let by_ebb =
            |reason: ProceedReason| format!("NORMAL: reboot 3: {reason}; commanded by alice (hold.timeout)");
        let answered = |outcome| by_ebb(ProceedReason::Answered(Some(outcome)));
        for (reason, cause) in [
            (String::new(), None),
            ("the watchdog of EVE".to_owned(), Some(UndrainedCause::Other)),
            ("reboot.target: the node is drained".to_owned(), None),
            (by_ebb(ProceedReason::NotAMember), None),
            (answered(Outcome::Drained), None),
            (answered(Outcome::NodeGone), None),
            (answered(Outcome::Forced), Some(UndrainedCause::Forced)),
            (answered(Outcome::ApiUnreachable), Some(UndrainedCause::ApiUnreachable)),
            (answered(Outcome::NoSchedulablePeer), Some(UndrainedCause::NoSchedulablePeer)),
            (by_ebb(ProceedReason::Passed), Some(UndrainedCause::Forced)),
            (by_ebb(ProceedReason::Disabled), Some(UndrainedCause::SwitchedOff)),
            (by_ebb(ProceedReason::ZedkubeAway), Some(UndrainedCause::ZedkubeAway)),
            (by_ebb(ProceedReason::ZedkubeHung), Some(UndrainedCause::ZedkubeAway)),
            (WENT_PAST_EBB.to_owned(), Some(UndrainedCause::PastEbb)),
            (
                "reboot.target: NOT DRAINED: no drain can be asked for: x".to_owned(),
                Some(UndrainedCause::Other),
            ),
        ] {
            assert_eq!(UndrainedCause::of(&reason), cause, "{reason}");
        }
    }
}
