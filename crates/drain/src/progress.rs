//! Numbers and lines for people: progress of a drain, and the state of each pod.

use crate::attempt::Attempt;
use crate::plan::{Planned, Reason, Verdict};
use crate::pod::{Cause, DeletionMethod, STUCK_AFTER, Stage, Track};
use crate::step::State;
use crate::time::Moment;
use crate::view::{PodId, PodView, Terminating};
use crate::volumes::{StorageIndex, VolumeStage, VolumeTrack};

/// Progress of the drain, in pods that have to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pods that have had to leave so far.
    pub total: u64,
    /// Pods that have left.
    pub gone: u64,
    /// Pods that are terminating, or about to.
    pub terminating: u64,
    /// Pods that a budget, a webhook, the policy or the server refuses.
    pub blocked: u64,
    /// Pods that wait for their turn, for an answer, or for a busy server.
    pub waiting: u64,
    /// Pods that are left: `total - gone`.
    pub left: u64,
    /// Volumes of pods that have left, and that are still attached to the node.
    pub volumes: u64,
}

/// One pod of the node, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Namespace, name and UID.
    pub id: PodId,
    /// `Kind/name` of its controller; empty without one.
    pub owner: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons of the verdict.
    pub reasons: Vec<Reason>,
    /// The pod's stage; `None` for pods that stay.
    pub stage: Option<Stage>,
    /// Start of that stage.
    pub since: Moment,
    /// Number of evictions that were sent.
    pub tries: u32,
    /// One plain sentence; may be empty.
    pub detail: String,
}

/// The attempt in the state, if any.
pub fn attempt(state: &State) -> Option<&Attempt> {
    match state {
        State::Idle => None,
        State::Draining(attempt) | State::Verifying(attempt, _) | State::Ended(attempt, _) => Some(attempt),
    }
}

/// Progress of the attempt.
pub fn progress(attempt: &Attempt) -> Progress {
    let count = |of: fn(&Stage) -> bool| {
        as_number(attempt.pods().values().filter(|track| of(track.shown_stage())).count())
    };
    let left = as_number(attempt.pods().len());
    Progress {
        total: attempt.gone() + left,
        gone: attempt.gone(),
        terminating: count(|stage| matches!(stage, Stage::Accepted | Stage::Terminating)),
        blocked: count(Stage::is_blocked),
        waiting: count(|stage| {
            matches!(stage, Stage::Waiting | Stage::Evicting | Stage::Paused { .. } | Stage::Awaiting)
        }),
        left,
        volumes: as_number(attempt.volumes().values().filter(|volume| volume.is_attached()).count()),
    }
}

/// One volume that the drain waits for, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLine {
    /// Name of the PersistentVolume, or another name as described at [`VolumeTrack::volume`].
    pub volume: String,
    /// The CSI driver; empty if it is not known.
    pub driver: String,
    /// `namespace/name` of the claim; empty if no pod was seen with it.
    pub claim: String,
    /// The pod that used it; all its names are empty if none was seen with it.
    pub pod: PodId,
    /// State of the volume: `Detaching`, `DetachTimedOut`, `Attaching` (elsewhere), `NotAttachedElsewhere`.
    pub stage: &'static str,
    /// Start of that state.
    pub since: Moment,
    /// Reason for which the volume is still attached; empty if it is not.
    pub detail: String,
}

impl VolumeLine {
    /// The claim of the volume; without a claim its driver, and that no pod was seen with it.
    pub fn of(&self) -> String {
        match (self.claim.as_str(), self.driver.as_str()) {
            ("", "") => "no pod was seen with it".to_owned(),
            ("", driver) => format!("driver {driver}, no pod was seen with it"),
            (claim, _) => claim.to_owned(),
        }
    }
}

/// One line for each volume that the drain waits for, or has waited for too long.
pub fn volume_lines(attempt: &Attempt) -> Vec<VolumeLine> {
    let Some(snapshot) = attempt.snapshot() else {
        return Vec::new();
    };
    let index = StorageIndex::of(snapshot);
    attempt.volumes().values().filter_map(|volume| volume_line(attempt, volume, &index)).collect()
}

fn volume_line(attempt: &Attempt, volume: &VolumeTrack, index: &StorageIndex<'_>) -> Option<VolumeLine> {
    let stage = match volume.stage {
        VolumeStage::Detaching => "Detaching",
        VolumeStage::TimedOut => "DetachTimedOut",
        VolumeStage::Detached if volume.is_late => "NotAttachedElsewhere",
        VolumeStage::Detached if attempt.turns().any(|turn| turn.awaits_reattach_of(&volume.volume)) => {
            "Attaching"
        }
        VolumeStage::Detached | VolumeStage::InUse => return None,
    };
    Some(VolumeLine {
        volume: volume.volume.clone(),
        driver: volume.driver.clone(),
        claim: volume.claim.clone(),
        pod: volume.pod.clone(),
        stage,
        since: volume.since,
        detail: if volume.is_attached() { volume.obstacle(index) } else { String::new() },
    })
}

/// One line for each pod of the last snapshot, in its order.
pub fn lines(attempt: &Attempt, now: Moment) -> Vec<Line> {
    let pods = attempt.snapshot().map(|snapshot| snapshot.pods.as_slice()).unwrap_or_default();
    pods.iter().zip(attempt.planned()).map(|(pod, planned)| line(attempt, pod, planned, now)).collect()
}

fn line(attempt: &Attempt, pod: &PodView, planned: &Planned, now: Moment) -> Line {
    let track = attempt.pods().get(&planned.id.uid);
    Line {
        id: planned.id.clone(),
        owner: pod.owner(),
        verdict: planned.verdict,
        reasons: planned.reasons.clone(),
        stage: track.map(|track| track.shown_stage().clone()),
        since: track.map_or_else(|| attempt.started(), shown_since),
        tries: track.map_or(0, Track::tries),
        detail: track.map(|track| detail(attempt, track, pod, now)).unwrap_or_default(),
    }
}

/// For a blocked pod the start of that, not its last try.
fn shown_since(track: &Track) -> Moment {
    let blocked = track.blocked_since().filter(|_| matches!(track.shown_stage(), Stage::Blocked { .. }));
    blocked.unwrap_or_else(|| track.since())
}

fn detail(attempt: &Attempt, track: &Track, pod: &PodView, now: Moment) -> String {
    let text = match track.shown_stage() {
        Stage::Waiting => match attempt.parent(track) {
            Some(parent) => format!("waits until pod {} has left, which it belongs to", parent.id()),
            None => String::new(),
        },
        Stage::Evicting | Stage::Accepted => String::new(),
        Stage::Blocked { cause: Cause::Budget(text) | Cause::Webhook(text), .. }
        | Stage::Paused { text, .. }
        | Stage::Failed { text } => text.clone(),
        Stage::Blocked { cause: Cause::TwoBudgets, .. } => {
            "more than one PodDisruptionBudget selects this pod, which the eviction API does not support"
                .to_owned()
        }
        Stage::Blocked { cause: Cause::NotDeleted, .. } => {
            "the server accepts the eviction but does not delete the pod".to_owned()
        }
        Stage::Blocked { cause: Cause::Returns { times }, .. } => {
            let then = if track.is_left_alone() { "not evicted again" } else { "evicted slowly" };
            format!("created again on this node {times} times: {then}")
        }
        Stage::Terminating => terminating(attempt, track, pod, now),
        Stage::Awaiting => "waiting until it has finished by itself".to_owned(),
        Stage::Refused => "the policy does not allow its eviction".to_owned(),
    };
    if track.by() == DeletionMethod::Escalation && text.is_empty() {
        return "its eviction was refused for too long: it is deleted, with its own grace".to_owned();
    }
    text
}

fn terminating(attempt: &Attempt, track: &Track, pod: &PodView, now: Moment) -> String {
    let Some(overdue) = track.overdue(pod, attempt.seen(), now) else {
        let Terminating { grace, left, .. } = pod.terminating.unwrap_or_default();
        let left = if left.is_zero() {
            grace.saturating_sub(now.since(track.since()))
        } else {
            left.saturating_sub(now.since(attempt.seen()))
        };
        return format!("still terminating, {} s of its grace are left", left.as_secs());
    };
    if overdue <= STUCK_AFTER {
        return "still terminating, its grace has just ended".to_owned();
    }
    let held = if pod.finalizers.is_empty() {
        "the kubelet has not ended it".to_owned()
    } else {
        format!("held by finalizers {}", pod.finalizers.join(", "))
    };
    format!("still terminating {} s after its time: {held}", overdue.as_secs())
}

fn as_number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
