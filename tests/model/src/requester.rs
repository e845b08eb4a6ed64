//! One agent's way to ask for a drain: what `runtime::Requester` does with files, done with the model's.
//!
//! The verdict is the real `schemas::gate`'s. Which facts it gets, and which request counts as our own, is told here
//! again, because `runtime::Requester` reads real files and the real clock.

use jiff::{SignedDuration, Timestamp};
use runtime::OwnRequest;
use schemas::{
    Absence, DrainRequester, GateFacts, GoTime, NodeDrainRequest, OnTimeout, Row, Verdict, ZedkubeSeen,
    agent, gate,
};

use crate::files::RunFiles;
use crate::scenario::{Mutation, Scenario};

/// The first request's second.
const FIRST_SECOND: i64 = 1_800_000_000;

/// One agent's requests.
#[derive(Clone, Debug)]
pub struct Requester {
    /// Whom it asks for.
    pub asks_for: DrainRequester,
    /// The request made last and not taken back.
    pub own: Option<OwnRequest>,
    absence: Absence,
}

impl PartialEq for Requester {
    /// The absence tells by its words alone whether it is the same.
    fn eq(&self, other: &Self) -> bool {
        (self.asks_for, self.own) == (other.asks_for, other.own)
            && format!("{:?}", self.absence) == format!("{:?}", other.absence)
    }
}

impl Requester {
    /// `recorded` is what the agent's record holds.
    pub fn open(asks_for: DrainRequester, recorded: Option<OwnRequest>) -> Self {
        Self { asks_for, own: recorded, absence: Absence::default() }
    }

    /// May the device go down?
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

    /// After a failed drain the next try need not wait.
    pub fn needs_no_pause(&self, files: &RunFiles) -> bool {
        let Some(report) = files.report.as_deref() else { return false };
        let forced = report.forcing.as_ref().map(|forcing| forcing.requested_by);
        let is_forced = forced.is_some_and(|by| by == self.asks_for || by == DrainRequester::None);
        report.disabled.is_some() || report.member == schemas::Member::No || is_forced
    }

    /// Our file, as zedkube reads it.
    pub fn standing<'a>(&self, files: &'a RunFiles) -> Option<&'a NodeDrainRequest> {
        files.requests.get(&self.asks_for)
    }

    /// A request that could be made now.
    pub fn next(&self, files: &RunFiles, number: i64) -> OwnRequest {
        let standing = self.standing(files).map(|request| request.requested_at);
        let replaces = standing.filter(|time| self.has_made(*time)).unwrap_or_default();
        OwnRequest { requested_at: time(number), replaces, seen_other_status: false }
    }

    /// A request is made: whoever waited for zedkube before waited for something else.
    pub fn publish(&mut self, own: OwnRequest, scenario: &Scenario) {
        self.own = Some(own);
        if scenario.mutation != Some(Mutation::AbsenceGoesOn) {
            self.absence = Absence::default();
        }
    }

    /// The item is ours, and is removed; an item that is not stays.
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

/// The agent in whose folder the requests of a requester lie.
pub(crate) const fn publisher(requester: DrainRequester) -> &'static str {
    match requester {
        DrainRequester::DeviceOp => agent::ZEDAGENT,
        DrainRequester::Update => agent::BASEOSMGR,
        DrainRequester::None | DrainRequester::Unset => agent::EBB,
    }
}

/// The time of the request with this number: no two are the same.
fn time(number: i64) -> GoTime {
    let first = Timestamp::from_second(FIRST_SECOND).unwrap_or(Timestamp::UNIX_EPOCH);
    first.saturating_add(SignedDuration::from_secs(number)).map_or(GoTime::ZERO, GoTime::from)
}
