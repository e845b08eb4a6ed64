//! What the file of a drain says already: only what has changed since is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drain::Moment;
use drain::diagnosis::without_numbers;
use schemas::{
    DeviceActionState, DrainEvent, DrainLine, DrainRequester, DrainStatus, HeldBy, NodeDrainReport, Outcome,
    PodLine, RequestLine, SCHEMA_VERSION,
};
use text::one_line;

use super::Look;

/// Shortest time between two lines about the same phase in other words. Other numbers are no other words: how many pods have
/// left, the pods tell.
const OTHER_WORDS_OF_PHASE: Duration = Duration::from_secs(10);

/// Shortest time between two lines that say in other words why the same pod does not leave. The numbers of a budget may change
/// every second.
const OTHER_WORDS: Duration = Duration::from_mins(1);

/// Longest text of others in a line, in bytes.
const LONGEST_TEXT: usize = 1024;

/// Most holders of slots that a line names.
const MOST_HOLDERS: usize = 16;

/// Stage of a pod that has left.
const GONE: &str = "Gone";

/// Stage of a pod that does not have to leave any more.
const STAYS: &str = "Stays";

/// Stage of a volume that the drain does not wait for any more.
const DONE: &str = "Done";

/// What the lines say that were written so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    boot_id: String,
    /// When the drain was asked for; `None` after a boot, whose clock begins anew.
    began: Option<Moment>,
    /// The last outcome, and how long the drain took until then, in milliseconds.
    outcome: Option<(Outcome, Option<u64>)>,
    /// It was read from the file of an earlier process.
    is_resumed: bool,
    requests: BTreeMap<String, Request>,
    /// The last phase, its reason, and when that was written.
    phase: Option<(Core, String, Moment)>,
    attempt: u32,
    attempts_ended: u32,
    /// By UID.
    pods: BTreeMap<String, Pod>,
    /// Pod and stage, by the name of the volume.
    volumes: BTreeMap<String, (String, String)>,
    is_away: bool,
    /// Ready, and cordoned.
    node: Option<(bool, bool)>,
    /// This node has a slot; who else has one.
    slot: (bool, Vec<String>),
    operation: Option<DrainEvent>,
    end: End,
}

/// How far the file is.
#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Lines are left out.
    Cut,
    Ended,
}

/// A request for the drain, and what it was told last.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// For whom, its context, and whether it is kept over boots.
    asks: (DrainRequester, String, bool),
    /// The answer, why, and the person who forced it.
    answer: (DrainStatus, Option<Outcome>, String),
}

/// Phase, status, requester, outcome, and what holds the drain up: if one of them changes, that is news at once.
type Core = (String, DrainStatus, DrainRequester, Option<Outcome>, Option<HeldBy>);

/// A pod, as the last line about it says.
#[derive(Debug)]
struct Pod {
    name: String,
    owner: String,
    stage: String,
    cause: String,
    at: Moment,
}

impl Known {
    /// What the lines of an earlier process say.
    pub(super) fn of(lines: &[DrainLine]) -> Self {
        let mut known = Self::default();
        for line in lines {
            known.apply(line);
        }
        known.is_resumed = true;
        known
    }

    /// The last line is there.
    pub(super) fn is_ended(&self) -> bool {
        self.end == End::Ended
    }

    /// The last outcome, and how long the drain took until then, in milliseconds, if that is known.
    pub(super) fn outcome(&self) -> Option<(Outcome, Option<u64>)> {
        self.outcome
    }

    /// Lines are left out.
    pub(super) fn is_cut(&self) -> bool {
        self.end == End::Cut
    }

    /// Takes over what a line says.
    pub(super) fn apply(&mut self, line: &DrainLine) {
        let at = Moment(line.up_millis);
        match line.event.clone() {
            DrainEvent::Began { boot_id, .. } => (self.boot_id, self.began) = (boot_id, Some(at)),
            DrainEvent::Booted { boot_id } => {
                (self.boot_id, self.is_resumed, self.began) = (boot_id, false, None);
                self.pods.clear();
                self.volumes.clear();
            }
            DrainEvent::Restarted => self.is_resumed = false,
            DrainEvent::Asked { publisher, requested_by, context, kept } => {
                let answer = (DrainStatus::Unknown, None, String::new());
                let request = Request { asks: (requested_by, context, kept), answer };
                self.requests.insert(publisher, request);
            }
            DrainEvent::Withdrawn { publisher } => drop(self.requests.remove(&publisher)),
            DrainEvent::Answered { publisher, answer, outcome, by } => {
                if let Some(request) = self.requests.get_mut(&publisher) {
                    request.answer = (answer, outcome, by);
                }
            }
            DrainEvent::Phase { phase, status, requested_by, outcome, held_by, reason, .. } => {
                if let Some(outcome) = outcome.filter(|new| self.outcome.is_none_or(|(old, _)| old != *new)) {
                    let took = self.began.map(|began| at.0.saturating_sub(began.0));
                    self.outcome = Some((outcome, took));
                }
                self.phase = Some(((phase, status, requested_by, outcome, held_by), reason, at));
            }
            DrainEvent::Attempt { number, .. } => self.attempt = number,
            DrainEvent::AttemptEnded { number, .. } => self.attempts_ended = number,
            DrainEvent::Pod { pod: name, uid, owner, stage, cause, .. } => {
                self.pods.insert(uid, Pod { name, owner, stage, cause, at });
            }
            DrainEvent::Volume { pv, pod, stage } => drop(self.volumes.insert(pv, (pod, stage))),
            DrainEvent::ApiAway { .. } => self.is_away = true,
            DrainEvent::ApiBack => self.is_away = false,
            operation @ DrainEvent::Operation { .. } => self.operation = Some(operation),
            DrainEvent::Node { ready, cordoned } => self.node = Some((ready, cordoned)),
            DrainEvent::Slot { held, holders } => self.slot = (held, holders),
            DrainEvent::Ended { .. } => self.end = End::Ended,
            DrainEvent::LeftOut => self.end = End::Cut,
            DrainEvent::Ordered { .. } | DrainEvent::Unknown => {}
        }
    }

    /// What has changed, in the order of cause and effect.
    pub(super) fn changes(&self, look: &Look) -> Vec<DrainEvent> {
        let report = &look.report;
        let mut events = self.beginning(report);
        // What a boot has ended is not compared with what was before it.
        let has_booted = matches!(events.last(), Some(DrainEvent::Booted { .. }));
        events.extend(self.asked(report));
        let ordered =
            |(order, by): &(String, String)| DrainEvent::Ordered { order: short(order), by: short(by) };
        events.extend(look.orders.iter().map(ordered));
        events.extend(self.surroundings(look));
        events.extend(self.attempts(report));
        if !has_booted {
            events.extend(self.moves(look));
            events.extend(self.volumes(report));
        }
        events.extend(self.phase(look));
        events.extend(self.answers(report));
        events.extend(self.operation(look));
        events.extend(look.is_over.then(|| DrainEvent::Ended { why: end(report) }));
        events
    }

    /// The first line, or that there was a boot or a new process.
    fn beginning(&self, report: &NodeDrainReport) -> Vec<DrainEvent> {
        let boot_id = report.boot_id.clone();
        if self.boot_id.is_empty() {
            return vec![DrainEvent::Began {
                schema_version: SCHEMA_VERSION,
                drain_id: report.drain_id.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                boot_id,
            }];
        }
        if self.boot_id != boot_id {
            return vec![DrainEvent::Booted { boot_id }];
        }
        self.is_resumed.then_some(DrainEvent::Restarted).into_iter().collect()
    }

    /// Requests that are new, and those that were withdrawn.
    fn asked(&self, report: &NodeDrainReport) -> Vec<DrainEvent> {
        let is_known = |request: &&RequestLine| {
            self.requests.get(&request.publisher).is_some_and(|known| known.asks == asks(request))
        };
        let new = report.requests.iter().filter(|request| !is_known(request)).map(|request| {
            let (requested_by, context, kept) = asks(request);
            DrainEvent::Asked { publisher: request.publisher.clone(), requested_by, context, kept }
        });
        let is_there = |publisher: &str| report.requests.iter().any(|request| request.publisher == publisher);
        let gone = self.requests.keys().filter(|publisher| !is_there(publisher));
        let withdrawn = gone.map(|publisher| DrainEvent::Withdrawn { publisher: publisher.clone() });
        withdrawn.chain(new).collect()
    }

    fn answers(&self, report: &NodeDrainReport) -> Vec<DrainEvent> {
        let new = |request: &RequestLine| {
            let now = (request.answer, request.outcome, short(&request.by));
            let known = self.requests.get(&request.publisher).filter(|known| known.asks == asks(request));
            let is_known = known.map_or(now.0 == DrainStatus::Unknown, |known| known.answer == now);
            let (answer, outcome, by) = now;
            (!is_known).then(|| DrainEvent::Answered {
                publisher: request.publisher.clone(),
                answer,
                outcome,
                by,
            })
        };
        report.requests.iter().filter_map(new).collect()
    }

    /// The API server, the Node, the slot.
    fn surroundings(&self, look: &Look) -> Vec<DrainEvent> {
        let report = &look.report;
        let mut events = Vec::new();
        match (self.is_away, report.api_away_since.is_zero()) {
            (false, false) => events.push(DrainEvent::ApiAway { since: report.api_away_since }),
            (true, true) => events.push(DrainEvent::ApiBack),
            (true, false) | (false, true) => {}
        }
        let node =
            look.is_ready.map(|ready| (ready, report.cordoned)).filter(|node| self.node != Some(*node));
        events.extend(node.map(|(ready, cordoned)| DrainEvent::Node { ready, cordoned }));
        let holders = report.slot.holders.iter().take(MOST_HOLDERS);
        let waits = !report.slot.waiting_since.is_zero();
        // Who else has a slot matters only to a node that waits.
        let slot =
            (report.slot.held, holders.filter(|_| waits).map(|holder| short(holder)).collect::<Vec<_>>());
        // As long as our Node was not seen, it is not known what it has.
        if look.is_ready.is_some() && slot != self.slot {
            events.push(DrainEvent::Slot { held: slot.0, holders: slot.1 });
        }
        events
    }

    fn attempts(&self, report: &NodeDrainReport) -> Vec<DrainEvent> {
        let last = report.attempts.last().map_or(0, |attempt| attempt.number);
        // The numbers have begun again.
        let known = if last < self.attempts_ended { 0 } else { self.attempts_ended };
        let ended = report.attempts.iter().filter(|attempt| known < attempt.number);
        let ended = ended
            .map(|attempt| DrainEvent::AttemptEnded { number: attempt.number, error: short(&attempt.error) });
        let is_new = report.phase == "Attempting" && report.drain_attempt != self.attempt;
        let begun =
            is_new.then_some(DrainEvent::Attempt { number: report.drain_attempt, deadline: report.deadline });
        ended.chain(begun).collect()
    }

    /// The stages of the pods.
    fn moves(&self, look: &Look) -> Vec<DrainEvent> {
        let leaves = |pod: &&PodLine| pod.verdict != "Leave" && pod.stage != STAYS;
        let pods = &look.report.pods;
        let mut events = Vec::new();
        for pod in pods.iter().filter(leaves) {
            let name = format!("{}/{}", pod.namespace, pod.name);
            let trouble = look.troubles.get(&pod.uid);
            let cause = short(trouble.map(String::as_str).unwrap_or_default());
            let known = self.pods.get(&pod.uid);
            // A pod that is refused and tried again is still refused.
            let is_next = matches!(pod.stage.as_str(), "Waiting" | "Evicting") && pod.tries > 0;
            let before = known.filter(|_| is_next).map(|known| known.stage.clone());
            let stage = before.unwrap_or_else(|| pod.stage.clone());
            let is_told = known.is_some_and(|known| {
                let is_same = without_numbers(&known.cause) == without_numbers(&cause);
                known.stage == stage && (is_same || look.up < known.at + OTHER_WORDS)
            });
            if !is_told {
                let (uid, owner, detail) = (pod.uid.clone(), short(&pod.owner), short(&pod.detail));
                let pod_name = short(&name);
                events.push(DrainEvent::Pod {
                    pod: pod_name,
                    uid,
                    owner,
                    stage,
                    tries: pod.tries,
                    detail,
                    cause,
                });
            }
        }
        if look.has_listed {
            let here: BTreeSet<&str> = pods.iter().filter(leaves).map(|pod| pod.uid.as_str()).collect();
            let stays: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
            let is_left = |known: &Pod| known.stage == GONE || known.stage == STAYS;
            for (uid, known) in
                self.pods.iter().filter(|(uid, known)| !here.contains(uid.as_str()) && !is_left(known))
            {
                let stage = if stays.contains(uid.as_str()) { STAYS } else { GONE };
                events.push(known.as_event(uid, stage));
            }
        }
        events
    }

    fn volumes(&self, report: &NodeDrainReport) -> Vec<DrainEvent> {
        let is_new = |(pv, now): &(String, (String, String))| self.volumes.get(pv) != Some(now);
        let told = report
            .volumes
            .iter()
            .map(|volume| (short(&volume.pv), (short(&volume.pod), volume.stage.clone())));
        let now: BTreeMap<String, (String, String)> = told.collect();
        let done = self.volumes.iter().filter(|(pv, (_, stage))| stage != DONE && !now.contains_key(*pv));
        let done: Vec<_> = done.map(|(pv, (pod, _))| (pv.clone(), (pod.clone(), DONE.to_owned()))).collect();
        let changed = now.into_iter().filter(is_new).chain(done);
        changed.map(|(pv, (pod, stage))| DrainEvent::Volume { pv, pod, stage }).collect()
    }

    /// The phase, if it is another one, or if it has another reason for a while.
    fn phase(&self, look: &Look) -> Option<DrainEvent> {
        let report = &look.report;
        let (status, requested_by) = (look.status.status, look.status.requested_by);
        let core = (report.phase.clone(), status, requested_by, report.outcome, report.held_by);
        let reason = short(&report.reason);
        let is_told = self.phase.as_ref().is_some_and(|(known, why, at)| {
            let is_quiet =
                without_numbers(why) == without_numbers(&reason) || look.up < *at + OTHER_WORDS_OF_PHASE;
            *known == core && is_quiet
        });
        let (phase, .., outcome, held_by) = core;
        (!is_told && !look.is_over).then(|| DrainEvent::Phase {
            phase,
            status,
            requested_by,
            outcome,
            held_by,
            node: short(&report.node),
            reason,
            hint: short(&report.hint),
        })
    }

    /// What nodeagent does.
    fn operation(&self, look: &Look) -> Option<DrainEvent> {
        let action = look.action.as_ref().filter(|action| action.state != DeviceActionState::Idle)?;
        let now = DrainEvent::Operation {
            operation: action.command,
            counter: action.counter,
            source: action.source,
            state: action.state,
            error: short(&action.error),
        };
        (self.operation.as_ref() != Some(&now)).then_some(now)
    }
}

impl Pod {
    fn as_event(&self, uid: &str, stage: &str) -> DrainEvent {
        DrainEvent::Pod {
            pod: self.name.clone(),
            uid: uid.to_owned(),
            owner: self.owner.clone(),
            stage: stage.to_owned(),
            tries: 0,
            detail: String::new(),
            cause: String::new(),
        }
    }
}

fn asks(request: &RequestLine) -> (DrainRequester, String, bool) {
    (request.requested_by, short(&request.context), request.kept)
}

/// How a drain has come to its end.
fn end(report: &NodeDrainReport) -> String {
    let back = if report.cordoned {
        "the drain is over, and the node stays cordoned"
    } else {
        "the drain is over, and the node takes pods again"
    };
    back.to_owned()
}

fn short(text: &str) -> String {
    one_line(text, LONGEST_TEXT)
}
