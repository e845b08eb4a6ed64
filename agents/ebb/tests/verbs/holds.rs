//! `ebb hold` with a real zedkube on a cluster in memory. systemd's answer is that of a script.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use schemas::{DeviceAction, DeviceActionState, Member, NodeDrainReport, NodeDrainRequest, agent};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::device::Device;
use crate::site::Site;

/// A device whose systemd says these jobs.
async fn machine(site: &Site, jobs: &str, flags: &[&str]) -> Result<Device> {
    let mut device = Device::new()?;
    device.write("/bin/systemctl", "#!/bin/sh\nexec cat \"${0%bin/*}jobs\"\n")?;
    let program = device.path("/bin/systemctl");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))?;
    device.write("/jobs", jobs)?;
    let kubeconfig = site.kubeconfig().display().to_string();
    let own = ["--kubeconfig", &kubeconfig, "--node", "edge-a"];
    device.start("zedkube", agent::ZEDKUBE, &[&own, flags].concat()).await?;
    let is_member = || {
        device.item(agent::ZEDKUBE, "global").filter(|report: &NodeDrainReport| report.member == Member::Yes)
    };
    device.until("zedkube knows its cluster", is_member).await?;
    Ok(device)
}

const GOES_DOWN: &str = "9 reboot.target start waiting\n7 shutdown.target start waiting\n";

fn hold(device: &Device, more: &[&str]) -> Result<Child> {
    let mut command: Command = device.command(&["hold"]);
    let path = std::env::var("PATH")?;
    command.env("PATH", format!("{}:{path}", device.path("/bin").display()));
    Ok(command.args(more).spawn()?)
}

fn request(device: &Device) -> Option<NodeDrainRequest> {
    device.item(agent::HOLD, "global")
}

/// Reads lines until one contains this text.
async fn says(child: &mut Child, part: &str) -> Result<()> {
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    while let Some(line) = lines.next_line().await? {
        if line.contains(part) {
            child.stdout = Some(lines.into_inner().into_inner());
            return Ok(());
        }
    }
    anyhow::bail!("it never said {part:?}")
}

#[tokio::test]
async fn a_shutdown_waits_until_the_node_is_drained_and_the_next_start_gives_it_back() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    let device = machine(&site, GOES_DOWN, &[]).await?;
    let ended = device.finish(hold(&device, &[])?).await?;
    assert!(
        ended.code == 0 && ended.out.contains("the shutdown goes on: the node is drained: "),
        "{ended:?}"
    );
    assert!(site.is_cordoned("edge-a") && site.cluster.pods_on("edge-a").is_empty());
    let context = request(&device).context("the request is gone")?.context;
    assert_eq!(context, "the machine goes down (reboot.target)");
    let reason = std::fs::read_to_string(device.path("/persist/reboot-reason"))?;
    assert!(reason.starts_with("reboot.target: the node is drained: "), "{reason}");
    // A soft reboot keeps /run: the unit's start withdraws the request.
    device.write("/jobs", "")?;
    let ended = device.finish(hold(&device, &[])?).await?;
    assert_eq!((ended.code, request(&device)), (0, None), "{ended:?}");
    device.until("the node is given back", || (!site.is_cordoned("edge-a")).then_some(())).await
}

#[tokio::test]
async fn a_shutdown_that_is_called_off_withdraws_the_request() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let device = machine(&site, GOES_DOWN, &[]).await?;
    let mut child = hold(&device, &[])?;
    says(&mut child, "the shutdown waits, ").await?;
    device.until("the node is cordoned", || site.is_cordoned("edge-a").then_some(())).await?;
    // A second run waits for the same request.
    let asked = request(&device);
    device.finish(hold(&device, &["--set", "hold.timeout=1s"])?).await?;
    assert!(asked.is_some() && request(&device) == asked);
    device.write("/jobs", "No jobs running.\n")?;
    let ended = device.finish(child).await?;
    assert!(ended.code == 0 && ended.out.contains("called off"), "{ended:?}");
    assert_eq!(request(&device), None);
    device.until("the node is given back", || (!site.is_cordoned("edge-a")).then_some(())).await
}

#[tokio::test]
async fn a_drain_that_does_not_end_is_not_waited_for_longer_than_the_setting_says() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let device = machine(&site, GOES_DOWN, &[]).await?;
    let ended = device.finish(hold(&device, &["--set", "hold.timeout=1s"])?).await?;
    let part = "the shutdown goes on: NOT DRAINED: hold.timeout (1 s) is over: ";
    assert!(ended.code == 1 && ended.out.contains(part), "{ended:?}");
    assert!(!site.cluster.pods_on("edge-a").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_drain_that_has_failed_is_asked_for_again() -> Result<()> {
    let site = Site::quick()?;
    site.guarded_pod("db-0", "edge-a")?;
    let once = ["--set", "drain.attempts=1", "--set", "drain.attempt-timeout=1s"];
    let device = machine(&site, GOES_DOWN, &once).await?;
    let child = hold(&device, &["--set", "hold.timeout=20s"])?;
    let first = device.until("a drain is asked for", || request(&device)).await?;
    let again = || request(&device).filter(|request| request.requested_at != first.requested_at);
    device.until("it is asked for again", again).await?;
    drop(child);
    Ok(())
}

#[tokio::test]
async fn what_is_no_shutdown_or_is_ebbs_own_does_not_wait() -> Result<()> {
    let site = Site::quick()?;
    let device = machine(&site, "3 ebb-hold.service stop running\n", &[]).await?;
    let ended = device.finish(hold(&device, &[])?).await?;
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""), "an upgrade");
    device.write("/bin/systemctl", "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")?;
    let ended = device.finish(hold(&device, &[])?).await?;
    assert!(ended.code == 1 && ended.err.contains("cannot tell whether the system goes down: "), "{ended:?}");
    assert!(ended.err.contains("Failed to connect to bus"), "{ended:?}");

    device.write("/bin/systemctl", "#!/bin/sh\nexec cat \"${0%bin/*}jobs\"\n")?;
    device.write("/jobs", GOES_DOWN)?;
    let acting = DeviceAction {
        state: DeviceActionState::Acting,
        boot_id: runtime::boot::boot_id(&device.root)?,
        ..DeviceAction::default()
    };
    device.publish(agent::NODEAGENT, "global", &acting)?;
    let ended = device.finish(hold(&device, &[])?).await?;
    assert!(ended.code == 0 && ended.out.contains("nodeagent takes the machine down"), "{ended:?}");
    assert_eq!(request(&device), None);
    Ok(())
}

#[tokio::test]
async fn where_no_drain_can_be_asked_for_the_shutdown_goes_on() -> Result<()> {
    let site = Site::quick()?;
    let device = machine(&site, GOES_DOWN, &[]).await?;
    device.write("/run/ebb-hold", "no folder")?;
    let ended = device.finish(hold(&device, &[])?).await?;
    let part = "the shutdown goes on: NOT DRAINED: no drain can be asked for";
    assert!(ended.code == 1 && ended.out.contains(part), "{ended:?}");
    Ok(())
}
