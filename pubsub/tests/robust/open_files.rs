//! The process cannot open more files (EMFILE): each failure is an error that is reported, nothing spins, and
//! everything works again when files are closed.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket};
use nix::sys::time::TimeValLike;
use pubsub::{Published, Subscription};
use tokio::time::{sleep, timeout};

use crate::again::{command, relay, role, say};
use crate::place::{
    AGENT, GUARD, PERSISTENT, Place, VOLATILE, echo, follows, items, json, key, replace, rescanned, runtime,
    value, words,
};
use crate::said::Said;

/// Limit of open files: enough for the test itself.
const MOST_FILES: u64 = 64;
/// How long no file can be opened.
const OUTAGE: Duration = Duration::from_secs(1);
/// Limit of processor time in an outage. Code that spins takes all the time that it can get.
const MOST_WORK: Duration = Duration::from_millis(100);
/// Limit of how often this process goes to sleep, and so wakes up, in an outage. Code that tries again every 100 ms
/// does so about 30 times, together with the inotify threads.
const MOST_WAKES: i64 = 150;

const EMFILE: &str = "Too many open files";

/// True if this process may use up its files. If false, such a process was run.
fn is_alone(test: &str) -> bool {
    if role().is_some() {
        return true;
    }
    let place = Place::new(VOLATILE);
    let output = command(test, "starve", place.root.path()).output().unwrap();
    relay(&output);
    false
}

/// Opens every file that this process may open, until it is dropped.
struct Outage(Vec<File>);

impl Outage {
    fn begin() -> Self {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, MOST_FILES.min(hard), hard).unwrap();
        let null = File::open("/dev/null").unwrap();
        let mut taken = vec![];
        while let Ok(file) = null.try_clone() {
            taken.push(file);
        }
        taken.push(null);
        Self(taken)
    }
}

/// Processor time that this process has used, and how often it has waited.
fn work() -> (Duration, i64) {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    (Duration::from_micros(u64::try_from(micros).unwrap()), usage.voluntary_context_switches())
}

/// Checks that the process is idle; `waiting` gives code that would spin the time to do so.
async fn check_idle(what: &str, waiting: impl Future<Output = ()>) {
    let before = work();
    timeout(OUTAGE, waiting).await.unwrap_or_default();
    let after = work();
    let (worked, woke) = (after.0.saturating_sub(before.0), after.1 - before.1);
    say(&format!("{what}: {worked:?} of work and {woke} wake-ups in {OUTAGE:?}"));
    assert!(worked < MOST_WORK && woke < MOST_WAKES, "{what}: {worked:?} of work, {woke} wake-ups");
}

#[test]
fn publishing_fails_with_words_and_works_again() {
    if !is_alone("open_files::publishing_fails_with_words_and_works_again") {
        return;
    }
    for persistence in [VOLATILE, PERSISTENT] {
        let place = Place::given(persistence);
        let (lock, mut publisher) = place.open();
        publisher.publish(&key("global"), &value("old")).unwrap();
        let names = place.names();
        let outage = Outage::begin();
        for _ in 0..2 {
            let text = words(&publisher.publish(&key("global"), &value("new")).unwrap_err());
            assert!(text.contains(&place.folder().display().to_string()) && text.contains(EMFILE), "{text}");
        }
        assert_eq!(publisher.items(), &items(&[("global", "old")]));
        let text = words(&place.try_open(&lock).unwrap_err());
        assert!(text.contains(EMFILE), "{text}");
        drop(outage);
        assert_eq!((place.text("global.json"), place.names()), (Some(json("old")), names));
        assert_eq!(publisher.publish(&key("global"), &value("new")).unwrap(), Published::Written);
        assert_eq!(place.read().items, items(&[("global", "new")]));
    }
}

#[test]
fn a_subscription_keeps_what_it_knows_and_does_not_spin() {
    if !is_alone("open_files::a_subscription_keeps_what_it_knows_and_does_not_spin") {
        return;
    }
    let said = Said::listen();
    let place = Place::given(VOLATILE);
    let path = place.file("global.json");
    echo(&path, &json("old"));
    runtime().block_on(async {
        let mut subscription = place.subscribe();
        let mut spare = Outage::begin();
        // Another process could do this: for a moment one more file can be opened.
        spare.0.pop();
        replace(&path, &json("new"));
        spare.0.push(File::open("/dev/null").unwrap());
        let known = async {
            loop {
                subscription.changed().await;
            }
        };
        check_idle("following a folder", known).await;
        assert_eq!(subscription.items(), &items(&[("global", "old")]));
        let refused = subscription.refused();
        assert!(refused.iter().any(|refusal| refusal.reason.contains(EMFILE)), "{refused:?}");
        drop(spare);
        rescanned(&mut subscription, &[("global", "new")], "what came without files to open").await;
        assert_eq!(subscription.refused(), []);
        let told = said.lines(EMFILE);
        assert!(told.len() <= 4, "{told:#?}");
    });
}

#[test]
fn a_value_that_came_in_an_outage_is_seen_soon_after_it() {
    if !is_alone("open_files::a_value_that_came_in_an_outage_is_seen_soon_after_it") {
        return;
    }
    let place = Place::given(VOLATILE);
    let path = place.file("global.json");
    echo(&path, &json("old"));
    runtime().block_on(async {
        let mut subscription = place.subscribe();
        let mut spare = Outage::begin();
        spare.0.pop();
        replace(&path, &json("new"));
        spare.0.push(File::open("/dev/null").unwrap());
        timeout(GUARD, subscription.changed()).await.expect("a refusal");
        assert_eq!(subscription.restarted(), 0, "an outage is no restart of the publisher");
        // Waits until all events of that write have been handled.
        timeout(OUTAGE, subscription.changed()).await.expect_err("nothing more to tell");
        drop(spare);
        follows(&mut subscription, &[("global", "new")], "after the outage").await;
    });
}

#[test]
fn a_subscription_that_begins_in_an_outage_recovers() {
    if !is_alone("open_files::a_subscription_that_begins_in_an_outage_recovers") {
        return;
    }
    let said = Said::listen();
    let place = Place::given(VOLATILE);
    echo(&place.file("global.json"), &json("old"));
    runtime().block_on(async {
        let outage = Outage::begin();
        let mut subscription = place.subscribe();
        check_idle("polling a folder", async {
            loop {
                subscription.changed().await;
            }
        })
        .await;
        assert_eq!(said.lines("files cannot be watched").len(), 1);
        drop(outage);
        follows(&mut subscription, &[("global", "old")], "after the outage").await;
        echo(&place.file("global.json"), &json("new"));
        follows(&mut subscription, &[("global", "new")], "after the outage").await;
    });
}

#[test]
fn a_socket_that_could_not_be_made_is_made_later() {
    if !is_alone("open_files::a_socket_that_could_not_be_made_is_made_later") {
        return;
    }
    let said = Said::listen();
    let place = Place::given(VOLATILE);
    runtime().block_on(async {
        let (_lock, mut publisher) = place.open();
        publisher.publish(&key("global"), &value("old")).unwrap();
        let outage = Outage::begin();
        publisher.serve().unwrap();
        let mut subscription = Subscription::dial(&place.root, AGENT);
        check_idle("serving and dialling without files", async {
            subscription.changed().await;
            panic!("no change can arrive here");
        })
        .await;
        let told = said.lines("cannot serve");
        assert!(told.len() == 1 && told[0].contains(EMFILE), "{told:#?}");
        drop(outage);
        follows(&mut subscription, &[("global", "old")], "after the outage").await;
    });
}

#[test]
fn a_peer_that_could_not_be_accepted_is_served_later() {
    if !is_alone("open_files::a_peer_that_could_not_be_accepted_is_served_later") {
        return;
    }
    let said = Said::listen();
    let place = Place::given(VOLATILE);
    runtime().block_on(async {
        let (_lock, publisher) = place.open();
        let mut publisher = publisher.served().unwrap();
        let mut friend = Subscription::dial(&place.root, AGENT);
        publisher.publish(&key("global"), &value("old")).unwrap();
        follows(&mut friend, &[("global", "old")], "before the outage").await;

        let peer = new_peer();
        let outage = Outage::begin();
        let path = place.root.topic::<crate::place::Item>(AGENT, VOLATILE).socket();
        connect(peer.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        send(peer.as_raw_fd(), b"request NodeDrainRequest", MsgFlags::empty()).unwrap();
        check_idle("a peer at the door", sleep(OUTAGE)).await;
        assert_eq!(recv(peer.as_raw_fd(), &mut [0; 100], MsgFlags::empty()), Err(Errno::EAGAIN));
        let told = said.lines("cannot accept");
        assert!(told.len() == 1 && told[0].contains(EMFILE), "{told:#?}");
        drop(outage);
        let answer = timeout(GUARD, first_word(&peer)).await.expect("no answer");
        assert_eq!(answer, "hello NodeDrainRequest false");
        publisher.publish(&key("global"), &value("new")).unwrap();
        follows(&mut friend, &[("global", "new")], "after the outage").await;
    });
}

fn new_peer() -> OwnedFd {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_NONBLOCK, None).unwrap()
}

async fn first_word(peer: &OwnedFd) -> String {
    let mut buffer = [0; 100];
    loop {
        match recv(peer.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => return String::from_utf8(buffer[..length].to_vec()).unwrap(),
            Err(error) => assert_eq!(error, Errno::EAGAIN),
        }
        sleep(Duration::from_millis(10)).await;
    }
}
