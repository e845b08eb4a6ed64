//! A device in a temporary folder with one agent under test; the test writes zedkube's files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pubsub::{AgentLock, Persistence, Publisher, Root, Subscription, TopicKey};
use schemas::{DrainStatus, Member, NodeDrainReport, NodeDrainRequest, RequestLine, Topic, agent};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::agent::{Agent, AgentContext, StartError};
use crate::flags::{AgentFlags, Assignment};
use crate::signals::Stop;

/// Time limit that only a failure reaches: longer than the longest poll interval, also where the clock is paused and
/// jumps.
pub const TOO_LONG: Duration = Duration::from_mins(10);

/// The device, and the agent that runs on it.
#[derive(Debug)]
pub struct TestDevice {
    folder: TempDir,
    name: &'static str,
    settings: Vec<Assignment>,
    zedkube: Option<AgentLock>,
    running: Option<(Stop, JoinHandle<()>)>,
}

impl TestDevice {
    /// A device in boot `boot-1`, a member of a cluster with a running zedkube. `name` is the agent under test.
    pub fn new(name: &'static str, settings: &[(&str, &str)]) -> Self {
        let assignment =
            |&(key, value): &(&str, &str)| Assignment { key: key.to_owned(), value: value.to_owned() };
        let settings = settings.iter().map(assignment).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut device = Self { folder, name, settings, zedkube: None, running: None };
        device.write("proc/sys/kernel/random/boot_id", "boot-1");
        device.start_zedkube();
        device.report(None);
        device
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// The root folder of the device.
    pub fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    /// A path of the device.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file as a person's `echo` does.
    pub fn write(&self, path: &str, text: &str) {
        write(&self.path(path), text.as_bytes());
    }

    /// The contents of a file.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Starts the agent; `run` is its entry function.
    pub async fn run<F, W>(&mut self, run: F)
    where
        F: FnOnce(AgentContext, Stop) -> W,
        W: Future<Output = ()> + Send + 'static,
    {
        let set = self.settings.clone();
        let flags = AgentFlags { root: self.folder.path().to_owned(), set, ..AgentFlags::default() };
        let agent = start(self.name, &flags).await;
        let stop = Stop::new();
        let task = tokio::spawn(run(agent.context(), stop.clone()));
        self.running = Some((stop, task));
    }

    /// Stops the agent, which has 2 s.
    pub async fn stop(&mut self) {
        let (stop, task) = self.running.take().unwrap();
        stop.request();
        tokio::time::timeout(Duration::from_secs(2), task).await.expect("ends within 2 s").unwrap();
    }

    /// Ends the agent at once, as a kill does: it writes nothing any more.
    pub async fn kill(&mut self) {
        let (_, task) = self.running.take().unwrap();
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()), "the agent was running");
    }

    /// True if the agent has neither ended nor panicked.
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, task)| !task.is_finished())
    }

    /// The device boots: `run` is empty except for zedkube's files. The agent has to be started again.
    pub async fn boot(&mut self, boot_id: &str) {
        self.stop().await;
        for entry in fs::read_dir(self.path("run")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with(agent::ZEDKUBE) {
                fs::remove_dir_all(path).unwrap();
            }
        }
        self.write("proc/sys/kernel/random/boot_id", boot_id);
        // zedkube's lock file was removed with the others.
        if let Some(zedkube) = &self.zedkube {
            zedkube.keep().unwrap();
        }
    }

    /// zedkube takes its lock.
    pub fn start_zedkube(&mut self) {
        self.zedkube = Some(AgentLock::acquire(&self.root(), agent::ZEDKUBE).unwrap());
    }

    /// zedkube releases its lock.
    pub fn stop_zedkube(&mut self) {
        self.zedkube = None;
    }

    /// Publishes zedkube's report, with its answer to the request of the agent under test, if one is published.
    pub fn report(&self, answer: Option<DrainStatus>) {
        self.publish(agent::ZEDKUBE, &self.answered(answer));
    }

    /// The report that [`TestDevice::report`] publishes.
    pub fn answered(&self, answer: Option<DrainStatus>) -> NodeDrainReport {
        let line = self.request_now().zip(answer).map(|(request, answer)| RequestLine {
            publisher: self.name.to_owned(),
            requested_at: request.requested_at,
            answer,
            ..RequestLine::default()
        });
        NodeDrainReport {
            member: Member::Yes,
            requests: line.into_iter().collect(),
            ..NodeDrainReport::default()
        }
    }

    /// The item `global` of a topic in its file; None if the file is missing or bad.
    pub fn item<T: Topic>(&self, publisher: &str) -> Option<T> {
        pubsub::read_item(&self.root(), publisher, Persistence::Volatile, &TopicKey::global()).ok().flatten()
    }

    /// The request of the agent under test, as its file has it now.
    pub fn request_now(&self) -> Option<NodeDrainRequest> {
        self.item(self.name)
    }

    /// Waits until the agent under test requests a drain.
    pub async fn until_requested(&self) -> NodeDrainRequest {
        until(&mut self.follow(self.name), &TopicKey::global(), |request| request.is_some()).await.unwrap()
    }

    /// Waits until the agent under test requests no drain.
    pub async fn until_withdrawn(&self) {
        let is_gone = |request: Option<&NodeDrainRequest>| request.is_none();
        until(&mut self.follow(self.name), &TopicKey::global(), is_gone).await;
    }

    /// Publishes the item `global` of a topic on behalf of an agent that is not under test.
    pub fn publish<T: Topic>(&self, publisher: &str, value: &T) {
        let root = self.root();
        let borrowed = match &self.zedkube {
            Some(_) if publisher == agent::ZEDKUBE => None,
            Some(_) | None => Some(AgentLock::acquire(&root, publisher).unwrap()),
        };
        let lock = borrowed.as_ref().or(self.zedkube.as_ref()).unwrap();
        let mut publisher = Publisher::open(&root, publisher, Persistence::Volatile, lock).unwrap();
        publisher.publish(&TopicKey::global(), value).unwrap();
    }

    /// Subscribes to a topic of this device.
    pub fn follow<T: Topic>(&self, publisher: &str) -> Subscription<T> {
        Subscription::open(&self.root(), publisher, Persistence::Volatile)
    }
}

/// Writes a file, and creates its folder if it is missing.
pub(super) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).and_then(|mut file| file.write_all(bytes)).unwrap();
}

/// Starts the agent once its lock is free. A program that another test has just forked holds a copy of a released
/// lock until it executes; there is no event for that.
async fn start(name: &str, flags: &AgentFlags) -> Agent {
    let starting = async {
        loop {
            match Agent::start(name, flags).await {
                Ok(agent) => return agent,
                Err(StartError::Lock { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(TOO_LONG, starting).await.expect("the lock becomes free")
}

/// Waits until an item satisfies the condition, and returns it.
#[track_caller]
pub fn until<T: Topic>(
    subscription: &mut Subscription<T>,
    key: &TopicKey,
    wanted: impl Fn(Option<&T>) -> bool,
) -> impl Future<Output = Option<T>> {
    let caller = std::panic::Location::caller();
    async move {
        let waiting = async {
            while !wanted(subscription.get(key)) {
                subscription.changed().await;
            }
        };
        let is_late = tokio::time::timeout(TOO_LONG, waiting).await.is_err();
        assert!(!is_late, "{caller}: waited too long; it is {:?}", subscription.get(key));
        subscription.get(key).cloned()
    }
}
