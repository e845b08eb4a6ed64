//! Tests of the requester on real files; publishers in the same root play zedkube.

use std::fs;
use std::path::PathBuf;

use pubsub::{AgentLock, Root, read_items};
use schemas::{DeferReason, Disabled, DrainStatus, Member, ProceedReason, RequestLine, StandingOrder};
use tempfile::TempDir;

use super::*;
use crate::agent::Agent;
use crate::flags::{AgentFlags, Assignment};

/// Time limit that only a failure reaches: longer than the longest poll interval, also where the clock is paused and
/// jumps.
const TOO_LONG: Duration = Duration::from_mins(10);
const MINUTE: u64 = 60_000;

/// A device with device-op, and with the files of zedkube.
struct Device {
    folder: TempDir,
    agent: Agent,
    zedkube: Zedkube,
}

/// zedkube's publishers. `lock` holds its lock while it "runs".
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

    fn published_request(&self) -> Option<NodeDrainRequest> {
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

    /// Publishes as zedkube, also as EVE's, which has no lock of ours.
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

/// Publishes as the caller does, and returns the request in its record.
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
    assert_eq!(device.published_request(), None, "a verdict changes nothing");

    let own = ask(&mut requester);
    let request = device.published_request().unwrap();
    assert_eq!((request.requested_at, request.context.as_str()), (own.requested_at, "reboot"));
    assert_eq!(request.requested_by, DrainRequester::DeviceOp);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::Starting));

    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Unknown)]);
    device.zedkube.say(DrainStatus::Cordoned, DrainRequester::DeviceOp);
    assert_eq!(requester.verdict(1), Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Cordoned))));
    assert_eq!(requester.blocked_by(), "pod ns/db waits for its budget");
    assert_eq!(requester.release(), "scale db");

    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    assert_eq!(requester.verdict(2), Verdict::Proceed(ProceedReason::Answered(None)));
    assert_eq!(requester.blocked_by(), "");
    assert!(requester.release().starts_with("zedkube answered"), "{}", requester.release());

    assert!(requester.withdraw().unwrap());
    assert_eq!(device.published_request(), None);
    assert_eq!(requester.own(), None);
    assert_eq!(requester.verdict(3), Verdict::Publish);
}

/// D28: in EVE a COMPLETE releases the agent that reads it first.
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

/// The request's file decides, as zedkube reads it, and not the memory of this process.
#[tokio::test]
async fn a_request_that_does_not_stand_is_published_again() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered(None)));
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
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered(None)));
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
    let made = |requested_at, replaces| {
        Some(OwnRequest { requested_at, replaces, awake_ms: 0, seen_other_status: false })
    };
    let other: GoTime = "2026-01-01T00:00:00Z".parse().unwrap();
    for (recorded, content, is_deleted) in [
        (None, hand, false),
        (made(other, GoTime::ZERO), hand, false),
        (made(hand_time, GoTime::ZERO), hand, true),
        // A crash between the record of a new request and its publication.
        (made(other, hand_time), hand, true),
        (made(other, GoTime::ZERO), r#"{"RequestedBy":2}"#, false),
    ] {
        device.write(file, content);
        let mut requester = device.requester(recorded);
        assert_eq!(requester.withdraw().unwrap(), is_deleted, "{recorded:?}: {content}");
        assert_eq!(device.request_file().exists(), !is_deleted, "{recorded:?}: {content}");
        assert!(!requester.withdraw().unwrap(), "twice");
    }
}

/// zedkube goes on with the last good request, so the request is not withdrawn before its file is removed or good
/// again.
#[tokio::test]
async fn a_request_that_cannot_be_read_is_not_forgotten() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    let good = fs::read_to_string(device.request_file()).unwrap();
    device.write("run/zedagent/NodeDrainRequest/global.json", "{");
    let error = crate::error_chain(&requester.withdraw().unwrap_err());
    assert!(error.contains("global.json") && error.contains("remove it"), "{error}");
    assert_eq!(requester.own(), Some(own));
    device.write("run/zedagent/NodeDrainRequest/global.json", &good);
    assert!(requester.withdraw().unwrap());
    assert_eq!((requester.own(), device.published_request()), (None, None));
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

/// The log has a warning with a word to search for at each release of a node that was not drained.
#[tokio::test]
async fn a_release_without_a_drain_is_a_warning() {
    use schemas::Outcome::{ApiUnreachable, Forced, NoSchedulablePeer};
    for outcome in [ApiUnreachable, NoSchedulablePeer, Forced] {
        let mut device = Device::new(&[]).await;
        device.zedkube.start();
        let mut requester = device.requester(None);
        let own = ask(&mut requester);
        let complete = report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
        device.zedkube.publish(&NodeDrainReport { outcome: Some(outcome), ..complete });
        let log = crate::testing::CapturedLog::begin();
        assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered(Some(outcome))));
        let said = log.take();
        assert!(said.contains(" WARN runtime::requester: nodedrain-step: proceed: NOT DRAINED: "), "{said}");
    }
}

/// The name and the reason come from the line of the agent's own request, and from no other.
#[tokio::test]
async fn who_forced_an_answer_and_why_is_in_the_release() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    let line = |publisher: &str, by: &str| RequestLine {
        publisher: publisher.to_owned(),
        requested_at: own.requested_at,
        answer: DrainStatus::Complete,
        outcome: Some(schemas::Outcome::Forced),
        by: by.to_owned(),
        ..RequestLine::default()
    };
    let requests = vec![line(agent::BASEOSMGR, "bob: image"), line(agent::ZEDAGENT, "alice: store closed")];
    device.zedkube.publish(&NodeDrainReport { requests, ..report(&[]) });
    let gate = requester.ask();
    assert!(gate.release.starts_with("NOT DRAINED: "), "{}", gate.release);
    assert!(gate.release.ends_with(" (alice: store closed)"), "{}", gate.release);
}

/// D7: before EVE's zedkube has published anything, EVE's agents take the device down undrained.
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

    // zedkube runs for an hour, then crashes: only absence between two snapshots counts.
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

/// zedkube is suspended with the machine, so that time is no absence.
#[tokio::test]
async fn a_suspend_is_no_absence_of_zedkube() {
    let device = Device::new(&[("drain.start.timeout", "10m")]).await;
    let mut requester = device.requester(None);
    ask(&mut requester);
    let waits = |verdict| matches!(verdict, Verdict::Defer(DeferReason::Away { absent_ms, .. }) if absent_ms < MINUTE);
    assert!(waits(requester.ask().verdict));
    clock::testing::suspend(Duration::from_hours(1));
    let verdict = requester.ask().verdict;
    assert!(waits(verdict), "{verdict:?}");
}

/// A person removes zedkube's files while zedkube runs and serves its sockets. Seen on a device that then went down
/// undrained after the time limit.
#[tokio::test]
async fn a_zedkube_whose_files_are_removed_is_not_away() {
    let device = Device::new(&[("drain.start.timeout", "10m")]).await;
    let root = &device.zedkube.root;
    let lock = AgentLock::acquire(root, agent::ZEDKUBE).unwrap();
    let report_of = Publisher::<NodeDrainReport>::open(root, agent::ZEDKUBE, Persistence::Volatile, &lock);
    let mut zedkube = report_of.and_then(Publisher::served).unwrap();
    let mut requester = device.requester(None);
    ask(&mut requester);
    zedkube.publish(&TopicKey::global(), &report(&[])).unwrap();
    let draining = Verdict::Defer(DeferReason::Draining(None));
    assert_eq!(requester.verdict(0), draining);
    for path in [root.lock(agent::ZEDKUBE), root.pid(agent::ZEDKUBE)] {
        fs::remove_file(&path).unwrap();
        assert_eq!(requester.verdict(5 * MINUTE), draining, "{}", path.display());
        assert_eq!(requester.verdict(50 * MINUTE), draining, "{}", path.display());
    }
    drop((zedkube, lock));
    assert!(
        matches!(requester.verdict(51 * MINUTE), Verdict::Defer(DeferReason::Away { .. })),
        "it has ended"
    );
}

/// zedkube runs, but its loop makes no progress any more.
#[tokio::test]
async fn a_zedkube_that_hangs_is_waited_for_within_limits_or_until_an_operator_lets_the_request_pass() {
    let mut device = Device::new(&[("drain.start.timeout", "10m")]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    let own = ask(&mut requester);
    device.zedkube.report(&[(agent::ZEDAGENT, own.requested_at, DrainStatus::Complete)]);
    device.write("run/ebb/lock/zedkube/touch", "00000000000000000000\n");
    let touch = fs::File::options().write(true).open(device.zedkube.root.touch(agent::ZEDKUBE)).unwrap();
    touch.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let hangs = |verdict| matches!(verdict, Verdict::Defer(DeferReason::Hung { .. }));
    assert!(hangs(requester.ask().verdict), "nobody would take its answer back");
    assert!(
        requester.blocked_by().starts_with("zedkube hangs: its touch file is "),
        "{}",
        requester.blocked_by()
    );
    assert!(requester.release().contains("ebb force complete"), "{}", requester.release());

    let boot_id = device.agent.context().boot_id().to_owned();
    let pass = |requested_at, boot_id: &str| PassGate {
        boot_id: boot_id.to_owned(),
        requested_by: DrainRequester::DeviceOp,
        requested_at,
        by: "alice".to_owned(),
        reason: "the disk does not answer".to_owned(),
        ..PassGate::default()
    };
    for other in [pass(GoTime::ZERO, &boot_id), pass(own.requested_at, "boot-0")] {
        device
            .write("run/ebb/PassGate/zedagent.json", &String::from_utf8(schemas::to_bytes(&other)).unwrap());
        assert!(!requester.ask().is_open(), "{other:?}");
    }
    let ours = pass(own.requested_at, &boot_id);
    device.write("run/ebb/PassGate/zedagent.json", &String::from_utf8(schemas::to_bytes(&ours)).unwrap());
    let gate = requester.ask();
    assert_eq!(gate.verdict, Verdict::Proceed(ProceedReason::Passed));
    assert!(gate.is_answer(), "it serves what the request was made for, and nothing else");
    assert_eq!(
        gate.release,
        "NOT DRAINED: an operator let it pass without zedkube (alice: the disk does not answer)"
    );
    // The next operation has a request of its own.
    requester.withdraw().unwrap();
    ask(&mut requester);
    assert!(hangs(requester.verdict(0)) && hangs(requester.verdict(9 * MINUTE)));
    assert_eq!(requester.verdict(10 * MINUTE), Verdict::Proceed(ProceedReason::ZedkubeHung));
}

/// The agent that asks was restarted meanwhile: the time before counts as well.
#[tokio::test]
async fn the_wait_for_zedkube_goes_on_when_the_agent_is_restarted() {
    let device = Device::new(&[("drain.start.timeout", "10m")]).await;
    let own = ask(&mut device.requester(None));
    let after_four_minutes = || {
        let verdict = device.requester(Some(own)).verdict(own.awake_ms + 4 * MINUTE);
        let Verdict::Defer(DeferReason::Away { absent_ms, .. }) = verdict else { panic!("{verdict:?}") };
        absent_ms / MINUTE
    };
    assert_eq!(after_four_minutes(), 4, "zedkube has not run");
    device.write("run/ebb/lock/zedkube/touch", &format!("{:020}\n", clock::awake_millis()));
    assert_eq!(after_four_minutes(), 0, "zedkube has just ended");
}

/// The waiting time counts per request: the time that an earlier request had waited does not count.
#[tokio::test]
async fn the_wait_for_zedkube_begins_with_the_request() {
    let device = Device::new(&[("drain.start.timeout", "10m")]).await;
    let mut requester = device.requester(None);
    ask(&mut requester);
    requester.verdict(0);
    let absent = |requester: &mut Requester, minutes: u64| {
        let verdict = requester.verdict(minutes * MINUTE);
        let Verdict::Defer(DeferReason::Away { absent_ms, .. }) = verdict else { panic!("{verdict:?}") };
        absent_ms / MINUTE
    };
    assert_eq!(absent(&mut requester, 9), 9);
    requester.withdraw().unwrap();
    assert_eq!(requester.verdict(10 * MINUTE), Verdict::Publish);
    ask(&mut requester);
    assert_eq!(absent(&mut requester, 10), 0);
    assert_eq!(absent(&mut requester, 12), 2);
    // A time without snapshots does not count either: another operation takes the request over.
    ask(&mut requester);
    assert_eq!(absent(&mut requester, 1000), 0);
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

/// D13, D28: an answer of EVE's zedkube names a number and no request.
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
    assert_eq!(device.requester(Some(lost)).verdict(0), Verdict::Publish, "unknown: request again");
}

/// Two threads of EVE's zedkube publish NodeDrainStatus, and its file may keep the older value.
#[tokio::test]
async fn what_eves_zedkube_says_counts_and_not_what_its_file_holds() {
    let device = Device::new(&[]).await;
    let root = &device.zedkube.root;
    let lock = AgentLock::acquire(root, agent::ZEDKUBE).unwrap();
    let zedkube = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, &lock);
    let mut zedkube = zedkube.and_then(Publisher::served).unwrap();
    // EVE's zedkube has no lock of ours.
    drop(lock);
    let (key, requested_by) = (TopicKey::global(), EVE_BY_US);
    let mut say = |status| zedkube.publish(&key, &NodeDrainStatus { status, requested_by }).unwrap();
    let mut requester = device.requester(None);
    ask(&mut requester);
    say(DrainStatus::Requested);
    let told = async |requester: &mut Requester, status| {
        while !requester.status.is_by_socket()
            || requester.status.get(&TopicKey::global()).map(|told| told.status) != Some(status)
        {
            requester.status.changed().await;
        }
    };
    tokio::time::timeout(TOO_LONG, told(&mut requester, DrainStatus::Requested)).await.unwrap();
    device.write("run/zedkube/NodeDrainStatus/global.json", r#"{"Status":9,"RequestedBy":2}"#);
    assert_eq!(requester.verdict(0), Verdict::Defer(DeferReason::Draining(Some(DrainStatus::Requested))));
    say(DrainStatus::Complete);
    tokio::time::timeout(TOO_LONG, told(&mut requester, DrainStatus::Complete)).await.unwrap();
    device.write("run/zedkube/NodeDrainStatus/global.json", r#"{"Status":3,"RequestedBy":2}"#);
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::EveComplete));
}

/// D21: EVE's zedkube starts a second drain beside the first.
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

/// D7: NOTSUPPORTED of EVE's zedkube may only mean that it has not read the configuration yet.
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
    assert_eq!(requester.verdict(0), Verdict::Proceed(ProceedReason::Answered(None)));
}

/// A file that cannot be read must not look like EVE's zedkube, or like no zedkube: both may release the device.
#[tokio::test]
async fn what_cannot_be_read_releases_nobody() {
    let report = "run/zedkube/NodeDrainReport/global.json";
    let status = "run/zedkube/NodeDrainStatus/global.json";
    let complete = r#"{"Status":9,"RequestedBy":2}"#;
    let unknown = DeferReason::Draining(Some(DrainStatus::Unknown));
    let away = DeferReason::Away { absent_ms: 0, limit_ms: Some(10 * MINUTE) };
    for (is_running, files, expected) in [
        // EVE's zedkube, recognised by its status alone, whatever the status is.
        (false, &[(status, "{")][..], unknown),
        (false, &[(status, r#"{"Status":300}"#)], unknown),
        // Our zedkube has died: its status is no answer any more.
        (false, &[(status, complete), (report, "{")], away),
        (false, &[(report, "[]")], away),
        (true, &[(status, complete), (report, "{")], DeferReason::Draining(Some(DrainStatus::Complete))),
        (true, &[(status, "{")], DeferReason::Starting),
    ] {
        let mut device = Device::new(&[]).await;
        for (path, text) in files {
            device.write(path, text);
        }
        if is_running {
            device.zedkube.start();
        }
        let mut requester = device.requester(None);
        let own = OwnRequest { seen_other_status: true, ..requester.next_request() };
        requester.publish(own, "reboot").unwrap();
        requester.seen = Seen::recorded(&own);
        assert_eq!(requester.verdict(0), Verdict::Defer(expected), "{is_running} {files:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_input_is_named_where_the_reason_is() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    device.zedkube.report(&[]);
    let mut requester = device.requester(None);
    ask(&mut requester);
    for path in ["run/zedkube/NodeDrainStatus", "run/zedagent/EdgeNodeClusterConfig"] {
        device.write(&format!("{path}/global.json"), "{ half");
        let named = async {
            while !requester.ask().blocked_by.contains(path) {
                requester.input_changed().await;
            }
        };
        assert!(tokio::time::timeout(TOO_LONG, named).await.is_ok(), "{path}");
    }
    let blocked_by = requester.ask().blocked_by;
    assert!(blocked_by.starts_with("pod ns/db waits for its budget; refused"), "{blocked_by}");
}

#[tokio::test]
async fn only_an_operators_word_or_no_cluster_cuts_the_pause_after_a_failure_short() {
    let device = Device::new(&[]).await;
    let requester = device.requester(None);
    let forced = |requested_by| {
        let standing_order = Some(StandingOrder { requested_by, ..StandingOrder::default() });
        Some(NodeDrainReport { standing_order, ..report(&[]) })
    };
    for (shown, needs_no_pause) in [
        (None, false),
        (Some(report(&[])), false),
        (Some(NodeDrainReport { member: Member::Unknown, ..report(&[]) }), false),
        (Some(NodeDrainReport { member: Member::No, ..report(&[]) }), true),
        (Some(NodeDrainReport { disabled: Some(Disabled::default()), ..report(&[]) }), true),
        (forced(DrainRequester::DeviceOp), true),
        (forced(DrainRequester::None), true),
        (forced(DrainRequester::Update), false),
        (forced(DrainRequester::Unset), false),
    ] {
        if let Some(shown) = &shown {
            device.zedkube.publish(shown);
        }
        assert_eq!(requester.needs_no_pause(), needs_no_pause, "{shown:?}");
    }
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

#[tokio::test(start_paused = true)]
async fn a_pause_is_woken_by_the_report_alone() {
    let mut device = Device::new(&[]).await;
    device.zedkube.start();
    let mut requester = device.requester(None);
    device.zedkube.report(&[]);
    assert!(tokio::time::timeout(TOO_LONG, requester.changed(Listen::ToReport)).await.is_ok());
    device.zedkube.say(DrainStatus::Requested, EVE_BY_US);
    for listen in [Listen::ToReport, Listen::ToNothing] {
        assert!(tokio::time::timeout(TOO_LONG, requester.changed(listen)).await.is_err(), "{listen:?}");
    }
}

/// The lock of zedkube causes no event.
#[tokio::test(start_paused = true)]
async fn without_any_event_there_is_a_look_now_and_then() {
    let device = Device::new(&[]).await;
    let mut requester = device.requester(None);
    assert!(tokio::time::timeout(POLL * 2, requester.changed(Listen::ToGate)).await.is_ok());
}

#[tokio::test]
async fn an_agent_asks_only_for_its_own() {
    let device = Device::new(&[]).await;
    for requester in [DrainRequester::Unset, DrainRequester::None, DrainRequester::Update] {
        let error = Requester::open(&device.agent.context(), requester, None).unwrap_err();
        assert!(matches!(error, RequesterError::WrongRequester { .. }), "{requester}");
    }
}
