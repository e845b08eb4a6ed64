//! May the device go down now? The one answer that device-op and baseos share.
//!
//! [`gate`] is the table of the specification, row by row; the first row that matches counts. It is pure: the
//! caller reads files and clocks. A status that nobody thought of cannot fall through, every match is complete.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, GoTime, Member, NodeDrainReport, NodeDrainStatus, Outcome};

/// What to do when zedkube has been away for `drain.start.timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// Go down undrained (the setting's default).
    Proceed,
    /// Wait for zedkube.
    Wait,
}

/// The word of every release of a device that was not drained: in the log, the status and the reboot reason.
pub const NOT_DRAINED: &str = "NOT DRAINED";

/// What is seen of zedkube.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZedkubeSeen {
    /// Ours runs: its lock is held, or its process lives.
    Running,
    /// Ours runs, and its loop has made no progress for so long, in milliseconds: at least `drain.start.timeout`.
    Hung {
        /// So long, in milliseconds.
        silent_ms: u64,
    },
    /// Its topics are served, but no lock is held and no process of ours is known: EVE's zedkube, or ours whose files
    /// were removed.
    Served,
    /// It does not run: lock and socket are free, and its process is gone.
    Away,
}

/// All that the verdict depends on, read as freshly as possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateFacts {
    /// Whom this agent asks for.
    pub requester: DrainRequester,
    /// Membership in the report; nothing without a report.
    pub member: Option<Member>,
    /// The report says that an operator switched drains off.
    pub disabled: bool,
    /// Time of the request that our file holds, read as zedkube reads it.
    pub own_request: Option<GoTime>,
    /// Time of the request that we recorded as published.
    pub ours: Option<GoTime>,
    /// The report's answer to our request; nothing when the report does not list it.
    pub answer: Option<DrainStatus>,
    /// How the drain ended that the answer is about; nothing when the report does not say.
    pub outcome: Option<Outcome>,
    /// An operator lets this very request pass: [`crate::PassGate::covers`].
    pub is_passed: bool,
    /// Whether zedkube runs.
    pub zedkube: ZedkubeSeen,
    /// What zedkube publishes; [`DrainStatus::Unknown`] for a file that cannot be read.
    pub status: Option<NodeDrainStatus>,
    /// There is a report of ours, perhaps one that cannot be read.
    pub report_present: bool,
    /// Since we published, a status other than the present one was seen. Nothing when that is not known, as after
    /// a restart that lost it. Only looked at beside EVE's zedkube.
    pub seen_other_status_since_publish: Option<bool>,
    /// `Valid` of an initialised `EdgeNodeClusterConfig`; nothing without one. Only looked at beside EVE's zedkube.
    pub cluster_config_valid: Option<bool>,
    /// How long zedkube has been away while the machine was awake, in milliseconds: [`Absence::observe`].
    pub absent_ms: u64,
    /// `drain.start.timeout` in milliseconds.
    pub start_timeout_ms: u64,
    /// `drain.start.on-timeout`.
    pub on_timeout: OnTimeout,
}

/// The rows of the table, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// 1: not a member, or switched off.
    NotNeeded,
    /// 2: our request does not stand.
    NoRequest,
    /// 3: our request is answered.
    Answered,
    /// An operator lets our request pass.
    Passed,
    /// 6: EVE's zedkube.
    Eve,
    /// 4: zedkube is away.
    Away,
    /// zedkube of ours hangs.
    Hung,
    /// 5: zedkube of ours is at work.
    AtWork,
}

/// What the agent has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The device may go down.
    Proceed(ProceedReason),
    /// Publish the request with a new time, and wait.
    Publish,
    /// Wait.
    Defer(DeferReason),
    /// The drain failed: withdraw the request.
    Failed(DrainStatus),
}

/// Why the device may go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProceedReason {
    /// This device is in no cluster.
    NotAMember,
    /// An operator switched drains off.
    Disabled,
    /// Our request is answered: the node may go down. So the drain ended, if the report says how.
    Answered(Option<Outcome>),
    /// An operator lets our request pass beside a zedkube that hangs.
    Passed,
    /// zedkube was away too long.
    ZedkubeAway,
    /// EVE's zedkube says complete, to us.
    EveComplete,
    /// EVE's zedkube says not supported, and there is no cluster.
    EveNotSupported,
}

impl ProceedReason {
    /// The device goes down without a drain that was needed. Its words begin with [`NOT_DRAINED`].
    pub const fn is_undrained(self) -> bool {
        match self {
            Self::ZedkubeAway | Self::Disabled | Self::Passed => true,
            Self::Answered(Some(outcome)) => !is_nothing_left(outcome),
            Self::NotAMember | Self::Answered(None) | Self::EveComplete | Self::EveNotSupported => false,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::NotAMember => "this device is in no cluster",
            Self::Disabled => "an operator switched drains off",
            Self::Answered(None | Some(Outcome::Drained)) => {
                "zedkube answered the request: the node may go down"
            }
            Self::Answered(Some(Outcome::NodeGone)) => "the node is not in the cluster any more",
            Self::Answered(Some(Outcome::ApiUnreachable)) => {
                "the Kubernetes API server could not be reached for too long"
            }
            Self::Answered(Some(Outcome::NoSchedulablePeer)) => {
                "no other node could take the pods for too long"
            }
            Self::Answered(Some(Outcome::Forced)) => "an operator forced it",
            Self::Answered(Some(Outcome::CordonFailed | Outcome::DrainFailed | Outcome::Cancelled)) => {
                "zedkube answered the request, but its drain did not end well"
            }
            Self::Passed => "an operator let it pass beside a zedkube that hangs",
            Self::ZedkubeAway => "zedkube did not run for drain.start.timeout",
            Self::EveComplete => "the drain is complete",
            Self::EveNotSupported => "zedkube does not drain this device and there is no cluster",
        }
    }
}

/// A drain that ended so left no pod behind that had to move.
const fn is_nothing_left(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Drained | Outcome::NodeGone => true,
        Outcome::ApiUnreachable
        | Outcome::NoSchedulablePeer
        | Outcome::Forced
        | Outcome::CordonFailed
        | Outcome::DrainFailed
        | Outcome::Cancelled => false,
    }
}

impl fmt::Display for ProceedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_undrained() {
            write!(formatter, "{NOT_DRAINED}: ")?;
        }
        formatter.write_str(self.words())?;
        match self {
            Self::Answered(Some(outcome)) => write!(formatter, " ({outcome:?})"),
            Self::NotAMember
            | Self::Disabled
            | Self::Answered(None)
            | Self::Passed
            | Self::ZedkubeAway
            | Self::EveComplete
            | Self::EveNotSupported => Ok(()),
        }
    }
}

/// Why the device has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferReason {
    /// zedkube has accepted the request, or will; this is its status.
    Draining(Option<DrainStatus>),
    /// zedkube is starting: it runs but has published no report.
    Starting,
    /// zedkube is away; milliseconds so far, and the limit unless it is to be waited for without one.
    Away {
        /// So far.
        absent_ms: u64,
        /// When the device goes down undrained.
        limit_ms: Option<u64>,
    },
    /// zedkube runs and hangs; milliseconds since its loop last made progress. No time-out ends this.
    Hung {
        /// So long, in milliseconds.
        silent_ms: u64,
    },
    /// EVE's zedkube is busy with another request and would lose ours (D21).
    EveBusy(DrainStatus),
    /// EVE's zedkube still shows the answer to somebody else, or to an earlier request.
    EveStale(DrainStatus),
    /// EVE's zedkube says not supported, but there is a cluster or nobody knows.
    EveClusterUnclear,
}

impl fmt::Display for DeferReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining(Some(status)) => write!(formatter, "the drain is not finished: {status}"),
            Self::Draining(None) => formatter.write_str("the drain is not finished"),
            Self::Starting => formatter.write_str("zedkube is starting"),
            Self::Away { absent_ms, limit_ms: Some(limit) } => {
                write!(formatter, "zedkube does not run ({} s of {} s)", absent_ms / 1000, limit / 1000)
            }
            Self::Away { absent_ms, limit_ms: None } => {
                write!(
                    formatter,
                    "zedkube does not run ({} s); drain.start.on-timeout = wait",
                    absent_ms / 1000
                )
            }
            Self::Hung { silent_ms } => {
                write!(formatter, "zedkube hangs: its touch file is {} old", age(*silent_ms))
            }
            Self::EveBusy(status) => write!(formatter, "zedkube drains for another request: {status}"),
            Self::EveStale(status) => {
                write!(formatter, "zedkube shows the answer to another request: {status}")
            }
            Self::EveClusterUnclear => formatter.write_str(
                "zedkube says Not Supported, but no cluster configuration says that there is none",
            ),
        }
    }
}

/// `98 s`, `12 min`, `3 h`: how long something has stood still, from milliseconds.
pub fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// The verdict of the first matching row.
pub fn gate(facts: &GateFacts) -> Verdict {
    match facts.row() {
        Row::NotNeeded if facts.disabled => Verdict::Proceed(ProceedReason::Disabled),
        Row::NotNeeded => Verdict::Proceed(ProceedReason::NotAMember),
        Row::NoRequest => facts.without_request(),
        Row::Answered => facts.answered(),
        Row::Passed => Verdict::Proceed(ProceedReason::Passed),
        Row::Eve => facts.beside_eve(),
        Row::Away => facts.away(),
        Row::Hung | Row::AtWork => facts.at_work(),
    }
}

impl GateFacts {
    /// Which row decides. [`Absence::observe`] wants to know whether it is [`Row::Away`].
    pub fn row(&self) -> Row {
        if self.disabled || self.member == Some(Member::No) {
            Row::NotNeeded
        } else if !self.request_stands() {
            Row::NoRequest
        } else if self.answer.is_some_and(is_final) {
            Row::Answered
        } else if self.is_passed {
            Row::Passed
        } else if self.is_eve() {
            Row::Eve
        } else {
            match self.zedkube {
                ZedkubeSeen::Away => Row::Away,
                ZedkubeSeen::Hung { .. } => Row::Hung,
                ZedkubeSeen::Running | ZedkubeSeen::Served => Row::AtWork,
            }
        }
    }

    /// The file holds the very request that we made.
    fn request_stands(&self) -> bool {
        self.ours.is_some() && self.own_request == self.ours
    }

    /// Only EVE's zedkube publishes a status without a report and without our lock.
    fn is_eve(&self) -> bool {
        let is_ours = match self.zedkube {
            ZedkubeSeen::Running | ZedkubeSeen::Hung { .. } => true,
            ZedkubeSeen::Served | ZedkubeSeen::Away => false,
        };
        !is_ours && !self.report_present && self.status.is_some()
    }

    fn shown(&self) -> DrainStatus {
        self.status.map_or(DrainStatus::Unknown, |status| status.status)
    }

    fn without_request(&self) -> Verdict {
        let status = self.shown();
        if self.is_eve() && status.is_in_progress() {
            return Verdict::Defer(DeferReason::EveBusy(status));
        }
        Verdict::Publish
    }

    fn answered(&self) -> Verdict {
        match self.answer {
            Some(DrainStatus::Complete) => Verdict::Proceed(ProceedReason::Answered(self.outcome)),
            Some(failed @ (DrainStatus::FailedCordon | DrainStatus::FailedDrain)) => Verdict::Failed(failed),
            Some(
                DrainStatus::Unknown
                | DrainStatus::NotSupported
                | DrainStatus::NotRequested
                | DrainStatus::Requested
                | DrainStatus::Starting
                | DrainStatus::Cordoned
                | DrainStatus::DrainRetrying,
            )
            | None => self.at_work(),
        }
    }

    fn away(&self) -> Verdict {
        let (absent_ms, limit_ms) = (self.absent_ms, self.start_timeout_ms);
        match self.on_timeout {
            OnTimeout::Wait => Verdict::Defer(DeferReason::Away { absent_ms, limit_ms: None }),
            OnTimeout::Proceed if absent_ms < limit_ms => {
                Verdict::Defer(DeferReason::Away { absent_ms, limit_ms: Some(limit_ms) })
            }
            OnTimeout::Proceed => Verdict::Proceed(ProceedReason::ZedkubeAway),
        }
    }

    /// Ours runs. Without a report it has only just started: whatever status is there is not its own. One that hangs is
    /// waited for, however long: it may hold the node cordoned and half drained.
    fn at_work(&self) -> Verdict {
        if let ZedkubeSeen::Hung { silent_ms } = self.zedkube {
            return Verdict::Defer(DeferReason::Hung { silent_ms });
        }
        if self.report_present {
            return Verdict::Defer(DeferReason::Draining(self.status.map(|status| status.status)));
        }
        Verdict::Defer(DeferReason::Starting)
    }

    fn beside_eve(&self) -> Verdict {
        let status = self.shown();
        match status {
            DrainStatus::Unknown
            | DrainStatus::NotRequested
            | DrainStatus::Requested
            | DrainStatus::Starting
            | DrainStatus::Cordoned
            | DrainStatus::DrainRetrying => Verdict::Defer(DeferReason::Draining(Some(status))),
            DrainStatus::Complete => self.eve_answered(Verdict::Proceed(ProceedReason::EveComplete)),
            DrainStatus::FailedCordon | DrainStatus::FailedDrain => {
                self.eve_answered(Verdict::Failed(status))
            }
            DrainStatus::NotSupported if self.cluster_config_valid == Some(false) => {
                Verdict::Proceed(ProceedReason::EveNotSupported)
            }
            DrainStatus::NotSupported => Verdict::Defer(DeferReason::EveClusterUnclear),
        }
    }

    /// EVE's answer counts only when it names us and came after our request.
    fn eve_answered(&self, verdict: Verdict) -> Verdict {
        let stale = Verdict::Defer(DeferReason::EveStale(self.shown()));
        if self.status.is_none_or(|status| status.requested_by != self.requester) {
            return stale;
        }
        match self.seen_other_status_since_publish {
            Some(true) => verdict,
            Some(false) => stale,
            None => Verdict::Publish,
        }
    }
}

/// Answers that end a request.
const fn is_final(answer: DrainStatus) -> bool {
    match answer {
        DrainStatus::FailedCordon | DrainStatus::FailedDrain | DrainStatus::Complete => true,
        DrainStatus::Unknown
        | DrainStatus::NotSupported
        | DrainStatus::NotRequested
        | DrainStatus::Requested
        | DrainStatus::Starting
        | DrainStatus::Cordoned
        | DrainStatus::DrainRetrying => false,
    }
}

/// Sums how long zedkube has been away while we waited for it.
///
/// Short absences add up, so that a zedkube that crashes in a loop does not hold the device for ever; a report
/// that changes is a sign of work and starts the sum anew.
#[derive(Debug, Clone, Default)]
pub struct Absence {
    summed_ms: u64,
    away_since_ms: Option<u64>,
    report: Option<NodeDrainReport>,
}

impl Absence {
    /// Notes what is seen at `now_ms`, of a clock that stands still while the machine is suspended (`CLOCK_MONOTONIC`), and
    /// gives the milliseconds away so far.
    ///
    /// `away` = [`GateFacts::row`] is [`Row::Away`]. Time counts from one look to the next only if zedkube was
    /// away at both, so look at each change and at least every few seconds.
    pub fn observe(&mut self, now_ms: u64, away: bool, report: Option<&NodeDrainReport>) -> u64 {
        if self.report.as_ref() != report {
            *self = Self { report: report.cloned(), ..Self::default() };
        }
        if let Some(since) = self.away_since_ms
            && away
        {
            self.summed_ms = self.summed_ms.saturating_add(now_ms.saturating_sub(since));
        }
        self.away_since_ms = away.then_some(now_ms);
        self.summed_ms
    }
}

#[cfg(test)]
mod tests;
