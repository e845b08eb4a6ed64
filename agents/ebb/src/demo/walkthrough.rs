//! Prints the events of the demonstration as they happen, read only from the agents' files.

use std::time::Duration;

use anyhow::Context;
use pubsub::{AgentLock, Persistence, Publisher, Root, Subscription, TopicKey};
use runtime::clock;
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DeviceOpsCmd, DrainStatus,
    NodeDrainReport, NodeDrainStatus, Operation, Topic, agent,
};

use crate::demo::fixture::Fixture;
use kubectl_ebb::screen;

/// Limit for the reboot to be recorded; later means a defect.
const PATIENCE: Duration = Duration::from_mins(1);

/// Pods that are named in one line.
const NAMES: usize = 3;

/// Acts as the controller, and prints what the agents do.
#[derive(Debug)]
pub(crate) struct Walkthrough {
    root: Root,
    began: u64,
    commands: Publisher<DeviceOpsCmd>,
    status: Subscription<NodeDrainStatus>,
    report: Subscription<NodeDrainReport>,
    operation: Subscription<DeviceOpStatus>,
    action: Subscription<DeviceAction>,
    printed: Printed,
    // Lock of the controller, held as long as its topic is published.
    _controller: AgentLock,
}

/// Values that were printed last, so that each is printed once.
#[derive(Debug, Default)]
struct Printed {
    status: Option<NodeDrainStatus>,
    progress: Option<schemas::Progress>,
    operation: Option<DeviceOpState>,
    action: Option<DeviceActionState>,
}

impl Walkthrough {
    /// Takes the controller's lock and opens the topics.
    pub(crate) fn begin(fixture: &Fixture) -> anyhow::Result<Self> {
        let root = fixture.root().clone();
        let lock = AgentLock::acquire(&root, agent::CONTROLLER)?;
        let commands = Publisher::open(&root, agent::CONTROLLER, Persistence::Volatile, &lock)?;
        let volatile = Persistence::Volatile;
        Ok(Self {
            began: clock::boot_millis(),
            commands,
            status: Subscription::open(&root, agent::ZEDKUBE, volatile),
            report: Subscription::open(&root, agent::ZEDKUBE, volatile),
            operation: Subscription::open(&root, agent::ZEDAGENT, volatile),
            action: Subscription::open(&root, agent::NODEAGENT, volatile),
            root,
            printed: Printed::default(),
            _controller: lock,
        })
    }

    /// Prints all events from the command to the recorded reboot.
    pub(crate) async fn run(&mut self) -> anyhow::Result<()> {
        self.say("four agents and a cluster of three nodes are up; this machine is node edge-a");
        self.ready().await.context("the agents did not come up")?;
        self.command(1, true)?;
        self.say("the controller commands: reboot (counter 1)");
        let done = async {
            while !self.is_recorded() {
                self.changed().await;
                self.print_changes();
            }
        };
        tokio::time::timeout(PATIENCE, done).await.context("the reboot was not recorded in time")?;
        self.say("device-actions.jsonl has the reboot: on a real device it happens now");
        self.where_to_look();
        Ok(())
    }

    /// Prints all further events until the demonstration is stopped.
    pub(crate) async fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            self.changed().await;
            self.print_changes();
        }
    }

    /// Prints the commands that a person can give at another terminal now.
    pub(crate) fn hand_over(&self) {
        let command = self.root.item::<DeviceOpsCmd>(
            agent::CONTROLLER,
            Persistence::Volatile,
            &TopicKey::of_operation(Operation::Reboot),
        );
        let order = |counter: u32, wanted: bool| {
            format!(
                "  echo '{{\"Counter\":{counter},\"DesiredState\":{wanted},\"OpsTime\":\"\"}}' > {}",
                command.display()
            )
        };
        screen::line("");
        screen::line(
            "Holding. In another terminal, take the reboot back and watch the node return to service:",
        );
        screen::line(&order(1, false));
        screen::line("and command the next one:");
        screen::line(&order(2, true));
        screen::line("Ctrl-C ends the demonstration.");
        screen::line("");
    }

    /// Waits until zedkube knows that it is in a cluster and device-op has recorded the first counter: a device that
    /// has never seen a command takes the first one as done.
    async fn ready(&mut self) -> anyhow::Result<()> {
        self.command(0, false)?;
        let recorded = self.root.join(format!("/persist/status/{}", Operation::Reboot.counter_file()));
        let ready = async {
            while self.status.get(&TopicKey::global()).map(|status| status.status)
                != Some(DrainStatus::NotRequested)
                || !is_member(&self.report)
                || !recorded.exists()
            {
                tokio::select! {
                    () = self.status.changed() => {}
                    () = self.report.changed() => {}
                    // The counter's file is not a topic, so it makes no event.
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, ready).await?;
        self.print_changes();
        Ok(())
    }

    fn command(&mut self, counter: u32, desired_state: bool) -> anyhow::Result<()> {
        let ops_time = clock::wall().to_string();
        let command = DeviceOpsCmd { counter, desired_state, ops_time, ..DeviceOpsCmd::default() };
        self.commands.publish(&TopicKey::of_operation(Operation::Reboot), &command)?;
        Ok(())
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
        if let Some(status) = self.status.get(&key).copied()
            && self.printed.status.replace(status) != Some(status)
        {
            self.say(&format!("zedkube: {:<13} {}", status.status.constant(), report.reason));
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
        }
    }

    fn where_to_look(&self) {
        let status =
            self.root.item::<NodeDrainStatus>(agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global());
        let report =
            self.root.item::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global());
        screen::line("");
        screen::line("Where to look:");
        screen::line(&format!("  cat {} | jq .   # {}", status.display(), NodeDrainStatus::NAME));
        screen::line(&format!("  cat {} | jq .   # why, since when, each pod", report.display()));
        screen::line(&format!("  cat {}", self.root.join("/persist/device-actions.jsonl").display()));
        let program =
            std::env::current_exe().map_or_else(|_| "ebb".to_owned(), |path| path.display().to_string());
        screen::line(&format!("  {program} status --root {}", self.root.path().display()));
    }

    fn say(&self, text: &str) {
        let seconds = Duration::from_millis(clock::boot_millis().saturating_sub(self.began)).as_secs_f64();
        screen::line(&format!("{seconds:6.2} s  {}", text.trim_end()));
    }
}

fn is_member(report: &Subscription<NodeDrainReport>) -> bool {
    report.get(&TopicKey::global()).is_some_and(|report| report.member == schemas::Member::Yes)
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
