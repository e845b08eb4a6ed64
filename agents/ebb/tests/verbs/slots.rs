//! `ebb slots`.

use anyhow::Result;
use fake_cluster::{Effect, Fault, Reply};
use serde_json::{Value, json};

use crate::site::Site;

const NAME: &str = "ebb-slots-default";

fn words(site: &Site, more: &str) -> String {
    format!("slots {more} --root {}", site.folder.path().display())
}

#[tokio::test]
async fn who_has_a_slot() -> Result<()> {
    let site = Site::passive()?;
    let said = site.ebb(&words(&site, "list")).await?;
    let nobody =
        "no node has a slot; group default: 0 taken, limit 1 (ConfigMap kube-system/ebb-slots-default)\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, nobody, ""));
    assert_eq!(site.cluster.get("configmaps", "kube-system", NAME), None, "a look makes no ConfigMap");

    site.hold(&["edge-a", "edge-b"])?;
    site.cordon("edge-a", "zedkube")?;
    site.cluster.delete("nodes", "", "edge-b");
    site.lose("edge-c")?;
    let said = site.ebb(&words(&site, "list --set slots.limit=2 --json")).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!(
        (&document["Group"], &document["Limit"], &document["Taken"]),
        (&json!("default"), &json!(2), &json!(2))
    );
    let first = &document["Holders"][0];
    assert_eq!(
        (&first["Node"], &first["BootID"], &first["InUse"]),
        (&json!("edge-a"), &json!("0f3c21aa-7c1e"), &json!(true))
    );
    assert_eq!(
        (&document["Holders"][1]["InUse"], &document["Down"][0]["Node"]),
        (&json!(false), &json!("edge-c"))
    );
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn which_map_is_meant() -> Result<()> {
    let site = Site::passive()?;
    site.put_slots("fleet", "ebb-slots-line-3", &[("edge-a", site.slot("edge-a").to_string())])?;
    for (more, code, part) in [
        (
            "list --group line-3 --namespace fleet",
            0,
            "group line-3: 1 taken, limit 1 (ConfigMap fleet/ebb-slots-line-3)\n",
        ),
        ("list --set slots.group=line-3 --set slots.namespace=fleet", 0, "group line-3: 1 taken"),
        ("list --set slots.group=x --group line-3 --namespace fleet", 0, "group line-3: 1 taken"),
        ("list --group Line_3", 1, "slots.group = Line_3 is not accepted"),
        ("list --namespace ../../api", 1, "slots.namespace = ../../api is not accepted"),
        ("release node/edge-a --group line-3 --namespace fleet", 0, "the slot of edge-a is free\n"),
    ] {
        let said = site.ebb(&words(&site, more)).await?;
        let text = if code == 0 { &said.out } else { &said.err };
        assert!(said.code == code && text.contains(part), "{more}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_slot_in_use_is_released_only_by_force() -> Result<()> {
    let in_use = "edge-a is Ready, cordoned by zedkube";
    for (more, left) in [("release edge-a", &["edge-b"][..]), ("release --all", &[])] {
        let site = Site::passive()?;
        site.hold(&["edge-a", "edge-b"])?;
        site.cordon("edge-a", "zedkube")?;
        let said = site.ebb(&words(&site, more)).await?;
        let part = format!("the slot is in use: {in_use}; another node could go down");
        assert!(said.code == 1 && said.out.is_empty() && said.err.contains(&part), "{more}: {said:?}");
        assert_eq!(site.holders().len(), 2, "{more}");
        let said = site.ebb(&words(&site, &format!("{more} --force"))).await?;
        let part = format!(", although in use ({in_use}): two nodes may now be down at once");
        assert!(said.code == 0 && said.out.contains(&part), "{more}: {said:?}");
        assert_eq!(site.holders(), left, "{more}");
        assert_eq!(site.node("edge-a")["spec"].get("unschedulable"), None, "it would still count: {more}");
    }
    Ok(())
}

/// The entry was lost with the ConfigMap; the node counts because zedkube has cordoned it.
#[tokio::test]
async fn a_cordoned_node_without_an_entry_is_released_only_by_force() -> Result<()> {
    let site = Site::passive()?;
    site.cordon("edge-a", "zedkube")?;
    site.cordon("edge-b", "ebb:alice")?;
    let said = site.ebb(&words(&site, "list")).await?;
    assert!(said.out.contains("1 taken") && said.out.contains("edge-a  cordoned"), "{said:?}");
    for more in ["release edge-a", "release --all"] {
        let said = site.ebb(&words(&site, more)).await?;
        let part = "the slot is in use: edge-a is Ready, cordoned by zedkube";
        assert!(said.code == 1 && said.err.contains(part), "{more}: {said:?}");
    }
    assert_eq!(site.changes(), [""; 0]);
    let said = site.ebb(&words(&site, "release edge-a --force")).await?;
    assert!(said.code == 0 && said.out.starts_with("the slot of edge-a is free, although"), "{said:?}");
    assert_eq!(site.changes(), ["patch nodes edge-a"]);
    let said = site.ebb(&words(&site, "release edge-b --force")).await?;
    assert!(said.code == 1 && said.err.contains("edge-b has no slot"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_released_is_told() -> Result<()> {
    let site = Site::passive()?;
    let said = site.ebb(&words(&site, "release --all")).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "no node has a slot\n"));
    assert_eq!(site.changes(), [""; 0]);
    site.hold(&["edge-a", "edge-b"])?;
    let said = site.ebb(&words(&site, "release edge-c")).await?;
    let part = "node edge-c has no slot of group default; `ebb slots list` says who has one";
    assert!(said.code == 1 && said.err.contains(part), "{said:?}");
    let said = site.ebb(&words(&site, "release --all --json")).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!((said.code, &document["Released"]), (0, &json!(["edge-a", "edge-b"])), "{said:?}");
    assert_eq!(
        (&document["InUse"], &document["Text"]),
        (&json!([]), &json!("the slots of edge-a, edge-b are free"))
    );
    // The entry of a Node that was deleted and created again counts while the new Node is out of service.
    site.hold(&["edge-a"])?;
    site.cluster.delete("nodes", "", "edge-a");
    site.cluster.node("edge-a")?;
    site.cordon("edge-a", "zedkube")?;
    let said = site.ebb(&words(&site, "release edge-a")).await?;
    assert!(said.code == 1 && said.err.contains("edge-a is Ready, cordoned by zedkube"), "{said:?}");
    site.cluster.delete("nodes", "", "edge-a");
    let said = site.ebb(&words(&site, "release edge-a")).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "the slot of edge-a is free\n"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn an_entry_that_nobody_can_read() -> Result<()> {
    let site = Site::passive()?;
    let good = site.slot("edge-a").to_string();
    site.put_slots("kube-system", NAME, &[("edge-a", good), ("edge-b", "{\"Node\": 1}".to_owned())])?;
    site.cordon("edge-b", "zedkube")?;
    let said = site.ebb(&words(&site, "release edge-b")).await?;
    assert!(said.code == 1 && said.err.contains("edge-b is Ready, cordoned by zedkube"), "{said:?}");
    let said = site.ebb(&words(&site, "release edge-b --force")).await?;
    assert!(said.code == 0 && said.out.starts_with("the slot of edge-b is free"), "{said:?}");
    assert_eq!(site.holders(), ["edge-a"]);
    Ok(())
}

#[tokio::test]
async fn others_who_change_the_slots_are_waited_for_ten_times() -> Result<()> {
    let conflict = || Effect::Answer(Reply::text(409, "somebody was faster"));
    for (times, code) in [(9, 0), (10, 1)] {
        let site = Site::passive()?;
        site.hold(&["edge-a"])?;
        site.cluster.faults().add(Fault::on("patch", "configmaps", conflict()).times(times));
        let said = site.ebb(&words(&site, "release edge-a")).await?;
        assert_eq!((said.code, site.holders().is_empty()), (code, code == 0), "{times}: {said:?}");
        assert_eq!(site.cluster.requests().count("ebb/", "patch", "configmaps"), 10, "{times}");
        assert_eq!(said.err.contains("each of 10 times; try again"), code == 1, "{said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_right_is_named() -> Result<()> {
    for (verb, resource, more) in [
        ("get", "configmaps", "list"),
        ("list", "nodes", "release edge-a"),
        ("patch", "configmaps", "release edge-a"),
    ] {
        let site = Site::passive()?;
        site.hold(&["edge-a"])?;
        site.forbid(verb, resource);
        let said = site.ebb(&words(&site, more)).await?;
        let part = format!("needs the right to `{verb}` `{resource}`");
        assert!(said.code == 1 && said.err.contains(&part), "{more} {verb}: {said:?}");
        assert_eq!(site.holders(), ["edge-a"], "{more} {verb}");
    }
    let site = Site::passive()?;
    site.hold(&["edge-a"])?;
    site.forbid("list", "nodes");
    assert_eq!(site.ebb(&words(&site, "release edge-a --force")).await?.code, 0, "force needs no look");
    Ok(())
}
