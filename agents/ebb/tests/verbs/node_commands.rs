//! `kubectl ebb reboot`, `shutdown`, `update` and `cancel`, which only the plugin has.

use anyhow::{Context, Result};
use cluster::node_commands::{NodeCommand, UpdateText};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::site::{Said, Site, put};

const REBOOT: &str = "ebb.dev/reboot";

impl Site {
    /// An annotation of the node; empty if it has none of this name.
    fn annotation(&self, node: &str, key: &str) -> String {
        let node = self.node(node);
        let annotations = node.pointer("/metadata/annotations").and_then(Value::as_object);
        annotations.and_then(|all| all.get(key)?.as_str()).unwrap_or_default().to_owned()
    }

    /// Answers the reboot that stands on the node, as zedkube does.
    fn answer(&self, node: &str, state: &str) -> Result<()> {
        let before = self.node(node);
        let uid = before.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let counter = NodeCommand::Reboot.counter(uid, &self.annotation(node, REBOOT));
        let answer =
            json!({"command": "reboot", "counter": counter, "state": state, "reason": "why", "since": "now"});
        self.cluster.edit("nodes", "", node, |node| {
            put(node, "/metadata/annotations", "ebb.dev/state", json!(answer.to_string()));
        })?;
        Ok(())
    }

    async fn plugin(&self, words: &str) -> Result<Said> {
        self.finish(self.start_plugin(words)?).await
    }
}

#[tokio::test]
async fn commands_are_given_once_and_taken_back() -> Result<()> {
    let site = Site::passive()?;
    let long = format!("reboot edge-a --reason {}", "x".repeat(1024));
    let cases = [
        (
            "reboot edge-a --dry-run=client",
            0,
            "node/edge-a reboot commanded (dry run)\n",
            "reboot would be: 2",
        ),
        ("request edge-a --dry-run=client", 0, "node/edge-a drain commanded (dry run)\n", "ebb.dev/drain"),
        ("reboot edge-a --dry-run=server", 1, "", "--dry-run=server is not supported here"),
        ("reboot edge-a --timeout 5s", 1, "", "--wait"),
        ("shutdown", 1, "", "USAGE: shutdown NODE [flags]"),
        (long.as_str(), 1, "", "--reason is too long: with the time and your name 10"),
        ("cancel edge-a", 0, "node/edge-a has no command\n", ""),
    ];
    for (words, code, out, err) in cases {
        let said = site.plugin(words).await?;
        assert_eq!((said.code, said.out.as_str()), (code, out), "{words}: {said:?}");
        assert!(said.err.contains(err), "{words}: {said:?}");
    }
    assert_eq!(site.changes(), [""; 0]);

    let said = site.plugin("reboot edge-a --reason disk").await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a reboot commanded\n"));
    assert!(
        said.err.contains("kubectl get node edge-a -o jsonpath='{.metadata.annotations.ebb\\.dev/state}'"),
        "{said:?}"
    );
    let first = site.annotation("edge-a", REBOOT);
    assert!(first.contains(" by ") && first.ends_with(": disk"), "{first}");

    for (answer, answered, code, out) in [
        (None, "no answer yet", 1, "node/edge-b reboot commanded\n"),
        (Some("Draining"), "Draining: why", 1, ""),
        (Some("Done"), "", 1, "node/edge-a reboot commanded\n"),
    ] {
        if let Some(state) = answer {
            site.answer("edge-a", state)?;
        }
        let said = site.plugin("reboot edge-a edge-b").await?;
        assert_eq!((said.code, said.out.as_str()), (code, out), "{answer:?}: {said:?}");
        let refusal = format!(
            "error: unable to reboot node \"edge-a\": reboot is commanded already ({answered}): `kubectl ebb cancel edge-a` takes it back\n"
        );
        assert_eq!(said.err.contains(&refusal), out != "node/edge-a reboot commanded\n", "{said:?}");
    }
    assert_ne!(site.annotation("edge-a", REBOOT), first);

    site.plugin("shutdown edge-a").await?;
    site.answer("edge-a", "Failed")?;
    site.answer("edge-b", "Acting")?;
    let said = site.plugin("cancel edge-a edge-b edge-c").await?;
    let out = "node/edge-a reboot taken back (it was over: Failed)\nnode/edge-a shutdown taken back\nnode/edge-c has no command\n";
    let err = "error: unable to cancel node \"edge-b\": too late: the device is going down for its reboot, since now\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (1, out, err));
    let left = [("edge-a", REBOOT), ("edge-a", "ebb.dev/shutdown"), ("edge-b", REBOOT)];
    assert_eq!(left.map(|(node, key)| site.annotation(node, key).is_empty()), [true, true, false]);
    Ok(())
}

#[tokio::test]
async fn an_update_names_its_image() -> Result<()> {
    let site = Site::passive()?;
    let said = site.plugin("update edge-a --image 2.0 --version 2.0").await?;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("invalid value '2.0' for '--image <UUID>'"), "{said:?}");
    let image = "6ba7b810-9dad-11d1-80b4-000000000002";
    let said = site.plugin(&format!("update edge-a --image {image} --version 2.0 --reason kernel")).await?;
    assert_eq!((said.code, said.out.as_str()), (0, "node/edge-a update commanded\n"));
    let text = UpdateText::parse(&site.annotation("edge-a", "ebb.dev/update")).map_err(anyhow::Error::msg)?;
    assert_eq!((text.image.as_str(), text.version.as_str()), (image, "2.0"));
    assert!(text.reason.ends_with(": kernel"), "{text:?}");
    Ok(())
}

#[tokio::test]
async fn each_state_is_told_until_the_end() -> Result<()> {
    let site = Site::passive()?;
    let mut child = site.start_plugin("reboot edge-a edge-b --wait")?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let mut line = async || anyhow::Ok(lines.next_line().await?.unwrap_or_default());
    assert_eq!(line().await?, "node/edge-a reboot commanded");
    assert_eq!(line().await?, "node/edge-b reboot commanded");
    for state in ["Waiting", "Draining", "Acting"] {
        site.answer("edge-a", state)?;
        assert_eq!(line().await?, format!("node/edge-a {state}: why"));
        // The device goes down.
        site.lose("edge-a")?;
    }
    assert_eq!(site.plugin("cancel edge-b").await?.code, 0);
    site.answer("edge-a", "Done")?;
    assert_eq!(line().await?, "node/edge-a rebooted");
    let said = site.finish(child).await?;
    let err = "error: unable to reboot node \"edge-b\": the command was taken back\n1 of 2 nodes are not rebooted: edge-b\n";
    assert_eq!((said.code, said.err.as_str()), (1, err));
    Ok(())
}

#[tokio::test]
async fn who_ends_the_waiting_is_told_what_stays() -> Result<()> {
    let site = Site::passive()?;
    let mut child = site.start_plugin("reboot edge-a --wait")?;
    site.until(|_| !site.annotation("edge-a", REBOOT).is_empty()).await?;
    site.answer("edge-a", "Draining")?;
    let mut out = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    while out.next_line().await?.context("it has ended")? != "node/edge-a Draining: why" {}
    let said = site.stop(child, Signal::SIGINT).await?;
    let err = "interrupted: the command stands; `kubectl ebb cancel edge-a` takes it back\n";
    assert_eq!((said.code, said.err.as_str()), (130, err));
    let said = site.plugin("cancel edge-a --wait --timeout 300ms").await?;
    let err = "error: unable to cancel node \"edge-a\": --timeout is over; the command stays taken back; the last answer: none\n";
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (1, "node/edge-a reboot taken back\n", err)
    );
    Ok(())
}
