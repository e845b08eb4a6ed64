//! `ebb update` with a real baseos. There is no zedkube, so every image is held back for 10 minutes.

use anyhow::Result;
use schemas::{BaseOsConfig, BaseOsHold, BaseOsHoldState, Source, agent};
use serde_json::json;

use crate::device::Device;

const IMAGE: &str = "5c1b5dfa-64cc-4f06-8a5f-1d8e5b8b3c0e";

#[tokio::test]
async fn an_image_is_wanted_retried_and_reverted() -> Result<()> {
    let mut device = Device::new()?;
    device
        .refuses(&["update", IMAGE, "--version", "2.0"], 1, "baseos does not run here; start it with `ebb")
        .await?;
    assert!(!device.path("/run/ebb").exists());
    device.start("baseos", agent::BASEOSMGR, &[]).await?;

    let said = device.ebb(&["update", IMAGE, "--version", "2.0", "--reason", "a fix"]).await?;
    let start = format!("image {IMAGE} 2.0 is wanted (a fix): once it is loaded and the node is drained");
    assert!(said.code == 0 && said.out.starts_with(&start) && said.out.lines().count() == 1, "{said:?}");
    assert!(said.err.starts_with("Warning: zedkube does not run"), "{said:?}");
    let config = |counter, activate, reason: &str| BaseOsConfig {
        base_os_version: "2.0".into(),
        content_tree_uuid: IMAGE.into(),
        retry_update_counter: counter,
        activate,
        by: runtime::peers::user(),
        reason: reason.into(),
    };
    assert_eq!(device.item(agent::EBB, IMAGE), Some(config(0, true, "a fix")));
    let hold = || device.item::<BaseOsHold>(agent::BASEOSMGR, "global");
    let is_held =
        || hold().filter(|hold| hold.state == BaseOsHoldState::Deferred && hold.content_tree_uuid == IMAGE);
    let held = device.until("baseos holds it back", is_held).await?;
    assert_eq!((held.source, held.reason.as_str()), (Source::Person, "a fix"));
    device
        .refuses(&["update", IMAGE, "--version", "2.0"], 1, &format!("image {IMAGE} is wanted already"))
        .await?;

    let document = device.json(&["update", IMAGE, "--retry"]).await?;
    assert_eq!((&document["RetryUpdateCounter"], &document["Activate"]), (&json!(1), &json!(true)));
    assert_eq!(device.item(agent::EBB, IMAGE), Some(config(1, true, "")));

    let said = device.ebb(&["update", &IMAGE.to_uppercase(), "--revert"]).await?;
    let expected = format!("image {IMAGE} is reverted: nothing of it is pending\n");
    assert_eq!((said.code, said.out, said.err), (0, expected, String::new()));
    assert_eq!(device.item(agent::EBB, IMAGE), Some(config(1, false, "")));
    assert_eq!(hold().map(|hold| hold.state), Some(BaseOsHoldState::Idle));
    device.refuses(&["update", IMAGE, "--revert"], 1, "is reverted already").await
}

#[tokio::test]
async fn what_is_not_from_here_is_not_changed() -> Result<()> {
    let mut device = Device::new()?;
    device.start("baseos", agent::BASEOSMGR, &[]).await?;
    for flag in ["--revert", "--retry"] {
        device.refuses(&["update", IMAGE, flag], 1, "is not wanted by a command from here").await?;
    }
    let last = BaseOsConfig { retry_update_counter: u32::MAX, activate: true, ..BaseOsConfig::default() };
    device.publish(agent::EBB, IMAGE, &last)?;
    device.refuses(&["update", IMAGE, "--retry"], 1, "has used the last retry counter, 4294967295").await?;
    device.write(&format!("/run/ebb/BaseOsConfig/{IMAGE}.json"), "[]")?;
    device.refuses(&["update", IMAGE, "--revert"], 1, "cannot tell which image is wanted now: refused").await
}

/// The same as `ebb update IMAGE --revert`, and the image need not be named where there is only one.
#[tokio::test]
async fn an_update_is_cancelled_like_every_other_command() -> Result<()> {
    const OTHER: &str = "11111111-2222-4333-8444-555555555555";
    let mut device = Device::new()?;
    let nothing = "there is no update to take back: no command from here wants an image";
    device.refuses(&["cancel", "update"], 1, nothing).await?;
    assert!(!device.path("/run/ebb").exists());
    device.start("baseos", agent::BASEOSMGR, &[]).await?;

    for image in [IMAGE, OTHER] {
        device.json(&["update", image, "--version", "2.1"]).await?;
    }
    let several = format!("2 images are wanted: {OTHER} (2.1), {IMAGE} (2.1); say which one to take back");
    device.refuses(&["cancel", "update"], 1, &several).await?;
    let document = device.json(&["cancel", "update", OTHER]).await?;
    assert_eq!((&document["ContentTreeUUID"], &document["Activate"]), (&json!(OTHER), &json!(false)));
    let stands = |image| device.item::<BaseOsConfig>(agent::EBB, image).map(|config| config.activate);
    assert_eq!((stands(IMAGE), stands(OTHER)), (Some(true), Some(false)));

    device.stop().await?;
    let said = device.ebb(&["cancel", "update", "--reason", "not now"]).await?;
    let expected =
        format!("image {IMAGE} is reverted (not now); baseos does not run, and reads it when it starts\n");
    assert_eq!((said.code, said.out), (0, expected), "{}", said.err);
    device.refuses(&["cancel", "update"], 1, nothing).await
}

#[tokio::test]
async fn an_update_that_cannot_be_cancelled_here_is_not() -> Result<()> {
    let device = Device::new()?;
    for (words, part) in [
        (
            &["cancel", "update", "--source", "controller"][..],
            "source controller wants can be taken back only at that source",
        ),
        (&["cancel", "reboot", IMAGE], "a reboot has no image"),
    ] {
        device.refuses(words, 1, part).await?;
    }
    device.write(&format!("/run/ebb/BaseOsConfig/{IMAGE}.json"), "[]")?;
    device.refuses(&["cancel", "update"], 1, "name the one to take back: refused").await
}
