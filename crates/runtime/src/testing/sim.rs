//! The surroundings of the simulated state machines: zedkube's answer, the agent's own request, and a record that may
//! not reach the disk.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::DerefMut;

use schemas::{
    DrainRequester, DrainStatus, GateFacts, GoTime, Member, OnTimeout, Source, Verdict, WindowState,
    WindowStatus, ZedkubeSeen, gate,
};

use crate::clock::Moment;
use crate::machine::Machine;
use crate::requester::{Gate, GateReading, Listen, OwnRequest};

/// A change of phase: from and to.
pub type Transition = (String, String);

/// A window that is open or closed for the cluster and the host.
pub fn window(is_open: bool) -> WindowStatus {
    let (state, reason) =
        if is_open { (WindowState::Open, "") } else { (WindowState::Closed, "outside the window") };
    let sources = [Source::Cluster, Source::Host].into();
    WindowStatus { state, changes_at: GoTime::ZERO, sources, reason: reason.to_owned() }
}

/// zedkube as the gate sees it, and the file of the request. `C` is the purpose of a request.
#[derive(Clone, Debug)]
pub struct SimZedkube<C> {
    requester: DrainRequester,
    /// Membership in its report.
    pub member: Member,
    /// Its answer, and the time of the request that it answers.
    pub answer: Option<(GoTime, DrainStatus)>,
    /// The file of the request.
    pub request: Option<(GoTime, C)>,
    /// The request that the requester has recorded as its own.
    pub own: Option<OwnRequest>,
    /// An operator's override in its report ends the pause after a failed drain.
    pub needs_no_pause: bool,
    /// Number of requests made.
    pub requests_made: i64,
}

impl<C> SimZedkube<C> {
    /// The zedkube of a member, without a request.
    pub fn new(requester: DrainRequester) -> Self {
        Self {
            requester,
            member: Member::Yes,
            answer: None,
            request: None,
            own: None,
            needs_no_pause: false,
            requests_made: 0,
        }
    }

    /// Answers the pending request.
    pub fn answer(&mut self, status: DrainStatus) {
        self.answer = self.request.as_ref().map(|(requested_at, _)| (*requested_at, status));
    }

    /// The request that would be made next.
    pub fn next_request(&self) -> OwnRequest {
        let second = 1_800_000_000 + self.requests_made + 1;
        let requested_at = jiff::Timestamp::from_second(second).unwrap().into();
        OwnRequest { requested_at, ..OwnRequest::default() }
    }

    /// Publishes the request.
    pub fn ask(&mut self, own: OwnRequest, context: C) {
        self.requests_made += 1;
        (self.own, self.request) = (Some(own), Some((own.requested_at, context)));
    }

    /// Withdraws the request.
    pub fn withdraw(&mut self) {
        (self.own, self.request) = (None, None);
    }

    /// The snapshot for an agent that listens to this.
    pub fn reading(&self, listen: Listen) -> GateReading {
        GateReading {
            gate: (listen == Listen::ToGate).then(|| self.gate()),
            needs_no_pause: listen == Listen::ToReport && self.needs_no_pause,
            own: self.own,
            next: self.next_request(),
        }
    }

    /// The gate.
    pub fn gate(&self) -> Gate {
        let ours = self.own.map(|own| own.requested_at);
        let verdict = gate(&GateFacts {
            requester: self.requester,
            member: Some(self.member),
            disabled: false,
            own_request: self.request.as_ref().map(|(requested_at, _)| *requested_at),
            ours,
            answer: self.answer.filter(|(at, _)| Some(*at) == ours).map(|(_, status)| status),
            outcome: None,
            is_passed: false,
            zedkube: ZedkubeSeen::Running,
            status: None,
            report_present: true,
            seen_other_status_since_publish: None,
            cluster_config_valid: None,
            absent_ms: 0,
            start_timeout_ms: 600_000,
            on_timeout: OnTimeout::Wait,
        });
        let (blocked_by, release) = match verdict {
            Verdict::Defer(reason) => (reason.to_string(), String::new()),
            Verdict::Failed(status) => (status.to_string(), String::new()),
            Verdict::Proceed(reason) => (String::new(), reason.to_string()),
            Verdict::Publish => (String::new(), String::new()),
        };
        Gate { verdict, blocked_by, release }
    }
}

/// A record as the publisher remembers it, and as in its file, which is newer if a write failed at its end only.
#[derive(Clone, Debug)]
pub struct SimRecord<R> {
    /// The record as the publisher remembers it.
    pub memory: Option<R>,
    /// The record in the file.
    pub disk: Option<R>,
}

impl<R: Clone> SimRecord<R> {
    /// No record.
    pub const fn none() -> Self {
        Self { memory: None, disk: None }
    }

    /// Writes the record.
    pub fn write(&mut self, record: Option<R>) {
        self.memory.clone_from(&record);
        self.disk = record;
    }

    /// The process starts again.
    pub fn reload(&mut self) {
        self.memory.clone_from(&self.disk);
    }
}

/// The effects that fail.
#[derive(Clone, Debug, Default)]
pub struct SimFaults {
    /// Number of further effects that succeed before one fails.
    pub after: Option<usize>,
    /// True if the failing effect takes effect all the same, because only its last sync failed.
    pub when_done: bool,
    /// True if the disk accepts no record at all.
    pub takes_no_record: bool,
}

impl SimFaults {
    /// True if the next effect fails.
    pub fn next_fails(&mut self, is_record: bool) -> bool {
        if self.after == Some(0) {
            self.after = None;
            return true;
        }
        self.after = self.after.map(|left| left - 1);
        is_record && self.takes_no_record
    }
}

/// Limit for the steps in which an agent has to come to rest when nothing changes around it.
const MOST_ROUNDS: usize = 20;

/// The main loop of an agent in a simulation.
#[derive(Clone, Debug)]
pub struct SimLoop<M: Machine> {
    /// The state of the machine.
    pub state: M::State,
    /// The time.
    pub now: Moment,
    /// The settings.
    pub policy: M::Policy,
    /// The effects that fail.
    pub faults: SimFaults,
    /// The effects that were carried out, as text.
    pub done: Vec<String>,
    /// The changes of phase so far, as a state diagram names them.
    pub seen: BTreeSet<Transition>,
}

impl<M: Machine> SimLoop<M> {
    /// A process that begins with this state, long after the boot.
    pub fn begin(state: M::State, policy: M::Policy) -> Self {
        let now = Moment { boot_ms: 1_000_000, wall: GoTime::ZERO };
        let faults = SimFaults::default();
        Self { state, now, policy, faults, done: Vec::new(), seen: BTreeSet::new() }
    }
}

/// The way in which an effect can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimWrite {
    /// The effect cannot fail.
    Never,
    /// The effect may fail.
    File,
    /// The effect may fail, and does on a disk that accepts no record.
    Record,
}

/// A state machine with a simulated device.
pub trait SimAgent: Debug + DerefMut<Target = SimLoop<Self::Machine>> {
    /// The machine.
    type Machine: Machine;

    /// A snapshot.
    fn look(&mut self) -> <Self::Machine as Machine>::Event;

    /// Carries out an effect, and checks what must be true before it.
    fn perform(&mut self, effect: &<Self::Machine as Machine>::Effect);

    /// The way in which this effect can fail.
    fn write_of(&self, effect: &<Self::Machine as Machine>::Effect) -> SimWrite;

    /// Does the part of a failed effect that takes effect all the same.
    fn leave_undone(&mut self, effect: &<Self::Machine as Machine>::Effect);

    /// The state from the files.
    fn resumed(&self) -> <Self::Machine as Machine>::State;

    /// The phase of a state, as a state diagram names it.
    fn phase(state: &<Self::Machine as Machine>::State) -> String;

    /// The process dies and starts again, before its first snapshot.
    fn reload(&mut self);

    /// nodeagent takes one turn.
    fn nodeagent_turn(&mut self) {}

    /// Reads a snapshot and runs a step. Returns true if there was anything to do.
    fn turn(&mut self) -> bool {
        self.turn_beside(&mut std::iter::repeat(false))
    }

    /// Reads a snapshot and runs a step; nodeagent takes a turn before each effect for which `nodeagent` gives true.
    fn turn_beside(&mut self, nodeagent: &mut impl Iterator<Item = bool>) -> bool {
        let facts = self.look();
        self.step_beside(&facts, nodeagent).unwrap_or(true)
    }

    /// Sends an event of a task beside the loop, and sends it again if an effect has failed. Returns true if there
    /// was anything to do.
    fn send(&mut self, event: &<Self::Machine as Machine>::Event) -> bool {
        let first = self.step_beside(event, &mut std::iter::repeat(false));
        first.or_else(|| self.step_beside(event, &mut std::iter::repeat(false))).unwrap_or(true)
    }

    /// Runs a step with its effects. Returns true if there were any, and None if one has failed.
    fn step_beside(
        &mut self,
        event: &<Self::Machine as Machine>::Event,
        nodeagent: &mut impl Iterator<Item = bool>,
    ) -> Option<bool> {
        let (next, effects) = Self::Machine::step(self.state.clone(), event, self.now, &self.policy);
        for effect in &effects {
            if nodeagent.next().unwrap_or(false) {
                self.nodeagent_turn();
            }
            let write = self.write_of(effect);
            if write != SimWrite::Never && self.faults.next_fails(write == SimWrite::Record) {
                self.leave_undone(effect);
                self.state = Self::Machine::after_failure(self.state.clone(), self.resumed());
                return None;
            }
            self.perform(effect);
        }
        let (before, after) = (Self::phase(&self.state), Self::phase(&next));
        if before != after {
            self.seen.insert((before, after));
        }
        self.state = next;
        Some(effects.iter().any(|effect| Self::Machine::wake_at(effect).is_none()))
    }

    /// Runs steps until nothing changes any more.
    fn run(&mut self) {
        let is_at_rest = (0..MOST_ROUNDS).any(|_| !self.turn());
        assert!(is_at_rest, "never at rest: {self:#?}");
    }

    /// Runs a few steps, for a disk that accepts no record, on which the agent does not come to rest.
    fn run_a_few_steps(&mut self) {
        for _ in 0..5 {
            self.turn();
        }
    }

    /// The process dies and starts again.
    fn restart(&mut self) {
        self.reload();
        self.run();
    }

    /// Time passes.
    fn sleep(&mut self, millis: u64) {
        self.now.boot_ms += millis;
        self.run();
    }

    /// nodeagent and the agent take turns until both have nothing to do.
    fn nodeagent_until_rest(&mut self) {
        for _ in 0..MOST_ROUNDS {
            self.nodeagent_turn();
            self.run();
        }
    }
}
