//! device-op: the real `operation::step`, with a model of the main loop around it.

use std::collections::{BTreeMap, VecDeque};

use device_op::effect::Effect;
use device_op::facts::{Commanded, Facts, Kind, Recorded, all_kinds};
use device_op::operation::{Policy, step};
use device_op::{Phase, State};
use runtime::Gate;
use runtime::clock::Moment;
use runtime::requester::GateReading;
use runtime::siblings::NodeAgentView;
use schemas::{DeviceAction, DrainRequester, GoTime, NodeDrainRequest};

use crate::files::Files;
use crate::requester::Requester;
use crate::scenario::Scenario;

/// Poll interval while the gate is asked, because zedkube's lock causes no event.
pub const LOOK_MS: u64 = 2_000;

/// Pause after a failed effect.
pub const PAUSE_MS: u64 = 1_000;

/// One process of device-op.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceOp {
    /// State of the real decision code.
    pub state: State,
    /// Effects that are not performed yet.
    pub todo: VecDeque<Effect>,
    /// When the process wants to poll again.
    pub wake: Option<u64>,
    /// A watched file has changed, or the process has done something.
    pub is_restless: bool,
    /// The part that asks for a drain.
    pub requester: Requester,
    look: Look,
}

/// State of a poll. It takes time: nodeagent's lock and file are read last.
#[derive(Clone, Debug, Default, PartialEq)]
enum Look {
    #[default]
    None,
    /// The other files were read.
    Begun(Box<Facts>),
    /// nodeagent's lock was asked as well.
    LockAsked(Box<Facts>),
}

/// The surroundings, as the process sees them.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The present time.
    pub now: u64,
    /// The present boot.
    pub boot_id: &'a str,
    /// zedkube's lock is free.
    pub is_zedkube_away: bool,
    /// nodeagent's lock is held.
    pub is_nodeagent_up: bool,
    /// Number of the next request.
    pub next_request: i64,
    /// The scenario that is run.
    pub scenario: &'a Scenario,
}

impl DeviceOp {
    /// A new process, which begins as `Desk::open` does.
    pub fn start(files: &Files, boot_id: &str) -> Self {
        let record = files.persist.operations.clone();
        let own = record.as_ref().and_then(|record| record.request);
        Self {
            state: resumed(files, boot_id),
            todo: VecDeque::new(),
            wake: None,
            is_restless: true,
            requester: Requester::open(DrainRequester::DeviceOp, own),
            look: Look::None,
        }
    }

    /// True if the process would poll now.
    pub fn is_due(&self, now: u64) -> bool {
        self.todo.is_empty()
            && (self.is_restless || self.is_looking() || self.wake.is_some_and(|at| at <= now))
    }

    /// True if changes of the gate's facts wake the process.
    pub fn listens_to_gate(&self) -> bool {
        match self.state.phase {
            Phase::Deferred | Phase::HandedOver => true,
            Phase::NewBoot
            | Phase::Idle
            | Phase::Held
            | Phase::Acting
            | Phase::Done
            | Phase::Recalling(_)
            | Phase::Failed => false,
        }
    }

    /// True if a change of the report wakes the process.
    pub fn listens_to_report(&self) -> bool {
        self.state.phase == Phase::Failed
    }

    /// True while a poll has begun and not ended.
    pub fn is_looking(&self) -> bool {
        self.look != Look::None
    }

    /// True if the next poll begins by asking the gate.
    pub fn is_about_to_ask_the_gate(&self) -> bool {
        !self.is_looking() && self.listens_to_gate()
    }

    /// Reads the next part of a poll; after the last part it decides.
    pub fn look(&mut self, files: &Files, around: &Around<'_>) {
        match std::mem::take(&mut self.look) {
            Look::None => {
                (self.is_restless, self.wake) = (false, None);
                self.look = Look::Begun(Box::new(self.begin(files, around)));
            }
            Look::Begun(facts) => {
                let nodeagent = NodeAgentView { is_running: around.is_nodeagent_up, ..facts.nodeagent };
                self.look = Look::LockAsked(Box::new(Facts { nodeagent, ..*facts }));
            }
            Look::LockAsked(facts) => {
                let is_of_this_boot = |action: &DeviceAction| action.boot_id == around.boot_id;
                let action = files.run.action.clone().filter(is_of_this_boot).unwrap_or_default();
                let nodeagent = NodeAgentView { action: Some(action), ..facts.nodeagent };
                self.decide(&Facts { nodeagent, ..*facts }, around);
            }
        }
    }

    fn begin(&mut self, files: &Files, around: &Around<'_>) -> Facts {
        let command =
            |kind: Kind| files.run.commands.get(&kind).cloned().map_or(Commanded::Absent, Commanded::Given);
        let counter = |kind: Kind| {
            let recorded = files.persist.counters.get(&kind);
            recorded.map_or(Recorded::Nothing, |counter| Recorded::Counter(*counter))
        };
        let gate = self.listens_to_gate().then(|| {
            let (now, is_away) = (around.now, around.is_zedkube_away);
            let verdict = self.requester.verdict(&files.run, is_away, now, around.scenario);
            Gate { verdict, blocked_by: String::new(), release: String::new() }
        });
        Facts {
            commands: all_kinds().map(|kind| (kind, command(kind))).collect(),
            counters: all_kinds().map(|kind| (kind, counter(kind))).collect(),
            cancelled: BTreeMap::new(),
            freeze: None,
            acted: files.persist.action.clone().filter(|_| self.state.phase == Phase::NewBoot),
            drain: GateReading {
                gate,
                needs_no_pause: self.listens_to_report() && self.requester.needs_no_pause(&files.run),
                own: self.requester.own,
                next: self.requester.next(&files.run, around.next_request),
            },
            nodeagent: NodeAgentView { is_running: true, action: None },
            refused: Vec::new(),
        }
    }

    fn decide(&mut self, facts: &Facts, around: &Around<'_>) {
        let policy = Policy { retry: around.scenario.limits.retry, boot_id: around.boot_id.to_owned() };
        let now = Moment { boot_ms: around.now, wall: GoTime::ZERO };
        let (next, effects) = step(self.state.clone(), facts, now, &policy);
        self.state = next;
        for effect in effects {
            match effect {
                Effect::WakeAt(at) => self.wake = Some(at),
                effect => self.todo.push_back(effect),
            }
        }
        if self.listens_to_gate() && around.is_zedkube_away {
            let look = around.now + LOOK_MS;
            self.wake = Some(self.wake.map_or(look, |wake| wake.min(look)));
        }
    }

    /// Performs the next effect. Returns true if it made a request.
    pub fn perform(&mut self, files: &mut Files, scenario: &Scenario) -> bool {
        self.is_restless = true;
        let mut is_request = false;
        match self.todo.pop_front() {
            None | Some(Effect::WakeAt(_)) => {}
            Some(Effect::ClearCommand) => files.run.zedagent = None,
            Some(Effect::Record(record)) => {
                files.persist.operations = (!record.is_empty()).then_some(record);
            }
            Some(Effect::Counter(kind, command)) => {
                files.persist.counters.insert(kind, command.counter);
            }
            Some(Effect::Withdraw) => self.requester.withdraw(&mut files.run),
            Some(Effect::Request { own, operation }) => {
                self.requester.publish(own, scenario);
                let request = NodeDrainRequest {
                    requested_at: own.requested_at,
                    requested_by: DrainRequester::DeviceOp,
                    context: operation.name().to_owned(),
                };
                files.run.requests.insert(DrainRequester::DeviceOp, request);
                is_request = true;
            }
            Some(Effect::Status(status)) => files.run.device_op = Some(status),
            Some(Effect::Command { operation, reason }) => files.run.zedagent = Some((operation, reason)),
        }
        is_request
    }

    /// Lets the next effect fail: the effects after it are not performed, and the process goes on from the content of
    /// the disk.
    pub fn fail(&mut self, files: &Files, boot_id: &str, now: u64) {
        if let Some(Effect::Request { own, .. }) = self.todo.pop_front() {
            // The item may have been written or not.
            self.requester.own = Some(own);
        }
        self.todo.clear();
        self.state = resumed(files, boot_id);
        (self.is_restless, self.wake) = (false, Some(now + PAUSE_MS));
    }
}

fn resumed(files: &Files, boot_id: &str) -> State {
    let shown = files.run.device_op.clone().unwrap_or_default();
    State::resume(files.persist.operations.clone(), shown, files.run.zedagent.clone(), boot_id)
}
