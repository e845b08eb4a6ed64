//! What a picture and an answer change in an attempt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::Answer;
use crate::budget::{fingerprint, would_allow};
use crate::looks::merge_pods;
use crate::plan::{Planned, Verdict, plan};
use crate::policy::{Policy, REFUSAL_LASTS, REFUSAL_TIMES};
use crate::retry::{SHORTEST_RETRY, pause, spread_out, wish};
use crate::state::{Attempt, By, Cause, Denied, Owner, Stage, Track};
use crate::storage::Attachments;
use crate::time::Moment;
use crate::view::{Picture, PodView};
use crate::{escalation, returns, terminating, volumes};

/// Two budgets on one pod stay two until somebody changes them: asked again this seldom.
const TWO_BUDGETS_RETRY: Duration = Duration::from_mins(1);

/// Takes a picture of the watches in.
///
/// Of the pods only what the watches show otherwise than before is news: a watch that lags behind the last look goes on
/// to show pods that the look has shown to be gone.
pub(crate) fn see(attempt: &mut Attempt, mut picture: Arc<Picture>, now: Moment, policy: &Policy) {
    let before = attempt.watched.replace(Arc::clone(&picture));
    if let Some(known) = &attempt.picture {
        // Where the watches are not asked about volumes, looks tell.
        if picture.storage.attachments == Attachments::NotAsked
            && known.storage.attachments != Attachments::NotAsked
        {
            Arc::make_mut(&mut picture).storage = known.storage.clone();
        }
        let before = before.as_ref().map(|before| before.pods.as_slice()).unwrap_or_default();
        if before != known.pods {
            let pods = merge_pods(before, &picture.pods, &known.pods);
            Arc::make_mut(&mut picture).pods = pods;
        }
    }
    take_in(attempt, picture, now, policy);
}

/// Takes in what is known now. New pods are tracked, those that left are counted, blocked ones whose budget now allows are freed, and the volumes
/// are looked at.
pub(crate) fn take_in(attempt: &mut Attempt, picture: Arc<Picture>, now: Moment, policy: &Policy) {
    let is_first = attempt.picture.is_none();
    let planned = plan(&picture, policy);
    attempt.seen_cordoned |= picture.node.as_ref().is_some_and(|node| node.cordoned);
    attempt.seen = now;
    escalation::see(attempt, &picture, now, policy);
    forget_the_gone(attempt, &picture, &planned);
    let is_touched = attempt.is_touched();
    for (pod, planned) in picture.pods.iter().zip(&planned).filter(|(_, planned)| planned.must_leave()) {
        if !attempt.pods.contains_key(&pod.id.uid) {
            // One that may come back makes the proof as hard as one that has come.
            attempt.arrivals |= !is_first || pod.tolerates_cordon;
            let returns = if is_first { 0 } else { returns::count(attempt, pod, now) };
            let mut track = new_track(planned, pod, returns, now);
            track.refused_since = attempt.refused_before.remove(&pod.id.uid);
            attempt.pods.insert(pod.id.uid.clone(), track);
        }
        if let Some(track) = attempt.pods.get_mut(&pod.id.uid) {
            (track.order, track.grace_sent) = (planned.order, planned.grace);
            track.grace = planned.grace.unwrap_or(pod.grace);
            track.names_node |= pod.names_node;
            track.shortens = terminating::shortens(planned, pod);
            let stage = match (pod.terminating.is_some(), planned.verdict, is_touched) {
                // On its way out: what is refused forbids only the beginning of a drain.
                (true, Verdict::Evict | Verdict::Await | Verdict::Leave, _)
                | (true, Verdict::Refuse, true) => terminating::stage_seen(track),
                (true, Verdict::Refuse, false) | (false, ..) => {
                    stage_seen(track, planned, pod, &picture, now, policy)
                }
            };
            enter(track, stage, now);
        }
    }
    attempt.planned = planned;
    volumes::see(attempt, &picture, now, policy);
    attempt.picture = Some(picture);
}

/// Takes the answer to an eviction of the pod with this UID in.
pub(crate) fn record(attempt: &mut Attempt, uid: &str, answer: Answer, now: Moment, policy: &Policy) {
    let picture = attempt.picture.clone();
    attempt.no_evictions |= answer == Answer::NoEvictions;
    let Some(track) = attempt.pods.get_mut(uid) else {
        return;
    };
    // Seen terminating already, or given up by a newer picture: the picture is newer than the answer.
    if track.stage != Stage::Sent {
        return;
    }
    let pod = picture.as_ref().and_then(|picture| picture.pods.iter().find(|pod| pod.id.uid == uid));
    let changed = pod.zip(picture.as_ref()).is_some_and(|(pod, picture)| freed(track, pod, picture));
    track.denied = matches!(answer, Answer::Denied { .. }).then(|| {
        let before = track.denied.unwrap_or(Denied { since: now, times: 0 });
        Denied { times: before.times.saturating_add(1), ..before }
    });
    track.said_gone = answer == Answer::Gone;
    let lets_go = answer == Answer::Accepted && track.by == By::Eviction && pod.is_some_and(|pod| pod.ready);
    let stage = if changed && matches!(answer, Answer::Budget(_)) {
        // The budget changed while the refusal was on its way: ask again at once.
        track.refused_since.get_or_insert(now);
        Stage::Waiting
    } else {
        stage_answered(track, answer, now, policy)
    };
    let is_ending = track.killed.is_none() && pod.is_some_and(|pod| pod.terminating.is_some());
    let stage = if is_ending { terminating::stage_answered(track, stage, now, policy) } else { stage };
    match &stage {
        Stage::Blocked { cause, .. } => {
            track.refused_since.get_or_insert(now);
            track.refusal = Some(cause.clone());
        }
        Stage::Accepted => (track.refused_since, track.refusal) = (None, None),
        Stage::Waiting
        | Stage::Sent
        | Stage::Paused { .. }
        | Stage::Terminating
        | Stage::Awaiting
        | Stage::Refused
        | Stage::Final { .. } => {}
    }
    enter(track, stage, now);
    if lets_go {
        escalation::let_go(attempt, uid, now, policy);
    }
}

/// The stage of a pod after the answer to its eviction or deletion.
fn stage_answered(track: &mut Track, answer: Answer, now: Moment, policy: &Policy) -> Stage {
    let tries = track.tries;
    let uid = track.id.uid.clone();
    let next = |after| now + pause(tries, after, &uid);
    let blocked = |cause, wait: Duration| {
        let next = now + spread_out(wait.max(SHORTEST_RETRY), tries, &uid);
        Stage::Blocked { cause, next }
    };
    match answer {
        Answer::Accepted | Answer::Gone => Stage::Accepted,
        Answer::Budget(refusal) => {
            blocked(Cause::Budget(refusal.text), refusal.after.map_or(policy.retry, wish))
        }
        Answer::TwoBudgets => blocked(Cause::TwoBudgets, TWO_BUDGETS_RETRY),
        Answer::Webhook { text } => blocked(Cause::Webhook(text), policy.retry),
        Answer::NamespaceTerminating if track.by != By::Eviction => {
            Stage::Paused { text: "the namespace is being deleted".to_owned(), next: next(None) }
        }
        Answer::NamespaceTerminating => {
            track.by = By::Deletion;
            Stage::Waiting
        }
        Answer::NoEvictions if track.by != By::Eviction => {
            let text = "the API server does not know what was asked for".to_owned();
            Stage::Paused { text, next: next(None) }
        }
        Answer::NoEvictions => Stage::Waiting,
        Answer::Throttled { after, text } => Stage::Paused { text, next: next(after) },
        Answer::Retry { text } => Stage::Paused { text, next: next(None) },
        Answer::Denied { text } if lasts(track.denied, now) => Stage::Final { text },
        Answer::Denied { text } => Stage::Paused { text, next: next(None) },
        Answer::Final { text } => Stage::Final { text },
    }
}

/// So often and for so long that it is no passing moment of the server's.
fn lasts(denied: Option<Denied>, now: Moment) -> bool {
    denied.is_some_and(|denied| denied.times >= REFUSAL_TIMES && now.since(denied.since) >= REFUSAL_LASTS)
}

/// Drops the pods that the picture does not hold any more, or that may stay after all.
fn forget_the_gone(attempt: &mut Attempt, picture: &Picture, planned: &[Planned]) {
    let present: BTreeSet<&str> = picture.pods.iter().map(|pod| pod.id.uid.as_str()).collect();
    let leaving: BTreeSet<&str> =
        planned.iter().filter(|planned| planned.must_leave()).map(|p| p.id.uid.as_str()).collect();
    let gone: Vec<String> =
        attempt.pods.keys().filter(|uid| !present.contains(uid.as_str())).cloned().collect();
    for uid in gone {
        returns::left(attempt, &uid);
        attempt.pods.remove(&uid);
        attempt.gone += 1;
    }
    attempt.pods.retain(|uid, _| leaving.contains(uid.as_str()));
}

fn new_track(planned: &Planned, pod: &PodView, returns: u32, now: Moment) -> Track {
    let owner = pod.controller.as_ref();
    Track {
        id: planned.id.clone(),
        stage: returns::first_stage(returns, now),
        since: now,
        tries: 0,
        owner: owner.map(|owner| Owner { kind: owner.kind.clone(), uid: owner.uid.clone() }),
        order: planned.order,
        grace: pod.grace,
        grace_sent: planned.grace,
        is_stateful: false,
        volumes: Vec::new(),
        had_turn: false,
        by: By::Eviction,
        volumes_unknown: None,
        refused_since: None,
        refusal: None,
        killed: None,
        shortens: false,
        shortened: None,
        returns,
        sent_under: None,
        sent_as: None,
        denied: None,
        escalated: None,
        names_node: false,
        said_gone: false,
    }
}

/// The stage of a live pod after a new picture, and of one that forbids the drain.
fn stage_seen(
    track: &Track,
    planned: &Planned,
    pod: &PodView,
    picture: &Picture,
    now: Moment,
    policy: &Policy,
) -> Stage {
    match planned.verdict {
        Verdict::Refuse => return Stage::Refused,
        Verdict::Await => return Stage::Awaiting,
        Verdict::Evict | Verdict::Leave => {}
    }
    match &track.stage {
        // The watch lags behind the server, or a look will show that the answer was wrong.
        Stage::Accepted if track.said_gone => Stage::Accepted,
        // Accepted long ago and still not terminating: the server has forgotten it.
        Stage::Accepted | Stage::Terminating if now.since(track.since) >= policy.retry => Stage::Waiting,
        Stage::Blocked { cause: Cause::Budget(_) | Cause::TwoBudgets, .. } if freed(track, pod, picture) => {
            Stage::Waiting
        }
        Stage::Blocked { cause: Cause::Webhook(_), .. } if has_changed(track, pod) => Stage::Waiting,
        // Not allowed or to be waited for no longer.
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

/// Another answer may come now: a budget of the pod was written since its last eviction was sent, and none refuses now;
/// or the pod itself has changed.
fn freed(track: &Track, pod: &PodView, picture: &Picture) -> bool {
    let is_written = track.sent_under.as_ref() != Some(&fingerprint(pod, &picture.budgets));
    has_changed(track, pod) || (is_written && would_allow(pod, &picture.budgets))
}

/// The pod has another phase or readiness than when its last eviction was sent. No budget holds a finished pod, and with
/// `unhealthyPodEvictionPolicy: AlwaysAllow` none holds one that is not ready.
fn has_changed(track: &Track, pod: &PodView) -> bool {
    track.sent_as.is_some_and(|sent| sent != (pod.phase, pod.ready))
}

fn enter(track: &mut Track, stage: Stage, now: Moment) {
    if std::mem::discriminant(&track.stage) != std::mem::discriminant(&stage) {
        track.since = now;
    }
    track.stage = stage;
}
