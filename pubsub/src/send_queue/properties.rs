//! Connects both sides of the protocol by a simulated socket. Whatever happens in whatever order, in the end the
//! subscriber has what the publisher has.

use std::collections::VecDeque;
use std::path::Path;

use proptest::prelude::*;
use schemas::{DrainRequester, DrainStatus, NodeDrainStatus, to_bytes};

use super::*;
use crate::mirror::Mirror;

/// Number of messages that the kernel keeps for a slow reader.
const ROOM: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The publisher publishes this status under this key.
    Publish(u8, u8),
    Delete(u8),
    Restarted(u64),
    /// The publisher sends as many messages as the socket takes, at most this number.
    Send(usize),
    /// The subscriber reads at most this number of messages.
    Read(usize),
    /// The connection breaks; messages on their way are lost.
    Break,
    Connect,
    /// The publisher dies, all connections break, and it starts again with the content of its files.
    PublisherRestarts,
    /// The subscriber dies and starts again without any knowledge.
    SubscriberRestarts,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (0..4_u8, 0..10_u8).prop_map(|(key, code)| Happening::Publish(key, code)),
        4 => (0..4_u8).prop_map(Happening::Delete),
        1 => (0..3_u64).prop_map(Happening::Restarted),
        8 => (1..5_usize).prop_map(Happening::Send),
        8 => (1..5_usize).prop_map(Happening::Read),
        2 => Just(Happening::Break),
        3 => Just(Happening::Connect),
        1 => Just(Happening::PublisherRestarts),
        1 => Just(Happening::SubscriberRestarts),
    ]
}

#[derive(Debug)]
struct Sim {
    snapshot: Snapshot,
    mirror: Mirror<NodeDrainStatus>,
    link: Option<(SendQueue, VecDeque<Vec<u8>>)>,
}

impl Sim {
    fn new() -> Self {
        Self { snapshot: Snapshot::default(), mirror: mirror(), link: None }
    }

    fn play(&mut self, happening: Happening) {
        match happening {
            Happening::Publish(key, code) => drop(self.snapshot.set(&name(key), &status(code))),
            Happening::Delete(key) => drop(self.snapshot.remove(&name(key))),
            Happening::Restarted(count) => drop(self.snapshot.set_restarted(count)),
            Happening::Send(most) => self.send(most),
            Happening::Read(most) => self.read(most),
            Happening::Break => self.disconnect(),
            Happening::Connect => self.connect(),
            Happening::PublisherRestarts => {
                self.disconnect();
                self.snapshot = restarted(&self.snapshot);
            }
            Happening::SubscriberRestarts => {
                self.disconnect();
                self.mirror = mirror();
            }
        }
    }

    fn connect(&mut self) {
        if self.link.is_none() {
            self.link = Some((SendQueue::new("NodeDrainStatus", false), VecDeque::new()));
            self.mirror.connected();
        }
    }

    fn disconnect(&mut self) {
        self.link = None;
        self.mirror.lost();
    }

    fn send(&mut self, most: usize) {
        let Some((sender, queue)) = &mut self.link else { return };
        for _ in 0..most {
            let Some(outgoing) = sender.next(&self.snapshot) else { return };
            if queue.len() < ROOM {
                queue.push_back(outgoing.message.encode());
                sender.sent(outgoing);
            }
        }
    }

    fn read(&mut self, most: usize) {
        let Some((_, queue)) = &mut self.link else { return };
        let taken = most.min(queue.len());
        for datagram in queue.drain(..taken) {
            self.mirror.take(&datagram).unwrap();
        }
    }

    /// Lets both sides run without further faults.
    fn settle(&mut self) {
        self.connect();
        for _ in 0..50 {
            self.send(ROOM);
            self.read(ROOM);
        }
    }

    fn invariant_both_have_the_same(&self) {
        let told: BTreeMap<TopicKey, Vec<u8>> =
            self.mirror.items().iter().map(|(key, value)| (key.clone(), to_bytes(value))).collect();
        let held: BTreeMap<TopicKey, Vec<u8>> =
            self.snapshot.items.iter().map(|(key, item)| (key.clone(), item.json.to_vec())).collect();
        assert_eq!(told, held);
        assert!(self.mirror.is_following());
        assert_eq!(self.mirror.refused(), []);
        let (sender, queue) = self.link.as_ref().unwrap();
        assert!(sender.next(&self.snapshot).is_none() && queue.is_empty(), "it never ends");
        // A counter that was cleared while no subscriber was connected is never sent, as in EVE.
        let counter = self.snapshot.restarted;
        assert!(counter == 0 || self.mirror.restarted() == counter);
    }
}

/// The publisher's snapshot after a restart: the values of the files, with other version numbers.
fn restarted(snapshot: &Snapshot) -> Snapshot {
    let mut anew = Snapshot::default();
    for (key, item) in &snapshot.items {
        anew.set(key, &item.json);
    }
    anew.set_restarted(snapshot.restarted);
    anew
}

fn mirror() -> Mirror<NodeDrainStatus> {
    Mirror::new("NodeDrainStatus", Path::new("/run/zedkube/NodeDrainStatus.sock"))
}

fn name(number: u8) -> TopicKey {
    TopicKey::parse(&format!("key {number}")).unwrap()
}

fn status(code: u8) -> Vec<u8> {
    let status = DrainStatus::ALL.into_iter().find(|status| status.code() == code).unwrap();
    to_bytes(&NodeDrainStatus { status, requested_by: DrainRequester::None })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_have_the_same_in_the_end(
        happenings in prop::collection::vec(any_happening(), 1..60),
    ) {
        let mut sim = Sim::new();
        for happening in happenings {
            sim.play(happening);
        }
        sim.settle();
        sim.invariant_both_have_the_same();
    }
}
