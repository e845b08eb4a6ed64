use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use schemas::{DrainRequester, DrainStatus, NodeDrainStatus, agent};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::store::{Backup, write_durably};
use crate::{Change, Subscription};

/// Time limit of a wait: far above what inotify takes, far below the rescan after 30 s. So a test that passes was woken
/// by inotify.
const GUARD: Duration = Duration::from_secs(10);
const VOLATILE: Persistence = Persistence::Volatile;

fn status(code: u8) -> NodeDrainStatus {
    let status = DrainStatus::from_code(code).unwrap();
    NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp }
}

fn text(code: u8) -> String {
    format!(r#"{{"Status":{code},"RequestedBy":2}}"#)
}

fn key(text: &str) -> TopicKey {
    TopicKey::parse(text).unwrap()
}

struct Place {
    _temporary: TempDir,
    root: Root,
}

impl Place {
    fn new() -> Self {
        let temporary = TempDir::new().unwrap();
        let root = Root::new(temporary.path());
        Self { _temporary: temporary, root }
    }

    fn folder(&self) -> PathBuf {
        self.root.folder::<NodeDrainStatus>(agent::ZEDKUBE, VOLATILE)
    }

    fn with_folder() -> Self {
        let place = Self::new();
        fs::create_dir_all(place.folder()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a file as a shell does: in place, not durably.
    fn echo(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path(name))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Writes a file as a publisher does.
    fn put(&self, name: &str, code: u8) {
        fs::create_dir_all(self.folder()).unwrap();
        write_durably(&self.folder(), &format!("{name}.json"), text(code).as_bytes(), Backup::None).unwrap();
    }

    fn subscribe(&self) -> Subscription<NodeDrainStatus> {
        Subscription::open(&self.root, agent::ZEDKUBE, VOLATILE)
    }

    fn read(&self) -> Items<NodeDrainStatus> {
        read_items(&self.root, agent::ZEDKUBE, VOLATILE)
    }
}

async fn next(subscription: &mut Subscription<NodeDrainStatus>) -> Change<NodeDrainStatus> {
    timeout(GUARD, subscription.next()).await.expect("no change")
}

async fn synced(subscription: &mut Subscription<NodeDrainStatus>) {
    assert_eq!(next(subscription).await, Change::Synced);
}

fn created(name: &str, code: u8) -> Change<NodeDrainStatus> {
    Change::Created(key(name), status(code))
}

fn modified(name: &str, code: u8) -> Change<NodeDrainStatus> {
    Change::Modified(key(name), status(code))
}

fn deleted(name: &str, code: u8) -> Change<NodeDrainStatus> {
    Change::Deleted(key(name), status(code))
}

// ---- the content of a folder

#[test]
fn only_items_are_items() {
    let place = Place::with_folder();
    place.put("global", 5);
    for other in ["restarted", ".tmp.1.1", "tmp12", "global.json.bak", "README"] {
        place.echo(other, "not an item");
    }
    assert_eq!(
        place.read(),
        Items { items: BTreeMap::from([(key("global"), status(5))]), refused: Vec::new() }
    );
}

#[test]
fn no_folder_has_no_items() {
    let place = Place::new();
    assert_eq!(place.read(), Items { items: BTreeMap::new(), refused: Vec::new() });
    let item = read_item::<NodeDrainStatus>(&place.root, agent::ZEDKUBE, VOLATILE, &key("global"));
    assert_eq!(item, Ok(None));
}

/// Checks that a file called `global.json`, made by `make`, is refused for `reason`.
#[track_caller]
fn check_refused(make: impl FnOnce(&Place, &Path), reason: &str) {
    let place = Place::with_folder();
    let path = place.path("global.json");
    make(&place, &path);
    let read = place.read();
    assert_eq!(read.items, BTreeMap::new());
    let [refusal] = read.refused.as_slice() else { panic!("{:?}", read.refused) };
    assert_eq!(refusal.path, path);
    assert!(refusal.reason.contains(reason), "{refusal}");
    let item = read_item::<NodeDrainStatus>(&place.root, agent::ZEDKUBE, VOLATILE, &key("global"));
    assert_eq!(item, Err(refusal.clone()));
}

#[test]
fn contents_that_are_no_item_are_refused() {
    let check = |text: &str, reason| check_refused(|place, _| place.echo("global.json", text), reason);
    check(r#"{"Status":5,"Req"#, "not JSON: EOF");
    check(r#"{"Status":10}"#, "field `Status`: 10 is out of range");
    check(&" ".repeat(10_000_000), "10000000 bytes");
}

#[test]
fn files_that_are_no_item_are_refused() {
    check_refused(|_, path| symlink("/etc/hostname", path).unwrap(), "it is a symbolic link");
    check_refused(
        |place, path| {
            place.put("global", 5);
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        },
        "mode 0666 lets group or others write",
    );
}

#[test]
fn as_root_a_file_of_another_user_is_refused() {
    check_refused(
        |place, path| {
            place.put("global", 5);
            chown(path, Some(12345), None).unwrap();
        },
        "owned by user 12345",
    );
}

#[test]
fn names_that_are_no_key_are_refused() {
    let place = Place::with_folder();
    place.echo(".json", &text(5));
    place.echo("a.json.json", &text(5));
    let reasons: Vec<String> = place.read().refused.into_iter().map(|refusal| refusal.reason).collect();
    assert_eq!(reasons, [r#""" is not a key: it is empty"#, r#""a.json" is not a key: it contains `.json`"#]);
}

#[test]
fn a_flood_of_items_is_cut_off() {
    let place = Place::with_folder();
    for number in 0..=MAX_ITEMS {
        place.echo(&format!("{number:05}.json"), &text(5));
    }
    let read = place.read();
    assert_eq!(read.items.len(), MAX_ITEMS);
    assert_eq!(read.items.first_key_value(), Some((&key("00000"), &status(5))));
    assert_eq!(read.refused.len(), 1);
}

// ---- following a folder

#[tokio::test]
async fn what_is_there_comes_first_then_what_happens() {
    let place = Place::new();
    place.put("a", 3);
    place.put("b", 4);
    let mut subscription = place.subscribe();
    assert_eq!(subscription.items().len(), 2);
    assert_eq!(next(&mut subscription).await, created("a", 3));
    assert_eq!(next(&mut subscription).await, created("b", 4));
    synced(&mut subscription).await;
    place.put("a", 5);
    assert_eq!(next(&mut subscription).await, modified("a", 5));
    place.put("c", 9);
    assert_eq!(next(&mut subscription).await, created("c", 9));
    fs::remove_file(place.path("b.json")).unwrap();
    assert_eq!(next(&mut subscription).await, deleted("b", 4));
    assert_eq!(subscription.get(&key("c")), Some(&status(9)));
}

#[tokio::test]
async fn waiting_can_be_given_up_at_any_time() {
    let place = Place::new();
    let mut subscription = place.subscribe();
    synced(&mut subscription).await;
    let mut known = BTreeMap::new();
    for number in 0..50_u8 {
        place.put(&format!("k{}", number % 5), number % 10);
        tokio::select! {
            biased;
            change = subscription.next() => apply(&mut known, change),
            () = std::future::ready(()) => {}
        }
    }
    // The subscription's items may be as on disk while older changes were not returned yet.
    while known != place.read().items || subscription.items() != &known {
        apply(&mut known, next(&mut subscription).await);
    }
}

fn apply(known: &mut BTreeMap<TopicKey, NodeDrainStatus>, change: Change<NodeDrainStatus>) {
    match change {
        Change::Created(key, value) | Change::Modified(key, value) => {
            known.insert(key, value);
        }
        Change::Deleted(key, _) => {
            known.remove(&key);
        }
        Change::Synced | Change::Restarted(_) => panic!("Synced comes once, and nothing restarts"),
    }
}

#[tokio::test]
async fn a_look_of_next_is_a_change_for_changed_and_the_other_way_round() {
    let place = Place::new();
    let mut subscription = place.subscribe();
    synced(&mut subscription).await;
    place.put("a", 3);
    assert_eq!(next(&mut subscription).await, created("a", 3));
    timeout(GUARD, subscription.changed()).await.expect("changed() missed what next() saw");
    place.put("a", 4);
    timeout(GUARD, subscription.changed()).await.expect("no change");
    assert_eq!(subscription.items().get(&key("a")), Some(&status(4)));
    assert_eq!(next(&mut subscription).await, modified("a", 4));
}

// ---- bad files; the clock is paused and jumps ahead whenever nothing else can happen

/// Waits until something differs; returns the virtual milliseconds that this took.
async fn until_changed(subscription: &mut Subscription<NodeDrainStatus>) -> u128 {
    let start = Instant::now();
    subscription.changed().await;
    start.elapsed().as_millis()
}

#[test]
fn there_is_one_warning_for_each_content_of_a_refused_file() {
    let (path, now) = (Path::new("/run/a/T/x.json"), Instant::now());
    let bad = || BadFile::new(Refusal::new(path, "it is a pipe", "a regular file"));
    let stamp = |inode| Some(Stamp { inode, length: 0, modified: (0, 0), changed: (0, 0) });
    let mut suspect = SuspectFile::about(bad(), stamp(1), None, now);
    for inode in [1, 2, 3] {
        suspect = SuspectFile::about(bad(), stamp(inode), Some(suspect), now);
        assert!(suspect.is_due(now), "a refusal of a new content has to be logged");
        suspect.is_decided = true;
        suspect = SuspectFile::about(bad(), stamp(inode), Some(suspect), now + SETTLE);
        assert!(!suspect.is_due(now + SETTLE), "the refusal was logged already");
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_written_file_has_two_seconds() {
    let place = Place::with_folder();
    place.echo("global.json", "{\"Sta");
    let mut subscription = place.subscribe();
    assert_eq!((subscription.items().len(), subscription.refused().len()), (0, 0));
    assert_eq!(until_changed(&mut subscription).await, SETTLE.as_millis());
    let [refusal] = &subscription.refused()[..] else { panic!("{:?}", subscription.refused()) };
    assert!(refusal.reason.contains("not JSON"), "{refusal}");
    place.echo("global.json", &text(5));
    subscription.changed().await;
    assert_eq!((subscription.items().len(), subscription.refused().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_finished_in_time_was_never_bad() {
    let place = Place::with_folder();
    place.echo("global.json", "");
    let mut subscription = place.subscribe();
    timeout(SETTLE / 2, subscription.changed()).await.expect_err("nothing to tell yet");
    place.echo("global.json", &text(5));
    subscription.changed().await;
    assert_eq!((subscription.items().len(), subscription.refused().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_good_value_stays_while_a_file_is_refused() {
    let place = Place::new();
    place.put("global", 5);
    let mut subscription = place.subscribe();
    assert_eq!(subscription.next().await, created("global", 5));
    assert_eq!(subscription.next().await, Change::Synced);
    place.echo("global.json", "oops");
    subscription.changed().await;
    assert_eq!(subscription.refused().len(), 1);
    assert_eq!(subscription.get(&key("global")), Some(&status(5)));
    fs::remove_file(place.path("global.json")).unwrap();
    assert_eq!(subscription.next().await, deleted("global", 5));
    assert_eq!(subscription.refused(), []);
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_half_written_are_refused_at_once() {
    let place = Place::with_folder();
    mkfifo(&place.path("global.json"), Mode::S_IRUSR).unwrap();
    let subscription = place.subscribe();
    assert_eq!(subscription.refused().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_never_ends_is_refused_all_the_same() {
    let place = Place::with_folder();
    let mut subscription = place.subscribe();
    let mut bytes = String::from("{");
    let start = Instant::now();
    while subscription.refused().is_empty() {
        bytes.push(' ');
        place.echo("global.json", &bytes);
        drop(timeout(SETTLE_LOOK, subscription.changed()).await);
        // The paused clock jumps while an event of the inotify thread is on its way, so it measures no real time.
        assert!(start.elapsed() < SETTLE * 300, "never refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_a_file_is_refused_and_keeps_the_items() {
    let place = Place::new();
    place.put("global", 5);
    let mut subscription = place.subscribe();
    fs::remove_dir_all(place.folder()).unwrap();
    File::create(place.folder()).unwrap();
    subscription.changed().await;
    assert_eq!(subscription.refused()[0].path, place.folder());
    assert_eq!(subscription.get(&key("global")), Some(&status(5)));
}
