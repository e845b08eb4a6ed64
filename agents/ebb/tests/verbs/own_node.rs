//! `ebb uncordon --self`.

use anyhow::Result;
use pubsub::AgentLock;
use schemas::{
    DrainRequester, DrainStatus, GoTime, NodeDrainReport, NodeDrainRequest, RequestLine, Topic, agent,
};
use serde_json::Value;

use crate::device::Device;
use crate::site::{Said, Site};

/// A device that is `edge-a`, without agents.
fn device() -> Result<Device> {
    let device = Device::new()?;
    device.write("/etc/ebb/ebb.toml", "node.name = \"edge-a\"\n")?;
    Ok(device)
}

async fn give_back(site: &Site, device: &Device, flags: &str) -> Result<Said> {
    let kubeconfig = site.kubeconfig().display().to_string();
    let words: Vec<&str> = flags.split_whitespace().chain(["--kubeconfig", &kubeconfig]).collect();
    device.ebb(&[&["uncordon", "--self"], words.as_slice()].concat()).await
}

fn request(context: &str) -> NodeDrainRequest {
    NodeDrainRequest { requested_at: time(), requested_by: DrainRequester::DeviceOp, context: context.into() }
}

fn time() -> GoTime {
    "2026-11-21T14:00:00Z".parse().unwrap_or_default()
}

fn report(publisher: &str, answer: DrainStatus) -> NodeDrainReport {
    let line = RequestLine {
        publisher: publisher.into(),
        requested_at: time(),
        context: "reboot".into(),
        answer,
        ..RequestLine::default()
    };
    NodeDrainReport { requests: vec![line], ..NodeDrainReport::default() }
}

#[tokio::test]
async fn cordon_and_slot_are_given_back() -> Result<()> {
    let site = Site::passive()?;
    let device = device()?;
    site.cordon("edge-a", "zedkube")?;
    site.hold(&["edge-a", "edge-b"])?;
    // The gates of zedkube's own return do not count.
    site.lose("edge-a")?;

    let said = give_back(&site, &device, "--dry-run=client").await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a uncordoned (dry run)\n"), "{said:?}");
    assert!(site.is_cordoned("edge-a") && site.changes().is_empty());

    let said = give_back(&site, &device, "").await?;
    let expected = "node/edge-a uncordoned\nthe slot of edge-a is given back\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, expected, ""));
    assert!(!site.is_cordoned("edge-a"));
    assert_eq!(site.node("edge-a")["metadata"]["annotations"]["ebb.dev/cordoned-by"], Value::Null);
    assert!(site.holders() == ["edge-b"]);

    let said = give_back(&site, &device, "").await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a already uncordoned\n"), "{said:?}");
    let said = give_back(&site, &device, "--node edge-b").await?;
    let expected = "node/edge-b already uncordoned\nthe slot of edge-b is given back\n";
    assert_eq!((said.code, said.out.as_str()), (0, expected), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn somebody_elses_cordon_is_lifted_only_by_force() -> Result<()> {
    for (owner, part) in
        [("ebb:alice", "ebb:alice has cordoned it, not zedkube"), ("", "somebody has cordoned it")]
    {
        let site = Site::passive()?;
        let device = device()?;
        site.cordon("edge-a", owner)?;
        site.hold(&["edge-a"])?;
        let said = give_back(&site, &device, "--dry-run=client").await?;
        assert!(said.code == 1 && site.holders() == ["edge-a"], "{owner}: {said:?}");
        let said = give_back(&site, &device, "").await?;
        assert!(said.code == 1 && said.err.contains(part), "{owner}: {said:?}");
        assert_eq!(said.out, "the slot of edge-a is given back\n");
        assert!(site.is_cordoned("edge-a") && site.holders().is_empty(), "the slot is ours: {said:?}");
        let said = give_back(&site, &device, "--force").await?;
        assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a uncordoned\n"), "{owner}: {said:?}");
        assert!(!site.is_cordoned("edge-a"), "{owner}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_goes_down_soon_stays_cordoned() -> Result<()> {
    let (complete, failed) = (DrainStatus::Complete, DrainStatus::FailedDrain);
    let cases: [(Option<&str>, Option<(&str, DrainStatus)>, bool, Option<&str>); 7] = [
        (Some(agent::ZEDAGENT), None, false, Some("device-op (reboot)")),
        (Some(agent::EBB), None, true, Some("ebb (reboot)")),
        (Some(agent::ZEDAGENT), Some((agent::ZEDAGENT, complete)), true, Some("device-op (reboot)")),
        // zedkube would give such a node back itself.
        (Some(agent::ZEDAGENT), Some((agent::ZEDAGENT, failed)), true, None),
        (Some(agent::ZEDAGENT), Some((agent::BASEOSMGR, failed)), true, Some("device-op (reboot)")),
        // The file is gone, and zedkube has not seen that yet.
        (None, Some((agent::ZEDAGENT, complete)), true, Some("device-op (reboot)")),
        (None, Some((agent::ZEDAGENT, complete)), false, None),
    ];
    for (asks, answer, runs, expected) in cases {
        let site = Site::passive()?;
        let device = device()?;
        site.cordon("edge-a", "zedkube")?;
        if let Some(publisher) = asks {
            device.publish(publisher, "global", &request("reboot"))?;
        }
        if let Some((publisher, answer)) = answer {
            device.publish(agent::ZEDKUBE, "global", &report(publisher, answer))?;
        }
        let lock = if runs { Some(AgentLock::acquire(&device.root, agent::ZEDKUBE)?) } else { None };
        let said = give_back(&site, &device, "").await?;
        assert_eq!(said.code, i32::from(expected.is_some()), "{asks:?} {answer:?}: {said:?}");
        if let Some(who) = expected {
            assert!(said.err.contains(&format!("a drain of this node is asked for by {who}: ")), "{said:?}");
            assert!(site.is_cordoned("edge-a") && site.changes().is_empty(), "{said:?}");
            let said = give_back(&site, &device, "--force").await?;
            assert!(
                said.code == 0 && said.err.contains("pods may come to a node that goes down"),
                "{said:?}"
            );
        }
        assert!(!site.is_cordoned("edge-a"), "{asks:?} {answer:?}: {said:?}");
        drop(lock);
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_known_or_done() -> Result<()> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    site.hold(&["edge-a"])?;
    let device = device()?;
    for (flags, code, part) in [
        ("edge-a", 1, "cannot be used with"),
        ("--dry-run=server", 1, "--dry-run=server is not supported here"),
        ("--node nosuch", 1, "no Node of this cluster is this machine"),
        ("--dry-run=client --config /nosuch", 0, "Warning: /nosuch: the file is ignored: "),
    ] {
        let said = give_back(&site, &device, flags).await?;
        assert!(said.code == code && said.err.contains(part), "{flags}: {said:?}");
        assert!(site.is_cordoned("edge-a") && site.changes().is_empty(), "{flags}: {said:?}");
    }
    let said = site.ebb("uncordon --config /x").await?;
    assert!(said.code == 1 && said.err.contains("--self"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn bad_files_and_a_lease_that_does_not_answer() -> Result<()> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    site.hold(&["edge-a"])?;
    let device = device()?;
    let name = NodeDrainRequest::NAME;
    device.write(&format!("/run/zedagent/{name}/global.json"), "{")?;
    let said = give_back(&site, &device, "").await?;
    assert!(said.code == 1 && said.err.contains("device-op, whose request cannot be read"), "{said:?}");
    std::fs::remove_file(device.path(&format!("/run/zedagent/{name}/global.json")))?;

    // Which Node this is must not be guessed when EVE's word cannot be read.
    std::fs::remove_file(device.path("/etc/ebb/ebb.toml"))?;
    device.write("/run/zedagent/EdgeNodeInfo/global.json", "{")?;
    let said = give_back(&site, &device, "").await?;
    assert!(said.code == 1 && said.err.contains("cannot tell which Node is this machine"), "{said:?}");
    assert!(site.is_cordoned("edge-a") && site.changes().is_empty(), "{said:?}");

    site.forbid("get", "configmaps");
    let said = give_back(&site, &device, "--node edge-a").await?;
    assert_eq!((said.code, said.out.as_str()), (1, "node/edge-a uncordoned\n"), "{said:?}");
    assert!(said.err.contains("needs the right to `get` `configmaps`"), "{said:?}");
    Ok(())
}
