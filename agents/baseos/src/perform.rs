//! The shell of baseos: reads the files, publishes, and runs the activate command beside the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pubsub::{Persistence, PublishError, Publisher, Subscription, TopicKey};
use runtime::activation_lock::ActivationLock;
use runtime::agent_state::NodeAgentView;
use runtime::clock::Moment;
use runtime::freeze::freeze;
use runtime::machine::{EffectError, OpenError, Shell, log_line};
use runtime::refused::ToldRefusals;
use runtime::settings;
use runtime::window::{is_pausing_outside, window};
use runtime::{
    AgentContext, LatePublisher, NotWritten, OwnRequest, Requester, SettingsWatch, Task, clock,
    device_actions, error_chain, program,
};
use schemas::{
    BaseOsConfig, BaseOsHold, BaseOsStatus, CommandFreeze, ContentTreeStatus, DeviceAction, DrainRequester,
    Source, SwState, agent,
};
use tokio::sync::mpsc;

use crate::activation::BaseOs;
use crate::current::Current;
use crate::effect::Effect;
use crate::facts::{Configured, Event, Facts};
use crate::inputs::{self, Configs};
use crate::policy::Policy;
use crate::record::ActivationRecord;
use crate::state::{Phase, State};
use crate::status::troubled;

/// The files of baseos, and the tasks that run beside its loop.
#[derive(Debug)]
pub(crate) struct BaseosShell {
    context: AgentContext,
    settings: SettingsWatch,
    record: LatePublisher<ActivationRecord>,
    hold: Publisher<BaseOsHold>,
    statuses: Publisher<BaseOsStatus>,
    requester: Requester,
    configs: [Subscription<BaseOsConfig>; 4],
    freeze: Subscription<CommandFreeze>,
    lock: ActivationLock,
    contents: Subscription<ContentTreeStatus>,
    /// The states of contents that were read last, by UUID.
    good_contents: BTreeMap<String, SwState>,
    action: Subscription<DeviceAction>,
    told: ToldRefusals,
    current: Current,
    /// The activate command, which must end with baseos.
    command: Option<Task>,
    sender: mpsc::Sender<Event>,
    ended: mpsc::Receiver<Event>,
}

impl Shell for BaseosShell {
    type Machine = BaseOs;
    const NAME: &'static str = "baseos";
    const FAILED: &'static str = "baseOsHandleStatusUpdateUUID";

    fn open(context: &AgentContext) -> Result<Self, OpenError> {
        let (root, name, lock) = (context.root(), context.name(), context.lock());
        let volatile = Persistence::Volatile;
        let record = LatePublisher::open(context, "no image is accepted until it can be used");
        let recorded: Option<OwnRequest> = record.get().and_then(|record: &ActivationRecord| record.request);
        let (sender, ended) = mpsc::channel(1);
        Ok(Self {
            record,
            hold: Publisher::open(root, name, volatile, lock)?.served()?,
            statuses: Publisher::open(root, name, volatile, lock)?.served()?,
            requester: Requester::open(context, DrainRequester::Update, recorded)?,
            configs: inputs::PUBLISHERS.map(|(publisher, _)| Subscription::open(root, publisher, volatile)),
            freeze: Subscription::open(root, Source::Person.agent(), Persistence::Persistent),
            lock: ActivationLock::of(root),
            contents: Subscription::open(root, agent::VOLUMEMGR, volatile),
            good_contents: BTreeMap::new(),
            action: Subscription::open(root, agent::NODEAGENT, volatile),
            told: ToldRefusals::default(),
            current: Current::new(),
            command: None,
            sender,
            ended,
            settings: context.settings(),
            context: context.clone(),
        })
    }

    fn resume(&self) -> State {
        let key = TopicKey::global();
        let hold = self.hold.get(&key).cloned().unwrap_or_default();
        let statuses =
            self.statuses.items().iter().map(|(key, status)| (key.as_str().to_owned(), status.clone()));
        State::resume(self.record.get().cloned(), hold, statuses.collect(), self.context.boot_id())
    }

    fn policy(&self) -> Policy {
        let baseos = &self.settings.current().baseos;
        let can_activate = baseos.activate.is_some();
        Policy { retry: baseos.retry, dry_run: baseos.dry_run, can_activate }
    }

    fn look(&mut self, state: &State, now: Moment) -> Event {
        let root = self.context.root();
        let settings = self.settings.current();
        let window = window(&settings.window, now.wall.timestamp());
        let Configs { images: configs, sources, outranked, is_partial } = inputs::configs(root, &settings);
        let contents = inputs::contents(root, &mut self.good_contents, &known_uuids(&configs, state));
        let running = self.current.running(settings.baseos.current.as_ref(), root, now.boot_ms);
        let drain = self.requester.read(state.listen());
        let refused = inputs::refused(&configs);
        self.told.tell(&refused);
        Event::Looked(Box::new(Facts {
            configs,
            sources,
            outranked,
            obeys_cluster: settings.commands.from_cluster,
            is_partial,
            left_running: self.left_running(state),
            frozen: freeze(root, now.wall.timestamp()).map(|freeze| freeze.words),
            is_pausing: state.phase == Phase::Deferred && is_pausing_outside(root, window.as_ref()),
            window,
            contents,
            running,
            drain,
            nodeagent: NodeAgentView::read(root, self.context.boot_id()),
            refused: refused.into_iter().chain(self.refused()).collect(),
        }))
    }

    fn perform(&mut self, effect: &Effect) -> Result<(), EffectError> {
        match effect {
            Effect::Record(record) => self.put_record(record)?,
            Effect::WriteDown(line) => {
                let folder = self.context.root().agent_folder(agent::BASEOSMGR, Persistence::Persistent);
                device_actions::write_down(&folder, line)?;
            }
            Effect::Withdraw => self.requester.withdraw().map(|_| ())?,
            Effect::Request { own, uuid } => self.requester.publish(*own, uuid).map(|_| ())?,
            Effect::Hold(hold) => self.publish_hold(hold)?,
            Effect::Status(status) => self.publish_status(status)?,
            Effect::Forget(uuid) => self.forget_status(uuid)?,
            Effect::Activate { serial, config } => self.activate(*serial, config),
            Effect::EndLeftRunning => match self.lock.kill_holders() {
                Ok(count) => {
                    tracing::error!(
                        "the activate command of an earlier baseos has exceeded its time limit: {count} processes killed"
                    );
                }
                Err(error) => {
                    tracing::error!("cannot kill the activate command of an earlier baseos: {error}");
                }
            },
            Effect::WakeAt(_) => {}
        }
        Ok(())
    }

    async fn changed(&mut self, state: &State) -> Option<Event> {
        let [cluster, zedagent, controller, person] = &mut self.configs;
        tokio::select! {
            event = self.ended.recv() => event,
            () = self.current.changed() => None,
            () = zedagent.changed() => None,
            () = controller.changed() => None,
            () = person.changed() => None,
            () = cluster.changed() => None,
            () = self.freeze.changed() => None,
            () = self.contents.changed() => None,
            () = self.action.changed() => None,
            () = self.settings.changed() => None,
            () = self.requester.changed(state.listen()) => None,
        }
    }

    fn show_trouble(&mut self, state: &State, wanted: &State, error: &str) {
        let runs = |state: &State| matches!(state.phase, Phase::Activating { .. } | Phase::Adopted);
        // The command has ended if only its result cannot be recorded: then it keeps the device up no longer.
        let is_running = runs(state) && runs(wanted);
        if let Some(hold) = troubled(&self.resume().hold, is_running, error)
            && let Err(error) = self.publish_hold(&hold)
        {
            tracing::debug!("{}", error_chain(&error));
        }
    }

    fn tell(&self, before: &State, after: &State, is_first: bool) {
        let line = line_of(after);
        if is_first || line != line_of(before) {
            let hold = &after.hold;
            let line = log_line([&line, &hold.blocked_by, &hold.release]);
            tracing::info!("baseOsHandleStatusUpdateUUID: {line}");
        }
    }
}

impl BaseosShell {
    /// The end of the time limit of an activate command whose result this process will not receive; None if no such
    /// command runs. If that cannot be found out, the limit counts as never over, because its start is not known.
    fn left_running(&self, state: &State) -> Option<u64> {
        if matches!(state.phase, Phase::Activating { .. }) {
            return None;
        }
        self.lock.held_until().unwrap_or_else(|error| {
            tracing::debug!("cannot find out whether an activate command is running: {error}");
            Some(u64::MAX)
        })
    }

    /// Refused files besides those of the gate, which are in the gate's own text.
    fn refused(&self) -> Vec<String> {
        let configs = self.configs.iter().flat_map(Subscription::refused);
        let all = configs.chain(self.contents.refused()).chain(self.action.refused());
        all.map(|refusal| refusal.to_string()).collect()
    }

    fn put_record(&mut self, record: &ActivationRecord) -> Result<(), NotWritten> {
        let written = self.record.put(Some(record).filter(|record| !record.is_empty()));
        if matches!(written, Err(NotWritten::IsBack(_))) {
            self.requester.recall(self.record.get().and_then(|record| record.request));
        }
        written
    }

    fn publish_hold(&mut self, hold: &BaseOsHold) -> Result<(), PublishError> {
        self.hold.publish(&TopicKey::global(), hold).map(|_| ())
    }

    fn publish_status(&mut self, status: &BaseOsStatus) -> Result<(), PublishError> {
        match TopicKey::parse(&status.content_tree_uuid) {
            Ok(key) => self.statuses.publish(&key, status).map(|_| ()),
            Err(error) => {
                tracing::warn!("cannot publish BaseOsStatus of an image: {error}");
                Ok(())
            }
        }
    }

    fn forget_status(&mut self, uuid: &str) -> Result<(), PublishError> {
        match TopicKey::parse(uuid) {
            Ok(key) => self.statuses.unpublish(&key).map(|_| ()),
            Err(_) => Ok(()),
        }
    }

    fn activate(&mut self, serial: u32, config: &BaseOsConfig) {
        let settings = self.settings.current();
        let (command, limit) = (settings.baseos.activate.clone(), settings.baseos.timeout);
        let environment = self.environment(config);
        let (uuid, version) = (&config.content_tree_uuid, &config.base_os_version);
        tracing::warn!("baseOsHandleStatusUpdateUUID: activating {uuid}, version {version}");
        let (sender, lock) = (self.sender.clone(), self.lock.clone());
        self.command = Some(Task::spawn(async move {
            let result = match command {
                Some(command) => run_locked(&command, &environment, limit, &lock).await,
                None => Err("cannot activate: setting baseos.activate is not set".to_owned()),
            };
            if sender.send(Event::Ended { serial, result }).await.is_err() {
                tracing::debug!("baseos stops: it does not note how the activation has ended");
            }
        }));
    }

    /// The environment of the activate command.
    fn environment(&self, config: &BaseOsConfig) -> Vec<(&'static str, String)> {
        let clean = |text: &str| text.replace('\0', " ");
        vec![
            ("EBB_BASEOS_ID", clean(&config.content_tree_uuid)),
            ("EBB_BASEOS_VERSION", clean(&config.base_os_version)),
            ("EBB_BASEOS_PARTITION", inputs::other_partition(self.context.root()).to_owned()),
        ]
    }
}

/// Runs the activate command, and holds the lock that shows that it is running. Processes that a successful command
/// leaves running are its own matter. After a failure all its processes are killed, so that none of them writes
/// beside the next attempt.
async fn run_locked(
    command: &settings::Command,
    environment: &[(&str, String)],
    limit: Duration,
    lock: &ActivationLock,
) -> Result<(), String> {
    let until_ms = clock::boot_millis().saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let file = lock.take(until_ms).map_err(|error| format!("not started: {}", error_chain(&error)))?;
    let ended = program::run_holding(command, environment, limit, file).await.map(|_| ());
    let released = if ended.is_ok() { lock.forget() } else { lock.kill_holders().map(|_| ()) };
    if let Err(error) = released {
        tracing::warn!("processes of the activate command may still run, baseos waits for them: {error}");
    }
    ended
}

/// Image and phase for the log.
fn line_of(state: &State) -> String {
    format!("{}: {}", state.record.current_uuid().unwrap_or("no image"), state.phase.name())
}

/// The UUIDs of all images whose content may matter.
fn known_uuids(configs: &BTreeMap<String, Configured>, state: &State) -> BTreeSet<String> {
    let current = state.record.current_uuid().map(str::to_owned);
    configs.keys().cloned().chain(current).collect()
}
