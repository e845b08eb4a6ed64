//! A reader keeps following while folders are created, removed and swapped, and while file times are wrong.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use tokio::time::Instant;

use crate::again::say;
use crate::place::{Item, Place, VOLATILE, echo, follows, json, replace, runtime};

const TOPIC: &str = "run/zedagent/NodeDrainRequest";
/// The levels: the topic's folder and the two above it.
const LEVELS: [&str; 3] = [TOPIC, "run/zedagent", "run"];
/// Number of rounds: events of one round may still be on their way in the next.
const ROUNDS: u32 = 10;

fn put(folder: &Path, context: &str) {
    echo(&folder.join("global.json"), &json(context));
}

/// `change` gets the root and a level, and must leave the item with the value `new`. Checks that this value is seen,
/// and the ones written later.
async fn check(what: &str, levels: &[&str], change: impl Fn(&Path, &str)) {
    for level in levels {
        let place = Place::new(VOLATILE);
        let root = place.root.path();
        put(&root.join(TOPIC), "old");
        let mut subscription = place.subscribe();
        let mut longest = Duration::ZERO;
        for round in 0..ROUNDS {
            change(root, level);
            let (what, start) = (format!("{what}: {level}, round {round}"), Instant::now());
            follows(&mut subscription, &[("global", "new")], &what).await;
            longest = longest.max(start.elapsed());
            for context in ["later", "old"] {
                put(&root.join(TOPIC), context);
                follows(&mut subscription, &[("global", context)], &what).await;
            }
        }
        say(&format!("{what}: {level}, {ROUNDS} times, seen after {longest:?} at most"));
    }
}

/// Prepares a folder that will take the place of another.
fn prepare(root: &Path, level: &str) -> std::path::PathBuf {
    let spare = root.join("spare");
    fs::remove_dir_all(&spare).unwrap_or_default();
    let below = TOPIC.strip_prefix(level).unwrap().trim_start_matches('/');
    put(&spare.join(below), "new");
    spare
}

#[test]
fn folders_that_go_and_return_are_followed() {
    runtime().block_on(async {
        check("removed and made", &LEVELS, |root, level| {
            fs::remove_dir_all(root.join(level)).unwrap();
            put(&root.join(TOPIC), "new");
        })
        .await;
        check("moved away, and another one made", &LEVELS, |root, level| {
            let old = root.join("old");
            fs::remove_dir_all(&old).unwrap_or_default();
            fs::rename(root.join(level), &old).unwrap();
            put(&root.join(TOPIC), "new");
            put(&old, "not this one");
        })
        .await;
        check("a file for a moment", &LEVELS, |root, level| {
            fs::remove_dir_all(root.join(level)).unwrap();
            File::create(root.join(level)).unwrap();
            fs::remove_file(root.join(level)).unwrap();
            put(&root.join(TOPIC), "new");
        })
        .await;
    });
}

#[test]
fn folders_that_are_replaced_are_followed() {
    runtime().block_on(async {
        check("renamed over an empty one", &LEVELS, |root, level| {
            let spare = prepare(root, level);
            fs::remove_dir_all(root.join(level)).unwrap();
            fs::create_dir(root.join(level)).unwrap();
            fs::rename(spare, root.join(level)).unwrap();
        })
        .await;
        check("exchanged", &LEVELS, |root, level| {
            let spare = prepare(root, level);
            renameat2(AT_FDCWD, &spare, AT_FDCWD, &root.join(level), RenameFlags::RENAME_EXCHANGE).unwrap();
            // A write to the folder that was moved away must not count.
            fs::rename(&spare, root.join("before")).unwrap_or_default();
        })
        .await;
        // Only the folder that contains a link reports that the link was changed, and folders above `run` are not
        // watched.
        check("a link that is pointed elsewhere", &LEVELS[..2], |root, level| {
            let (from, to) =
                (root.join(level), root.join(format!("real{}", fs::read_dir(root).unwrap().count())));
            fs::rename(prepare(root, level), &to).unwrap();
            if from.is_symlink() {
                symlink(&to, root.join("link")).unwrap();
                fs::rename(root.join("link"), from).unwrap();
            } else {
                fs::remove_dir_all(&from).unwrap();
                symlink(&to, from).unwrap();
            }
        })
        .await;
    });
}

#[test]
fn folders_that_appear_one_after_the_other_are_followed() {
    runtime().block_on(async {
        for made in 0..LEVELS.len() {
            let place = Place::new(VOLATILE);
            let mut levels: Vec<_> =
                LEVELS.into_iter().rev().map(|level| place.root.path().join(level)).collect();
            for level in levels.drain(..made) {
                fs::create_dir(level).unwrap();
            }
            let mut subscription = place.subscribe();
            for level in levels {
                fs::create_dir(level).unwrap();
                // Gives the reader a turn, so that it does not see all folders at once.
                tokio::task::yield_now().await;
            }
            put(&place.folder(), "new");
            follows(&mut subscription, &[("global", "new")], &format!("{made} folders were there")).await;
        }
    });
}

/// Sets a file's times of access and change.
fn set_times(path: &Path, time: SystemTime) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
}

#[test]
fn a_value_is_seen_whatever_the_times_of_its_file_say() {
    let (century, zero) = (Duration::from_hours(100 * 365 * 24), SystemTime::UNIX_EPOCH);
    let times = [("1970", zero), ("2070", zero + century), ("1950", zero - century / 5)];
    let writes: [(&str, fn(&Path, &str)); 2] = [("in place", echo), ("renamed", replace)];
    runtime().block_on(async {
        for (year, time) in times {
            for (how, write) in writes {
                let place = Place::with_folder(VOLATILE);
                let path = place.file("global.json");
                write(&path, &json("a"));
                set_times(&path, time);
                let mut subscription = place.subscribe();
                for context in ["b", "c", "d", "e"] {
                    write(&path, &json(context));
                    set_times(&path, time);
                    follows(&mut subscription, &[("global", context)], &format!("{how}, in {year}")).await;
                }
                // The clock went back between two values.
                write(&path, &json("f"));
                set_times(&path, zero - century / 10);
                follows(&mut subscription, &[("global", "f")], &format!("{how}, in {year} and back")).await;
            }
        }
    });
}

#[test]
fn another_bad_content_of_the_same_time_and_length_is_told_anew() {
    runtime().block_on(async {
        let place = Place::with_folder(VOLATILE);
        let path = place.file("global.json");
        let mut subscription: pubsub::Subscription<Item> = place.subscribe();
        let mut seen = Vec::new();
        for code in [77, 88] {
            echo(&path, &format!(r#"{{"RequestedBy":{code}}}"#));
            set_times(&path, SystemTime::UNIX_EPOCH);
            while !subscription.refused().iter().any(|refusal| refusal.reason.contains(&code.to_string())) {
                tokio::time::timeout(crate::place::GUARD, subscription.changed()).await.expect("no refusal");
            }
            seen.push(subscription.refused());
        }
        assert_ne!(seen[0], seen[1]);
        echo(&path, &json("good"));
        set_times(&path, SystemTime::UNIX_EPOCH);
        follows(&mut subscription, &[("global", "good")], "after two bad ones").await;
        assert_eq!(subscription.refused(), []);
    });
}
