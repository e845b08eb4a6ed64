//! Words that make no sense to the operator's verbs, and devices that cannot be written to.

use std::os::unix::fs::symlink;

use anyhow::Result;

use crate::device::Device;

const IMAGE: &str = "5c1b5dfa-64cc-4f06-8a5f-1d8e5b8b3c0e";

#[tokio::test]
async fn words_that_make_no_sense_are_exit_code_2() -> Result<()> {
    let device = Device::new()?;
    let long = "x".repeat(501);
    for (words, part) in [
        (vec!["reboot", "now"], "unexpected argument 'now'"),
        (vec!["reboot", "--reason"], "a value is required for '--reason <TEXT>'"),
        (vec!["reboot", "--reason", ""], "accepted: one line of 1 to 500 characters"),
        (vec!["shutdown", "--reason", "two\nlines"], "accepted: one line of 1 to 500 characters"),
        (vec!["poweroff", "--reason", &long], "accepted: one line of 1 to 500 characters"),
        (vec!["reboot", "--cancel=maybe"], "unexpected value 'maybe'"),
        (vec!["reboot", "--json=x"], "unexpected value 'x'"),
        (vec!["cancel", "everything"], "[possible values: poweroff, reboot, shutdown, update]"),
        (vec!["cancel", "--reason", "r"], "<COMMAND>"),
        (vec!["cancel", "reboot", "shutdown"], "invalid value 'shutdown' for '[IMAGE-UUID]'"),
        (vec!["request", "--wait=1"], "unexpected value '1'"),
        (vec!["request", "--reason", "\u{7}"], "accepted: one line"),
        (vec!["update"], "<IMAGE-UUID>"),
        (vec!["update", "image-2"], "invalid value 'image-2' for '<IMAGE-UUID>'"),
        (vec!["update", "../../etc/passwd", "--version", "1"], "invalid value"),
        (vec!["update", IMAGE], "--version <V>"),
        (vec!["update", IMAGE, "--version", ""], "accepted: a version of 1 to 255 characters"),
        (vec!["update", IMAGE, "--version", "1\n2"], "accepted: a version"),
        (vec!["update", IMAGE, "--revert", "--retry"], "cannot be used with"),
        (vec!["update", IMAGE, "--revert", "--version", "1"], "cannot be used with"),
        (vec!["force"], "Usage: ebb force"),
        (vec!["force", "complete"], "--reason <TEXT>"),
        (vec!["force", "complete", "--reason", " "], "accepted: one line"),
        (
            vec!["force", "complete", "--reason", "r", "--for", "zedkube"],
            "[possible values: device-op, baseos]",
        ),
        (vec!["force", "disable", "--reason", "r", "--for", "baseos"], "unexpected argument '--for'"),
        (vec!["force", "delete-pods"], "--reason <TEXT>"),
        (vec!["force", "delete-pods", "--reason", "\n"], "accepted: one line"),
        (vec!["force", "delete-pods", "--reason", "r", "edge-a"], "unexpected argument 'edge-a'"),
        (vec!["slots"], "Usage: ebb slots"),
        (vec!["slots", "release"], "<NODE|--all>"),
        (vec!["slots", "release", "edge-a", "--all"], "cannot be used with"),
        (vec!["slots", "release", "edge-a", "edge-b"], "unexpected argument 'edge-b'"),
        (vec!["slots", "list", "edge-a"], "unexpected argument 'edge-a'"),
        (vec!["config", "set", "a=b"], "unrecognized subcommand 'set'"),
    ] {
        device.refuses(&words, 2, part).await?;
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
