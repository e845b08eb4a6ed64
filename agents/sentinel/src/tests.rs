//! The sentinel as a whole on real files and with real programs.

use std::os::unix::fs::{PermissionsExt, symlink};

use pubsub::Subscription;
use runtime::testing::{TestDevice, until};
use schemas::agent;

use super::*;

const PATH: &str = "run/reboot-required";
const COMMAND: &str = "run/sentinel/DeviceOpsCmd/reboot.json";

struct Device {
    machine: TestDevice,
    status: Subscription<SentinelStatus>,
    commands: Subscription<DeviceOpsCmd>,
}

impl std::ops::Deref for Device {
    type Target = TestDevice;

    fn deref(&self) -> &TestDevice {
        &self.machine
    }
}

impl Device {
    /// A device on which the sentinel does not run yet.
    fn with(settings: &[(&str, &str)]) -> Self {
        let machine = TestDevice::new(agent::SENTINEL, settings);
        let (status, commands) = (machine.follow(agent::SENTINEL), machine.follow(agent::SENTINEL));
        Self { machine, status, commands }
    }

    fn of_file() -> Self {
        Self::with(&[("sentinel.path", "/run/reboot-required")])
    }

    async fn run(&mut self) {
        self.machine.run(|context, stop| async { Box::pin(super::run(context, stop)).await.unwrap() }).await;
    }

    async fn boot(&mut self, boot_id: &str) {
        self.machine.boot(boot_id).await;
        self.run().await;
    }

    async fn until(&mut self, state: SentinelState) -> SentinelStatus {
        let is_so = |status: Option<&SentinelStatus>| status.is_some_and(|status| status.state == state);
        until(&mut self.status, &TopicKey::global(), is_so).await.unwrap()
    }

    /// Waits for the command as it is wanted or taken back.
    async fn until_command(&mut self, is_wanted: bool) -> DeviceOpsCmd {
        let is_so = |command: Option<&DeviceOpsCmd>| {
            command.is_some_and(|command| command.desired_state == is_wanted)
        };
        until(&mut self.commands, &TopicKey::of_operation(Operation::Reboot), is_so).await.unwrap()
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.path(path)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_stands_commands_one_reboot_for_each_boot() {
    let mut device = Device::of_file();
    device.run().await;
    assert_eq!(device.until(SentinelState::NotNeeded).await.reason, "");
    assert!(!device.path(COMMAND).exists(), "nothing is commanded, nothing has to be taken back");

    device.write(PATH, "*** System restart required ***\n");
    device.write("run/reboot-required.pkgs", "linux-image-6.12\nlibc6\n");
    let status = device.until(SentinelState::Commanded).await;
    assert_eq!(status.reason, "reboot-required: libc6, linux-image-6.12");
    let given = device.until_command(true).await;
    // `printf boot-1 | sha256sum`, its first eight digits.
    assert_eq!((given.counter, given.reason.as_str()), (0xb6f5_47b6, status.reason.as_str()));

    // A restart of the agent changes nothing.
    device.machine.stop().await;
    device.run().await;
    device.until(SentinelState::Commanded).await;
    assert_eq!(device.until_command(true).await, given);

    device.remove(PATH);
    device.until(SentinelState::NotNeeded).await;
    assert_eq!(device.until_command(false).await.counter, given.counter);
    device.write(PATH, "again");
    device.until(SentinelState::TakenBack).await;
    assert_eq!(device.until_command(false).await.counter, given.counter);

    // It did not ask for a while, so it counts after the boot, over which the file stays.
    device.boot("boot-2").await;
    device.until(SentinelState::Commanded).await;
    assert_ne!(device.until_command(true).await.counter, given.counter);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_its_reboot_does_not_remove_commands_nothing_more() {
    let mut device = Device::of_file();
    device.write(PATH, "for ever");
    device.run().await;
    device.until(SentinelState::Commanded).await;
    device.until_command(true).await;

    device.boot("boot-2").await;
    assert_eq!(device.until(SentinelState::StillAsks).await.reason, "reboot-required: for ever");
    assert!(!device.path(COMMAND).exists());
    // It asks for something else.
    device.write(PATH, "a new kernel");
    let key = TopicKey::of_operation(Operation::Reboot);
    let asks = "reboot-required: a new kernel";
    let is_so = |command: Option<&DeviceOpsCmd>| command.is_some_and(|command| command.reason == asks);
    assert!(until(&mut device.commands, &key, is_so).await.is_some_and(|command| command.desired_state));
}

/// `/run` stays over a soft reboot, and the command of the boot before with it.
#[tokio::test(start_paused = true)]
async fn a_command_of_another_boot_is_removed() {
    let mut device = Device::of_file();
    device.write(COMMAND, r#"{"Counter":7,"DesiredState":true}"#);
    device.run().await;
    device.until(SentinelState::NotNeeded).await;
    assert!(!device.path(COMMAND).exists());
    device.machine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_trusted_says_nothing_and_takes_nothing_back() {
    let mut device = Device::of_file();
    let path = device.path(PATH);
    device.write(PATH, "fine");
    device.run().await;
    let given = device.until_command(true).await;
    for (bad, why) in [
        ("writable by all", "writable by"),
        ("a link", "a symbolic link"),
        ("a folder", "a folder"),
        ("a pipe", "a pipe"),
        ("much", "65536"),
    ] {
        device.remove(PATH);
        match bad {
            "writable by all" => {
                device.write(PATH, "evil");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
            }
            "a link" => symlink("elsewhere", &path).unwrap(),
            "a folder" => std::fs::create_dir(&path).unwrap(),
            "a pipe" => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            _ => device.write(PATH, &"x".repeat(70_000)),
        }
        let is_so = |status: Option<&SentinelStatus>| {
            status.is_some_and(|status| status.state == SentinelState::Unknown && status.reason.contains(why))
        };
        until(&mut device.status, &TopicKey::global(), is_so).await;
        assert_eq!(device.until_command(true).await, given, "{bad}");
        if bad == "a folder" {
            std::fs::remove_dir(&path).unwrap();
            device.write(PATH, "fine");
        }
    }
}

/// Without a record it would reboot again after each boot.
#[tokio::test(start_paused = true)]
async fn without_a_record_nothing_is_commanded() {
    let mut device = Device::of_file();
    device.write("persist/status/sentinel", "no folder");
    device.write(PATH, "fine");
    device.run().await;
    assert!(device.until(SentinelState::Unknown).await.reason.contains("no reboot is commanded"));
    assert!(!device.path(COMMAND).exists());
    device.remove("persist/status/sentinel");
    device.until_command(true).await;

    // To take it back needs no record.
    std::fs::rename(device.path("persist/status/sentinel"), device.path("persist/aside")).unwrap();
    device.write("persist/status/sentinel", "no folder");
    device.remove(PATH);
    device.until_command(false).await;
}

#[tokio::test]
async fn a_program_asks_by_its_exit_code() {
    for (script, exit, state, reason) in [
        ("exit 1", "1", SentinelState::Commanded, "sh: exit code 1"),
        ("exit 1", "0", SentinelState::NotNeeded, ""),
        ("exit 7", "0", SentinelState::Unknown, "sh: exit code 7 says neither"),
        ("kill -9 $$", "0", SentinelState::Unknown, "sh: signal: 9 (SIGKILL)"),
    ] {
        let command = format!(r#"["sh", "-c", "{script}"]"#);
        let mut device = Device::with(&[("sentinel.command", &command), ("sentinel.exit", exit)]);
        device.run().await;
        let is_so = |status: Option<&SentinelStatus>| {
            status.is_some_and(|status| (status.state, status.reason.as_str()) == (state, reason))
        };
        until(&mut device.status, &TopicKey::global(), is_so).await;
        device.machine.stop().await;
    }
}
