//! May the device go down now? device-op and baseos share this one answer.
//!
//! [`gate`] is a table; the first row that matches counts. The function is pure: the caller reads files and clocks.
//! Every match lists all statuses, so no status is let through by oversight.
//!
//! COMPLETE opens the gate only while zedkube runs and makes progress, because nobody else takes it back when pods come
//! to the node again: once zedkube died after its answer, somebody uncordoned the node, and the device rebooted with
//! its pods, as drained. A zedkube that does not run, or hangs, is waited for by one clock (`drain.start.timeout`),
//! which leaves out suspend and goes on when the agent that waits is restarted. Then the device goes NOT DRAINED: a
//! zedkube that hung once held a device for ever.
//!
//! FAILED, an operator's order, "no cluster" and EVE's zedkube (which shows no sign of life) do not need a zedkube that
//! runs. A zedkube that begins, or has stood still, shows our agents an earlier COMPLETE of a drain only after a fresh
//! list has confirmed it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{DrainRequester, DrainStatus, GoTime, Member, NodeDrainReport, NodeDrainStatus, Outcome};

/// Choice for the case that zedkube has been away, or has hung, for `drain.start.timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTimeout {
    /// The device goes down undrained (the default).
    Proceed,
    /// The agent waits for zedkube.
    Wait,
}

/// These words are in every release of a device that was not drained: in the log, the status and the reboot reason.
pub const NOT_DRAINED: &str = "NOT DRAINED";

/// The state of zedkube as another agent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZedkubeSeen {
    /// Our zedkube runs: its lock is held, or its process lives.
    Running,
    /// Our zedkube runs, but its main loop makes no progress.
    Hung {
        /// Time without progress, in milliseconds.
        silent_ms: u64,
    },
    /// zedkube's topics are served, but no lock is held and no process of ours is known: this is EVE's zedkube, or ours
    /// whose files were removed.
    Served,
    /// zedkube does not run: its lock and its socket are free, and its process is gone.
    Away,
}

impl ZedkubeSeen {
    /// True if our zedkube runs, whether or not its loop makes progress.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Running | Self::Hung { .. })
    }

    /// True if a zedkube, ours or EVE's, is there to take back an answer.
    pub const fn is_working(self) -> bool {
        matches!(self, Self::Running | Self::Served)
    }
}

/// All facts that the verdict depends on, read as late as possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateFacts {
    /// The requester for whom this agent asks.
    pub requester: DrainRequester,
    /// Membership as zedkube's report says; `None` without a report.
    pub member: Option<Member>,
    /// zedkube's report says that an operator switched drains off.
    pub disabled: bool,
    /// Time of the request in our file, read as zedkube reads it.
    pub own_request: Option<GoTime>,
    /// Time of the request that we recorded as published.
    pub ours: Option<GoTime>,
    /// The report's answer to our request; `None` if the report does not list it.
    pub answer: Option<DrainStatus>,
    /// Outcome of the drain behind that answer; `None` if the report does not say.
    pub outcome: Option<Outcome>,
    /// An operator lets this one request pass: [`crate::PassGate::covers`].
    pub is_passed: bool,
    /// State of zedkube.
    pub zedkube: ZedkubeSeen,
    /// Status that zedkube publishes; [`DrainStatus::Unknown`] if its file cannot be read.
    pub status: Option<NodeDrainStatus>,
    /// There is a report of our zedkube, perhaps an unreadable one.
    pub report_present: bool,
    /// Since we published the request, a status other than the present one was seen. `None` if that is not known, for
    /// example after a restart. Used only beside EVE's zedkube.
    pub seen_other_status_since_publish: Option<bool>,
    /// `Valid` of an initialised `EdgeNodeClusterConfig`; `None` without one. Used only beside EVE's zedkube.
    pub cluster_config_valid: Option<bool>,
    /// Time for which zedkube has been away or has hung, in milliseconds, not counting suspend: [`Absence::observe`].
    pub absent_ms: u64,
    /// `drain.start.timeout` in milliseconds.
    pub start_timeout_ms: u64,
    /// `drain.start.on-timeout`.
    pub on_timeout: OnTimeout,
}

/// Rows of the gate's table, in order. The numbers are those of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// 1: the device is in no cluster, or drains are switched off.
    NotNeeded,
    /// 2: our request is not in its file.
    NoRequest,
    /// 3: our request is answered.
    Answered,
    /// An operator lets our request pass.
    Passed,
    /// 6: EVE's zedkube runs.
    Eve,
    /// 4: zedkube is away.
    Away,
    /// Our zedkube hangs.
    Hung,
    /// 5: our zedkube works on the request.
    AtWork,
}

/// Next action of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The device may go down.
    Proceed(ProceedReason),
    /// Publish the request with a new time, then wait.
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
    /// zedkube answered our request: the node may go down. Contains how the drain ended, if the report says so.
    Answered(Option<Outcome>),
    /// An operator lets our request pass although zedkube does not run or hangs.
    Passed,
    /// zedkube was away for too long.
    ZedkubeAway,
    /// zedkube hung for too long.
    ZedkubeHung,
    /// EVE's zedkube answered COMPLETE to us.
    EveComplete,
    /// EVE's zedkube answered NOTSUPPORTED, and there is no cluster.
    EveNotSupported,
}

impl ProceedReason {
    /// True if the device goes down without a drain that was needed. The reason's text then begins with
    /// [`NOT_DRAINED`].
    pub const fn is_undrained(self) -> bool {
        match self {
            Self::ZedkubeAway | Self::ZedkubeHung | Self::Disabled | Self::Passed => true,
            Self::Answered(Some(outcome)) => !is_nothing_left(outcome),
            Self::NotAMember | Self::Answered(None) | Self::EveComplete | Self::EveNotSupported => false,
        }
    }

    pub(crate) const fn words(self) -> &'static str {
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
            Self::Passed => "an operator let it pass without zedkube",
            Self::ZedkubeAway => "zedkube did not run for drain.start.timeout",
            Self::ZedkubeHung => "zedkube hung for drain.start.timeout",
            Self::EveComplete => "the drain is complete",
            Self::EveNotSupported => "zedkube does not drain this device and there is no cluster",
        }
    }
}

/// True if a drain with this outcome left no pod behind that had to leave.
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
            | Self::ZedkubeHung
            | Self::EveComplete
            | Self::EveNotSupported => Ok(()),
        }
    }
}

/// Why the device has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferReason {
    /// zedkube has accepted the request, or will; contains zedkube's status.
    Draining(Option<DrainStatus>),
    /// zedkube is starting: it runs but has published no report.
    Starting,
    /// zedkube is away.
    Away {
        /// Time that zedkube has been away, in milliseconds.
        absent_ms: u64,
        /// When the device goes down undrained, in milliseconds away; `None` if the agent waits without limit.
        limit_ms: Option<u64>,
    },
    /// zedkube runs and hangs.
    Hung {
        /// Time since its main loop last made progress, in milliseconds.
        silent_ms: u64,
        /// Time for which the agent has waited for it, in milliseconds.
        absent_ms: u64,
        /// When the device goes down undrained, in milliseconds of that wait; `None` if the agent waits without limit.
        limit_ms: Option<u64>,
    },
    /// EVE's zedkube works on another request and would lose ours (D21).
    EveBusy(DrainStatus),
    /// EVE's zedkube still shows its answer to another requester or to an earlier request.
    EveStale(DrainStatus),
    /// EVE's zedkube says NOTSUPPORTED, but there is a cluster, or it is not known whether there is one.
    EveClusterUnclear,
}

impl fmt::Display for DeferReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining(Some(status)) => write!(formatter, "the drain is not finished: {status}"),
            Self::Draining(None) => formatter.write_str("the drain is not finished"),
            Self::Starting => formatter.write_str("zedkube is starting"),
            Self::Away { absent_ms, limit_ms } => {
                formatter.write_str("zedkube does not run")?;
                write_wait(formatter, *absent_ms, *limit_ms)
            }
            Self::Hung { silent_ms, absent_ms, limit_ms } => {
                write!(formatter, "zedkube hangs: its touch file is {} old", age(*silent_ms))?;
                write_wait(formatter, *absent_ms, *limit_ms)
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

/// How long the agent has waited, and for how long it will.
fn write_wait(formatter: &mut fmt::Formatter<'_>, absent_ms: u64, limit_ms: Option<u64>) -> fmt::Result {
    match limit_ms {
        Some(limit) => write!(formatter, " ({} s of {} s)", absent_ms / 1000, limit / 1000),
        None => write!(formatter, " ({} s); drain.start.on-timeout = wait", absent_ms / 1000),
    }
}

/// A duration for people, from milliseconds: `98 s`, `12 min`, `3 h`.
pub fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// The verdict of the first row that matches.
pub fn gate(facts: &GateFacts) -> Verdict {
    match facts.row() {
        Row::NotNeeded if facts.disabled => Verdict::Proceed(ProceedReason::Disabled),
        Row::NotNeeded => Verdict::Proceed(ProceedReason::NotAMember),
        Row::NoRequest => facts.without_request(),
        Row::Answered => facts.answered(),
        Row::Passed => Verdict::Proceed(ProceedReason::Passed),
        Row::Eve => facts.beside_eve(),
        Row::Away | Row::Hung => facts.without_zedkube(),
        Row::AtWork => facts.at_work(),
    }
}

impl GateFacts {
    /// The row that decides. [`Absence::observe`] needs to know whether it is [`Row::Away`] or [`Row::Hung`].
    pub fn row(&self) -> Row {
        if self.disabled || self.member == Some(Member::No) {
            Row::NotNeeded
        } else if !self.request_stands() {
            Row::NoRequest
        } else if self.answer.is_some_and(is_final) && self.is_answer_kept() {
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

    /// True if the file holds the same request that we published.
    fn request_stands(&self) -> bool {
        self.ours.is_some() && self.own_request == self.ours
    }

    /// True if the answer needs nobody who takes it back when pods come to the node again, or if zedkube is there to do
    /// so. A drain that failed stays failed, and what an operator has ordered needs no drain.
    fn is_answer_kept(&self) -> bool {
        let needs_zedkube =
            self.answer == Some(DrainStatus::Complete) && self.outcome != Some(Outcome::Forced);
        !needs_zedkube || self.zedkube.is_working()
    }

    /// True if EVE's zedkube runs: only EVE's publishes a status without a report and without our lock.
    fn is_eve(&self) -> bool {
        !self.zedkube.is_ours() && !self.report_present && self.status.is_some()
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

    /// The verdict while zedkube is away or hangs.
    fn without_zedkube(&self) -> Verdict {
        let absent_ms = self.absent_ms;
        let limit_ms = match self.on_timeout {
            OnTimeout::Wait => None,
            OnTimeout::Proceed => Some(self.start_timeout_ms),
        };
        let is_over = limit_ms.is_some_and(|limit_ms| limit_ms <= absent_ms);
        let (proceed, defer) = if let ZedkubeSeen::Hung { silent_ms } = self.zedkube {
            (ProceedReason::ZedkubeHung, DeferReason::Hung { silent_ms, absent_ms, limit_ms })
        } else {
            (ProceedReason::ZedkubeAway, DeferReason::Away { absent_ms, limit_ms })
        };
        if is_over { Verdict::Proceed(proceed) } else { Verdict::Defer(defer) }
    }

    /// The verdict while our zedkube works. Without a report zedkube has only just started, and the published status is
    /// an old one.
    fn at_work(&self) -> Verdict {
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

    /// EVE's answer counts only if it names us and came after our request.
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

/// True if the answer ends a request.
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

/// Sums up how long zedkube has been away, or has hung, while an agent waited for it.
///
/// Short absences add up, so that a zedkube that crashes in a loop does not hold the device for ever. When the report
/// changes, zedkube has worked, and the sum starts again at 0.
#[derive(Debug, Clone, Default)]
pub struct Absence {
    summed_ms: u64,
    away_since_ms: Option<u64>,
    report: Option<NodeDrainReport>,
}

impl Absence {
    /// The sum of an agent that was restarted while it waited: zedkube has been away for `summed_ms`, and had published
    /// this report before.
    pub fn resumed(summed_ms: u64, report: Option<&NodeDrainReport>) -> Self {
        Self { summed_ms, away_since_ms: None, report: report.cloned() }
    }

    /// Adds one observation at `now_ms` and returns how long zedkube has been away so far, in milliseconds. The clock
    /// must stop during suspend (`CLOCK_MONOTONIC`).
    ///
    /// `away` is true if [`GateFacts::row`] is [`Row::Away`] or [`Row::Hung`]. The time between two calls counts only if zedkube was
    /// away at both, so call this at each change and at least every few seconds.
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
