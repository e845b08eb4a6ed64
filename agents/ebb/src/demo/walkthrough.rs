//! Prints the events of the demonstration as they happen, read only from the agents' files, and what a person can type.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use fake_cluster::FakeCluster;
use pubsub::{Persistence, Subscription, TopicKey};
use runtime::clock;
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DrainStatus, Member, NodeDrainReport,
    NodeDrainStatus, Topic, agent,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::DemoArguments;
use super::fixture::{Fixture, NODE};
use super::scene::{Scene, Typed, zedkube};
use crate::operator::quoted;
use crate::screen;

/// Limit for what the agents do by themselves; later means a defect.
const PATIENCE: Duration = Duration::from_mins(2);

/// Without an event for this long, a drain that is in trouble hangs.
const QUIET: Duration = Duration::from_secs(2);

/// The operator's command.
const REBOOT: [&str; 3] = ["reboot", "--reason", "fan swap"];

/// Pods that are named in one line.
const NAMES: usize = 3;

/// Acts as an operator, and prints what the agents do.
#[derive(Debug)]
pub(crate) struct Walkthrough<'a> {
    fixture: &'a Fixture,
    began: u64,
    status: Subscription<NodeDrainStatus>,
    report: Subscription<NodeDrainReport>,
    operation: Subscription<DeviceOpStatus>,
    action: Subscription<DeviceAction>,
    printed: Printed,
}

/// Values that were printed last, so that each is printed once.
#[derive(Debug, Default)]
struct Printed {
    status: Option<NodeDrainStatus>,
    phase: String,
    progress: Option<schemas::Progress>,
    operation: Option<DeviceOpState>,
    action: Option<DeviceActionState>,
}

impl<'a> Walkthrough<'a> {
    /// Opens the topics.
    pub(crate) fn begin(fixture: &'a Fixture) -> Self {
        let (root, volatile) = (fixture.root(), Persistence::Volatile);
        Self {
            fixture,
            began: clock::boot_millis(),
            status: Subscription::open(root, agent::ZEDKUBE, volatile),
            report: Subscription::open(root, agent::ZEDKUBE, volatile),
            operation: Subscription::open(root, agent::ZEDAGENT, volatile),
            action: Subscription::open(root, agent::NODEAGENT, volatile),
            printed: Printed::default(),
        }
    }

    /// Tells a drain from the command to the recorded reboot, or a scene. Returns if that is the end; a scene and
    /// `--hold` have none.
    pub(crate) async fn tell(&mut self, arguments: &DemoArguments) -> anyhow::Result<()> {
        self.say(&format!("four agents and a cluster of three nodes are up; this machine is node {NODE}"));
        self.ready().await?;
        if let Some(scene) = arguments.scene {
            self.play(scene).await?;
            self.offer(scene)?;
        } else {
            self.verb(&REBOOT).await?;
            self.until("the reboot is recorded", Self::is_recorded).await?;
            self.where_to_look();
            if !arguments.hold {
                return Ok(());
            }
            self.hand_over()?;
        }
        self.follow(arguments.scene).await
    }

    /// Makes the scene, commands the reboot, and returns when the drain hangs.
    async fn play(&mut self, scene: Scene) -> anyhow::Result<()> {
        let script = scene.script();
        scene.begin(self.fixture)?;
        // A pod that has not started yet is evicted whatever its budget says.
        let running = |cluster: &FakeCluster| cluster.pods_on(NODE).iter().all(is_ready).then_some(());
        tokio::time::timeout(PATIENCE, self.fixture.cluster.wait_for(running))
            .await
            .context("pods do not start")?;
        self.say(&format!("the scene: {}", script.story));
        self.verb(&REBOOT).await?;
        match scene {
            Scene::ApiAway => {
                self.until("the drain has begun", |walk| walk.progress().gone > 0).await?;
                self.fixture.cluster.faults().api_down()?;
                self.say("the API server is away");
            }
            Scene::Forced => {
                self.until("the drain is blocked", |walk| walk.progress().blocked > 0).await?;
                self.verb(&["force", "complete", "--reason", "the disk fails"]).await?;
            }
            Scene::Blocked
            | Scene::OperatorBudget
            | Scene::NoPeer
            | Scene::Slot
            | Scene::Failed
            | Scene::Hung => {}
        }
        self.until_it_hangs(script.code).await
    }

    /// Prints the first page of `ebb status` when it says with this exit code what is wrong, and nothing moves any more.
    async fn until_it_hangs(&mut self, code: i32) -> anyhow::Result<()> {
        let hanging = async {
            loop {
                while tokio::time::timeout(QUIET, self.changed()).await.is_ok() {
                    self.print_changes();
                }
                let output =
                    self.fixture.command(&["status"])?.output().await.context("cannot run ebb status")?;
                if output.status.code() == Some(code) {
                    return anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned());
                }
            }
        };
        let page = tokio::time::timeout(PATIENCE, hanging)
            .await
            .with_context(|| format!("ebb status did not come to exit code {code}"))??;
        screen::line("");
        screen::line(&format!("$ {}", self.ebb("status")));
        page.lines().for_each(screen::line);
        Ok(())
    }

    /// Prints what a person can type while the scene hangs.
    fn offer(&self, scene: Scene) -> anyhow::Result<()> {
        let script = scene.script();
        self.say_holding();
        screen::line("To see why:");
        self.propose(Typed::Ebb("status --watch"), "the page above, as it changes")?;
        self.propose(Typed::Ebb("status --json"), "all files of the agents, as one object")?;
        screen::line("To get out:");
        for (typed, what) in script.ways {
            self.propose(*typed, what)?;
        }
        if let Some(relief) = script.relief {
            screen::line(&format!("Or press Enter here: {relief}."));
        }
        screen::line("Ctrl-C ends the demonstration.");
        screen::line("");
        Ok(())
    }

    /// Prints the commands that a person can give at another terminal after a drain that ended well.
    fn hand_over(&self) -> anyhow::Result<()> {
        self.say_holding();
        self.propose(Typed::Ebb("cancel reboot"), "takes the reboot back: the node returns to service")?;
        self.propose(Typed::Ebb("plan"), "what a drain would do now, and what would hold it up")?;
        self.propose(Typed::Ebb("reboot --reason 'next try'"), "the next reboot")?;
        self.propose(Typed::Ebb("history last"), "the story of the last drain")?;
        screen::line(
            "`ebb demo --help` names scenes in which the drain hangs. Ctrl-C ends the demonstration.",
        );
        screen::line("");
        Ok(())
    }

    fn say_holding(&self) {
        screen::line("");
        screen::line("Holding. In another terminal:");
        screen::line(&format!("  export KUBECONFIG={}   # kubectl sees this cluster", self.kubeconfig()));
    }

    fn kubeconfig(&self) -> String {
        quoted(self.fixture.kubeconfig().as_os_str())
    }

    fn propose(&self, typed: Typed, what: &str) -> anyhow::Result<()> {
        let command = match typed {
            Typed::Ebb(words) => self.ebb(words),
            // Never without its kubeconfig: whoever copies the line may have another cluster as the current one.
            Typed::Kubectl(words) => format!("kubectl --kubeconfig={} {words}", self.kubeconfig()),
            Typed::Kill(signal) => format!("kill {signal} {}", zedkube(self.fixture.root())?),
        };
        screen::line(&format!("  {command}"));
        screen::line(&format!("      # {what}"));
        Ok(())
    }

    /// The command line of a verb of this program, for this device.
    fn ebb(&self, words: &str) -> String {
        let program = std::env::current_exe().unwrap_or_else(|_| "ebb".into());
        let root = self.fixture.root().path();
        format!("{} {words} --root {}", quoted(program.as_os_str()), quoted(root.as_os_str()))
    }

    /// Prints all further events, does what helps when a person presses Enter, and moves the pods back to this device's
    /// node whenever it has returned to service: else a second drain would have nothing to do.
    async fn follow(&mut self, scene: Option<Scene>) -> anyhow::Result<()> {
        let fixture = self.fixture;
        let mut enter = enters();
        let mut relief = scene.and_then(|scene| Some((scene, scene.script().relief?)));
        loop {
            let is_idle =
                self.printed.status.is_some_and(|status| status.status == DrainStatus::NotRequested);
            tokio::select! {
                () = self.changed() => {}
                Some(()) = enter.recv() => {
                    if let Some((scene, text)) = relief.take() {
                        self.say(text);
                        scene.relieve(fixture)?;
                    }
                }
                moved = fixture.bring_pods_back(), if is_idle && fixture.has_pods_away() => {
                    moved?;
                    self.say(&format!("the pods are back on {NODE}, which is in service"));
                }
            }
            self.print_changes();
        }
    }

    /// Waits until zedkube knows that it is in a cluster, and the others can take a command.
    async fn ready(&mut self) -> anyhow::Result<()> {
        self.until("the agents are ready", |walk| {
            let key = TopicKey::global();
            walk.status.get(&key).map(|status| status.status) == Some(DrainStatus::NotRequested)
                && walk.report.get(&key).is_some_and(|report| report.member == Member::Yes)
                && walk.operation.get(&key).is_some()
                && walk.action.get(&key).is_some()
        })
        .await
    }

    /// Runs a verb of this program as an operator would, and shows what it says.
    async fn verb(&self, words: &[&str]) -> anyhow::Result<()> {
        let shown: Vec<String> = words.iter().map(|word| quoted(OsStr::new(word))).collect();
        let shown = shown.join(" ");
        self.say(&format!("$ ebb {shown}"));
        let output =
            self.fixture.command(words)?.output().await.with_context(|| format!("cannot run ebb {shown}"))?;
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).lines().for_each(|line| screen::line(&format!("          {line}")));
        ensure!(output.status.success(), "ebb {shown} failed");
        Ok(())
    }

    /// Prints the changes until this is so.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let waiting = async {
            self.print_changes();
            while !is_so(self) {
                self.changed().await;
                self.print_changes();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.with_context(|| {
            format!(
                "not within {} s: {what}; the agents' log: {}",
                PATIENCE.as_secs(),
                self.fixture.log().display()
            )
        })
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.status.changed() => {}
            () = self.report.changed() => {}
            () = self.operation.changed() => {}
            () = self.action.changed() => {}
        }
    }

    fn is_recorded(&self) -> bool {
        self.action.get(&TopicKey::global()).map(|action| action.state) == Some(DeviceActionState::Done)
    }

    fn print_changes(&mut self) {
        let key = TopicKey::global();
        let report = self.report.get(&key).cloned().unwrap_or_default();
        // The report may be a quarter of a second behind the status; its phase tells to which one its reason belongs.
        if let Some(status) = self.status.get(&key).copied()
            && self.printed.status != Some(status)
            && self.printed.phase != report.phase
        {
            self.say(&format!("zedkube: {:<13} {}", status.status.constant(), report.reason));
            (self.printed.status, self.printed.phase) = (Some(status), report.phase.clone());
        }
        if report.progress.total > 0
            && self.printed.progress.replace(report.progress) != Some(report.progress)
        {
            self.say(&progress(&report));
        }
        self.print_operation(&key);
    }

    fn print_operation(&mut self, key: &TopicKey) {
        if let Some(status) = self.operation.get(key).cloned()
            && self.printed.operation.replace(status.state) != Some(status.state)
        {
            match status.state {
                DeviceOpState::Idle => {}
                DeviceOpState::Deferred => {
                    self.say(&format!("device-op: reboot held back: {}", status.blocked_by));
                }
                DeviceOpState::HandedOver => self.say("device-op: reboot handed over to nodeagent"),
                DeviceOpState::Failed => {
                    self.say(&format!("device-op: reboot cannot go on: {}", status.blocked_by));
                }
            }
        }
        if let Some(action) = self.action.get(key).cloned()
            && self.printed.action.replace(action.state) != Some(action.state)
            && action.state != DeviceActionState::Idle
        {
            self.say(&format!("nodeagent: {:?} {}", action.state, action.error));
            if action.state == DeviceActionState::Done {
                self.say("device-actions.jsonl has the reboot: on a real device it happens now");
            }
        }
    }

    fn where_to_look(&self) {
        let (root, volatile, key) = (self.fixture.root(), Persistence::Volatile, TopicKey::global());
        let status = root.item::<NodeDrainStatus>(agent::ZEDKUBE, volatile, &key);
        let report = root.item::<NodeDrainReport>(agent::ZEDKUBE, volatile, &key);
        screen::line("");
        screen::line("Where to look:");
        screen::line(&format!("  cat {} | jq .   # {}", status.display(), NodeDrainStatus::NAME));
        screen::line(&format!("  cat {} | jq .   # why, since when, each pod", report.display()));
        screen::line(&format!("  cat {}", root.join("/persist/device-actions.jsonl").display()));
        screen::line(&format!("  cat {}   # the agents' log", self.fixture.log().display()));
        screen::line(&format!("  {}", self.ebb("history last")));
    }

    fn progress(&self) -> schemas::Progress {
        self.report.get(&TopicKey::global()).map(|report| report.progress).unwrap_or_default()
    }

    fn say(&self, text: &str) {
        let seconds = Duration::from_millis(clock::boot_millis().saturating_sub(self.began)).as_secs_f64();
        screen::line(&format!("{seconds:6.2} s  {}", text.trim_end()));
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| {
        all.iter().any(|condition| {
            condition.get("type") == Some(&json!("Ready")) && condition.get("status") == Some(&json!("True"))
        })
    })
}

/// A message for each line that is typed here; none after the end of stdin.
fn enters() -> mpsc::UnboundedReceiver<()> {
    let (typed, enters) = mpsc::unbounded_channel();
    // A thread, because a read of stdin cannot be cancelled; it ends with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.is_err() || typed.send(()).is_err() {
                return;
            }
        }
    });
    enters
}

/// Progress as text: `9 of 12 pods gone; terminating: default/web-1, …; blocked: …`.
fn progress(report: &NodeDrainReport) -> String {
    let schemas::Progress { total, gone, .. } = report.progress;
    let mut text = format!("         {gone} of {total} pods gone");
    for (stage, word) in [("Terminating", "terminating"), ("Blocked", "blocked by their budget")] {
        let names: Vec<&str> =
            report.pods.iter().filter(|pod| pod.stage == stage).map(|pod| pod.name.as_str()).collect();
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let first: Vec<&str> = names.into_iter().take(NAMES).collect();
            text = format!("{text}; {word}: {}{more}", first.join(", "));
        }
    }
    text
}
