//! What goes wrong in a run, and when.

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

/// What takes a second or two takes longer on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Nobody believes in an empty node for a minute after an outage, and a return is retried with pauses of up to 40 s.
const PATIENCE_OFFLINE: Duration = Duration::from_mins(4);

/// How long an outage for good lasts that begins when the operation is over.
const LATE_OUTAGE: Duration = Duration::from_secs(10);

/// The trial of one run.
#[derive(Debug)]
pub(crate) struct Trial {
    cell: Option<Cell>,
    /// It has happened.
    pub(crate) is_hit: bool,
    mend_at: Option<Instant>,
    is_over: bool,
    done_by_boot: bool,
    /// Lines that were there before the boot.
    pub(crate) lines_at_boot: usize,
    /// Lines that have been looked at.
    seen: usize,
}

impl Trial {
    /// Nothing goes wrong; the boundaries are listed.
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

    /// The agent whose boundaries are counted, and the number that counts.
    fn victim(&self) -> Option<(Agent, u32)> {
        self.cell.as_ref().map(|cell| (cell.boundary.agent, cell.boundary.number))
    }

    pub(crate) fn is_cordoned_before(&self) -> bool {
        self.column() == Some(Column::Foreign)
    }

    pub(crate) fn patience(&self) -> Duration {
        if self.column().is_some_and(Column::is_outage) { PATIENCE_OFFLINE } else { PATIENCE }
    }

    /// An outage for good is one of a few seconds, believed soon.
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

    /// Only without an API server a drain may fail here.
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

    /// The names of the boundaries that an agent has come to, in their order.
    pub(crate) fn met(device: &Device, agent: Agent) -> Vec<String> {
        let text = fs::read_to_string(list(device, agent)).unwrap_or_default();
        let root = device.root().path().display().to_string();
        let name = |line: &str| line.split_once(' ').map(|(_, name)| name.replace(&root, ""));
        text.lines().filter_map(name).collect()
    }

    /// Looks after the device: lets happen what is to happen, and sees that nothing happens that must not.
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

    /// The operation has ended, and with it an outage for good: a node cannot return without its API server.
    pub(crate) fn operation_ended(&mut self, place: &Place) {
        self.is_over = true;
        if self.column() == Some(Column::AwayForGood) {
            self.end_outage(place);
        }
    }

    /// The API server is there again.
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
        // Dead before anybody looks at what they left behind.
        for agent in Agent::ALL {
            device.kill(agent.verb());
        }
        self.lines_at_boot = device.actions()?.len();
        self.done_by_boot = scenario.operation().is_some_and(|operation| is_done_by_boot(device, operation));
        device.boot()
    }

    /// Whatever goes wrong: no device goes down with pods on it, unless nobody could know better.
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

/// What device-op's record on disk says of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Nothing is accepted, or no longer.
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

/// A reboot is done by any boot once it is accepted; what else there is, once nodeagent has been told.
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
