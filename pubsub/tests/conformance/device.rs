//! A device: a root of its own, with a runtime in which our side runs. The test itself plays EVE's side, and blocks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use pubsub::{AgentLock, Change, Persistence, Publisher, Root, Subscription, TopicKey};
use schemas::{Topic, agent};
use tempfile::{Builder, TempDir};
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::task::AbortHandle;

use crate::raw::TOO_LONG;

/// How long no event may come where none is expected.
const QUIET: Duration = Duration::from_millis(100);

pub(crate) struct Device {
    // Dropped before the folder is removed.
    runtime: Runtime,
    pub(crate) root: Root,
    pub(crate) lock: AgentLock,
    pub(crate) folder: TempDir,
}

impl Device {
    /// A device on which our side runs on a thread of its own.
    pub(crate) fn new() -> Self {
        Self::running_in(RuntimeBuilder::new_multi_thread().worker_threads(1).enable_all().build().unwrap())
    }

    /// A device on which our side runs only within [`Device::run`] and [`Device::meanwhile`], with a clock that jumps to
    /// the next timer whenever there is nothing to do.
    pub(crate) fn timeless() -> Self {
        Self::running_in(
            RuntimeBuilder::new_current_thread().enable_all().start_paused(true).build().unwrap(),
        )
    }

    fn running_in(runtime: Runtime) -> Self {
        let folder = folder();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        Self { runtime, root, lock, folder }
    }

    /// A device whose root is in a subfolder of its temporary folder.
    pub(crate) fn below(inner: &str) -> Self {
        let mut device = Self::new();
        device.root = Root::new(device.folder.path().join(inner));
        device.lock = AgentLock::acquire(&device.root, agent::ZEDKUBE).unwrap();
        device
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Runs our side while `blocking` blocks.
    pub(crate) fn meanwhile<T: Send + 'static>(&self, blocking: impl FnOnce() -> T + Send + 'static) -> T {
        self.run(async { tokio::task::spawn_blocking(blocking).await.unwrap() })
    }

    /// A publisher that does not serve its socket yet.
    pub(crate) fn files<T: Topic>(&self) -> Publisher<T> {
        self.publisher(Persistence::Volatile)
    }

    pub(crate) fn publisher<T: Topic>(&self, persistence: Persistence) -> Publisher<T> {
        Publisher::open(&self.root, agent::ZEDKUBE, persistence, &self.lock).unwrap()
    }

    pub(crate) fn served<T: Topic>(&self) -> Publisher<T> {
        self.serve(self.files())
    }

    pub(crate) fn serve<T: Topic>(&self, publisher: Publisher<T>) -> Publisher<T> {
        let _runtime = self.runtime.enter();
        publisher.served().unwrap()
    }

    pub(crate) fn dial<T: Topic>(&self) -> Subscription<T> {
        let _runtime = self.runtime.enter();
        Subscription::dial(&self.root, agent::ZEDKUBE)
    }

    pub(crate) fn follow<T: Topic>(&self) -> Subscription<T> {
        let _runtime = self.runtime.enter();
        Subscription::follow(&self.root, agent::ZEDKUBE, Persistence::Volatile)
    }

    /// Path of the topic's socket, as in EVE.
    pub(crate) fn socket<T: Topic>(&self) -> PathBuf {
        self.root.path().join(format!("run/zedkube/{}.sock", T::NAME))
    }

    /// Path of the item's file, as in EVE.
    pub(crate) fn file<T: Topic>(&self, key: &str) -> PathBuf {
        self.root.path().join(format!("run/zedkube/{}/{key}.json", T::NAME))
    }

    /// All changes that [`Subscription::next`] returns.
    pub(crate) fn changes<T: Topic>(&self, mut subscription: Subscription<T>) -> Stream<Change<T>> {
        let (sender, receiver) = mpsc::channel();
        let task = self.runtime.spawn(async move { while sender.send(subscription.next().await).is_ok() {} });
        Stream { receiver, task: task.abort_handle() }
    }

    /// The state of the subscription at the start and whenever [`Subscription::changed`] returns.
    pub(crate) fn sights<T: Topic>(&self, mut subscription: Subscription<T>) -> Stream<Sight<T>> {
        let (sender, receiver) = mpsc::channel();
        let task = self.runtime.spawn(async move {
            while sender.send(Sight::of(&subscription)).is_ok() {
                subscription.changed().await;
            }
        });
        Stream { receiver, task: task.abort_handle() }
    }
}

/// A folder in memory, because fsync is slow on a disk.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let mut named = Builder::new();
    named.prefix("conformance-");
    if memory.is_dir() { named.tempdir_in(memory) } else { named.tempdir() }.unwrap()
}

/// The state of a subscription at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sight<T> {
    pub(crate) items: BTreeMap<String, T>,
    pub(crate) refused: Vec<String>,
    pub(crate) restarted: u64,
}

impl<T: Topic> Sight<T> {
    fn of(subscription: &Subscription<T>) -> Self {
        let items = subscription.items().iter().map(|(key, value)| (key.to_string(), value.clone()));
        let refused = subscription.refused().into_iter().map(|refusal| refusal.to_string());
        Self { items: items.collect(), refused: refused.collect(), restarted: subscription.restarted() }
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.items.keys().map(String::as_str).collect()
    }
}

/// The events of a subscription.
pub(crate) struct Stream<E> {
    receiver: mpsc::Receiver<E>,
    task: AbortHandle,
}

impl<E: std::fmt::Debug> Stream<E> {
    pub(crate) fn next(&self) -> E {
        self.receiver.recv_timeout(TOO_LONG).expect("something comes")
    }

    /// Waits for the first event that fulfils the condition.
    pub(crate) fn until(&self, is_so: impl Fn(&E) -> bool) -> E {
        loop {
            let next = self.next();
            if is_so(&next) {
                return next;
            }
        }
    }

    /// All events that come until none comes for a while.
    pub(crate) fn until_quiet(&self) -> Vec<E> {
        std::iter::from_fn(|| self.receiver.recv_timeout(QUIET).ok()).collect()
    }

    /// Checks that no event comes.
    #[track_caller]
    pub(crate) fn is_quiet(&self) {
        if let Ok(event) = self.receiver.recv_timeout(QUIET) {
            panic!("nothing was to come: {event:?}");
        }
    }
}

impl<E> Drop for Stream<E> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn key(text: &str) -> TopicKey {
    TopicKey::parse(text).unwrap()
}

/// Writes a file as EVE does: the whole file or nothing.
pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let temporary = path.with_extension("new");
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    fs::rename(temporary, path).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}
