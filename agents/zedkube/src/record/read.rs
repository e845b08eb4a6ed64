//! The session's record from a topic. What does not make sense makes no record: then a drain begins anew.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::membership::others;
use drain::volumes::{VolumeStage, VolumeTrack};
use drain::{Moment, PodId};
use schemas::{
    DrainRecord, DrainRequester, DrainStatus, RecordedAttempt, RecordedClock, RecordedOrder, RecordedPhase,
    RecordedPhaseName, RecordedRequest, RecordedVolume, RecordedVolumeStage,
};
use session::forcing::{Command, Disabled, Forced, Forcing, Order};
use session::state::{AttemptRecord, Cordoning, Ended, Failed, Phase, Session};
use session::waiting::Waiting;
use session::{Answer, Outcome, Record, Request, Requester, Status};

/// The record, if it makes sense.
pub(super) fn record(kept: &DrainRecord) -> Option<Record> {
    let moment = |millis: Option<u64>| millis.map(Moment);
    Some(Record {
        requests: kept.requests.iter().map(request).collect::<Option<_>>()?,
        phase: phase(&kept.phase)?,
        since: Moment(kept.since),
        session: Session {
            number: kept.number,
            started: moment(kept.started),
            finished: moment(kept.finished),
            attempts: kept.attempts.iter().map(attempt).collect(),
            cordoned_before: kept.cordoned_before,
            gone: kept.gone,
            ended: kept.outcome.map(ended),
        },
        shown: (status(kept.status), requester(kept.requested_by)),
        attempt: kept.attempt.as_ref().map(clock),
        may_be_cordoned: kept.may_be_cordoned,
        forcing: Forcing {
            pending: kept.pending.as_ref().and_then(order),
            complete: kept.forced.as_ref().and_then(forced),
            disabled: kept.disabled.as_ref().map(disabled),
        },
        away_since: moment(kept.api_away_since),
        others: others(kept.others),
        has_looked: kept.looked,
        adopts: kept.adopts,
    })
}

fn phase(kept: &RecordedPhase) -> Option<Phase> {
    Some(match kept.name {
        RecordedPhaseName::Idle => Phase::Idle,
        RecordedPhaseName::Waiting => {
            Phase::Waiting(Waiting { since: Moment(kept.started), ..Waiting::default() })
        }
        RecordedPhaseName::Cordoning => Phase::Cordoning(Cordoning {
            attempt: counted(kept.attempt)?,
            started: Moment(kept.started),
            began: Moment(kept.began),
            failures: kept.failures,
            resumes: kept.resumes,
            ..Cordoning::default()
        }),
        RecordedPhaseName::Attempting => {
            Phase::Attempting { attempt: counted(kept.attempt)?, started: Moment(kept.started) }
        }
        RecordedPhaseName::Pausing => {
            Phase::Pausing { failed: counted(kept.attempt)?, until: Moment(kept.until) }
        }
        RecordedPhaseName::Complete => Phase::Complete { outcome: outcome(kept.outcome?)?, recheck: None },
        RecordedPhaseName::FailedCordon => Phase::Failed(Failed::Cordon(kept.error.clone())),
        RecordedPhaseName::FailedDrain => Phase::Failed(Failed::Drain(kept.error.clone())),
    })
}

/// Attempts count from 1.
fn counted(attempt: u32) -> Option<u32> {
    (attempt > 0).then_some(attempt)
}

fn request(kept: &RecordedRequest) -> Option<Request> {
    let answer = match (kept.answer, kept.forced) {
        (DrainStatus::Unknown, _) => Answer::None,
        (DrainStatus::FailedCordon, _) => Answer::FailedCordon,
        (DrainStatus::FailedDrain, _) => Answer::FailedDrain,
        (DrainStatus::Complete, false) => Answer::Complete,
        (DrainStatus::Complete, true) => Answer::Forced,
        (
            DrainStatus::NotSupported
            | DrainStatus::NotRequested
            | DrainStatus::Requested
            | DrainStatus::Starting
            | DrainStatus::Cordoned
            | DrainStatus::DrainRetrying,
            _,
        ) => return None,
    };
    Some(Request {
        requester: requester(kept.requested_by)?,
        context: kept.context.clone(),
        requested_at: kept.requested_at.clone(),
        publisher: kept.publisher.clone(),
        answer,
    })
}

fn requester(kept: DrainRequester) -> Option<Requester> {
    match kept {
        DrainRequester::Unset => None,
        DrainRequester::None => Some(Requester::Operator),
        DrainRequester::DeviceOp => Some(Requester::DeviceOp),
        DrainRequester::Update => Some(Requester::Update),
    }
}

fn status(kept: DrainStatus) -> Status {
    match kept {
        DrainStatus::Unknown => Status::Unknown,
        DrainStatus::NotSupported => Status::NotSupported,
        DrainStatus::NotRequested => Status::NotRequested,
        DrainStatus::Requested => Status::Requested,
        DrainStatus::Starting => Status::Starting,
        DrainStatus::Cordoned => Status::Cordoned,
        DrainStatus::FailedCordon => Status::FailedCordon,
        DrainStatus::DrainRetrying => Status::DrainRetrying,
        DrainStatus::FailedDrain => Status::FailedDrain,
        DrainStatus::Complete => Status::Complete,
    }
}

fn outcome(kept: schemas::Outcome) -> Option<Outcome> {
    match ended(kept) {
        Ended::Complete(outcome) => Some(outcome),
        Ended::CordonFailed | Ended::DrainFailed | Ended::Cancelled => None,
    }
}

fn ended(kept: schemas::Outcome) -> Ended {
    match kept {
        schemas::Outcome::Drained => Ended::Complete(Outcome::Drained),
        schemas::Outcome::ApiUnreachable => Ended::Complete(Outcome::ApiUnreachable),
        schemas::Outcome::NoSchedulablePeer => Ended::Complete(Outcome::NoSchedulablePeer),
        schemas::Outcome::Forced => Ended::Complete(Outcome::Forced),
        schemas::Outcome::NodeGone => Ended::Complete(Outcome::NodeGone),
        schemas::Outcome::CordonFailed => Ended::CordonFailed,
        schemas::Outcome::DrainFailed => Ended::DrainFailed,
        schemas::Outcome::Cancelled => Ended::Cancelled,
    }
}

fn attempt(kept: &RecordedAttempt) -> AttemptRecord {
    AttemptRecord {
        number: kept.number,
        started: Moment(kept.started),
        ended: Moment(kept.ended),
        error: kept.error.clone(),
    }
}

fn clock(kept: &RecordedClock) -> drain::Record {
    drain::Record {
        started: Moment(kept.started),
        deadline: Moment(kept.deadline),
        away_total: Duration::from_millis(kept.away_total),
        refused_since: BTreeMap::new(),
        volumes: kept.volumes.iter().map(|volume| (volume.volume.clone(), track(volume))).collect(),
    }
}

fn track(kept: &RecordedVolume) -> VolumeTrack {
    let (namespace, name) = kept.user.split_once('/').unwrap_or(("", &kept.user));
    VolumeTrack {
        volume: kept.volume.clone(),
        attached_name: kept.attached_name.clone(),
        claim: kept.claim.clone(),
        pod: PodId { namespace: namespace.to_owned(), name: name.to_owned(), uid: String::new() },
        order: kept.order,
        stage: match kept.stage {
            RecordedVolumeStage::InUse => VolumeStage::InUse,
            RecordedVolumeStage::Detaching => VolumeStage::Detaching,
            RecordedVolumeStage::TimedOut => VolumeStage::TimedOut,
            RecordedVolumeStage::Detached => VolumeStage::Detached,
        },
        since: Moment(kept.since),
        is_late: kept.late,
    }
}

fn order(kept: &RecordedOrder) -> Option<Order> {
    let what = match kept.status {
        DrainStatus::Complete => Command::Complete(requester(kept.requested_by)?),
        DrainStatus::NotSupported => Command::Disable,
        DrainStatus::NotRequested => Command::Enable,
        DrainStatus::Unknown
        | DrainStatus::Requested
        | DrainStatus::Starting
        | DrainStatus::Cordoned
        | DrainStatus::FailedCordon
        | DrainStatus::DrainRetrying
        | DrainStatus::FailedDrain => return None,
    };
    Some(Order { what, by: kept.by.clone() })
}

fn forced(kept: &RecordedOrder) -> Option<Forced> {
    Some(Forced {
        requester: requester(kept.requested_by)?,
        by: kept.by.clone(),
        since: Moment(kept.since),
        used: kept.used,
        until: Moment(kept.until),
    })
}

fn disabled(kept: &RecordedOrder) -> Disabled {
    Disabled { by: kept.by.clone(), since: Moment(kept.since) }
}
