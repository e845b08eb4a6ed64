//! `ebb config`.

use std::collections::BTreeMap;

use anyhow::Result;
use pubsub::AgentLock;
use schemas::{ConfigItemType, ConfigItemValue, ConfigItemValueMap, NodeDrainReport, RefusedInput, agent};
use serde_json::json;

use crate::device::Device;

const MAIN: &str = "/etc/ebb/ebb.toml";
const DROP_IN: &str = "/etc/ebb/ebb.d/50-site.toml";

/// One setting of each layer.
fn device() -> Result<Device> {
    let device = Device::new()?;
    device.write(MAIN, "no-peer = \"wait\"\n[slots]\nlimit = 3\n")?;
    device.write(
        DROP_IN,
        "slots.limit = 4\n[[rule]]\nname = \"databases\"\nselector = \"app=db\"\nbehaviour = \"drain\"\norder = 10\n",
    )?;
    let item =
        ConfigItemValue { item_type: ConfigItemType::INT, int_value: 48, ..ConfigItemValue::default() };
    let global_settings = BTreeMap::from([("kubernetes.drain.timeout".to_owned(), item)]);
    let map = ConfigItemValueMap { global_settings, ..ConfigItemValueMap::default() };
    device.publish(agent::ZEDAGENT, "global", &map)?;
    device.write("/site.toml", "drain.attempts = 7\n")?;
    Ok(device)
}

/// The line of this key, its columns one space apart.
fn line(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.split(' ').next() == Some(key)).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn every_setting_is_shown_with_its_origin() -> Result<()> {
    let device = device()?;
    let site = device.path("/site.toml").display().to_string();
    let words = ["config", "show", "--config", &site, "--set", "cordon.tries=3"];
    let said = device.ebb(&words).await?;
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let (main, drop_in) =
        (device.path(MAIN).display().to_string(), device.path(DROP_IN).display().to_string());
    for (key, rest) in [
        ("KEY", "ORIGIN LIVE VALUE".to_owned()),
        ("no-peer", format!("{main}:1 yes wait")),
        ("slots.limit", format!("{drop_in}:1 yes 4")),
        ("kubernetes.drain.timeout", "controller next attempt 48".to_owned()),
        ("drain.attempts", format!("{site}:1 yes 7")),
        ("cordon.tries", "--set yes 3".to_owned()),
        ("cordon.pause", "default yes 5s".to_owned()),
        ("node.name", "default no -".to_owned()),
    ] {
        assert_eq!(line(&said.out, key), format!("{key} {rest}"), "{}", said.out);
    }
    let rule = format!("rule databases ({drop_in}:2): selector = app=db, behaviour = drain, order = 10");
    assert_eq!(said.out.lines().last(), Some(rule.as_str()));

    let document = device.json(&words).await?;
    let settings = document["Settings"].as_array().cloned().unwrap_or_default();
    let limit = settings.iter().find(|setting| setting["Key"] == "slots.limit").cloned().unwrap_or_default();
    assert_eq!(
        (&limit["Value"], &limit["Default"], &limit["Live"]),
        (&json!("4"), &json!("1"), &json!("yes"))
    );
    assert_eq!((&document["Problems"], &document["Rules"][0]["Values"]["order"]), (&json!([]), &json!("10")));

    let said = device.ebb(&["config", "check", "--config", &site]).await?;
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "no problems in 3 files\n", ""));
    Ok(())
}

#[tokio::test]
async fn every_problem_is_told_before_anything_else() -> Result<()> {
    let device = device()?;
    device.write(MAIN, "no-peer = \"wiat\"\n[drain]\natempts = 3\n")?;
    device.write("/run/zedagent/ConfigItemValueMap/global.json", "{")?;
    let main = device.path(MAIN).display().to_string();
    let no_peer = format!(
        "problem: {main}:1: no-peer = \"wiat\" is not accepted; accepted: `auto`, `complete`, `wait`; in effect: wait ({main}:1)"
    );
    for (verb, code) in [("show", 0), ("check", 1)] {
        let said = device.ebb(&["config", verb]).await?;
        assert_eq!((said.code, said.err.as_str()), (code, ""), "{verb}: {said:?}");
        let problems: Vec<&str> = said.out.lines().take_while(|line| line.starts_with("problem: ")).collect();
        assert!(problems.contains(&no_peer.as_str()), "{verb}: {problems:?}");
        assert!(
            problems.len() == 3 && problems[0].contains(":3: drain.atempts = 3 is not accepted"),
            "{problems:?}"
        );
        assert!(
            problems[2].contains("ConfigItemValueMap/global.json: the file is ignored: "),
            "{problems:?}"
        );
        assert_eq!(said.out.lines().count() > 3, verb == "show", "{verb}");
    }
    let said = device.ebb(&["config", "check", "--json"]).await?;
    let document: serde_json::Value = serde_json::from_str(&said.out)?;
    let problem = &document["Problems"][1];
    assert_eq!((said.code, &problem["File"], &problem["Line"]), (1, &json!(main), &json!(1)));
    assert_eq!(
        (&problem["Key"], &problem["Accepted"]),
        (&json!("no-peer"), &json!("`auto`, `complete`, `wait`"))
    );
    assert_eq!(document["Files"].as_array().map(Vec::len), Some(2));

    for verb in ["show", "check"] {
        let said = device.ebb(&["config", verb, "--set", "drain.attempts=0"]).await?;
        assert_eq!(said.code, 2, "{verb}: a bad flag is worse than a bad file");
        assert!(said.out.contains("--set: drain.attempts = 0 is not accepted"), "{verb}: {said:?}");
        device.refuses(&["config", verb, "--set", "drain"], 2, "not KEY=VALUE").await?;
    }
    Ok(())
}

/// A file that becomes bad while an agent runs: that agent keeps what it had, and the screen must not say otherwise.
#[tokio::test]
async fn what_the_running_zedkube_kept_is_said() -> Result<()> {
    let device = device()?;
    device.write(MAIN, "no-peer = \"wiat\"\n")?;
    let main = device.path(MAIN).display().to_string();
    let reason = format!("{main}:1: no-peer = \"wiat\" is not accepted; in effect: auto (default)");
    let refused =
        |path: &str, reason: &str| RefusedInput { path: path.to_owned(), reason: reason.to_owned() };
    let other = refused("/run/kube-status/x.json", "something else");
    let report =
        NodeDrainReport { refused: vec![refused(&main, &reason), other], ..NodeDrainReport::default() };
    device.publish(agent::ZEDKUBE, "global", &report)?;
    let said = device.ebb(&["config", "check"]).await?;
    assert!(!said.out.contains("running: "), "zedkube does not run: {said:?}");

    let _zedkube = AgentLock::acquire(&device.root, agent::ZEDKUBE)?;
    let said = device.ebb(&["config", "check"]).await?;
    assert!(
        said.out.ends_with(&format!("Messages of the running zedkube:\nrunning: {reason}\n")),
        "{said:?}"
    );
    let document = device.json(&["config", "show"]).await?;
    assert_eq!(document["Running"], json!([reason]));
    Ok(())
}
