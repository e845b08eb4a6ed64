//! Tests of baseos as a whole on real files; the test writes the files of zedkube, volumemgr and nodeagent.

mod bad_input;
mod caution;

use pubsub::{Subscription, TopicKey};
use runtime::testing::{Holder, TestDevice, until};
use schemas::{
    BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceLine, DrainStatus, NodeDrainRequest, Outcome, Source,
    agent, parse,
};

use BaseOsHoldState::{Activated, Deferred, Failed, Idle};

/// UUID of the image in these tests.
pub(crate) const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

/// A device on which baseos runs.
pub(crate) struct Device {
    pub(crate) machine: TestDevice,
    pub(crate) hold: Subscription<BaseOsHold>,
    pub(crate) statuses: Subscription<BaseOsStatus>,
}

impl std::ops::Deref for Device {
    type Target = TestDevice;

    fn deref(&self) -> &TestDevice {
        &self.machine
    }
}

impl std::ops::DerefMut for Device {
    fn deref_mut(&mut self) -> &mut TestDevice {
        &mut self.machine
    }
}

impl Device {
    /// A member of a cluster, without volumemgr, that can activate images. Version 1.0 is running, and baseos runs.
    async fn start(settings: &[(&str, &str)]) -> Self {
        let mut device = Self::able(settings);
        device.run().await;
        device
    }

    /// A member of a cluster, without volumemgr, that can activate images. Version 1.0 is running; baseos does not
    /// run yet.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        let machine = TestDevice::new(agent::BASEOSMGR, settings);
        Self { hold: machine.follow(agent::BASEOSMGR), statuses: machine.follow(agent::BASEOSMGR), machine }
    }

    /// A device that can activate images. Version 1.0 is running; baseos does not run yet. `settings` override the
    /// defaults of the test.
    pub(crate) fn able(settings: &[(&str, &str)]) -> Self {
        let defaults = [("baseos.activate", r#"["true"]"#)];
        let settings: Vec<_> = defaults.into_iter().chain(settings.iter().copied()).collect();
        let device = Self::with(&settings);
        device.write("etc/os-release", "IMAGE_VERSION=1.0\n");
        device
    }

    async fn boot(&mut self, boot_id: &str) {
        self.machine.boot(boot_id).await;
        self.run().await;
    }

    pub(crate) fn want(&self, publisher: &str, counter: u32, activate: bool) {
        let text = format!(
            r#"{{"BaseOsVersion":"2.0","ContentTreeUUID":"{UUID}","RetryUpdateCounter":{counter},"Activate":{activate},"By":"alice","Reason":"fan\u001bswap"}}"#
        );
        self.write(&format!("run/{publisher}/BaseOsConfig/{UUID}.json"), &text);
    }

    pub(crate) async fn until_hold(&mut self, state: BaseOsHoldState) -> BaseOsHold {
        until(&mut self.hold, &TopicKey::global(), |hold| hold.is_some_and(|hold| hold.state == state))
            .await
            .unwrap()
    }

    pub(crate) async fn until_status(&mut self, wanted: impl Fn(&BaseOsStatus) -> bool) -> BaseOsStatus {
        let key = TopicKey::parse(UUID).unwrap();
        until(&mut self.statuses, &key, |status| status.is_some_and(&wanted)).await.unwrap()
    }

    /// Waits for the request, then answers it.
    pub(crate) async fn drain(&mut self, answer: DrainStatus) -> NodeDrainRequest {
        let request = self.until_requested().await;
        self.report(Some(answer));
        request
    }
}

impl Holder for Device {
    type Status = BaseOsHold;

    /// [`Device::able`] in a dry run, because with a paused clock a command's time would be over before it begins.
    fn new() -> Self {
        Self::able(&[("baseos.dry-run", "true")])
    }

    async fn run(&mut self) {
        self.machine.run(|context, stop| async { Box::pin(super::run(context, stop)).await.unwrap() }).await;
    }

    fn command(&self, counter: u32) {
        self.want(agent::CONTROLLER, counter, true);
    }

    fn take_back(&self) {
        self.want(agent::CONTROLLER, 1, false);
    }

    fn blocked_by(hold: &BaseOsHold) -> &str {
        &hold.blocked_by
    }

    fn has_released(&self) -> bool {
        let hold: Option<BaseOsHold> = self.item(agent::BASEOSMGR);
        hold.is_some_and(|hold| matches!(hold.state, BaseOsHoldState::Activating | Activated))
    }

    async fn until_released(&mut self) {
        self.until_hold(Activated).await;
    }
}

#[tokio::test]
async fn from_the_configuration_to_the_next_boot() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activated");
    let command = format!(
        r#"["sh", "-c", "echo $EBB_BASEOS_ID $EBB_BASEOS_VERSION [$EBB_BASEOS_PARTITION] >> {}"]"#,
        file.display()
    );
    let mut device = Device::start(&[("baseos.activate", &command)]).await;
    device.want(agent::CONTROLLER, 1, true);
    let held = device.until_hold(Deferred).await;
    assert_eq!(held.content_tree_uuid, UUID);
    let request = device.drain(DrainStatus::Complete).await;
    assert_eq!((request.context.as_str(), request.requested_by.code()), (UUID, 3));
    device.until_hold(Activated).await;
    device.until_status(|status| status.activated && status.partition_state == "updating").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{UUID} 2.0 []\n"));
    device.stop().await;
    device.run().await;
    device.until_hold(Activated).await;

    device.write("etc/os-release", "IMAGE_VERSION=2.0\n");
    device.boot("boot-2").await;
    device.until_status(|status| status.activated && status.partition_state == "active").await;
    device.want(agent::CONTROLLER, 1, true);
    device.until_hold(Idle).await;
    device.stop().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1, "activated once");
}

#[tokio::test]
async fn a_failed_activation_is_told_and_withdraws_the_request() {
    let command = r#"["sh", "-c", "echo no space >&2; exit 3"]"#;
    let mut device = Device::start(&[("baseos.activate", command)]).await;
    device.want(agent::ZEDAGENT, 1, true);
    device.drain(DrainStatus::Complete).await;
    let status = device.until_status(|status| !status.error.is_empty()).await;
    assert!(status.error.contains("exit status: 3: no space"), "{}", status.error);
    device.until_hold(Failed).await;
    device.until_withdrawn().await;
    device.want(agent::ZEDAGENT, 2, true);
    device.drain(DrainStatus::Complete).await;
    device.stop().await;
}

#[tokio::test]
async fn a_dry_run_writes_one_line_and_leaves_the_status_alone() {
    let mut device = Device::start(&[("baseos.dry-run", "true"), ("baseos.activate", r#"["false"]"#)]).await;
    device.want(agent::EBB, 5, true);
    device.until_requested().await;
    let mut report = device.answered(Some(DrainStatus::Complete));
    let line = report.requests.first_mut().unwrap();
    (line.outcome, line.by) = (Some(Outcome::Forced), "bob: store closed".to_owned());
    device.publish(agent::ZEDKUBE, &report);
    device.until_hold(Activated).await;
    device.stop().await;
    device.run().await;
    device.until_hold(Activated).await;
    device.until_status(|status| !status.activated).await;
    device.stop().await;
    let text = std::fs::read_to_string(device.path("persist/status/baseosmgr/device-actions.jsonl")).unwrap();
    let lines: Vec<DeviceLine> = text.lines().map(|line| parse(line.as_bytes()).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    let line = &lines[0];
    assert_eq!((line.action.as_str(), line.counter, line.content_tree_uuid.as_str()), ("activate", 5, UUID));
    assert_eq!((line.boot_id.as_str(), line.source), ("boot-1", Source::Person));
    let (begin, end) =
        ("image 2.0 of person: NOT DRAINED: ", " (bob: store closed); commanded by alice (fan swap)");
    assert!(line.reason.starts_with(begin) && line.reason.ends_with(end), "{}", line.reason);
}

/// A disk that accepts no writes while the command runs does not hold the device up once the command has ended: BaseOsHold
/// says so although the result cannot be recorded. The result is not lost.
#[tokio::test]
async fn an_end_on_a_disk_that_takes_nothing_lets_the_device_go() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, end) = (folder.path().join("begun"), folder.path().join("end"));
    let script = format!("touch {}; until [ -e {} ]; do sleep 0.01; done", begun.display(), end.display());
    let command = format!(r#"["sh", "-c", "{script}"]"#);
    let mut device = Device::start(&[("baseos.activate", &command)]).await;
    device.want(agent::CONTROLLER, 1, true);
    device.drain(DrainStatus::Complete).await;
    while !begun.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let records = device.path("persist/status/baseosmgr/ActivationRecord");
    std::fs::remove_dir_all(&records).unwrap();
    device.write("persist/status/baseosmgr/ActivationRecord", "in the way");
    std::fs::File::create(&end).unwrap();
    let hold = device.until_blocked_by("cannot publish ActivationRecord").await;
    assert_eq!(hold.state, Deferred);

    std::fs::remove_file(&records).unwrap();
    device.until_hold(Activated).await;
    device.stop().await;
}

/// If `/persist` cannot be used when baseos starts, baseos runs all the same, accepts no image and says why. Once it can
/// be used, baseos goes on from what is recorded there.
#[tokio::test]
async fn a_start_on_a_disk_that_takes_nothing_is_survived() {
    let mut device = Device::able(&[]);
    device.write("persist/status/baseosmgr", "in the way");
    device.run().await;
    device.want(agent::CONTROLLER, 1, true);
    let hold = device.until_blocked_by("cannot publish ActivationRecord").await;
    assert_eq!(hold.state, Deferred);
    std::fs::remove_file(device.path("persist/status/baseosmgr")).unwrap();
    device.drain(DrainStatus::Complete).await;
    device.until_hold(Activated).await;
    device.stop().await;
}

/// baseos is killed while its command writes. The command runs in a session of its own, so that the end of this test's
/// baseos leaves it alone, as the end of a killed process does.
#[tokio::test]
async fn the_next_baseos_waits_for_a_command_that_was_left_running() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, end) = (folder.path().join("begun"), folder.path().join("end"));
    let script =
        format!("echo begun >> {}; until [ -e {} ]; do sleep 0.01; done", begun.display(), end.display());
    let command = format!(r#"["setsid", "--wait", "sh", "-c", "{script}"]"#);
    let mut device = Device::start(&[("baseos.activate", &command)]).await;
    device.want(agent::CONTROLLER, 1, true);
    device.drain(DrainStatus::Complete).await;
    let starts = || std::fs::read_to_string(&begun).unwrap_or_default().lines().count();
    device.until_hold(BaseOsHoldState::Activating).await;
    while starts() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }

    device.kill().await;
    device.run().await;
    let speaks = |hold: Option<&BaseOsHold>| hold.is_some_and(|hold| !hold.blocked_by.is_empty());
    let hold = until(&mut device.hold, &TopicKey::global(), speaks).await.unwrap();
    assert!(hold.blocked_by.starts_with("a command of an earlier baseos runs"), "{hold:?}");
    assert_eq!((hold.state, starts()), (BaseOsHoldState::Activating, 1));
    std::fs::File::create(&end).unwrap();
    let hold = device.until_hold(Failed).await;
    assert!(hold.blocked_by.starts_with("interrupted"), "{hold:?}");
    assert_eq!(starts(), 1, "one writer");
}
