//! A hundred thousand writes by another process, while a reader watches.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use pubsub::{Subscription, TopicKey};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::again::{command, role, say};
use crate::place::{GUARD, Item, Place, VOLATILE, echo, json, key, replace, runtime, value};

const TEST: &str = "many::a_hundred_thousand_writes_end_in_what_is_there";
const WRITES: u32 = 100_000;
/// Number of items of each kind.
const EACH: u32 = 4;

/// The way in which an item is written, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The file is replaced by a new one.
    Renamed,
    /// The file is written in place, as by a shell.
    Rewritten,
    /// The file is removed and created.
    Deleted,
}

const FATES: [Fate; 3] = [Fate::Renamed, Fate::Rewritten, Fate::Deleted];

/// The item that is changed by a write, and the way.
fn target(write: u32) -> (Fate, TopicKey) {
    let fate = FATES[write as usize % FATES.len()];
    (fate, key(&format!("{fate:?}-{}", write / 3 % EACH)))
}

/// True if the item exists after this write.
fn is_there(write: u32) -> bool {
    target(write).0 != Fate::Deleted || (write / 3 / EACH).is_multiple_of(2)
}

/// The items after all writes.
fn last() -> BTreeMap<TopicKey, Item> {
    let first = WRITES - 6 * EACH;
    let written = (first..WRITES).map(|write| (target(write).1, write));
    let newest: BTreeMap<_, _> = written.collect();
    newest
        .into_iter()
        .filter(|(_, write)| is_there(*write))
        .map(|(key, write)| (key, value(&write.to_string())))
        .collect()
}

/// Runs in the other process.
fn write_all(place: &Place) {
    for write in 0..WRITES {
        let (fate, key) = target(write);
        let (path, text) = (place.file(&key.file_name()), json(&write.to_string()));
        match fate {
            Fate::Rewritten => echo(&path, &text),
            Fate::Renamed => replace(&path, &text),
            Fate::Deleted if is_there(write) => replace(&path, &text),
            Fate::Deleted => fs::remove_file(&path).unwrap(),
        }
    }
}

#[test]
fn a_hundred_thousand_writes_end_in_what_is_there() {
    if role().is_some() {
        return write_all(&Place::given(VOLATILE));
    }
    let place = Place::with_folder(VOLATILE);
    runtime().block_on(async {
        let mut subscription = place.subscribe();
        let mut command = Command::from(command(TEST, "write", place.root.path()));
        let mut writer = command.stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut watched = Watched::default();
        let start = Instant::now();
        let ended = loop {
            tokio::select! {
                ended = writer.wait() => break ended.unwrap(),
                () = subscription.changed() => watched.look(&subscription),
            }
        };
        assert!(ended.success());
        let (writing, end) = (start.elapsed(), Instant::now());
        let expected = last();
        let equal = async {
            while *subscription.items() != expected {
                subscription.changed().await;
                watched.look(&subscription);
            }
        };
        let result = timeout(GUARD, equal).await;
        let after = end.elapsed();
        assert!(result.is_ok(), "{:?} instead of {expected:?}", subscription.items());
        // No more writes: no further change may come.
        timeout(Duration::from_millis(500), subscription.changed()).await.expect_err("a change of nothing");
        assert_eq!(subscription.refused(), []);
        let looks = watched.looks;
        say(&format!("{WRITES} writes in {writing:?}, {looks} changes seen, equal {after:?} after the end"));
    });
}

/// State that the reader has seen so far.
#[derive(Debug, Default)]
struct Watched {
    looks: u64,
    newest: BTreeMap<TopicKey, u32>,
}

impl Watched {
    /// Checks that an item which is only ever replaced is never missing, and that no item goes back to an older value.
    fn look(&mut self, subscription: &Subscription<Item>) {
        self.looks += 1;
        for (key, number) in &self.newest {
            let is_kept = !key.as_str().starts_with("Deleted");
            let now = subscription.get(key).map(|item| item.context.parse::<u32>().unwrap());
            assert!(!is_kept || now.is_some(), "{key} was never away, but it was seen to be");
            assert!(now.is_none_or(|now| *number <= now), "{key} went back from {number} to {now:?}");
        }
        for (key, item) in subscription.items() {
            self.newest.insert(key.clone(), item.context.parse().unwrap());
        }
    }
}
