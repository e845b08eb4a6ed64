//! Tests how lost persistent items are restored from their backups.

use std::fs;

use pubsub::Persistence;

use crate::place::{PERSISTENT, Place, VOLATILE, echo, follows, items, json, key, runtime, value};

/// State in which a crash may leave a file.
#[derive(Debug, Clone, Copy)]
enum File {
    Missing,
    Empty,
    Blank,
    /// The file contains zeros.
    Zeros,
    /// The file was cut short.
    Half,
    /// The file contains JSON that is no such item.
    Wrong,
    Good(&'static str),
}

use File::{Blank, Empty, Good, Half, Missing, Wrong, Zeros};

impl File {
    fn text(self) -> Option<String> {
        match self {
            Missing => None,
            Empty => Some(String::new()),
            Blank => Some(" \n".to_owned()),
            Zeros => Some("\0".repeat(90)),
            Half => Some(json("half")[..30].to_owned()),
            Wrong => Some(r#"{"RequestedBy":77}"#.to_owned()),
            Good(context) => Some(json(context)),
        }
    }

    fn put(self, place: &Place, name: &str) {
        match self.text() {
            Some(text) => echo(&place.file(name), &text),
            None => fs::remove_file(place.file(name)).unwrap_or_default(),
        }
    }
}

/// Checks which item a publisher starts with, what readers see of it, and that publishing works afterwards.
async fn check(persistence: Persistence, item: File, backup: File, expected: Option<&str>) {
    let what = format!("{persistence:?}, item {item:?}, backup {backup:?}");
    let place = Place::with_folder(persistence);
    item.put(&place, "global.json");
    backup.put(&place, "global.json.bak");
    let mut subscription = place.subscribe();
    let (_lock, mut publisher) = place.open();
    let contexts: Vec<_> = expected.map(|context| ("global", context)).into_iter().collect();
    assert_eq!(publisher.items(), &items(&contexts), "{what}");
    assert_eq!(place.read().items, items(&contexts), "{what}");
    follows(&mut subscription, &contexts, &what).await;
    let text = expected.map(json).or_else(|| item.text());
    assert_eq!(place.text("global.json"), text, "{what}");
    assert_eq!(place.text("global.json.bak"), backup.text(), "{what}: the backup stays until the next write");

    publisher.publish(&key("global"), &value("next")).unwrap();
    publisher.publish(&key("global"), &value("after")).unwrap();
    follows(&mut subscription, &[("global", "after")], &what).await;
    if persistence == PERSISTENT {
        assert_eq!(place.text("global.json.bak"), Some(json("next")), "{what}");
    }
}

#[test]
fn a_lost_item_comes_back_from_a_good_backup_and_only_from_that() {
    runtime().block_on(async {
        let bad = [Missing, Empty, Blank, Zeros, Half, Wrong];
        for item in bad {
            check(PERSISTENT, item, Good("backup"), Some("backup")).await;
            check(VOLATILE, item, Good("backup"), None).await;
            for backup in bad {
                check(PERSISTENT, item, backup, None).await;
            }
        }
        for backup in bad.into_iter().chain([Good("backup")]) {
            check(PERSISTENT, Good("item"), backup, Some("item")).await;
            check(VOLATILE, Good("item"), backup, Some("item")).await;
        }
    });
}

#[test]
fn items_are_restored_each_by_itself() {
    let place = Place::with_folder(PERSISTENT);
    for (name, item, backup) in
        [("a", Missing, Good("a")), ("b", Good("b"), Missing), ("c", Half, Half), ("d", Empty, Good("d"))]
    {
        item.put(&place, &format!("{name}.json"));
        backup.put(&place, &format!("{name}.json.bak"));
    }
    let (_lock, publisher) = place.open();
    assert_eq!(publisher.items(), &items(&[("a", "a"), ("b", "b"), ("d", "d")]));
}
