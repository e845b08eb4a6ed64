//! The loop.

use std::future::pending;
use std::time::Duration;

use drain::Moment;
use pubsub::PublishError;
use runtime::settings::Problem;
use runtime::{AgentContext, SettingsWatch, Stop, clock, error_chain};
use schemas::RefusedInput;
use session::membership::Facts;
use session::step::{Effect, Event};
use session::{Policy, State};
use uuid::Uuid;

use crate::inbox::Inbox;
use crate::membership::Stored;
use crate::narrate::Narrator;
use crate::perform::Performer;
use crate::publish::Output;
use crate::report::{Surroundings, report, status};
use crate::shown_time::ShownTime;
use crate::{looks, policy};

/// Progress of pods is published at most so often; a change of status or phase at once.
const AT_LEISURE: Duration = Duration::from_millis(250);

/// Everything that the loop owns.
#[derive(Debug)]
pub(crate) struct Service {
    context: AgentContext,
    settings: SettingsWatch,
    inbox: Inbox,
    performer: Performer,
    output: Output,
    stored: Stored,
    state: State,
    policy: Policy,
    wanted_policy: Policy,
    wake: Moment,
    /// Something to be seen has changed, and is to be written then.
    publish_at: Moment,
    around: Surroundings,
    drain_number: u64,
    /// The first look at the inbox is over: from then on changes are published.
    is_open: bool,
    time: ShownTime,
    narrator: Narrator,
}

/// What woke the loop.
#[derive(Debug)]
enum Woken {
    Inbox,
    Settings,
    Event(Box<Event>),
    Time,
    Alive,
}

impl Service {
    /// Takes the topics over and shows, before any other work, what is known.
    pub(crate) fn start(context: AgentContext) -> Result<Self, PublishError> {
        let (root, lock) = (context.root(), context.lock());
        let stored = Stored::open(root, lock)?;
        let output = Output::open(root, lock)?;
        let settings = context.settings();
        let policy = policy::of(&settings.current(), context.is_beside_zedbox());
        let now = now();
        let mut service = Self {
            inbox: Inbox::open(root),
            performer: Performer::start(root, &settings.current()),
            output,
            state: State::new(stored.member(), context.boot_id().to_owned(), now),
            stored,
            wanted_policy: policy.clone(),
            policy,
            wake: Moment::NEVER,
            publish_at: Moment::NEVER,
            around: Surroundings::default(),
            drain_number: 0,
            is_open: false,
            time: ShownTime::new(now, clock::wall()),
            narrator: Narrator::default(),
            settings,
            context,
        };
        service.read_inbox();
        service.is_open = true;
        service.publish(now);
        service.context.liveness().ready();
        Ok(service)
    }

    /// Turns until somebody asks to stop; then writes what is still to be written.
    pub(crate) async fn run(&mut self, stop: &Stop) {
        while !stop.is_requested() {
            let woken = tokio::select! {
                () = stop.requested() => break,
                woken = self.next() => woken,
            };
            self.apply(woken);
        }
        self.publish(now());
    }

    /// Waits, and changes nothing.
    async fn next(&mut self) -> Woken {
        let at = self.wake.min(self.publish_at);
        tokio::select! {
            () = self.inbox.changed() => Woken::Inbox,
            event = self.performer.event() => Woken::Event(Box::new(event)),
            () = self.settings.changed() => Woken::Settings,
            () = until(at) => Woken::Time,
            () = self.context.liveness().due() => Woken::Alive,
        }
    }

    /// Changes, and waits for nothing.
    fn apply(&mut self, woken: Woken) {
        match woken {
            Woken::Inbox => self.read_inbox(),
            Woken::Settings => self.read_settings(),
            Woken::Event(event) => self.step(*event),
            Woken::Time => self.on_time(),
            Woken::Alive => self.context.liveness().progress(),
        }
    }

    fn on_time(&mut self) {
        let now = now();
        if self.wake <= now {
            self.step(Event::Tick);
        }
        if self.publish_at <= now {
            self.publish(now);
        }
    }

    /// The facts come first: a plain single device must not begin to drain because a request was seen earlier.
    fn read_inbox(&mut self) {
        self.around.refused = self.refused();
        let identity = looks::identity(
            self.settings.current().node.name.as_ref().map(|name| name.as_str().to_owned()),
            self.context.machine_id(),
            self.inbox.node_info(),
        );
        self.performer.identify_as(identity);
        self.step(Event::Facts(self.facts()));
        self.step(Event::Requests(self.inbox.requests()));
    }

    fn read_settings(&mut self) {
        self.wanted_policy = policy::of(&self.settings.current(), self.context.is_beside_zedbox());
        self.around.refused = self.refused();
        self.step(Event::Facts(self.facts()));
    }

    /// All input that is not taken: settings first, since they may have changed what is decided.
    fn refused(&self) -> Vec<RefusedInput> {
        let line = |problem: &Problem| RefusedInput {
            path: problem.origin.to_string(),
            reason: problem.to_string(),
        };
        self.settings.loaded().problems.iter().map(line).chain(self.inbox.refused()).collect()
    }

    fn facts(&self) -> Facts {
        Facts {
            eve_config_valid: self.inbox.eve_config_valid(),
            mode: policy::mode(&self.settings.current()),
            has_kubeconfig: self.performer.has_kubeconfig(),
        }
    }

    /// One event: decide, show, act.
    fn step(&mut self, event: Event) {
        let now = now();
        policy::take_over(&mut self.policy, &self.wanted_policy, &self.state);
        let (state, effects) = session::step(std::mem::take(&mut self.state), event, now, &self.policy);
        self.state = state;
        self.wake = Moment::NEVER;
        self.name_the_drain();
        self.narrator.tell(&self.state, &self.around.drain_id, now);
        self.publish_at = self.publish_at.min(now + AT_LEISURE);
        for effect in effects {
            match effect {
                Effect::Publish if self.is_open => self.publish(now),
                Effect::Publish => {}
                Effect::WakeAt(moment) => self.wake = moment,
                effect @ (Effect::Look { .. }
                | Effect::Probe { .. }
                | Effect::Cordon { .. }
                | Effect::Uncordon { .. }
                | Effect::Drain(_)) => self.performer.perform(effect, &self.state),
            }
        }
        self.performer.follow(&self.state);
    }

    /// Every drain has an id of its own.
    fn name_the_drain(&mut self) {
        if self.drain_number != self.state.session.number {
            self.drain_number = self.state.session.number;
            self.around.drain_id = Uuid::new_v4().to_string();
        }
        if let Some(own) = &self.state.own {
            self.around.node.clone_from(&own.name);
        }
    }

    /// Watches fail silently: say once why, and show it.
    fn note_trouble(&mut self) {
        let trouble = self.performer.trouble();
        if trouble != self.around.trouble {
            if let Some(text) = &trouble {
                tracing::warn!("nodedrain-step: the watches have failed: {text}");
            } else {
                tracing::info!("nodedrain-step: the watches work again");
            }
            self.around.trouble = trouble;
        }
    }

    /// Writes what is to be seen. A failure is said once and repeated with pauses.
    fn publish(&mut self, now: Moment) {
        self.publish_at = Moment::NEVER;
        self.note_trouble();
        self.time.update(now, clock::wall());
        let report = report(&self.state, &self.around, &self.time, now);
        let was_failing = self.output.retry_at();
        if was_failing.is_some_and(|at| now < at) {
            self.publish_at = was_failing.unwrap_or(Moment::NEVER);
            return;
        }
        let stored = self.stored.store(self.state.member);
        match stored.and_then(|()| self.output.write(status(&self.state), &report)) {
            Ok(()) if was_failing.is_some() => tracing::info!("status and report can be written again"),
            Ok(()) => {}
            Err(error) => {
                if was_failing.is_none() {
                    tracing::error!("NodeDrainStatus cannot be published: {}", error_chain(&error));
                }
                self.publish_at = self.output.failed(now);
            }
        }
    }
}

fn now() -> Moment {
    Moment(clock::boot_millis())
}

/// Waits until the moment. The clock that decides goes on during suspend, the timer does not, so a long wait looks
/// at the clock every now and then.
async fn until(moment: Moment) {
    const LONGEST: Duration = Duration::from_secs(10);
    if moment == Moment::NEVER {
        return pending().await;
    }
    loop {
        let left = now().until(moment);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST)).await;
    }
}
