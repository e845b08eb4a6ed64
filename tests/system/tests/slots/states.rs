//! What a Node says of the commands that it carries, as `kubectl get node -w` shows it.

use std::fs;
use std::process::{self, ExitStatus};

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fleet::{Command, Fleet};

/// Shows each version of the annotation on a line of its own.
const SHOWN: &str = r#"jsonpath={.metadata.annotations.ebb\.dev/state}{"\n"}"#;

/// The answers that `kubectl get node -w` has shown so far, in their order.
fn answers(watch: &Command) -> Result<Vec<Value>> {
    let said = watch.said()?;
    let mut answers: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    answers.dedup();
    Ok(answers)
}

/// The first device of a fleet, its Node, and what is shown of it.
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

    /// Waits until the answer is this one.
    fn until(&mut self, command: &str, state: &str) -> Result<()> {
        let watch = &self.watch;
        self.fleet.until(&format!("{command} is {state}"), |_| {
            let last = answers(watch)?.pop().unwrap_or_default();
            Ok(((&last["command"], &last["state"]) == (&command.into(), &state.into())).then_some(()))
        })
    }

    /// A verb of `kubectl ebb` about the Node.
    fn plugin(&self, verb: &str) -> process::Command {
        let mut command = self.fleet.plugin();
        command.args([verb, &self.node]);
        command
    }

    /// Runs a verb to its end.
    fn run(&mut self, verb: &str) -> Result<ExitStatus> {
        let mut child = self.plugin(verb).arg("--wait").spawn()?;
        self.fleet.until(&format!("{verb} has ended"), |_| Ok(child.try_wait()?))
    }

    fn signal(&mut self, agent: &str, signal: Signal) -> Result<()> {
        let process = self.fleet.devices[0].agent(agent)?.id();
        Ok(kill(Pid::from_raw(process.try_into()?), signal)?)
    }

    fn annotate(&self, text: &str) -> Result<String> {
        self.fleet.plane.run(&["annotate", "node", &self.node, "--overwrite", text])
    }

    /// The text of `ebb.dev/reboot`.
    fn text(&self) -> Result<String> {
        let key = r"jsonpath={.metadata.annotations.ebb\.dev/reboot}";
        self.fleet.plane.run(&["get", "node", &self.node, "-o", key])
    }
}

/// A drain that a budget holds up and that is kept until it is taken back, a reboot, an update, a text that is too long, and
/// one that may be old because the device has lost what it knew of its Node. The other node makes this a cluster.
#[test]
#[expect(clippy::print_stdout, reason = "the states as a person sees them, for --no-capture")]
fn a_node_says_every_state_of_its_commands() -> Result<()> {
    let mut bench = Bench::start(Fleet::start("states", 2, 1)?)?;

    bench.fleet.forbid_evictions()?;
    assert!(bench.plugin("request").spawn()?.wait()?.success());
    bench.until("drain", "Draining")?;
    bench.fleet.allow_evictions()?;
    bench.until("drain", "Drained")?;
    assert!(bench.run("cancel")?.success());
    bench.fleet.until_is_free(0)?;

    bench.signal("device-op", Signal::SIGSTOP)?;
    bench.plugin("reboot").args(["--reason", "kernel"]).spawn()?.wait()?;
    let text = bench.text()?;
    bench.until("reboot", "Waiting")?;
    bench.signal("device-op", Signal::SIGCONT)?;
    bench.until("reboot", "Done")?;
    bench.fleet.until_is_free(0)?;
    let actions = bench.fleet.devices[0].actions()?;
    let reasons: Vec<&str> = actions.iter().map(|action| action.reason.as_str()).collect();
    assert!(
        matches!(*reasons, [reason] if reason.ends_with(&format!("; commanded ({text})"))),
        "{reasons:?}"
    );

    let image = ["--image", "6ba7b810-9dad-11d1-80b4-000000000002", "--version", "2.0"];
    assert!(bench.plugin("update").args(image).spawn()?.wait()?.success());
    bench.until("update", "Done")?;
    assert!(bench.run("cancel")?.success());
    bench.fleet.until_is_free(0)?;

    bench.annotate(&format!("ebb.dev/reboot={}", "x".repeat(2000)))?;
    bench.until("reboot", "Failed")?;
    assert!(bench.run("cancel")?.success());

    bench.fleet.switch_off(0)?;
    fs::remove_file(bench.fleet.devices[0].path("/persist/status/zedkube/UncommandedNode/global.json"))?;
    bench.annotate("ebb.dev/shutdown=old")?;
    bench.fleet.switch_on(0)?;
    bench.until("shutdown", "Recorded")?;

    // In a dry run Acting is over within a few milliseconds, and is often not written any more.
    let mut missing = vec!["Recorded", "Waiting", "Draining", "Drained", "Done", "Failed"];
    for answer in answers(&bench.watch)? {
        println!("{answer}");
        missing.retain(|state| answer["state"] != *state);
    }
    assert_eq!(missing, [""; 0]);
    let actions = bench.fleet.devices[0].actions()?;
    let actions: Vec<&str> = actions.iter().map(|action| action.action.as_str()).collect();
    assert_eq!(actions, ["reboot", "activate"]);
    Ok(())
}
