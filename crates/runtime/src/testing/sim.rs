//! What the simulations of the pure machines have around them: zedkube's answer, the own request, a record that may
//! not reach the disk.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::DerefMut;

use schemas::{
    DrainRequester, DrainStatus, GateFacts, GoTime, Member, OnTimeout, Verdict, ZedkubeSeen, gate,
};

use crate::clock::Moment;
use crate::machine::Machine;
use crate::requester::{Gate, GateReading, Listen, OwnRequest};

/// From one phase to another.
pub type Transition = (String, String);

/// zedkube as the gate sees it, and the request's file. `C` is what a request is made for.
#[derive(Clone, Debug)]
pub struct SimZedkube<C> {
    requester: DrainRequester,
    /// Membership in its report.
    pub member: Member,
    /// Its answer, and to which request.
    pub answer: Option<(GoTime, DrainStatus)>,
    /// The request's file.
    pub request: Option<(GoTime, C)>,
    /// What the requester remembers as its own.
    pub own: Option<OwnRequest>,
    /// Its report cuts the pause after a failed drain short.
    pub needs_no_pause: bool,
    /// So many requests were made.
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

    /// Answers the request that stands.
    pub fn answer(&mut self, status: DrainStatus) {
        self.answer = self.request.as_ref().map(|(requested_at, _)| (*requested_at, status));
    }

    /// The request that could be made now.
    pub fn next_request(&self) -> OwnRequest {
        let second = 1_800_000_000 + self.requests_made + 1;
        let requested_at = jiff::Timestamp::from_second(second).unwrap().into();
        OwnRequest { requested_at, ..OwnRequest::default() }
    }

    /// The request is made.
    pub fn ask(&mut self, own: OwnRequest, context: C) {
        self.requests_made += 1;
        (self.own, self.request) = (Some(own), Some((own.requested_at, context)));
    }

    /// The request is withdrawn.
    pub fn withdraw(&mut self) {
        (self.own, self.request) = (None, None);
    }

    /// What an agent sees that listens to this.
    pub fn reading(&self, listen: Listen) -> GateReading {
        GateReading {
            gate: (listen == Listen::ToGate).then(|| self.gate()),
            needs_no_pause: listen == Listen::ToReport && self.needs_no_pause,
            own: self.own,
            next: self.next_request(),
        }
    }

    /// What the gate says.
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

/// A record as the publisher remembers it, and as its file is: newer when a write failed only at its end.
#[derive(Clone, Debug)]
pub struct SimRecord<R> {
    /// As the publisher remembers it.
    pub memory: Option<R>,
    /// As its file is.
    pub disk: Option<R>,
}

impl<R: Clone> SimRecord<R> {
    /// No record.
    pub const fn none() -> Self {
        Self { memory: None, disk: None }
    }

    /// It is written.
    pub fn write(&mut self, record: Option<R>) {
        self.memory.clone_from(&record);
        self.disk = record;
    }

    /// The process starts anew.
    pub fn reload(&mut self) {
        self.memory.clone_from(&self.disk);
    }
}

/// When effects fail.
#[derive(Clone, Debug, Default)]
pub struct SimFaults {
    /// So many effects more are done, then one fails.
    pub after: Option<usize>,
    /// The one that fails is done all the same: only its last sync failed.
    pub when_done: bool,
    /// The disk takes no record at all.
    pub takes_no_record: bool,
}

impl SimFaults {
    /// Whether the next effect fails.
    pub fn next_fails(&mut self, is_record: bool) -> bool {
        if self.after == Some(0) {
            self.after = None;
            return true;
        }
        self.after = self.after.map(|left| left - 1);
        is_record && self.takes_no_record
    }
}

/// Rounds in which an agent has to come to rest when nothing changes around it.
const MOST_ROUNDS: usize = 20;

/// What the loop of an agent has around its machine, in a simulation.
#[derive(Clone, Debug)]
pub struct SimLoop<M: Machine> {
    /// As the loop has it.
    pub state: M::State,
    /// The time.
    pub now: Moment,
    /// The settings.
    pub policy: M::Policy,
    /// When effects fail.
    pub faults: SimFaults,
    /// The effects that were done, in words.
    pub done: Vec<String>,
    /// The changes of phase that were seen, as a state diagram names them.
    pub seen: BTreeSet<Transition>,
}

impl<M: Machine> SimLoop<M> {
    /// A process that begins from this state, long after the boot.
    pub fn begin(state: M::State, policy: M::Policy) -> Self {
        let now = Moment { boot_ms: 1_000_000, wall: GoTime::ZERO };
        let faults = SimFaults::default();
        Self { state, now, policy, faults, done: Vec::new(), seen: BTreeSet::new() }
    }
}

/// Which part an effect has in faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimWrite {
    /// It cannot fail.
    Never,
    /// It may fail.
    File,
    /// It may fail, and does on a disk that takes no record.
    Record,
}

/// A pure machine with its device around it.
pub trait SimAgent: Debug + DerefMut<Target = SimLoop<Self::Machine>> {
    /// The machine.
    type Machine: Machine;

    /// One look.
    fn look(&mut self) -> <Self::Machine as Machine>::Event;

    /// Does one effect, and checks what must be true before it.
    fn perform(&mut self, effect: &<Self::Machine as Machine>::Effect);

    /// Which part this effect has in faults.
    fn write_of(&self, effect: &<Self::Machine as Machine>::Effect) -> SimWrite;

    /// What is left of an effect that has failed.
    fn leave_undone(&mut self, effect: &<Self::Machine as Machine>::Effect);

    /// The state from what is on disk.
    fn resumed(&self) -> <Self::Machine as Machine>::State;

    /// The phase of a state, as a state diagram names it.
    fn phase(state: &<Self::Machine as Machine>::State) -> String;

    /// The process dies and starts again, before its first look.
    fn reload(&mut self);

    /// nodeagent does one thing by the files as they are.
    fn nodeagent_turn(&mut self) {}

    /// One look, one step. Says whether there was anything to do.
    fn turn(&mut self) -> bool {
        self.turn_beside(&mut std::iter::repeat(false))
    }

    /// One look, one step, while nodeagent does something wherever `nodeagent` says so.
    fn turn_beside(&mut self, nodeagent: &mut impl Iterator<Item = bool>) -> bool {
        let facts = self.look();
        self.step_beside(&facts, nodeagent).unwrap_or(true)
    }

    /// An event comes from beside the loop, which sends it once more if an effect has failed. Says whether there was
    /// anything to do.
    fn send(&mut self, event: &<Self::Machine as Machine>::Event) -> bool {
        let first = self.step_beside(event, &mut std::iter::repeat(false));
        first.or_else(|| self.step_beside(event, &mut std::iter::repeat(false))).unwrap_or(true)
    }

    /// One step with its effects. Says whether there were any; nothing when one has failed.
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

    /// Looks until nothing changes any more.
    fn run(&mut self) {
        let is_at_rest = (0..MOST_ROUNDS).any(|_| !self.turn());
        assert!(is_at_rest, "never at rest: {self:#?}");
    }

    /// A few looks, for it does not come to rest on a disk that takes no record.
    fn look_around(&mut self) {
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

    /// nodeagent acts on what it finds, and the agent on that, until both have nothing to do.
    fn nodeagent_until_rest(&mut self) {
        for _ in 0..MOST_ROUNDS {
            self.nodeagent_turn();
            self.run();
        }
    }
}
