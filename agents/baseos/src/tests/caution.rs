//! Things that baseos must not do: activate without a command, act on a guess, begin during a freeze, obey a file of
//! another boot.

use pubsub::TopicKey;
use runtime::testing::{Holder, until};
use schemas::{BaseOsHold, BaseOsHoldState, DrainStatus, Source, agent};

use crate::tests::{Device, UUID};

use BaseOsHoldState::{Activated, Deferred, Failed, Idle};

const ACTIVATE: (&str, &str) = ("baseos.activate", r#"["true"]"#);

/// The record of a boot before, in which the image was activated.
fn record() -> String {
    format!(
        r#"{{"SchemaVersion":1,"BootId":"boot-0","Images":[{{"Config":{{"BaseOsVersion":"2.0","ContentTreeUUID":"{UUID}","RetryUpdateCounter":1,"Activate":true}},"BootId":"boot-0","Stage":"Finished","Starts":1}}]}}"#
    )
}

const RECORD: &str = "persist/status/baseosmgr/ActivationRecord/global.json";
const FREEZE: &str = "persist/status/ebb/CommandFreeze/global.json";

/// An image that the controller wants active on a device that has not named its version: EVE publishes that for the
/// image that is running.
#[tokio::test]
async fn without_a_command_an_image_fails_and_nothing_is_asked_for() {
    let mut device = Device::with(&[]);
    device.run().await;
    device.want(agent::CONTROLLER, 1, true);
    let failed = device.until_hold(Failed).await;
    assert_eq!(failed.blocked_by, "cannot activate: setting baseos.activate is not set");
    let status = device.until_status(|status| !status.error.is_empty()).await;
    assert_eq!((status.error, status.activated), (failed.blocked_by, false));
    assert_eq!(device.request_now(), None);
    device.stop().await;
}

/// Without `baseos.current` it is not known whether the image is running already.
#[tokio::test]
async fn an_image_that_may_run_already_is_not_written() {
    for (path, text, runs) in [
        ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n", None),
        ("etc/os-release", "ID=flatcar\nVERSION_ID=2.0\n", Some(true)),
        ("etc/os-release", "VERSION_ID=12\nIMAGE_VERSION='2.0'\n", Some(true)),
        ("etc/os-release", "IMAGE_VERSION=1.0\n", Some(false)),
        ("usr/lib/os-release", "IMAGE_VERSION=1.0\n", Some(false)),
        ("run/eve-release", "2.0\n", Some(true)),
        ("run/eve-release", "1.0\n", Some(false)),
        ("etc/other", "", None),
    ] {
        let mut device = Device::with(&[ACTIVATE]);
        device.write(path, text);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        match runs {
            None => {
                device.until_blocked_by("set baseos.current").await;
                assert_eq!(device.until_hold(Deferred).await.content_tree_uuid, UUID);
                assert_eq!(device.request_now(), None, "{text:?}");
            }
            Some(true) => {
                device.until_status(|status| status.partition_state == "active").await;
                assert_eq!(device.request_now(), None, "{text:?}");
            }
            Some(false) => {
                device.drain(DrainStatus::Complete).await;
                device.until_hold(Activated).await;
            }
        }
        device.stop().await;
    }
}

#[tokio::test]
async fn nothing_begins_during_a_freeze() {
    let mut device = Device::with(&[ACTIVATE, ("baseos.current", r#"["echo", "1.0"]"#)]);
    device.write(FREEZE, r#"{"By":"root","Reason":"audit"}"#);
    device.run().await;
    device.want(agent::CONTROLLER, 1, true);
    let held = device.until_blocked_by("commands are frozen (by root: audit)").await;
    assert_eq!((held.state, device.request_now()), (Deferred, None));
    std::fs::remove_file(device.path(FREEZE)).unwrap();
    device.drain(DrainStatus::Complete).await;
    device.until_hold(Activated).await;
    device.stop().await;
}

/// The operator's configuration counts before the controller's, and the controller's before the cluster's. Only a person
/// has a name, and only a person and the cluster have a reason. The cluster's does not count at all if it may not command.
#[tokio::test]
async fn the_same_image_of_several_sources() {
    let current = ("baseos.current", r#"["echo", "1.0"]"#);
    let mut device = Device::with(&[ACTIVATE, current]);
    device.write("etc/ebb/ebb.toml", "commands.from-cluster = true\n");
    for publisher in [agent::ZEDKUBE, agent::ZEDAGENT, agent::CONTROLLER] {
        device.want(publisher, 1, false);
    }
    device.run().await;
    device.want("ebb", 1, true);
    let held = device.until_hold(Deferred).await;
    let origin = |held: BaseOsHold| (held.source.name(), held.by, held.reason);
    let lines = |held: &BaseOsHold| held.images.iter().map(|line| line.source.name()).collect::<Vec<_>>();
    assert_eq!(lines(&held), ["person"]);
    assert_eq!(origin(held), ("person", "alice".to_owned(), "fan swap".to_owned()));
    device.drain(DrainStatus::Unknown).await;
    device.want("ebb", 1, false);
    device.want(agent::CONTROLLER, 1, true);
    device.until_hold(Idle).await;
    std::fs::remove_file(device.path(&format!("run/ebb/BaseOsConfig/{UUID}.json"))).unwrap();
    let none = String::new;
    assert_eq!(origin(device.until_hold(Deferred).await), ("controller", none(), none()));
    device.want(agent::ZEDKUBE, 1, true);
    let both = |hold: Option<&BaseOsHold>| hold.is_some_and(|hold| lines(hold) == ["controller", "cluster"]);
    until(&mut device.hold, &TopicKey::global(), both).await;
    for publisher in [agent::ZEDAGENT, agent::CONTROLLER] {
        std::fs::remove_file(device.path(&format!("run/{publisher}/BaseOsConfig/{UUID}.json"))).unwrap();
    }
    let of_cluster = |hold: Option<&BaseOsHold>| hold.is_some_and(|hold| hold.source == Source::Cluster);
    let held = until(&mut device.hold, &TopicKey::global(), of_cluster).await.unwrap();
    assert_eq!(origin(held), ("cluster", none(), "fan swap".to_owned()));
    device.write("etc/ebb/ebb.toml", "commands.from-cluster = false\n");
    let held = device.until_hold(Idle).await;
    assert_eq!(lines(&held), [""; 0]);
    device.stop().await;
}

/// `/run` is kept over a boot: a file of the earlier boot releases nothing now.
#[tokio::test]
async fn a_hold_of_another_boot_is_not_this_boots() {
    let mut device = Device::with(&[ACTIVATE]);
    let hold = format!(r#"{{"ContentTreeUUID":"{UUID}","State":"Activated","BootId":"boot-0"}}"#);
    device.write("run/baseosmgr/BaseOsHold/global.json", &hold);
    device.write(RECORD, &record());
    device.run().await;
    let is_new = |hold: Option<&BaseOsHold>| hold.is_some_and(|hold| hold.boot_id == "boot-1");
    let hold = until(&mut device.hold, &TopicKey::global(), is_new).await.unwrap();
    assert_eq!(hold.state, Idle);
    device.stop().await;
}

/// `/run` may be kept over a boot. A DeviceAction of the last boot says nothing about the methods of this one.
#[tokio::test]
async fn a_device_action_of_another_boot_does_not_keep_an_image_from_its_reboot() {
    for (boot_id, is_blocked) in [("boot-0", false), ("boot-1", true)] {
        let mut device = Device::able(&[]);
        let action = format!(r#"{{"BootId":"{boot_id}","State":"Idle","Means":[]}}"#);
        device.write("run/nodeagent/DeviceAction/global.json", &action);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        if is_blocked {
            device.until_blocked_by("nodeagent has no means").await;
        } else {
            device.drain(DrainStatus::Complete).await;
            device.until_hold(Activated).await;
        }
        device.stop().await;
    }
}
