//! The requester against real files: zedkube's part is played by publishers in the same root.

use std::fs;
use std::path::PathBuf;

use pubsub::{AgentLock, Root, read_items};
use schemas::{DeferReason, Disabled, DrainStatus, Member, ProceedReason, RequestLine};
use tempfile::TempDir;

use super::*;
use crate::agent::Agent;
use crate::flags::{AgentFlags, Assignment};

/// Reached only by a failure: longer than the slowest look, also where the clock is paused and jumps.
const TOO_LONG: Duration = Duration::from_mins(10);
const MINUTE: u64 = 60_000;

/// A device with device-op, and with files where zedkube's would be.
struct Device {
    folder: TempDir,
    agent: Agent,
    zedkube: Zedkube,
}

/// zedkube's publications. Its lock is held in `lock` while it "runs".
struct Zedkube {
    root: Root,
    lock: Option<AgentLock>,
}

impl Device {
    async fn new(set: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let set = set.iter().map(|&(key, value)| Assignment { key: key.to_owned(), value: value.to_owned() });
        let flags =
            AgentFlags { root: folder.path().to_owned(), set: set.collect(), ..AgentFlags::default() };
        let agent = Agent::start(agent::ZEDAGENT, &flags).await.unwrap();
        let zedkube = Zedkube { root: Root::new(folder.path()), lock: None };
        Self { folder, agent, zedkube }
    }

    fn requester(&self, recorded: Option<OwnRequest>) -> Requester {
        Requester::open(&self.agent.context(), DrainRequester::DeviceOp, recorded).unwrap()
    }

    fn request_file(&self) -> PathBuf {
        self.folder.path().join("run/zedagent/NodeDrainRequest/global.json")
    }

    fn standing(&self) -> Option<NodeDrainRequest> {
        let key = TopicKey::global();
        read_items(&self.zedkube.root, agent::ZEDAGENT, Persistence::Volatile).items.remove(&key)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a person's echo is not durable either")]
        fs::write(path, text).unwrap();
    }

    fn cluster_config(&self, text: &str) {
        self.write("run/zedagent/EdgeNodeClusterConfig/global.json", text);
    }
}

impl Zedkube {
    fn start(&mut self) {
        self.lock = Some(AgentLock::acquire(&self.root, agent::ZEDKUBE).unwrap());
    }

    fn stop(&mut self) {
        self.lock = None;
    }

    /// Publishes as zedkube, also when it is EVE's, which has no lock of ours.
    fn publish<T: Topic>(&self, value: &T) {
        let borrowed = self.lock.is_none().then(|| AgentLock::acquire(&self.root, agent::ZEDKUBE).unwrap());
        let lock = self.lock.as_ref().or(borrowed.as_ref()).unwrap();
        let mut publisher = Publisher::open(&self.root, agent::ZEDKUBE, Persistence::Volatile, lock).unwrap();
        publisher.publish(&TopicKey::global(), value).unwrap();
    }

    fn say(&self, status: DrainStatus, requested_by: DrainRequester) {
        self.publish(&NodeDrainStatus { status, requested_by });
    }

    fn report(&self, requests: &[(&str, GoTime, DrainStatus)]) {
        self.publish(&report(requests));
    }
}

fn report(requests: &[(&str, GoTime, DrainStatus)]) -> NodeDrainReport {
    let line = |&(publisher, requested_at, answer): &(&str, GoTime, DrainStatus)| RequestLine {
        publisher: publisher.to_owned(),
        requested_at,
        answer,
        ..RequestLine::default()
    };
    NodeDrainReport {
        member: Member::Yes,
        reason: "pod ns/db waits for its budget".to_owned(),
        hint: "scale db".to_owned(),
        requests: requests.iter().map(line).collect(),
        ..NodeDrainReport::default()
    }
}

type Change = fn(&Device);

/// Publishes as the caller does, and gives what its record would hold.
fn ask(requester: &mut Requester) -> OwnRequest {
    let own = requester.next_request();
    assert_eq!(requester.publish(own, "reboot").unwrap(), own.requested_at);
    own
}

const EVE_BY_US: DrainRequester = DrainRequester::DeviceOp;

#[tokio::test]
async fn a_drain_from_request_to_answer() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    assert_eq!(requester.verdict(0), Verdict::Publish);
    assert_eq!(device.standing(), None, "a verdict changes nothing");

    let own = ask(&mut requester);
    let standing = device.standing().unwrap();
    assert_eq!((standing.requested_at, standing.context.as_str()), (own.requested_at, "reboot"));
    assert_eq!(standing.requested_by, DrainRequester::DeviceOp);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::Starting));

    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Unknown)]);
    device.zedkube.say(DrainStatus::Cordoned, DrainRequester::DeviceOp);
    assert_eq!(requester.verdict(1), Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Cordoned))));
    assert_eq!(requester.blocked_by(), "pod ns/db waits for its budget");
    assert_eq!(requester.release(), "scale db");

    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    assert_eq!(requester.verdict(2), Verdict::Proceed(ProceedReason::Answered));
    assert_eq!((requester.blocked_by(), requester.release()), (String::new(), String::new()));

    assert!(requester.withdraw().unwrap());
    assert_eq!(device.standing(), None);
    assert_eq!(requester.own(), None);
    assert_eq!(requester.verdict(3), Verdict::Publish);
}

#[tokio::test]
async fn an_answer_to_somebody_else_releases_nobody() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    let other = GoTime::ZERO;
    device.zedkube.say(DrainStatus::Complete, DrainRequester::DeviceOp);
    for requests in [
        &[][..],
        &[(agent::BASEOSMGR, own.requested_at, DrainStatus::Complete)],
        &[(agent::ZEDAGENT, other, DrainStatus::Complete)],
        &[(agent::ZEDAGENT, own.requested_at, DrainStatus::Unknown)],
    ] {
        device.zedkube.report(requests);
        assert!(matches!(requester.verdict(0), Verdict::Defer(_)), "{requests:?}");
    }
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::FailedDrain)]);
    assert_eq!(requester.verdict(0), Verdict::Failed(DrainStatus::FailedDrain));
    assert!(requester.blocked_by().contains("Failed Drain: pod ns/db"), "{}", requester.blocked_by());
}

/// The file decides, as zedkube reads it; what this process remembers does not.
#[tokio::test]
async fn a_request_that_does_not_stand_is_published_again() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered));
    let good = fs::read_to_string(device.request_file()).unwrap();
    let file = "run/zedagent/NodeDrainRequest/global.json";
    for bad in [
        String::new(),
        "{".to_owned(),
        good.replace("\"RequestedBy\":2", "\"RequestedBy\":3"),
        good.replace("\"RequestedBy\":2", "\"RequestedBy\":0"),
        good.replace("\"RequestedAt\":\"2", "\"RequestedAt\":\"1"),
    ] {
        device.write(file, &bad);
        assert_eq!(requester.verdict(0), Verdict::Publish, "{bad}");
    }
    device.write(file, &good);
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered));
    fs::remove_file(device.request_file()).unwrap();
    assert_eq!(requester.verdict(0), Verdict::Publish);
    let again = ask(&mut requester);
    assert_ne!(again.requested_at, own.requested_at);
}

#[tokio::test]
async fn only_an_own_item_is_deleted() {
    let device = Device::new(&[]).await;
    let hand = r#"{"RequestedAt":"2026-08-22T16:10:11.5Z","RequestedBy":2,"Context":"reboot"}"#;
    let hand_time: GoTime = "2026-08-22T16:10:11.5Z".parse().unwrap();
    let file = "run/zedagent/NodeDrainRequest/global.json";
    let made = |requested_at, replaces| Some(OwnRequest { requested_at, replaces, seen_other_status: false });
    let other: GoTime = "2026-01-01T00:00:00Z".parse().unwrap();
    for (recorded, content, is_deleted) in [
        (None, hand, false),
        (made(other, GoTime::ZERO), hand, false),
        (made(hand_time, GoTime::ZERO), hand, true),
        // A crash after the record of a new request and before its publication.
        (made(other, hand_time), hand, true),
        (made(hand_time, GoTime::ZERO), "{", false),
        (made(other, GoTime::ZERO), r#"{"RequestedBy":2}"#, false),
    ] {
        device.write(file, content);
        let mut requester = device.requester(recorded);
        assert_eq!(requester.withdraw().unwrap(), is_deleted, "{recorded:?}: {content}");
        assert_eq!(device.request_file().exists(), !is_deleted, "{recorded:?}: {content}");
        assert!(!requester.withdraw().unwrap(), "twice");
    }
}

#[tokio::test]
async fn a_restart_goes_on_with_the_recorded_request() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    drop(requester);
    let mut requester = device.requester(Some(own));
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered));
    drop(requester);
    // Without the record nobody knows whose request that is.
    assert_eq!(device.requester(None).verdict(0), Verdict::Publish);
}

#[tokio::test]
async fn no_drain_is_needed_outside_a_cluster_or_when_switched_off() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    device.zedkube.publish(&NodeDrainReport { member: Member::No, ..report(&[]) });
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::NotAMember));
    device.zedkube.publish(&NodeDrainReport { member: Member::Unknown, ..report(&[]) });
    assert_eq!(requester.verdict(0), Verdict::Publish);
    device.zedkube.publish(&NodeDrainReport { disabled: Some(Disabled::default()), ..report(&[]) });
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Disabled));
}

#[tokio::test]
async fn an_absent_zedkube_is_waited_for_within_limits() {
    let mut device = Device::new(&[("drain.start.timeout", "10m")]).await;
    let mut requester = device.requester(None);
    ask(&mut requester);
    let away = |minutes: u64| {
        Verdict::Defer(DeferReason::Away { absent_ms: minutes * MINUTE, limit_ms: Some(10 * MINUTE) })
    };
    assert_eq!(requester.verdict(0), away(0));
    assert_eq!(requester.verdict(4 * MINUTE), away(4));
    assert!(
        requester.blocked_by().contains("zedkube does not run (240 s of 600 s)"),
        "{}",
        requester.blocked_by()
    );
    assert!(requester.release().contains("start zedkube"), "{}", requester.release());

    // It runs for an hour, then crashes: only what was seen as absence from look to look counts.
    device.zedkube.start();
    assert_eq!(requester.verdict(5 * MINUTE), Verdict::Defer(DeferReason::Starting));
    device.zedkube.stop();
    assert_eq!(requester.verdict(65 * MINUTE), away(4));
    assert_eq!(requester.verdict(69 * MINUTE), away(8));

    // A report that changes is a sign of work.
    device.zedkube.report(&[]);
    assert_eq!(requester.verdict(70 * MINUTE), away(0));
    assert_eq!(requester.verdict(79 * MINUTE), away(9));
    assert_eq!(requester.verdict(80 * MINUTE), Verdict::Proceed(ProceedReason::ZedkubeAway));
}

#[tokio::test]
async fn an_absent_zedkube_is_waited_for_without_limit_if_told_so() {
    let device = Device::new(&[("drain.start.on-timeout", "wait")]).await;
    let mut requester = device.requester(None);
    ask(&mut requester);
    requester.verdict(0);
    let verdict = requester.verdict(1000 * MINUTE);
    assert_eq!(verdict, Verdict::Defer(DeferReason::Away { absent_ms: 1000 * MINUTE, limit_ms: None }));
}

#[tokio::test]
async fn eves_answer_counts_only_after_another_status() {
    let device = Device::new(&[]).await;
    device.zedkube.say(DrainStatus::Complete, EVE_BY_US);
    let mut requester = device.requester(None);
    assert_eq!(requester.verdict(0), Verdict::Publish, "an answer from before");
    ask(&mut requester);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::EveStale(DrainStatus::Complete)));
    assert!(!requester.own().unwrap().seen_other_status);

    device.zedkube.say(DrainStatus::Requested, EVE_BY_US);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Requested))));
    let recorded = requester.own().unwrap();
    assert!(recorded.seen_other_status, "for the record");
    device.zedkube.say(DrainStatus::Complete, DrainRequester::Update);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::EveStale(DrainStatus::Complete)));
    device.zedkube.say(DrainStatus::Complete, EVE_BY_US);
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::EveComplete));
    drop(requester);

    assert_eq!(device.requester(Some(recorded)).verdict(0), Verdict::Proceed(ProceedReason::EveComplete));
    let lost = OwnRequest { seen_other_status: false, ..recorded };
    assert_eq!(device.requester(Some(lost)).verdict(0), Verdict::Publish, "unknown: ask anew");
}

#[tokio::test]
async fn eves_zedkube_is_not_asked_while_it_drains_for_another() {
    let device = Device::new(&[]).await;
    let mut requester = device.requester(None);
    for status in
        [DrainStatus::Requested, DrainStatus::Starting, DrainStatus::Cordoned, DrainStatus::DrainRetrying]
    {
        device.zedkube.say(status, DrainRequester::Update);
        assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::EveBusy(status)));
    }
}

#[tokio::test]
async fn eves_not_supported_needs_a_word_about_the_cluster() {
    let device = Device::new(&[]).await;
    device.zedkube.say(DrainStatus::NotSupported, DrainRequester::None);
    let mut requester = device.requester(None);
    ask(&mut requester);
    let unclear = Verdict::Defer(DeferReason::EveClusterUnclear);
    for (config, verdict) in [
        (None, unclear),
        (Some(r#"{"Initialized":false,"Valid":false}"#), unclear),
        (Some(r#"{"Initialized":true,"Valid":true}"#), unclear),
        (Some(r#"{"Initialized":true,"Valid":false}"#), Verdict::Proceed(ProceedReason::EveNotSupported)),
    ] {
        if let Some(text) = config {
            device.cluster_config(text);
        }
        assert_eq!(requester.verdict(0), verdict, "{config:?}");
    }
}

#[tokio::test]
async fn a_report_that_is_refused_leaves_the_last_good_one() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    let known = async {
        while requester.report.items().is_empty() {
            requester.report.changed().await;
        }
    };
    tokio::time::timeout(TOO_LONG, known).await.unwrap();
    device.write("run/zedkube/NodeDrainReport/global.json", "{ half");
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered));
}

#[tokio::test(start_paused = true)]
async fn every_input_of_the_verdict_wakes_up() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let changes: [(&str, Change); 5] = [
        ("request", |device| {
            device.write("run/zedagent/NodeDrainRequest/global.json", r#"{"RequestedBy":2}"#);
        }),
        ("status", |device| device.zedkube.say(DrainStatus::Requested, EVE_BY_US)),
        ("report", |device| device.zedkube.report(&[])),
        ("cluster", |device| device.cluster_config(r#"{"Initialized":true}"#)),
        ("settings", |device| device.write("etc/ebb/ebb.toml", "no-peer = \"wait\"")),
    ];
    for (input, change) in changes {
        change(&device);
        let woken = tokio::time::timeout(TOO_LONG, requester.input_changed()).await;
        assert!(woken.is_ok(), "{input}");
    }
}

/// The lock of zedkube makes no event.
#[tokio::test(start_paused = true)]
async fn without_any_event_there_is_a_look_now_and_then() {
    let device = Device::new(&[]).await;
    let mut requester = device.requester(None);
    assert!(tokio::time::timeout(LOOK * 2, requester.changed()).await.is_ok());
}

#[tokio::test]
async fn an_agent_asks_only_for_its_own() {
    let device = Device::new(&[]).await;
    for requester in [DrainRequester::Unset, DrainRequester::None, DrainRequester::Update] {
        let error = Requester::open(&device.agent.context(), requester, None).unwrap_err();
        assert!(matches!(error, RequesterError::WrongRequester { .. }), "{requester}");
    }
}
