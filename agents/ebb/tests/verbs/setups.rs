//! `ebb setup` on a host without systemd: what it finds, and that it gives the node back.

use anyhow::{Context, Result};
use schemas::{Member, NodeDrainReport, NodeDrainRequest, agent};
use serde_json::json;

use crate::device::Device;
use crate::site::{Site, put};

/// A device whose settings lead to node `edge-a` of the site.
fn device(site: &Site) -> Result<Device> {
    let device = Device::new()?;
    let kubeconfig = site.kubeconfig();
    let settings =
        format!("cluster.kubeconfig = {:?}\nnode.name = \"edge-a\"\n", kubeconfig.display().to_string());
    device.write("/etc/ebb/ebb.d/site.toml", &settings)?;
    Ok(device)
}

#[tokio::test]
async fn it_says_what_is_missing_and_what_to_do() -> Result<()> {
    let site = Site::quick()?;
    let device = device(&site)?;
    let said = device.ebb(&["setup", "--check", "--json"]).await?;
    assert_eq!(said.code, 1, "{said:?}");
    let found: serde_json::Value = serde_json::from_str(&said.out)?;
    let found: Vec<_> = found.as_array().context("no list")?.iter().collect();
    let state =
        |what: &str| found.iter().find(|finding| finding["What"] == what).map(|finding| &finding["State"]);
    for (what, expected) in [("Host", "Wrong"), ("Settings", "Good"), ("Node", "Good"), ("Agents", "Wrong")] {
        assert_eq!(state(what), Some(&json!(expected)), "{what}: {found:#?}");
    }
    device.write("/etc/ebb/ebb.d/site.toml", "cluster.kubeconfig = \"/nosuch\"\nslots.limit = true\n")?;
    for words in [&["setup"][..], &["setup", "--check"]] {
        let said = device.ebb(words).await?;
        assert_eq!(said.code, 1, "{said:?}");
        for part in [
            "WRONG    Settings",
            "do: ebb config check",
            "WRONG    Node",
            "No such file",
            "do: is Kubernetes up?",
        ] {
            assert!(said.out.contains(part), "{part}: {}", said.out);
        }
    }
    Ok(())
}

#[tokio::test]
async fn it_says_who_has_to_grant_what_where_a_kubelet_may_see_its_own_node_only() -> Result<()> {
    let site = Site::quick()?;
    site.forbid("list", "nodes");
    let device = device(&site)?;
    let said = device.ebb(&["setup", "--check"]).await?;
    assert_eq!(said.code, 1, "{said:?}");
    for part in
        ["WRONG    Rights", "needs the right to `list` `nodes`", "/usr/share/ebb/kubernetes/ebb-nodes.yaml"]
    {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert!(!said.out.contains("is Kubernetes up?"), "{}", said.out);
    Ok(())
}

#[tokio::test]
async fn a_node_is_given_back_before_the_agents_are_stopped() -> Result<()> {
    let site = Site::quick()?;
    site.pod("web-0", "edge-a")?;
    let mut device = device(&site)?;
    let said = device.ebb(&["setup", "--remove", "--yes"]).await?;
    assert!(said.code == 0 && said.out.starts_with("ebb is out of service"), "{said:?}");

    device.start("zedkube", agent::ZEDKUBE, &[]).await?;
    let report = || device.item::<NodeDrainReport>(agent::ZEDKUBE, "global");
    device
        .until("zedkube knows its cluster", || report().filter(|report| report.member == Member::Yes))
        .await?;
    let said = device.ebb(&["request", "--keep", "--wait"]).await?;
    assert!(said.code == 0 && site.is_cordoned("edge-a"), "{said:?}");
    device.stop().await?;
    device
        .refuses(&["setup", "--remove", "--yes"], 1, "node edge-a is cordoned or has a slot, and zedkube")
        .await?;
    assert!(site.is_cordoned("edge-a"));

    device.start("zedkube", agent::ZEDKUBE, &[]).await?;
    let said = device.ebb(&["setup", "--remove"]).await?;
    assert!(said.code == 0 && said.out.contains("  give node edge-a and its slot back\n"), "{said:?}");
    assert!(site.is_cordoned("edge-a"));
    let said = device.ebb(&["setup", "--remove", "--yes"]).await?;
    assert!(said.code == 0 && said.out.contains("node edge-a is given back\n"), "{said:?}");
    assert!(!site.is_cordoned("edge-a") && site.holders().is_empty());
    assert_eq!(device.record::<NodeDrainRequest>(agent::EBB), None);

    // What a zedkube that is gone has last said there goes, and nobody else's words.
    device.stop().await?;
    let of = |message: &str| json!({"type": "Drained", "status": "False", "message": message});
    site.cluster.edit("nodes", "", "edge-a", |node| {
        put(node, "/metadata", "annotations", json!({"ebb.dev/state": "{}", "site": "x"}));
        put(
            node,
            "/status",
            "conditions",
            json!([{"type": "Ready", "status": "True"}, of("zedkube: returning")]),
        );
    })?;
    let said = device.ebb(&["setup", "--remove", "--yes"]).await?;
    let node = site.node("edge-a");
    assert_eq!((said.code, &node["metadata"]["annotations"]), (0, &json!({"site": "x"})), "{said:?}");
    assert_eq!(node["status"]["conditions"].as_array().map(Vec::len), Some(1), "{node}");
    Ok(())
}
