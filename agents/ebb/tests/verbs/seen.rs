//! `kubectl ebb nodes`, `why` and `history`, which only the plugin has, and which only read.

use anyhow::Result;
use cluster::node_commands::NodeCommand;
use serde_json::{Value, json};

use crate::site::{Said, Site, put};

impl Site {
    async fn plugin_says(&self, words: &str) -> Result<Said> {
        self.finish(self.start_plugin(words)?).await
    }

    /// Adds these conditions to those of the node.
    fn tell(&self, node: &str, conditions: &[Value]) -> Result<()> {
        self.cluster.edit("nodes", "", node, |node| {
            if let Some(all) = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                all.extend(conditions.iter().cloned());
            }
        })?;
        Ok(())
    }

    /// The node is drained by zedkube, and something holds a pod.
    fn drain_blocked(&self, node: &str) -> Result<()> {
        let said = "zedkube: Attempting: 1 of 2 pods is left; this attempt ends at 2026-11-29T17:42:00Z; BLOCKED: budget \
                    shop/db (1 pod: shop/db-0); do: scale it up";
        let of = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": "AdminRequested", "message": message});
        let elsewhere = of("Drained", "False", "zedkube: see condition DrainInProgress");
        self.tell(node, &[of("DrainInProgress", "True", said), elsewhere])?;
        self.cordon(node, "zedkube")
    }
}

/// An admin of whom the API server takes nothing but `get` and `list` of Nodes.
fn forbid_all_but_nodes(site: &Site) {
    for verb in ["get", "list"] {
        for resource in ["configmaps", "events", "pods"] {
            site.forbid(verb, resource);
        }
    }
    for verb in ["watch", "patch", "create"] {
        site.forbid(verb, "*");
    }
}

#[tokio::test]
async fn who_may_read_nodes_alone_sees_everything_else() -> Result<()> {
    let site = Site::passive()?;
    site.drain_blocked("edge-b")?;
    site.hold(&["edge-b"])?;
    let table = |[first, second, third]: [&str; 3]| {
        format!(
            "NODE    STATE      SINCE  WHY                                         SLOT  NEXT\n\
             edge-b  Draining   -      BLOCKED: budget shop/db (1 pod: shop/db-0)  {first:4}  -\n\
             edge-a  InService  -      -                                           {second:4}  -\n\
             edge-c  InService  -      -                                           {third:4}  -\n"
        )
    };
    let said = site.plugin_says("nodes").await?;
    assert_eq!((said.code, said.out, said.err.as_str()), (0, table(["held", "-", "-"]), ""));
    forbid_all_but_nodes(&site);
    let said = site.plugin_says("nodes").await?;
    assert_eq!((said.code, said.out), (0, table(["?", "?", "?"])));
    let right = "needs the right to `get` `configmaps`\n";
    assert!(
        said.err.starts_with("SLOT is not known: cannot get configmaps kube-system/ebb-slots-default"),
        "{}",
        said.err
    );
    assert!(said.err.ends_with(right) && said.err.lines().count() == 1, "{}", said.err);

    let said = site.plugin_says("why edge-b").await?;
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for part in [
        "edge-b is Draining\n",
        "  why:   Attempting: 1 of 2 pods is left\n",
        "BLOCKED: budget shop/db (1 pod: shop/db-0)\n  do:    scale it up\n",
        "  who:   cordoned by zedkube\n",
        "  slot:  not known: cannot get configmaps",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }

    let said = site.plugin_says("history edge-b").await?;
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with("the Events in namespace default cannot be read: cannot list events"),
        "{words}"
    );
    assert!(words.contains("needs the right to `list` `events` edge-b is Draining"), "{words}");
    assert!(said.out.contains("\nedge-b is Draining\n"), "{}", said.out);
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn the_nodes_are_chosen_and_one_that_does_not_exist_is_an_error() -> Result<()> {
    let site = Site::passive()?;
    for (words, code, names, err) in [
        ("nodes", 0, &["edge-a", "edge-b", "edge-c"][..], ""),
        ("nodes -l role=spare", 0, &["edge-c"], ""),
        ("nodes node/edge-b", 0, &["edge-b"], ""),
        ("nodes -l role=none", 0, &[], "No resources found"),
        ("nodes edge-x", 1, &[], "Error from server (NotFound): nodes \"edge-x\" not found"),
        ("why edge-x", 1, &[], "Error from server (NotFound): nodes \"edge-x\" not found"),
        ("why", 1, &[], "USAGE: why NODE [flags]"),
        ("history edge-x", 1, &[], "Error from server (NotFound): nodes \"edge-x\" not found"),
        ("history edge-a edge-b", 1, &[], "USAGE: history NODE [flags]"),
        ("nodes --nonsense", 1, &[], "unexpected argument"),
    ] {
        let said = site.plugin_says(words).await?;
        let found: Vec<&str> =
            said.out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!((said.code, &found[..]), (code, names), "{words}: {said:?}");
        assert!(said.err.contains(err) && said.err.is_empty() == err.is_empty(), "{words}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_node_finds_its_slot_in_the_group_that_it_names() -> Result<()> {
    let site = Site::passive()?;
    let entries = |nodes: &[&'static str]| -> Vec<(&'static str, String)> {
        nodes.iter().map(|node| (*node, site.slot(node).to_string())).collect()
    };
    site.put_slots("line", "ebb-slots-3", &entries(&["edge-a", "edge-b"]))?;
    let mut taken_over = site.slot("edge-c");
    put(&mut taken_over, "", "PassedOver", json!([site.slot("edge-b")]));
    site.put_slots(
        "line",
        "ebb-slots-4",
        &[("edge-b", site.slot("edge-b").to_string()), ("edge-c", taken_over.to_string())],
    )?;
    let name_group = |group: &str| {
        site.cluster.edit("nodes", "", "edge-b", |node| {
            put(node, "/metadata", "annotations", json!({"ebb.dev/slots-group": group}));
        })
    };
    for (group, flags, expected) in [
        ("", "", ["-", "-", "-"]),
        ("", " --slots-namespace line --slots-group 3", ["held", "held", "-"]),
        ("line/3", "", ["-", "held", "-"]),
        ("-", " --slots-namespace line --slots-group 3", ["held", "held", "-"]),
        // Another node has taken over its slot.
        ("line/4", "", ["-", "-", "-"]),
        ("../secrets", "", ["-", "?", "-"]),
    ] {
        name_group(group)?;
        let said = site.plugin_says(&format!("nodes{flags}")).await?;
        let slots: Vec<&str> =
            said.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(4)).collect();
        assert_eq!(slots, expected, "{group} {flags}: {said:?}");
    }
    Ok(())
}

/// Events of other programs, and of an older Node of this name, are none of ours.
#[tokio::test]
async fn the_history_is_that_of_the_events_of_zedkube() -> Result<()> {
    let site = Site::passive()?;
    let uid = site.node("edge-a").pointer("/metadata/uid").cloned().unwrap_or_default();
    for (reason, component, minute) in
        [("Drained", "zedkube", 20), ("Draining", "zedkube", 10), ("Starting", "kubelet", 5)]
    {
        site.cluster.apply(json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("edge-a.{reason}"), "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "edge-a", "uid": uid},
            "source": {"component": component}, "type": "Normal", "reason": reason, "count": 2,
            "message": "said\nso", "lastTimestamp": format!("2026-11-29T17:{minute}:00Z"),
        }))?;
    }
    let said = site.plugin_says("history edge-a").await?;
    let expected = "2026-11-29T17:10:00Z Draining (2 times): said so\n\
                    2026-11-29T17:20:00Z Drained (2 times): said so\n\
                    edge-a is in service: nobody drains it\n\
                    Events are kept for an hour by default (--event-ttl of the API server)\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, expected, ""));
    let said = site.plugin_says("history edge-b").await?;
    assert!(said.out.starts_with("edge-b: ebb has left no Events\nedge-b is in service"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn programs_get_json() -> Result<()> {
    let site = Site::passive()?;
    site.drain_blocked("edge-a")?;
    let counter = NodeCommand::Reboot.counter("n", "now");
    let answer =
        json!({"command": "reboot", "counter": counter, "state": "Acting", "reason": "", "since": "then"});
    site.cluster.edit("nodes", "", "edge-a", |node| {
        put(node, "/metadata/annotations", "ebb.dev/state", json!(answer.to_string()));
    })?;
    let of = async |words: &str| -> Result<Value> {
        Ok(serde_json::from_str(&site.plugin_says(words).await?.out)?)
    };
    let one = of("why edge-a -o json").await?;
    let shown = json!({
        "name": "edge-a", "state": "Draining", "since": null, "why": "Attempting: 1 of 2 pods is left", "byEbb": true,
        "ready": true, "cordoned": true, "cordonedBy": "zedkube", "cordonReason": "",
        "blocked": [{"what": "budget shop/db (1 pod: shop/db-0)", "hint": "scale it up"}], "hint": "",
        "deadline": {"what": "this attempt ends", "at": "2026-11-29T17:42:00Z"},
        "slot": "none", "slotUnknown": null, "slotHolders": [], "commands": [], "answer": answer,
    });
    assert_eq!(one, shown);
    assert_eq!(of("nodes edge-a -o json").await?, json!([shown]), "a table is a list, also of one node");
    assert_eq!(
        of("history edge-a -o json").await?,
        json!({"now": shown, "events": [], "eventsUnknown": null})
    );
    let two = of("why edge-a edge-b -o json").await?;
    assert_eq!(two.pointer("/1/state"), Some(&json!("InService")));
    Ok(())
}
