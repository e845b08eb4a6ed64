//! baseos: the real `activation::step`, with a model of the main loop around it.

use std::collections::{BTreeMap, VecDeque};

use baseos::activation::{Event, Policy, step};
use baseos::effect::Effect;
use baseos::facts::{Configured, Content, Facts, Running};
use baseos::{Phase, State};
use runtime::Gate;
use runtime::clock::Moment;
use runtime::requester::GateReading;
use runtime::siblings::NodeAgentView;
use schemas::{DrainRequester, GoTime, NodeDrainRequest};

use crate::device_op::{Around, LOOK_MS, PAUSE_MS};
use crate::files::Files;
use crate::requester::Requester;
use crate::scenario::Scenario;

/// A running activate command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Serial of the effect that started it.
    pub serial: u32,
    /// Version of the image.
    pub version: String,
    /// The command runs until this time.
    pub until: u64,
}

/// One process of baseos.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseOs {
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
    /// The running activate command.
    pub command: Option<Activation>,
    look: Look,
    before: Option<Box<(State, Event)>>,
    again: Option<Event>,
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

impl BaseOs {
    /// A new process, which begins as `Desk::open` does.
    pub fn start(files: &Files, boot_id: &str) -> Self {
        let own = files.persist.activations.as_ref().and_then(|record| record.request);
        Self {
            state: resumed(files, boot_id),
            todo: VecDeque::new(),
            wake: None,
            is_restless: true,
            requester: Requester::open(DrainRequester::Update, own),
            command: None,
            look: Look::None,
            before: None,
            again: None,
        }
    }

    /// True if the process would poll now.
    pub fn is_due(&self, now: u64) -> bool {
        let wants = self.is_restless || self.is_looking() || self.wake.is_some_and(|at| at <= now);
        self.todo.is_empty() && (wants || self.again.is_some())
    }

    /// True if changes of the gate's facts wake the process.
    pub fn listens_to_gate(&self) -> bool {
        match self.state.phase {
            Phase::Deferred | Phase::Holding | Phase::Activated => true,
            Phase::Idle | Phase::Activating { .. } | Phase::Adopted | Phase::Recalling | Phase::Failed => {
                false
            }
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
        !self.is_looking() && self.again.is_none() && self.listens_to_gate()
    }

    /// True if the activate command can end now.
    pub fn can_end(&self, now: u64) -> bool {
        let is_over = self.ends_at().is_some_and(|at| at <= now);
        self.todo.is_empty() && !self.is_looking() && is_over
    }

    /// When the activate command ends.
    pub fn ends_at(&self) -> Option<u64> {
        self.command.as_ref().map(|command| command.until)
    }

    /// Reads the next part of a poll; after the last part it decides. `running` is the version that runs,
    /// `left_running` the end of the time limit of an activate command of an earlier process.
    pub fn look(&mut self, files: &Files, running: &str, left_running: Option<u64>, around: &Around<'_>) {
        if let Some(event) = self.again.take() {
            return self.step(event, around);
        }
        match std::mem::take(&mut self.look) {
            Look::None => {
                (self.is_restless, self.wake) = (false, None);
                let facts = self.begin(files, running, around);
                // The commands of a scenario end before any limit, so none has to be killed.
                let left_running = left_running.map(|_| u64::MAX);
                self.look = Look::Begun(Box::new(Facts { left_running, ..facts }));
            }
            Look::Begun(facts) => {
                let nodeagent = NodeAgentView { is_running: around.is_nodeagent_up, ..facts.nodeagent };
                self.look = Look::LockAsked(Box::new(Facts { nodeagent, ..*facts }));
            }
            Look::LockAsked(facts) => {
                let action = files.run.action.clone().unwrap_or_default();
                let nodeagent = NodeAgentView { action: Some(action), ..facts.nodeagent };
                self.step(Event::Looked(Box::new(Facts { nodeagent, ..*facts })), around);
            }
        }
    }

    fn begin(&mut self, files: &Files, running: &str, around: &Around<'_>) -> Facts {
        let configs: BTreeMap<String, Configured> = files
            .run
            .configs
            .iter()
            .map(|(uuid, config)| (uuid.clone(), Configured::Given(config.clone())))
            .collect();
        let current = self.state.record.current_uuid().map(str::to_owned);
        let known = configs.keys().cloned().chain(current);
        let contents = known.map(|uuid| (uuid, Content::LOADED)).collect();
        let gate = self.listens_to_gate().then(|| {
            let (now, is_away) = (around.now, around.is_zedkube_away);
            let verdict = self.requester.verdict(&files.run, is_away, now, around.scenario);
            Gate { verdict, blocked_by: String::new(), release: String::new() }
        });
        Facts {
            configs,
            sources: BTreeMap::new(),
            is_partial: false,
            left_running: None,
            frozen: None,
            contents,
            running: Running::Version(running.to_owned()),
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

    /// Ends the activate command; returns the version that the device boots next.
    pub fn end(&mut self, works: bool, around: &Around<'_>) -> Option<String> {
        let Activation { serial, version, .. } = self.command.take()?;
        let result = if works { Ok(()) } else { Err("exit 1".to_owned()) };
        self.step(Event::Ended { serial, result }, around);
        works.then_some(version)
    }

    fn step(&mut self, event: Event, around: &Around<'_>) {
        let before = self.state.clone();
        let policy = Policy { retry: around.scenario.limits.retry, dry_run: false, can_activate: true };
        let moment = Moment { boot_ms: around.now, wall: GoTime::ZERO };
        let (next, effects) = step(self.state.clone(), &event, moment, policy);
        self.state = next;
        self.is_restless |= !matches!(event, Event::Looked(_));
        self.before = Some(Box::new((before, event)));
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
    pub fn perform(&mut self, files: &mut Files, now: u64, scenario: &Scenario) -> bool {
        self.is_restless = true;
        let mut is_request = false;
        match self.todo.pop_front() {
            None | Some(Effect::WakeAt(_) | Effect::WriteDown(_) | Effect::EndLeftRunning) => {}
            Some(Effect::Record(record)) => {
                files.persist.activations = (!record.is_empty()).then_some(record);
            }
            Some(Effect::Withdraw) => self.requester.withdraw(&mut files.run),
            Some(Effect::Request { own, uuid }) => {
                self.requester.publish(own, scenario);
                let request = NodeDrainRequest {
                    requested_at: own.requested_at,
                    requested_by: DrainRequester::Update,
                    context: uuid,
                };
                files.run.requests.insert(DrainRequester::Update, request);
                is_request = true;
            }
            Some(Effect::Hold(hold)) => files.run.hold = Some(*hold),
            Some(Effect::Status(status)) => {
                files.run.images.insert(status.content_tree_uuid.clone(), *status);
            }
            Some(Effect::Forget(uuid)) => {
                files.run.images.remove(&uuid);
            }
            Some(Effect::Activate { serial, config }) => {
                let until = now + scenario.limits.short_ms;
                self.command = Some(Activation { serial, version: config.base_os_version, until });
            }
        }
        if self.todo.is_empty() {
            self.before = None;
        }
        is_request
    }

    /// Lets the next effect fail; the effects after it are not performed.
    pub fn fail(&mut self, files: &Files, boot_id: &str, now: u64) {
        if let Some(Effect::Request { own, .. }) = self.todo.pop_front() {
            // The item may have been written or not.
            self.requester.own = Some(own);
        }
        self.todo.clear();
        if let Some(before) = self.before.take() {
            let (state, event) = *before;
            self.state = state.after_failure(resumed(files, boot_id));
            self.again = Some(event).filter(|event| !matches!(event, Event::Looked(_)));
        }
        (self.is_restless, self.wake) = (false, Some(now + PAUSE_MS));
    }
}

fn resumed(files: &Files, boot_id: &str) -> State {
    let hold = files.run.hold.clone().unwrap_or_default();
    State::resume(files.persist.activations.clone(), hold, files.run.images.clone(), boot_id)
}
