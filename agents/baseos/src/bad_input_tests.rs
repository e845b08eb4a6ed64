//! Every file that baseos reads, bad in every possible way. Nothing panics, no image is activated, the last good
//! value stays in effect, the refusal is displayed, and a good file ends it.

use std::fs;
use std::time::Duration;

use pubsub::TopicKey;
use runtime::testing::{
    BadFile, CapturedLog, DEVICE_ACTION, GATE_INPUTS, Input, TOO_LONG, WRONG_ACTIONS, WRONG_REQUESTS, until,
};
use schemas::{BaseOsHold, BaseOsHoldState, DrainStatus, NodeDrainRequest, agent, to_bytes};

use crate::tests::{Device, UUID};

use BaseOsHoldState::{Activated, Deferred, Idle};

/// The version of the image to activate.
fn good_config() -> String {
    format!(r#"{{"BaseOsVersion":"2.0","ContentTreeUUID":"{UUID}","RetryUpdateCounter":1,"Activate":true}}"#)
}

impl Device {
    /// A device in a dry run, because with a paused clock a command's time would be over before it begins.
    fn rehearsing(settings: &[(&str, &str)]) -> Self {
        let settings: Vec<_> =
            [("baseos.dry-run", "true")].into_iter().chain(settings.iter().copied()).collect();
        Self::able(&settings)
    }

    async fn until_blocked_by_nothing(&mut self, path: &str) {
        let is_gone = |hold: Option<&BaseOsHold>| hold.is_some_and(|hold| !hold.blocked_by.contains(path));
        until(&mut self.hold, &TopicKey::global(), is_gone).await;
    }

    async fn until_requested(&mut self) -> NodeDrainRequest {
        until(&mut self.request, &TopicKey::global(), |request| request.is_some()).await.unwrap()
    }

    /// No image was released, and baseos still runs.
    #[track_caller]
    fn check_nothing_happens(&self, why: impl std::fmt::Debug) {
        assert!(self.is_running(), "{why:?}: it has ended");
        let hold: Option<BaseOsHold> = self.item(agent::BASEOSMGR);
        let is_let_go =
            hold.is_some_and(|hold| matches!(hold.state, BaseOsHoldState::Activating | Activated));
        assert!(!is_let_go, "{why:?}");
        assert!(!self.path("activated").exists(), "{why:?}");
    }

    fn request_now(&self) -> Option<NodeDrainRequest> {
        self.item(agent::BASEOSMGR)
    }

    /// zedkube answers COMPLETE, and the image is activated.
    async fn goes_on(&mut self, why: impl std::fmt::Debug) {
        self.until_requested().await;
        self.check_nothing_happens(why);
        self.report(Some(DrainStatus::Complete));
        self.until_hold(Activated).await;
    }
}

/// The ways to make a file bad without removing it first. A folder cannot replace a file in one step, and a missing
/// file has a meaning of its own.
fn in_place<'a>(input: &Input<'a>) -> impl Iterator<Item = BadFile<'a>> {
    input.bad().into_iter().filter(|bad| *bad != BadFile::Folder)
}

const WRONG_CONFIGS: [&str; 5] = [
    r#"{"BaseOsVersion":2,"Activate":true}"#,
    r#"{"BaseOsVersion":"2.0","Activate":"true"}"#,
    r#"{"BaseOsVersion":"2.0","Activate":1}"#,
    r#"{"BaseOsVersion":"2.0","Activate":true,"RetryUpdateCounter":-1}"#,
    r#"{"BaseOsVersion":"2.0","Activate":true,"RetryUpdateCounter":4294967296}"#,
];

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_bad_from_the_start() {
    let good = good_config();
    for publisher in [agent::ZEDAGENT, agent::CONTROLLER] {
        let path = format!("run/{publisher}/BaseOsConfig/{UUID}.json");
        let input = Input { path: &path, good: &good, wrong: &WRONG_CONFIGS };
        for bad in input.bad() {
            let mut device = Device::rehearsing(&[]);
            input.put_bad(&device, bad);
            device.run().await;
            device.until_blocked_by(&path).await;
            device.check_nothing_happens(bad);
            assert_eq!(device.request_now(), None, "{bad:?}");
            input.put_good(&device);
            device.until_blocked_by_nothing(&path).await;
            device.goes_on(bad).await;
            device.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_image_stands_while_its_configuration_is_bad() {
    let (path, good) = (format!("run/{}/BaseOsConfig/{UUID}.json", agent::CONTROLLER), good_config());
    let input = Input { path: &path, good: &good, wrong: &WRONG_CONFIGS };
    let mut device = Device::rehearsing(&[]);
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
    device.goes_on("all").await;
    device.stop().await;
}

/// A configuration with bad contents is refused by name, with the limit, and does not delay other images.
#[tokio::test(start_paused = true)]
async fn a_version_or_an_id_that_is_too_long_is_refused() {
    let long = "9".repeat(900_000);
    let long_key = "k".repeat(200);
    let quiet = r#""Activate":true,"RetryUpdateCounter":1"#;
    for (key, version, reason) in [
        ("bad", long.as_str(), "BaseOsVersion has 900000 bytes; accepted: at most 256 bytes"),
        ("bad", "2\\u001b[31m", "BaseOsVersion holds control characters; accepted: plain text"),
        (long_key.as_str(), "2.0", "ContentTreeUUID has 200 bytes; accepted: at most 128 bytes"),
    ] {
        let log = CapturedLog::begin();
        let mut device = Device::rehearsing(&[]);
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
        device.goes_on(reason).await;
        device.want(agent::CONTROLLER, 1, false);
        device.until_hold(Idle).await;
        device.until_blocked_by(reason).await;
        fs::remove_file(device.path(&path)).unwrap();
        device.until_blocked_by_nothing(reason).await;
        until(&mut device.statuses, &key, |status| status.is_none()).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_cannot_be_read_is_as_it_was() {
    let path = format!("run/volumemgr/ContentTreeStatus/{UUID}.json");
    let input = Input {
        path: &path,
        good: r#"{"State":108}"#,
        wrong: &[r#"{"State":256}"#, r#"{"State":"LOADED"}"#, r#"{"State":108,"Error":[]}"#],
    };
    for bad in input.bad() {
        let mut device = Device::rehearsing(&[]);
        input.put_bad(&device, bad);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_blocked_by(&path).await;
        device.until_status(|status| status.error.contains(&path)).await;
        device.check_nothing_happens(bad);
        assert_eq!(device.request_now(), None, "{bad:?}: it was never loaded");
        input.put_good(&device);
        let request = device.until_requested().await;
        device.until_status(|status| status.error.is_empty()).await;
        if bad != BadFile::Folder {
            input.put_bad(&device, bad);
            device.until_status(|status| status.error.contains(&path) && status.state.0 == 108).await;
            assert_eq!(device.request_now(), Some(request), "{bad:?}: loaded it was");
        }
        device.goes_on(bad).await;
        device.stop().await;
    }
}

/// A broken link in place of the topic's folder does not count as a missing folder.
#[tokio::test(start_paused = true)]
async fn a_topic_of_contents_that_leads_nowhere_is_there() {
    let input = Input { path: "run/volumemgr/ContentTreeStatus", good: "a file", wrong: &[] };
    for bad in [BadFile::DanglingLink, BadFile::Empty, BadFile::Pipe] {
        let mut device = Device::rehearsing(&[]);
        input.put_bad(&device, bad);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_status(|status| status.state.0 == 100).await;
        device.check_nothing_happens(bad);
        assert_eq!(device.request_now(), None, "{bad:?}");
        fs::remove_file(device.path(input.path)).unwrap();
        device.goes_on(bad).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_nodeagent_cannot_be_read_nothing_is_begun_or_withdrawn() {
    let input = Input { path: DEVICE_ACTION, good: r#"{"State":"Idle"}"#, wrong: &WRONG_ACTIONS };
    for bad in input.bad() {
        let mut device = Device::rehearsing(&[]);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        let request = device.until_requested().await;
        input.put_bad(&device, bad);
        device.until_blocked_by(input.path).await;
        device.report(Some(DrainStatus::Complete));
        device.until_blocked_by("nodeagent is about to take the device down").await;
        device.check_nothing_happens(bad);
        device.want(agent::CONTROLLER, 1, false);
        device.until_blocked_by("reverted: waiting for nodeagent").await;
        assert_eq!(device.request_now().as_ref(), Some(&request), "{bad:?}: who knows what it is doing");
        input.put_good(&device);
        device.until_withdrawn().await;
        device.want(agent::CONTROLLER, 1, true);
        device.goes_on(bad).await;
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_none() {
    for (path, wrong) in GATE_INPUTS {
        let mut device = Device::rehearsing(&[]);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
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
        device.goes_on(path).await;
        device.stop().await;
    }
}

const REQUEST: &str = "run/baseosmgr/NodeDrainRequest/global.json";

#[tokio::test(start_paused = true)]
async fn a_request_that_is_spoilt_is_made_again() {
    let input = Input { path: REQUEST, good: "{}", wrong: &WRONG_REQUESTS };
    for bad in input.bad() {
        let mut device = Device::rehearsing(&[]);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_requested().await;
        input.put_bad(&device, bad);
        if bad == BadFile::Folder {
            device.until_blocked_by("cannot publish NodeDrainRequest").await;
            fs::remove_dir(device.path(REQUEST)).unwrap();
        }
        let made_again = async {
            while device.request_now().is_none_or(|request| request.context != UUID) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(TOO_LONG, made_again).await.expect("made again");
        device.goes_on(bad).await;
        device.stop().await;
    }
}

/// baseos's own files, found bad at its start.
#[tokio::test(start_paused = true)]
async fn files_of_its_own_that_are_bad_at_the_start() {
    let status = format!("run/baseosmgr/BaseOsStatus/{UUID}.json");
    let inputs: [(&str, &[&str]); 3] = [
        (
            "persist/status/baseosmgr/ActivationRecord/global.json",
            &[
                r#"{"Images":[{"Stage":"Unknown"}]}"#,
                r#"{"Images":[{"Starts":-1}]}"#,
                r#"{"Current":7}"#,
                r#"{"Failed":{"AtMs":"now"}}"#,
            ],
        ),
        ("run/baseosmgr/BaseOsHold/global.json", &[r#"{"State":"Gone"}"#, r#"{"State":4}"#]),
        (&status, &[r#"{"State":300}"#, r#"{"Activated":1,"PartitionState":"updating"}"#]),
    ];
    for (path, wrong) in inputs {
        let input = Input { path, good: "{}", wrong };
        for bad in input.bad() {
            let log = CapturedLog::begin();
            let mut device = Device::rehearsing(&[]);
            input.put_bad(&device, bad);
            device.run().await;
            device.want(agent::CONTROLLER, 1, true);
            log.until(path).await;
            if bad == BadFile::Folder {
                log.until("cannot publish").await;
                device.check_nothing_happens((path, bad));
                fs::remove_dir(device.path(path)).unwrap();
            }
            device.goes_on((path, bad)).await;
            device.stop().await;
        }
    }
}

/// Valid JSON of the right types with values that make no sense: no image is activated or booted without the gate.
#[tokio::test(start_paused = true)]
async fn files_that_somebody_made_up_let_nothing_go() {
    let config = |version: &str| {
        format!(
            r#"{{"BaseOsVersion":"{version}","ContentTreeUUID":"{UUID}","RetryUpdateCounter":1,"Activate":true}}"#
        )
    };
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
        let mut device = Device::rehearsing(&[]);
        let record = format!(r#"{{"SchemaVersion":1,"BootId":"boot-1",{rest}}}"#);
        device.write("persist/status/baseosmgr/ActivationRecord/global.json", &record);
        let hold = format!(r#"{{"ContentTreeUUID":"{UUID}","State":"Activated","Release":"{long}"}}"#);
        device.write("run/baseosmgr/BaseOsHold/global.json", &hold);
        let status =
            format!(r#"{{"ContentTreeUUID":"{UUID}","Activated":true,"PartitionState":"updating"}}"#);
        device.write(&format!("run/baseosmgr/BaseOsStatus/{UUID}.json"), &status);
        device.want(agent::CONTROLLER, 1, true);
        device.run().await;
        device.until_hold(Deferred).await;
        device.goes_on(rest.get(..60)).await;
        device.stop().await;
    }
}

/// The file of `baseos.current`: until it is good, the running version is not known and nothing is decided.
#[tokio::test(start_paused = true)]
async fn a_running_version_that_cannot_be_read_is_asked_for_again() {
    let long = "9".repeat(300);
    let input = Input { path: "etc/version", good: "1.0\n", wrong: &["\n2.0", "\u{1b}[31m2.0", &long] };
    for bad in input.bad() {
        // A link is allowed (`/etc/os-release` is one), and so is any text and any owner.
        let is_read = match bad {
            BadFile::Text(text) => !input.wrong.contains(&text),
            BadFile::NotUtf8
            | BadFile::Half
            | BadFile::Deep
            | BadFile::Huge
            | BadFile::Link
            | BadFile::WritableByAll
            | BadFile::Foreign => true,
            BadFile::Empty | BadFile::Folder | BadFile::Pipe | BadFile::DanglingLink => false,
        };
        if is_read && bad != BadFile::Link {
            continue;
        }
        let log = CapturedLog::begin();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("version");
        let mut device = Device::rehearsing(&[("baseos.current", &file.display().to_string())]);
        input.put_bad(&device, bad);
        std::os::unix::fs::symlink(device.path(input.path), &file).unwrap();
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        if is_read {
            log.until("version 1.0 is running").await;
        } else {
            log.until("cannot tell which version is running").await;
            device.check_nothing_happens(bad);
            assert_eq!(device.request_now(), None, "{bad:?}");
        }
        device.stop().await;
        input.put_good(&device);
        device.run().await;
        device.goes_on(bad).await;
        device.stop().await;
    }
}

/// The file for lines of dry runs: if it cannot be read, it is not known whether a line exists.
#[tokio::test(start_paused = true)]
async fn a_file_of_lines_that_cannot_be_used_stops_the_dry_run_and_is_told() {
    let input = Input { path: "persist/status/baseosmgr/device-actions.jsonl", good: "", wrong: &[] };
    for bad in [BadFile::Folder, BadFile::Pipe, BadFile::Link, BadFile::DanglingLink] {
        let mut device = Device::rehearsing(&[]);
        input.put_bad(&device, bad);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_requested().await;
        device.report(Some(DrainStatus::Complete));
        device.until_blocked_by("device-actions.jsonl").await;
        device.check_nothing_happens(bad);
        input.put_good(&device);
        device.until_hold(Activated).await;
        assert_eq!(device.read(input.path).lines().count(), 1, "{bad:?}");
        device.stop().await;
    }
    // The line is appended, whatever the file holds.
    let input = Input { good: "{\"Action\":\"activate\"}\n", ..input };
    for bad in [BadFile::Empty, BadFile::Half, BadFile::NotUtf8, BadFile::Deep, BadFile::Huge] {
        let mut device = Device::rehearsing(&[]);
        input.put_bad(&device, bad);
        device.run().await;
        device.want(agent::CONTROLLER, 1, true);
        device.until_requested().await;
        device.report(Some(DrainStatus::Complete));
        device.until_hold(Activated).await;
        let lines = fs::read(device.path(input.path)).unwrap();
        let last = lines.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
        assert!(last.starts_with(br#"{"Action":"activate","Reason":"image 2.0""#), "{bad:?}");
        device.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_bad_change_nothing() {
    let input = Input {
        path: "etc/ebb/ebb.toml",
        good: "baseos.timeout = \"7m\"",
        wrong: &[
            "baseos.timeout = 7",
            "baseos.dry-run = \"perhaps\"",
            "baseos.activate = \"sh\"",
            "baseos = [",
        ],
    };
    for bad in input.bad().into_iter().filter(|bad| *bad != BadFile::Empty) {
        let log = CapturedLog::begin();
        let mut device = Device::rehearsing(&[]);
        device.run().await;
        device.until_hold(Idle).await;
        input.put_bad(&device, bad);
        log.until("ebb.toml").await;
        device.check_nothing_happens(bad);
        input.put_good(&device);
        log.until("baseos.timeout = 7m").await;
        device.want(agent::CONTROLLER, 1, true);
        device.goes_on(bad).await;
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
        device.goes_on(bad).await;
        let expected = if bad.is_none() { "[IMGB]\n" } else { "[]\n" };
        assert_eq!(fs::read_to_string(&file).unwrap(), expected, "{bad:?}");
        device.stop().await;
    }
}
