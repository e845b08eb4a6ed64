//! baseos as a whole, on real files; zedkube, volumemgr and nodeagent are played by hand.

use std::path::PathBuf;
use std::time::Duration;

use pubsub::{AgentLock, Persistence, Publisher, Root, Subscription, TopicKey};
use runtime::flags::Assignment;
use runtime::{Agent, AgentFlags, StartError};
use schemas::{
    BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceLine, DrainStatus, Member, NodeDrainReport,
    NodeDrainRequest, RequestLine, Topic, agent, parse,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

use BaseOsHoldState::{Activated, Deferred, Failed, Idle};

/// Long enough for any machine: reached only by a failure.
const TOO_LONG: Duration = Duration::from_mins(1);

/// The image of these tests.
const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

struct Device {
    folder: TempDir,
    root: Root,
    settings: Vec<Assignment>,
    zedkube: AgentLock,
    running: Option<(Stop, JoinHandle<()>)>,
    hold: Subscription<BaseOsHold>,
    statuses: Subscription<BaseOsStatus>,
    request: Subscription<NodeDrainRequest>,
}

impl Device {
    /// A member of a cluster, without volumemgr.
    async fn start(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let assignment =
            |&(key, value): &(&str, &str)| Assignment { key: key.to_owned(), value: value.to_owned() };
        let volatile = Persistence::Volatile;
        let mut device = Self {
            zedkube: AgentLock::acquire(&root, agent::ZEDKUBE).unwrap(),
            hold: Subscription::open(&root, agent::BASEOSMGR, volatile),
            statuses: Subscription::open(&root, agent::BASEOSMGR, volatile),
            request: Subscription::open(&root, agent::BASEOSMGR, volatile),
            settings: settings.iter().map(assignment).collect(),
            running: None,
            folder,
            root,
        };
        device.write("proc/sys/kernel/random/boot_id", "boot-1");
        device.report(None);
        device.run().await;
        device
    }

    async fn run(&mut self) {
        let set = self.settings.clone();
        let flags = AgentFlags { root: self.folder.path().to_owned(), set, ..AgentFlags::default() };
        let agent = start(agent::BASEOSMGR, &flags).await;
        let stop = Stop::new();
        let told = stop.clone();
        let task = tokio::spawn(async move { super::run(agent.context(), told).await.unwrap() });
        self.running = Some((stop, task));
    }

    async fn stop(&mut self) {
        let (stop, task) = self.running.take().unwrap();
        stop.request();
        tokio::time::timeout(Duration::from_secs(2), task).await.expect("ends within 2 s").unwrap();
    }

    /// The device goes down and comes up again.
    async fn boot(&mut self, boot_id: &str) {
        self.stop().await;
        for publisher in [agent::BASEOSMGR, agent::CONTROLLER, agent::ZEDAGENT] {
            let folder = self.path("run").join(publisher);
            if folder.exists() {
                std::fs::remove_dir_all(folder).unwrap();
            }
        }
        self.write("proc/sys/kernel/random/boot_id", boot_id);
        self.run().await;
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        std::fs::write(path, text).unwrap();
    }

    /// zedkube's report, with its answer to the request that stands.
    fn report(&self, answer: Option<DrainStatus>) {
        let request = self.request.get(&TopicKey::global());
        let line = request.zip(answer).map(|(request, answer)| RequestLine {
            publisher: agent::BASEOSMGR.to_owned(),
            requested_at: request.requested_at,
            answer,
            ..RequestLine::default()
        });
        let report = NodeDrainReport {
            member: Member::Yes,
            requests: line.into_iter().collect(),
            ..NodeDrainReport::default()
        };
        let mut publisher =
            Publisher::open(&self.root, agent::ZEDKUBE, Persistence::Volatile, &self.zedkube).unwrap();
        publisher.publish(&TopicKey::global(), &report).unwrap();
    }

    fn want(&self, publisher: &str, counter: u32, activate: bool) {
        let text = format!(
            r#"{{"BaseOsVersion":"2.0","ContentTreeUUID":"{UUID}","RetryUpdateCounter":{counter},"Activate":{activate}}}"#
        );
        self.write(&format!("run/{publisher}/BaseOsConfig/{UUID}.json"), &text);
    }

    async fn until_hold(&mut self, state: BaseOsHoldState) -> BaseOsHold {
        until(&mut self.hold, &TopicKey::global(), |hold| hold.is_some_and(|hold| hold.state == state))
            .await
            .unwrap()
    }

    async fn until_status(&mut self, wanted: impl Fn(&BaseOsStatus) -> bool) -> BaseOsStatus {
        let key = TopicKey::parse(UUID).unwrap();
        until(&mut self.statuses, &key, |status| status.is_some_and(&wanted)).await.unwrap()
    }

    /// Waits for the request, then answers it.
    async fn drain(&mut self, answer: DrainStatus) -> NodeDrainRequest {
        let request =
            until(&mut self.request, &TopicKey::global(), |request| request.is_some()).await.unwrap();
        self.report(Some(answer));
        request
    }

    async fn until_withdrawn(&mut self) {
        until(&mut self.request, &TopicKey::global(), |request| request.is_none()).await;
    }
}

/// Becomes the agent. A program that another test has just forked holds a copy of the lock of an agent that has
/// ended, until it is executed; no event tells when.
async fn start(name: &str, flags: &AgentFlags) -> Agent {
    let starting = async {
        loop {
            match Agent::start(name, flags).await {
                Ok(agent) => return agent,
                Err(StartError::Lock { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(TOO_LONG, starting).await.expect("the lock becomes free")
}

/// Waits until an item is as wanted, and gives it.
async fn until<T: Topic>(
    subscription: &mut Subscription<T>,
    key: &TopicKey,
    wanted: impl Fn(Option<&T>) -> bool,
) -> Option<T> {
    let waiting = async {
        while !wanted(subscription.get(key)) {
            subscription.changed().await;
        }
    };
    let is_late = tokio::time::timeout(TOO_LONG, waiting).await.is_err();
    assert!(!is_late, "waited too long; it is {:?}", subscription.get(key));
    subscription.get(key).cloned()
}

#[tokio::test]
async fn from_the_configuration_to_the_next_boot() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activated");
    let command = format!(
        r#"["sh", "-c", "echo $EBB_BASEOS_ID $EBB_BASEOS_VERSION [$EBB_BASEOS_PARTITION] >> {}"]"#,
        file.display()
    );
    let mut device = Device::start(&[("baseos.activate", &command)]).await;
    device.want(agent::CONTROLLER, 1, true);
    let held = device.until_hold(Deferred).await;
    assert_eq!(held.content_tree_uuid, UUID);
    let request = device.drain(DrainStatus::Complete).await;
    assert_eq!((request.context.as_str(), request.requested_by.code()), (UUID, 3));
    device.until_hold(Activated).await;
    device.until_status(|status| status.activated && status.partition_state == "updating").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{UUID} 2.0 []\n"));
    device.stop().await;
    device.run().await;
    device.until_hold(Activated).await;

    device.boot("boot-2").await;
    device.until_status(|status| status.activated && status.partition_state == "active").await;
    device.want(agent::CONTROLLER, 1, true);
    device.until_hold(Idle).await;
    device.stop().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1, "activated once");
}

#[tokio::test]
async fn a_failed_activation_is_told_and_withdraws_the_request() {
    let command = r#"["sh", "-c", "echo no space >&2; exit 3"]"#;
    let mut device = Device::start(&[("baseos.activate", command)]).await;
    device.want(agent::ZEDAGENT, 1, true);
    device.drain(DrainStatus::Complete).await;
    let status = device.until_status(|status| !status.error.is_empty()).await;
    assert!(status.error.contains("exit status: 3: no space"), "{}", status.error);
    device.until_hold(Failed).await;
    device.until_withdrawn().await;
    device.want(agent::ZEDAGENT, 2, true);
    device.drain(DrainStatus::Complete).await;
    device.stop().await;
}

#[tokio::test]
async fn a_crash_during_the_activation_is_told() {
    let mut device = Device::start(&[("baseos.activate", r#"["sleep", "600"]"#)]).await;
    device.want(agent::CONTROLLER, 1, true);
    device.drain(DrainStatus::Complete).await;
    device.until_hold(BaseOsHoldState::Activating).await;
    let record = device.path("persist/status/baseosmgr/ActivationRecord/global.json");
    let mut watch = pubsub::PathWatch::new([record.parent().unwrap()]);
    while !std::fs::read_to_string(&record).unwrap_or_default().contains("Started") {
        tokio::time::timeout(TOO_LONG, watch.changed()).await.unwrap();
    }
    device.stop().await;
    device.run().await;
    let failed = device.until_hold(Failed).await;
    assert!(failed.blocked_by.contains("interrupted"), "{}", failed.blocked_by);
    device.until_withdrawn().await;
    device.stop().await;
}

#[tokio::test]
async fn d14_a_reverted_configuration_withdraws_the_request() {
    let mut device = Device::start(&[]).await;
    device.want(agent::CONTROLLER, 1, true);
    device.drain(DrainStatus::Unknown).await;
    device.want(agent::CONTROLLER, 1, false);
    device.until_withdrawn().await;
    device.until_hold(Idle).await;
    device.stop().await;
}

#[tokio::test]
async fn only_loaded_content_is_activated_where_volumemgr_reports() {
    let mut device = Device::start(&[]).await;
    let content = |device: &Device, state: u8| {
        let path = format!("run/volumemgr/ContentTreeStatus/{UUID}.json");
        device.write(&path, &format!(r#"{{"ContentID":"{UUID}","State":{state}}}"#));
    };
    content(&device, 103);
    device.want(agent::CONTROLLER, 1, true);
    device.until_status(|status| status.state.0 == 103).await;
    assert_eq!(device.request.get(&TopicKey::global()), None);
    content(&device, 108);
    device.drain(DrainStatus::Complete).await;
    device.until_hold(Activated).await;
    device.stop().await;
}

#[tokio::test]
async fn a_dry_run_writes_one_line_and_leaves_the_status_alone() {
    let mut device = Device::start(&[("baseos.dry-run", "true"), ("baseos.activate", r#"["false"]"#)]).await;
    device.want(agent::CONTROLLER, 5, true);
    device.drain(DrainStatus::Complete).await;
    device.until_hold(Activated).await;
    device.stop().await;
    device.run().await;
    device.until_hold(Activated).await;
    device.until_status(|status| !status.activated).await;
    device.stop().await;
    let text = std::fs::read_to_string(device.path("persist/device-actions.jsonl")).unwrap();
    let lines: Vec<DeviceLine> = text.lines().map(|line| parse(line.as_bytes()).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    let line = &lines[0];
    assert_eq!((line.action.as_str(), line.counter, line.content_tree_uuid.as_str()), ("activate", 5, UUID));
    assert_eq!(line.boot_id, "boot-1");
}

#[tokio::test]
async fn an_image_that_did_not_stay_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("version");
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    std::fs::write(&file, "1.0\n").unwrap();
    let mut device = Device::start(&[("baseos.current", &file.display().to_string())]).await;
    device.want(agent::CONTROLLER, 1, true);
    device.drain(DrainStatus::Complete).await;
    device.until_hold(Activated).await;
    device.boot("boot-2").await;
    let failed = device.until_status(|status| !status.error.is_empty()).await;
    assert_eq!(failed.error, "image did not stay: 1.0 is running");
    device.stop().await;
}
