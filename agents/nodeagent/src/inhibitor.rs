//! nodeagent's own lock at systemd-logind: a shutdown that does not come through ebb is announced to it, and the drain
//! begins before systemd stops anything.
//!
//! logind waits for a lock in mode `delay` for a few seconds only (`InhibitDelayMaxSec`); `ebb-hold.service` waits for
//! the rest of the drain.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use pubsub::{Persistence, PublishError, Publisher, Subscription, TopicKey};
use runtime::agent_state::is_running;
use runtime::requester::unused_time;
use runtime::settings::InhibitMode;
use runtime::{AgentContext, Task, clock, error_chain, read_or_none};
use schemas::{DeviceAction, DrainRequester, DrainStatus, Member, NodeDrainReport, NodeDrainRequest, agent};
use zbus::OwnedFd;

use crate::logind::Logind;
use crate::system_bus::{CallError, SystemBus};

/// Interval of the search for logind, and after which a lock that was let go is taken again.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// logind's words for whoever asks why, as `systemd-inhibit --list` and `reboot` show them.
const DELAYED: &str = "this node is drained first";
const BLOCKED: &str = "this node has to be drained first: use `ebb reboot` or `ebb poweroff`";

/// The lock, and the task that takes it and hears the announcements.
#[derive(Debug, Default)]
pub(crate) struct Inhibitor {
    held: Held,
    task: Option<(InhibitMode, Task)>,
}

/// The lock: it is let go when its file descriptor is closed.
type Held = Arc<Mutex<Option<OwnedFd>>>;

impl Inhibitor {
    /// Has the lock taken in this mode from now on. Has to be called in a tokio runtime.
    pub(crate) fn follow(&mut self, mode: InhibitMode, context: &AgentContext) {
        if self.task.as_ref().is_some_and(|(followed, _)| *followed == mode) {
            return;
        }
        self.task = None;
        self.let_go();
        let guard = Guard { context: context.clone(), mode, held: Arc::clone(&self.held), requests: None };
        self.task = Some((mode, Task::spawn(guard.run())));
    }

    /// Lets go of the lock: logind must not wait for it, or refuse because of it, when nodeagent itself takes the machine
    /// down.
    pub(crate) fn let_go(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What the task does.
struct Guard {
    context: AgentContext,
    mode: InhibitMode,
    held: Held,
    requests: Option<Publisher<NodeDrainRequest>>,
}

impl Guard {
    /// Stays at logind for as long as there is one, and looks for it again and again.
    async fn run(mut self) {
        let mut trouble = String::new();
        loop {
            let Err(error) = self.stay().await;
            self.set(None);
            if error != trouble {
                tracing::info!("no shutdown is announced to nodeagent: {error}");
                trouble = error;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Holds the lock until the connection ends.
    async fn stay(&mut self) -> Result<Infallible, String> {
        if self.mode == InhibitMode::None {
            self.withdraw();
            return Err("inhibit.mode is none".to_owned());
        }
        let bus = SystemBus::of(self.context.root()).connect().await.map_err(|error| error_chain(&error));
        let logind = match bus {
            Ok(bus) => Logind::find(bus).await.map_err(|error| error.to_string())?,
            Err(error) => {
                self.withdraw();
                return Err(error);
            }
        };
        let logind = logind.ok_or("there is no systemd-logind")?;
        let mut announcements = logind.announcements().await.map_err(|error| error.to_string())?;
        let mut is_announced = logind.is_preparing().await.map_err(|error| error.to_string())?;
        let mut reports =
            Subscription::<NodeDrainReport>::open(self.context.root(), agent::ZEDKUBE, Persistence::Volatile);
        loop {
            if is_announced {
                self.begin(reports.get(&TopicKey::global()));
            } else {
                self.withdraw();
                self.take(&logind).await.map_err(|error| error.to_string())?;
            }
            tokio::select! {
                announced = announcements.next() => is_announced = announced.ok_or("logind went away")?,
                () = reports.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// The machine goes down: a drain is asked for, and the lock is let go when it is answered, or if nodeagent itself
    /// takes the machine down, because the drain for that is over.
    fn begin(&mut self, report: Option<&NodeDrainReport>) {
        let is_away = !is_running(self.context.root(), agent::ZEDKUBE);
        let is_over = if is_away || self.is_acting() || report.is_some_and(needs_none) {
            true
        } else {
            match self.ask() {
                Ok(request) => report.is_some_and(|report| is_answered(report, &request)),
                Err(error) => {
                    tracing::warn!("NodeDrainRequest: no drain can be asked for: {}", error_chain(&error));
                    true
                }
            }
        };
        if is_over {
            self.set(None);
        }
    }

    /// The request for a drain; publishes it unless it stands.
    fn ask(&mut self) -> Result<NodeDrainRequest, PublishError> {
        let key = TopicKey::global();
        let requests = self.requests()?;
        if let Some(standing) = requests.get(&key) {
            return Ok(standing.clone());
        }
        let request = NodeDrainRequest {
            requested_at: unused_time(clock::wall(), |_| false),
            requested_by: DrainRequester::None,
            context: "the machine goes down (announced by systemd-logind)".to_owned(),
        };
        tracing::info!(
            "NodeDrainRequest: systemd-logind announces a shutdown that does not come through ebb"
        );
        requests.publish(&key, &request)?;
        Ok(request)
    }

    /// Withdraws the request that a shutdown that was called off, or a soft reboot, has left.
    fn withdraw(&mut self) {
        let root = self.context.root();
        let file =
            root.item::<NodeDrainRequest>(agent::NODEAGENT, Persistence::Volatile, &TopicKey::global());
        if !file.exists() {
            return;
        }
        let withdrawn =
            self.requests().and_then(|requests| requests.unpublish(&TopicKey::global()).map(|_| ()));
        if let Err(error) = withdrawn {
            tracing::error!("NodeDrainRequest: it cannot be withdrawn: {}", error_chain(&error));
        } else {
            tracing::info!("NodeDrainRequest withdrawn: no shutdown is announced any more");
        }
    }

    fn requests(&mut self) -> Result<&mut Publisher<NodeDrainRequest>, PublishError> {
        let requests = if let Some(requests) = self.requests.take() {
            requests
        } else {
            let (root, lock) = (self.context.root(), self.context.lock());
            Publisher::open(root, agent::NODEAGENT, Persistence::Volatile, lock)?.served()?
        };
        Ok(self.requests.insert(requests))
    }

    /// Takes the lock, unless it is held, or nodeagent itself takes the machine down.
    async fn take(&self, logind: &Logind) -> Result<(), CallError> {
        if self.is_held() || self.is_acting() {
            return Ok(());
        }
        let (mode, why) = match self.mode {
            InhibitMode::Block => ("block", BLOCKED),
            InhibitMode::Delay | InhibitMode::None => ("delay", DELAYED),
        };
        let held = logind.inhibit(mode, why).await?;
        self.set(Some(held));
        let limit = logind.longest_delay().await.map_or(0, |limit| limit.as_secs());
        tracing::info!(
            "inhibitor lock of mode {mode} taken (InhibitDelayMaxSec of systemd-logind: {limit} s)"
        );
        if self.is_acting() {
            self.set(None);
        }
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, held: Option<OwnedFd>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    fn is_acting(&self) -> bool {
        let key = TopicKey::global();
        let action =
            read_or_none::<DeviceAction>(self.context.root(), agent::NODEAGENT, Persistence::Volatile, &key);
        action.is_some_and(|action| action.takes_down(self.context.boot_id()))
    }
}

/// True if zedkube drains nothing here.
fn needs_none(report: &NodeDrainReport) -> bool {
    report.disabled.is_some() || report.member == Member::No
}

fn is_answered(report: &NodeDrainReport, request: &NodeDrainRequest) -> bool {
    let line = report.line_of(agent::NODEAGENT, request.requested_at);
    line.is_some_and(|line| line.answer != DrainStatus::Unknown)
}
