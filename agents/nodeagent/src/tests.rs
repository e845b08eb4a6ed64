//! Tests of nodeagent as a whole on real files; the test writes the files of device-op, baseos and zedkube.

use std::path::PathBuf;
use std::time::Duration;

use pubsub::{AgentLock, LockError, Persistence, Publisher, Root, Subscription, TopicKey};
use runtime::activation_lock::ActivationLock;
use runtime::flags::Assignment;
use runtime::{Agent, AgentFlags, StartError};
use schemas::{
    DeviceAction, DeviceActionState, DeviceLine, DeviceOpState, DeviceOpStatus, DrainRequester, DrainStatus,
    Member, NodeAgentStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, Operation, PassGate,
    RequestLine, Topic, ZedAgentStatus, agent, parse,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

use DeviceActionState::{Acting, Done, Failed, Idle};

mod by_logind;
mod once;

/// Time limit of a wait; it is reached only by a failure.
const TOO_LONG: Duration = Duration::from_mins(5);

struct Device {
    folder: TempDir,
    root: Root,
    settings: Vec<Assignment>,
    running: Option<(Stop, JoinHandle<()>)>,
    action: Subscription<DeviceAction>,
    status: Subscription<NodeAgentStatus>,
}

impl Device {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let mut device = Self::switched_off(settings);
        device.run().await;
        device
    }

    /// A device on which nodeagent does not run yet.
    fn switched_off(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let assignment =
            |&(key, value): &(&str, &str)| Assignment { key: key.to_owned(), value: value.to_owned() };
        let device = Self {
            action: Subscription::open(&root, agent::NODEAGENT, Persistence::Volatile),
            status: Subscription::open(&root, agent::NODEAGENT, Persistence::Volatile),
            settings: settings.iter().map(assignment).collect(),
            running: None,
            folder,
            root,
        };
        device.write("proc/sys/kernel/random/boot_id", "boot-1");
        device
    }

    async fn run(&mut self) {
        let set = self.settings.clone();
        let flags = AgentFlags { root: self.folder.path().to_owned(), set, ..AgentFlags::default() };
        let agent = start(agent::NODEAGENT, &flags).await;
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

    async fn publish<T: Topic>(&self, publisher: &str, key: &str, value: &T) {
        let lock = lock(&self.root, publisher).await;
        self.publish_with(&lock, key, value);
    }

    fn publish_with<T: Topic>(&self, lock: &AgentLock, key: &str, value: &T) {
        let mut publisher = Publisher::open(&self.root, lock.agent(), Persistence::Volatile, lock).unwrap();
        publisher.publish(&TopicKey::parse(key).unwrap(), value).unwrap();
    }

    /// Writes the files by which device-op hands an operation over or clears the command.
    async fn command(&self, operation: Option<Operation>, counter: u32) {
        let state = if operation.is_some() { DeviceOpState::HandedOver } else { DeviceOpState::Idle };
        let boot_id = runtime::boot::boot_id(&self.root).unwrap();
        let status = DeviceOpStatus { operation, counter, state, boot_id, ..DeviceOpStatus::default() };
        let command = ZedAgentStatus {
            reboot_cmd: operation == Some(Operation::Reboot),
            shutdown_cmd: operation == Some(Operation::Shutdown),
            poweroff_cmd: operation == Some(Operation::Poweroff),
            requested_reboot_reason: "because".to_owned(),
            ..ZedAgentStatus::default()
        };
        self.publish(agent::ZEDAGENT, "global", &status).await;
        self.publish(agent::ZEDAGENT, "zedagent", &command).await;
    }

    async fn until_action(&mut self, state: DeviceActionState) -> DeviceAction {
        until(&mut self.action, &TopicKey::global(), |action| action.state == state).await
    }

    async fn until_status(&mut self, wanted: impl Fn(&NodeAgentStatus) -> bool) -> NodeAgentStatus {
        until(&mut self.status, &TopicKey::parse("nodeagent").unwrap(), wanted).await
    }

    fn lines(&self) -> Vec<DeviceLine> {
        let text = std::fs::read_to_string(self.path("persist/device-actions.jsonl")).unwrap_or_default();
        text.lines().map(|line| parse(line.as_bytes()).unwrap()).collect()
    }
}

/// Runs nodeagent, once its lock is free.
async fn start(name: &str, flags: &AgentFlags) -> Agent {
    once_free(async || match Agent::start(name, flags).await {
        Ok(agent) => Some(agent),
        Err(StartError::Lock { .. }) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

/// Takes the lock of another agent, once it is free.
async fn lock(root: &Root, name: &str) -> AgentLock {
    once_free(async || match AgentLock::acquire(root, name) {
        Ok(lock) => Some(lock),
        Err(LockError::Held { .. }) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

/// A program that another test has just forked holds a copy of a released lock until it executes; there is no event
/// for that.
async fn once_free<T>(take: impl AsyncFn() -> Option<T>) -> T {
    let taking = async {
        loop {
            match take().await {
                Some(taken) => return taken,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    tokio::time::timeout(TOO_LONG, taking).await.expect("the lock becomes free")
}

/// Waits until an item exists and satisfies the condition, and returns it.
async fn until<T: Topic>(
    subscription: &mut Subscription<T>,
    key: &TopicKey,
    wanted: impl Fn(&T) -> bool,
) -> T {
    let waiting = async {
        while !subscription.get(key).is_some_and(&wanted) {
            subscription.changed().await;
        }
    };
    let is_late = tokio::time::timeout(TOO_LONG, waiting).await.is_err();
    assert!(!is_late, "waited too long; it is {:?}", subscription.get(key));
    subscription.get(key).cloned().unwrap()
}

#[tokio::test]
async fn a_command_takes_the_device_down_after_its_hooks() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (went, hooked) = (file("went"), file("hooked"));
    let command = format!(
        r#"["sh", "-c", "echo $EBB_OPERATION $EBB_COUNTER $EBB_REASON > {went}; mkdir -p {went}.done"]"#
    );
    let hooks = format!(r#"[["false"], ["touch", "{hooked}"]]"#);
    let mut device = Device::start(&[("device.command", &command), ("device.pre", &hooks)]).await;
    device.command(Some(Operation::Poweroff), 3).await;
    let status = device.until_status(|status| status.device_poweroff).await;
    assert!(!status.device_reboot);
    device.until_action(Acting).await;
    let mut watch = pubsub::PathWatch::new([folder.path()]);
    while !std::fs::exists(format!("{went}.done")).unwrap() {
        tokio::time::timeout(TOO_LONG, watch.changed()).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&went).unwrap(), "poweroff 3 because\n");
    assert!(std::fs::exists(&hooked).unwrap(), "a hook that fails stops nothing");
    assert_eq!(std::fs::read_to_string(device.path("persist/reboot-reason")).unwrap(), "NORMAL: because");
    device.stop().await;
}

/// baseos is killed, and its activate command goes on writing.
#[tokio::test]
async fn an_activation_that_outlives_baseos_keeps_the_device_up() {
    let mut device = Device::start(&[("device.dry-run", "true")]).await;
    let writer = ActivationLock::of(&device.root).take(0).unwrap();
    device.command(Some(Operation::Reboot), 7).await;
    let waits = |action: &DeviceAction| action.blocked_by == "baseos is activating an image";
    until(&mut device.action, &TopicKey::global(), waits).await;
    assert!(device.lines().is_empty());
    drop(writer);
    device.until_action(Done).await;
    device.stop().await;
}

/// zedkube hangs; device-op released the command by an operator's force, and died.
#[tokio::test]
async fn an_operators_word_beside_a_zedkube_that_hangs_counts_here_too() {
    let mut device = Device::start(&[("device.dry-run", "true")]).await;
    let zedkube = lock(&device.root, agent::ZEDKUBE).await;
    let report = NodeDrainReport { member: Member::Yes, ..NodeDrainReport::default() };
    device.publish_with(&zedkube, "global", &report);
    let requested_at = "2026-08-22T16:10:11Z".parse().unwrap();
    let requested_by = DrainRequester::DeviceOp;
    let request = NodeDrainRequest { requested_at, requested_by, context: "reboot".to_owned() };
    device.publish(agent::ZEDAGENT, "global", &request).await;
    let boot_id = runtime::boot::boot_id(&device.root).unwrap();
    let pass = PassGate { boot_id, requested_by, requested_at, ..PassGate::default() };
    device.publish(agent::EBB, agent::ZEDAGENT, &pass).await;
    device.command(Some(Operation::Reboot), 7).await;
    device.until_action(Done).await;
    device.stop().await;
}
