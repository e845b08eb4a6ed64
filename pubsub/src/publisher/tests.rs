use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use schemas::{DrainRequester, DrainStatus, NodeDrainRequest, NodeDrainStatus, agent};
use tempfile::TempDir;

use super::*;

const STARTING: NodeDrainStatus =
    NodeDrainStatus { status: DrainStatus::Starting, requested_by: DrainRequester::DeviceOp };
const COMPLETE: NodeDrainStatus =
    NodeDrainStatus { status: DrainStatus::Complete, requested_by: DrainRequester::DeviceOp };

struct Place {
    _folder: TempDir,
    root: Root,
    lock: AgentLock,
    persistence: Persistence,
}

impl Place {
    fn new(persistence: Persistence) -> Self {
        let folder = TempDir::new().unwrap();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        Self { _folder: folder, root, lock, persistence }
    }

    fn open<T: Topic>(&self) -> Publisher<T> {
        Publisher::open(&self.root, agent::ZEDKUBE, self.persistence, &self.lock).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.folder::<NodeDrainStatus>(agent::ZEDKUBE, self.persistence).join(name)
    }

    fn put(&self, name: &str, text: &str) {
        store::create_folder(self.file("").as_path()).unwrap();
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create(true).truncate(true).open(self.file(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    fn inode(&self) -> u64 {
        fs::metadata(self.file("global.json")).unwrap().ino()
    }
}

fn global() -> TopicKey {
    TopicKey::global()
}

#[test]
fn a_value_is_on_disk_as_eve_writes_it() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open();
    assert_eq!(publisher.publish(&global(), &STARTING).unwrap(), Published::Written);
    assert_eq!(place.text("global.json").unwrap(), r#"{"Status":4,"RequestedBy":2}"#);
    assert_eq!(publisher.get(&global()), Some(&STARTING));
    let (file, folder) =
        (fs::metadata(place.file("global.json")).unwrap(), fs::metadata(place.file("")).unwrap());
    assert_eq!((file.mode() & 0o777, folder.mode() & 0o777), (0o600, 0o700));
}

#[test]
fn an_equal_value_writes_nothing() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open();
    publisher.publish(&global(), &STARTING).unwrap();
    let inode = place.inode();
    assert_eq!(publisher.publish(&global(), &STARTING).unwrap(), Published::Unchanged);
    assert_eq!(place.inode(), inode);
    // The value is equal in meaning, but written as a person would write it.
    place.put("global.json", "{ \"status\": 9, \"requestedby\": 2 }\n");
    assert_eq!(publisher.publish(&global(), &COMPLETE).unwrap(), Published::Unchanged);
    assert_eq!(publisher.get(&global()), Some(&COMPLETE));
}

#[test]
fn what_the_file_holds_counts_not_what_was_published() {
    for damage in ["", "{", r#"{"Status":9,"RequestedBy":2}"#] {
        let place = Place::new(Persistence::Volatile);
        let mut publisher = place.open();
        publisher.publish(&global(), &STARTING).unwrap();
        place.put("global.json", damage);
        assert_eq!(publisher.publish(&global(), &STARTING).unwrap(), Published::Written, "{damage:?}");
        assert_eq!(place.text("global.json").unwrap(), r#"{"Status":4,"RequestedBy":2}"#);
    }
}

#[test]
fn a_folder_that_went_away_is_made_again() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open();
    publisher.publish(&global(), &STARTING).unwrap();
    fs::remove_dir_all(place.root.join("/run")).unwrap();
    assert_eq!(publisher.publish(&global(), &STARTING).unwrap(), Published::Written);
}

#[test]
fn unpublishing_removes_the_file() {
    for persistence in [Persistence::Volatile, Persistence::Persistent] {
        let place = Place::new(persistence);
        let mut publisher = place.open();
        publisher.publish(&global(), &STARTING).unwrap();
        publisher.publish(&global(), &COMPLETE).unwrap();
        assert!(publisher.unpublish(&global()).unwrap());
        assert_eq!((place.text("global.json"), place.text("global.json.bak")), (None, None));
        assert_eq!(publisher.get(&global()), None);
        assert!(!publisher.unpublish(&global()).unwrap());
        assert!(place.open::<NodeDrainStatus>().items().is_empty());
    }
}

#[test]
fn a_publisher_starts_with_what_its_folder_holds() {
    let place = Place::new(Persistence::Volatile);
    place.open().publish(&global(), &COMPLETE).unwrap();
    place.put("other.json", "not json");
    place.put(".tmp.1.1", "half");
    let publisher = place.open::<NodeDrainStatus>();
    assert_eq!(publisher.items(), &BTreeMap::from([(global(), COMPLETE)]));
    assert_eq!(place.text(".tmp.1.1"), None);
    assert_eq!(place.text("other.json").unwrap(), "not json");
}

/// Checks which value is loaded when a crash left a persistent item and its backup like this.
#[track_caller]
fn check_recovery(item: Option<&str>, backup: Option<&str>, expected: Option<NodeDrainStatus>) {
    let place = Place::new(Persistence::Persistent);
    for (name, text) in [("global.json", item), ("global.json.bak", backup)] {
        if let Some(text) = text {
            place.put(name, text);
        }
    }
    let publisher = place.open::<NodeDrainStatus>();
    assert_eq!(publisher.get(&global()), expected.as_ref(), "{item:?} {backup:?}");
    let on_disk = place.text("global.json").and_then(|text| parse(text.as_bytes()).ok());
    assert_eq!(on_disk, expected, "{item:?} {backup:?}");
}

#[test]
fn lost_items_come_back_from_their_backup() {
    let (starting, complete) = (r#"{"Status":4,"RequestedBy":2}"#, r#"{"Status":9,"RequestedBy":2}"#);
    for lost in [None, Some(""), Some("{\"Sta"), Some(r#"{"Status":77}"#)] {
        check_recovery(lost, Some(starting), Some(STARTING));
        check_recovery(lost, Some("{"), None);
        check_recovery(lost, None, None);
    }
    check_recovery(Some(complete), Some(starting), Some(COMPLETE));
    check_recovery(Some(complete), Some(""), Some(COMPLETE));
}

#[test]
fn items_are_restored_each_by_itself() {
    let place = Place::new(Persistence::Persistent);
    place.put("a.json", "{\"Sta");
    for lost in ["b.json.bak", "c.json.bak"] {
        place.put(lost, r#"{"Status":4,"RequestedBy":2}"#);
    }
    let publisher = place.open::<NodeDrainStatus>();
    let names: Vec<&str> = publisher.items().keys().map(TopicKey::as_str).collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
fn backups_of_volatile_topics_are_not_looked_at() {
    let place = Place::new(Persistence::Volatile);
    place.put("global.json.bak", r#"{"Status":4,"RequestedBy":2}"#);
    assert!(place.open::<NodeDrainStatus>().items().is_empty());
}

#[test]
fn another_agents_lock_is_no_proof() {
    let place = Place::new(Persistence::Volatile);
    let open = |root: &Root, agent| {
        Publisher::<NodeDrainStatus>::open(root, agent, Persistence::Volatile, &place.lock)
    };
    assert!(matches!(open(&place.root, agent::ZEDAGENT), Err(PublishError::WrongLock { .. })));
    assert!(matches!(open(&Root::new("/nowhere"), agent::ZEDKUBE), Err(PublishError::WrongLock { .. })));
}

/// A request whose whole JSON has `length` bytes.
fn request_of_json(length: usize) -> NodeDrainRequest {
    let mut request = NodeDrainRequest::default();
    request.context = "x".repeat(length - to_bytes(&request).len());
    request
}

#[tokio::test]
async fn a_value_that_fits_no_message_is_refused_where_messages_are_sent() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open::<NodeDrainRequest>().served().unwrap();
    // 65,533 bytes less `update NodeDrainRequest Z2xvYmFs ` leave 65,500 bytes for base64.
    let fits = request_of_json(65_500 / 4 * 3);
    publisher.publish(&global(), &fits).unwrap();
    let too_long = request_of_json(65_500 / 4 * 3 + 1);
    let error = publisher.publish(&global(), &too_long).unwrap_err();
    assert!(error.to_string().ends_with("its message has 65537 bytes; accepted: at most 65533"), "{error}");
    assert!(error.is_for_good());
    assert_eq!(publisher.get(&global()), Some(&fits));
}

#[test]
fn without_messages_a_value_has_to_fit_its_file_alone() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open::<NodeDrainRequest>();
    let fits = request_of_json(NodeDrainRequest::MAX_BYTES);
    publisher.publish(&global(), &fits).unwrap();
    let error = publisher.publish(&global(), &request_of_json(NodeDrainRequest::MAX_BYTES + 1)).unwrap_err();
    assert!(error.to_string().ends_with("its file has 65537 bytes; accepted: at most 65536"), "{error}");
    assert_eq!(publisher.get(&global()), Some(&fits));
    assert_eq!(place.open::<NodeDrainRequest>().get(&global()), Some(&fits));
}

#[test]
fn after_a_failed_write_an_equal_file_is_not_trusted() {
    let place = Place::new(Persistence::Volatile);
    let mut publisher = place.open();
    publisher.publish(&global(), &COMPLETE).unwrap();
    publisher.unsure.insert(global());
    let inode = place.inode();
    assert_eq!(publisher.publish(&global(), &COMPLETE).unwrap(), Published::Written);
    assert_ne!(place.inode(), inode);
    assert_eq!(publisher.publish(&global(), &COMPLETE).unwrap(), Published::Unchanged);
}
