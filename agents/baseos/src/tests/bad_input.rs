//! Every file that baseos reads, bad in every possible way: what the agents share ([`Promise`]), and what only baseos does.

use std::fs;

use pubsub::TopicKey;
use runtime::testing::{
    BadFile, CapturedLog, DEVICE_ACTION, Holder, Input, Promise, WRONG_ACTIONS, check_bad_inputs, until,
};
use schemas::{BaseOsHoldState, DrainStatus, agent};

use crate::tests::{Device, UUID};

use BaseOsHoldState::{Deferred, Idle};
use Promise::{ChangesNothing, CommandsNothing, HoldsCommand, IsReplaced, ReleaseWaits};

const RECORD: &str = "persist/status/baseosmgr/ActivationRecord/global.json";

/// The configuration of the image to activate.
fn config(version: &str) -> String {
    format!(
        r#"{{"BaseOsVersion":"{version}","ContentTreeUUID":"{UUID}","RetryUpdateCounter":1,"Activate":true}}"#
    )
}

/// Where volumemgr reports the content of the image.
fn content_path() -> String {
    format!("run/volumemgr/ContentTreeStatus/{UUID}.json")
}

#[tokio::test(start_paused = true)]
async fn whatever_file_is_bad_no_image_is_activated() {
    let good = config("2.0");
    let wrong = [
        r#"{"BaseOsVersion":2,"Activate":true}"#,
        r#"{"BaseOsVersion":"2.0","Activate":"true"}"#,
        r#"{"BaseOsVersion":"2.0","Activate":1}"#,
        r#"{"BaseOsVersion":"2.0","Activate":true,"RetryUpdateCounter":-1}"#,
        r#"{"BaseOsVersion":"2.0","Activate":true,"RetryUpdateCounter":4294967296}"#,
    ];
    let [zedagent, controller] = [agent::ZEDAGENT, agent::CONTROLLER]
        .map(|publisher| format!("run/{publisher}/BaseOsConfig/{UUID}.json"));
    let wrong_contents = [r#"{"State":256}"#, r#"{"State":"LOADED"}"#, r#"{"State":108,"Error":[]}"#];
    let wrong_records = [
        r#"{"Images":[{"Stage":"Unknown"}]}"#,
        r#"{"Images":[{"Starts":-1}]}"#,
        r#"{"Current":7}"#,
        r#"{"Failed":{"AtMs":"now"}}"#,
    ];
    let status = format!("run/baseosmgr/BaseOsStatus/{UUID}.json");
    let wrong_statuses = [r#"{"State":300}"#, r#"{"Activated":1,"PartitionState":"updating"}"#];
    let wrong_toml =
        ["baseos.timeout = 7", "baseos.dry-run = \"perhaps\"", "baseos.activate = \"sh\"", "baseos = ["];
    check_bad_inputs::<Device>(&[
        (CommandsNothing, &zedagent, &good, &wrong),
        (CommandsNothing, &controller, &good, &wrong),
        (HoldsCommand, &content_path(), r#"{"State":108}"#, &wrong_contents),
        (ReleaseWaits, DEVICE_ACTION, r#"{"State":"Idle"}"#, &WRONG_ACTIONS),
        (IsReplaced, RECORD, "{}", &wrong_records),
        (
            IsReplaced,
            "run/baseosmgr/BaseOsHold/global.json",
            "{}",
            &[r#"{"State":"Gone"}"#, r#"{"State":4}"#],
        ),
        (IsReplaced, &status, "{}", &wrong_statuses),
        (ChangesNothing, "etc/ebb/ebb.toml", "baseos.timeout = \"7m\"", &wrong_toml),
    ])
    .await;
}

/// A configuration with bad contents is refused by name, with the limit, and does not delay other images.
#[tokio::test(start_paused = true)]
async fn a_version_or_an_id_that_commands_cannot_be_given_is_refused() {
    const OTHER: &str = "6ba7b810-9dad-11d1-80b4-0000000000ff";
    let long = "9".repeat(900_000);
    let long_key = "k".repeat(200);
    let quiet = r#""Activate":true,"RetryUpdateCounter":1"#;
    for (key, version, reason) in [
        (OTHER, long.as_str(), "accepted: a version of 1 to 255 bytes"),
        (OTHER, "2\\u001b[31m", "accepted: a version of 1 to 255 bytes"),
        (long_key.as_str(), "2.0", "ContentTreeUUID is no UUID"),
    ] {
        let log = CapturedLog::begin();
        let mut device = Device::new();
        let path = format!("run/controller/BaseOsConfig/{key}.json");
        device.write(&path, &format!(r#"{{"BaseOsVersion":"{version}",{quiet}}}"#));
        device.run().await;
        device.until_blocked_by(reason).await;
        log.until(reason).await;
        let key = TopicKey::parse(key).unwrap();
        until(&mut device.statuses, &key, |status| {
            status.is_some_and(|status| status.error.contains(reason))
        })
        .await;
        assert_eq!(device.request_now(), None);
        // Other images are served meanwhile.
        device.want(agent::CONTROLLER, 1, true);
        device.release().await;
        device.want(agent::CONTROLLER, 1, false);
        device.until_hold(Idle).await;
        device.until_blocked_by(reason).await;
        fs::remove_file(device.path(&path)).unwrap();
        device.until_not_blocked_by(reason).await;
        until(&mut device.statuses, &key, |status| status.is_none()).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_cannot_be_read_is_shown_as_it_was() {
    let path = content_path();
    let mut device = Device::new();
    device.write(&path, "{");
    device.run().await;
    device.want(agent::CONTROLLER, 1, true);
    device.until_status(|status| status.error.contains(&path)).await;
    device.write(&path, r#"{"State":108}"#);
    device.until_status(|status| status.error.is_empty() && status.state.0 == 108).await;
    device.write(&path, "{");
    device.until_status(|status| status.error.contains(&path) && status.state.0 == 108).await;
    device.finish().await;
}

/// A broken link in place of the topic's folder does not count as a missing folder.
#[tokio::test(start_paused = true)]
async fn a_topic_of_contents_that_leads_nowhere_is_there() {
    let input = Input { path: "run/volumemgr/ContentTreeStatus", good: "a file", wrong: &[] };
    for bad in [BadFile::DanglingLink, BadFile::Empty, BadFile::Pipe] {
        let mut device = Device::new();
        input.put_bad(&device, bad);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_status(|status| status.state.0 == 100).await;
        device.check_waits(None);
        fs::remove_file(device.path(input.path)).unwrap();
        device.finish().await;
    }
}

/// Valid JSON of the right types with values that make no sense: no image is activated or booted without the gate.
#[tokio::test(start_paused = true)]
async fn files_that_somebody_made_up_let_nothing_go() {
    let long = "x".repeat(900_000);
    let image = |stage: &str, text: &str| {
        format!(
            r#"{{"Config":{},"BootId":"boot-1","Stage":"{stage}","Starts":1,"Error":"{text}"}}"#,
            config("2.0")
        )
    };
    let request = r#""Request":{"RequestedAt":"2026-08-22T16:10:11Z","SeenOtherStatus":true}"#;
    for rest in [
        format!(r#""Current":{{"Config":{}}},{request},"AskedFor":"{UUID}""#, config("2.0")),
        format!(r#""Images":[{}],{request}"#, image("Finished", "")),
        format!(r#""Current":{{"Config":{}}},"AskedFor":"{long}""#, config(&long)),
        format!(r#""Images":[{}]"#, vec![image("Finished", ""); 3000].join(",")),
    ] {
        let mut device = Device::new();
        device.write(RECORD, &format!(r#"{{"SchemaVersion":1,"BootId":"boot-1",{rest}}}"#));
        let hold = format!(r#"{{"ContentTreeUUID":"{UUID}","State":"Activated","Release":"{long}"}}"#);
        device.write("run/baseosmgr/BaseOsHold/global.json", &hold);
        let status =
            format!(r#"{{"ContentTreeUUID":"{UUID}","Activated":true,"PartitionState":"updating"}}"#);
        device.write(&format!("run/baseosmgr/BaseOsStatus/{UUID}.json"), &status);
        device.want(agent::CONTROLLER, 1, true);
        device.run().await;
        device.until_hold(Deferred).await;
        device.until_requested().await;
        assert!(!device.has_released(), "{:?}", rest.get(..60));
        device.finish().await;
    }
}

/// The file of `baseos.current`: until it is good, the running version is not known and nothing is decided.
#[tokio::test(start_paused = true)]
async fn a_running_version_that_cannot_be_read_is_asked_for_again() {
    let long = "9".repeat(300);
    let input = Input { path: "etc/version", good: "1.0\n", wrong: &["\n2.0", "\u{1b}[31m2.0", &long] };
    let wrong = input.wrong.iter().map(|text| BadFile::Text(text));
    for bad in [BadFile::Empty, BadFile::Folder, BadFile::Pipe, BadFile::DanglingLink, BadFile::Link]
        .into_iter()
        .chain(wrong)
    {
        let log = CapturedLog::begin();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("version");
        let mut device =
            Device::able(&[("baseos.dry-run", "true"), ("baseos.current", &file.display().to_string())]);
        input.put_bad(&device, bad);
        std::os::unix::fs::symlink(device.path(input.path), &file).unwrap();
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        if bad == BadFile::Link {
            // A link is allowed: `/etc/os-release` is one.
            log.until("version 1.0 is running").await;
        } else {
            log.until("cannot tell which version is running").await;
            device.check_waits(None);
        }
        device.stop().await;
        input.put_good(&device);
        device.run().await;
        device.finish().await;
    }
}

/// The file for lines of dry runs: if it cannot be read, it is not known whether a line exists. Otherwise a line is
/// appended, whatever the file holds.
#[tokio::test(start_paused = true)]
async fn a_file_of_lines_that_cannot_be_used_stops_the_dry_run_and_is_told() {
    let good = "{\"Action\":\"activate\"}\n";
    let input = Input { path: "persist/status/baseosmgr/device-actions.jsonl", good, wrong: &[] };
    for (bad, is_usable) in
        [(BadFile::Pipe, false), (BadFile::Link, false), (BadFile::Half, true), (BadFile::Huge, true)]
    {
        let mut device = Device::new();
        input.put_bad(&device, bad);
        let request = device.run_until_requested().await;
        device.report(Some(DrainStatus::Complete));
        if !is_usable {
            device.until_blocked_by("device-actions.jsonl").await;
            device.check_waits(Some(&request));
            input.put_good(&device);
        }
        device.until_released().await;
        let text = fs::read(device.path(input.path)).unwrap();
        let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
        let [.., last, b""] = lines.as_slice() else { panic!("{bad:?}: no whole line") };
        assert!(last.starts_with(br#"{"Action":"activate","Reason":"image 2.0 of controller: "#), "{bad:?}");
        assert!(is_usable || lines.len() == 3, "{bad:?}: one line is new");
        device.stop().await;
    }
}

/// nodeagent's status only names the partition. If the file is bad, the partition has no name.
#[tokio::test]
async fn a_partition_that_cannot_be_read_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activated");
    let command = format!(r#"["sh", "-c", "echo [$EBB_BASEOS_PARTITION] > {}"]"#, file.display());
    let input = Input {
        path: "run/nodeagent/NodeAgentStatus/nodeagent.json",
        good: r#"{"CurPart":"IMGA"}"#,
        wrong: &[r#"{"CurPart":7}"#, r#"{"CurPart":"IMGX; rm -r /"}"#],
    };
    let bad = input.bad().into_iter().map(Some);
    for bad in bad.chain([None]) {
        let mut device = Device::able(&[("baseos.activate", &command)]);
        match bad {
            Some(bad) => input.put_bad(&device, bad),
            None => input.put_good(&device),
        }
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.release().await;
        let expected = if bad.is_none() { "[IMGB]\n" } else { "[]\n" };
        assert_eq!(fs::read_to_string(&file).unwrap(), expected, "{bad:?}");
        device.stop().await;
    }
}
