//! One operation of one device, from the command to the return of the node.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use schemas::{
    DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DrainStatus, Operation, agent,
};
use system::{Device, Place, Traces};

use crate::PROGRAM;
use crate::trial::{Accepted, Trial};

/// The image of [`Scenario::Image`].
pub(crate) const IMAGE: &str = "5c1b5dfa-64cc-4f06-8a5f-1d8e5b8b3c0e";

/// Poll interval.
const LOOK: Duration = Duration::from_millis(3);

/// Poll interval of the API server.
const LOOK_FAR: Duration = Duration::from_millis(100);

/// The commanded operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// A reboot is commanded and withdrawn; the boundaries are those from the start of the agents to the return of the
    /// node.
    Reboot,
    /// The device has rebooted: the boundaries are those of the boot that follows.
    Return,
    Shutdown,
    Image,
}

/// An agent, named by its verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Agent {
    Zedkube,
    DeviceOp,
    Nodeagent,
    Baseos,
}

impl Agent {
    pub(crate) const ALL: [Self; 4] = [Self::Zedkube, Self::DeviceOp, Self::Nodeagent, Self::Baseos];

    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Zedkube => "zedkube",
            Self::DeviceOp => "device-op",
            Self::Nodeagent => "nodeagent",
            Self::Baseos => "baseos",
        }
    }
}

impl Scenario {
    pub(crate) const ALL: [Self; 4] = [Self::Reboot, Self::Return, Self::Shutdown, Self::Image];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::Return => "return",
            Self::Shutdown => "shutdown",
            Self::Image => "image",
        }
    }

    /// True if the agent behaves differently from the scenarios before.
    pub(crate) fn is_about(self, agent: Agent) -> bool {
        match self {
            Self::Reboot => true,
            Self::Return => agent != Agent::Baseos,
            Self::Shutdown => matches!(agent, Agent::DeviceOp | Agent::Nodeagent),
            Self::Image => agent == Agent::Baseos,
        }
    }

    /// The commanded operation; `None` for an image.
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Self::Reboot | Self::Return => Some(Operation::Reboot),
            Self::Shutdown => Some(Operation::Shutdown),
            Self::Image => None,
        }
    }
}

/// The end of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The operation was carried out.
    Done,
    /// The boot itself counted as the commanded operation.
    DoneByBoot,
    /// The operation was held back and given up, until a new command comes.
    HeldBack,
}

/// A running test of one device.
pub(crate) struct Run<'a> {
    pub(crate) place: &'a Place,
    pub(crate) device: Device,
    pub(crate) scenario: Scenario,
    pub(crate) trial: Trial,
    patience: Duration,
}

impl<'a> Run<'a> {
    pub(crate) fn new(place: &'a Place, scenario: Scenario, trial: Trial) -> Result<Self> {
        place.prepare(trial.is_cordoned_before())?;
        let mut device = place.device(PROGRAM)?;
        for setting in trial.settings() {
            device.set(setting);
        }
        Ok(Self { place, device, scenario, patience: trial.patience(), trial })
    }

    /// Runs the whole path. Any violation on the way is an error.
    pub(crate) fn go(&mut self) -> Result<End> {
        if self.scenario == Scenario::Return {
            self.reboot()?;
        } else {
            self.start()?;
            self.command()?;
        }
        let end = self.until("the operation ends", Self::end)?;
        self.trial.operation_ended(self.place);
        self.take_back()?;
        self.until("the device is as if nothing had been commanded", |run| {
            Ok(run.is_at_rest().then_some(()))
        })?;
        self.until_returned()?;
        Ok(end)
    }

    /// Starts the agents, with the fault of the trial.
    fn start(&mut self) -> Result<()> {
        Agent::ALL.into_iter().try_for_each(|agent| self.trial.start(&mut self.device, agent))
    }

    /// Drains and reboots without a fault; then starts the agents of the new boot.
    fn reboot(&mut self) -> Result<()> {
        Agent::ALL.into_iter().try_for_each(|agent| self.device.start(agent.verb()))?;
        self.command()?;
        self.until("the reboot is carried out", |run| Ok((!run.device.actions()?.is_empty()).then_some(())))?;
        self.trial.boot(&mut self.device, self.scenario)?;
        self.start()
    }

    fn command(&mut self) -> Result<()> {
        let Some(operation) = self.scenario.operation() else {
            return self.device.controller().image(IMAGE, true);
        };
        self.device.controller().command(operation, 0, false)?;
        self.until("the first counter is recorded", |run| {
            Ok(run.device.recorded_counter(operation).map(|_| ()))
        })?;
        self.device.controller().command(operation, 1, true)
    }

    fn take_back(&mut self) -> Result<()> {
        match self.scenario.operation() {
            Some(operation) => self.device.controller().command(operation, 1, false),
            None => self.device.controller().image(IMAGE, false),
        }
    }

    fn end(&mut self) -> Result<Option<End>> {
        if self.trial.is_done_by_boot() {
            let operation = self.scenario.operation().context("only operations are done by a boot")?;
            let is_recorded = self.device.recorded_counter(operation) == Some(1);
            let is_over = is_recorded && self.is_idle() && Accepted::of(&self.device) == Accepted::Nothing;
            return Ok(is_over.then_some(End::DoneByBoot));
        }
        if !self.device.actions()?.is_empty() {
            return Ok(Some(End::Done));
        }
        let is_held_back = self.operation_state() == Some(DeviceOpState::Failed);
        Ok((is_held_back && self.trial.may_fail()).then_some(End::HeldBack))
    }

    /// State of device-op; `None` before device-op of this boot has published one.
    fn operation_state(&self) -> Option<DeviceOpState> {
        self.device.item::<DeviceOpStatus>(agent::ZEDAGENT).map(|status| status.state)
    }

    fn is_idle(&self) -> bool {
        self.operation_state() == Some(DeviceOpState::Idle)
    }

    /// True if no agent has anything to do any more.
    fn is_at_rest(&self) -> bool {
        let action = self.device.item::<DeviceAction>(agent::NODEAGENT).map(|action| action.state);
        let report = self.device.report().unwrap_or_default();
        self.device.status() == DrainStatus::NotRequested
            && report.phase == "Idle"
            && report.requests.is_empty()
            && self.is_idle()
            && action == Some(DeviceActionState::Idle)
    }

    fn until_returned(&mut self) -> Result<()> {
        let wanted = Traces {
            is_cordoned: self.trial.is_cordoned_before(),
            cordoned_by: String::new(),
            holders: String::new(),
        };
        let mut seen = None;
        let returned = self.until("the node has returned", |run| {
            run.pause(LOOK_FAR);
            let traces = run.place.traces()?;
            let is_wanted = traces == wanted;
            seen = Some(traces);
            Ok(is_wanted.then_some(()))
        });
        returned.with_context(|| format!("left behind: {seen:?}"))
    }

    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Result<Option<T>>) -> Result<T> {
        #[expect(clippy::disallowed_methods, reason = "a test's own patience, not the agents' time")]
        let began = Instant::now();
        loop {
            self.trial.supervise(&mut self.device, self.place, self.scenario)?;
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if began.elapsed() > self.patience {
                bail!("waited {} s in vain until {what}", self.patience.as_secs());
            }
            self.pause(LOOK);
        }
    }

    #[expect(clippy::unused_self, reason = "reads as what the run does")]
    fn pause(&self, pause: Duration) {
        #[expect(clippy::disallowed_methods, reason = "a blocking test has nothing else to do")]
        std::thread::sleep(pause);
    }
}

/// Checks that no agent has ended by itself.
pub(crate) fn all_run(device: &mut Device, except: Option<Agent>) -> Result<()> {
    for agent in Agent::ALL.into_iter().filter(|agent| Some(*agent) != except) {
        if let Some(status) = device.agent(agent.verb())?.ended()? {
            ensure!(false, "{} ended by itself: {status}", agent.verb());
        }
    }
    Ok(())
}
