//! device-op as a whole, on real files; zedkube and nodeagent are played by hand.

use std::path::PathBuf;
use std::time::Duration;

use pubsub::{AgentLock, Persistence, Publisher, Root, Subscription, TopicKey};
use runtime::flags::Assignment;
use runtime::{Agent, AgentFlags};
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, DrainStatus, Member,
    NodeDrainReport, NodeDrainRequest, Operation, RequestLine, Topic, ZedAgentStatus, agent, parse,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

/// Long enough for any machine: reached only by a failure.
const TOO_LONG: Duration = Duration::from_mins(1);

/// A device with a zedkube that is played by hand.
struct Device {
    folder: TempDir,
    root: Root,
    zedkube: AgentLock,
    running: Option<(Stop, JoinHandle<()>)>,
    status: Subscription<DeviceOpStatus>,
    command: Subscription<ZedAgentStatus>,
    request: Subscription<NodeDrainRequest>,
}

impl Device {
    /// A member of a cluster whose counter files hold 1.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let zedkube = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        let volatile = Persistence::Volatile;
        let mut device = Self {
            status: Subscription::open(&root, agent::ZEDAGENT, volatile),
            command: Subscription::open(&root, agent::ZEDAGENT, volatile),
            request: Subscription::open(&root, agent::ZEDAGENT, volatile),
            running: None,
            folder,
            root,
            zedkube,
        };
        device.write("proc/sys/kernel/random/boot_id", "boot-1");
        for operation in Operation::ALL {
            device.write(&counter_path(operation), r#"{"Counter":1,"DesiredState":true,"OpsTime":"then"}"#);
        }
        device.report(None);
        device.run().await;
        device
    }

    async fn run(&mut self) {
        let set = vec![Assignment { key: "device-op.retry".to_owned(), value: "0s".to_owned() }];
        let flags = AgentFlags { root: self.folder.path().to_owned(), set, ..AgentFlags::default() };
        let agent = Agent::start(agent::ZEDAGENT, &flags).await.unwrap();
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
            publisher: agent::ZEDAGENT.to_owned(),
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

    fn nodeagent(&self, operation: Operation, counter: u32, state: DeviceActionState) {
        let lock = AgentLock::acquire(&self.root, agent::NODEAGENT).unwrap();
        let mut publisher =
            Publisher::open(&self.root, agent::NODEAGENT, Persistence::Volatile, &lock).unwrap();
        let action = DeviceAction { command: Some(operation), counter, state, ..DeviceAction::default() };
        publisher.publish(&TopicKey::global(), &action).unwrap();
    }

    fn give(&self, operation: Operation, counter: u32) {
        let text = format!(r#"{{"Counter":{counter},"DesiredState":true,"OpsTime":"now"}}"#);
        self.write(&command_path(operation), &text);
    }

    async fn until_status(&mut self, state: DeviceOpState) -> DeviceOpStatus {
        until(&mut self.status, &TopicKey::global(), |status| {
            status.is_some_and(|status| status.state == state)
        })
        .await
        .unwrap()
    }

    async fn until_blocked_by(&mut self, why: &str) {
        let is_blocked =
            |status: Option<&DeviceOpStatus>| status.is_some_and(|status| status.blocked_by.contains(why));
        until(&mut self.status, &TopicKey::global(), is_blocked).await;
    }

    async fn until_requested(&mut self) -> NodeDrainRequest {
        until(&mut self.request, &TopicKey::global(), |request| request.is_some()).await.unwrap()
    }

    async fn until_commanded(&mut self, expected: Option<Operation>) -> ZedAgentStatus {
        let key = TopicKey::parse(agent::ZEDAGENT).unwrap();
        let commanded = |status: &ZedAgentStatus| match status {
            ZedAgentStatus { reboot_cmd: true, .. } => Some(Operation::Reboot),
            ZedAgentStatus { shutdown_cmd: true, .. } => Some(Operation::Shutdown),
            ZedAgentStatus { poweroff_cmd: true, .. } => Some(Operation::Poweroff),
            ZedAgentStatus { .. } => None,
        };
        until(&mut self.command, &key, |status| status.is_some_and(|status| commanded(status) == expected))
            .await
            .unwrap()
    }
}

fn counter_path(operation: Operation) -> String {
    format!("persist/status/{}", operation.counter_file())
}

fn command_path(operation: Operation) -> String {
    format!("run/controller/DeviceOpsCmd/{operation}.json")
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
async fn from_the_command_to_nodeagent() {
    let mut device = Device::start().await;
    device.until_commanded(None).await;
    device.give(Operation::Reboot, 2);
    let request = device.until_requested().await;
    assert_eq!((request.context.as_str(), request.requested_by.code()), ("reboot", 2));
    let counter = std::fs::read(device.path("persist/status/rebootConfig")).unwrap();
    assert_eq!(parse::<DeviceOpsCmd>(&counter).unwrap().counter, 2);
    assert!(device.path("persist/status/zedagent/OperationRecord/global.json").exists());

    device.report(Some(DrainStatus::Unknown));
    let deferred = device.until_status(DeviceOpState::Deferred).await;
    assert_eq!((deferred.operation, deferred.counter), (Some(Operation::Reboot), 2));

    device.report(Some(DrainStatus::Complete));
    let commanded = device.until_commanded(Some(Operation::Reboot)).await;
    assert!(commanded.requested_reboot_reason.contains("reboot command, counter 2"));
    device.until_status(DeviceOpState::HandedOver).await;
    device.stop().await;
}

#[tokio::test]
async fn a_restart_keeps_the_request_and_the_command() {
    let mut device = Device::start().await;
    device.give(Operation::Poweroff, 2);
    let request = device.until_requested().await;
    device.stop().await;
    device.report(Some(DrainStatus::Complete));
    device.run().await;
    device.until_commanded(Some(Operation::Poweroff)).await;
    device.stop().await;
    device.run().await;
    device.until_status(DeviceOpState::HandedOver).await;
    assert_eq!(device.until_requested().await, request, "one and the same");
    device.stop().await;
}

#[tokio::test]
async fn a_take_back_waits_for_what_nodeagent_says() {
    let mut device = Device::start().await;
    device.give(Operation::Reboot, 2);
    device.until_requested().await;
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Reboot)).await;
    device.nodeagent(Operation::Reboot, 2, DeviceActionState::Acting);
    std::fs::remove_file(device.path(&command_path(Operation::Reboot))).unwrap();
    device.until_blocked_by("too late").await;
    assert!(device.request.get(&TopicKey::global()).is_some());

    device.nodeagent(Operation::Reboot, 2, DeviceActionState::Done);
    device.until_commanded(None).await;
    device.nodeagent(Operation::Reboot, 2, DeviceActionState::Idle);
    until(&mut device.request, &TopicKey::global(), |request| request.is_none()).await;
    device.until_status(DeviceOpState::Idle).await;
    device.stop().await;
}

#[tokio::test]
async fn d11_a_failed_drain_withdraws_the_request() {
    let mut device = Device::start().await;
    device.give(Operation::Shutdown, 2);
    device.until_requested().await;
    device.report(Some(DrainStatus::FailedDrain));
    let failed = device.until_status(DeviceOpState::Failed).await;
    assert!(failed.release.contains("device-op.retry"), "{}", failed.release);
    until(&mut device.request, &TopicKey::global(), |request| request.is_none()).await;
    device.give(Operation::Shutdown, 3);
    device.until_requested().await;
    device.stop().await;
}

/// D16: what cannot be recorded is not accepted.
#[tokio::test]
async fn d16_a_record_that_cannot_be_written_stops_everything_and_is_told() {
    let mut device = Device::start().await;
    device.until_status(DeviceOpState::Idle).await;
    let folder = device.path("persist/status/zedagent/OperationRecord");
    std::fs::remove_dir(&folder).unwrap();
    device.write("persist/status/zedagent/OperationRecord", "in the way");
    device.give(Operation::Reboot, 2);
    device.until_blocked_by("reboot 2 cannot go on: cannot publish OperationRecord").await;
    let counter = std::fs::read(device.path(&counter_path(Operation::Reboot))).unwrap();
    assert_eq!(parse::<DeviceOpsCmd>(&counter).unwrap().counter, 1);

    std::fs::remove_file(&folder).unwrap();
    device.until_requested().await;
    device.stop().await;
}
