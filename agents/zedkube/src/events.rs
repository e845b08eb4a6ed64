//! Tells the cluster what happens, by Events about our Node and about pods that hold a drain up. Events are for people:
//! nothing depends on them, and what cannot be told is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::ApiFailure;
use cluster::events::{About, Happening, tell};
use cluster::node_conditions::{DrainSaid, DrainState, FAILED, NOT_DRAINED};
use drain::Moment;
use schemas::{Agent, NodeDrainReport, agent};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::link::Link;

/// Shortest time between two Events with the same reason about the same object.
const PAUSE: Duration = Duration::from_mins(1);

/// An Event about something that lasts is sent again after this time: the API server forgets an Event after an hour.
const RENEWAL: Duration = Duration::from_mins(10);

/// What holds a drain up is told when something has done so for this long: most refusals are over at once.
const HOLDS: Duration = Duration::from_secs(10);

/// A pod that has not left for so long has an Event of its own.
const POD_HOLDS: Duration = Duration::from_mins(1);

/// Most pods of a drain that have Events.
const MOST_PODS: usize = 16;

/// Most Events that wait for the API server. With more of them the newest are dropped.
const QUEUE: usize = 64;

/// How often an Event is tried.
const TRIES: u32 = 20;

/// Pause between two tries.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Decides what is told, and hands it to the task that does so.
#[derive(Debug)]
pub(crate) struct Events {
    queue: mpsc::Sender<Happening>,
    task: AbortHandle,
    /// What was said at the last look.
    before: Option<DrainSaid>,
    /// The occasion of what was told: the boot and the drain.
    occasion: String,
    /// What was told in it, by the UID of the object and the reason: when, and how often.
    told: BTreeMap<(String, &'static str), (Moment, Happening)>,
    /// Pods that hold the drain up, by their UID, and since when.
    held: BTreeMap<String, Moment>,
    /// Since when something holds the drain up.
    held_since: Option<Moment>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Something that is so, or has just happened.
struct Fact {
    about: About,
    reason: &'static str,
    is_warning: bool,
    message: String,
}

impl Fact {
    fn of_node(reason: &'static str, is_warning: bool, message: &str) -> Self {
        Self { about: About::Node, reason, is_warning, message: message.to_owned() }
    }
}

impl Events {
    /// Starts the task. Has to be called in a tokio runtime.
    pub(crate) fn start(link: Link) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        Self::with(queue, tokio::spawn(send(link, events)).abort_handle())
    }

    fn with(queue: mpsc::Sender<Happening>, task: AbortHandle) -> Self {
        let (occasion, told, held) = (String::new(), BTreeMap::new(), BTreeMap::new());
        Self { queue, task, before: None, occasion, told, held, held_since: None }
    }

    /// Looks at the state of the drain of our Node, which has this name and UID, and tells what is new.
    pub(crate) fn look(
        &mut self,
        (node, uid): (&str, &str),
        said: Option<&DrainSaid>,
        report: &NodeDrainReport,
        now: Moment,
    ) {
        let before = std::mem::replace(&mut self.before, said.cloned());
        let occasion = [report.boot_id.as_str(), &report.drain_id].join("\0");
        if self.occasion != occasion {
            self.occasion = occasion;
            self.told.clear();
        }
        let mut facts: Vec<Fact> = of_node(before.as_ref(), said, report).into_iter().collect();
        let blocked = blocked(said, report);
        self.held_since = blocked.as_ref().map(|_| self.held_since.unwrap_or(now));
        facts.extend(blocked.filter(|_| self.held_since.is_some_and(|since| since + HOLDS <= now)));
        facts.extend(self.pods(node, said, report, now));
        for fact in facts {
            self.tell(node, uid, fact, now);
        }
    }

    /// The pods that have held the drain up for a while.
    fn pods(
        &mut self,
        node: &str,
        said: Option<&DrainSaid>,
        report: &NodeDrainReport,
        now: Moment,
    ) -> Vec<Fact> {
        let goes_on = said.is_some_and(|said| said.state == DrainState::InProgress);
        let names = report.pods.iter().filter(|_| !report.blocked.is_empty());
        let uids: BTreeMap<_, _> =
            names.map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod.uid.as_str())).collect();
        let mut held = BTreeMap::new();
        let mut facts = Vec::new();
        for blocked in report.blocked.iter().filter(|_| goes_on) {
            let Some((namespace, name)) = blocked.pod.split_once('/') else { continue };
            let Some(uid) = uids.get(&(namespace, name)).copied() else { continue };
            let since = self.held.get(uid).copied().unwrap_or(now);
            held.insert(uid.to_owned(), since);
            if since + POD_HOLDS <= now && facts.len() < MOST_PODS {
                let about = About::Pod {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    uid: uid.to_owned(),
                };
                let message = format!(
                    "node {node} is being drained, and this pod does not leave: {}: {}",
                    blocked.cause, blocked.hint
                );
                facts.push(Fact { about, reason: "DrainBlocked", is_warning: true, message });
            }
        }
        self.held = held;
        facts
    }

    /// Tells it, unless the same was told a short time ago.
    fn tell(&mut self, node: &str, node_uid: &str, fact: Fact, now: Moment) {
        let Fact { about, reason, is_warning, message } = fact;
        let object = match &about {
            About::Node => node_uid,
            About::Pod { uid, .. } => uid,
        };
        let key = (object.to_owned(), reason);
        let before = self.told.get(&key);
        if let Some((at, told)) = before {
            let pause = if told.message == message { RENEWAL } else { PAUSE };
            if now < *at + pause {
                return;
            }
        }
        let happening = Happening {
            node: node.to_owned(),
            node_uid: node_uid.to_owned(),
            about,
            reason,
            is_warning,
            message,
            occasion: self.occasion.clone(),
            count: before.map_or(1, |(_, told)| told.count.saturating_add(1)),
        };
        if let Err(error) = self.queue.try_send(happening.clone()) {
            tracing::debug!("an Event is dropped: {error}");
        }
        self.told.insert(key, (now, happening));
    }
}

/// What is to be told of the Node itself.
fn of_node(before: Option<&DrainSaid>, said: Option<&DrainSaid>, report: &NodeDrainReport) -> Option<Fact> {
    let Some(said) = said else {
        let back = if report.cordoned {
            report.reason.as_str()
        } else {
            "the drain is over, and the node takes pods again"
        };
        return before.map(|_| Fact::of_node("Returned", false, back));
    };
    let reason = &report.reason;
    Some(match (said.state, said.reason) {
        (DrainState::InProgress, _) => {
            let asks = report.requests.first().map(|request| {
                let who = match request.publisher.as_str() {
                    agent::ZEDKUBE => "the cluster",
                    agent::EBB => "a person at the device",
                    agent::HOLD => "a shutdown of the machine",
                    other => Agent::from_name(other).map_or(other, |agent| agent.name()),
                };
                format!(", because {who} asks for it: {}", request.context)
            });
            let text = format!("the node takes no pods, and its pods leave{}", asks.unwrap_or_default());
            Fact::of_node("Draining", false, &text)
        }
        (DrainState::Drained, _) => Fact::of_node("Drained", false, reason),
        (DrainState::Neither, FAILED) => Fact::of_node("DrainFailed", true, reason),
        (DrainState::Neither, NOT_DRAINED) => Fact::of_node("Undrained", true, said.text()),
        (DrainState::Neither, _) => return None,
    })
}

/// What holds the drain up.
fn blocked(said: Option<&DrainSaid>, report: &NodeDrainReport) -> Option<Fact> {
    said.filter(|said| said.state == DrainState::InProgress)?;
    let trouble = |blocker: &schemas::Blocker| {
        let (what, pods, examples, hint) =
            (&blocker.what, blocker.pods, blocker.examples.join(", "), &blocker.hint);
        format!("{what} ({pods} pods: {examples}): {hint}")
    };
    let troubles: Vec<String> = report.blockers.iter().map(trouble).collect();
    (!troubles.is_empty()).then(|| Fact::of_node("Blocked", true, &troubles.join("; ")))
}

/// Sends the Events, one after the other.
async fn send(link: Link, mut events: mpsc::Receiver<Happening>) {
    let mut is_refusal_told = false;
    while let Some(event) = events.recv().await {
        for _ in 0..TRIES {
            let Err(failure) = send_once(&link, &event).await else { break };
            if matches!(failure, ApiFailure::Denied { .. }) {
                if !std::mem::replace(&mut is_refusal_told, true) {
                    tracing::warn!("Events cannot be written (drains go on without them): {failure}");
                }
                break;
            }
            tracing::debug!("an Event cannot be written: {failure}");
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }
}

async fn send_once(link: &Link, event: &Happening) -> Result<(), ApiFailure> {
    tell(&link.cluster().await?.0, event).await
}

#[cfg(test)]
mod tests {
    use schemas::{Blocked, Blocker, PodLine, RequestLine};

    use super::*;

    fn report(drain_id: &str, blockers: u32) -> NodeDrainReport {
        let blocker = Blocker {
            what: "budget web allows no disruption".to_owned(),
            hint: "wait".to_owned(),
            pods: blockers,
            examples: vec!["shop/web-1".to_owned()],
            ..Blocker::default()
        };
        let blocked =
            Blocked { pod: "shop/web-1".to_owned(), cause: "budget web".to_owned(), ..Blocked::default() };
        let pod = PodLine {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
            uid: "p1".to_owned(),
            ..PodLine::default()
        };
        let request = RequestLine {
            publisher: agent::ZEDAGENT.to_owned(),
            context: "reboot".to_owned(),
            ..RequestLine::default()
        };
        NodeDrainReport {
            boot_id: "boot".to_owned(),
            drain_id: drain_id.to_owned(),
            reason: "a reason".to_owned(),
            requests: vec![request],
            blockers: (blockers > 0).then_some(blocker).into_iter().collect(),
            blocked: (blockers > 0).then_some(blocked).into_iter().collect(),
            pods: vec![pod],
            ..NodeDrainReport::default()
        }
    }

    #[tokio::test]
    async fn what_happens_is_told_once_and_what_lasts_is_counted_up() {
        let (queue, mut events) = mpsc::channel(QUEUE);
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        let mut told = Events::with(queue, task);
        let of = |state, reason| Some(DrainSaid::new(state, reason, "Complete: NOT DRAINED: why"));
        let drains = of(DrainState::InProgress, "AdminRequested");
        let drained = of(DrainState::Drained, "DrainCompleted");
        let pending = of(DrainState::Neither, "DrainPending");
        let failed = of(DrainState::Neither, "DrainFailed");
        let undrained = of(DrainState::Neither, "NotDrained");
        let (first, second) = ("one", "two");
        // At this second, in this drain, this is said, and so many pods are blocked. What is told?
        for (at, drain, said, blockers, expected) in [
            (0, "", &None, 0, vec![]),
            (1, first, &pending, 0, vec![]),
            (2, first, &drains, 0, vec!["Draining 1"]),
            (3, first, &drains, 2, vec![]),
            (13, first, &drains, 2, vec!["Blocked 1"]),
            (23, first, &drains, 3, vec![]),
            (63, first, &drains, 3, vec!["DrainBlocked 1"]),
            (73, first, &drains, 3, vec!["Blocked 2"]),
            (83, first, &drains, 3, vec![]),
            (603, first, &drains, 3, vec!["Draining 2"]),
            (663, first, &drains, 3, vec!["DrainBlocked 2"]),
            (673, first, &drains, 3, vec!["Blocked 3"]),
            (674, first, &failed, 3, vec!["DrainFailed 1"]),
            (675, first, &None, 0, vec!["Returned 1"]),
            (680, second, &drains, 2, vec!["Draining 1"]),
            // It is another pod, or it could leave in between.
            (685, second, &drains, 0, vec![]),
            (740, second, &drains, 2, vec![]),
            (741, second, &drained, 0, vec!["Drained 1"]),
            (742, second, &drained, 0, vec![]),
            (743, second, &undrained, 0, vec!["Undrained 1"]),
            (744, second, &None, 0, vec!["Returned 1"]),
            (745, second, &None, 0, vec![]),
        ] {
            let now = Moment(1000 * at);
            told.look(("edge-a", "n1"), said.as_ref(), &report(drain, blockers), now);
            let mut seen = Vec::new();
            while let Ok(event) = events.try_recv() {
                seen.push(format!("{} {}", event.reason, event.count));
                let is_of_pod = event.about != About::Node;
                assert_eq!(is_of_pod, event.reason == "DrainBlocked", "{event:?}");
                match event.reason {
                    "Draining" => assert!(event.message.ends_with("because device-op asks for it: reboot")),
                    "Undrained" => assert_eq!(event.message, "Complete: NOT DRAINED: why"),
                    _ => assert!(!event.message.is_empty()),
                }
            }
            assert_eq!(seen, expected, "after {at} s");
        }
    }
}
