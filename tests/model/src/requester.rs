//! How an agent asks for a drain: as `runtime::Requester` does it, but with the files of the model.
//!
//! The verdict is that of the real `schemas::gate`. Its facts, and the rule which request is our own, are modelled
//! here, because `runtime::Requester` reads real files and the real clock.

use jiff::{SignedDuration, Timestamp};
use runtime::OwnRequest;
use schemas::{
    Absence, DrainRequester, GateFacts, GoTime, NodeDrainRequest, OnTimeout, Row, Verdict, ZedkubeSeen,
    agent, gate,
};

use crate::files::RunFiles;
use crate::scenario::{Mutation, Scenario};

/// The second of the first request's time.
const FIRST_SECOND: i64 = 1_800_000_000;

/// The requests of one agent.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The requester for whom the agent asks.
    pub asks_for: DrainRequester,
    /// The request that was made last and not withdrawn.
    pub own: Option<OwnRequest>,
    absence: Absence,
}

impl PartialEq for Requester {
    /// Two requesters are equal if their fields are; the absence is compared by its `Debug` text.
    fn eq(&self, other: &Self) -> bool {
        (self.asks_for, self.own) == (other.asks_for, other.own)
            && format!("{:?}", self.absence) == format!("{:?}", other.absence)
    }
}

impl Requester {
    /// A requester; `recorded` is the request in the agent's record.
    pub fn open(asks_for: DrainRequester, recorded: Option<OwnRequest>) -> Self {
        Self { asks_for, own: recorded, absence: Absence::default() }
    }

    /// The gate's verdict: may the device go down?
    pub fn verdict(
        &mut self,
        files: &RunFiles,
        is_zedkube_away: bool,
        now_ms: u64,
        scenario: &Scenario,
    ) -> Verdict {
        let mut facts = self.facts(files, is_zedkube_away, scenario);
        let is_away = facts.row() == Row::Away;
        facts.absent_ms = self.absence.observe(now_ms, is_away, files.report.as_deref());
        gate(&facts)
    }

    fn facts(&self, files: &RunFiles, is_zedkube_away: bool, scenario: &Scenario) -> GateFacts {
        let report = files.report.as_deref();
        let ours = self.own.map(|own| own.requested_at);
        let line = |time| report.and_then(|report| report.line_of(publisher(self.asks_for), time));
        let line = ours.and_then(line);
        let any_answer = || {
            let of_us = |line: &&schemas::RequestLine| line.publisher == publisher(self.asks_for);
            report.and_then(|report| report.requests.iter().find(of_us)).map(|line| line.answer)
        };
        let is_careless = scenario.mutation == Some(Mutation::AnswerToAnyRequest);
        GateFacts {
            requester: self.asks_for,
            member: report.map(|report| report.member),
            disabled: report.is_some_and(|report| report.disabled.is_some()),
            own_request: self.standing(files).map(|request| request.requested_at),
            ours,
            answer: if is_careless { any_answer() } else { line.map(|line| line.answer) },
            outcome: line.and_then(|line| line.outcome).or_else(|| report.and_then(|report| report.outcome)),
            is_passed: false,
            zedkube: if is_zedkube_away { ZedkubeSeen::Away } else { ZedkubeSeen::Running },
            status: files.status,
            report_present: report.is_some(),
            seen_other_status_since_publish: None,
            cluster_config_valid: None,
            absent_ms: 0,
            start_timeout_ms: scenario.limits.start_timeout_ms,
            on_timeout: OnTimeout::Proceed,
        }
    }

    /// True if the next try after a failed drain need not wait.
    pub fn needs_no_pause(&self, files: &RunFiles) -> bool {
        let Some(report) = files.report.as_deref() else { return false };
        let forced = report.forcing.as_ref().map(|forcing| forcing.requested_by);
        let is_forced = forced.is_some_and(|by| by == self.asks_for || by == DrainRequester::None);
        report.disabled.is_some() || report.member == schemas::Member::No || is_forced
    }

    /// Our request file, as zedkube reads it.
    pub fn standing<'a>(&self, files: &'a RunFiles) -> Option<&'a NodeDrainRequest> {
        files.requests.get(&self.asks_for)
    }

    /// The request that could be made next.
    pub fn next(&self, files: &RunFiles, number: i64) -> OwnRequest {
        let standing = self.standing(files).map(|request| request.requested_at);
        let replaces = standing.filter(|time| self.has_made(*time)).unwrap_or_default();
        OwnRequest { requested_at: time(number), replaces, seen_other_status: false }
    }

    /// Publishes a request. An absence of zedkube that was summed for an earlier request starts again at 0.
    pub fn publish(&mut self, own: OwnRequest, scenario: &Scenario) {
        self.own = Some(own);
        if scenario.mutation != Some(Mutation::AbsenceGoesOn) {
            self.absence = Absence::default();
        }
    }

    /// Removes our request file; a file that is not ours stays.
    pub fn withdraw(&mut self, files: &mut RunFiles) {
        if self.standing(files).is_some_and(|request| self.has_made(request.requested_at)) {
            files.requests.remove(&self.asks_for);
        }
        self.own = None;
    }

    fn has_made(&self, time: GoTime) -> bool {
        let is_known = |own: OwnRequest| [own.requested_at, own.replaces].contains(&time);
        !time.is_zero() && self.own.is_some_and(is_known)
    }
}

/// Folder of the agent that makes this requester's requests.
pub(crate) const fn publisher(requester: DrainRequester) -> &'static str {
    match requester {
        DrainRequester::DeviceOp => agent::ZEDAGENT,
        DrainRequester::Update => agent::BASEOSMGR,
        DrainRequester::None | DrainRequester::Unset => agent::EBB,
    }
}

/// The time of the request with this number; no two are equal.
fn time(number: i64) -> GoTime {
    let first = Timestamp::from_second(FIRST_SECOND).unwrap_or(Timestamp::UNIX_EPOCH);
    first.saturating_add(SignedDuration::from_secs(number)).map_or(GoTime::ZERO, GoTime::from)
}
