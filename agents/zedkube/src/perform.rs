//! Effects carried out: each becomes a task that answers with an event.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use cluster::identity::Identity;
use cluster::{Calls, Feed};
use drain::{Answer, Findings, Picture};
use pubsub::Root;
use runtime::Settings;
use session::State;
use session::step::{Effect, Event};
use tokio::sync::mpsc;

use crate::link::Link;
use crate::looks::{look, probe};
use crate::node_writes::{NodeWrites, Write};

/// Answers that wait to be taken in. The tasks wait when it is full.
const EVENTS: usize = 64;

/// An eviction that could not even be sent is tried again after this.
const NO_CONNECTION: Duration = Duration::from_secs(1);

/// Carries effects out.
#[derive(Debug)]
pub(crate) struct Performer {
    link: Link,
    identity: Identity,
    writes: NodeWrites,
    events: mpsc::Receiver<Event>,
    answers: mpsc::Sender<Event>,
    calls: Option<Calls>,
    feed: Option<Watching>,
    last: Option<Arc<Picture>>,
    /// Our node's name. Once known it stays: a cordon may have to be taken back from a node that a look missed.
    node: Option<String>,
}

/// The watches, and what they watch.
#[derive(Debug)]
struct Watching {
    feed: Feed,
    node: String,
    generation: u64,
}

impl Performer {
    /// Nothing is sent yet.
    pub(crate) fn start(root: &Root, settings: &Settings) -> Self {
        let (answers, events) = mpsc::channel(EVENTS);
        let link = Link::new(root, settings);
        let writes = NodeWrites::start(link.clone(), answers.clone());
        let identity = Identity::default();
        Self { link, identity, writes, events, answers, calls: None, feed: None, last: None, node: None }
    }

    /// There is a kubeconfig, good or broken.
    pub(crate) fn has_kubeconfig(&self) -> bool {
        self.link.has_kubeconfig()
    }

    /// From now on this is how our node is recognised.
    pub(crate) fn identify_as(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// Begins to carry the effect out. `Publish` and `WakeAt` are the loop's.
    pub(crate) fn perform(&mut self, effect: Effect, state: &State) {
        if let Some(own) = &state.own {
            self.node = Some(own.name.clone());
        }
        match (effect, self.node.clone()) {
            (Effect::Look { serial }, _) => {
                look(self.link.clone(), self.identity.clone(), serial, self.answers.clone());
            }
            (Effect::Probe { serial }, Some(node)) => {
                probe(self.link.clone(), node, serial, self.answers.clone());
            }
            (Effect::Cordon { serial }, Some(node)) => {
                let reason = reason(state);
                self.writes.send(Write::Cordon { serial, node, reason });
            }
            (Effect::Uncordon { serial }, Some(node)) => self.writes.send(Write::Uncordon { serial, node }),
            (Effect::Drain(effect), _) => self.drain(effect),
            // The session knows our node before it asks for any of these.
            (effect @ (Effect::Probe { .. } | Effect::Cordon { .. } | Effect::Uncordon { .. }), None) => {
                tracing::error!("no node is known to be ours: {effect:?} is not carried out");
            }
            (Effect::Publish | Effect::WakeAt(_), _) => {}
        }
    }

    /// Brings the watches in line with what the state wants.
    pub(crate) fn follow(&mut self, state: &State) {
        let Some(own) = state.own.as_ref().filter(|_| state.wants_picture()) else {
            (self.feed, self.last) = (None, None);
            return;
        };
        let Some((cluster, generation)) = self.link.standing() else { return };
        let fits = |watching: &Watching| watching.generation == generation && watching.node == own.name;
        if !self.feed.as_ref().is_some_and(fits) {
            let feed = Feed::start(&cluster, &own.name);
            self.feed = Some(Watching { feed, node: own.name.clone(), generation });
            self.calls = None;
        }
    }

    /// Why the watches show nothing new, if they have failed since they last said something.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.feed.as_ref()?.feed.last_error().map(|failure| failure.text().to_owned())
    }

    /// The next answer or picture. Can be dropped and called again.
    pub(crate) async fn event(&mut self) -> Event {
        let call = async {
            match &mut self.calls {
                Some(calls) => calls.next().await,
                None => pending().await,
            }
        };
        let picture = async {
            match &mut self.feed {
                Some(watching) => watching.feed.changed().await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some(event) = self.events.recv() => event,
            event = call => of_call(event),
            picture = picture => {
                self.last = Some(Arc::clone(&picture));
                Event::Picture(picture)
            }
        }
    }

    fn drain(&mut self, effect: drain::Effect) {
        if effect == drain::Effect::Abort {
            self.calls = None;
            return;
        }
        if self.calls.is_none() {
            let standing = self.link.standing().zip(self.writes.proof());
            self.calls = standing.map(|((cluster, _), proof)| Calls::new(cluster, proof));
        }
        match &mut self.calls {
            Some(calls) => calls.perform(effect, self.last.as_ref()),
            None => self.not_sent(effect),
        }
    }

    /// Nothing could be sent: answered all the same, or the session would wait for ever.
    fn not_sent(&self, effect: drain::Effect) {
        let text = "there is no connection to the API server just now".to_owned();
        let event = match effect {
            drain::Effect::Evict { attempt, pod, .. } | drain::Effect::Delete { attempt, pod, .. } => {
                let answer = Answer::Throttled { after: Some(NO_CONNECTION), text };
                Event::Answer { attempt, uid: pod.uid, answer }
            }
            drain::Effect::Prove { attempt, .. } => Event::Proof { attempt, look: Err(text) },
            drain::Effect::Inquire { attempt, .. } => {
                let findings = Arc::new(Findings { trouble: vec![text], ..Findings::default() });
                Event::Found { attempt, findings }
            }
            drain::Effect::WakeAt(_) | drain::Effect::Abort => return,
        };
        let answers = self.answers.clone();
        tokio::spawn(async move {
            if answers.send(event).await.is_err() {
                tracing::debug!("an answer came after the end");
            }
        });
    }
}

/// What goes into annotation `ebb.dev/cordon-reason`: who asks, and what for.
fn reason(state: &State) -> String {
    /// Kubernetes takes more; a person reads this in `kubectl describe node`.
    const LONGEST: usize = 200;
    let asks = |request: &session::Request| format!("{}: {}", request.publisher, request.context);
    let text: Vec<String> = state.requests.iter().map(asks).collect();
    text.join("; ").chars().take(LONGEST).collect()
}

fn of_call(event: drain::Event) -> Event {
    match event {
        drain::Event::Answer { attempt, uid, answer } => Event::Answer { attempt, uid, answer },
        drain::Event::Proof { attempt, look } => Event::Proof { attempt, look },
        drain::Event::Found { attempt, findings } => Event::Found { attempt, findings },
        drain::Event::Picture(picture) => Event::Picture(picture),
        // Calls bring none of these; a tick is harmless.
        drain::Event::Start { .. }
        | drain::Event::Resume { .. }
        | drain::Event::Cancel
        | drain::Event::Unseen { .. }
        | drain::Event::ApiAway
        | drain::Event::ApiBack
        | drain::Event::Tick => Event::Tick,
    }
}
