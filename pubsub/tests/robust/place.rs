//! A root for one test, with one topic in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pubsub::{
    AgentLock, Items, Persistence, PublishError, Publisher, Root, Subscription, TopicKey, read_items,
};
use schemas::{NodeDrainRequest, agent};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, pause, resume, timeout};

use crate::again::{self, role, say};

/// The topic: values differ in their `Context`.
pub(crate) type Item = NodeDrainRequest;

pub(crate) const VOLATILE: Persistence = Persistence::Volatile;
pub(crate) const PERSISTENT: Persistence = Persistence::Persistent;
pub(crate) const AGENT: &str = agent::ZEDAGENT;

/// Time limit of a wait. The protocol says that a change is seen within one second, but no test asserts timings: this
/// is far above that second, for a busy machine, and far below the rescan after 30 s, which sees whatever was missed.
pub(crate) const GUARD: Duration = Duration::from_secs(10);

/// After this time every change is seen, even without an event of inotify.
const RESCAN: Duration = Duration::from_secs(30);

pub(crate) struct Place {
    _temporary: Option<TempDir>,
    pub(crate) root: Root,
    pub(crate) persistence: Persistence,
}

impl Place {
    /// A place below the root of the test that started this process, if there is one: that test removes what is left,
    /// for example mounts.
    pub(crate) fn new(persistence: Persistence) -> Self {
        let temporary = role().map_or_else(temporary, |_| TempDir::new_in(again::root()).unwrap());
        let root = Root::new(temporary.path());
        Self { _temporary: Some(temporary), root, persistence }
    }

    /// The place of the test that started this process.
    pub(crate) fn given(persistence: Persistence) -> Self {
        Self { _temporary: None, root: Root::new(again::root()), persistence }
    }

    pub(crate) fn with_folder(persistence: Persistence) -> Self {
        let place = Self::new(persistence);
        fs::create_dir_all(place.folder()).unwrap();
        place
    }

    pub(crate) fn lock(&self) -> AgentLock {
        AgentLock::acquire(&self.root, AGENT).unwrap()
    }

    pub(crate) fn try_open(&self, lock: &AgentLock) -> Result<Publisher<Item>, PublishError> {
        Publisher::open(&self.root, AGENT, self.persistence, lock)
    }

    pub(crate) fn open(&self) -> (AgentLock, Publisher<Item>) {
        let lock = self.lock();
        let publisher = self.try_open(&lock).unwrap();
        (lock, publisher)
    }

    pub(crate) fn subscribe(&self) -> Subscription<Item> {
        Subscription::open(&self.root, AGENT, self.persistence)
    }

    pub(crate) fn read(&self) -> Items<Item> {
        read_items(&self.root, AGENT, self.persistence)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.folder::<Item>(AGENT, self.persistence)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        names(&self.folder())
    }
}

/// A folder in memory if possible: a kill is no power cut, and there are many writes.
pub(crate) fn temporary() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// The names in a folder; none if the folder does not exist.
pub(crate) fn names(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Writes a file as a shell does: in place, not durably.
pub(crate) fn echo(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Writes a file as Go does: a new file, renamed.
pub(crate) fn replace(path: &Path, text: &str) {
    let temporary = path.with_file_name("tmp1");
    echo(&temporary, text);
    fs::rename(temporary, path).unwrap();
}

/// Fills the file system of `folder` up to this number of free bytes.
pub(crate) fn fill(folder: &Path, left: u64) -> PathBuf {
    let path = folder.join("ballast");
    let mut file = File::create(&path).unwrap();
    let mut length: u64 = 0;
    while let Ok(written) = file.write(&[0; 4096]) {
        length += written as u64;
    }
    file.set_len(length - left).unwrap();
    path
}

pub(crate) fn key(text: &str) -> TopicKey {
    TopicKey::parse(text).unwrap()
}

pub(crate) fn value(context: &str) -> Item {
    Item { context: context.to_owned(), ..Item::default() }
}

pub(crate) fn json(context: &str) -> String {
    String::from_utf8(schemas::to_bytes(&value(context))).unwrap()
}

pub(crate) fn items(contexts: &[(&str, &str)]) -> BTreeMap<TopicKey, Item> {
    contexts.iter().map(|(name, context)| (key(name), value(context))).collect()
}

/// Waits until the subscription has exactly these items.
#[track_caller]
pub(crate) fn follows<'a>(
    subscription: &'a mut Subscription<Item>,
    contexts: &[(&str, &str)],
    what: &'a str,
) -> impl Future<Output = ()> + use<'a> {
    let expected = items(contexts);
    async move {
        let until = async {
            while *subscription.items() != expected {
                subscription.changed().await;
            }
        };
        let result = timeout(GUARD, until).await;
        assert!(result.is_ok(), "{what}: {:?} instead of {expected:?}", subscription.items());
    }
}

/// Waits, by a clock that runs ahead, for a change that no event reports.
pub(crate) async fn rescanned(subscription: &mut Subscription<Item>, contexts: &[(&str, &str)], what: &str) {
    pause();
    let start = Instant::now();
    while *subscription.items() != items(contexts) {
        subscription.changed().await;
        assert!(start.elapsed() <= 2 * RESCAN, "{what}: {:?}", subscription.items());
    }
    say(&format!("{what}: seen after {:?} by the clock of the test", start.elapsed()));
    // An earlier event may have caused the read; a rescan sets watches again.
    timeout(2 * RESCAN, subscription.changed()).await.expect_err("nothing more to tell");
    resume();
}

/// An error with its causes, as in the log.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
