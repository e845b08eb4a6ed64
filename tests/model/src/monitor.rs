//! The monitor: records promises and events, and the first promise that was broken.
//!
//! The monitor knows the truth (the cluster, the orders that were given), not what the agents believe.

mod at_rest;
mod judging;

use std::collections::{BTreeMap, BTreeSet};

use device_op::OperationRecord;
use device_op::facts::Kind;
use drain::plan;
use drain::view::NodeView;
use schemas::DrainOrder;
use schemas::OtherHolders;
use schemas::{CommandState, DrainRequester, DrainStatus, GoTime, NodeDrainReport, Operation, Source};
use session::slots::SlotTable;

use session::State;

use crate::device_op::LOOK_MS;
use crate::files::Files;
use crate::requester::publisher;
use crate::rule::Rule;
use crate::scenario::Scenario;
use crate::server::{PEER, Server};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub rule: Rule,
    /// How it was broken.
    pub text: String,
}

/// State of the monitor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitor {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// The active requests, and the facts about each.
    asked: BTreeMap<DrainRequester, Asked>,
    /// For each requester, the reason that justified its answer when it asked the gate last.
    gate: BTreeMap<DrainRequester, Grant>,
    /// The same reasons when nodeagent began its last poll.
    gate_then: BTreeMap<DrainRequester, Grant>,
    /// Orders of an operator that were taken in this boot.
    forced: BTreeSet<DrainRequester>,
    is_disabled: bool,
    /// First and last time of calls (lists, probes, cordons) that have failed in a row without an answer.
    failing: Option<(u64, u64)>,
    /// The peer's slot, as zedkube read it from the table.
    peer_slot: PeerSlot,
    /// First and last time at which lists showed the peer unable to take pods.
    peer_seen_down: Option<(u64, u64)>,
    /// The commands and their fates.
    commands: BTreeMap<Kind, (u32, Fate)>,
    /// The commands for which the device went down.
    done: BTreeSet<(Kind, u32)>,
    /// The operations that were carried out in this boot, for any source.
    done_now: BTreeSet<Operation>,
    /// The cordon on the node is not ours.
    is_foreign: bool,
    uncordoned_by_hand: bool,
    /// A pod came back: the number of deviations left then, and whether time has moved on since.
    pod_back: Option<(u8, bool)>,
}

/// One active request.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    requested_at: GoTime,
    /// The node was cordoned and empty at some time since the request.
    was_empty: bool,
    /// How long zedkube was away since the request, in sum.
    absent_ms: u64,
    /// The reason of the COMPLETE in the report; `None` if there is none.
    grant: Option<Grant>,
}

/// Whether the peer had a slot when zedkube read the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct PeerSlot {
    /// The last value that is on record, from this boot or an earlier one.
    on_record: bool,
    /// The value that zedkube has read since; lost if zedkube dies before it records it.
    heard: Option<bool>,
}

/// The reason why the device may go down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant {
    Drained,
    Undrained,
    Disabled,
    Away,
}

/// The fate of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Done,
    /// The command was withdrawn, or lost with `/run` before device-op had accepted it.
    Void,
    /// A poweroff that a power cut came before: the reason must be published.
    Refused,
}

impl Monitor {
    fn broken(&mut self, rule: Rule, text: impl Into<String>) {
        self.violation.get_or_insert_with(|| Violation { rule, text: text.into() });
    }

    /// Records a broken promise that only the scheduler can see.
    pub(crate) fn never_at_rest(&mut self, text: &str) {
        self.broken(Rule::ComesToRest, text);
    }

    // Changes of files.

    /// The files of requests may have changed.
    pub(crate) fn requests_written(&mut self, files: &Files) {
        let standing = &files.run.requests;
        self.asked.retain(|requester, _| standing.contains_key(requester));
        for (requester, request) in standing {
            let known = self.asked.get(requester).map(|asked| asked.requested_at);
            if known != Some(request.requested_at) {
                let requested_at = request.requested_at;
                let asked = Asked { requested_at, was_empty: false, absent_ms: 0, grant: None };
                self.asked.insert(*requester, asked);
            }
        }
    }

    /// zedkube has written its report.
    pub(crate) fn report_written(
        &mut self,
        report: &NodeDrainReport,
        state: &State,
        now: u64,
        scenario: &Scenario,
    ) {
        if report.disabled.is_some() && !self.is_disabled {
            self.broken(Rule::AnswersAreTrue, "drains are off although no order switched them off");
        }
        if report.member == schemas::Member::No {
            self.broken(Rule::AnswersAreTrue, "Member is no in a cluster of two");
        }
        for requester in [DrainRequester::DeviceOp, DrainRequester::Update, DrainRequester::None] {
            let Some(asked) = self.asked.get(&requester).cloned() else { continue };
            let line = report.line_of(publisher(requester), asked.requested_at);
            let answer = line.map(|line| line.answer);
            let grant = match answer {
                Some(DrainStatus::Complete) if asked.grant.is_none() => {
                    Some(self.judge(requester, &asked, state, now, scenario))
                }
                Some(DrainStatus::Complete) => asked.grant,
                Some(_) | None => None,
            };
            if let Some(asked) = self.asked.get_mut(&requester) {
                asked.grant = grant;
            }
        }
    }

    /// zedkube has applied an operator's order.
    pub(crate) fn order_taken(&mut self, order: DrainOrder) {
        match order {
            DrainOrder::Complete(requester) => {
                self.forced.insert(requester);
            }
            DrainOrder::Disable => self.is_disabled = true,
            DrainOrder::Enable => {
                self.is_disabled = false;
                self.forced.clear();
            }
        }
    }

    // Actions of agents.

    /// A requester asks the gate now.
    pub(crate) fn gate_asked(&mut self, requester: DrainRequester, scenario: &Scenario) {
        let asked = self.asked.get(&requester);
        // The absence is summed from poll to poll: a zedkube that ran between two polls was not seen.
        let seen = |asked: &Asked| asked.absent_ms + LOOK_MS >= scenario.limits.start_timeout_ms;
        let was_away = asked.is_some_and(seen);
        let grant = match asked.and_then(|asked| asked.grant) {
            _ if self.is_disabled => Some(Grant::Disabled),
            None if was_away => Some(Grant::Away),
            grant => grant,
        };
        match grant {
            Some(grant) => self.gate.insert(requester, grant),
            None => self.gate.remove(&requester),
        };
    }

    /// nodeagent begins a poll. It may not see an answer that is revoked from now on.
    pub(crate) fn nodeagent_looks(&mut self) {
        self.gate_then.clone_from(&self.gate);
    }

    /// nodeagent passes the point of no return.
    ///
    /// `is_up` says whether the agent that released the command still runs.
    pub(crate) fn acting(
        &mut self,
        operation: Option<Operation>,
        counter: u32,
        is_up: bool,
        server: &Server,
        left: u8,
    ) {
        let requester = requester_for(counter);
        let granted = self.gate.get(&requester).or_else(|| self.gate_then.get(&requester)).copied();
        // The agent would release the command again if it lived.
        let again = self.asked.get(&requester).and_then(|asked| asked.grant).filter(|_| !is_up);
        let Some(grant) = granted.or(again) else {
            return self.broken(
                if is_up { Rule::NoRebootWithoutAnswer } else { Rule::NoRebootForTheDead },
                format!("{operation:?} {counter} begins although the gate did not let it pass"),
            );
        };
        let must_stand = matches!(grant, Grant::Drained | Grant::Undrained);
        if must_stand && !self.asked.contains_key(&requester) {
            self.broken(
                Rule::NoRebootWithoutAnswer,
                format!("{operation:?} {counter} begins although its request was withdrawn"),
            );
        }
        let pods = plan(&server.snapshot(), &drain::Policy::device());
        let has_pods = pods.iter().any(drain::Planned::must_leave);
        if grant == Grant::Drained && has_pods && self.pod_back == Some((left, true)) {
            let rule = if is_up { Rule::NoRebootWithPods } else { Rule::NoRebootForTheDead };
            self.broken(rule, format!("{operation:?} {counter} begins with pods on the node"));
        }
    }

    /// The device's method to go down is used.
    pub(crate) fn acts(&mut self, is_activating: bool) {
        if is_activating {
            self.broken(Rule::NoRebootDuringActivation, "the device goes down while an image is activated");
        }
    }

    /// baseos starts the activate command.
    pub(crate) fn activating(&mut self, is_acting: bool, is_second: bool) {
        if is_second {
            self.broken(Rule::OneWriter, "an activation begins while another one writes");
        }
        if !self.gate.contains_key(&DrainRequester::Update) {
            self.broken(
                Rule::NoRebootWithoutAnswer,
                "an activation begins although the gate did not let it pass",
            );
        }
        if is_acting {
            self.broken(Rule::NoRebootDuringActivation, "an activation begins while the device goes down");
        }
    }

    /// A pod is about to be evicted.
    pub(crate) fn evicts(&mut self, server: &Server) {
        if !server.holds_slot() {
            self.broken(Rule::EvictsOnlyWithCordonAndSlot, "a pod is evicted although we have no slot");
        }
        if !server.own.cordoned && !self.uncordoned_by_hand {
            self.broken(
                Rule::EvictsOnlyWithCordonAndSlot,
                "a pod is evicted from a node that is not cordoned",
            );
        }
    }

    /// The shutdown with this counter is done.
    pub(crate) fn shut_down(&mut self, source: Source, counter: u32) {
        self.carried_out((source, Operation::Shutdown), counter);
    }

    /// device-op has recorded the fates of commands. A command of one source may be done by that of another one.
    pub(crate) fn said(&mut self, record: &OperationRecord) {
        for line in record.ended.iter().filter(|line| line.state == CommandState::Done) {
            let kind = (line.source, line.operation);
            let is_done = self.done_now.contains(&line.operation);
            match self.commands.get_mut(&kind) {
                Some((counter, fate)) if *counter == line.counter && *fate == Fate::Open && is_done => {
                    *fate = Fate::Done;
                }
                Some((counter, Fate::Open)) if *counter == line.counter => {
                    self.broken(
                        Rule::EveryCommandIsCarriedOut,
                        format!("{kind:?} is said to be done: {line:?}"),
                    );
                }
                Some(_) | None => {}
            }
        }
    }

    // Events around the agents.

    /// A call for a node was answered or failed.
    pub(crate) fn answered(&mut self, is_reached: bool, now: u64) {
        let first = self.failing.map_or(now, |(first, _)| first);
        self.failing = (!is_reached).then_some((first, now));
    }

    /// zedkube reads the slot table.
    pub(crate) fn slots_read(&mut self, table: &SlotTable) {
        self.peer_slot.heard = Some(table.of(PEER).is_some());
    }

    /// zedkube has written its record, or has died.
    pub(crate) fn recorded(&mut self, is_dead: bool) {
        let slot = &mut self.peer_slot;
        let heard = slot.heard.take().filter(|_| !is_dead);
        slot.on_record = heard.unwrap_or(slot.on_record);
    }

    /// zedkube reads a list of nodes.
    pub(crate) fn listed(&mut self, nodes: &[NodeView], now: u64) {
        let is_down = nodes.iter().any(|node| node.name == PEER && !node.ready);
        self.peer_seen_down = is_down.then(|| (self.peer_seen_down.map_or(now, |(first, _)| first), now));
    }

    /// Checks the state after every step.
    pub(crate) fn look(&mut self, server: &Server) {
        if server.is_drained() {
            self.asked.values_mut().for_each(|asked| asked.was_empty = true);
        }
        if self.is_foreign && !server.own.cordoned {
            self.broken(Rule::ForeignCordonStays, "the cordon of another owner was lifted");
        }
        if server.pods.is_empty() {
            self.pod_back = None;
        }
    }

    /// Time moves on.
    pub(crate) fn time_passes(&mut self, millis: u64, is_zedkube_away: bool) {
        if is_zedkube_away {
            self.asked
                .values_mut()
                .for_each(|asked| asked.absent_ms = (asked.absent_ms + millis).min(60_000));
        }
        if let Some((_, is_ripe)) = &mut self.pod_back {
            *is_ripe |= !is_zedkube_away;
        }
    }

    /// A pod has come back.
    pub(crate) fn pod_came_back(&mut self, left: u8) {
        self.pod_back = Some((left, false));
    }

    /// A person cordons or uncordons the node.
    pub(crate) fn by_hand(&mut self, cordons: bool) {
        self.is_foreign = cordons;
        self.uncordoned_by_hand |= !cordons;
    }

    /// A command was given or withdrawn.
    pub(crate) fn commanded(&mut self, kind: Kind, counter: u32, is_wanted: bool) {
        let was_open = matches!(self.commands.get(&kind), Some((_, Fate::Open | Fate::Refused)));
        if is_wanted {
            self.commands.insert(kind, (counter, Fate::Open));
        } else if was_open {
            self.commands.insert(kind, (counter, Fate::Void));
        }
    }

    /// The device goes down, for a command or because of a power cut, and boots again.
    ///
    /// Any boot counts as a reboot. Of the other operations, one counts as done if nodeagent had begun it in this boot,
    /// by its own record; otherwise a shutdown is still to be done, and a poweroff is refused.
    pub(crate) fn boots(
        &mut self,
        cause: Option<(Kind, u32)>,
        files: &Files,
        boot_id: &str,
        scenario: &Scenario,
    ) {
        if let Some((kind, counter)) = cause.filter(|(_, counter)| *counter > 0) {
            self.carried_out(kind, counter);
        }
        let record = files.persist.operations.clone().unwrap_or_default();
        let is_known = |kind: Kind, counter: u32| {
            record.latest(kind).is_some_and(|accepted| accepted.counter == counter)
                || files.persist.counters.get(&kind) == Some(&counter)
        };
        let begun = files.persist.action.as_ref().filter(|acted| acted.boot_id == boot_id);
        let is_begun = |operation: Operation| {
            record.handed_over.is_some_and(|handed_over| {
                let acted = begun.map(|acted| (acted.source, acted.command, acted.counter));
                handed_over.operation == operation
                    && acted == Some((handed_over.source, Some(operation), handed_over.counter))
            })
        };
        let is_said_again =
            |source| scenario.keeps_run || (scenario.republishes && source == Source::Controller);
        for (kind, (counter, fate)) in &mut self.commands {
            let (source, operation) = *kind;
            let is_known = is_known(*kind, *counter);
            match operation {
                _ if *fate != Fate::Open => {}
                Operation::Reboot if is_known => *fate = Fate::Done,
                Operation::Shutdown | Operation::Poweroff if is_known && is_begun(operation) => {
                    *fate = Fate::Done;
                }
                Operation::Poweroff if is_known => *fate = Fate::Refused,
                _ if !is_known && !is_said_again(source) => *fate = Fate::Void,
                _ => {}
            }
        }
        self.done_now.clear();
        self.asked.clear();
        self.gate.clear();
        self.gate_then.clear();
        self.forced.clear();
        self.is_disabled = false;
        self.failing = None;
        self.peer_seen_down = None;
        // The known holders are stored at the next publication.
        self.recorded(true);
        self.peer_slot.on_record &= files.persist.others == OtherHolders::Hold;
    }

    fn carried_out(&mut self, kind: Kind, counter: u32) {
        let (source, operation) = kind;
        self.done_now.insert(operation);
        if !self.done.insert((kind, counter)) {
            let text = format!("{operation} {counter} of {source} is carried out once more");
            self.broken(Rule::NothingTwice, text);
        }
        if let Some((known, fate)) = self.commands.get_mut(&kind)
            && *known == counter
        {
            *fate = Fate::Done;
        }
    }
}

/// The requester for a command of nodeagent: a command for a new image has no counter.
pub(crate) const fn requester_for(counter: u32) -> DrainRequester {
    if counter == 0 { DrainRequester::Update } else { DrainRequester::DeviceOp }
}
