//! A disk that is full or read-only: publishing fails with a clear error, readers see only what the file contains, and
//! the same call succeeds once there is room.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pubsub::store::append_durably;
use pubsub::{AgentLock, Persistence, Published, Publisher, Subscription, TopicKey, lock_holder};
use tokio::time::timeout;

use crate::again::say;
use crate::namespace::{is_inside, mount_memory, remount};
use crate::place::{
    AGENT, Item, PERSISTENT, Place, VOLATILE, echo, fill, follows, items, json, key, runtime, value, words,
};

/// Long enough for an event that is on its way.
const QUIET: Duration = Duration::from_millis(300);

/// A publisher whose item has the value `old`, and its readers.
struct Party {
    place: Place,
    _lock: AgentLock,
    publisher: Publisher<Item>,
    by_files: Subscription<Item>,
    by_socket: Subscription<Item>,
}

impl Party {
    /// Starts publisher and readers on the file system that is mounted at the topic's folder.
    async fn new(place: Place, old: &str) -> Self {
        let (lock, publisher) = place.open();
        let mut publisher = publisher.served().unwrap();
        publisher.publish(&key("global"), &value("oldest")).unwrap();
        publisher.publish(&key("global"), &value(old)).unwrap();
        let (by_files, by_socket) = (place.subscribe(), Subscription::dial(&place.root, AGENT));
        let mut party = Self { place, _lock: lock, publisher, by_files, by_socket };
        party.shows(&[("global", old)], "at the start").await;
        party
    }

    /// Checks that all readers end up with these items.
    async fn shows(&mut self, contexts: &[(&str, &str)], what: &str) {
        let by_files = follows(&mut self.by_files, contexts, what);
        let by_socket = follows(&mut self.by_socket, contexts, what);
        tokio::join!(by_files, by_socket);
    }

    /// Checks that publishing fails for this reason, twice, and that readers see nothing of it.
    async fn refuses(&mut self, old: &str, new: &str, reason: &str) {
        let before = (self.place.names(), self.place.text("global.json.bak"));
        let folder = self.place.folder();
        let mut publish = || words(&self.publisher.publish(&key("global"), &value(new)).unwrap_err());
        let said = publish();
        check_words(&said, &folder, reason);
        assert_eq!(
            publish(),
            said,
            "a lasting failure must have the same text each time, so that it is logged once"
        );
        assert_eq!(self.place.text("global.json"), Some(json(old)), "{reason}");
        let after = (self.place.names(), self.place.text("global.json.bak"));
        assert_eq!(after, before, "{reason}: files were left, or the backup was lost");
        assert_eq!(self.publisher.items(), &items(&[("global", old)]), "{reason}");
        timeout(QUIET, self.shows_only(&items(&[("global", old)]))).await.expect_err("it has no end");
        assert_eq!(self.by_files.refused(), [], "{reason}");
    }

    /// Checks at each wake-up that readers still have these items. Never returns.
    async fn shows_only(&mut self, expected: &BTreeMap<TopicKey, Item>) {
        loop {
            assert_eq!(self.by_files.items(), expected, "readers got a value that was not written");
            assert_eq!(self.by_socket.items(), expected, "readers got a value that was not written");
            tokio::select! { () = self.by_files.changed() => {}, () = self.by_socket.changed() => {} }
        }
    }

    /// Checks that the same call succeeds now.
    async fn takes(&mut self, new: &str) {
        assert_eq!(self.publisher.publish(&key("global"), &value(new)).unwrap(), Published::Written);
        assert_eq!(self.place.text("global.json"), Some(json(new)));
        self.shows(&[("global", new)], "after the trouble").await;
    }
}

/// Checks that the error names the operation, the place and the reason.
#[track_caller]
fn check_words(text: &str, folder: &Path, reason: &str) {
    let folder = folder.display().to_string();
    assert!(text.starts_with("cannot publish NodeDrainRequest: cannot "), "{text}");
    assert!(text.contains(&folder) && text.contains(reason), "{text}");
    assert!(!text.contains("/.tmp."), "nobody but the writer knows the temporary file: {text}");
}

fn mounted(persistence: Persistence, options: &str) -> Place {
    let place = Place::new(persistence);
    mount_memory(&place.folder(), options);
    place
}

#[test]
fn a_full_disk_is_said_and_survived() {
    if !is_inside("disk::a_full_disk_is_said_and_survived") {
        return;
    }
    let full = "No space left on device";
    // The values take five pages each; `left` is the free space of the disk in bytes.
    let (old, new) = ("o".repeat(18_000), "n".repeat(18_000));
    let check = async |persistence: Persistence, old: &str, left: u64| {
        let mut party = Party::new(mounted(persistence, "size=256k"), old).await;
        let ballast = fill(&party.place.folder(), left);
        party.refuses(old, &new, full).await;
        fs::remove_file(ballast).unwrap();
        party.takes(&new).await;
        let length = old.len();
        say(&format!(
            "{persistence:?}, {left} bytes left: refused, old {length} kept, written when there was room"
        ));
    };
    runtime().block_on(async {
        for left in [0, 4096, 8192] {
            check(VOLATILE, "old", left).await;
            check(PERSISTENT, "old", left).await;
            check(PERSISTENT, &old, left).await;
        }
        // Room for the new content, and for half of the backup.
        check(PERSISTENT, &old, 7 * 4096).await;
    });
}

#[test]
fn items_can_be_withdrawn_from_a_full_disk_and_a_publisher_can_start_on_it() {
    if !is_inside("disk::items_can_be_withdrawn_from_a_full_disk_and_a_publisher_can_start_on_it") {
        return;
    }
    for persistence in [VOLATILE, PERSISTENT] {
        let place = mounted(persistence, "size=256k");
        for name in ["one", "two"] {
            echo(&place.file(&format!("{name}.json")), &json(name));
        }
        let ballast = fill(&place.folder(), 0);
        let (_lock, mut publisher) = place.open();
        assert_eq!(publisher.items(), &items(&[("one", "one"), ("two", "two")]));
        publisher.publish(&key("one"), &value("new")).unwrap_err();
        assert!(publisher.unpublish(&key("two")).unwrap());
        assert_eq!(place.read().items, items(&[("one", "one")]));
        fs::remove_file(ballast).unwrap();
        publisher.publish(&key("one"), &value("new")).unwrap();
        assert_eq!(place.read().items, items(&[("one", "new")]));
    }
}

#[test]
fn a_full_disk_at_the_first_start_is_said_and_survived() {
    if !is_inside("disk::a_full_disk_at_the_first_start_is_said_and_survived") {
        return;
    }
    let place = Place::new(VOLATILE);
    mount_memory(&place.root.join("/run"), "size=64k");
    let ballast = fill(&place.root.join("/run"), 0);
    let lock = AgentLock::acquire(&place.root, AGENT).unwrap();
    let holder = || lock_holder(&place.root, AGENT).unwrap().unwrap().pid;
    assert_eq!((holder(), place.root.pid(AGENT).exists()), (None, false));
    AgentLock::acquire(&place.root, AGENT).unwrap_err();
    let text = words(&lock.keep().unwrap_err());
    assert!(text.contains("zedagent/lock") && text.contains("No space left on device"), "{text}");
    fs::remove_file(ballast).unwrap();
    lock.keep().unwrap();
    assert_eq!((holder(), place.root.pid(AGENT).exists()), (Some(std::process::id()), true));
    drop(lock);
    let (_lock, mut publisher) = place.open();
    publisher.publish(&key("global"), &value("new")).unwrap();
}

/// A line that does not fit is not there by half: the caller appends the same again.
#[test]
fn a_full_disk_takes_a_whole_line_or_nothing() {
    if !is_inside("disk::a_full_disk_takes_a_whole_line_or_nothing") {
        return;
    }
    let place = Place::new(VOLATILE);
    let folder = place.root.join("/run");
    mount_memory(&folder, "size=64k");
    append_durably(&folder, "log", b"first\n").unwrap();
    let ballast = fill(&folder, 4096);
    let long = [vec![b'x'; 16_000], vec![b'\n']].concat();
    for _ in 0..2 {
        let text = words(&append_durably(&folder, "log", &long).unwrap_err());
        assert!(text.contains("No space left on device"), "{text}");
        assert_eq!(fs::read(folder.join("log")).unwrap(), b"first\n");
    }
    fs::remove_file(ballast).unwrap();
    append_durably(&folder, "log", &long).unwrap();
    assert_eq!(fs::read(folder.join("log")).unwrap(), [b"first\n".as_slice(), &long].concat());
}

#[test]
fn a_read_only_disk_is_said_and_survived() {
    if !is_inside("disk::a_read_only_disk_is_said_and_survived") {
        return;
    }
    runtime().block_on(async {
        for persistence in [VOLATILE, PERSISTENT] {
            let mut party = Party::new(mounted(persistence, "size=256k"), "old").await;
            check_read_only(&mut party).await;
            say(&format!("{persistence:?} read-only: refused, old value kept, written afterwards"));
        }
    });
}

async fn check_read_only(party: &mut Party) {
    let (folder, reason) = (party.place.folder(), "Read-only file system");
    remount(&folder, true);
    party.refuses("old", "new", reason).await;
    check_words(&words(&party.publisher.unpublish(&key("global")).unwrap_err()), &folder, reason);
    check_words(&words(&party.publisher.signal_restarted().unwrap_err()), &folder, reason);
    party.refuses("old", "new", reason).await;
    remount(&folder, false);
    party.takes("new").await;
    assert!(party.publisher.unpublish(&key("global")).unwrap());
    party.shows(&[], "after the end of the item").await;
}

#[test]
fn a_publisher_starts_on_a_read_only_disk_and_writes_when_it_can() {
    if !is_inside("disk::a_publisher_starts_on_a_read_only_disk_and_writes_when_it_can") {
        return;
    }
    for persistence in [VOLATILE, PERSISTENT] {
        let place = mounted(persistence, "size=256k");
        echo(&place.file("global.json"), &json("old"));
        remount(&place.folder(), true);
        let (_lock, mut publisher) = place.open();
        assert_eq!(publisher.items(), &items(&[("global", "old")]));
        publisher.publish(&key("global"), &value("new")).unwrap_err();
        remount(&place.folder(), false);
        assert_eq!(publisher.publish(&key("global"), &value("new")).unwrap(), Published::Written);
        assert_eq!(place.text("global.json"), Some(json("new")));
    }
}
