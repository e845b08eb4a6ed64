//! Texts of others on the operator's screen: they stay on the line that they belong to, and no terminal obeys them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::device::Device;
use crate::site::{Said, Site};

/// A line that only the program itself may print.
const FORGED: &str = "node/edge-a drained";

/// A name that clears the screen, paints, forges a line, and turns the direction of text around.
fn evil() -> String {
    format!("x\u{1b}[2J\u{9b}31m\r\n{FORGED}\n\u{202e}y")
}

fn is_clean(what: &str, said: &Said) -> Result<()> {
    for line in said.out.lines().chain(said.err.lines()) {
        ensure!(line != FORGED && line.chars().all(text::is_plain), "{what}: {line:?}");
    }
    Ok(())
}

/// kubectl had the same fault (CVE-2021-25743).
#[tokio::test]
async fn what_is_named_in_the_cluster_is_only_text() -> Result<()> {
    let site = Site::passive()?;
    site.guarded_pod("db-0", "edge-a")?;
    site.cluster.edit("pods", "shop", "db-0", |pod| {
        pod["metadata"]["ownerReferences"][0]["kind"] = json!(evil());
        pod["metadata"]["ownerReferences"][0]["name"] = json!(evil());
    })?;
    site.cluster.edit("nodes", "", "edge-a", |node| {
        node["metadata"]["annotations"] =
            json!({"ebb.dev/cordoned-by": evil(), "ebb.dev/cordon-reason": evil()});
        node["spec"]["unschedulable"] = json!(true);
    })?;
    for verb in [
        "plan edge-a",
        "plan edge-a --json",
        "drain edge-a --dry-run=server",
        "drain edge-a --timeout 1s --retry 100ms",
        "drain edge-a --timeout 1s --retry 100ms -o json",
        "uncordon edge-a",
    ] {
        is_clean(verb, &site.ebb(verb).await?)?;
    }
    let said = site.ebb("plan edge-a --json").await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!(document["pods"][0]["owner"], json!(format!("{0}/{0}", evil())), "JSON still says it all");
    Ok(())
}

/// Whoever may patch a Node or write Events chooses these texts.
#[tokio::test]
async fn what_a_node_says_of_itself_is_only_text() -> Result<()> {
    let site = Site::passive()?;
    let long = evil().repeat(400);
    for ours in ["zedkube: ", ""] {
        site.cluster.edit("nodes", "", "edge-a", |node| {
            let shown = |kind: &str| {
                json!({"type": kind, "status": "True", "reason": long, "message": format!("{ours}{long}; BLOCKED: {long}")})
            };
            node["status"]["conditions"] = json!([shown("DrainInProgress"), shown("Drained"), shown(&long)]);
            node["metadata"]["annotations"] = json!({
                "ebb.dev/cordoned-by": long, "ebb.dev/cordon-reason": long, "ebb.dev/slots-group": long,
                "ebb.dev/reboot": evil(), "ebb.dev/drain": long,
                "ebb.dev/state": json!({"command": "reboot", "counter": 1, "state": "Acting", "reason": evil(),
                                        "since": evil()}).to_string(),
            });
            node["spec"]["unschedulable"] = json!(true);
        })?;
        site.cluster.apply(json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "evil", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "edge-a", "uid": "edge-a"},
            "source": {"component": "zedkube"}, "reason": long, "message": long, "lastTimestamp": evil(),
        }))?;
        for verb in ["nodes", "why edge-a", "history edge-a"] {
            for form in ["", " -o json"] {
                let child = site.start_plugin(&format!("{verb}{form}"))?;
                let said = site.finish(child).await?;
                is_clean(verb, &said)?;
                ensure!(
                    said.code == 0 && said.out.contains("edge-a") && said.out.len() < 100_000,
                    "{verb}: {said:?}"
                );
            }
        }
        assert!(site.cluster.delete("events", "default", "evil"));
    }
    Ok(())
}

#[tokio::test]
async fn what_is_named_on_the_device_is_only_text() -> Result<()> {
    let device = Device::new()?;
    device.write(&format!("/etc/ebb/ebb.d/{}.toml", evil()), "a = 1")?;
    device.write(&format!("/run/zedkube/NodeDrainStatus/{}.json", evil()), "{}")?;
    let report = json!({"Node": evil(), "Reason": evil(), "Hint": evil(), "Refused": [{"Path": evil(), "Reason": evil()}]});
    device.write("/run/zedkube/NodeDrainReport/global.json", &report.to_string())?;
    device.write("/run/zedkube/NodeDrainStatus/global.json", "{\"Status\":5}")?;
    for words in [
        &["status"][..],
        &["status", "--pods"],
        &["status", "--json"],
        &["config", "check"],
        &["config", "show"],
        &["topic", "get", "zedkube/NodeDrainStatus"],
    ] {
        is_clean(&words.join(" "), &device.ebb(words).await?)?;
    }
    Ok(())
}
