//! Carries effects out: each becomes a task that answers with an event.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cluster::identity::Identity;
use cluster::slots::{SlotMap, SlotWatch};
use cluster::{Driver, NodeFacts, NodeWatch};
use pubsub::Root;
use runtime::{SettingsWatch, clock};
use session::{Effect, Event, State};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::calling::Calling;
use crate::link::Link;
use crate::node_writes::{NodeWrites, Write};
use crate::nodes::{self, probe};
use crate::preflight::Preflights;
use crate::{health, longhorn, slots, tokens};

/// Capacity of the queue of answers. Tasks wait when it is full.
const EVENTS: usize = 64;

/// How often zedkube checks whether its kubeconfig has changed while it sends nothing.
const OUTDATED: Duration = Duration::from_mins(1);

/// Carries out the effects that concern the cluster.
#[derive(Debug)]
pub(crate) struct Performer {
    link: Link,
    identity: Identity,
    writes: NodeWrites,
    events: mpsc::Receiver<Event>,
    answers: mpsc::Sender<Event>,
    driver: Driver,
    watched: Option<Watched>,
    /// Our node's name. It stays known: the node may have to be uncordoned although the last list did not show it.
    node: Option<String>,
    settings: SettingsWatch,
    slots: SlotMap,
    /// The watch on our Node, and the number of its connection: while nothing is to be done, and for the commands in its
    /// annotations.
    own_watch: Option<(NodeWatch, Watched)>,
    /// The session hears of that watch: it began while the session wanted it, and the session has wanted it since.
    tells_session: bool,
    /// Our Node with its commands, as that watch showed it last; `None` if there is none of this name.
    own_seen: Option<NodeFacts>,
    /// When zedkube checks whether the connection of that watch is outdated.
    outdated: Interval,
    /// The watch on the slot table while it is needed, and the number of its connection.
    slot_watch: Option<(SlotWatch, u64)>,
    /// That the slot table may not be watched was logged, and nothing was heard since.
    slot_refusal_is_told: Arc<AtomicBool>,
    /// Tasks beside drains: Longhorn's setting, and renewal of our token.
    housekeeping: Vec<AbortHandle>,
    /// The number of the last drain, for the task that sets Longhorn's policy.
    drain_number: watch::Sender<u64>,
    /// The calls without an answer so far.
    calling: Calling,
    /// The preflight: tries out what a drain needs.
    pub(crate) preflight: Preflights,
}

impl Drop for Performer {
    fn drop(&mut self) {
        for task in &self.housekeeping {
            task.abort();
        }
    }
}

/// The node that the driver watches, and the number of its connection.
#[derive(Debug, PartialEq, Eq)]
struct Watched {
    node: String,
    generation: u64,
}

impl Performer {
    /// Creates it; no call is made yet.
    pub(crate) fn start(root: &Root, settings: SettingsWatch) -> Self {
        let (answers, events) = mpsc::channel(EVENTS);
        let link = Link::new(root, &settings.current());
        let writes =
            NodeWrites::start(link.clone(), settings.current().policy.slots_group.clone(), answers.clone());
        Self {
            slots: slots::slot_map(&settings.current()),
            preflight: Preflights::new(),
            link,
            identity: Identity::default(),
            writes,
            events,
            answers,
            driver: Driver::default(),
            watched: None,
            node: None,
            settings,
            own_watch: None,
            tells_session: false,
            own_seen: None,
            outdated: every(OUTDATED),
            slot_watch: None,
            slot_refusal_is_told: Arc::default(),
            housekeeping: Vec::new(),
            drain_number: watch::Sender::default(),
            calling: Calling::default(),
        }
    }

    /// Sets the cluster to which calls may go, before effects of this state are carried out.
    pub(crate) fn stay_in_the_cluster(&self, state: &State) {
        self.link.pin(state.cluster.as_ref());
    }

    /// Starts the tasks that run beside drains.
    pub(crate) fn begin_housekeeping(&mut self) {
        let drain = self.drain_number.subscribe();
        let longhorn = tokio::spawn(longhorn::follow(self.link.clone(), self.settings.clone(), drain));
        let tokens = tokio::spawn(tokens::follow(self.link.clone()));
        self.housekeeping = vec![longhorn.abort_handle(), tokens.abort_handle()];
        self.preflight.start(
            self.link.clone(),
            self.slots.clone(),
            self.settings.current().policy.slots_limit > 0,
        );
    }

    /// The connection to the cluster.
    pub(crate) fn link(&self) -> Link {
        self.link.clone()
    }

    /// The places in which a kubeconfig is searched for, in words.
    pub(crate) fn kubeconfig_places(&self) -> String {
        self.link.places()
    }

    /// True if there is a kubeconfig, valid or not.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        self.link.has_kubeconfig()
    }

    /// Sets how our Node is recognised from now on.
    pub(crate) fn identify_as(&mut self, identity: Identity) {
        self.preflight.identify_as(&identity);
        self.identity = identity;
    }

    /// Starts to carry the effect out. Effects on files and times are the loop's.
    pub(crate) fn perform(&mut self, effect: Effect, state: &State) {
        if let Some(own) = &state.own {
            self.node = Some(own.name.clone());
        }
        self.calling.begin(&effect, clock::awake_millis());
        match (effect, self.node.clone()) {
            (Effect::ListNodes { serial }, _) => {
                nodes::list(self.link.clone(), self.identity.clone(), serial, self.answers.clone());
            }
            (Effect::SampleNodes { serial }, _) => {
                nodes::sample(self.link.clone(), serial, self.answers.clone());
            }
            (Effect::Probe { serial }, Some(node)) => {
                probe(self.link.clone(), node, serial, self.answers.clone());
            }
            (Effect::Cordon { serial }, Some(node)) => {
                let reason = reason(state);
                self.writes.send(Write::Cordon { serial, node, reason });
            }
            (Effect::Uncordon { serial }, Some(node)) => self.writes.send(Write::Uncordon { serial, node }),
            (Effect::Adopt { serial, whose }, Some(node)) => {
                self.writes.send(Write::Adopt { serial, node, whose });
            }
            (Effect::MarkWithoutSlot { serial }, Some(node)) => {
                self.writes.send(Write::MarkWithoutSlot { serial, node });
            }
            (Effect::ReadSlots { serial }, _) => {
                slots::read(self.link.clone(), self.slots.clone(), serial, self.answers.clone());
            }
            (Effect::WriteSlots { serial, based_on, node, entry }, _) => {
                let (link, map) = (self.link.clone(), self.slots.clone());
                slots::write(link, map, serial, based_on, node, entry, self.answers.clone());
            }
            (Effect::AskHealth { serial }, _) => {
                health::ask(self.settings.current().health.clone(), serial, self.answers.clone());
            }
            (Effect::Drain(effect), _) => self.drain(effect, state),
            // The session asks for these only once it knows our node, so this does not happen.
            (
                effect @ (Effect::Probe { .. }
                | Effect::Cordon { .. }
                | Effect::Uncordon { .. }
                | Effect::Adopt { .. }
                | Effect::MarkWithoutSlot { .. }),
                None,
            ) => {
                tracing::error!("the Node of this machine is not known: {effect:?} is not carried out");
                self.calling.forget(&effect);
            }
            (Effect::Record | Effect::Publish | Effect::TakeOverride | Effect::WakeAt(_), _) => {}
        }
    }

    /// Starts and stops watches as the state needs them.
    pub(crate) fn follow(&mut self, state: &State) {
        // In a drain each watch finds its own way back.
        self.link.pace().set_away(state.api.is_overtaxed && !state.wants_snapshot());
        self.follow_slots(state);
        self.follow_own(state);
        self.follow_node(state);
        self.preflight.follow(state);
        let number = state.session.number;
        self.drain_number.send_if_modified(|last| std::mem::replace(last, number) != number);
    }

    fn follow_slots(&mut self, state: &State) {
        if !state.wants_slot_watch() {
            self.slot_watch = None;
            return;
        }
        let Some((cluster, generation)) = self.link.kept() else { return };
        if self.slot_watch.as_ref().is_none_or(|(_, of)| *of != generation) {
            let watch = SlotWatch::start(&cluster, &self.slots, &self.slot_refusal_is_told);
            self.slot_watch = Some((watch, generation));
        }
    }

    fn follow_own(&mut self, state: &State) {
        let for_session = state.wants_own_watch();
        let is_wanted = for_session || self.settings.current().commands.from_cluster;
        let Some(own) = state.own.as_ref().filter(|_| is_wanted) else {
            (self.own_watch, self.own_seen) = (None, None);
            return;
        };
        // A watch tells the Node when it begins, and the session has to hear that.
        let is_news = for_session && !self.tells_session;
        self.tells_session &= for_session;
        let Some((cluster, generation)) = self.link.kept() else { return };
        let wanted = Watched { node: own.name.clone(), generation };
        if is_news || self.own_watch.as_ref().is_none_or(|(_, watched)| *watched != wanted) {
            self.own_watch = Some((NodeWatch::start(&cluster, &own.name), wanted));
            self.tells_session = for_session;
        }
    }

    /// Our Node with its commands, as its watch showed it last; `None` if it does not show this Node.
    pub(crate) fn own_seen(&self, uid: &str) -> Option<&NodeFacts> {
        self.own_seen.as_ref().filter(|node| node.view.uid == uid)
    }

    fn follow_node(&mut self, state: &State) {
        self.driver.await_snapshot(state.awaits_snapshot());
        let Some(own) = state.own.as_ref().filter(|_| state.wants_snapshot()) else {
            self.driver.unwatch();
            self.watched = None;
            return;
        };
        let Some((cluster, generation)) = self.link.kept() else { return };
        let wanted = Watched { node: own.name.clone(), generation };
        if self.watched.as_ref() != Some(&wanted) {
            self.driver.watch(&cluster, &own.name);
            self.watched = Some(wanted);
        }
    }

    /// What may be old because its watch has failed and has not gone on since. That the slots may not be watched is told
    /// by the preflight.
    pub(crate) fn watch_error(&self) -> Option<String> {
        if let Some(failure) = self.driver.last_error() {
            return Some(format!("what is known of the pods may be old: {failure}"));
        }
        let failure = self.slot_watch.as_ref().and_then(|(watch, _)| watch.last_error())?;
        let is_told = matches!(failure, cluster::ApiFailure::Denied { .. });
        (!is_told).then(|| format!("what is known of the slots may be old: {failure}"))
    }

    /// True while a request waits because zedkube has sent its most of a minute.
    pub(crate) fn is_paced(&self) -> bool {
        self.link.pace().holds_back()
    }

    /// Name of the call that has been in flight for longest, and for how long, without suspend.
    pub(crate) fn longest(&self) -> Option<(&'static str, Duration)> {
        let (call, since) = self.calling.longest()?;
        Some((call, Duration::from_millis(clock::awake_millis().saturating_sub(since))))
    }

    /// The next answer or snapshot. Cancel-safe.
    pub(crate) async fn event(&mut self) -> Event {
        let event = self.next_event().await;
        self.calling.end(&event);
        event
    }

    async fn next_event(&mut self) -> Event {
        // A watch of a connection that is not used any more says what another server, or another cluster, has.
        let slots = async {
            let Some((watch, generation)) = &mut self.slot_watch else { return pending().await };
            tokio::select! {
                seen = watch.changed() => match seen {
                    Ok(table) => return Event::SlotsSeen(slots::slot_table(table)),
                    Err(_) => return Event::SlotWatchFailed,
                },
                () = self.link.superseded(*generation) => {}
            }
            self.slot_watch = None;
            Event::SlotWatchFailed
        };
        let own = async {
            let Some((watch, Watched { generation, .. })) = &mut self.own_watch else {
                return pending().await;
            };
            let outdated = async {
                loop {
                    self.outdated.tick().await;
                    if self.link.is_outdated() {
                        return;
                    }
                }
            };
            tokio::select! {
                seen = watch.changed() => return seen.map_or(Event::OwnWatchFailed, |node| {
                    self.own_seen = node;
                    let shown = || Event::OwnSeen(self.own_seen.as_ref().map(|node| node.view.clone()));
                    if self.tells_session { shown() } else { Event::Tick }
                }),
                () = outdated => return Event::OwnWatchFailed,
                () = self.link.superseded(*generation) => {}
            }
            self.own_watch = None;
            Event::OwnWatchFailed
        };
        tokio::select! {
            Some(event) = self.events.recv() => event,
            event = slots => event,
            event = own => event,
            // Any event makes the loop publish; this one carries nothing else.
            () = self.preflight.changed() => Event::Tick,
            event = self.driver.next() => Event::Drain(event),
        }
    }

    /// Starts to carry an effect of the attempt out.
    fn drain(&mut self, effect: drain::Effect, state: &State) {
        if let Some(cordoned) = self.writes.proof() {
            self.driver.permit(&cordoned);
        }
        self.driver.perform(effect, state.known());
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The text for annotation `ebb.dev/cordon-reason`: who requests the drain, and why.
fn reason(state: &State) -> String {
    /// Kubernetes allows more; a person reads this in `kubectl describe node`.
    const LONGEST: usize = 200;
    let asks = |request: &session::Request| format!("{}: {}", request.publisher, request.context);
    let text: Vec<String> = state.requests.iter().map(asks).collect();
    text.join("; ").chars().take(LONGEST).collect()
}
