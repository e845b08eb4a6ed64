//! zedkube: the real `session::step`, with a model of the main loop of `zedkube::service` around it.
//!
//! Effects are performed one at a time, so that the process can be killed between any two. No event is handled while an
//! effect is left.

mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use drain::{Moment, Snapshot};
use schemas::{DeviceActionState, DrainRequester, NodeDrainReport, NodeDrainStatus};
use schemas::{Member, OtherHolders};
use session::Phase;
use session::event::Order;
use session::membership::{Facts, Mode, NodeAgent};
use session::{Answer, Effect, Event, Request, State};

use crate::files::{Files, RunFiles};
use crate::requester::publisher;
use crate::scenario::{Mutation, Scenario};
use crate::server::{Ask, Server};
use report::with_answers_of;

/// One process of zedkube.
#[derive(Clone, Debug)]
pub struct Zedkube {
    /// State of the real decision code.
    pub state: State,
    /// Effects that are not performed yet.
    pub todo: VecDeque<Todo>,
    /// Calls to the API server whose answers the process waits for, in the order in which they were sent.
    pub calls: Vec<Call>,
    /// Inputs that a starting process reads before any other.
    pub starting: VecDeque<Input>,
    /// When the process wants to wake up.
    pub wake: Option<u64>,
    is_open: bool,
    had_pending: bool,
    seen_requests: Vec<Request>,
    seen_nodeagent: NodeAgent,
    seen_snapshot: Option<Arc<Snapshot>>,
    /// Version of the slot table when the watch on it began.
    seen_slots: Option<Seen>,
}

/// Version of the slot table when it was read; `None` if there was no table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen(Option<String>);

/// An effect, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Todo {
    /// An effect of the session.
    Do(Effect),
    /// A part of publishing: Membership and KnownHolders.
    Store(Member, OtherHolders),
    /// A part of publishing: NodeDrainReport.
    Report(Arc<NodeDrainReport>),
    /// A part of publishing: NodeDrainStatus.
    Status(NodeDrainStatus),
}

/// An input of zedkube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Facts about the device's membership.
    Facts,
    /// The present request files.
    Inbox,
    /// The override file.
    Override,
    /// The file of the order on record was renamed by an earlier process.
    Taken,
    /// The start is over: everything is published.
    Open,
    /// The answer to a call, by its index in [`Zedkube::calls`].
    Answer(usize),
    /// The snapshot from the watches.
    Snapshot,
    /// The slot table has changed.
    Slots,
    /// Time has moved on.
    Tick,
}

/// One call to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Serial of the call, from the session or from the attempt.
    pub serial: u32,
    /// The request of the call.
    pub ask: Ask,
    /// The answer, once the call was carried out.
    pub answer: Option<Event>,
    /// The call hangs until this time.
    pub held_until: Option<u64>,
    /// The version of our node when the call was sent.
    pub version: u32,
}

impl Zedkube {
    /// A new process, which begins as `Service::open` does.
    pub fn start(files: &mut Files, boot_id: &str, now: u64) -> Self {
        let stored = files.persist.member.unwrap_or_default();
        let record = files.run.drain_record.as_ref().map(|record| (**record).clone());
        if record.is_none() {
            // A file that existed before the first start in a boot is refused as left over.
            files.persist.order = None;
        }
        let state = match record {
            Some(record) => session::resume(record, stored, boot_id.to_owned(), Moment(now)),
            None => State::new(stored, boot_id.to_owned(), Moment(now)).knowing(files.persist.others),
        };
        let had_pending = state.forcing.pending.is_some();
        let starting = [Input::Facts, Input::Inbox, Input::Override, Input::Taken, Input::Open];
        Self {
            state,
            todo: VecDeque::new(),
            calls: Vec::new(),
            starting: starting.into(),
            wake: None,
            is_open: false,
            had_pending,
            seen_requests: Vec::new(),
            seen_nodeagent: NodeAgent::Silent,
            seen_snapshot: None,
            seen_slots: None,
        }
    }

    /// The possible inputs, most likely first. None while an effect is left.
    pub fn inputs(&self, files: &Files, server: &Server, now: u64, scenario: &Scenario) -> Vec<Input> {
        if !self.todo.is_empty() {
            return Vec::new();
        }
        if let Some(next) = self.starting.front() {
            return vec![next.clone()];
        }
        let mut inputs = Vec::new();
        let is_deaf = scenario.mutation == Some(Mutation::DeafToWithdrawal) && files.run.requests.is_empty();
        if self.seen_requests != requests(&files.run) && !is_deaf {
            inputs.push(Input::Inbox);
        }
        if self.seen_nodeagent != nodeagent(&files.run) {
            inputs.push(Input::Facts);
        }
        if files.persist.order.is_some() {
            inputs.push(Input::Override);
        }
        let is_there = |call: &Call| call.answer.is_some() && call.held_until.is_none();
        let answers = self.calls.iter().enumerate().filter(|(_, call)| is_there(call));
        inputs.extend(answers.map(|(place, _)| Input::Answer(place)));
        if self.sees_something_new(server, scenario) {
            inputs.push(Input::Snapshot);
        }
        let seen = self.seen_slots.as_ref();
        if seen.is_some_and(|seen| seen.0 != server.slots.version) && server.is_reachable {
            inputs.push(Input::Slots);
        }
        if self.wake.is_some_and(|at| at <= now) {
            inputs.push(Input::Tick);
        }
        inputs
    }

    fn sees_something_new(&self, server: &Server, scenario: &Scenario) -> bool {
        let is_complete = matches!(self.state.phase, Phase::Complete { .. });
        self.watches(server)
            && !(is_complete && scenario.mutation == Some(Mutation::NoSnapshots))
            && self.seen_snapshot.as_deref() != Some(&server.snapshot())
    }

    fn watches(&self, server: &Server) -> bool {
        self.state.wants_snapshot() && self.state.own.is_some() && server.is_reachable
    }

    /// Handles one input.
    pub fn take(&mut self, input: &Input, files: &mut Files, server: &Server, now: u64, scenario: &Scenario) {
        if !self.starting.is_empty() {
            self.starting.pop_front();
        }
        let event = match input {
            Input::Facts => {
                self.seen_nodeagent = nodeagent(&files.run);
                Some(Event::Facts(Facts { nodeagent: self.seen_nodeagent, ..FACTS }))
            }
            Input::Inbox => {
                self.seen_requests = requests(&files.run);
                let is_deaf = scenario.mutation == Some(Mutation::DeafToRequests);
                let heard = if is_deaf { Vec::new() } else { self.seen_requests.clone() };
                Some(Event::Requests(heard))
            }
            Input::Override => {
                self.had_pending &= files.persist.order.is_none();
                files.persist.order.map(|what| Event::Override(Order { what, by: String::new() }))
            }
            Input::Taken => self.had_pending.then_some(Event::OverrideTaken { renamed: true }),
            Input::Open => {
                self.is_open = true;
                self.todo.push_back(Todo::Do(Effect::Publish));
                None
            }
            Input::Answer(place) => {
                (*place < self.calls.len()).then(|| self.calls.remove(*place)).and_then(|call| call.answer)
            }
            Input::Snapshot => {
                let snapshot = Arc::new(server.snapshot());
                self.seen_snapshot = Some(Arc::clone(&snapshot));
                Some(Event::Drain(drain::Event::Snapshot(snapshot)))
            }
            Input::Slots => {
                self.seen_slots = Some(Seen(server.slots.version.clone()));
                Some(Event::SlotsChanged)
            }
            Input::Tick => Some(Event::Tick),
        };
        if let Some(event) = event {
            self.step(event, server, now, scenario);
        }
    }

    /// Decides about one event.
    fn step(&mut self, mut event: Event, server: &Server, now: u64, scenario: &Scenario) {
        if scenario.mutation == Some(Mutation::BlindToPods) {
            hide_pods(&mut event);
        }
        let state = std::mem::take(&mut self.state);
        let (state, effects) = session::step(state, event, Moment(now), &scenario.policy);
        self.state = state;
        self.wake = None;
        for effect in effects {
            match effect {
                Effect::WakeAt(moment) => self.wake = Some(moment.0).filter(|at| *at != u64::MAX),
                Effect::Uncordon { .. } if scenario.mutation == Some(Mutation::NoUncordon) => {}
                Effect::WriteSlots { ref entry, .. }
                    if entry.is_none() && scenario.mutation == Some(Mutation::NoGiveBack) => {}
                effect => self.todo.push_back(Todo::Do(effect)),
            }
        }
        if !self.state.wants_snapshot() {
            self.seen_snapshot = None;
        }
        if !self.state.wants_slot_watch() {
            self.seen_slots = None;
        } else if self.seen_slots.is_none() && server.is_reachable {
            self.seen_slots = Some(Seen(server.slots.version.clone()));
        }
    }

    /// Performs the next effect. Calls that are given up before they were carried out go to `strays`.
    pub fn perform(
        &mut self,
        files: &mut Files,
        server: &Server,
        now: u64,
        scenario: &Scenario,
        strays: &mut Vec<Call>,
    ) {
        match self.todo.pop_front() {
            None => {}
            Some(Todo::Store(member, others)) => {
                (files.persist.member, files.persist.others) = (Some(member), others);
            }
            Some(Todo::Report(report)) => files.run.report = Some(report),
            Some(Todo::Status(status)) => files.run.status = Some(status),
            Some(Todo::Do(effect)) => self.perform_effect(effect, files, server, now, scenario, strays),
        }
    }

    fn perform_effect(
        &mut self,
        effect: Effect,
        files: &mut Files,
        server: &Server,
        now: u64,
        scenario: &Scenario,
        strays: &mut Vec<Call>,
    ) {
        match effect {
            Effect::Record => {
                files.run.drain_record = Some(Arc::new(session::record::record(&self.state)));
            }
            Effect::Publish if self.is_open => self.publish(files),
            Effect::Publish | Effect::WakeAt(_) => {}
            Effect::TakeOverride => {
                files.persist.order = None;
                self.step(Event::OverrideTaken { renamed: true }, server, now, scenario);
            }
            Effect::ListNodes { serial } => self.call(serial, Ask::ListNodes, server),
            Effect::Probe { serial } => self.call(serial, Ask::Probe, server),
            Effect::Cordon { serial } => self.call(serial, Ask::Cordon, server),
            Effect::Uncordon { serial } => self.call(serial, Ask::Uncordon, server),
            Effect::Adopt { serial } => self.call(serial, Ask::Adopt, server),
            Effect::ReadSlots { serial } => self.call(serial, Ask::ReadSlots, server),
            Effect::WriteSlots { serial, based_on, entry, .. } => {
                self.call(serial, Ask::WriteSlots { based_on, entry }, server);
            }
            // No scenario has a health command: it would be one more thing to wait for, like a slot.
            Effect::AskHealth { .. } => {}
            Effect::Drain(effect) => self.perform_drain(effect, server, strays),
        }
    }

    fn perform_drain(&mut self, effect: drain::Effect, server: &Server, strays: &mut Vec<Call>) {
        match effect {
            drain::Effect::Evict { attempt, pod, .. } | drain::Effect::Delete { attempt, pod, .. } => {
                self.call(attempt, Ask::Evict(pod), server);
            }
            drain::Effect::Relist { attempt, .. } => self.call(attempt, Ask::Relist, server),
            drain::Effect::Inquire { attempt, .. } => self.call(attempt, Ask::Inquire, server),
            drain::Effect::Abort => {
                let given_up = |call: &Call| matches!(call.ask, Ask::Evict(_) | Ask::Relist | Ask::Inquire);
                let calls = std::mem::take(&mut self.calls);
                let (given_up, kept): (Vec<Call>, Vec<Call>) = calls.into_iter().partition(given_up);
                self.calls = kept;
                strays
                    .extend(given_up.into_iter().filter(|call| call.answer.is_none() && call.ask.is_write()));
            }
            drain::Effect::WakeAt(_) => {}
        }
    }

    fn call(&mut self, serial: u32, ask: Ask, server: &Server) {
        let version = server.version;
        self.calls.push(Call { serial, ask, answer: None, held_until: None, version });
    }

    /// Publishes as `Output::write` does: the report with its reason, the status, the report with the answers.
    fn publish(&mut self, files: &Files) {
        let report = self.report();
        let status = NodeDrainStatus {
            status: self.state.published.status,
            requested_by: self.state.published.requested_by,
        };
        let mut parts = Vec::new();
        let known = (self.state.member, self.state.slots.others);
        if !self.state.adopts && (files.persist.member, files.persist.others) != (Some(known.0), known.1) {
            parts.push(Todo::Store(known.0, known.1));
        }
        let before = files.run.report.as_deref();
        if files.run.status != Some(status) {
            let early = with_answers_of(&report, before);
            if before != Some(&early) {
                parts.push(Todo::Report(Arc::new(early)));
            }
            parts.push(Todo::Status(status));
        }
        if before != Some(&report) || !parts.is_empty() {
            parts.push(Todo::Report(Arc::new(report)));
        }
        parts.into_iter().rev().for_each(|part| self.todo.push_front(part));
    }
}

fn hide_pods(event: &mut Event) {
    if let Event::Drain(
        drain::Event::Snapshot(snapshot) | drain::Event::Relisted { result: Ok(snapshot), .. },
    ) = event
    {
        Arc::make_mut(snapshot).pods.clear();
    }
}

/// The facts of a cluster member, as files show them.
const FACTS: Facts = Facts {
    eve_config_valid: None,
    mode: Mode::Auto,
    has_kubeconfig: true,
    nodeagent: NodeAgent::Silent,
    has_kubelet: true,
};

/// The state of nodeagent, as the inbox reads it.
fn nodeagent(files: &RunFiles) -> NodeAgent {
    match &files.action {
        None => NodeAgent::Silent,
        Some(action) if action.state == DeviceActionState::Acting => NodeAgent::Acting,
        Some(_) => NodeAgent::NotActing,
    }
}

/// The requests, as the inbox reads them.
fn requests(files: &RunFiles) -> Vec<Request> {
    let request = |(requester, item): (&DrainRequester, &schemas::NodeDrainRequest)| Request {
        requester: *requester,
        context: item.context.clone(),
        requested_at: item.requested_at.to_string(),
        publisher: publisher(item.requested_by).to_owned(),
        answer: Answer::None,
        forced_by: String::new(),
    };
    files.requests.iter().map(request).collect()
}
