//! `ebb reboot`, `ebb shutdown`, `ebb poweroff` with a real device-op. There is no zedkube, so every command is held
//! back for 10 minutes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use pubsub::AgentLock;
use runtime::peers;
use schemas::{
    AuditLine, CommandFreeze, CommandState, DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus,
    DeviceOpsCmd, HeldBy, Member, NodeDrainReport, Operation, Source, agent, parse,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::device::Device;

fn commanded(device: &Device, operation: Operation) -> Option<(u32, bool)> {
    let command: DeviceOpsCmd = device.item(agent::EBB, operation.name())?;
    Some((command.counter, command.desired_state))
}

async fn until_shown(device: &Device, state: DeviceOpState) -> Result<()> {
    let shown =
        || device.item::<DeviceOpStatus>(agent::ZEDAGENT, "global").filter(|status| status.state == state);
    device.until(&format!("device-op shows {state:?}"), shown).await.map(drop)
}

/// Waits until device-op shows the command with this counter as taken back, and nothing else as pending. To wait for the state
/// `Idle` alone is not enough: device-op showed it before the command, too. Afterwards device-op writes its record once more,
/// without the request that it has withdrawn.
async fn until_taken_back(device: &Device, operation: Operation, counter: u32) -> Result<()> {
    let is_over = |status: &DeviceOpStatus| {
        let mut lines = status.commands.iter();
        status.state == DeviceOpState::Idle
            && lines.any(|line| {
                (line.operation, line.counter, line.state) == (operation, counter, CommandState::TakenBack)
            })
    };
    let shown = || device.item::<DeviceOpStatus>(agent::ZEDAGENT, "global").filter(is_over);
    device.until(&format!("device-op shows {operation} {counter} as taken back"), shown).await.map(drop)
}

#[tokio::test]
async fn a_command_goes_to_device_op_and_can_be_taken_back() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    for (operation, name) in Operation::ALL.map(|operation| (operation, operation.name())) {
        // The first command of a device is only recorded, so one without effect goes before it.
        let said = device.ebb(&[name, "--reason", "new kernel"]).await?;
        let start = format!("{name} 1 (new kernel) is commanded: once the node is drained");
        assert!(said.code == 0 && said.out.starts_with(&start) && said.out.lines().count() == 1, "{said:?}");
        assert!(said.err.starts_with("Warning: zedkube does not run"), "{said:?}");
        assert_eq!(commanded(&device, operation), Some((1, true)));
        let file: DeviceOpsCmd = device.item(agent::EBB, name).unwrap_or_default();
        assert!(file.ops_time.parse::<schemas::GoTime>().is_ok(), "{file:?}");
        assert_eq!((file.by.as_str(), file.reason.as_str()), (peers::user().as_str(), "new kernel"));

        until_shown(&device, DeviceOpState::Deferred).await?;
        let part = format!("{name} 1 is commanded already, and it is held back: ");
        device.refuses(&[name], 1, &part).await?;

        let said = device.ebb(&[name, "--cancel"]).await?;
        assert_eq!(
            (said.code, said.out.as_str()),
            (0, format!("{name} 1 is taken back\n").as_str()),
            "{said:?}"
        );
        assert_eq!(commanded(&device, operation), Some((1, false)));
        until_taken_back(&device, operation, 1).await?;
        device.refuses(&["cancel", name], 1, &format!("there is no {name} to take back")).await?;

        let document = device.json(&[name]).await?;
        assert_eq!((&document["Operation"], &document["Counter"]), (&json!(name), &json!(2)));
        assert_eq!((&document["DesiredState"], &document["Accepted"]), (&json!(true), &json!(true)));
        let document = device.json(&["cancel", name, "--reason", "not now"]).await?;
        assert_eq!((&document["Became"], &document["Reason"]), (&json!("TakenBack"), &json!("not now")));
    }
    Ok(())
}

#[tokio::test]
async fn what_goes_first_is_said() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    device.json(&["poweroff"]).await?;
    let _zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    let said = device.ebb(&["reboot"]).await?;
    assert_eq!(said.err, "", "nothing to warn of when zedkube runs");
    assert!(said.code == 0 && said.out.contains("; poweroff 1 goes first; "), "{said:?}");
    device.refuses(&["reboot"], 1, "reboot 1 is commanded already, and it waits behind poweroff 1").await
}

/// device-op only records the first command that it sees.
#[tokio::test]
async fn a_command_that_was_only_recorded_is_given_again_with_the_next_counter() -> Result<()> {
    let mut device = Device::new()?;
    let old = DeviceOpsCmd { counter: 5, desired_state: true, ..DeviceOpsCmd::default() };
    device.publish(agent::EBB, "reboot", &old)?;
    device.start_device_op().await?;
    let record = || device.record::<device_op::OperationRecord>(agent::ZEDAGENT);
    let has_looked = || record().filter(|record| record.has_sources);
    device.until("device-op tells sources apart", has_looked).await?;
    let document = device.json(&["reboot"]).await?;
    assert_eq!((&document["Counter"], &document["Accepted"]), (&json!(6), &json!(true)));
    Ok(())
}

#[tokio::test]
async fn nothing_is_commanded_that_nobody_would_do() -> Result<()> {
    let mut device = Device::new()?;
    device
        .refuses(
            &["reboot"],
            1,
            "nothing would happen: device-op does not run here; start it with `ebb device-op`",
        )
        .await?;
    device.refuses(&["reboot", "--cancel"], 1, "there is no reboot to take back").await?;
    assert!(!device.path("/run/ebb").exists());

    device.start_device_op().await?;
    let lock = AgentLock::acquire(&device.root, agent::EBB)?;
    let part = format!("process {} publishes as ebb now", std::process::id());
    device.refuses(&["reboot"], 1, &part).await?;
    drop(lock);

    device.write("/persist/status/ebb/rebootConfig", "{\"Counter\":4294967295}")?;
    device
        .refuses(&["reboot"], 1, "reboot has used the last counter, 4294967295; to begin at 1 again remove ")
        .await?;
    assert_eq!(commanded(&device, Operation::Reboot), None);

    for (path, part) in [
        (
            "/persist/status/ebb/shutdownConfig",
            "cannot tell what is pending, and device-op cannot either: refused",
        ),
        ("/run/ebb/DeviceOpsCmd/shutdown.json", "cannot tell which command is pending: refused"),
    ] {
        device.write(path, "{\"Counter\":1}")?;
        std::fs::set_permissions(device.path(path), std::fs::Permissions::from_mode(0o666))?;
        device.refuses(&["shutdown"], 1, part).await?;
    }
    device
        .refuses(&["cancel", "shutdown"], 1, "cannot tell which command to take back; remove that file")
        .await
}

/// A file of root's would be refused by an agent of another user, or could not be read by it.
#[tokio::test]
async fn as_root_an_agent_of_another_user_is_named() -> Result<()> {
    let device = Device::new()?;
    chown(device.root.path(), Some(12345), None)?;
    // The program may lie where that user may not go.
    let program = device.path("/ebb");
    std::fs::copy(crate::site::PROGRAM, &program)?;
    let mut other = tokio::process::Command::new(program);
    other
        .args(["device-op", "--log-format", "text", "--root"])
        .arg(device.root.path())
        .uid(12345)
        .kill_on_drop(true);
    let _agent = other.stderr(std::process::Stdio::null()).spawn()?;
    device
        .until("device-op runs", || pubsub::lock_holder(&device.root, agent::ZEDAGENT).ok().flatten())
        .await?;
    device.refuses(&["reboot"], 1, "device-op runs as user 12345, and takes no files of user root").await?;
    assert_eq!(commanded(&device, Operation::Reboot), None);
    Ok(())
}

/// Regression: six lines without the reason, a wrong headline, exit code 0, and the advice to remove files with
/// which there was no problem.
#[tokio::test]
async fn as_root_without_rights_each_verb_says_so_in_one_line() -> Result<()> {
    const NOBODY: u32 = 65534;
    let mut device = Device::new()?;
    device.start_device_op().await?;
    let others = tempfile::tempdir()?;
    chown(others.path(), Some(NOBODY), None)?;
    // The program may lie where that user may not go.
    let program = others.path().join("ebb");
    std::fs::copy(crate::site::PROGRAM, &program)?;
    std::fs::set_permissions(device.root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    for (words, code) in [
        (&["status"][..], 4),
        (&["status", "--json"], 4),
        (&["cancel"], 1),
        (&["cancel", "reboot"], 1),
        (&["cancel", "reboot", "--source", "controller", "--reason", "not now"], 1),
        (&["cancel", "update"], 1),
        (&["reboot"], 1),
        (&["poweroff", "--cancel"], 1),
        (&["update", "5c1b5dfa-64cc-4f06-8a5f-1d8e5b8b3c0e", "--revert"], 1),
        (&["request"], 1),
        (&["commands"], 1),
        (&["freeze", "--reason", "x"], 1),
        (&["unfreeze"], 1),
        (&["force", "complete", "--reason", "x"], 1),
    ] {
        let mut verb = tokio::process::Command::new(&program);
        let output = verb.args(words).arg("--root").arg(device.root.path()).uid(NOBODY).output().await?;
        let text = String::from_utf8(output.stderr)?;
        let seen = (output.status.code(), output.stdout.len(), text.lines().count());
        assert_eq!(seen, (Some(code), 0, 1), "{words:?}: {text}");
        let command = words.join(" ").replace("not now", "'not now'");
        let part = format!("run this as root: `sudo {} {command} --root ", program.display());
        assert!(text.contains(&part) && !text.contains("remove"), "{words:?}: {text}");
    }
    assert!(!device.path("/run/ebb/DeviceOpsCmd").exists(), "nothing is commanded");
    Ok(())
}

/// If an agent runs as another user than root, the refusal names that user.
#[tokio::test]
async fn as_root_the_user_whose_the_agents_files_are_is_named() -> Result<()> {
    let device = Device::new()?;
    std::fs::set_permissions(device.root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let folder = device.path("/run/zedagent");
    std::fs::create_dir_all(&folder)?;
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    chown(&folder, Some(12345), None)?;
    let program = device.path("/ebb");
    std::fs::copy(crate::site::PROGRAM, &program)?;
    let mut verb = tokio::process::Command::new(&program);
    let output =
        verb.args(["cancel", "reboot", "--root"]).arg(device.root.path()).uid(65534).output().await?;
    let text = String::from_utf8(output.stderr)?;
    let part = format!("run this as user 12345: `sudo -u 12345 {} cancel reboot", program.display());
    assert!(output.status.code() == Some(1) && text.contains(&part), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_take_back_is_possible_without_device_op_and_says_when_it_is_too_late() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    device.json(&["reboot"]).await?;
    device.stop().await?;
    let document = device.json(&["cancel", "reboot"]).await?;
    assert_eq!(document["Became"], json!("Unread"));
    let part = "reboot 1 is taken back already";
    device.refuses(&["cancel", "reboot"], 1, part).await?;

    device.start_device_op().await?;
    until_taken_back(&device, Operation::Reboot, 1).await?;
    device.json(&["reboot"]).await?;
    device.stop().await?;

    // A command that nodeagent carries out: device-op finds it handed over when it starts.
    let record = device.path("/persist/status/zedagent/OperationRecord/global.json");
    let text = std::fs::read_to_string(&record)?;
    let mut record: device_op::OperationRecord = parse(text.as_bytes())?;
    record.handed_over = record.waiting.pop();
    device.write("/persist/status/zedagent/OperationRecord/global.json", &serde_json::to_string(&record)?)?;
    let action = DeviceAction {
        command: Some(Operation::Reboot),
        counter: 2,
        source: Source::Person,
        state: DeviceActionState::Acting,
        boot_id: record.boot_id.clone(),
        ..DeviceAction::default()
    };
    device.publish(agent::NODEAGENT, "global", &action)?;
    device.start_device_op().await?;
    let said = device.ebb(&["reboot", "--cancel"]).await?;
    assert_eq!((said.code, said.out.as_str()), (1, "reboot 2 cannot be taken back\n"), "{said:?}");
    assert!(said.err.starts_with("error: too late: nodeagent is carrying reboot out"), "{said:?}");
    Ok(())
}

/// A program that stands as the controller keeps its place, and its commands are its own.
#[tokio::test]
async fn an_operator_commands_beside_a_controller() -> Result<()> {
    let mut device = Device::new()?;
    device.write("/persist/status/rebootConfig", "{\"Counter\":1000}")?;
    device.start_device_op().await?;
    let controller = AgentLock::acquire(&device.root, agent::CONTROLLER)?;
    until_shown(&device, DeviceOpState::Idle).await?;
    device.refuses(&["cancel", "reboot"], 1, "there is no reboot to take back").await?;
    device.write("/run/controller/DeviceOpsCmd/reboot.json", r#"{"Counter":1001,"DesiredState":true}"#)?;
    until_shown(&device, DeviceOpState::Deferred).await?;
    device.refuses(&["cancel", "reboot"], 1, "reboot 1001 is one of source controller: take it back").await?;

    let said = device.ebb(&["reboot"]).await?;
    assert!(
        said.out.contains("; 1001 of controller asks for the same operation, and counts as done with it; "),
        "{said:?}"
    );
    assert_eq!(commanded(&device, Operation::Reboot), Some((1, true)), "a counter of its own");
    let said = device.ebb(&["cancel", "reboot"]).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "reboot 1 is taken back\n"), "{said:?}");
    until_shown(&device, DeviceOpState::Deferred).await?;
    let document =
        device.json(&["cancel", "reboot", "--source", "controller", "--reason", "store open"]).await?;
    assert_eq!((&document["Became"], &document["Counter"]), (&json!("TakenBack"), &json!(1001)));
    assert_eq!(document["Source"], json!("Controller"));
    until_taken_back(&device, Operation::Reboot, 1001).await?;
    let rows = device.json(&["commands"]).await?;
    assert_eq!((&rows[1]["Counter"], &rows[1]["State"]), (&json!(1001), &json!("TakenBack")), "{rows}");
    drop(controller);
    Ok(())
}

#[tokio::test]
async fn a_freeze_holds_all_but_an_operators_now() -> Result<()> {
    let mut device = Device::new()?;
    device.refuses(&["unfreeze"], 1, "commands are not frozen").await?;
    device.write("/persist/status/ebb/CommandFreeze/global.json", "{\"Until\":\"2001-01-01T00:00:00Z\"}")?;
    let status = device.ebb(&["status"]).await?;
    assert!(!status.out.contains("FROZEN"), "that time is over: {status:?}");
    device.refuses(&["freeze", "--until", "2001-01-01T00:00:00Z", "--reason", "x"], 1, "has passed").await?;
    device.refuses(&["freeze", "--until", "tomorrow", "--reason", "x"], 2, "a time with its zone").await?;
    let said = device.ebb(&["freeze", "--until", "2199-01-01T00:00:00Z", "--reason", "stocktaking"]).await?;
    let words = format!("until 2199-01-01T00:00:00Z (by {}: stocktaking)", peers::user());
    let frozen = format!("commands are frozen {words}");
    assert!(said.code == 0 && said.out.starts_with(&frozen), "{said:?}");
    let status = device.ebb(&["status"]).await?;
    assert!(status.out.contains(&format!("\nCOMMANDS ARE FROZEN {words}: no\n")), "{status:?}");
    device.start_device_op().await?;
    let said = device.ebb(&["reboot"]).await?;
    assert!(
        said.out.contains("once commands are not frozen any more (until 2199-01-01T00:00:00Z"),
        "{said:?}"
    );
    let said = device.ebb(&["reboot", "--now"]).await?;
    assert!(
        said.code == 0 && said.out.starts_with("reboot 2 is commanded: once the node is drained"),
        "{said:?}"
    );
    device.json(&["unfreeze"]).await?;
    assert_eq!(device.record::<CommandFreeze>(agent::EBB), None);
    // Each deed is written down, and nothing that was refused.
    let audit = fs::read_to_string(device.path("/persist/ebb/audit/00000001.jsonl"))?;
    let lines = audit.lines().map(serde_json::from_str::<AuditLine>).collect::<Result<Vec<_>, _>>()?;
    let deeds = [
        "CommandFreeze: commands are frozen until",
        "DeviceOpsCmd: reboot 1",
        "DeviceOpsCmd: reboot 2",
        "CommandFreeze: taken off",
    ];
    assert_eq!(lines.len(), deeds.len(), "{lines:#?}");
    assert!(lines.iter().zip(deeds).all(|(line, deed)| line.text.starts_with(deed)), "{lines:#?}");
    assert_eq!(lines[0].reason, "stocktaking");
    Ok(())
}

/// The time is that of the device's clock; a boot that comes before is another matter.
#[tokio::test]
async fn a_command_for_a_set_time_waits() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    for (typed, code, why) in [
        (&["--at", "tomorrow"][..], 2, "accepted: 02:00 or 2026-12-05 02:00"),
        (&["--at", "2001-01-01T00:00:00Z"], 1, "has passed: it is"),
        (&["--at", "2199-01-01T00:00:00Z"], 1, "is more than a year ahead"),
        (&["--in", "0"], 1, "has passed"),
        (&["--in", "2 days"], 2, "--in"),
        (&["--in", "2h", "--at", "02:00"], 2, "cannot be used with"),
        (&["--in", "2h", "--now"], 2, "cannot be used with"),
        (&["--in", "2h", "--without-record"], 2, "cannot be used with"),
    ] {
        device.refuses(&[&["reboot"], typed].concat(), code, why).await?;
    }
    let said = device.ebb(&["reboot", "--in", "90m", "--reason", "fan swap"]).await?;
    assert!(said.code == 0 && said.out.contains("(fan swap) is commanded: at "), "{said:?}");
    assert!(said.out.contains(", once the node is drained; "), "{said:?}");
    let rows = device.json(&["commands"]).await?;
    let why = rows[0]["Reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("it is commanded for "), "{rows}");
    let said = device.ebb(&["reboot", "--now"]).await?;
    assert!(said.code == 0 && said.out.contains("once the node is drained"), "{said:?}");
    let rows = device.json(&["commands"]).await?;
    assert_eq!((&rows[0]["State"], &rows[0]["Reason"]), (&json!("Waiting"), &json!("")), "{rows}");
    Ok(())
}

#[tokio::test]
async fn a_person_can_wait_until_the_device_goes_down() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    let nodeagent = AgentLock::acquire(&device.root, agent::NODEAGENT)?;
    device.refuses(&["reboot", "--timeout", "1h"], 2, "--wait").await?;
    let said = device.ebb(&["reboot", "--wait", "--timeout", "1s"]).await?;
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("\nreboot 1 is commanded: once the node is drained; "), "{said:?}");
    assert!(said.err.contains("not waiting any more after 1 s: reboot 1 stays commanded"), "{said:?}");

    for (signal, code, part) in [
        (Some(Signal::SIGINT), 130, "not waiting any more: reboot 2 stays commanded"),
        (None, 1, "reboot 3 is not carried out: it was taken back"),
    ] {
        let mut child = device.spawn(&["reboot", "--now", "--wait"])?;
        let mut err = BufReader::new(child.stderr.take().context("stderr")?).lines();
        let mut said = String::new();
        // From then on it watches signals.
        while !said.starts_with("zedkube does not run: ") {
            said = err.next_line().await?.context("it has ended")?;
        }
        let ended = if let Some(signal) = signal {
            device.signal(child, signal).await?
        } else {
            device.ebb(&["cancel", "reboot"]).await?;
            device.finish(child).await?
        };
        let last = err.next_line().await?.context("it has said nothing")?;
        assert!(ended.code == code && last.contains(part), "{ended:?} {last}");
    }

    let child = device.spawn(&["reboot", "--wait"])?;
    device.until("it is taken", || commanded(&device, Operation::Reboot).filter(|has| has.0 == 4)).await?;
    drop(nodeagent);
    let action = DeviceAction {
        command: Some(Operation::Reboot),
        counter: 4,
        source: Source::Person,
        state: DeviceActionState::Acting,
        boot_id: runtime::boot::boot_id(&device.root)?,
        ..DeviceAction::default()
    };
    device.publish(agent::NODEAGENT, "global", &action)?;
    let said = device.finish(child).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "reboot 4: the device goes down now\n"), "{said:?}");
    Ok(())
}

/// The answer says what will really happen.
#[tokio::test]
async fn a_command_that_is_not_drained_for_at_once_says_so() -> Result<()> {
    let mut device = Device::new()?;
    let report = NodeDrainReport { member: Member::No, ..NodeDrainReport::default() };
    device.publish(agent::ZEDKUBE, "global", &report)?;
    let zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    device.start_device_op().await?;
    let said = device.ebb(&["reboot"]).await?;
    let start = "reboot 1 is commanded: at once, WITHOUT a drain: this device is in no cluster; ";
    assert!(said.code == 0 && said.out.starts_with(start), "{said:?}");
    drop(zedkube);
    let is_member = || NodeDrainReport { member: Member::Yes, ..NodeDrainReport::default() };
    let outlook = "WITHOUT a drain after 5 min, because of that".to_owned();
    device.publish(agent::ZEDKUBE, "global", &NodeDrainReport { outlook, ..is_member() })?;
    let zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    let said = device.ebb(&["poweroff"]).await?;
    let start = "poweroff 1 is commanded: WITHOUT a drain after 5 min, because of that; ";
    assert!(said.code == 0 && said.out.starts_with(start), "{said:?}");
    drop(zedkube);
    let (held_by, reason) = (Some(HeldBy::Slot), "all slots are taken: edge-b".to_owned());
    device.publish(agent::ZEDKUBE, "global", &NodeDrainReport { held_by, reason, ..is_member() })?;
    let _zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    let said = device.ebb(&["shutdown"]).await?;
    let start =
        "shutdown 1 is commanded: once the node is drained; now it waits: all slots are taken: edge-b; ";
    assert!(said.code == 0 && said.out.starts_with(start), "{said:?}");
    Ok(())
}

/// A disk that takes nothing: the order is refused, and `--without-record` goes on.
#[tokio::test]
async fn a_persist_that_takes_nothing() -> Result<()> {
    let mut device = Device::new()?;
    device.write("/persist/status/zedagent/OperationRecord", "in the way")?;
    device.start_device_op().await?;
    device.refuses(&["reboot"], 1, "cannot tell what is pending, and device-op cannot either").await?;
    device.refuses(&["shutdown", "--without-record"], 1, "--without-record is for a reboot only").await?;
    let said = device.ebb(&["reboot", "--without-record"]).await?;
    assert!(said.code == 0 && said.out.contains("; WITHOUT a record: any other boot counts"), "{said:?}");
    Ok(())
}

/// Whoever calls this from a script has to see that nothing happens yet.
#[tokio::test]
async fn a_command_that_is_not_taken_is_a_failure() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    device.json(&["reboot"]).await?;
    device.json(&["cancel", "reboot"]).await?;
    device.pause()?;
    let said = device.ebb(&["reboot"]).await?;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("reboot 2 is commanded, but device-op has not taken it yet"), "{said:?}");
    assert!(said.err.contains("device-op has not taken reboot 2 in time"), "{said:?}");
    Ok(())
}
