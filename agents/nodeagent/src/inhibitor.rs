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
use runtime::agent_state::{is_running, nodeagent_takes_down};
use runtime::requester::new_request;
use runtime::settings::InhibitMode;
use runtime::{AgentContext, Task, error_chain};
use schemas::{DrainStatus, NodeDrainReport, NodeDrainRequest, agent};
use zbus::OwnedFd;

use crate::logind::Logind;
use crate::system_bus::{CallError, SystemBus};

/// Interval of the search for logind, and after which a lock that was released is taken again.
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

/// The lock: it is released when its file descriptor is closed.
type Held = Arc<Mutex<Option<OwnedFd>>>;

impl Inhibitor {
    /// Has the lock taken in this mode from now on. Has to be called in a tokio runtime.
    pub(crate) fn follow(&mut self, mode: InhibitMode, context: &AgentContext) {
        if self.task.as_ref().is_some_and(|(followed, _)| *followed == mode) {
            return;
        }
        self.task = None;
        self.release();
        let holder =
            LockHolder { context: context.clone(), mode, held: Arc::clone(&self.held), requests: None };
        self.task = Some((mode, Task::spawn(holder.run())));
    }

    /// Releases the lock: logind must not wait for it, or refuse because of it, when nodeagent itself takes the machine
    /// down.
    pub(crate) fn release(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What the task does.
struct LockHolder {
    context: AgentContext,
    mode: InhibitMode,
    held: Held,
    requests: Option<Publisher<NodeDrainRequest>>,
}

impl LockHolder {
    /// Stays at logind for as long as there is one, and looks for it again and again.
    async fn run(mut self) {
        let mut trouble = String::new();
        loop {
            let Err(error) = self.stay().await;
            self.set(None);
            if error != trouble {
                tracing::info!(
                    "inhibitor lock of systemd-logind not taken, no shutdown is announced to nodeagent: {error}"
                );
                trouble = error;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn logind(&self) -> Result<Logind, String> {
        let bus = SystemBus::of(self.context.root()).connect().await.map_err(|error| error_chain(&error))?;
        let logind = Logind::find(bus).await.map_err(|error| error.to_string())?;
        logind.ok_or_else(|| "there is no systemd-logind".to_owned())
    }

    /// Holds the lock until the connection ends.
    async fn stay(&mut self) -> Result<Infallible, String> {
        if self.mode == InhibitMode::None {
            self.withdraw();
            return Err("inhibit.mode is none".to_owned());
        }
        let logind = self.logind().await.inspect_err(|_| self.withdraw())?;
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

    /// The machine goes down: a drain is asked for, and the lock is released when it is answered, or if nodeagent itself
    /// takes the machine down, because the drain for that is over.
    fn begin(&mut self, report: Option<&NodeDrainReport>) {
        let is_away = !is_running(self.context.root(), agent::ZEDKUBE);
        let is_over = if is_away || self.is_acting() || report.is_some_and(NodeDrainReport::drains_nothing) {
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
        let request = new_request("the machine goes down (announced by systemd-logind)".to_owned(), None);
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
        // nodeagent says that it is Acting before it releases the lock, so that one of them sees the other.
        if self.is_acting() {
            self.set(None);
            return Ok(());
        }
        let limit = logind.longest_delay().await.map_or(0, |limit| limit.as_secs());
        tracing::info!(
            "inhibitor lock of mode {mode} taken (InhibitDelayMaxSec of systemd-logind: {limit} s)"
        );
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, held: Option<OwnedFd>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    fn is_acting(&self) -> bool {
        nodeagent_takes_down(self.context.root(), self.context.boot_id())
    }
}

fn is_answered(report: &NodeDrainReport, request: &NodeDrainRequest) -> bool {
    let line = report.line_of(agent::NODEAGENT, request.requested_at);
    line.is_some_and(|line| line.answer != DrainStatus::Unknown)
}
