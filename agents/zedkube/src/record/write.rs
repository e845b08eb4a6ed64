//! The session's record as a topic.

use std::time::Duration;

use schemas::{
    DrainRecord, DrainRequester, DrainStatus, RecordedAttempt, RecordedClock, RecordedOrder, RecordedPhase,
    RecordedPhaseName, RecordedRequest,
};
use session::forcing::{Command, Disabled, Forced, Forcing, Needless, Order};
use session::state::{AttemptRecord, Failed, Phase};
use session::{Answer, Record, Request};

use crate::membership::others_of;
use crate::report::{answer_of, ended_of, outcome_of, requester_of, status_of};

/// Everything but who wrote it in which boot.
pub(super) fn record(record: &Record) -> DrainRecord {
    let (status, requested_by) = record.shown;
    let session = &record.session;
    DrainRecord {
        status: status_of(status),
        requested_by: requested_by.map(requester_of).unwrap_or_default(),
        phase: phase(&record.phase),
        since: record.since.0,
        requests: record.requests.iter().map(|standing| request(standing, &record.forcing)).collect(),
        number: session.number,
        started: session.started.map(|moment| moment.0),
        finished: session.finished.map(|moment| moment.0),
        outcome: session.ended.map(ended_of),
        attempts: session.attempts.iter().map(attempt).collect(),
        cordoned_before: session.cordoned_before,
        gone: session.gone,
        attempt: record.attempt.as_ref().map(clock),
        may_be_cordoned: record.may_be_cordoned,
        adopts: record.adopts,
        api_away_since: record.away_since.map(|moment| moment.0),
        others: others_of(record.others),
        looked: record.has_looked,
        pending: record.forcing.pending.as_ref().map(order),
        forced: record.forcing.complete.as_ref().map(forced),
        disabled: record.forcing.disabled.as_ref().map(disabled),
        needless: record.forcing.needless.as_ref().map(needless),
        ..DrainRecord::default()
    }
}

fn phase(phase: &Phase) -> RecordedPhase {
    let named = |name| RecordedPhase { name, ..RecordedPhase::default() };
    match phase {
        Phase::Idle => named(RecordedPhaseName::Idle),
        Phase::Waiting(waiting) => {
            RecordedPhase { started: waiting.since.0, ..named(RecordedPhaseName::Waiting) }
        }
        Phase::Cordoning(cordoning) => RecordedPhase {
            attempt: cordoning.attempt,
            started: cordoning.started.0,
            began: cordoning.began.0,
            failures: cordoning.failures,
            resumes: cordoning.resumes,
            ..named(RecordedPhaseName::Cordoning)
        },
        Phase::Attempting { attempt, started } => {
            RecordedPhase { attempt: *attempt, started: started.0, ..named(RecordedPhaseName::Attempting) }
        }
        Phase::Pausing { failed, until } => {
            RecordedPhase { attempt: *failed, until: until.0, ..named(RecordedPhaseName::Pausing) }
        }
        Phase::Complete { outcome, .. } => {
            RecordedPhase { outcome: Some(outcome_of(*outcome)), ..named(RecordedPhaseName::Complete) }
        }
        Phase::Failed(Failed::Cordon(error)) => {
            RecordedPhase { error: error.clone(), ..named(RecordedPhaseName::FailedCordon) }
        }
        Phase::Failed(Failed::Drain(error)) => {
            RecordedPhase { error: error.clone(), ..named(RecordedPhaseName::FailedDrain) }
        }
    }
}

fn request(request: &Request, forcing: &Forcing) -> RecordedRequest {
    RecordedRequest {
        requested_by: requester_of(request.requester),
        context: request.context.clone(),
        requested_at: request.requested_at.clone(),
        publisher: request.publisher.clone(),
        answer: answer_of(request.answer),
        forced: request.answer == Answer::Forced,
        by: forcing.answered.get(&request.requester).cloned().unwrap_or_default(),
    }
}

fn attempt(record: &AttemptRecord) -> RecordedAttempt {
    RecordedAttempt {
        number: record.number,
        started: record.started.0,
        ended: record.ended.0,
        error: record.error.clone(),
    }
}

fn clock(attempt: &drain::Record) -> RecordedClock {
    RecordedClock {
        started: attempt.started.0,
        deadline: attempt.deadline.0,
        away_total: millis(attempt.away_total),
    }
}

fn order(order: &Order) -> RecordedOrder {
    let (status, requested_by) = match order.what {
        Command::Complete(requester) => (DrainStatus::Complete, requester_of(requester)),
        Command::Disable => (DrainStatus::NotSupported, DrainRequester::None),
        Command::Enable => (DrainStatus::NotRequested, DrainRequester::None),
    };
    RecordedOrder { status, requested_by, by: order.by.clone(), ..RecordedOrder::default() }
}

fn forced(forced: &Forced) -> RecordedOrder {
    RecordedOrder {
        status: DrainStatus::Complete,
        requested_by: requester_of(forced.requester),
        by: forced.by.clone(),
        since: forced.since.0,
        until: forced.until.0,
        used: forced.used,
        outcome: None,
    }
}

fn needless(needless: &Needless) -> RecordedOrder {
    RecordedOrder {
        status: DrainStatus::Complete,
        requested_by: requester_of(needless.requester),
        by: needless.by.clone(),
        since: needless.since.0,
        outcome: Some(outcome_of(needless.outcome)),
        ..RecordedOrder::default()
    }
}

fn disabled(disabled: &Disabled) -> RecordedOrder {
    RecordedOrder {
        status: DrainStatus::NotSupported,
        requested_by: DrainRequester::None,
        by: disabled.by.clone(),
        since: disabled.since.0,
        ..RecordedOrder::default()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
