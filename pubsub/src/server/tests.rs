use std::time::Duration;

use schemas::{DrainRequester, DrainStatus, NodeDrainStatus, agent};
use tokio::time::timeout;

use crate::{AgentLock, Change, Persistence, PublishError, Publisher, Root, Subscription, TopicKey};

/// Time limit of a wait; reached only when a test fails.
const TOO_LONG: Duration = Duration::from_mins(5);

struct Device {
    _folder: tempfile::TempDir,
    root: Root,
    lock: AgentLock,
}

fn device() -> Device {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path());
    let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
    Device { _folder: folder, root, lock }
}

impl Device {
    fn publisher(&self) -> Publisher<NodeDrainStatus> {
        self.files().served().unwrap()
    }

    fn files(&self) -> Publisher<NodeDrainStatus> {
        self.open().unwrap()
    }

    fn open(&self) -> Result<Publisher<NodeDrainStatus>, PublishError> {
        Publisher::open(&self.root, agent::ZEDKUBE, Persistence::Volatile, &self.lock)
    }

    fn dial(&self) -> Subscription<NodeDrainStatus> {
        Subscription::dial(&self.root, agent::ZEDKUBE)
    }
}

fn key(text: &str) -> TopicKey {
    TopicKey::parse(text).unwrap()
}

fn status(status: DrainStatus) -> NodeDrainStatus {
    NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp }
}

async fn next(subscription: &mut Subscription<NodeDrainStatus>) -> Change<NodeDrainStatus> {
    timeout(TOO_LONG, subscription.next()).await.expect("a change comes")
}

use DrainStatus::{Complete, Requested, Starting};

#[tokio::test]
async fn what_is_published_comes_by_socket() {
    let device = device();
    let mut publisher = device.publisher();
    publisher.publish(&key("a"), &status(Requested)).unwrap();
    let mut subscription = device.dial();
    assert_eq!(subscription.items().len(), 0, "nothing before the first wait");
    assert_eq!(next(&mut subscription).await, Change::Created(key("a"), status(Requested)));
    assert_eq!(next(&mut subscription).await, Change::Synced);
    publisher.publish(&key("a"), &status(Complete)).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Modified(key("a"), status(Complete)));
    publisher.publish(&key("b"), &status(Starting)).unwrap();
    publisher.unpublish(&key("a")).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Deleted(key("a"), status(Complete)));
    assert_eq!(next(&mut subscription).await, Change::Created(key("b"), status(Starting)));
    publisher.signal_restarted().unwrap();
    assert_eq!(next(&mut subscription).await, Change::Restarted(1));
}

#[tokio::test]
async fn a_publisher_that_returns_is_dialled_again_and_what_went_meanwhile_is_gone() {
    let device = device();
    let mut publisher = device.publisher();
    for name in ["a", "b"] {
        publisher.publish(&key(name), &status(Requested)).unwrap();
    }
    let mut subscription = device.dial();
    for _ in 0..3 {
        next(&mut subscription).await;
    }
    drop(publisher);
    device.files().unpublish(&key("a")).unwrap();
    let _publisher = device.publisher();
    assert_eq!(next(&mut subscription).await, Change::Deleted(key("a"), status(Requested)));
    assert_eq!(subscription.items().len(), 1);
}

#[tokio::test]
async fn a_topic_with_a_publisher_has_no_second_one() {
    let device = device();
    let first = device.publisher();
    let error = device.open().unwrap_err();
    let PublishError::Served { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains(&format!("process {}", std::process::id())), "{source}");
    drop(first);
    device.files().served().unwrap();
}

#[tokio::test]
async fn either_way_follows_the_files_while_the_socket_is_not_there() {
    let device = device();
    let mut files = device.files();
    let mut subscription =
        Subscription::<NodeDrainStatus>::follow(&device.root, agent::ZEDKUBE, Persistence::Volatile);
    assert_eq!(next(&mut subscription).await, Change::Synced);
    files.publish(&key("a"), &status(Requested)).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Created(key("a"), status(Requested)));
    let mut served = files.served().unwrap();
    served.publish(&key("a"), &status(Starting)).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Modified(key("a"), status(Starting)));
    served.publish(&key("a"), &status(Complete)).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Modified(key("a"), status(Complete)));
    drop(served);
    device.files().unpublish(&key("a")).unwrap();
    assert_eq!(next(&mut subscription).await, Change::Deleted(key("a"), status(Complete)));
}
