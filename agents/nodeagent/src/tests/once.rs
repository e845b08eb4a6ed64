//! An ActionRecord is about one boot, is on disk before the action begins, and a restart does not repeat the action.

use schemas::{ActionRecord, BootReason, Source};

use super::*;

const RECORD: &str = "persist/status/nodeagent/ActionRecord/global.json";

/// A `device.command` that notes each call and the files on disk at that time, and does nothing else.
struct Calls {
    folder: TempDir,
    command: String,
}

impl Calls {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let command = format!(
            r#"["sh", "-c", "cat $0/{RECORD} > {record}; echo $EBB_OPERATION $EBB_COUNTER >> {calls}", "ROOT"]"#,
            record = path("record"),
            calls = path("calls"),
        );
        Self { folder, command }
    }

    /// A device with this command, which finds the record below the device's root.
    fn device(&self) -> Device {
        let mut device = Device::switched_off(&[]);
        let command = self.command.replace("ROOT", &device.folder.path().display().to_string());
        device.settings.push(Assignment { key: "device.command".to_owned(), value: command });
        device
    }

    async fn until(&self, calls: usize) {
        let mut watch = pubsub::PathWatch::new([self.folder.path()]);
        let waiting = async {
            while self.count() < calls {
                watch.changed().await;
            }
        };
        tokio::time::timeout(TOO_LONG, waiting).await.expect("it is called");
    }

    fn count(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default().lines().count()
    }

    fn record(&self) -> ActionRecord {
        parse(&std::fs::read(self.folder.path().join("record")).unwrap()).unwrap()
    }
}

impl Device {
    /// Waits until nodeagent has run at least two more steps.
    pub(super) async fn looks(&mut self) {
        for (status, in_progress) in [(DrainStatus::Cordoned, true), (DrainStatus::Complete, false)] {
            let requested_by = DrainRequester::DeviceOp;
            self.publish(agent::ZEDKUBE, "global", &NodeDrainStatus { status, requested_by }).await;
            self.until_status(|shown| shown.wait_drain_in_progress == in_progress).await;
        }
    }
}

/// `systemctl soft-reboot`, or an initramfs that keeps `/run`.
#[tokio::test]
async fn what_another_boot_began_is_not_done_once_more() {
    let calls = Calls::new();
    let mut device = calls.device();
    device.run().await;
    device.command(Some(Operation::Reboot), 7).await;
    calls.until(1).await;
    device.until_action(Acting).await;
    device.stop().await;
    device.command(None, 0).await;
    device.write("proc/sys/kernel/random/boot_id", "boot-2");
    device.run().await;
    let action = until(&mut device.action, &TopicKey::global(), |action| action.boot_id == "boot-2").await;
    assert_eq!((action.state, action.command), (Idle, None));
    device.looks().await;
    device.stop().await;
    assert_eq!(calls.count(), 1);
}

#[tokio::test]
async fn a_means_is_used_once_however_often_nodeagent_is_restarted() {
    let calls = Calls::new();
    let mut device = calls.device();
    device.run().await;
    device.command(Some(Operation::Reboot), 7).await;
    calls.until(1).await;
    for _ in 0..4 {
        device.until_action(Acting).await;
        device.stop().await;
        device.run().await;
        device.looks().await;
    }
    device.stop().await;
    assert_eq!(calls.count(), 1);
}

#[tokio::test]
async fn the_proof_is_on_disk_before_the_device_is_touched() {
    let calls = Calls::new();
    let mut device = calls.device();
    device.run().await;
    device.command(Some(Operation::Poweroff), 7).await;
    calls.until(1).await;
    let expected = ActionRecord {
        schema_version: 1,
        boot_id: "boot-1".to_owned(),
        source: Source::Controller,
        command: Some(Operation::Poweroff),
        counter: 7,
        content_tree_uuid: String::new(),
        tries: 1,
    };
    assert_eq!(calls.record(), expected);
    device.stop().await;
}

#[tokio::test]
async fn without_the_proof_the_device_is_touched_only_on_an_operators_word() {
    let calls = Calls::new();
    let mut device = calls.device();
    device.write("persist/status/nodeagent", "in the way");
    device.run().await;
    device.command(Some(Operation::Poweroff), 7).await;
    let failed = device.until_action(Failed).await;
    assert!(failed.error.contains("cannot poweroff") && failed.error.contains("ActionRecord"), "{failed:?}");
    assert_eq!((calls.count(), failed.tries), (0, 0));
    device.command(None, 0).await;
    device.until_action(Idle).await;
    let status = DeviceOpStatus {
        operation: Some(Operation::Poweroff),
        counter: 8,
        state: DeviceOpState::HandedOver,
        source: Source::Person,
        without_record: true,
        boot_id: "boot-1".to_owned(),
        ..DeviceOpStatus::default()
    };
    let command = ZedAgentStatus { poweroff_cmd: true, ..ZedAgentStatus::default() };
    device.publish(agent::ZEDAGENT, "global", &status).await;
    device.publish(agent::ZEDAGENT, "zedagent", &command).await;
    calls.until(1).await;
    let acting = device.until_action(Acting).await;
    assert_eq!((acting.source, acting.counter, acting.tries), (Source::Person, 8, 1));
    device.stop().await;
}

/// A device without means shows that before its node is drained.
#[tokio::test]
async fn which_means_there_are_is_said_before_anything_is_commanded() {
    for (settings, means) in [
        (&[("device.command", r#"["true"]"#)][..], &["device.command"][..]),
        (&[], &[]),
        (&[("device.dry-run", "true")], &["dry run"]),
    ] {
        let mut device = Device::start(settings).await;
        let known = |action: &DeviceAction| action.means.is_some();
        let action = until(&mut device.action, &TopicKey::global(), known).await;
        assert_eq!(
            (action.state, action.means.unwrap()),
            (Idle, means.iter().map(ToString::to_string).collect::<Vec<_>>())
        );
        device.stop().await;
    }
}

/// EVE's numbers and files for the reason.
#[tokio::test]
async fn the_next_boot_knows_why_when_and_how_often() {
    let mut device = Device::start(&[("device.command", r#"["true"]"#)]).await;
    let first = device.until_status(|_| true).await;
    assert_eq!((first.boot_reason, first.restart_counter), (BootReason::FIRST, 0));
    assert_eq!((first.reboot_reason.as_str(), first.reboot_time.is_zero()), ("", true));
    for (boot, operation, expected) in [
        (2, Some(Operation::Reboot), BootReason::REBOOT_COMMAND),
        (3, Some(Operation::Poweroff), BootReason::POWEROFF_COMMAND),
        (4, None, BootReason::UNKNOWN),
    ] {
        device.command(operation, boot).await;
        let state = if operation.is_some() { Acting } else { Idle };
        until(&mut device.action, &TopicKey::global(), |action| action.state == state).await;
        while operation.is_some() && !device.path("persist/reboot-reason").exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        device.stop().await;
        std::fs::remove_dir_all(device.path("run")).unwrap();
        device.write("proc/sys/kernel/random/boot_id", &format!("boot-{boot}"));
        device.run().await;
        let status = device.until_status(|status| status.restart_counter == boot - 1).await;
        assert_eq!(status.boot_reason, expected, "boot {boot}");
        let reason = if operation.is_some() { "NORMAL: because" } else { "" };
        assert_eq!(
            (status.reboot_reason.as_str(), status.reboot_time.is_zero()),
            (reason, reason.is_empty())
        );
        // A restart in the same boot is not counted as a boot.
        device.stop().await;
        device.run().await;
        device.looks().await;
        assert_eq!(
            device.status.get(&TopicKey::parse("nodeagent").unwrap()).unwrap().restart_counter,
            boot - 1
        );
    }
    device.stop().await;
    assert_eq!(std::fs::read_to_string(device.path("persist/status/nodeagent/restartcounter")).unwrap(), "4");
    assert!(!device.path("persist/boot-reason").exists());
}

/// The files that EVE's watchdog leaves behind, and files that cannot be read.
#[tokio::test]
async fn a_reason_that_others_left_is_told() {
    for (text, expected) in
        [("BootReasonWatchdogHung\n", BootReason(8)), ("nonsense", BootReason::PARSE_FAIL)]
    {
        let mut device = Device::switched_off(&[]);
        device.write("persist/boot-reason", text);
        device.write("persist/reboot-reason", "the watchdog\n");
        device.write("persist/status/restartcounter", "41\n");
        device.run().await;
        let status = device.until_status(|status| status.restart_counter == 41).await;
        assert_eq!((status.boot_reason, status.reboot_reason.as_str()), (expected, "the watchdog"));
        device.stop().await;
    }
}
