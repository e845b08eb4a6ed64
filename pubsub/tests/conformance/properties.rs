//! Random events in random order: once there are no more of them, the subscriber has what the publisher has. With real
//! files and real sockets; `feed` has the same test with simulated ones.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use pubsub::{AgentLock, Change, Persistence, Publisher, Root, Subscription, TopicKey, Via};
use schemas::agent;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::device::{folder, key};
use crate::topics::Text;

/// Time limit of a wait; reached only when a test fails. Less than the 30 s after which files are read without an
/// event.
const TOO_LONG: Duration = Duration::from_secs(20);
/// How long the subscriber waits where perhaps nothing comes.
const MOMENT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The publisher publishes this value under this key.
    Publish(u8, u8),
    Delete(u8),
    SignalRestarted,
    ClearRestarted,
    /// The publisher dies and starts again; its connections break.
    PublisherRestarts,
    /// The publisher goes on without its socket.
    SocketGoes,
    SocketComes,
    /// The subscriber dies and starts again without any knowledge.
    SubscriberRestarts,
    /// The subscriber reads at most this number of changes. Without this event it reads nothing.
    Read(u8),
    /// The publisher's tasks run once.
    Turn,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (0..4_u8, 0..10_u8).prop_map(|(key, code)| Happening::Publish(key, code)),
        4 => (0..4_u8).prop_map(Happening::Delete),
        1 => Just(Happening::SignalRestarted),
        1 => Just(Happening::ClearRestarted),
        1 => Just(Happening::PublisherRestarts),
        1 => Just(Happening::SocketGoes),
        2 => Just(Happening::SocketComes),
        1 => Just(Happening::SubscriberRestarts),
        6 => (1..4_u8).prop_map(Happening::Read),
        4 => Just(Happening::Turn),
    ]
}

struct World {
    root: Root,
    lock: AgentLock,
    _folder: TempDir,
    via: Via,
    /// `None` while the publisher is dead.
    publisher: Option<Publisher<Text>>,
    subscription: Subscription<Text>,
    /// The items that the subscriber knows from the changes.
    told: BTreeMap<TopicKey, Text>,
    is_synced: bool,
    /// The items that were published.
    expected: BTreeMap<TopicKey, Text>,
}

impl World {
    fn new(via: Via) -> Self {
        let folder = folder();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        let publisher = Some(open(&root, &lock).served().unwrap());
        let subscription = follow(&root, via);
        let (told, expected) = (BTreeMap::new(), BTreeMap::new());
        Self { root, lock, _folder: folder, via, publisher, subscription, told, is_synced: false, expected }
    }

    fn publisher(&mut self) -> &mut Publisher<Text> {
        self.publisher.as_mut().unwrap()
    }

    async fn play(&mut self, happening: Happening) {
        match happening {
            Happening::Publish(name, code) => {
                let (name, value) = (name_of(name), value_of(code));
                self.publisher().publish(&name, &value).unwrap();
                self.expected.insert(name, value);
            }
            Happening::Delete(name) => {
                let was_there = self.publisher().unpublish(&name_of(name)).unwrap();
                assert_eq!(was_there, self.expected.remove(&name_of(name)).is_some());
            }
            Happening::SignalRestarted => self.publisher().signal_restarted().unwrap(),
            Happening::ClearRestarted => self.publisher().clear_restarted().unwrap(),
            Happening::PublisherRestarts => {
                self.reopen();
                self.publisher().serve().unwrap();
            }
            Happening::SocketGoes => self.reopen(),
            Happening::SocketComes => self.publisher().serve().unwrap(),
            Happening::SubscriberRestarts => {
                self.subscription = follow(&self.root, self.via);
                (self.told, self.is_synced) = (BTreeMap::new(), false);
            }
            Happening::Read(most) => {
                for _ in 0..most {
                    self.read(MOMENT).await;
                }
            }
            Happening::Turn => sleep(MOMENT).await,
        }
    }

    fn reopen(&mut self) {
        drop(self.publisher.take());
        let publisher = open(&self.root, &self.lock);
        assert_eq!(publisher.items(), &self.expected, "a publisher starts with what its folder holds");
        self.publisher = Some(publisher);
    }

    /// Reads a change, if one comes, and checks that it follows from the earlier ones.
    async fn read(&mut self, at_most: Duration) -> bool {
        let Ok(change) = timeout(at_most, self.subscription.next()).await else {
            return false;
        };
        match change {
            Change::Created(name, value) => assert_eq!(self.told.insert(name, value), None),
            Change::Modified(name, value) => {
                let before = self.told.insert(name, value.clone());
                assert!(before.is_some_and(|before| before != value));
            }
            Change::Deleted(name, value) => assert_eq!(self.told.remove(&name), Some(value)),
            Change::Synced => assert!(!std::mem::replace(&mut self.is_synced, true), "synced twice"),
            Change::Restarted(_) => assert!(self.is_synced),
        }
        true
    }

    fn is_quiet(&self) -> bool {
        let count = self.publisher.as_ref().map_or(0, Publisher::restarted);
        // A counter that was cleared while no subscriber was connected is never sent, as in EVE.
        let is_counted = self.subscription.restarted() == count || (count == 0 && self.via != Via::Files);
        self.is_synced
            && is_counted
            && self.told == self.expected
            && *self.subscription.items() == self.expected
    }

    /// Lets both sides run without further faults, and checks the result.
    async fn settle(&mut self) {
        self.publisher().serve().unwrap();
        while !self.is_quiet() {
            let (told, expected) = (self.told.keys(), self.expected.keys());
            let words = format!(
                "the subscriber knows {told:?}, the publisher has {expected:?}, perhaps with other values"
            );
            assert!(self.read(TOO_LONG).await, "{words}");
        }
        assert_eq!(self.subscription.refused(), []);
    }
}

fn open(root: &Root, lock: &AgentLock) -> Publisher<Text> {
    Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock).unwrap()
}

fn follow(root: &Root, via: Via) -> Subscription<Text> {
    Subscription::of(&root.topic::<Text>(agent::ZEDKUBE, Persistence::Volatile), via)
}

fn name_of(number: u8) -> TopicKey {
    key(&format!("key {number}"))
}

/// Every third value is so long that only a few of them fit into the socket of a reader that does not read.
fn value_of(code: u8) -> Text {
    let length = if code.is_multiple_of(3) { 40_000 } else { 0 };
    Text::from(format!("{code}{}", "x".repeat(length)))
}

/// A runtime with a running clock, because the inotify thread is not controlled by the runtime.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime whose clock jumps over pauses: a lost connection is tried again after 100 ms and more.
fn timeless() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn check(runtime: &Runtime, via: Via, happenings: Vec<Happening>) {
    runtime.block_on(async {
        let mut world = World::new(via);
        for happening in happenings {
            world.play(happening).await;
        }
        world.settle().await;
    });
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(any_happening(), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn by_files_both_have_the_same_in_the_end(happenings in happenings()) {
        check(&runtime(), Via::Files, happenings);
    }

    #[test]
    fn by_socket_both_have_the_same_in_the_end(happenings in happenings()) {
        check(&timeless(), Via::Socket, happenings);
    }

    #[test]
    fn either_way_both_have_the_same_in_the_end(happenings in happenings()) {
        check(&timeless(), Via::Either, happenings);
    }
}
