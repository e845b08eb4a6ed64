//! Every file that device-op reads, bad in every possible way: what the agents share ([`Promise`]), and what only device-op
//! does.

use runtime::testing::{
    BadFile, DEVICE_ACTION, Holder, Input, Promise, WRONG_ACTIONS, check_bad_input, check_bad_inputs,
};
use schemas::{DeviceActionState, DeviceOpState, DeviceOpsCmd, Operation, parse};

use crate::tests::{COUNTER_1, Device, RECORD, command_path, counter_path};

use Promise::{ChangesNothing, CommandsNothing, HoldsCommand, IsReplaced, OnlyRecords, TakeBackWaits};

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

#[tokio::test(start_paused = true)]
async fn whatever_file_is_bad_nothing_is_released() {
    let [one, two, three] = Operation::ALL.map(command_path);
    let wrong_records = [
        r#"{"Waiting":[{"Operation":"explode","Counter":1,"CarriedOver":false}]}"#,
        r#"{"HandedOver":7}"#,
        r#"{"HandedOver":{"Operation":"reboot"}}"#,
        r#"{"Failed":{"AtMs":-1}}"#,
    ];
    let wrong_statuses = [r#"{"State":"Gone"}"#, r#"{"Counter":-1}"#];
    let wrong_releases = [r#"{"RebootCmd":1}"#, r#"{"RebootCmd":"yes"}"#];
    let toml = "drain.start.timeout = \"7m\"";
    let wrong_toml = ["drain.start.timeout = 7", "drain.start.timeout = \"-7m\"", "= ="];
    let items = r#"{"GlobalSettings":{"kubernetes.drain.timeout":{"Key":"kubernetes.drain.timeout","ItemType":1,"IntValue":7}}}"#;
    let wrong_items =
        [r#"{"GlobalSettings":7}"#, r#"{"GlobalSettings":{"kubernetes.drain.timeout":{"IntValue":-1}}}"#];
    check_bad_inputs::<Device>(&[
        (CommandsNothing, &one, COMMAND_2, &WRONG_COMMANDS),
        (CommandsNothing, &two, COMMAND_2, &WRONG_COMMANDS),
        (CommandsNothing, &three, COMMAND_2, &WRONG_COMMANDS),
        (TakeBackWaits, DEVICE_ACTION, r#"{"State":"Idle"}"#, &WRONG_ACTIONS),
        (OnlyRecords, RECORD, "{}", &wrong_records),
        (IsReplaced, "run/zedagent/DeviceOpStatus/global.json", "{}", &wrong_statuses),
        (IsReplaced, "run/zedagent/ZedAgentStatus/zedagent.json", "{}", &wrong_releases),
        (ChangesNothing, "etc/ebb/ebb.toml", toml, &wrong_toml),
        (ChangesNothing, "etc/ebb/ebb.d/10.toml", toml, &["drain.start = 7"]),
        (ChangesNothing, "run/zedagent/ConfigItemValueMap/global.json", items, &wrong_items),
    ])
    .await;
}

/// A file that is device-op's own but has no counter counts as a first boot. Any other bad file is not trusted.
#[tokio::test(start_paused = true)]
async fn a_counter_file_that_is_bad() {
    let path = counter_path(Operation::Reboot);
    let input = Input { path: &path, good: COUNTER_1, wrong: &WRONG_COMMANDS };
    for bad in input.bad() {
        let (promise, consequence) = match bad {
            BadFile::Empty | BadFile::Half | BadFile::Text(_) | BadFile::NotUtf8 | BadFile::Deep => {
                (OnlyRecords, "the next reboot command is only recorded")
            }
            BadFile::Huge
            | BadFile::Folder
            | BadFile::Pipe
            | BadFile::Link
            | BadFile::DanglingLink
            | BadFile::WritableByAll
            | BadFile::Foreign => (HoldsCommand, "no reboot command is accepted"),
        };
        check_bad_input::<Device>(promise, input, bad).await;

        let mut device = Device::new();
        input.put_bad(&device, bad);
        device.run().await;
        device.until_blocked_by(consequence).await;
        device.give(Operation::Poweroff, 2);
        assert_eq!(device.until_requested().await.context, "poweroff", "other commands are accepted");
        device.stop().await;

        if bad == BadFile::Folder {
            continue; // Then no counter can be written.
        }
        let mut device = Device::new();
        device.give(Operation::Reboot, 1);
        device.run().await;
        device.until_status(DeviceOpState::Idle).await;
        input.put_bad(&device, bad);
        device.until_blocked_by("the last good counter 1 stays in effect").await;
        device.check_waits(None);
        device.give(Operation::Reboot, 2);
        device.until_requested().await;
        assert_eq!(parse::<DeviceOpsCmd>(device.read(&path).as_bytes()).unwrap().counter, 2, "{bad:?}");
        device.finish().await;
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
        device.write(RECORD, &format!(r#"{{"SchemaVersion":1,"BootId":"boot-1",{rest}}}"#));
        // The command is published, so that its absence from the record is no take-back.
        device.give(Operation::Reboot, if state == DeviceOpState::Idle { 1 } else { 2 });
        device.run().await;
        device.until_status(state).await;
        assert!(!device.has_released(), "{:?}", rest.get(..80));
        device.command(10_000);
        device.until_requested().await;
        assert!(!device.has_released(), "{:?}", rest.get(..80));
        device.finish().await;
    }
}

/// nodeagent's lock file is unreadable: nodeagent counts as running.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_asked_counts_as_held() {
    for bad in [BadFile::Link, BadFile::DanglingLink] {
        let mut device = Device::new();
        device.run_until_requested().await;
        device.release().await;
        device.nodeagent(Operation::Reboot, 2, DeviceActionState::Taken);
        let input = Input { path: "run/ebb/lock/nodeagent/lock", good: "", wrong: &[] };
        input.put_bad(&device, bad);
        device.take_back();
        device.until_blocked_by("waiting for nodeagent").await;
        assert!(device.request_now().is_some(), "{bad:?}");
        input.put_good(&device);
        device.until_withdrawn().await;
        device.stop().await;
    }
}
