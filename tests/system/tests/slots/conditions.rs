//! What the conditions of a Node say about its drain, on the real API server: `kubectl describe node` shows them to people,
//! and `kubectl wait` waits for them.

use std::process::{self, ExitStatus};

use anyhow::Result;
use serde_json::{Value, json};

use crate::PROGRAM;
use crate::fleet::{Command, Fleet};

/// Shows both conditions in each version of the Node, as `True False AdminRequested`; a blank line without them.
const SHOWN: &str = r#"jsonpath={.status.conditions[?(@.type=="DrainInProgress")].status} {.status.conditions[?(@.type=="Drained")].status} {.status.conditions[?(@.type=="DrainInProgress")].reason}{"\n"}"#;

/// A device, its Node, and what is shown of it.
struct Bench {
    fleet: Fleet,
    node: String,
    watch: Command,
}

impl Bench {
    fn start(fleet: Fleet) -> Result<Self> {
        let node = fleet.nodes().swap_remove(0);
        let watch = fleet.watch_node(&node, SHOWN)?;
        Ok(Self { fleet, node, watch })
    }

    /// All that was shown so far, without repetitions.
    fn shown(&self) -> Result<Vec<String>> {
        let said = self.watch.said()?;
        let mut shown: Vec<String> = said.lines().map(|line| line.trim().to_owned()).collect();
        shown.dedup();
        Ok(shown)
    }

    /// Waits until the Node shows this, and gives the message of the condition DrainInProgress.
    fn until(&mut self, expected: &str, words: &str) -> Result<String> {
        let path = format!("/api/v1/nodes/{}", self.node);
        self.fleet.until(&format!("the Node shows `{expected}` and `{words}`"), |fleet| {
            let node = fleet.api.get(&path)?;
            let find = |kind: &str| {
                let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
                conditions
                    .into_iter()
                    .find(|condition| condition["type"] == kind)
                    .cloned()
                    .unwrap_or_default()
            };
            let (progress, drained) = (find("DrainInProgress"), find("Drained"));
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let shown = [&progress["status"], &drained["status"], &progress["reason"]].map(text).join(" ");
            let message = text(&progress["message"]);
            Ok((shown.trim() == expected && message.contains(words)).then_some(message))
        })
    }

    fn run(&mut self, verb: &[&str]) -> Result<ExitStatus> {
        let mut child = self.fleet.plugin().args(verb).arg(&self.node).spawn()?;
        self.fleet.until(&format!("{verb:?} has ended"), |_| Ok(child.try_wait()?))
    }

    /// The three drains of the story are in the device's own history, with their ways back.
    fn are_in_the_history(&mut self) -> Result<()> {
        let root = self.fleet.devices[0].root().path().to_owned();
        let drains = self.fleet.until("the last drain has an end in the history", |_| {
            let said =
                process::Command::new(PROGRAM).args(["history", "--json", "--root"]).arg(&root).output()?;
            let drains: Vec<Value> = serde_json::from_slice(&said.stdout)?;
            let is_over = drains.last().is_some_and(|drain| drain["IsOver"] == true);
            Ok(is_over.then_some(drains))
        })?;
        let told = |drain: &Value| json!([drain["Ending"], drain["Pods"], drain["PodsGone"]]);
        // A zedkube that starts again may begin a drain anew, which is then withdrawn.
        let ended = drains.iter().filter(|drain| drain["Ending"] != "Withdrawn");
        let told: Vec<Value> = ended.map(told).collect();
        let expected = json!([["Failed", 2, 0], ["Drained", 2, 2], ["Drained", 0, 0]]);
        assert_eq!(Value::from(told), expected);
        assert!(drains.last().is_some_and(|drain| drain["BackMillis"].is_u64()), "{drains:#?}");
        Ok(())
    }

    /// zedkube is killed, and started again with these settings.
    fn restart_zedkube_with(&mut self, settings: &[&str]) -> Result<()> {
        self.fleet.devices[0].kill("zedkube");
        for setting in settings {
            self.fleet.devices[0].set(setting);
        }
        self.fleet.devices[0].start("zedkube")
    }
}

/// A drain that fails; one that a budget holds up, with a zedkube that is killed in the middle, and that is taken back while
/// zedkube is dead; and a reboot, through its boot. The other node makes this a cluster.
#[test]
#[expect(clippy::print_stdout, reason = "the conditions as a person sees them, for --no-capture")]
fn the_conditions_of_a_node_tell_its_drain_and_go_with_it() -> Result<()> {
    let mut bench = Bench::start(Fleet::start("told", 2, 1)?)?;
    bench.fleet.forbid_evictions()?;
    bench.restart_zedkube_with(&["drain.attempt-timeout=3s", "drain.attempts=1"])?;
    assert!(bench.run(&["request"])?.success());
    bench.until("False False DrainFailed", "do: ")?;
    assert!(bench.run(&["cancel", "--wait"])?.success());
    bench.until("", "")?;

    bench.restart_zedkube_with(&["drain.attempt-timeout=1h", "drain.attempts=5"])?;
    assert!(bench.run(&["request"])?.success());
    let message = bench.until("True False AdminRequested", "BLOCKED: ")?;
    assert!(message.starts_with("zedkube: Attempting: attempt 1: 0 of 2 pods"), "{message}");
    bench.restart_zedkube_with(&[])?;
    bench.fleet.until("it is told why the pods stay", |fleet| fleet.has_events(&["Blocked"]))?;
    println!("{}", bench.fleet.plane.run(&["describe", "node", &bench.node])?);
    bench.fleet.allow_evictions()?;
    bench.until("False True DrainCompleted", "see condition Drained")?;
    bench.fleet.devices[0].kill("zedkube");
    assert!(bench.run(&["cancel"])?.success());
    bench.fleet.devices[0].start("zedkube")?;
    bench.until("", "")?;
    bench.fleet.until_is_free(0)?;

    assert!(bench.run(&["reboot", "--wait"])?.success());
    bench.until("", "")?;
    bench.fleet.until_is_free(0)?;
    let shown = bench.shown()?;
    println!("{shown:#?}");
    // A Node that returns may be too quick to be seen.
    let shown: Vec<&str> =
        shown.iter().map(String::as_str).filter(|shown| !shown.ends_with("Returning")).collect();
    let (draining, drained) = ("True False AdminRequested", "False True DrainCompleted");
    let expected =
        ["", draining, "False False DrainFailed", "", draining, drained, "", draining, drained, ""];
    let mut seen = shown.into_iter();
    for wanted in expected {
        assert!(seen.any(|shown| shown == wanted), "{wanted} in {:#?}", bench.shown()?);
    }
    bench.are_in_the_history()?;
    let node = &["Draining", "Blocked", "Drained", "DrainFailed", "Returned"];
    assert!(bench.fleet.has_events(node)?.is_some(), "{}", bench.fleet.plane.run(&["get", "events", "-A"])?);
    Ok(())
}
