//! `ebb reboot`, `ebb shutdown`, `ebb poweroff` with a real device-op. There is no zedkube, so every command is held
//! back for 10 minutes.

use std::os::unix::fs::{PermissionsExt, chown};

use anyhow::Result;
use pubsub::AgentLock;
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, Operation, agent, parse,
};
use serde_json::json;

use crate::device::Device;

fn recorded(device: &Device, operation: Operation) -> Option<u32> {
    let bytes = std::fs::read(device.path(&format!("/persist/status/{}", operation.counter_file()))).ok()?;
    parse::<DeviceOpsCmd>(&bytes).ok().map(|command| command.counter)
}

fn commanded(device: &Device, operation: Operation) -> Option<(u32, bool)> {
    let command: DeviceOpsCmd = device.item(agent::CONTROLLER, operation.name())?;
    Some((command.counter, command.desired_state))
}

/// The record comes first, the status last.
async fn until_shown(device: &Device, state: DeviceOpState) -> Result<()> {
    let shown =
        || device.item::<DeviceOpStatus>(agent::ZEDAGENT, "global").filter(|status| status.state == state);
    device.until(&format!("device-op shows {state:?}"), shown).await.map(drop)
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
        let file: DeviceOpsCmd = device.item(agent::CONTROLLER, name).unwrap_or_default();
        assert!(file.ops_time.parse::<schemas::GoTime>().is_ok(), "{file:?}");

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
        until_shown(&device, DeviceOpState::Idle).await?;
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

#[tokio::test]
async fn counters_go_on_from_the_greater_one() -> Result<()> {
    for (published, on_disk, expected) in [
        (None, None, 1),
        (None, Some(7), 8),
        (Some((9, false)), Some(7), 10),
        (Some((7, true)), Some(7), 8),
        // Recorded only: the first command that this device sees.
        (Some((5, true)), None, 6),
    ] {
        let mut device = Device::new()?;
        let case = (published, on_disk);
        if let Some((counter, desired_state)) = published {
            let command = DeviceOpsCmd { counter, desired_state, ops_time: String::new() };
            device.publish(agent::CONTROLLER, "reboot", &command)?;
        }
        if let Some(counter) = on_disk {
            device.write("/persist/status/rebootConfig", &format!("{{\"Counter\":{counter}}}"))?;
        }
        device.start_device_op().await?;
        let document = device.json(&["reboot"]).await?;
        assert_eq!(
            (&document["Counter"], &document["Accepted"]),
            (&json!(expected), &json!(true)),
            "{case:?}"
        );
        // The record comes first, then the counter.
        let is_recorded = || (recorded(&device, Operation::Reboot) == Some(expected)).then_some(());
        device.until("the counter is recorded", is_recorded).await?;
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_commanded_that_nobody_would_do() -> Result<()> {
    let mut device = Device::new()?;
    device
        .refuses(
            &["reboot"],
            1,
            "nothing would happen: zedagent does not run here; start it with `ebb device-op`",
        )
        .await?;
    device.refuses(&["reboot", "--cancel"], 1, "there is no reboot to take back").await?;
    assert!(!device.path("/run/controller").exists());

    device.start_device_op().await?;
    let lock = AgentLock::acquire(&device.root, agent::CONTROLLER)?;
    let part = format!("process {} publishes as controller now", std::process::id());
    device.refuses(&["reboot"], 1, &part).await?;
    drop(lock);

    device.write("/persist/status/rebootConfig", "{\"Counter\":4294967295}")?;
    device
        .refuses(&["reboot"], 1, "reboot has used the last counter, 4294967295; to begin at 1 again remove ")
        .await?;
    assert_eq!(commanded(&device, Operation::Reboot), None);

    for (path, part) in [
        ("/persist/status/shutdownConfig", "nobody knows what is pending, zedagent neither: refused"),
        ("/run/controller/DeviceOpsCmd/shutdown.json", "nobody knows what is commanded now: refused"),
    ] {
        device.write(path, "{\"Counter\":1}")?;
        std::fs::set_permissions(device.path(path), std::fs::Permissions::from_mode(0o666))?;
        device.refuses(&["shutdown"], 1, part).await?;
    }
    device.refuses(&["cancel", "shutdown"], 1, "nobody knows what to take back; remove that file").await
}

/// A file of root's would be refused by an agent of another user, or could not be read by it.
#[tokio::test]
async fn an_agent_of_another_user_is_named() -> Result<()> {
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
    device.refuses(&["reboot"], 1, "zedagent runs as user 12345, and takes no files of user root").await?;
    assert_eq!(commanded(&device, Operation::Reboot), None);
    Ok(())
}

/// It was six lines that said nothing of the reason, a wrong headline, and exit code 0.
#[tokio::test]
async fn without_rights_the_status_says_so_in_one_line() -> Result<()> {
    let mut device = Device::new()?;
    device.start_device_op().await?;
    let others = tempfile::tempdir()?;
    chown(others.path(), Some(12345), None)?;
    // The program may lie where that user may not go.
    let program = others.path().join("ebb");
    std::fs::copy(crate::site::PROGRAM, &program)?;
    std::fs::set_permissions(device.root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    for words in [&["status"][..], &["status", "--json"]] {
        let mut status = tokio::process::Command::new(&program);
        let output = status.args(words).arg("--root").arg(device.root.path()).uid(12345).output().await?;
        let text = String::from_utf8(output.stderr)?;
        assert_eq!(
            (output.status.code(), output.stdout.len(), text.lines().count()),
            (Some(4), 0, 1),
            "{text}"
        );
        assert!(text.contains("run this as root"), "{text}");
    }
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
    until_shown(&device, DeviceOpState::Idle).await?;
    device.json(&["reboot"]).await?;
    device.stop().await?;

    // A command that nodeagent carries out: device-op finds it handed over when it starts.
    let record = device.path("/persist/status/zedagent/OperationRecord/global.json");
    let text = std::fs::read_to_string(&record)?;
    let waiting = r#""HandedOver":null,"Waiting":[{"Operation":"reboot","Counter":2,"CarriedOver":false}]"#;
    let handed_over = r#""HandedOver":{"Operation":"reboot","Counter":2,"CarriedOver":false},"Waiting":[]"#;
    assert!(text.contains(waiting), "{text}");
    device
        .write("/persist/status/zedagent/OperationRecord/global.json", &text.replace(waiting, handed_over))?;
    let action = DeviceAction {
        command: Some(Operation::Reboot),
        counter: 2,
        state: DeviceActionState::Acting,
        ..DeviceAction::default()
    };
    device.publish(agent::NODEAGENT, "global", &action)?;
    device.start_device_op().await?;
    let said = device.ebb(&["reboot", "--cancel"]).await?;
    assert_eq!((said.code, said.out.as_str()), (1, "reboot 2 can not be taken back\n"), "{said:?}");
    assert!(said.err.starts_with("error: too late: nodeagent is carrying reboot out"), "{said:?}");
    Ok(())
}
