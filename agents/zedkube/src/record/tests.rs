use std::collections::BTreeMap;
use std::time::Duration;

use schemas::{DrainOrder, DrainRequester, DrainStatus, OtherHolders, Outcome};
use session::event::Order;
use session::orders::{Disabled, Forced, Needless, Orders};
use session::phase::{Cordoning, Waiting};
use session::state::{AttemptRecord, Session};

use super::*;

fn phases() -> Vec<Phase> {
    let outcomes = [
        Outcome::Drained,
        Outcome::ApiUnreachable,
        Outcome::NoSchedulablePeer,
        Outcome::NodeGone,
        Outcome::Forced,
    ];
    let complete = outcomes.map(|outcome| Phase::Complete { outcome, recheck: None });
    let cordoning = Cordoning {
        attempt: 2,
        started: Moment(3),
        began: Moment(4),
        failures: 5,
        resumes: true,
        ..Cordoning::default()
    };
    let others = [
        Phase::Idle,
        Phase::Waiting(Waiting { since: Moment(7), ..Waiting::default() }),
        Phase::Cordoning(cordoning),
        Phase::Attempting { attempt: 3, started: Moment(8) },
        Phase::Pausing { failed: 2, until: Moment(9) },
        Phase::Failed(Failed::Cordon("c".into())),
        Phase::Failed(Failed::Drain("d".into())),
    ];
    complete.into_iter().chain(others).collect()
}

fn request(requester: DrainRequester, answer: Answer) -> Request {
    Request {
        requester,
        context: "reboot".into(),
        requested_at: "2026-08-22T16:10:11.1Z".into(),
        publisher: "zedagent".into(),
        forced_by: if answer == Answer::Forced { "a".into() } else { String::new() },
        kept: false,
        answer,
    }
}

fn session() -> Session {
    let error = "e".to_owned();
    Session {
        number: 4,
        started: Some(Moment(13)),
        finished: Some(Moment(14)),
        attempts: vec![AttemptRecord { number: 1, started: Moment(15), ended: Moment(16), error }],
        cordoned_before: true,
        gone: 17,
        ended: Some(Outcome::Cancelled),
        told: Some(Outcome::NodeGone),
    }
}

fn orders() -> Orders {
    Orders {
        pending: Some(Order { what: DrainOrder::Complete(DrainRequester::Update), by: "p".into() }),
        complete: Some(Forced {
            requester: DrainRequester::DeviceOp,
            by: "f".into(),
            since: Moment(21),
            used: true,
            until: Moment(22),
        }),
        disabled: Some(Disabled { by: "d".into(), since: Moment(23) }),
        needless: Some(Needless {
            requester: DrainRequester::Update,
            by: "n".into(),
            since: Moment(25),
            outcome: Outcome::NodeGone,
        }),
    }
}

/// A record in which no field has its default.
fn full(phase: Phase) -> Record {
    Record {
        requests: vec![
            request(DrainRequester::None, Answer::Forced),
            request(DrainRequester::DeviceOp, Answer::Complete),
            request(DrainRequester::Update, Answer::FailedDrain),
        ],
        phase,
        since: Moment(12),
        session: session(),
        status: DrainStatus::DrainRetrying,
        requested_by: DrainRequester::Update,
        attempt: Some(drain::Record {
            started: Moment(18),
            deadline: Moment(19),
            away_total: Duration::from_millis(20),
            refused_since: BTreeMap::new(),
        }),
        may_be_cordoned: true,
        has_been_back: true,
        orders: orders(),
        away_since: Some(Moment(24)),
        others: OtherHolders::Hold,
        has_looked: true,
        adopts: true,
        cluster: Some("c".into()),
    }
}

fn file(folder: &std::path::Path, boot_id: &str) -> RecordFile {
    let root = Root::new(folder);
    let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
    RecordFile::open(&root, &lock, boot_id).unwrap()
}

#[test]
fn every_record_comes_back_as_it_was() {
    for phase in phases() {
        let record = full(phase);
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "boot").write(&record, "id").unwrap();
        let found = file(folder.path(), "boot").found().unwrap();
        assert_eq!((found.record, found.drain_id.as_str()), (record, "id"));
    }
}

/// The longest possible record, with names as long as Kubernetes allows.
fn huge() -> Record {
    let mut record = full(Phase::Failed(Failed::Drain("<".repeat(300_000))));
    let long = "<".repeat(20_000);
    for request in &mut record.requests {
        request.context = "<".repeat(1024);
    }
    let attempt = |number| AttemptRecord { number, error: long.clone(), ..session().attempts.remove(0) };
    record.session.attempts = (1..=100).map(attempt).collect();
    record
}

#[test]
fn a_record_that_is_too_long_loses_what_can_be_found_out_anew_and_nothing_else() {
    let record = huge();
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "boot").write(&record, "id").unwrap();
    let found = file(folder.path(), "boot").found().unwrap().record;
    assert_eq!(
        (&found.requests, &found.orders, found.status),
        (&record.requests, &record.orders, record.status)
    );
    assert_eq!(found.attempt.map(|attempt| attempt.deadline), record.attempt.map(|attempt| attempt.deadline));
    assert_eq!(found.session.attempts.last().map(|attempt| attempt.number), Some(100));
    assert!(matches!(found.phase, Phase::Failed(Failed::Drain(text)) if text.starts_with('<')));
}

#[test]
fn another_boot_or_nonsense_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "boot").write(&full(Phase::Idle), "id").unwrap();
    assert!(file(folder.path(), "next").found().is_none());
    let path = folder.path().join("run/zedkube/DrainRecord/global.json");
    let good = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"SchemaVersion\":2", "\"SchemaVersion\":1"),
        ("\"Phase\":\"Idle\"", "\"Phase\":\"Attempting\""),
        ("\"Phase\":\"Idle\"", "\"Phase\":{\"Attempting\":{\"Attempt\":0,\"Started\":1}}"),
        ("\"Phase\":\"Idle\"", "\"Phase\":{\"Complete\":{\"Outcome\":\"Cancelled\"}}"),
        ("\"Answer\":\"FailedDrain\"", "\"Answer\":\"Requested\""),
        ("\"Requester\":3,\"Context\"", "\"Requester\":0,\"Context\""),
        ("{\"SchemaVersion\"", "{{\"SchemaVersion\""),
    ] {
        assert!(good.contains(from), "{from}");
        #[expect(clippy::disallowed_methods, reason = "a broken file is what is wanted")]
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        assert!(file(folder.path(), "boot").found().is_none(), "{to}");
    }
}

#[test]
fn a_complete_that_was_taken_back_does_not_stay_on_disk() {
    let complete = |answer| Record {
        requests: vec![request(DrainRequester::DeviceOp, answer)],
        ..full(Phase::Complete { outcome: Outcome::Drained, recheck: None })
    };
    for (told, now, stays) in [
        (Answer::Complete, Answer::None, false),
        (Answer::Complete, Answer::Complete, true),
        (Answer::Complete, Answer::Forced, true),
        (Answer::None, Answer::None, true),
        (Answer::Forced, Answer::None, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = file(folder.path(), "boot");
        kept.write(&complete(told), "id").unwrap();
        kept.failed(&complete(now), Moment(0));
        drop(kept);
        assert_eq!(file(folder.path(), "boot").found().is_some(), stays, "{told:?} {now:?}");
    }
}
