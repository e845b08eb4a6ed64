//! Tests of device-op as a whole on real files; the test writes the files of zedkube and nodeagent.

mod bad_input;

use pubsub::{Subscription, TopicKey};
use runtime::testing::{Holder, TestDevice, until};
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, DrainRequester,
    DrainStatus, NodeDrainReport, NodeDrainStatus, Operation, Outcome, Source, ZedAgentStatus, agent, parse,
};

/// A device on which device-op runs.
pub(crate) struct Device {
    pub(crate) machine: TestDevice,
    pub(crate) status: Subscription<DeviceOpStatus>,
    pub(crate) command: Subscription<ZedAgentStatus>,
}

impl std::ops::Deref for Device {
    type Target = TestDevice;

    fn deref(&self) -> &TestDevice {
        &self.machine
    }
}

impl std::ops::DerefMut for Device {
    fn deref_mut(&mut self) -> &mut TestDevice {
        &mut self.machine
    }
}

impl Device {
    /// A member of a cluster whose counter files hold 1, with device-op running.
    async fn start() -> Self {
        let mut device = Self::new();
        device.run().await;
        device
    }

    pub(crate) fn nodeagent(&self, operation: Operation, counter: u32, state: DeviceActionState) {
        let (command, boot_id) = (Some(operation), "boot-1".to_owned());
        let action = DeviceAction { command, counter, state, boot_id, ..DeviceAction::default() };
        self.publish(agent::NODEAGENT, &action);
    }

    pub(crate) fn give(&self, operation: Operation, counter: u32) {
        let text = format!(r#"{{"Counter":{counter},"DesiredState":true,"OpsTime":"now"}}"#);
        self.write(&command_path(operation), &text);
    }

    pub(crate) async fn until_status(&mut self, state: DeviceOpState) -> DeviceOpStatus {
        until(&mut self.status, &TopicKey::global(), |status| {
            status.is_some_and(|status| status.state == state)
        })
        .await
        .unwrap()
    }

    pub(crate) async fn until_commanded(&mut self, expected: Option<Operation>) -> ZedAgentStatus {
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

impl Holder for Device {
    type Status = DeviceOpStatus;

    /// A member of a cluster whose counter files hold 1; device-op does not run yet.
    fn new() -> Self {
        let machine = TestDevice::new(agent::ZEDAGENT, &[("device-op.retry", "0s")]);
        for operation in Operation::ALL {
            machine.write(&counter_path(operation), COUNTER_1);
        }
        // The counters per source are in use.
        machine.write(RECORD, r#"{"SchemaVersion":1,"BootId":"before","HasSources":true}"#);
        Self { status: machine.follow(agent::ZEDAGENT), command: machine.follow(agent::ZEDAGENT), machine }
    }

    async fn run(&mut self) {
        self.machine.run(|context, stop| async { Box::pin(super::run(context, stop)).await.unwrap() }).await;
    }

    fn command(&self, counter: u32) {
        self.give(Operation::Reboot, counter);
    }

    fn take_back(&self) {
        std::fs::remove_file(self.path(&command_path(Operation::Reboot))).unwrap();
    }

    fn blocked_by(status: &DeviceOpStatus) -> &str {
        &status.blocked_by
    }

    fn has_released(&self) -> bool {
        let key = TopicKey::parse(agent::ZEDAGENT).unwrap();
        let status = self.follow::<ZedAgentStatus>(agent::ZEDAGENT).get(&key).cloned().unwrap_or_default();
        status.reboot_cmd || status.shutdown_cmd || status.poweroff_cmd
    }

    async fn until_released(&mut self) {
        self.until_status(DeviceOpState::HandedOver).await;
    }
}

pub(crate) const RECORD: &str = "persist/status/zedagent/OperationRecord/global.json";

/// Path of a counter file.
pub(crate) const COUNTER_1: &str = r#"{"Counter":1,"DesiredState":true,"OpsTime":"then"}"#;

pub(crate) fn counter_path(operation: Operation) -> String {
    format!("persist/status/{}", operation.counter_file())
}

pub(crate) fn command_path(operation: Operation) -> String {
    format!("run/controller/DeviceOpsCmd/{operation}.json")
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
    assert!(device.path(RECORD).exists());

    device.report(Some(DrainStatus::Unknown));
    let deferred = device.until_status(DeviceOpState::Deferred).await;
    assert_eq!((deferred.operation, deferred.counter), (Some(Operation::Reboot), 2));

    device.report(Some(DrainStatus::Complete));
    let commanded = device.until_commanded(Some(Operation::Reboot)).await;
    assert!(commanded.requested_reboot_reason.contains("reboot command, counter 2"));
    device.until_status(DeviceOpState::HandedOver).await;
    device.stop().await;
}

/// Author and reason are text of others: what is shown of them is plain, short, and on one line.
#[tokio::test]
async fn author_and_reason_of_a_person_are_shown_as_plain_text() {
    let mut device = Device::new();
    device.write("persist/status/ebb/shutdownConfig", COUNTER_1);
    device.run().await;
    let reason = format!(r"fan \u001b[2J swap{}", "é".repeat(600));
    let text =
        format!(r#"{{"Counter":2,"DesiredState":true,"OpsTime":"now","By":"alice\n","Reason":"{reason}"}}"#);
    device.write("run/ebb/DeviceOpsCmd/shutdown.json", &text);
    device.until_requested().await;
    device.report(Some(DrainStatus::Complete));
    let commanded = device.until_commanded(Some(Operation::Shutdown)).await.requested_reboot_reason;
    assert!(commanded.contains("; commanded by alice  (fan  [2J swapé"), "{commanded}");
    assert!(commanded.ends_with("…)"), "{commanded}");
    let shown = device.until_status(DeviceOpState::HandedOver).await;
    assert!(shown.reason.len() <= 512 + "…".len(), "{} bytes", shown.reason.len());
    let counter = std::fs::read_to_string(device.path("persist/status/ebb/shutdownConfig")).unwrap();
    assert_eq!(counter, r#"{"Counter":2,"DesiredState":true,"OpsTime":"now"}"#, "in EVE's form");
    device.stop().await;
}

#[tokio::test]
async fn a_program_cannot_name_a_person_as_the_author_of_its_command() {
    let mut device = Device::start().await;
    let text = r#"{"Counter":2,"DesiredState":true,"OpsTime":"now","By":"alice","Reason":"fan swap"}"#;
    device.write(&command_path(Operation::Reboot), text);
    device.until_requested().await;
    device.report(Some(DrainStatus::Complete));
    let commanded = device.until_commanded(Some(Operation::Reboot)).await.requested_reboot_reason;
    assert!(!commanded.contains("alice") && !commanded.contains("fan swap"), "{commanded}");
    let shown = device.until_status(DeviceOpState::HandedOver).await;
    assert_eq!((shown.by.as_str(), shown.reason.as_str()), ("", ""));
    device.stop().await;
}

#[tokio::test]
async fn who_forced_an_answer_and_why_is_in_the_reboots_reason() {
    let mut device = Device::start().await;
    device.give(Operation::Reboot, 2);
    device.until_requested().await;
    let mut report = device.answered(Some(DrainStatus::Complete));
    let line = report.requests.first_mut().unwrap();
    (line.outcome, line.by) = (Some(Outcome::Forced), "alice: store closed".to_owned());
    device.publish(agent::ZEDKUBE, &report);
    let reason = device.until_commanded(Some(Operation::Reboot)).await.requested_reboot_reason;
    assert!(reason.starts_with("reboot command, counter 2 of controller: NOT DRAINED: "), "{reason}");
    assert!(reason.ends_with(" (alice: store closed)"), "{reason}");
    let shown = device.until_status(DeviceOpState::HandedOver).await;
    assert!(shown.release.ends_with(" (alice: store closed)"), "{}", shown.release);
    device.stop().await;
}

/// D11.
#[tokio::test]
async fn a_failed_drain_withdraws_the_request() {
    let mut device = Device::start().await;
    device.give(Operation::Shutdown, 2);
    device.until_requested().await;
    device.report(Some(DrainStatus::FailedDrain));
    let failed = device.until_status(DeviceOpState::Failed).await;
    assert!(failed.release.contains("device-op.retry"), "{}", failed.release);
    device.until_withdrawn().await;
    device.give(Operation::Shutdown, 3);
    device.until_requested().await;
    device.stop().await;
}

/// D16: a command that cannot be recorded is not accepted.
#[tokio::test]
async fn a_record_that_cannot_be_written_stops_everything_and_is_told() {
    let mut device = Device::start().await;
    device.until_status(DeviceOpState::Idle).await;
    let folder = device.path("persist/status/zedagent/OperationRecord");
    std::fs::remove_dir_all(&folder).unwrap();
    device.write("persist/status/zedagent/OperationRecord", "in the way");
    device.give(Operation::Reboot, 2);
    let status = device.until_blocked_by("reboot 2 cannot go on: cannot publish OperationRecord").await;
    assert!(status.stuck, "{status:?}");
    let counter = std::fs::read(device.path(&counter_path(Operation::Reboot))).unwrap();
    assert_eq!(parse::<DeviceOpsCmd>(&counter).unwrap().counter, 1);

    std::fs::remove_file(&folder).unwrap();
    device.until_requested().await;
    device.stop().await;
}

/// D7: EVE's agents release every command before zedkube has published anything.
#[tokio::test]
async fn a_command_that_comes_before_zedkube_is_held() {
    let mut device = Device::new();
    device.stop_zedkube();
    std::fs::remove_dir_all(device.path("run/zedkube")).unwrap();
    device.run().await;
    device.give(Operation::Poweroff, 2);
    device.until_requested().await;
    device.until_blocked_by("zedkube does not run").await;
    device.start_zedkube();
    device.until_blocked_by("zedkube is starting").await;
    device.until_commanded(None).await;
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Poweroff)).await;
    device.stop().await;
}

/// D13: EVE's agents read the number in the status, which belongs to one requester of several.
#[tokio::test]
async fn the_number_in_the_status_neither_holds_nor_releases() {
    let mut device = Device::start().await;
    let say = |device: &Device, status, requested_by| {
        device.publish(agent::ZEDKUBE, &NodeDrainStatus { status, requested_by });
    };
    say(&device, DrainStatus::Cordoned, DrainRequester::Update);
    device.give(Operation::Reboot, 2);
    device.until_requested().await;
    for (status, requested_by) in [
        (DrainStatus::Complete, DrainRequester::Update),
        (DrainStatus::Complete, DrainRequester::DeviceOp),
        (DrainStatus::FailedDrain, DrainRequester::DeviceOp),
    ] {
        say(&device, status, requested_by);
        assert_eq!(device.until_blocked_by(&status.to_string()).await.state, DeviceOpState::Deferred);
    }
    say(&device, DrainStatus::Complete, DrainRequester::Update);
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Reboot)).await;
    device.stop().await;
}

/// The operator's folder, and each source's own counter files, in EVE's form.
#[tokio::test]
async fn every_source_has_its_own_folder_and_counters() {
    for (source, folder, counters) in [
        (Source::Person, "run/ebb", "persist/status/ebb"),
        (Source::Controller, "run/controller", "persist/status"),
        (Source::Cluster, "run/zedkube", "persist/status/cluster"),
        (Source::Host, "run/sentinel", "persist/status/host"),
    ] {
        let mut device = Device::new();
        device.write("etc/ebb/ebb.toml", "commands.from-cluster = true\n");
        let counter = format!("{counters}/rebootConfig");
        device.write(&counter, COUNTER_1);
        device.run().await;
        let command = r#"{"Counter":2,"DesiredState":true,"OpsTime":"now","Now":true,"WithoutRecord":true}"#;
        device.write(&format!("{folder}/DeviceOpsCmd/reboot.json"), command);
        device.until_requested().await;
        device.report(Some(DrainStatus::Complete));
        let status = device.until_status(DeviceOpState::HandedOver).await;
        assert_eq!((status.source, status.counter), (source, 2));
        assert_eq!(
            status.without_record,
            source == Source::Person,
            "an operator's word, from an operator only"
        );
        if source != Source::Person {
            assert_eq!(device.read(&counter), r#"{"Counter":2,"DesiredState":true,"OpsTime":"now"}"#);
        }
        device.stop().await;
    }
}

#[test]
fn a_command_of_the_cluster_stands_only_if_the_settings_say_so() {
    let device = Device::new();
    let mut settings = runtime::Settings::default();
    for (source, from_cluster, stands) in
        [(Source::Cluster, false, false), (Source::Cluster, true, true), (Source::Controller, false, true)]
    {
        let path = format!("run/{}/DeviceOpsCmd/reboot.json", source.agent());
        device.write(&path, r#"{"Counter":2,"DesiredState":true}"#);
        settings.commands.from_cluster = from_cluster;
        let command = crate::inputs::command(&device.root(), (source, Operation::Reboot), &settings);
        let crate::facts::Commanded::Given(command) = command else { panic!("{command:?}") };
        assert_eq!((command.counter, command.desired_state), (2, stands), "{source} {from_cluster}");
    }
}

/// A command of the host waits for a window, and gives the node back in zedkube's pause; a change of the settings counts
/// at once.
#[tokio::test]
async fn the_window_is_that_of_the_settings_of_now() {
    const FILE: &str = "etc/ebb/ebb.toml";
    let never = "window.from = \"02:00\"";
    let mut device = Device::start().await;
    device.write(FILE, never);
    let has_window = |status: Option<&DeviceOpStatus>| status.is_some_and(|status| status.window.is_some());
    until(&mut device.status, &TopicKey::global(), has_window).await;
    device.write("run/sentinel/DeviceOpsCmd/reboot.json", r#"{"Counter":2,"DesiredState":true}"#);
    device.until_blocked_by("never opens: window.from and window.to have to be set both").await;
    assert_eq!(device.request_now(), None);
    device.write(FILE, "");
    device.until_requested().await;

    device.write(FILE, never);
    until(&mut device.status, &TopicKey::global(), has_window).await;
    let report = |device: &Device, phase: &str| {
        let report = device.answered(Some(DrainStatus::DrainRetrying));
        device.publish(agent::ZEDKUBE, &NodeDrainReport { phase: phase.to_owned(), ..report });
    };
    report(&device, "Attempting");
    device.until_blocked_by("the drain is not finished").await;
    assert!(device.request_now().is_some(), "the attempt goes on");
    report(&device, "Pausing");
    device.until_withdrawn().await;
}

/// An operator's freeze, and an operator's cancel of a controller's command.
#[tokio::test]
async fn a_freeze_and_a_cancel_are_read_from_the_operators_files() {
    let mut device = Device::start().await;
    let freeze = "persist/status/ebb/CommandFreeze/global.json";
    device.write(freeze, r#"{"By":"alice","Reason":"stocktaking"}"#);
    device.give(Operation::Reboot, 2);
    device.until_blocked_by("commands are frozen (by alice: stocktaking); `ebb unfreeze`").await;
    assert_eq!(device.request_now(), None);
    device.write(freeze, r#"{"By":"alice","Until":"2001-01-01T00:00:00Z"}"#);
    device.until_requested().await;
    device.write(freeze, "garbled");
    device.until_blocked_by("commands count as frozen; `ebb unfreeze` removes that file").await;
    std::fs::remove_file(device.path(freeze)).unwrap();
    device.until_requested().await;
    device.write("run/ebb/CancelCommand/controller.reboot.json", r#"{"Counter":2}"#);
    device.until_status(DeviceOpState::Idle).await;
    device.until_withdrawn().await;
    device.give(Operation::Reboot, 3);
    device.until_requested().await;
    device.stop().await;
}

/// An operator needs a reboot most when the disk fails: no folder on `/persist` can be written.
#[tokio::test]
async fn an_operator_reboots_a_device_whose_persist_takes_nothing() {
    let mut device = Device::new();
    let persist = device.path("persist");
    std::fs::remove_dir_all(&persist).unwrap();
    device.write("persist", "in the way");
    device.run().await;
    device.give(Operation::Reboot, 5);
    device.until_blocked_by("cannot publish OperationRecord").await;
    let command = r#"{"Counter":1,"DesiredState":true,"Now":true,"WithoutRecord":true}"#;
    device.write("run/ebb/DeviceOpsCmd/reboot.json", command);
    device.until_requested().await;
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Reboot)).await;
    device.stop().await;
    device.run().await;
    let status = device.until_status(DeviceOpState::HandedOver).await;
    assert_eq!((status.source, status.without_record), (Source::Person, true));
    device.stop().await;
}

/// A boot that keeps `/run` finds the request of the boot before. It is withdrawn although the record could not be read at
/// first: nobody else would, and the node would stay cordoned.
#[tokio::test]
async fn a_request_that_outlives_a_boot_is_withdrawn_when_the_record_can_be_read() {
    let mut device = Device::start().await;
    device.give(Operation::Reboot, 2);
    device.until_requested().await;
    device.stop().await;
    device.write("proc/sys/kernel/random/boot_id", "boot-2");
    let (records, elsewhere) = (device.path("persist/status/zedagent"), device.path("elsewhere"));
    std::fs::rename(&records, &elsewhere).unwrap();
    device.write("persist/status/zedagent", "in the way");
    device.run().await;
    device.until_blocked_by("cannot publish OperationRecord").await;
    std::fs::remove_file(&records).unwrap();
    std::fs::rename(&elsewhere, &records).unwrap();
    device.until_withdrawn().await;
    device.stop().await;
}

/// The first command of a controller is not carried out, and that is shown.
#[tokio::test]
async fn the_first_command_of_a_kind_is_said() {
    let log = runtime::testing::CapturedLog::begin();
    let mut device = Device::new();
    std::fs::remove_file(device.path(&counter_path(Operation::Shutdown))).unwrap();
    device.run().await;
    device.give(Operation::Shutdown, 9);
    device.until_blocked_by("shutdown 9 of controller: only recorded").await;
    log.until("DeviceOpsCmd: shutdown 9 of controller is not carried out: only recorded").await;
    assert!(device.read(&counter_path(Operation::Shutdown)).contains('9'));
    device.give(Operation::Shutdown, 10);
    device.until_requested().await;
    device.stop().await;
}
