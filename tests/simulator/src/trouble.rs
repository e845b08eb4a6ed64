//! What is wrong with the cluster: drawn from the seed, and carried out on the fake API server.

use std::time::Duration;

use anyhow::Result;
use fake_cluster::{Controller, Effect, FakeCluster, Fault, Reply};
use serde_json::json;

use crate::kernel;
use crate::limits::Limits;
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
    /// They tell what they have not told, and go on.
    WatchesSpeak(&'static str),
    /// Lists from the watch cache are old.
    FrozenCache,
    /// A controller stands still.
    Paused(Controller),
    /// The scheduler binds pods to cordoned nodes.
    BlindScheduler,
    /// The scheduler sees cordons again.
    SchedulerSees,
    /// Everything is well again, but a server that is down stays down.
    Over,
}

impl Trouble {
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// From now on no list comes that the first look of an attempt needs.
    pub(crate) fn refuses_what_a_drain_needs(&self) -> bool {
        match self {
            Self::Lasts("list", "pods" | "poddisruptionbudgets", effect) => is_refusal(effect),
            _ => false,
        }
    }

    /// What ends it.
    pub(crate) const fn end(&self) -> Self {
        match self {
            Self::ApiDown => Self::ApiUp,
            Self::BlindScheduler => Self::SchedulerSees,
            _ => Self::Over,
        }
    }

    /// From now on no volume is detached.
    pub(crate) const fn stops_detaching(&self) -> bool {
        matches!(self, Self::Paused(Controller::AttachDetach))
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
            Self::WatchesSpeak(resource) => format!("the watches of {resource} speak again"),
            Self::FrozenCache => "the API server's cache is frozen".to_owned(),
            Self::Paused(controller) => format!("the controller {controller:?} stands still"),
            Self::BlindScheduler => "the scheduler does not see cordons".to_owned(),
            Self::SchedulerSees => "the scheduler sees cordons".to_owned(),
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
            Self::WatchesSpeak(_) | Self::SchedulerSees | Self::Over => return None,
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
            Self::WatchesSpeak(resource) => {
                faults.resume_watches((*resource != "*").then_some(*resource));
            }
            Self::FrozenCache => faults.freeze_cache(),
            Self::Paused(controller) => faults.pause(*controller),
            Self::BlindScheduler => faults.blind_scheduler(true),
            Self::SchedulerSees => faults.blind_scheduler(false),
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
        Effect::Answer(reply) | Effect::AnswerAfter(reply) | Effect::Endless(reply, _) => {
            reply.code.to_string()
        }
        Effect::Delay(_) => "slow".to_owned(),
        Effect::DelayAfter(_) => "late answer".to_owned(),
        Effect::Until(_) => "held request".to_owned(),
        Effect::ResetBefore => "reset before".to_owned(),
        Effect::ResetAfter => "reset after".to_owned(),
        Effect::Hang => "hangs before".to_owned(),
        Effect::HangAfter => "hangs after".to_owned(),
    }
}

/// What goes wrong in a history, and when; what belongs together is one part.
pub(crate) fn draw(limits: &Limits) -> Vec<Vec<(u64, Trouble)>> {
    let any = || 10 * SECOND + kernel::below(3 * MINUTE);
    let mut drawn = Vec::new();
    if chance(3) {
        let from = any();
        let until = from + kernel::below(limits.draw_outage());
        drawn.push(vec![(from, Trouble::ApiDown), (until, Trouble::ApiUp)]);
    }
    for _ in 0..below(4) {
        drawn.push(vec![(any(), draw_fault())]);
    }
    for what in [Trouble::CutWatches, Trouble::ForgottenHistory] {
        if chance(4) {
            drawn.push(vec![(any(), what)]);
        }
    }
    if chance(5) {
        // A proxy between the agents and the server ends each watch at once.
        let ended = Effect::Answer(Reply::text(200, pick(&["", BOOKMARK])));
        let from = any();
        let until = from + kernel::below(pick(&[MINUTE, 5 * MINUTE, limits.long]));
        drawn.push(vec![
            (from, Trouble::Lasts("watch", "*", ended)),
            (from, Trouble::CutWatches),
            (until, Trouble::Over),
        ]);
    }
    if chance(4) {
        drawn.push(vec![(5 * SECOND, draw_early()), (2 * MINUTE + kernel::below(3 * MINUTE), Trouble::Over)]);
    }
    if chance(2) {
        let from = 10 * SECOND + kernel::below(2 * MINUTE);
        for _ in 0..=below(2) {
            drawn.push(vec![(from + kernel::below(MINUTE), draw_lasting())]);
        }
        let long = kernel::below(pick(&[MINUTE, 5 * MINUTE, limits.long]));
        drawn.push(vec![(from + MINUTE + long, Trouble::Over)]);
    }
    drawn
}

/// A fault that passes by itself.
pub(crate) fn draw_passing() -> Trouble {
    match below(4) {
        0 => Trouble::CutWatches,
        1 => Trouble::ForgottenHistory,
        _ => draw_fault(),
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

/// Requests that the API server may refuse for a moment, when it has started or a token has changed.
const REFUSED: [(&str, &str); 6] = [
    ("create", "pods/eviction"),
    ("create", "pods/eviction"),
    ("watch", "pods"),
    ("list", "pods"),
    ("get", "persistentvolumeclaims"),
    ("list", "volumeattachments"),
];

/// A bookmark, with which some servers end each watch.
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;

/// The kinds of lasting faults under which the requests of an agent are counted (`--storms`), and their names.
pub(crate) fn storms() -> Vec<(&'static str, Vec<Trouble>)> {
    let text = |code, text| Effect::Answer(Reply::text(code, text));
    let status = |code, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code});
        Effect::Answer(Reply::json(code, &status))
    };
    let page = json!({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": []});
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}"#;
    let a_day = Reply::text(429, "busy").header("Retry-After", "86400");
    let lasting = [
        ("the connection is reset", ["*", "*"], Effect::ResetBefore),
        ("no answer", ["*", "*"], Effect::Hang),
        ("each answer 12 s late", ["*", "*"], Effect::Delay(Duration::from_secs(12))),
        ("401", ["*", "*"], unauthorized()),
        ("403", ["*", "*"], forbidden("get", "nodes")),
        ("404 in plain text", ["*", "*"], text(404, "404 page not found")),
        ("429", ["*", "*"], text(429, "Too many requests, please try again later.")),
        ("429, Retry-After a day", ["*", "*"], Effect::Answer(a_day)),
        ("500", ["*", "*"], status(500, "InternalError")),
        ("503", ["*", "*"], text(503, "upstream connect error")),
        ("504", ["*", "*"], Effect::Answer(Reply::timeout())),
        ("a page of a portal", ["*", "*"], text(200, "<html>sign in</html>")),
        ("watches end at once", ["watch", "*"], text(200, "")),
        ("watches end after a bookmark", ["watch", "*"], text(200, BOOKMARK)),
        ("watches end with 410", ["watch", "*"], text(200, gone)),
        ("lists have no end", ["list", "*"], Effect::Answer(Reply::json(200, &page))),
        ("lists have expired", ["list", "*"], status(410, "Expired")),
        ("each write conflicts", ["patch|update|create", "*"], status(409, "Conflict")),
        ("slots cannot be read", ["*", "configmaps"], status(500, "InternalError")),
    ];
    let lasting = lasting.map(|(name, [verbs, resource], effect)| {
        let lasts = verbs.split('|').map(|verb| Trouble::Lasts(verb, resource, effect.clone()));
        (name, lasts.chain([Trouble::CutWatches]).collect())
    });
    let others = [
        ("none", Vec::new()),
        ("no connection", vec![Trouble::ApiDown]),
        ("watches are silent", vec![Trouble::SilentWatches("*")]),
    ];
    others.into_iter().chain(lasting).collect()
}

/// Some requests fail.
fn draw_fault() -> Trouble {
    if chance(6) {
        let (verb, resource) = pick(&REFUSED);
        return Trouble::Fault(verb, resource, draw_refusal(verb, resource), 1 + below(2));
    }
    let (verb, resource) = pick(&REQUESTS);
    Trouble::Fault(verb, resource, draw_effect(), 1 + below(6))
}

/// What is wrong for a while while an attempt goes on: how much later than its beginning, and for how long, if it does not
/// pass by itself.
pub(crate) fn draw_for_an_attempt() -> (u64, Trouble, Option<u64>) {
    let answer = |code, text| Effect::Answer(Reply::text(code, text));
    let unavailable = || answer(503, "upstream connect error");
    let refused = |verb, resource| Trouble::Fault(verb, resource, draw_refusal(verb, resource), 1);
    match below(5) {
        0 => (0, refused("create", "pods/eviction"), None),
        1 => (0, refused("get", "persistentvolumeclaims"), None),
        2 => (kernel::below(8 * SECOND), Trouble::Fault("get", "nodes", unavailable(), 1), None),
        3 => {
            let missing = answer(404, "404 page not found");
            (kernel::below(MINUTE), Trouble::Fault("get", "nodes", missing, 10), None)
        }
        _ => {
            let lists = Trouble::Lasts("list", "pods", unavailable());
            (kernel::below(2 * SECOND), lists, Some(2 * MINUTE))
        }
    }
}

fn draw_refusal(verb: &str, resource: &str) -> Effect {
    if chance(2) { unauthorized() } else { forbidden(verb, resource) }
}

/// From before the first request on something is not listed, because a right is missing or because it takes long.
fn draw_early() -> Trouble {
    if chance(3) {
        let resource = pick(&["pods", "poddisruptionbudgets"]);
        return Trouble::Lasts("list", resource, forbidden("list", resource));
    }
    let (verb, resource) = pick(&[
        ("get", "persistentvolumeclaims"),
        ("get", "persistentvolumes"),
        ("list", "volumeattachments"),
    ]);
    let effect = match below(3) {
        0 => forbidden(verb, resource),
        1 => Effect::Answer(Reply::text(503, "upstream connect error")),
        _ => Effect::Delay(Duration::from_secs(40)),
    };
    Trouble::Lasts(verb, resource, effect)
}

/// The API server says that somebody may not do this.
pub(crate) fn is_refusal(effect: &Effect) -> bool {
    matches!(effect, Effect::Answer(reply) if matches!(reply.code, 401 | 403))
}

/// True if an API server counts as away while every request has this effect.
pub(crate) fn is_outage(effect: &Effect) -> bool {
    match effect {
        Effect::Answer(reply) => reply.code >= 500,
        Effect::ResetBefore | Effect::ResetAfter | Effect::Hang | Effect::HangAfter => true,
        Effect::Endless(..)
        | Effect::AnswerAfter(_)
        | Effect::Delay(_)
        | Effect::DelayAfter(_)
        | Effect::Until(_) => false,
    }
}

fn draw_effect() -> Effect {
    effect(below(EFFECTS))
}

/// Number of effects that a fault of one request can have.
pub(crate) const EFFECTS: u32 = 8;

/// One of these effects; numbers in a row go through all of them.
pub(crate) fn effect(number: u32) -> Effect {
    match number % EFFECTS {
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
            Controller::AttachDetach,
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
