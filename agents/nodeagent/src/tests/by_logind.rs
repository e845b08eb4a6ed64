//! The whole way from a command in its file to the call that logind receives.

use super::*;
use crate::logind::stand_in::{Call, PrivateBus, Reply, Script, StandIn};

/// A device on which nodeagent runs, with a bus and a logind of its own.
async fn device(script: Script) -> (Device, PrivateBus, StandIn) {
    let mut device = Device::switched_off(&[]);
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
        let (mut device, _bus, mut logind) = device(Script::default()).await;
        device.command(Some(operation), 7).await;
        let call = logind.call().await;
        assert_eq!(call, Call { words: method.to_owned(), reason: Some("NORMAL: because".to_owned()) });
        let action = device.until_action(Acting).await;
        assert_eq!((action.command, action.counter), (Some(operation), 7));
        let status = device.until_status(|status| status.device_reboot || status.device_poweroff).await;
        assert_eq!(status.device_reboot, operation == Operation::Reboot);
        device.stop().await;
    }
}

#[tokio::test]
async fn when_logind_refuses_and_nothing_else_is_there_it_says_why() {
    let (mut device, _bus, _logind) = device(refusing("org.freedesktop.DBus.Error.AccessDenied")).await;
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

/// nodeagent publishes its means before the node is drained for a reboot.
#[tokio::test]
async fn a_logind_that_is_there_is_a_means() {
    let (mut device, _bus, _logind) = device(Script::default()).await;
    let action = until(&mut device.action, &TopicKey::global(), |action| action.means.is_some()).await;
    assert_eq!(action.means, Some(vec!["systemd-logind".to_owned()]));
    device.stop().await;
}
