//! The fault of a run, and its moment.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pubsub::failure_point::{KILL_AT, LIST_IN};
use schemas::{Operation, Outcome};
use serde_json::Value;
use system::{Device, Place};

use crate::plan::{Cell, Column};
use crate::run::{Agent, Scenario, all_run};

/// Time limit of a wait: steps that take a second or two take longer on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time limit of a wait with an outage: an empty node is not believed for a minute after an outage, and the return of a
/// node is retried with pauses of up to 40 s.
const PATIENCE_OFFLINE: Duration = Duration::from_mins(4);

/// Length of an outage for good that begins when the operation is over.
const LATE_OUTAGE: Duration = Duration::from_secs(10);

/// The fault of one run.
#[derive(Debug)]
pub(crate) struct Trial {
    cell: Option<Cell>,
    /// The fault has happened.
    pub(crate) is_hit: bool,
    mend_at: Option<Instant>,
    is_over: bool,
    done_by_boot: bool,
    /// Number of recorded actions before the boot.
    pub(crate) lines_at_boot: usize,
    /// Number of recorded actions that were checked.
    seen: usize,
}

impl Trial {
    /// No fault; the boundaries are listed.
    pub(crate) fn none() -> Self {
        Self {
            cell: None,
            is_hit: false,
            mend_at: None,
            is_over: false,
            done_by_boot: false,
            lines_at_boot: 0,
            seen: 0,
        }
    }

    pub(crate) fn of(cell: &Cell) -> Self {
        Self { cell: Some(cell.clone()), ..Self::none() }
    }

    fn column(&self) -> Option<Column> {
        self.cell.as_ref().map(|cell| cell.column)
    }

    /// The agent whose boundaries are counted, and the number of the boundary.
    fn victim(&self) -> Option<(Agent, u32)> {
        self.cell.as_ref().map(|cell| (cell.boundary.agent, cell.boundary.number))
    }

    pub(crate) fn is_cordoned_before(&self) -> bool {
        self.column() == Some(Column::Foreign)
    }

    pub(crate) fn patience(&self) -> Duration {
        if self.column().is_some_and(Column::is_outage) { PATIENCE_OFFLINE } else { PATIENCE }
    }

    /// Settings of the run: an outage for good lasts some seconds, and the agents believe it soon.
    pub(crate) fn settings(&self) -> &'static [&'static str] {
        match self.column() {
            Some(Column::AwayForGood) => &[
                "api.unreachable-timeout=3s",
                "api.freeze-limit=3s",
                "drain.attempts=1",
                "cordon.tries=3",
                "slots.down-max=3s",
            ],
            Some(
                Column::Restart | Column::Boot | Column::Foreign | Column::AwayForOne | Column::AwayForThirty,
            )
            | None => &[],
        }
    }

    /// True if the drain may fail, which is only without an API server.
    pub(crate) fn may_fail(&self) -> bool {
        self.column() == Some(Column::AwayForGood)
    }

    pub(crate) fn is_done_by_boot(&self) -> bool {
        self.done_by_boot
    }

    /// Starts an agent for the first time.
    pub(crate) fn start(&self, device: &mut Device, agent: Agent) -> Result<()> {
        let list = list(device, agent).display().to_string();
        let victim = self.victim().filter(|(victim, _)| *victim == agent);
        let number = victim.map_or_else(String::new, |(_, number)| number.to_string());
        let mut environment = vec![(LIST_IN, list.as_str())];
        if victim.is_some() && !self.column().is_some_and(Column::is_outage) {
            environment.push((KILL_AT, number.as_str()));
        }
        device.start_with(agent.verb(), &environment)
    }

    /// Names of the boundaries that an agent has reached, in their order.
    pub(crate) fn met(device: &Device, agent: Agent) -> Vec<String> {
        let text = fs::read_to_string(list(device, agent)).unwrap_or_default();
        let root = device.root().path().display().to_string();
        let name = |line: &str| line.split_once(' ').map(|(_, name)| name.replace(&root, ""));
        text.lines().filter_map(name).collect()
    }

    /// Watches over the device: causes the fault when it is due, and checks that no forbidden action happens.
    pub(crate) fn supervise(&mut self, device: &mut Device, place: &Place, scenario: Scenario) -> Result<()> {
        let victim = self.victim().map(|(agent, _)| agent).filter(|_| !self.is_hit);
        all_run(device, victim)?;
        if let Some(agent) = victim {
            self.strike(device, place, scenario, agent)?;
        }
        #[expect(clippy::disallowed_methods, reason = "the length of an outage is the test's own")]
        if self.mend_at.is_some_and(|at| at <= Instant::now()) {
            self.end_outage(place);
        }
        self.look_at_new_lines(device, place)
    }

    /// Notes the end of the operation. An outage for good ends too, because a node cannot return without its API
    /// server.
    pub(crate) fn operation_ended(&mut self, place: &Place) {
        self.is_over = true;
        if self.column() == Some(Column::AwayForGood) {
            self.end_outage(place);
        }
    }

    /// Ends the outage.
    fn end_outage(&mut self, place: &Place) {
        self.mend_at = None;
        place.proxy.mend();
    }

    fn strike(&mut self, device: &mut Device, place: &Place, scenario: Scenario, agent: Agent) -> Result<()> {
        let Some(column) = self.column() else { return Ok(()) };
        if column.is_outage() {
            self.cut_when_reached(device, place, column.outage());
            return Ok(());
        }
        if device.agent(agent.verb())?.ended()?.is_none() {
            return Ok(());
        }
        self.is_hit = true;
        if column == Column::Boot {
            self.boot(device, scenario)?;
            return Agent::ALL.into_iter().try_for_each(|agent| device.start(agent.verb()));
        }
        device.start(agent.verb())
    }

    fn cut_when_reached(&mut self, device: &Device, place: &Place, length: Option<Duration>) {
        let Some((agent, number)) = self.victim() else { return };
        if Self::met(device, agent).len() >= number as usize {
            self.is_hit = true;
            place.proxy.cut();
            #[expect(clippy::disallowed_methods, reason = "the length of an outage is the test's own")]
            let now = Instant::now();
            self.mend_at = length.or_else(|| self.is_over.then_some(LATE_OUTAGE)).map(|length| now + length);
        }
    }

    /// The device goes down and boots; no agent runs yet.
    pub(crate) fn boot(&mut self, device: &mut Device, scenario: Scenario) -> Result<()> {
        // The agents must be dead before their files are read.
        for agent in Agent::ALL {
            device.kill(agent.verb());
        }
        self.lines_at_boot = device.actions()?.len();
        self.done_by_boot = scenario.operation().is_some_and(|operation| is_done_by_boot(device, operation));
        device.boot()
    }

    /// Checks that no device goes down with pods on it, unless no agent could know about them.
    fn look_at_new_lines(&mut self, device: &Device, place: &Place) -> Result<()> {
        let lines = device.actions()?;
        if lines.len() > self.seen {
            self.seen = lines.len();
            let left = place.pods_left()?;
            let outcome = device.report().and_then(|report| report.outcome);
            let is_allowed = self.may_fail() && self.is_hit && outcome == Some(Outcome::ApiUnreachable);
            ensure!(
                left.is_empty() || is_allowed,
                "{:?} with pods on the node: {left:?}, outcome {outcome:?}",
                lines.last().map(|line| &line.action)
            );
        }
        Ok(())
    }
}

/// The state of the command in device-op's record on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// No command is accepted, or not any more.
    Nothing,
    Waiting,
    HandedOver,
}

impl Accepted {
    pub(crate) fn of(device: &Device) -> Self {
        let path = device.path("/persist/status/zedagent/OperationRecord/global.json");
        let record: Value =
            fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let waiting = record["Waiting"].as_array();
        if record["HandedOver"]["Counter"] == 1 {
            Self::HandedOver
        } else if waiting.into_iter().flatten().any(|accepted| accepted["Counter"] == 1) {
            Self::Waiting
        } else {
            Self::Nothing
        }
    }
}

/// True if the boot counts as the operation: for a reboot once it is accepted, for the others once nodeagent has the
/// command.
fn is_done_by_boot(device: &Device, operation: Operation) -> bool {
    let was_accepted = device.recorded_counter(operation) == Some(1);
    match (operation, Accepted::of(device)) {
        (_, Accepted::Nothing) => was_accepted,
        (_, Accepted::HandedOver) | (Operation::Reboot, Accepted::Waiting) => true,
        (Operation::Shutdown | Operation::Poweroff, Accepted::Waiting) => false,
    }
}

fn list(device: &Device, agent: Agent) -> PathBuf {
    device.root().path().join(format!("{}.boundaries", agent.verb()))
}
