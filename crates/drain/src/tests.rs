//! Shared parts of the tests of this crate: an attempt that gets events and must answer with effects.

use std::sync::Arc;
use std::time::Duration;

use selector::Selector;

use crate::answer::{Answer, BudgetRefusal};
use crate::policy::Policy;
use crate::state::{Attempt, Outcome, Stage, State, Track};
use crate::storage::Attachments;
use crate::time::Moment;
use crate::view::{BudgetView, Controller, NodeView, Phase, PodId, PodView, Snapshot, Terminating};
use crate::{Effect, Event, step};

/// One attempt under test, with its clock.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) state: State,
    pub(crate) now: Moment,
    pub(crate) policy: Policy,
}

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(Policy::device(), None)
    }

    pub(crate) fn with(policy: Policy, api_back: Option<Moment>) -> Self {
        let mut bench = Self { state: State::Idle, now: Moment(1_000_000), policy };
        bench.send(Event::Start { attempt: 1, api_back });
        bench
    }

    /// Sends one event and returns the effects without wake-ups.
    pub(crate) fn send(&mut self, event: Event) -> Vec<Effect> {
        let (state, effects) = step(std::mem::take(&mut self.state), event, self.now, &self.policy);
        self.state = state;
        effects.into_iter().filter(|effect| !matches!(effect, Effect::WakeAt(_))).collect()
    }

    pub(crate) fn after(&mut self, span: Duration) -> Vec<Effect> {
        self.now = self.now + span;
        self.send(Event::Tick)
    }

    pub(crate) fn snapshot(&mut self, snapshot: Snapshot) -> Vec<Effect> {
        self.send(Event::Snapshot(Arc::new(snapshot)))
    }

    /// Answers the relist in flight. If attachments were asked for, the answer has them: an empty list, if the
    /// snapshot says nothing.
    pub(crate) fn answer_relist(&mut self, mut snapshot: Snapshot) -> Vec<Effect> {
        if snapshot.storage.attachments == Attachments::NotAsked {
            snapshot.storage.attachments = Attachments::Listed(vec![]);
        }
        self.send(Event::Relisted { attempt: 1, result: Ok(Arc::new(snapshot)) })
    }

    /// The watches have been silent for so long that a relist is asked for.
    pub(crate) fn silence(&mut self) -> Vec<Effect> {
        self.after(crate::attempt::REFRESH)
    }

    /// The look that is on its way fails.
    pub(crate) fn fails(&mut self, why: &str) -> Vec<Effect> {
        self.send(Event::Relisted { attempt: 1, result: Err(why.into()) })
    }

    pub(crate) fn answer(&mut self, uid: &str, answer: Answer) -> Vec<Effect> {
        self.send(Event::Answer { attempt: 1, uid: uid.into(), answer })
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match &self.state {
            State::Ended(_, outcome) => Some(outcome.clone()),
            State::Idle | State::Draining(_) | State::Verifying(..) => None,
        }
    }

    /// The attempt that runs or has ended.
    pub(crate) fn attempt(&self) -> &Attempt {
        crate::progress::attempt(&self.state).expect("an attempt")
    }

    pub(crate) fn track(&self, uid: &str) -> &Track {
        &self.attempt().pods()[uid]
    }

    pub(crate) fn stage(&self, uid: &str) -> Option<Stage> {
        crate::progress::attempt(&self.state)?.pods().get(uid).map(|track| track.stage().clone())
    }
}

pub(crate) fn pod(uid: &str) -> PodView {
    let controller =
        Controller { kind: "ReplicaSet".into(), api_version: "apps/v1".into(), ..Controller::default() };
    PodView {
        id: PodId { namespace: "a".into(), name: format!("pod-{uid}"), uid: uid.into() },
        phase: Phase::Running,
        ready: true,
        controller: Some(controller),
        grace: Duration::from_secs(30),
        ..PodView::default()
    }
}

pub(crate) fn terminating(uid: &str) -> PodView {
    PodView {
        terminating: Some(Terminating { grace: Duration::from_secs(30), ..Terminating::default() }),
        ..pod(uid)
    }
}

pub(crate) fn node(cordoned: bool) -> NodeView {
    NodeView { name: "n".into(), uid: "node".into(), cordoned, ready: true, ..NodeView::default() }
}

pub(crate) fn with(pods: Vec<PodView>) -> Snapshot {
    Snapshot { node: Some(node(true)), pods, ..Snapshot::default() }
}

pub(crate) fn guarded(pods: Vec<PodView>, allowed: i32, version: &str) -> Snapshot {
    let budget = BudgetView {
        namespace: "a".into(),
        name: "b".into(),
        version: version.into(),
        selector: Some(Selector::default()),
        disruptions_allowed: allowed,
        ..BudgetView::default()
    };
    Snapshot { budgets: vec![budget], ..with(pods) }
}

pub(crate) fn evicted(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Evict { pod, .. } | Effect::Delete { pod, .. } => Some(pod.uid.as_str()),
            Effect::Relist { .. } | Effect::Inquire { .. } | Effect::WakeAt(_) | Effect::Abort => None,
        })
        .collect()
}

pub(crate) fn refusal() -> Answer {
    Answer::Budget(BudgetRefusal { text: "needs 1 healthy pods and has 1 currently".into(), after: None })
}

/// A final check: a relist that also lists attachments.
pub(crate) const RELIST: Effect = Effect::Relist { attempt: 1, volumes: true };

/// A relist in place of a silent watch.
pub(crate) const REFRESH: Effect = Effect::Relist { attempt: 1, volumes: false };

mod attempt;
mod clocks;
mod escalation;
mod force;
mod inquiries;
mod properties;
mod record;
mod relists;
mod returns;
pub(crate) mod states;
mod terminating;
mod turns;
