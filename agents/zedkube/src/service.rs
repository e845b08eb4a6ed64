//! zedkube's main loop, the only owner of the state.
//!
//! `Service::next` waits and changes nothing; `Service::apply` changes and waits for nothing. Work that takes time runs
//! in a task, which answers with an event that carries a serial. So a second request cannot start a second drain, and a
//! late answer is recognised.

mod effects;
mod hanging;
mod outputs;

use std::time::Duration;

use cluster::node_conditions::DrainSaid;
use drain::Moment;
use pubsub::PublishError;
use runtime::agent_loop::AgentLoop;
use runtime::liveness::HANGS_AFTER;
use runtime::settings::Problem;
use runtime::zedbox::check_zedbox;
use runtime::{AgentContext, SettingsWatch, Stop, clock};
use schemas::{Member, RefusedInput, agent};
use session::membership::Facts;
use session::{Effect, Event, Policy, Request, State};
use uuid::Uuid;

use crate::commanding::{Around, Commanding, OwnRequest};
use crate::conditions::Conditions;
use crate::events::Events;
use crate::inbox::{Inbox, refused_input};
use crate::membership::Stored;
use crate::narrate::Narrator;
use crate::notify::Notifier;
use crate::override_file::OverrideFile;
use crate::perform::Performer;
use crate::publish::Output;
use crate::record::{Found, RecordFile};
use crate::recorder::Recorder;
use crate::report::{Surroundings, shown_answer};
use crate::shown_time::ShownTime;
use crate::{kubelet, nodes, policy};
pub use hanging::Hanging;

/// Longest delay before the progress of pods is published; a change of status or phase is published at once.
const PROGRESS_DEBOUNCE: Duration = Duration::from_millis(250);

/// Everything that the main loop owns.
#[derive(Debug)]
pub(crate) struct Service {
    context: AgentContext,
    settings: SettingsWatch,
    inbox: Inbox,
    performer: Performer,
    output: Output,
    commanding: Commanding,
    /// When the commands of the cluster are looked at again.
    command_at: Moment,
    conditions: Conditions,
    /// What the conditions have to say, by the last report.
    said: Option<DrainSaid>,
    /// When the conditions are looked at again.
    say_at: Moment,
    events: Events,
    recorder: Recorder,
    notifier: Notifier,
    stored: Stored,
    state: State,
    policy: Policy,
    wanted_policy: Policy,
    wake: Moment,
    /// When the loop has turned last.
    turned: Moment,
    /// When changes that are not published yet are written.
    publish_at: Moment,
    around: Surroundings,
    drain_number: u64,
    /// The inbox was read once: from then on changes are published.
    is_open: bool,
    time: ShownTime,
    narrator: Narrator,
    overrides: OverrideFile,
    record: RecordFile,
    /// Effects that wait until the record can be written.
    held: Vec<Effect>,
    /// When the record is written again, after a failure; `None` if the last write succeeded.
    record_again: Option<Moment>,
    /// When an override file that is not valid yet is read again.
    doubt_until: Moment,
    /// A call without an answer for this long, and for the time of a health check, hangs.
    hangs_after: Duration,
}

/// The reason why the loop woke up.
#[derive(Debug)]
enum Woken {
    Inbox,
    Settings,
    Override,
    /// device-op says something new about a command of the cluster.
    Commands,
    Event(Box<Event>),
}

impl Service {
    /// Takes the topics over, goes on from this boot's record, and publishes what is known before any other work.
    pub(crate) fn start(context: AgentContext) -> Result<Self, PublishError> {
        let mut service = Self::open(context)?;
        service.performer.stay_in_the_cluster(&service.state);
        service.performer.begin_housekeeping();
        service.begin();
        Ok(service)
    }

    fn open(context: AgentContext) -> Result<Self, PublishError> {
        let (root, lock) = (context.root(), context.lock());
        let mut inbox = Inbox::open(root);
        let stored = Stored::open(&context)?;
        let record = RecordFile::open(root, lock, context.boot_id())?;
        let output = Output::open(root, lock)?;
        let settings = context.settings();
        let policy = policy::of(&settings.current(), context.is_beside_zedbox());
        let now = now();
        let found = record.found();
        let mut overrides = OverrideFile::open(root);
        match &found {
            // A record exists, so an override file was written in this boot.
            Some(found) => inbox.go_on_from(&found.record.requests),
            None => overrides.refuse_leftovers(),
        }
        // The first record is written before anything else is done.
        let record_again = found.is_none().then_some(now);
        let (mut state, drain_id) = first_state(&stored, found, &inbox, context.boot_id(), now);
        state.remembered = stored.remembered();
        let performer = Performer::start(root, settings.clone());
        Ok(Self {
            inbox,
            commanding: Commanding::new(&context, performer.link()),
            command_at: Moment::NEVER,
            conditions: Conditions::start(performer.link()),
            said: None,
            say_at: Moment::NEVER,
            events: Events::start(performer.link()),
            recorder: Recorder::start(root),
            notifier: Notifier::start(settings.clone(), output.told()),
            performer,
            output,
            drain_number: state.session.number,
            around: Surroundings { drain_id, ..Surroundings::default() },
            narrator: Narrator::going_on_from(&state),
            state,
            stored,
            record,
            overrides,
            wanted_policy: policy.clone(),
            policy,
            wake: Moment::NEVER,
            turned: now,
            publish_at: Moment::NEVER,
            held: Vec::new(),
            record_again,
            doubt_until: Moment::NEVER,
            hangs_after: hanging::TOO_LONG,
            is_open: false,
            time: ShownTime::new(now, clock::wall()),
            settings,
            context,
        })
    }

    /// Reads all inputs for the first time, and publishes the result once.
    fn begin(&mut self) {
        self.put_on_record(now());
        let is_pending = self.state.orders.pending.is_some();
        self.read_inbox();
        self.read_override();
        // The earlier process was killed after it had recorded the order and renamed its file.
        if is_pending && self.overrides.is_idle() {
            self.step(Event::OverrideTaken { renamed: true });
        }
        self.is_open = true;
        self.publish(now());
    }

    /// Turns until somebody asks to stop, or until only a new process can help; then writes what is still to be written.
    pub(crate) async fn run(&mut self, stop: Stop) -> Result<(), Hanging> {
        let mut end = Ok(());
        let mut agent_loop = AgentLoop::begin(&self.context, stop);
        while !agent_loop.is_over() && end.is_ok() {
            let next = Some(self.next_time()).filter(|next| *next != Moment::NEVER);
            agent_loop.succeeded(next.map(|next| now().until(next)));
            let woken = agent_loop.wait(Box::pin(self.next())).await;
            if agent_loop.is_over() {
                break;
            }
            self.turn();
            if let Some(woken) = woken {
                self.apply(woken);
            }
            self.on_time();
            end = self.look_for_hanging(now());
        }
        self.publish(now());
        end
    }

    /// Writes what is for people only.
    pub(crate) fn finish(self) -> impl Future<Output = ()> {
        self.recorder.finish()
    }

    /// Notes a turn of the loop. After a suspend, or if the loop stood still for so long that other agents took it for
    /// hanging, an answer of before has to be confirmed: its report is written before this turn counts as a sign of life.
    fn turn(&mut self) {
        let before = std::mem::replace(&mut self.turned, now());
        if before + HANGS_AFTER <= self.turned {
            self.state.nobody_looked();
            self.step(Event::Tick);
            self.publish(self.turned);
        }
    }

    /// Waits for the next event and changes nothing. A record that cannot be written holds effects back, but never
    /// events.
    async fn next(&mut self) -> Woken {
        tokio::select! {
            () = self.inbox.changed() => Woken::Inbox,
            event = self.performer.event() => Woken::Event(Box::new(event)),
            () = self.settings.changed() => Woken::Settings,
            () = self.overrides.changed() => Woken::Override,
            () = self.commanding.changed() => Woken::Commands,
        }
    }

    fn next_time(&self) -> Moment {
        let record_again = self.record_again.unwrap_or(Moment::NEVER);
        let outputs = self.publish_at.min(self.command_at).min(self.say_at);
        self.wake.min(outputs).min(self.doubt_until).min(record_again)
    }

    /// Changes the state and waits for nothing.
    fn apply(&mut self, woken: Woken) {
        match woken {
            Woken::Inbox => self.read_inbox(),
            Woken::Settings => self.read_settings(),
            Woken::Override => self.read_override(),
            // `on_time` looks at them after each event.
            Woken::Commands => {}
            Woken::Event(event) => self.on_event(*event),
        }
    }

    /// Handles an event. With each list of nodes the device's own facts are read again: a kubelet or a kubeconfig may
    /// come later than zedkube.
    fn on_event(&mut self, event: Event) {
        if matches!(event, Event::NodesListed { .. } | Event::NodesSampled { .. }) {
            let facts = self.facts();
            if facts != self.state.facts {
                self.step(Event::Facts(facts));
            }
        }
        if let Event::Drain(drain::Event::Answer { answer, .. }) = &event
            && let Some(name) = answer.name()
        {
            schemas::one_more(&mut self.around.eviction_answers, name);
        }
        self.step(event);
    }

    /// Runs every due timer. Called after each event, so that events cannot starve timers.
    fn on_time(&mut self) {
        let now = now();
        if self.record_again.is_some_and(|at| at <= now) {
            self.put_on_record(now);
        }
        if self.doubt_until <= now {
            self.read_override();
        }
        if self.wake <= now {
            self.step(Event::Tick);
        }
        if self.publish_at <= now {
            self.publish(now);
        }
        self.command(now);
        self.say(now);
    }

    /// Passes on what the cluster commands by the annotations of our Node, and answers there.
    fn command(&mut self, now: Moment) {
        let uid = self.state.own.as_ref().map(|own| own.uid.as_str());
        let request = self.state.requests.iter().find(|request| request.publisher == agent::ZEDKUBE);
        let own_request = |request: &Request| {
            let (answer, outcome) = shown_answer(request, &self.state);
            let (context, reason) = (request.context.clone(), session::words::reason(&self.state));
            let is_member = self.state.member_now() != Member::No;
            OwnRequest { context, answer, outcome, is_member, reason }
        };
        let around = Around {
            is_on: self.settings.current().commands.from_cluster,
            node: uid.and_then(|uid| self.performer.own_seen(uid)).cloned(),
            phase: self.state.phase.clone(),
            request: request.map(own_request),
            action: self.inbox.device_action(self.context.boot_id()).cloned(),
        };
        self.command_at = self.commanding.turn(around, now);
    }

    /// Tells the cluster by our Node's conditions how far the drain is.
    fn say(&mut self, now: Moment) {
        // An API server that is away takes nothing, and each try counts for the pace of what a drain needs.
        let own = self.state.own.as_ref().filter(|_| self.state.api.away_since.is_none());
        let seen = own.and_then(|own| self.performer.own_seen(&own.uid));
        self.say_at = self.conditions.show(own, seen.map(|node| &node.drain), self.said.as_ref(), now);
    }

    /// The facts come first: a plain single device must not begin to drain because its request was read earlier.
    fn read_inbox(&mut self) {
        self.around.refused = self.refused();
        let identity = nodes::identity(
            self.settings.current().node.name.as_ref().map(|name| name.as_str().to_owned()),
            self.context.machine_id().map(str::to_owned),
            Some(self.context.boot_id().to_owned()),
            self.inbox.node_info(),
        );
        self.performer.identify_as(identity);
        let facts = self.facts();
        self.step(Event::Facts(facts));
        self.step(Event::Requests(self.inbox.requests()));
    }

    /// Reads an operator's order, if there is a new one.
    fn read_override(&mut self) {
        let (order, again) = self.overrides.look(now());
        self.doubt_until = again.unwrap_or(Moment::NEVER);
        let refused = self.refused();
        if refused != self.around.refused {
            self.around.refused = refused;
            self.publish_at = self.publish_at.min(now() + PROGRESS_DEBOUNCE);
        }
        if let Some(order) = order {
            tracing::warn!("override: {:?} by {}", order.what, order.by);
            self.recorder.ordered(order.what, &order.by);
            self.step(Event::Override(order));
        }
    }

    fn read_settings(&mut self) {
        self.wanted_policy = policy::of(&self.settings.current(), self.context.is_beside_zedbox());
        self.around.refused = self.refused();
        let facts = self.facts();
        self.step(Event::Facts(facts));
    }

    /// All refused input files, settings first, because they may have changed a decision.
    fn refused(&self) -> Vec<RefusedInput> {
        let line = |problem: &Problem| RefusedInput {
            path: problem.origin.to_string(),
            reason: problem.to_string(),
        };
        let loaded = self.settings.loaded();
        let of_controller = loaded.refused.iter().map(refused_input);
        let problems = loaded.problems.iter().map(line);
        problems.chain(of_controller).chain(self.overrides.refused()).chain(self.inbox.refused()).collect()
    }

    fn facts(&mut self) -> Facts {
        // Before the first status is published nothing is read of a disk that may be slow.
        let is_on = self.is_open && self.settings.current().commands.from_cluster;
        let has_kubeconfig = self.performer.has_kubeconfig();
        Facts {
            eve_config_valid: self.inbox.eve_config_valid(),
            is_beside_eve: self.inbox.has_eves_topics() || check_zedbox(self.context.root()).is_err(),
            mode: self.settings.current().cluster.mode,
            obeys_drains: self.commanding.obeys_drains(is_on),
            may_be_kept: self.inbox.may_be_kept(),
            has_kubeconfig,
            nodeagent: self.inbox.nodeagent(self.context.boot_id()),
            // The search reads one file of each process, and is not needed if there is a kubeconfig.
            has_kubelet: !has_kubeconfig && kubelet::is_at_home(self.context.root()),
        }
    }

    /// Handles one event: decides, publishes, acts.
    fn step(&mut self, event: Event) {
        let now = now();
        policy::take_over(&mut self.policy, &self.wanted_policy, &self.state);
        let effects = self.decide(event, now);
        self.narrator.tell(&self.state, &self.around.drain_id, now);
        self.publish_at = self.publish_at.min(now + PROGRESS_DEBOUNCE);
        self.performer.stay_in_the_cluster(&self.state);
        self.work_off(effects, now);
        self.performer.follow(&self.state);
    }

    /// Decides what follows from an event, and records it. If the record cannot be written, it decides again with a
    /// state that knows about the failure.
    fn decide(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        if self.state.is_unrecorded {
            return self.decide_once(event, now);
        }
        let (before, again) = (self.state.clone(), event.clone());
        let effects = self.decide_once(event, now);
        if !effects.contains(&Effect::Record) || self.is_on_record(now) {
            return effects;
        }
        self.state = State { is_unrecorded: true, ..before };
        self.decide_once(again, now)
    }

    fn decide_once(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let (state, mut effects) = session::step(std::mem::take(&mut self.state), event, now, &self.policy);
        self.state = state;
        self.name_the_drain();
        self.wake = Moment::NEVER;
        effects.retain(|effect| {
            let wake = if let Effect::WakeAt(moment) = effect { Some(*moment) } else { None };
            self.wake = wake.unwrap_or(self.wake);
            wake.is_none()
        });
        effects
    }

    /// Gives each drain its own id.
    fn name_the_drain(&mut self) {
        if self.drain_number != self.state.session.number {
            self.drain_number = self.state.session.number;
            self.around.drain_id = Uuid::new_v4().to_string();
        }
        if let Some(own) = &self.state.own {
            self.around.node.clone_from(&own.name);
        }
    }
}

/// The state at the start: from this boot's record, or from the stored membership only. If EVE's topics exist, but
/// neither a membership nor a record of ours was ever written, EVE's zedkube ran until now.
fn first_state(
    stored: &Stored,
    found: Option<Found>,
    inbox: &Inbox,
    boot_id: &str,
    now: Moment,
) -> (State, String) {
    let Some(found) = found else {
        let adopts = !stored.exists() && inbox.has_eves_topics();
        let state = State::new(stored.member(), boot_id.to_owned(), now).knowing(stored.holders().others);
        let state = state.remembering(&stored.holders());
        return (State { adopts, ..state }, String::new());
    };
    tracing::info!(
        drain_id = found.drain_id,
        "continuing from the record of the previous zedkube process of this boot"
    );
    let state = session::resume(found.record, stored.member(), boot_id.to_owned(), now);
    (state.remembering(&stored.holders()), found.drain_id)
}

fn now() -> Moment {
    Moment(clock::boot_millis())
}

#[cfg(test)]
mod tests;
