use std::collections::BTreeMap;
use std::time::Duration;

use drain::PodId;
use drain::volumes::{VolumeStage, VolumeTrack};
use session::forcing::{Command, Disabled, Forced, Forcing, Order};
use session::slots::Others;
use session::state::{AttemptRecord, Cordoning, Ended, Failed, Phase, Session};
use session::waiting::Waiting;
use session::{Answer, Outcome, Request, Requester, Status};

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

fn request(requester: Requester, answer: Answer) -> Request {
    Request {
        requester,
        context: "reboot".into(),
        requested_at: "2026-08-22T16:10:11.1Z".into(),
        publisher: "zedagent".into(),
        answer,
    }
}

fn volumes() -> BTreeMap<String, VolumeTrack> {
    let pod = PodId { namespace: "a".into(), name: "b".into(), uid: String::new() };
    let track = |volume: &str, stage| VolumeTrack {
        volume: volume.into(),
        attached_name: Some("n".into()),
        claim: "a/c".into(),
        pod: pod.clone(),
        order: -3,
        stage,
        since: Moment(11),
        is_late: true,
    };
    let stages = [
        ("v", VolumeStage::InUse),
        ("w", VolumeStage::Detaching),
        ("x", VolumeStage::TimedOut),
        ("y", VolumeStage::Detached),
    ];
    stages.into_iter().map(|(name, stage)| (name.into(), track(name, stage))).collect()
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
        ended: Some(Ended::Cancelled),
    }
}

fn forcing() -> Forcing {
    Forcing {
        pending: Some(Order { what: Command::Complete(Requester::Update), by: "p".into() }),
        complete: Some(Forced {
            requester: Requester::DeviceOp,
            by: "f".into(),
            since: Moment(21),
            used: true,
            until: Moment(22),
        }),
        disabled: Some(Disabled { by: "d".into(), since: Moment(23) }),
    }
}

/// A record in which no field has its default.
fn full(phase: Phase) -> Record {
    Record {
        requests: vec![
            request(Requester::Operator, Answer::Forced),
            request(Requester::DeviceOp, Answer::Complete),
            request(Requester::Update, Answer::FailedDrain),
        ],
        phase,
        since: Moment(12),
        session: session(),
        shown: (Status::DrainRetrying, Some(Requester::Update)),
        attempt: Some(drain::Record {
            started: Moment(18),
            deadline: Moment(19),
            away_total: Duration::from_millis(20),
            refused_since: BTreeMap::new(),
            volumes: volumes(),
        }),
        may_be_cordoned: true,
        forcing: forcing(),
        away_since: Some(Moment(24)),
        others: Others::Hold,
        has_looked: true,
        adopts: true,
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

/// Written by a zedkube that did not know of them: nothing is known.
#[test]
fn a_record_of_before_says_nothing_of_other_holders() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "boot").write(&full(Phase::Idle), "id").unwrap();
    let path = folder.path().join("run/zedkube/DrainRecord/global.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let old = text.replacen("\"Others\":\"hold\",\"Looked\":true,", "", 1);
    assert_ne!(old, text);
    #[expect(clippy::disallowed_methods, reason = "the file of an older program")]
    std::fs::write(&path, old).unwrap();
    let found = file(folder.path(), "boot").found().unwrap();
    assert_eq!((found.record.others, found.record.has_looked), (Others::Unknown, false));
}

#[test]
fn another_boot_or_nonsense_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "boot").write(&full(Phase::Idle), "id").unwrap();
    assert!(file(folder.path(), "next").found().is_none());
    let path = folder.path().join("run/zedkube/DrainRecord/global.json");
    let good = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"SchemaVersion\":1", "\"SchemaVersion\":2"),
        ("\"Name\":\"Idle\"", "\"Name\":\"Attempting\""),
        ("\"Name\":\"Idle\"", "\"Name\":\"Complete\""),
        ("\"Answer\":8", "\"Answer\":3"),
        ("\"RequestedBy\":3,\"Context\"", "\"RequestedBy\":0,\"Context\""),
        ("{\"SchemaVersion\"", "{{\"SchemaVersion\""),
    ] {
        assert!(good.contains(from), "{from}");
        #[expect(clippy::disallowed_methods, reason = "a broken file is what is wanted")]
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        assert!(file(folder.path(), "boot").found().is_none(), "{to}");
    }
}
