//! The whole way from a command in its file to the call that logind receives.

use super::*;
use crate::logind::stand_in::{Call, PrivateBus, Reply, Script, StandIn};

/// A device on which nodeagent runs, with a bus and a logind of its own.
async fn device(script: Script) -> (Device, PrivateBus, StandIn) {
    device_with(&[], script).await
}

async fn device_with(settings: &[(&str, &str)], script: Script) -> (Device, PrivateBus, StandIn) {
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

/// Waits until a drain is requested, or is not any more.
async fn until_requested(device: &Device, is_requested: bool) -> Option<NodeDrainRequest> {
    let mut requests = Subscription::open(&device.root, agent::NODEAGENT, Persistence::Volatile);
    tokio::time::timeout(TOO_LONG, async {
        loop {
            let request = requests.get(&TopicKey::global()).cloned();
            if request.is_some() == is_requested {
                return request;
            }
            requests.changed().await;
        }
    })
    .await
    .expect("in time")
}

#[tokio::test]
async fn a_shutdown_that_is_announced_waits_for_the_drain_and_one_that_is_called_off_withdraws_it() {
    let (mut device, _bus, mut logind) = device(Script::default()).await;
    let zedkube = lock(&device.root, agent::ZEDKUBE).await;
    let report = NodeDrainReport { member: Member::Yes, ..NodeDrainReport::default() };
    device.publish_with(&zedkube, "global", &report);
    let mut held = logind.lock().await;
    assert_eq!(held.mode, "delay");
    logind.announce(true).await;
    let request = until_requested(&device, true).await.unwrap();
    assert_eq!(request.requested_by, DrainRequester::None);
    assert!(!held.is_released());
    let line = RequestLine {
        publisher: agent::NODEAGENT.to_owned(),
        requested_at: request.requested_at,
        answer: DrainStatus::Complete,
        ..RequestLine::default()
    };
    device.publish_with(&zedkube, "global", &NodeDrainReport { requests: vec![line], ..report });
    held.until_released().await;
    assert!(until_requested(&device, true).await.is_some(), "the node stays drained");
    logind.announce(false).await;
    until_requested(&device, false).await;
    logind.lock().await;
    device.stop().await;
}

#[tokio::test]
async fn nobody_waits_for_a_drain_that_nobody_answers() {
    let (mut device, _bus, mut logind) = device(Script::default()).await;
    let mut held = logind.lock().await;
    logind.announce(true).await;
    held.until_released().await;
    device.stop().await;
}

#[tokio::test]
async fn nodeagents_own_lock_does_not_stand_in_its_way() {
    for mode in ["delay", "block"] {
        let (mut device, _bus, mut logind) = device_with(&[("inhibit.mode", mode)], Script::default()).await;
        let held = logind.lock().await;
        assert_eq!(held.mode, mode);
        device.command(Some(Operation::Reboot), 7).await;
        logind.call().await;
        assert!(held.is_released(), "{mode}");
        logind.announce(true).await;
        device.until_action(Acting).await;
        device.looks().await;
        assert!(!device.path("run/nodeagent/NodeDrainRequest/global.json").exists(), "{mode}");
        device.stop().await;
    }
}

#[tokio::test]
async fn a_request_that_a_soft_reboot_has_left_is_withdrawn() {
    for (mode, has_bus) in [("delay", false), ("delay", true), ("none", false)] {
        let mut device = Device::switched_off(&[("inhibit.mode", mode)]);
        let _bus = if has_bus { Some(PrivateBus::start(device.folder.path(), None).await) } else { None };
        device.publish(agent::NODEAGENT, "global", &NodeDrainRequest::default()).await;
        device.run().await;
        until_requested(&device, false).await;
        device.stop().await;
    }
}
