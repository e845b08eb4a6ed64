//! Without inotify a reader polls twice a second, logs this once, and is woken by events again as soon as inotify is
//! available.
//!
//! The limits are those of a user namespace, so other processes keep inotify.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pubsub::Subscription;
use tokio::time::{Instant, sleep, timeout};

use crate::again::say;
use crate::namespace::{is_inside, set_limit};
use crate::place::{GUARD, Item, Place, VOLATILE, echo, follows, json, replace, runtime};
use crate::said::Said;

const NO_LIMIT: u64 = 1_000_000;

/// Number of inotify instances of this process.
fn instances() -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let is_inotify = |link: &std::path::PathBuf| link.to_string_lossy().contains("inotify");
    files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).filter(is_inotify).count()
}

/// A limit, and a value with which a topic's folder and the two folders above it cannot be watched.
const LIMITS: [(&str, u64); 3] =
    [("max_inotify_instances", 0), ("max_inotify_watches", 0), ("max_inotify_watches", 2)];

/// Checks that values are followed without inotify.
async fn check_polling(place: &Place, subscription: &mut Subscription<Item>, what: &str) {
    without_inotify(what).await;
    let mut longest = Duration::ZERO;
    for context in ["b", "c", "d"] {
        let start = Instant::now();
        replace(&place.file("global.json"), &json(context));
        follows(subscription, &[("global", context)], what).await;
        longest = longest.max(start.elapsed());
    }
    fs::remove_dir_all(place.root.join("/run")).unwrap();
    follows(subscription, &[], what).await;
    echo(&place.file("global.json"), &json("e"));
    follows(subscription, &[("global", "e")], what).await;
    without_inotify(what).await;
    say(&format!("{what}: polling, a change was seen after {longest:?} at most"));
}

/// Checks that inotify comes back and wakes the reader.
async fn check_woken(place: &Place, subscription: &mut Subscription<Item>, what: &str) {
    let back = async {
        while instances() == 0 {
            timeout(Duration::from_millis(50), subscription.changed()).await.unwrap_or_default();
        }
    };
    timeout(GUARD, back).await.expect("inotify did not come back");
    for context in ["x", "y"] {
        replace(&place.file("global.json"), &json(context));
        follows(subscription, &[("global", context)], what).await;
    }
}

#[test]
fn a_limit_that_is_reached_at_the_start_makes_readers_poll() {
    if !is_inside("limits::a_limit_that_is_reached_at_the_start_makes_readers_poll") {
        return;
    }
    let said = Said::listen();
    runtime().block_on(async {
        for (limit, value) in LIMITS {
            let place = Place::new(VOLATILE);
            echo(&place.file("global.json"), &json("a"));
            set_limit(limit, value).unwrap();
            let mut subscription = place.subscribe();
            let what = format!("{limit} {value} at the start");
            check_polling(&place, &mut subscription, &what).await;
            set_limit(limit, NO_LIMIT).unwrap();
            check_woken(&place, &mut subscription, &what).await;
            drop(subscription);
            without_inotify(&what).await;
        }
        let told = said.lines("files cannot be watched");
        assert!(told.len() == 1 && told[0].contains("(EMFILE"), "{told:#?}");
        assert!(told[0].contains("looking every 500 ms"), "{told:#?}");
    });
}

#[test]
fn a_limit_that_is_reached_later_makes_readers_poll() {
    if !is_inside("limits::a_limit_that_is_reached_later_makes_readers_poll") {
        return;
    }
    let said = Said::listen();
    runtime().block_on(async {
        for (limit, value) in LIMITS.into_iter().skip(1) {
            let place = Place::new(VOLATILE);
            echo(&place.file("global.json"), &json("a"));
            let mut subscription = place.subscribe();
            set_limit(limit, value).unwrap();
            let what = format!("{limit} {value} later");
            // New folders need new watches.
            fs::remove_dir_all(place.root.join("/run")).unwrap();
            follows(&mut subscription, &[], &what).await;
            echo(&place.file("global.json"), &json("a"));
            follows(&mut subscription, &[("global", "a")], &what).await;
            check_polling(&place, &mut subscription, &what).await;
            set_limit(limit, NO_LIMIT).unwrap();
            check_woken(&place, &mut subscription, &what).await;
            drop(subscription);
            without_inotify(&what).await;
        }
        assert_eq!(said.lines("files cannot be watched").len(), 1);
        assert_eq!(said.lines("files cannot be watched (ENOSPC").len(), 1);
    });
}

/// notify goes on without its thread, and panics later.
#[test]
fn a_thread_that_cannot_be_started_makes_readers_poll() {
    if !is_inside("limits::a_thread_that_cannot_be_started_makes_readers_poll") {
        return;
    }
    let said = Said::listen();
    runtime().block_on(async {
        let place = Place::new(VOLATILE);
        echo(&place.file("global.json"), &json("a"));
        let (_, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
        // Too little for the stack of a thread.
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        setrlimit(Resource::RLIMIT_AS, pages * 4096 + (1 << 20), hard).unwrap();
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let mut subscription = place.subscribe();
        check_polling(&place, &mut subscription, "no thread").await;
        assert_eq!(open(), before, "files were left open");
        setrlimit(Resource::RLIMIT_AS, hard, hard).unwrap();
        check_woken(&place, &mut subscription, "no thread").await;
        assert_eq!(said.lines("files cannot be watched (EAGAIN").len(), 1);
    });
}

/// Waits until no inotify instance is left. A thread of its own closes instances, also those of a reader that failed to
/// get watches.
async fn without_inotify(what: &str) {
    let gone = async {
        while instances() != 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(GUARD, gone).await.unwrap_or_else(|_| panic!("{what}: an instance of inotify was left"));
}
