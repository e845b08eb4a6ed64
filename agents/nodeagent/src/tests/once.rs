//! What a boot tells of the last one, and which means are told before a command.

use schemas::{BootReason, BootTotals, WENT_PAST_EBB};

use super::*;

impl Device {
    /// The boots that are counted in BootTotals.
    fn undrained(&self) -> String {
        let totals = std::fs::read(self.path("persist/status/nodeagent/BootTotals/global.json")).unwrap();
        format!("{:?}", schemas::parse::<BootTotals>(&totals).unwrap().undrained)
    }

    /// Waits until nodeagent has run at least two more steps.
    pub(super) async fn looks(&mut self) {
        for (status, in_progress) in [(DrainStatus::Cordoned, true), (DrainStatus::Complete, false)] {
            let requested_by = DrainRequester::DeviceOp;
            self.publish(agent::ZEDKUBE, "global", &NodeDrainStatus { status, requested_by }).await;
            self.until_status(|shown| shown.wait_drain_in_progress == in_progress).await;
        }
    }
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
        let reason = if operation.is_some() { "NORMAL: because" } else { WENT_PAST_EBB };
        assert_eq!(
            (status.reboot_reason.as_str(), status.reboot_time.is_zero()),
            (reason, operation.is_none())
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
    assert_eq!(device.undrained(), r#"{"PastEbb": 1}"#);
}

/// The kernel's boot goes on, and `/run` stays. A reason of nodeagent's own is one of a command that failed.
#[tokio::test]
async fn a_soft_reboot_has_the_reason_that_the_hold_left() {
    let mut device = Device::start(&[]).await;
    let held = "soft-reboot.target: NOT DRAINED: hold.timeout (20 s) is over";
    for (left, expected) in [("NORMAL: because", ""), (held, held), ("", held)] {
        device.stop().await;
        device.write("persist/reboot-reason", left);
        device.run().await;
        device.looks().await;
        let status = device.status.get(&TopicKey::parse("nodeagent").unwrap()).unwrap();
        assert_eq!(
            (status.reboot_reason.as_str(), status.boot_reason),
            (expected, BootReason::FIRST),
            "{left}"
        );
        assert!(!device.path("persist/reboot-reason").exists());
    }
    device.stop().await;
    assert_eq!(device.undrained(), r#"{"HoldTimeout": 1}"#);
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
