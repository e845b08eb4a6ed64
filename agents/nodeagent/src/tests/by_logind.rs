//! The whole way from a command in its file to the call that logind receives.

use super::*;
use crate::logind::stand_in::{Call, PrivateBus, Reply, Script, StandIn};

/// A device on which nodeagent runs, with a bus and a logind of its own.
async fn device(settings: &[(&str, &str)], script: Script) -> (Device, PrivateBus, StandIn) {
    let mut device = Device::switched_off(settings);
    let bus = PrivateBus::start(device.folder.path(), None).await;
    let logind = bus.with_logind(device.folder.path(), script).await;
    device.run().await;
    (device, bus, logind)
}

fn refusing(error: &'static str) -> Script {
    Script { answers: [Reply::Refuse(error)].into(), ..Script::default() }
}

#[tokio::test]
async fn logind_is_asked_once_the_reason_is_on_disk() {
    for (operation, method) in [(Operation::Reboot, "Reboot false"), (Operation::Poweroff, "PowerOff false")]
    {
        let (mut device, _bus, mut logind) = device(&[], Script::default()).await;
        device.command(Some(operation), 7).await;
        let call = logind.call().await;
        assert_eq!(call, Call { words: method.to_owned(), reason: Some("NORMAL: because".to_owned()) });
        let action = device.until_action(Acting).await;
        assert_eq!((action.command, action.counter), (Some(operation), 7));
        let status = device.until_status(|status| status.device_reboot || status.device_poweroff).await;
        assert_eq!(status.device_reboot, operation == Operation::Reboot);

        device.stop().await;
        std::fs::remove_dir_all(device.path("run")).unwrap();
        device.write("proc/sys/kernel/random/boot_id", "boot-2");
        device.run().await;
        device.until_status(|status| status.reboot_reason == "NORMAL: because").await;
        device.until_action(Idle).await;
        assert!(!device.path("persist/reboot-reason").exists());
        assert!(logind.calls().is_empty(), "the next boot asks for nothing");
        device.stop().await;
    }
}

#[tokio::test]
async fn when_logind_refuses_and_nothing_else_is_there_it_says_why() {
    let (mut device, _bus, _logind) = device(&[], refusing("org.freedesktop.DBus.Error.AccessDenied")).await;
    device.command(Some(Operation::Reboot), 7).await;
    let error = device.until_action(Failed).await.error;
    for words in
        ["cannot reboot, no means is left", "AccessDenied", "because of the test", "set device.command"]
    {
        assert!(error.contains(words), "{error}");
    }
    assert!(!device.path("persist/reboot-reason").exists());
    device.stop().await;
}

/// A shutdown in progress must not be interrupted, neither by a second request nor by the next means.
#[tokio::test]
async fn restarted_on_the_way_down_it_asks_nobody_and_goes_on_waiting() {
    let settings = [("device.command", r#"["false"]"#)];
    let (mut device, _bus, mut logind) = device(&settings, Script::default()).await;
    device.command(Some(Operation::Reboot), 7).await;
    logind.call().await;
    device.until_action(Acting).await;
    // Acting goes on even if the agent that released the command does not run any more.
    device.stop().await;
    device.command(None, 0).await;
    device.run().await;
    device.looks().await;
    assert_eq!(device.until_action(Acting).await.counter, 7);
    device.stop().await;
    assert!(logind.calls().is_empty(), "it was asked once");
    assert_eq!(device.read("persist/reboot-reason"), "NORMAL: because", "the reason is kept");
}

/// nodeagent publishes its means before the node is drained for a reboot.
#[tokio::test]
async fn a_logind_that_is_there_is_a_means() {
    let (mut device, _bus, _logind) = device(&[], Script::default()).await;
    let action = until(&mut device.action, &TopicKey::global(), |action| action.means.is_some()).await;
    assert_eq!(action.means, Some(vec!["systemd-logind".to_owned()]));
    device.stop().await;
}

/// D4: EVE's nodeagent starts reboots itself. Ours carries out only what is commanded.
#[tokio::test]
async fn without_a_command_logind_is_never_asked() {
    let (mut device, _bus, mut logind) = device(&[], Script::default()).await;
    for (status, in_progress) in [(DrainStatus::FailedDrain, true), (DrainStatus::Complete, false)] {
        let requested_by = DrainRequester::DeviceOp;
        device.publish(agent::ZEDKUBE, "global", &NodeDrainStatus { status, requested_by }).await;
        device.until_status(|shown| shown.wait_drain_in_progress == in_progress).await;
    }
    device.command(Some(Operation::Shutdown), 7).await;
    device.until_status(|status| status.all_domains_halted).await;
    device.until_action(Done).await;
    device.stop().await;
    assert!(logind.calls().is_empty());
}
