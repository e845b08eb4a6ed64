//! Numbers and lines for people: how far a drain is, and what each pod is doing.

use std::time::Duration;

use crate::plan::{Planned, Reason, Verdict};
use crate::state::{Attempt, Cause, Stage, State, Track};
use crate::time::Moment;
use crate::view::{PodId, PodView};

/// A pod that is still there this long after its grace ended is called stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// How far the drain is, in pods that have to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// All that had to leave so far.
    pub total: u64,
    /// Left already.
    pub gone: u64,
    /// On their way out.
    pub terminating: u64,
    /// Refused by a budget or a webhook, or finally.
    pub blocked: u64,
    /// Their turn has not come, or the server was busy.
    pub waiting: u64,
    /// Still there: `total - gone`.
    pub left: u64,
}

/// One pod of the node, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which pod.
    pub id: PodId,
    /// `Kind/name` of its controller, empty without one.
    pub owner: String,
    /// What is to become of it.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Where it is on its way; `None` for pods that stay.
    pub stage: Option<Stage>,
    /// Since when it is there.
    pub since: Moment,
    /// How often an eviction was sent.
    pub tries: u32,
    /// One plain sentence, empty if there is nothing to say.
    pub detail: String,
}

/// The attempt in the state, if any.
pub fn attempt(state: &State) -> Option<&Attempt> {
    match state {
        State::Idle => None,
        State::Draining(attempt) | State::Proving(attempt, _) | State::Ended(attempt, _) => Some(attempt),
    }
}

/// How far the drain is.
pub fn progress(attempt: &Attempt) -> Progress {
    let count =
        |of: fn(&Stage) -> bool| as_number(attempt.pods.values().filter(|track| of(&track.stage)).count());
    let left = as_number(attempt.pods.len());
    Progress {
        total: attempt.gone + left,
        gone: attempt.gone,
        terminating: count(|stage| matches!(stage, Stage::Accepted | Stage::Terminating)),
        blocked: count(is_blocked),
        waiting: count(|stage| {
            matches!(stage, Stage::Waiting | Stage::Sent | Stage::Paused { .. } | Stage::Awaiting)
        }),
        left,
    }
}

/// A person may have to do something about it.
pub fn is_blocked(stage: &Stage) -> bool {
    matches!(stage, Stage::Blocked { .. } | Stage::Refused | Stage::Final { .. })
}

/// One line per pod that the last picture shows, in its order.
pub fn lines(attempt: &Attempt, now: Moment) -> Vec<Line> {
    let Some(picture) = &attempt.picture else {
        return Vec::new();
    };
    picture.pods.iter().zip(&attempt.planned).map(|(pod, planned)| line(attempt, pod, planned, now)).collect()
}

fn line(attempt: &Attempt, pod: &PodView, planned: &Planned, now: Moment) -> Line {
    let track = attempt.pods.get(&planned.id.uid);
    Line {
        id: planned.id.clone(),
        owner: pod.owner(),
        verdict: planned.verdict,
        reasons: planned.reasons.clone(),
        stage: track.map(|track| track.stage.clone()),
        since: track.map_or(attempt.started, |track| track.since),
        tries: track.map_or(0, |track| track.tries),
        detail: track.map(|track| detail(track, pod, now)).unwrap_or_default(),
    }
}

fn detail(track: &Track, pod: &PodView, now: Moment) -> String {
    match &track.stage {
        Stage::Waiting | Stage::Sent | Stage::Accepted => String::new(),
        Stage::Blocked { cause: Cause::Budget(text) | Cause::Webhook(text), .. }
        | Stage::Paused { text, .. }
        | Stage::Final { text } => text.clone(),
        Stage::Blocked { cause: Cause::TwoBudgets, .. } => {
            "more than one PodDisruptionBudget selects this pod, which the eviction API does not support"
                .to_owned()
        }
        Stage::Terminating => terminating(track, pod, now),
        Stage::Awaiting => "waiting until it has finished by itself".to_owned(),
        Stage::Refused => "the policy does not allow its eviction".to_owned(),
    }
}

fn terminating(track: &Track, pod: &PodView, now: Moment) -> String {
    let grace = pod.terminating.map_or(pod.grace, |terminating| terminating.grace);
    let since = now.since(track.since);
    if since <= grace + STUCK_AFTER {
        return String::new();
    }
    let held = if pod.finalizers.is_empty() {
        "the kubelet has not ended it".to_owned()
    } else {
        format!("held by finalizers {}", pod.finalizers.join(", "))
    };
    format!(
        "still terminating after {} s, {} s past its grace: {held}",
        since.as_secs(),
        since.saturating_sub(grace).as_secs()
    )
}

fn as_number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
