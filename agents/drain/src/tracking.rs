//! What a picture and an answer change in an attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::budget::{fingerprint, would_allow};
use crate::plan::{Planned, Verdict, plan};
use crate::policy::Policy;
use crate::retry::pause;
use crate::state::{Attempt, Cause, Stage, Track};
use crate::time::Moment;
use crate::view::{Picture, PodView};

/// Two budgets on one pod stay two until somebody changes them: asked again this seldom.
const TWO_BUDGETS_RETRY: Duration = Duration::from_mins(1);

/// Takes a new picture in: new pods are tracked, those that left are counted, blocked ones whose budget now allows
/// are freed.
pub(crate) fn see(attempt: &mut Attempt, picture: Arc<Picture>, now: Moment, policy: &Policy) {
    let first = attempt.picture.is_none();
    attempt.planned = plan(&picture, policy);
    attempt.seen_cordoned |= picture.node.as_ref().is_some_and(|node| node.cordoned);
    attempt.looked = now;
    forget_the_gone(attempt, &picture);
    let pods: BTreeMap<&str, &PodView> = picture.pods.iter().map(|pod| (pod.id.uid.as_str(), pod)).collect();
    for planned in attempt.planned.iter().filter(|planned| planned.must_leave()) {
        let Some(pod) = pods.get(planned.id.uid.as_str()) else {
            continue;
        };
        let known = attempt.pods.contains_key(&planned.id.uid);
        attempt.arrivals |= !first && !known;
        let track = attempt.pods.entry(planned.id.uid.clone()).or_insert_with(|| new_track(planned, now));
        let stage = stage_seen(track, planned, pod, &picture, now, policy);
        enter(track, stage, now);
    }
    attempt.picture = Some(picture);
}

/// Takes the answer to an eviction of the pod with this UID in.
pub(crate) fn record(attempt: &mut Attempt, uid: &str, answer: Answer, now: Moment, policy: &Policy) {
    let picture = attempt.picture.clone();
    let Some(track) = attempt.pods.get_mut(uid) else {
        return;
    };
    // Seen terminating already, or given up by a newer picture: the picture is newer than the answer.
    if track.stage != Stage::Sent {
        return;
    }
    let pod = picture.as_ref().and_then(|picture| picture.pods.iter().find(|pod| pod.id.uid == uid));
    let changed = pod.zip(picture.as_ref()).is_some_and(|(pod, picture)| freed(track, pod, picture));
    let next = |after| now + pause(track.tries, after, uid);
    let stage = match answer {
        Answer::Accepted | Answer::Gone => Stage::Accepted,
        // The budget changed while the refusal was on its way: ask again at once.
        Answer::Budget(_) if changed => Stage::Waiting,
        Answer::Budget(refusal) => {
            let wait = refusal.after.unwrap_or(policy.retry);
            Stage::Blocked { cause: Cause::Budget(refusal.text), next: next(Some(wait)) }
        }
        Answer::TwoBudgets => {
            Stage::Blocked { cause: Cause::TwoBudgets, next: next(Some(TWO_BUDGETS_RETRY)) }
        }
        Answer::Webhook { text } => {
            Stage::Blocked { cause: Cause::Webhook(text), next: next(Some(policy.retry)) }
        }
        Answer::NamespaceTerminating if track.by_deletion => {
            let text = "the namespace is being deleted".to_owned();
            Stage::Paused { text, next: next(None) }
        }
        Answer::NamespaceTerminating => {
            track.by_deletion = true;
            Stage::Waiting
        }
        Answer::NoEvictions => {
            track.by_deletion = true;
            Stage::Waiting
        }
        Answer::Throttled { after, text } => Stage::Paused { text, next: next(after) },
        Answer::Retry { text } => Stage::Paused { text, next: next(None) },
        Answer::Final { text } => Stage::Final { text },
    };
    enter(track, stage, now);
}

/// Drops the pods that the picture does not hold any more, or that may stay after all.
fn forget_the_gone(attempt: &mut Attempt, picture: &Picture) {
    let present: BTreeSet<&str> = picture.pods.iter().map(|pod| pod.id.uid.as_str()).collect();
    let leaving: BTreeSet<&str> =
        attempt.planned.iter().filter(|planned| planned.must_leave()).map(|p| p.id.uid.as_str()).collect();
    let before = attempt.pods.len();
    attempt.pods.retain(|uid, _| present.contains(uid.as_str()));
    attempt.gone += u64::try_from(before - attempt.pods.len()).unwrap_or(0);
    attempt.pods.retain(|uid, _| leaving.contains(uid.as_str()));
}

fn new_track(planned: &Planned, now: Moment) -> Track {
    let id = planned.id.clone();
    Track { id, stage: Stage::Waiting, since: now, tries: 0, by_deletion: false, sent_under: None }
}

/// The stage of a pod after a new picture.
fn stage_seen(
    track: &Track,
    planned: &Planned,
    pod: &PodView,
    picture: &Picture,
    now: Moment,
    policy: &Policy,
) -> Stage {
    if pod.terminating.is_some() {
        return Stage::Terminating;
    }
    match planned.verdict {
        Verdict::Refuse => return Stage::Refused,
        Verdict::Await => return Stage::Awaiting,
        Verdict::Evict | Verdict::Leave => {}
    }
    match &track.stage {
        // Accepted long ago and still not terminating: the server has forgotten it.
        Stage::Accepted | Stage::Terminating if now.since(track.since) >= policy.retry => Stage::Waiting,
        Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets, .. } if freed(track, pod, picture) => {
            Stage::Waiting
        }
        Stage::Awaiting | Stage::Refused => Stage::Waiting,
        stage @ (Stage::Waiting
        | Stage::Sent
        | Stage::Blocked { .. }
        | Stage::Paused { .. }
        | Stage::Accepted
        | Stage::Terminating
        | Stage::Final { .. }) => stage.clone(),
    }
}

/// A budget of the pod was written since its last eviction was sent, and none refuses now.
fn freed(track: &Track, pod: &PodView, picture: &Picture) -> bool {
    track.sent_under.as_ref() != Some(&fingerprint(pod, &picture.budgets))
        && would_allow(pod, &picture.budgets)
}

fn enter(track: &mut Track, stage: Stage, now: Moment) {
    if std::mem::discriminant(&track.stage) != std::mem::discriminant(&stage) {
        track.since = now;
    }
    track.stage = stage;
}
