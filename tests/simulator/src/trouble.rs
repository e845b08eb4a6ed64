//! What is wrong with the cluster: drawn from the seed, and carried out on the fake API server.

use std::time::Duration;

use anyhow::Result;
use fake_cluster::{Controller, Effect, FakeCluster, Fault, Reply};
use serde_json::json;

use crate::kernel;
use crate::world::{MINUTE, SECOND, below, chance, pick};

/// Something that is wrong with the cluster from a moment on, or the end of it.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The API server cannot be reached, until [`Trouble::ApiUp`].
    ApiDown,
    ApiUp,
    /// The next so many requests with this verb and resource fail so.
    Fault(&'static str, &'static str, Effect, u32),
    /// Watches end, as when a server restarts.
    CutWatches,
    /// Older versions are answered with 410.
    ForgottenHistory,
    /// All requests with this verb and resource fail so, until [`Trouble::Over`].
    Lasts(&'static str, &'static str, Effect),
    /// The watches of a kind tell nothing.
    SilentWatches(&'static str),
    /// Lists from the watch cache are old.
    FrozenCache,
    /// A controller stands still.
    Paused(Controller),
    /// The scheduler binds pods to cordoned nodes.
    BlindScheduler,
    /// Everything is well again, but a server that is down stays down.
    Over,
}

impl Trouble {
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// For the story.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::ApiDown => "the API server goes away".to_owned(),
            Self::ApiUp => "the API server is back".to_owned(),
            Self::Fault(verb, resource, effect, times) => {
                format!("fault: the next {times} of {verb} {resource}: {effect:?}")
            }
            Self::CutWatches => "all watches are cut".to_owned(),
            Self::ForgottenHistory => "the API server forgets its history".to_owned(),
            Self::Lasts(verb, resource, effect) => {
                format!("fault: from now on {verb} {resource}: {effect:?}")
            }
            Self::SilentWatches(resource) => format!("the watches of {resource} are silent"),
            Self::FrozenCache => "the API server's cache is frozen".to_owned(),
            Self::Paused(controller) => format!("the controller {controller:?} stands still"),
            Self::BlindScheduler => "the scheduler does not see cordons".to_owned(),
            Self::Over => "the faults of the cluster end".to_owned(),
        }
    }

    /// What kind of fault it is, for the coverage; None for the end of one.
    pub(crate) fn kind(&self) -> Option<String> {
        let kind = match self {
            Self::ApiDown => "API server away".to_owned(),
            Self::ApiUp => "API server back".to_owned(),
            Self::Fault(_, _, effect, _) => format!("request: {}", effect_kind(effect)),
            Self::CutWatches => "watches cut".to_owned(),
            Self::ForgottenHistory => "watch: 410".to_owned(),
            Self::Lasts(_, _, effect) => format!("requests for long: {}", effect_kind(effect)),
            Self::SilentWatches(_) => "silent watches".to_owned(),
            Self::FrozenCache => "frozen cache".to_owned(),
            Self::Paused(controller) => format!("{controller:?} controller stands still"),
            Self::BlindScheduler => "scheduler ignores cordons".to_owned(),
            Self::Over => return None,
        };
        Some(kind)
    }

    /// Carries it out.
    pub(crate) fn begin(&self, cluster: &FakeCluster) -> Result<()> {
        let faults = cluster.faults();
        match self {
            Self::ApiDown => faults.api_down()?,
            Self::ApiUp => faults.api_up()?,
            Self::Fault(verb, resource, effect, times) => {
                faults.add(Fault::on(verb, resource, effect.clone()).times(*times));
            }
            Self::CutWatches => faults.cut_watches(None),
            Self::ForgottenHistory => faults.forget_history(),
            Self::Lasts(verb, resource, effect) => {
                faults.add(Fault::on(verb, resource, effect.clone()).always());
            }
            Self::SilentWatches(resource) => {
                faults.silence_watches((*resource != "*").then_some(*resource));
            }
            Self::FrozenCache => faults.freeze_cache(),
            Self::Paused(controller) => faults.pause(*controller),
            Self::BlindScheduler => faults.blind_scheduler(true),
            Self::Over => {
                faults.clear();
                faults.blind_scheduler(false);
            }
        }
        Ok(())
    }
}

fn effect_kind(effect: &Effect) -> String {
    match effect {
        Effect::Answer(reply) | Effect::AnswerAfter(reply) => reply.code.to_string(),
        Effect::Delay(_) => "slow".to_owned(),
        Effect::ResetBefore => "reset before".to_owned(),
        Effect::ResetAfter => "reset after".to_owned(),
        Effect::Hang => "hangs before".to_owned(),
        Effect::HangAfter => "hangs after".to_owned(),
    }
}

/// What goes wrong in a history, and when.
pub(crate) fn draw() -> Vec<(u64, Trouble)> {
    let any = || 10 * SECOND + kernel::below(3 * MINUTE);
    let mut drawn = Vec::new();
    if chance(3) {
        let from = any();
        drawn.push((from, Trouble::ApiDown));
        drawn.push((from + kernel::below(pick(&[5, 60, 400, 2400]) * SECOND), Trouble::ApiUp));
    }
    for _ in 0..below(4) {
        let (verb, resource) = pick(&REQUESTS);
        drawn.push((any(), Trouble::Fault(verb, resource, draw_effect(), 1 + below(6))));
    }
    for what in [Trouble::CutWatches, Trouble::ForgottenHistory] {
        if chance(4) {
            drawn.push((any(), what));
        }
    }
    if chance(2) {
        let from = 10 * SECOND + kernel::below(2 * MINUTE);
        for _ in 0..=below(2) {
            drawn.push((from + kernel::below(MINUTE), draw_lasting()));
        }
        drawn.push((from + MINUTE + kernel::below(pick(&[1, 5, 20]) * MINUTE), Trouble::Over));
    }
    drawn
}

/// A fault that passes by itself.
pub(crate) fn draw_passing() -> Trouble {
    match below(4) {
        0 => Trouble::CutWatches,
        1 => Trouble::ForgottenHistory,
        _ => {
            let (verb, resource) = pick(&REQUESTS);
            Trouble::Fault(verb, resource, draw_effect(), 1 + below(6))
        }
    }
}

/// Requests of our agents, as the audit log names them.
const REQUESTS: [(&str, &str); 10] = [
    ("create", "pods/eviction"),
    ("patch", "nodes"),
    ("get", "nodes"),
    ("list", "nodes"),
    ("list", "pods"),
    ("watch", "pods"),
    ("update", "configmaps"),
    ("get", "configmaps"),
    ("list", "volumeattachments"),
    ("*", "*"),
];

fn draw_effect() -> Effect {
    match below(8) {
        0 => Effect::Answer(Reply::too_many_requests()),
        1 => Effect::Answer(Reply::text(503, "upstream connect error")),
        2 => Effect::Answer(Reply::text(404, "404 page not found")),
        3 => Effect::Answer(Reply::timeout()),
        4 => Effect::ResetBefore,
        5 => Effect::ResetAfter,
        6 => Effect::Hang,
        _ => Effect::HangAfter,
    }
}

fn draw_lasting() -> Trouble {
    match below(8) {
        0 => Trouble::Lasts("create", "pods/eviction", forbidden("create", "pods/eviction")),
        1 => {
            let (verb, resource) = pick(&[
                ("patch", "nodes"),
                ("get", "nodes"),
                ("list", "pods"),
                ("update", "configmaps"),
                ("list", "volumeattachments"),
            ]);
            Trouble::Lasts(verb, resource, forbidden(verb, resource))
        }
        2 => Trouble::Lasts("*", "*", unauthorized()),
        3 => {
            let slow = Effect::Delay(Duration::from_secs(pick(&[2, 12, 40])));
            Trouble::Lasts("list", pick(&["nodes", "pods", "volumeattachments"]), slow)
        }
        4 => Trouble::SilentWatches(pick(&["*", "pods", "nodes", "poddisruptionbudgets"])),
        5 => Trouble::FrozenCache,
        6 => Trouble::BlindScheduler,
        _ => Trouble::Paused(pick(&[
            Controller::Disruption,
            Controller::ReplicaSet,
            Controller::StatefulSet,
            Controller::Scheduler,
        ])),
    }
}

fn forbidden(verb: &str, resource: &str) -> Effect {
    Effect::Answer(Reply::forbidden("system:node:edge", verb, resource, "default", "x"))
}

fn unauthorized() -> Effect {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    Effect::Answer(Reply::json(401, &status))
}
