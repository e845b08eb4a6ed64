//! Every file that device-op reads, bad in every possible way. Nothing panics, the device does not go down, the last
//! good value stays in effect, the refusal is displayed, and a good file ends it.

use std::fs;
use std::time::Duration;

use pubsub::TopicKey;
use runtime::testing::{
    BadFile, CapturedLog, DEVICE_ACTION, GATE_INPUTS, Input, TOO_LONG, WRONG_ACTIONS, WRONG_REQUESTS, until,
};
use schemas::{
    DeviceActionState, DeviceOpState, DeviceOpsCmd, DrainStatus, NodeDrainRequest, Operation, agent, parse,
    to_bytes,
};

use crate::tests::{COUNTER_1, Device, RECORD, command_path, counter_path};

const COMMAND_2: &str = r#"{"Counter":2,"DesiredState":true,"OpsTime":"now"}"#;
const WRONG_COMMANDS: [&str; 8] = [
    r#"{"Counter":-1,"DesiredState":true}"#,
    r#"{"Counter":4294967296,"DesiredState":true}"#,
    r#"{"Counter":2.5,"DesiredState":true}"#,
    r#"{"Counter":"2","DesiredState":true}"#,
    r#"{"Counter":2,"DesiredState":"yes"}"#,
    r#"{"Counter":2,"DesiredState":1}"#,
    r#"{"Counter":2,"DesiredState":true,"OpsTime":7}"#,
    r#"{"Counter":2,"DesiredState":true}{"Counter":2}"#,
];

impl Device {
    async fn until_blocked_by_nothing(&mut self, path: &str) {
        let is_gone = |status: Option<&schemas::DeviceOpStatus>| {
            status.is_some_and(|status| !status.blocked_by.contains(path))
        };
        until(&mut self.status, &TopicKey::global(), is_gone).await;
    }

    /// No command was released, and device-op still runs.
    #[track_caller]
    fn check_nothing_happens(&self, why: impl std::fmt::Debug) {
        assert!(self.is_running(), "{why:?}: it has ended");
        let key = TopicKey::parse(agent::ZEDAGENT).unwrap();
        let folder = (&self.root(), agent::ZEDAGENT, pubsub::Persistence::Volatile);
        let status = pubsub::read_item::<schemas::ZedAgentStatus>(folder.0, folder.1, folder.2, &key);
        let status = status.ok().flatten().unwrap_or_default();
        let is_commanded = status.reboot_cmd || status.shutdown_cmd || status.poweroff_cmd;
        assert!(!is_commanded, "{why:?}: {status:?}");
    }

    fn request_now(&self) -> Option<NodeDrainRequest> {
        self.item(agent::ZEDAGENT)
    }
}

/// The ways to make a file bad without removing it first. A folder cannot replace a file in one step, and a missing
/// file has a meaning of its own.
fn in_place<'a>(input: &Input<'a>) -> impl Iterator<Item = BadFile<'a>> {
    input.bad().into_iter().filter(|bad| *bad != BadFile::Folder)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_bad_from_the_start() {
    for operation in Operation::ALL {
        let path = command_path(operation);
        let input = Input { path: &path, good: COMMAND_2, wrong: &WRONG_COMMANDS };
        for bad in input.bad() {
            let mut device = Device::new();
            input.put_bad(&device, bad);
            device.run().await;
            device.until_blocked_by(&path).await;
            device.check_nothing_happens(bad);
            assert_eq!(device.request_now(), None, "{bad:?}");
            input.put_good(&device);
            assert_eq!(device.until_requested().await.context, operation.name(), "{bad:?}");
            device.until_blocked_by_nothing(&path).await;
            device.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_command_stands_while_its_file_is_bad() {
    let path = command_path(Operation::Reboot);
    let input = Input { path: &path, good: COMMAND_2, wrong: &WRONG_COMMANDS };
    let mut device = Device::new();
    device.run().await;
    input.put_good(&device);
    let request = device.until_requested().await;
    for bad in in_place(&input) {
        input.put_bad(&device, bad);
        device.until_blocked_by(&path).await;
        device.check_nothing_happens(bad);
        assert_eq!(device.request_now().as_ref(), Some(&request), "{bad:?}");
        input.put_good(&device);
        device.until_blocked_by_nothing(&path).await;
    }
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Reboot)).await;
    device.stop().await;
}

/// True if the file is device-op's own but holds no counter: it counts as a first boot, and the next command writes a
/// good file. Any other bad file is not trusted.
fn is_garbled(bad: BadFile<'_>) -> bool {
    match bad {
        BadFile::Empty | BadFile::Half | BadFile::Text(_) | BadFile::NotUtf8 | BadFile::Deep => true,
        BadFile::Huge
        | BadFile::Folder
        | BadFile::Pipe
        | BadFile::Link
        | BadFile::DanglingLink
        | BadFile::WritableByAll
        | BadFile::Foreign => false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_file_that_is_bad_from_the_start() {
    let path = counter_path(Operation::Reboot);
    let input = Input { path: &path, good: COUNTER_1, wrong: &WRONG_COMMANDS };
    for bad in input.bad() {
        let mut device = Device::new();
        input.put_bad(&device, bad);
        device.run().await;
        device.until_blocked_by(&path).await;
        if is_garbled(bad) {
            device.until_blocked_by("the next reboot command is only recorded").await;
            device.give(Operation::Reboot, 2);
            device.until_blocked_by_nothing(&path).await;
            assert_eq!(parse::<DeviceOpsCmd>(device.read(&path).as_bytes()).unwrap().counter, 2, "{bad:?}");
            assert_eq!(device.request_now(), None, "{bad:?}: it may have been done");
            device.give(Operation::Reboot, 3);
        } else {
            device.until_blocked_by("no reboot command is accepted").await;
            device.give(Operation::Reboot, 2);
            device.give(Operation::Poweroff, 2);
            assert_eq!(device.until_requested().await.context, "poweroff", "other commands are accepted");
            device.until_blocked_by(&path).await;
            device.write(&command_path(Operation::Poweroff), &COMMAND_2.replace("true", "false"));
            until(&mut device.request, &TopicKey::global(), |request| request.is_none()).await;
            device.check_nothing_happens(bad);
            input.put_good(&device);
        }
        assert_eq!(device.until_requested().await.context, "reboot", "{bad:?}");
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_counter_stands_while_its_file_is_bad() {
    let path = counter_path(Operation::Reboot);
    let input = Input { path: &path, good: COUNTER_1, wrong: &WRONG_COMMANDS };
    for bad in in_place(&input) {
        let mut device = Device::new();
        device.run().await;
        device.until_status(DeviceOpState::Idle).await;
        input.put_bad(&device, bad);
        device.until_blocked_by("the last good counter 1 stays in effect").await;
        device.give(Operation::Reboot, 1);
        device.give(Operation::Reboot, 2);
        assert_eq!(device.until_requested().await.context, "reboot", "{bad:?}");
        assert_eq!(parse::<DeviceOpsCmd>(device.read(&path).as_bytes()).unwrap().counter, 2, "{bad:?}");
        device.check_nothing_happens(bad);
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_nodeagent_cannot_be_read_nothing_is_withdrawn() {
    let input = Input { path: DEVICE_ACTION, good: r#"{"State":"Idle"}"#, wrong: &WRONG_ACTIONS };
    for bad in input.bad() {
        let mut device = Device::new();
        device.run().await;
        device.give(Operation::Reboot, 2);
        let request = device.until_requested().await;
        device.report(Some(DrainStatus::Complete));
        device.until_commanded(Some(Operation::Reboot)).await;
        input.put_bad(&device, bad);
        fs::remove_file(device.path(&command_path(Operation::Reboot))).unwrap();
        device.until_commanded(None).await;
        device.until_blocked_by(input.path).await;
        assert_eq!(device.request_now().as_ref(), Some(&request), "{bad:?}: who knows what it is doing");
        device.check_nothing_happens(bad);
        input.put_good(&device);
        until(&mut device.request, &TopicKey::global(), |request| request.is_none()).await;
        device.until_status(DeviceOpState::Idle).await;
        device.stop().await;
    }
}

/// The files of zedkube and of EVE.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_none() {
    for (path, wrong) in GATE_INPUTS {
        let mut device = Device::new();
        device.run().await;
        device.give(Operation::Reboot, 2);
        let request = device.until_requested().await;
        let waiting = String::from_utf8(to_bytes(&device.answered(Some(DrainStatus::Unknown)))).unwrap();
        let good = if path.contains("Report") { waiting.as_str() } else { "{}" };
        let input = Input { path, good, wrong };
        for bad in input.bad() {
            input.put_bad(&device, bad);
            device.until_blocked_by(path).await;
            device.check_nothing_happens((path, bad));
            assert_eq!(device.request_now().as_ref(), Some(&request), "{path} {bad:?}");
            input.put_good(&device);
            device.until_blocked_by_nothing(path).await;
        }
        device.report(Some(DrainStatus::Complete));
        device.until_commanded(Some(Operation::Reboot)).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_good_answer_stands_while_the_report_is_bad() {
    let path = "run/zedkube/NodeDrainReport/global.json";
    let mut device = Device::new();
    device.run().await;
    device.give(Operation::Reboot, 2);
    device.until_requested().await;
    device.report(Some(DrainStatus::Complete));
    device.until_commanded(Some(Operation::Reboot)).await;
    let good = device.read(path);
    let input = Input { path, good: &good, wrong: &[] };
    for bad in in_place(&input) {
        input.put_bad(&device, bad);
        device.give(Operation::Reboot, 2);
        // A change of another file, so that device-op reads all files and shows that it did.
        device.write(&command_path(Operation::Poweroff), r#"{"Counter":7,"DesiredState":false}"#);
        until_counter(&device, Operation::Poweroff, 7).await;
        device.until_commanded(Some(Operation::Reboot)).await;
        input.put_good(&device);
        device.write(&command_path(Operation::Poweroff), r#"{"Counter":8,"DesiredState":false}"#);
        until_counter(&device, Operation::Poweroff, 8).await;
    }
    device.stop().await;
}

async fn until_counter(device: &Device, operation: Operation, counter: u32) {
    let path = counter_path(operation);
    let recorded = || parse::<DeviceOpsCmd>(device.read(&path).as_bytes()).unwrap().counter;
    let recording = async {
        while recorded() != counter {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, recording).await.expect("recorded");
}

const REQUEST: &str = "run/zedagent/NodeDrainRequest/global.json";
#[tokio::test(start_paused = true)]
async fn a_request_that_is_spoilt_is_made_again() {
    let input = Input { path: REQUEST, good: "{}", wrong: &WRONG_REQUESTS };
    for is_there_first in [true, false] {
        for bad in input.bad() {
            let mut device = Device::new();
            if is_there_first {
                input.put_bad(&device, bad);
            }
            device.run().await;
            device.give(Operation::Reboot, 2);
            if !is_there_first {
                device.until_requested().await;
                input.put_bad(&device, bad);
            }
            if bad == BadFile::Folder {
                device.until_blocked_by("cannot publish NodeDrainRequest").await;
                fs::remove_dir(device.path(REQUEST)).unwrap();
            }
            let is_ours = |request: Option<&NodeDrainRequest>| {
                request.is_some_and(|request| request.context == "reboot" && !request.requested_at.is_zero())
            };
            let made_again = async {
                while !is_ours(device.request_now().as_ref()) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::time::timeout(TOO_LONG, made_again).await.expect("made again");
            device.check_nothing_happens(bad);
            // An answer to the request before the file was garbled does not count for the new one.
            device.report(Some(DrainStatus::Complete));
            device.until_commanded(Some(Operation::Reboot)).await;
            device.stop().await;
        }
    }
}

/// device-op's own files, found bad at its start.
#[tokio::test(start_paused = true)]
async fn files_of_its_own_that_are_bad_at_the_start() {
    let wrong_record = [
        r#"{"Waiting":[{"Operation":"explode","Counter":1,"CarriedOver":false}]}"#,
        r#"{"HandedOver":7}"#,
        r#"{"HandedOver":{"Operation":"reboot"}}"#,
        r#"{"Failed":{"AtMs":-1}}"#,
    ];
    let wrong_status = [r#"{"State":"Gone"}"#, r#"{"Counter":-1}"#];
    let inputs: [(&str, &[&str]); 3] = [
        (RECORD, &wrong_record),
        ("run/zedagent/DeviceOpStatus/global.json", &wrong_status),
        ("run/zedagent/ZedAgentStatus/zedagent.json", &[r#"{"RebootCmd":1}"#, r#"{"RebootCmd":"yes"}"#]),
    ];
    for (path, wrong) in inputs {
        let input = Input { path, good: "{}", wrong };
        for bad in input.bad() {
            let log = CapturedLog::begin();
            let mut device = Device::new();
            input.put_bad(&device, bad);
            device.give(Operation::Reboot, 2);
            device.run().await;
            log.until(path).await;
            if bad == BadFile::Folder {
                log.until("cannot publish").await;
                device.check_nothing_happens((path, bad));
                fs::remove_dir(device.path(path)).unwrap();
            }
            if path == RECORD {
                // The record of what was done is lost.
                device.until_blocked_by("reboot 2 of controller: only recorded").await;
                assert_eq!(device.request_now(), None, "{bad:?}");
                device.give(Operation::Reboot, 3);
            }
            device.until_requested().await;
            device.check_nothing_happens((path, bad));
            device.report(Some(DrainStatus::Complete));
            device.until_commanded(Some(Operation::Reboot)).await;
            device.stop().await;
        }
    }
}

/// Valid JSON of the right types with values that make no sense.
#[tokio::test(start_paused = true)]
async fn a_record_that_somebody_made_up_lets_nothing_go() {
    let accepted = |counter| format!(r#"{{"Operation":"reboot","Counter":{counter},"CarriedOver":false}}"#);
    let many = (2..9000).map(accepted).collect::<Vec<_>>().join(",");
    let long = "x".repeat(900_000);
    let request = r#""Request":{"RequestedAt":"2026-08-22T16:10:11Z","SeenOtherStatus":true}"#;
    for (rest, state) in [
        (format!(r#""HandedOver":{},{request}"#, accepted(2)), DeviceOpState::Deferred),
        (format!(r#""Waiting":[{many}],{request}"#), DeviceOpState::Deferred),
        (
            format!(
                r#""Waiting":[{}],"Failed":{{"Operation":"reboot","Counter":2,"Error":"{long}","AtMs":{}}}"#,
                accepted(2),
                u64::MAX
            ),
            DeviceOpState::Failed,
        ),
        (r#""IsDone":true"#.to_owned(), DeviceOpState::Idle),
        (format!(r#""HandedOver":{},"IsDone":true"#, accepted(2)), DeviceOpState::HandedOver),
    ] {
        let mut device = Device::new();
        let record = format!(r#"{{"SchemaVersion":1,"BootId":"boot-1",{rest}}}"#);
        device.write(RECORD, &record);
        // The command is published, so that its absence from the record is no take-back.
        device.give(Operation::Reboot, if state == DeviceOpState::Idle { 1 } else { 2 });
        device.run().await;
        device.until_status(state).await;
        device.check_nothing_happens(rest.get(..80));
        device.give(Operation::Reboot, 10_000);
        device.until_requested().await;
        device.check_nothing_happens(rest.get(..80));
        device.report(Some(DrainStatus::Complete));
        device.until_commanded(Some(Operation::Reboot)).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_bad_change_nothing() {
    let good = r#"{"GlobalSettings":{"kubernetes.drain.timeout":{"Key":"kubernetes.drain.timeout","ItemType":1,"IntValue":7}}}"#;
    let inputs: [(&str, &str, &[&str]); 3] = [
        (
            "etc/ebb/ebb.toml",
            "drain.start.timeout = \"7m\"",
            &["drain.start.timeout = 7", "drain.start.timeout = \"-7m\"", "= ="],
        ),
        ("etc/ebb/ebb.d/10.toml", "drain.start.timeout = \"7m\"", &["drain.start = 7"]),
        (
            "run/zedagent/ConfigItemValueMap/global.json",
            good,
            &[
                r#"{"GlobalSettings":7}"#,
                r#"{"GlobalSettings":{"kubernetes.drain.timeout":{"IntValue":-1}}}"#,
            ],
        ),
    ];
    for (path, good, wrong) in inputs {
        let input = Input { path, good, wrong };
        for bad in input.bad() {
            // Valid TOML that does not concern device-op.
            if bad == BadFile::Empty && !path.contains("ConfigItemValueMap") {
                continue;
            }
            let log = CapturedLog::begin();
            let mut device = Device::new();
            device.run().await;
            device.until_status(DeviceOpState::Idle).await;
            input.put_bad(&device, bad);
            let file = path.rsplit('/').next().unwrap();
            log.until(file).await;
            device.check_nothing_happens((path, bad));
            input.put_good(&device);
            log.until(" = 7").await;
            device.give(Operation::Reboot, 2);
            device.until_requested().await;
            device.stop().await;
        }
    }
}

/// nodeagent's lock file is unreadable: nodeagent counts as running.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_asked_counts_as_held() {
    for bad in [BadFile::Link, BadFile::DanglingLink] {
        let mut device = Device::new();
        device.run().await;
        device.give(Operation::Reboot, 2);
        device.until_requested().await;
        device.report(Some(DrainStatus::Complete));
        device.until_commanded(Some(Operation::Reboot)).await;
        device.nodeagent(Operation::Reboot, 2, DeviceActionState::Taken);
        let input = Input { path: "run/ebb/lock/nodeagent/lock", good: "", wrong: &[] };
        input.put_bad(&device, bad);
        fs::remove_file(device.path(&command_path(Operation::Reboot))).unwrap();
        device.until_commanded(None).await;
        device.until_blocked_by("waiting for nodeagent").await;
        assert!(device.request_now().is_some(), "{bad:?}");
        input.put_good(&device);
        until(&mut device.request, &TopicKey::global(), |request| request.is_none()).await;
        device.stop().await;
    }
}
