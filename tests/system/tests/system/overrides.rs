//! An operator's orders against a drain that does not end.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use anyhow::Result;
use schemas::{DrainStatus, Operation, Outcome};
use system::Device;

use crate::PROGRAM;
use crate::blocked::{blocked_site, until_blocked};

const FILE: &str = "/persist/kube-status/force-NodeDrainStatus-global.json";

/// Writes an override file as a person would.
fn echo(device: &Device, text: &str) -> Result<()> {
    use std::io::Write;
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(device.path(FILE))?;
    Ok(writeln!(file, "{text}")?)
}

pub(crate) fn ebb(device: &Device, words: &[&str]) -> Result<(i32, String)> {
    let root = device.path("/").display().to_string();
    let said = Command::new(PROGRAM).args(words).args(["--root", &root]).output()?;
    let text = [said.stdout, said.stderr].concat();
    Ok((said.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned()))
}

fn until_rebooted(device: &Device) -> Result<()> {
    device.until("the reboot is recorded", || Ok(device.actions()?.into_iter().next().map(|_| ())))
}

#[test]
fn a_file_forces_the_reboot_and_the_report_says_what_was_left() -> Result<()> {
    let (cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    echo(&device, "{\"Status\":9,\"RequestedBy\":2}")?;
    until_rebooted(&device)?;
    assert!(!device.path(FILE).exists() && device.path(&format!("{FILE}.applied")).exists());
    device.until("the report lists what is left", || {
        let left = |report: &schemas::NodeDrainReport| {
            report.pods.iter().filter(|pod| pod.stage == "LeftBehind").count()
        };
        Ok(device.report().filter(|report| left(report) == 3))
    })?;
    assert_eq!(device.report().and_then(|report| report.outcome), Some(Outcome::Forced));
    assert_eq!(cluster.pods_on("edge-a").len(), 3);
    Ok(())
}

#[test]
fn d27_the_verb_forces_at_once_and_says_so() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let (code, text) =
        ebb(&device, &["force", "complete", "--for", "device-op", "--reason", "store closed"])?;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("device-op's request is answered COMPLETE: this node is NOT drained"), "{text}");
    until_rebooted(&device)
}

#[test]
fn with_zedkube_dead_the_verb_takes_its_place_for_one_step() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    device.kill("zedkube");
    let (code, text) = ebb(&device, &["force", "complete", "--reason", "zedkube hangs"])?;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("NOT drained"), "{text}");
    until_rebooted(&device)?;
    // The next zedkube knows that the answer was forced.
    device.start("zedkube")?;
    device.until("zedkube goes on from the record", || {
        Ok(device.report().filter(|report| report.outcome == Some(Outcome::Forced)))
    })?;
    assert_eq!(device.actions()?.len(), 1);
    Ok(())
}

#[test]
fn a_file_from_before_the_boot_is_refused() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.kill("zedkube");
    fs::remove_dir_all(device.path("/run/zedkube"))?;
    echo(&device, "{\"Status\":9,\"RequestedBy\":2}")?;
    device.start("zedkube")?;
    device.until("the file is refused", || {
        Ok(device.path(&format!("{FILE}.refused")).exists().then_some(()))
    })?;
    device.until("the report says so", || {
        let is_named = |report: &schemas::NodeDrainReport| {
            report.refused.iter().any(|line| line.reason.contains("left over"))
        };
        Ok(device.report().filter(is_named))
    })?;
    Ok(())
}

#[test]
fn d30_disable_lets_operations_go_until_the_next_boot_or_enable() -> Result<()> {
    let (_cluster, mut device, _folder) = blocked_site()?;
    device.command(Operation::Reboot, 1)?;
    until_blocked(&device)?;
    let (code, text) = ebb(&device, &["force", "disable", "--reason", "site is being moved"])?;
    assert_eq!(code, 0, "{text}");
    until_rebooted(&device)?;
    device.until_status(DrainStatus::NotSupported)?;
    // Drains stay switched off in this boot after zedkube was killed.
    device.kill("zedkube");
    device.start("zedkube")?;
    device.until("it is still switched off", || {
        Ok(device
            .report()
            .filter(|report| report.disabled.is_some() && device.status() == DrainStatus::NotSupported))
    })?;
    let (code, text) = ebb(&device, &["force", "enable", "--reason", "moved"])?;
    assert_eq!(code, 0, "{text}");
    device.until("drains are on", || Ok(device.report().filter(|report| report.disabled.is_none())))?;
    Ok(())
}

/// Two orders within a few milliseconds, in both orders: in the end the later one is in force, whatever zedkube was
/// doing.
#[test]
fn orders_back_to_back_all_count() -> Result<()> {
    const ROUNDS: u64 = 30;
    let (_cluster, device, _folder) = blocked_site()?;
    for round in 0..ROUNDS {
        for (first, second, is_disabled) in [(1, 2, false), (2, 1, true)] {
            echo(&device, &format!("{{\"Status\":{first},\"RequestedBy\":1}}"))?;
            #[expect(clippy::disallowed_methods, reason = "the gap between two orders is what is tried out")]
            std::thread::sleep(std::time::Duration::from_micros(500 * round));
            echo(&device, &format!("{{\"Status\":{second},\"RequestedBy\":1}}"))?;
            device.until(&format!("the later order holds (round {round}, {first} then {second})"), || {
                let is_so = device.report().is_some_and(|report| report.disabled.is_some() == is_disabled);
                Ok((is_so && !device.path(FILE).exists()).then_some(()))
            })?;
        }
    }
    Ok(())
}
