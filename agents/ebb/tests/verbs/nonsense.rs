//! Words that make no sense to the operator's verbs, and devices that cannot be written to.

use std::os::unix::fs::symlink;

use anyhow::Result;

use crate::device::Device;

const IMAGE: &str = "5c1b5dfa-64cc-4f06-8a5f-1d8e5b8b3c0e";

#[tokio::test]
async fn words_that_make_no_sense_are_exit_code_2() -> Result<()> {
    let device = Device::new()?;
    for (words, part) in [
        (&["reboot", "--reason", ""][..], "accepted: one line of 1 to 500 characters"),
        (&["cancel", "everything"], "[possible values: poweroff, reboot, shutdown, update]"),
        (&["cancel", "--reason", "r"], "<COMMAND>"),
        (&["cancel", "reboot", "shutdown"], "invalid value 'shutdown' for '[IMAGE-UUID]'"),
        (&["request", "--reason", "\u{7}"], "accepted: one line"),
        (&["update", "../../etc/passwd", "--version", "1"], "invalid value"),
        (&["update", IMAGE], "--version <V>"),
        (&["update", IMAGE, "--version", ""], "accepted: a version of 1 to 255 bytes"),
        (&["update", IMAGE, "--version", "1\n2"], "accepted: a version"),
        (&["update", IMAGE, "--revert", "--retry"], "cannot be used with"),
        (&["update", IMAGE, "--revert", "--version", "1"], "cannot be used with"),
        (&["force", "complete"], "--reason <TEXT>"),
        (&["force", "complete", "--reason", " "], "accepted: one line"),
        (&["force", "complete", "--reason", "r", "--for", "zedkube"], "[possible values: device-op, baseos]"),
        (&["force", "disable", "--reason", "r", "--for", "baseos"], "unexpected argument '--for'"),
        (&["force", "delete-pods"], "--reason <TEXT>"),
        (&["force", "delete-pods", "--reason", "\n"], "accepted: one line"),
        (&["slots", "release"], "<NODE|--all>"),
        (&["slots", "release", "edge-a", "--all"], "cannot be used with"),
        (&["config"], "Usage: ebb config"),
    ] {
        device.refuses(words, 2, part).await?;
    }
    assert_eq!(std::fs::read_dir(device.root.path())?.count(), 0, "nothing is written");
    Ok(())
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    // Nobody can make a folder below a file, not even root.
    device.write("/run/ebb/DeviceOpsCmd", "")?;
    let said = device.ebb(&["reboot"]).await?;
    let part = device.path("/run/ebb/DeviceOpsCmd").display().to_string();
    assert!(said.code == 1 && said.err.starts_with("error: ") && said.err.contains(&part), "{said:?}");
    std::fs::remove_file(device.path("/run/ebb/DeviceOpsCmd"))?;

    std::fs::create_dir_all(device.path("/run/ebb/lock/ebb"))?;
    symlink("/dev/null", device.path("/run/ebb/lock/ebb/lock"))?;
    device.refuses(&["reboot"], 1, "cannot publish as ebb (are you root?): cannot open ").await?;
    std::fs::remove_file(device.path("/run/ebb/lock/ebb/lock"))?;

    // A command file that is a link is refused, not followed.
    std::fs::create_dir_all(device.path("/run/ebb/DeviceOpsCmd"))?;
    symlink("/etc/passwd", device.path("/run/ebb/DeviceOpsCmd/reboot.json"))?;
    device.refuses(&["reboot"], 1, "a symbolic link").await
}
