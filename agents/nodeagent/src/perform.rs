//! The shell of nodeagent: reads the files, publishes, and runs hooks and means beside the loop.

use std::time::Duration;

use pubsub::{Persistence, PublishError, Publisher, Subscription, TopicKey, presence, read_item, read_items};
use runtime::activation_lock::ActivationLock;
use runtime::agent_state::{is_running, zedkube_seen};
use runtime::clock::Moment;
use runtime::machine::{EffectError, OpenError, Shell};
use runtime::requester::standing_pass;
use runtime::{AgentContext, SettingsWatch, Task, error_chain, program, read_or_none, write_persistent};
use schemas::{
    BaseOsHold, BaseOsHoldState, BaseOsStatus, BootReason, BootTotals, DeviceAction, DeviceActionState,
    DeviceOpStatus, NOT_DRAINED, NodeAgentStatus, NodeDrainReport, NodeDrainStatus, Operation,
    SCHEMA_VERSION, Topic, UndrainedCause, WENT_PAST_EBB, ZedAgentStatus, agent,
};
use tokio::sync::mpsc;

use crate::action_record::RecordFile;
use crate::boot_reason;
use crate::current_command::{Alive, Command, OtherAgents, current_command, is_released};
use crate::device::{Means, means};
use crate::effect::Effect;
use crate::facts::{Event, Facts, Outcome};
use crate::inhibitor::Inhibitor;
use crate::known_means::KnownMeans;
use crate::policy::{Policy, STILL_UP};
use crate::progress::NodeAgent;
use crate::state::State;

/// Time limit of one hook.
const HOOK_LIMIT: Duration = Duration::from_mins(1);

/// The files of nodeagent, and the task that runs beside its loop.
#[derive(Debug)]
pub(crate) struct NodeagentShell {
    context: AgentContext,
    settings: SettingsWatch,
    action: Publisher<DeviceAction>,
    status: Publisher<NodeAgentStatus>,
    drain: Subscription<NodeDrainStatus>,
    zedagent: Subscription<ZedAgentStatus>,
    device_op: Subscription<DeviceOpStatus>,
    hold: Subscription<BaseOsHold>,
    images: Subscription<BaseOsStatus>,
    record: RecordFile,
    means: KnownMeans,
    inhibitor: Inhibitor,
    /// The hooks or the means that run.
    running: Option<Task>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
}

impl Shell for NodeagentShell {
    type Machine = NodeAgent;
    const NAME: &'static str = "nodeagent";
    const FAILED: &'static str = "nodeagent takes no further step";

    /// Opens the topics. In a new boot, publishes the reason of the last boot, and then removes its file.
    fn open(context: &AgentContext) -> Result<Self, OpenError> {
        let (root, name, lock) = (context.root(), context.name(), context.lock());
        let volatile = Persistence::Volatile;
        // Only the task beside the loop and the search for means send, so 8 places are always enough.
        let (sender, events) = mpsc::channel(8);
        let mut shell = Self {
            action: Publisher::open(root, name, volatile, lock)?.served()?,
            status: Publisher::open(root, name, volatile, lock)?.served()?,
            drain: Subscription::open(root, agent::ZEDKUBE, volatile),
            zedagent: Subscription::open(root, agent::ZEDAGENT, volatile),
            device_op: Subscription::open(root, agent::ZEDAGENT, volatile),
            hold: Subscription::open(root, agent::BASEOSMGR, volatile),
            images: Subscription::open(root, agent::BASEOSMGR, volatile),
            record: RecordFile::new(root),
            means: KnownMeans::default(),
            inhibitor: Inhibitor::default(),
            running: None,
            sender,
            events,
            settings: context.settings(),
            context: context.clone(),
        };
        shell.begin_boot()?;
        Ok(shell)
    }

    fn resume(&self) -> State {
        let action = self.action.get(&TopicKey::global()).cloned().unwrap_or_default();
        let status = self.status.get(&key_of(agent::NODEAGENT)).cloned().unwrap_or_default();
        // Once nodeagent is Acting, the reason on disk is the one of this command.
        let is_acting = action.state == DeviceActionState::Acting;
        let reason = if is_acting { boot_reason::reason(self.context.root()) } else { None };
        State::resume(action, status, reason, self.context.boot_id())
    }

    fn policy(&self) -> Policy {
        let device = &self.settings.current().device;
        Policy { has_hooks: !device.pre.is_empty(), dry_run: device.dry_run, still_up: STILL_UP }
    }

    /// Reads all files. The commands are read last, and after them the report that releases them.
    fn look(&mut self, state: &State, _: Moment) -> Event {
        let settings = self.settings.current();
        let device = &settings.device;
        self.inhibitor.follow(settings.inhibit.mode, &self.context);
        self.means.look(device, self.context.root(), self.context.boot_id(), &self.sender);
        let root = self.context.root();
        let drain = self.read(agent::ZEDKUBE, &TopicKey::global(), &self.drain);
        let hold = self.item::<BaseOsHold>(agent::BASEOSMGR, &TopicKey::global());
        // An activate command may outlive the baseos that started it.
        let is_activating = ActivationLock::of(root).is_held()
            || hold.state == BaseOsHoldState::Activating && is_running(root, agent::BASEOSMGR);
        let images = read_items::<BaseOsStatus>(root, agent::BASEOSMGR, Persistence::Volatile);
        let others = OtherAgents {
            hold,
            images: images.items.into_values().collect(),
            device_op: self.item(agent::ZEDAGENT, &TopicKey::global()),
            zedagent: self.item(agent::ZEDAGENT, &key_of(agent::ZEDAGENT)),
        };
        let command = current_command(&others, self.context.boot_id(), state.acting());
        let is_released = command.as_ref().is_none_or(|command| {
            self.is_released(command.requester(), others.release(command).starts_with(NOT_DRAINED))
        });
        Event::Looked(Facts { drain, is_activating, is_released, command, proof: self.record.look() })
    }

    fn perform(&mut self, effect: &Effect) -> Result<(), EffectError> {
        match effect {
            Effect::Action(action) => self.action.publish(&TopicKey::global(), action).map(|_| ())?,
            Effect::Status(status) => self.status.publish(&key_of(agent::NODEAGENT), status).map(|_| ())?,
            Effect::Record(record) => self.record.write(record),
            Effect::ForgetRecord => {
                if let Err(error) = self.record.forget() {
                    tracing::error!(
                        "{}; a later boot may count the failed command as done",
                        error_chain(&error)
                    );
                }
            }
            Effect::LeaveReason(command) => {
                if let Err(error) = boot_reason::leave(self.context.root(), command) {
                    tracing::error!(
                        "{}; the next boot will not show the reason of this {}",
                        error_chain(&error),
                        command.operation
                    );
                }
            }
            Effect::ForgetReason => self.forget_reason(),
            Effect::RunHooks { serial, command } => self.run_hooks(*serial, command),
            Effect::Act { serial, means, command, dry_run } => self.act(*serial, *means, command, *dry_run),
            Effect::Drop => self.running = None,
            Effect::WakeAt(_) => {}
        }
        Ok(())
    }

    async fn changed(&mut self, _: &State) -> Option<Event> {
        tokio::select! {
            event = self.events.recv() => event,
            () = self.drain.changed() => None,
            () = self.zedagent.changed() => None,
            () = self.device_op.changed() => None,
            () = self.hold.changed() => None,
            () = self.images.changed() => None,
            () = self.settings.changed() => None,
        }
    }

    fn tell(&self, before: &State, after: &State, _: bool) {
        let (was, is) = (&before.action, &after.action);
        if (was.state, was.command, was.counter) == (is.state, is.command, is.counter) {
            return;
        }
        let command =
            is.command.map_or_else(|| "no command".to_owned(), |command| format!("{command} {}", is.counter));
        tracing::info!(
            "{command}: {:?}{}{}",
            is.state,
            if is.error.is_empty() { "" } else { ": " },
            is.error
        );
    }
}

impl NodeagentShell {
    /// True if the command of this agent is still released. `is_undrained`: the agent says that the device goes without
    /// a drain. The report is read last, after the locks, so that the last report of a process that died is seen.
    fn is_released(&self, requester: &str, is_undrained: bool) -> bool {
        let root = self.context.root();
        // An operator's force counts, as in the gate of the agent that released the command.
        if standing_pass(&self.context, requester).is_some() {
            return true;
        }
        let zedkube = zedkube_seen(root, presence(root, agent::ZEDKUBE).ok());
        let alive = Alive { zedkube, requester: is_running(root, requester) };
        let key = TopicKey::global();
        let report = read_item::<NodeDrainReport>(root, agent::ZEDKUBE, Persistence::Volatile, &key);
        if let Err(refusal) = &report {
            tracing::debug!("{refusal}");
        }
        is_released(requester, report.as_ref().map(Option::as_ref), alive, is_undrained)
    }

    /// Runs the hooks. If a hook fails, the device goes down all the same.
    fn run_hooks(&mut self, serial: u32, command: &Command) {
        self.running = None;
        let operation = command.operation;
        let (hooks, sender) = (self.settings.current().device.pre.clone(), self.sender.clone());
        let environment = command.environment();
        self.running = Some(Task::spawn(async move {
            for hook in hooks {
                if let Err(error) = program::run(&hook, &environment, HOOK_LIMIT).await {
                    tracing::warn!("a device.pre hook failed: {error}; the {operation} goes on");
                }
            }
            send(&sender, Event::HooksEnded { serial }).await;
        }));
    }

    fn act(&mut self, serial: u32, number: usize, command: &Command, dry_run: bool) {
        self.running = None;
        let operation = command.operation;
        if !dry_run && operation != Operation::Shutdown {
            self.inhibitor.release();
        }
        let settings = self.settings.current();
        let mut all =
            means(&settings.device, operation, dry_run, self.context.root(), self.context.boot_id());
        let device = (number < all.len()).then(|| all.swap_remove(number));
        let (command, sender) = (command.clone(), self.sender.clone());
        self.running = Some(Task::spawn(async move {
            let outcome = match device {
                Some(device) => carry_out(&device, &command).await,
                None => Outcome::NoMeans,
            };
            send(&sender, Event::Acted { serial, outcome }).await;
        }));
    }

    /// Publishes the reason of the last boot, and only then removes its files; counts this boot. DeviceAction is
    /// published last, because its boot id shows that this was done.
    fn begin_boot(&mut self) -> Result<(), PublishError> {
        let action = self.action.get(&TopicKey::global()).cloned().unwrap_or_default();
        if action.boot_id != self.context.boot_id() {
            let status = self.first_status();
            self.status.publish(&key_of(agent::NODEAGENT), &status)?;
            let boot_id = self.context.boot_id().to_owned();
            let idle = DeviceAction { schema_version: SCHEMA_VERSION, boot_id, ..DeviceAction::default() };
            self.action.publish(&TopicKey::global(), &idle)?;
        } else if action.state == DeviceActionState::Acting {
            // The reason is of this boot, written for the next one.
            return Ok(());
        } else {
            self.tell_a_soft_reboot()?;
        }
        self.forget_reason();
        let boots_before =
            self.status.get(&key_of(agent::NODEAGENT)).map_or(0, |status| status.restart_counter);
        if let Err(error) = boot_reason::count(self.context.root(), boots_before) {
            tracing::warn!("{}; this boot is not counted", error_chain(&error));
        }
        self.count_undrained();
        Ok(())
    }

    /// Publishes the reason that ebb-hold has left in this boot of the kernel: userspace has begun again since.
    fn tell_a_soft_reboot(&mut self) -> Result<(), PublishError> {
        let boot_reason::Left { reason, at, .. } = boot_reason::read(self.context.root());
        // nodeagent's own reason is of a command that this boot has outlived.
        if reason.is_empty() || reason.starts_with(NodeAgentStatus::NORMAL) {
            return Ok(());
        }
        tracing::info!("RebootReason, why userspace went down before this start: {reason}");
        let key = key_of(agent::NODEAGENT);
        let before = self.status.get(&key).cloned().unwrap_or_default();
        let status = NodeAgentStatus { reboot_reason: reason, reboot_time: at, ..before };
        self.status.publish(&key, &status).map(|_| ())
    }

    /// Counts a boot before which the device was not drained, for metrics.
    fn count_undrained(&self) {
        let Some(status) = self.status.get(&key_of(agent::NODEAGENT)) else { return };
        let Some(cause) = UndrainedCause::of(&status.reboot_reason) else { return };
        let (root, key) = (self.context.root(), TopicKey::global());
        let mut totals: BootTotals =
            read_or_none(root, agent::NODEAGENT, Persistence::Persistent, &key).unwrap_or_default();
        if !totals.count(status.restart_counter, status.reboot_time, cause) {
            return;
        }
        totals.schema_version = SCHEMA_VERSION;
        if let Err(error) = write_persistent(root, agent::NODEAGENT, &totals) {
            tracing::warn!(
                "{}; metrics do not count that this boot was without a drain",
                error_chain(&error)
            );
        }
    }

    fn first_status(&self) -> NodeAgentStatus {
        let root = self.context.root();
        let (left, boots_before) = (boot_reason::read(root), boot_reason::boots_before(root));
        let is_first = boots_before.is_none() && left.reason.is_empty();
        let default = if is_first { BootReason::FIRST } else { BootReason::UNKNOWN };
        let reason = if left.reason.is_empty() && !is_first { WENT_PAST_EBB.to_owned() } else { left.reason };
        if !is_first {
            tracing::info!("RebootReason, why the machine went down before this boot: {reason}");
        }
        NodeAgentStatus {
            name: agent::NODEAGENT.to_owned(),
            reboot_reason: reason,
            reboot_time: left.at,
            boot_reason: left.boot_reason.unwrap_or(default),
            restart_counter: boots_before.unwrap_or(0),
            ..NodeAgentStatus::default()
        }
    }

    fn forget_reason(&self) {
        if let Err(error) = boot_reason::forget(self.context.root()) {
            tracing::warn!("{}; the next boot may report an old reason", error_chain(&error));
        }
    }

    /// An item from its file. A file that is absent or cannot be read counts as the default value, which commands
    /// nothing.
    fn item<T: Topic + Default>(&self, publisher: &str, key: &TopicKey) -> T {
        read_or_none(self.context.root(), publisher, Persistence::Volatile, key).unwrap_or_default()
    }

    /// An item from its file. If the file cannot be read: the last good value.
    fn read<T: Topic>(&self, publisher: &str, key: &TopicKey, last: &Subscription<T>) -> Option<T> {
        read_item(self.context.root(), publisher, Persistence::Volatile, key)
            .unwrap_or_else(|_| last.get(key).cloned())
    }
}

/// Uses a means, and logs before and after it, because the log may be all that is left of it.
async fn carry_out(device: &Means, command: &Command) -> Outcome {
    let Command { operation, counter, reason, source: _, without_record: _, image: _ } = command;
    let name = device.name();
    tracing::warn!("{operation} {counter} by {name}: {reason}");
    let outcome = device.carry_out(command).await;
    match &outcome {
        Outcome::Started(begun) => tracing::warn!("{operation} {counter}: {begun}"),
        Outcome::Failed(error) => tracing::error!("{operation} {counter}: {error}"),
        Outcome::Absent(what) => tracing::info!("{operation} {counter}: {what}"),
        Outcome::Done | Outcome::NoMeans => {}
    }
    outcome
}

async fn send(sender: &mpsc::Sender<Event>, event: Event) {
    if sender.send(event).await.is_err() {
        tracing::debug!("nodeagent stops: it does not note how the hooks or the command have ended");
    }
}

/// The key of the items that EVE names after their agent.
fn key_of(agent: &str) -> TopicKey {
    TopicKey::parse(agent).unwrap_or_else(|_| TopicKey::global())
}
