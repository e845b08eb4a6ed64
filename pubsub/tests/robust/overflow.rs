//! More events than inotify keeps: what the lost events reported is found all the same.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::again::{command, role, say};
use crate::place::{Place, VOLATILE, echo, follows, json, replace, runtime};

const TEST: &str = "overflow::events_that_are_lost_are_made_up_for";
/// Far above the time that the remaining events take.
const QUIET: Duration = Duration::from_secs(1);
/// Limit of events, so that the test does not take too long.
const MOST_EVENTS: u32 = 200_000;

/// Runs in the reader's process. The reader is stopped after it printed `watching`, and sees the last value when it
/// goes on.
fn read(place: &Place) {
    let own = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
    own.add_watch(&place.folder(), AddWatchFlags::IN_ALL_EVENTS).unwrap();
    runtime().block_on(async {
        let mut subscription = place.subscribe();
        assert_eq!(subscription.items(), &crate::place::items(&[("global", "first")]));
        say("watching");
        follows(&mut subscription, &[("global", "last")], "after the overflow").await;
        // Waits until the events that were not lost are handled.
        timeout(QUIET, subscription.changed()).await.expect_err("nothing more to tell");
        replace(&place.file("global.json"), &json("later"));
        follows(&mut subscription, &[("global", "later")], "after that").await;
    });
    let mut has_overflowed = false;
    while let Ok(events) = own.read_events() {
        has_overflowed |= events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
    }
    assert!(has_overflowed, "nothing was lost: the test shows nothing");
    say("events were lost, and made up for");
}

#[test]
fn events_that_are_lost_are_made_up_for() {
    if role().is_some() {
        return read(&Place::given(VOLATILE));
    }
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: u32 = limit.trim().parse().unwrap();
    assert!(limit <= MOST_EVENTS, "inotify keeps {limit} events here: too many for this test");
    let place = Place::with_folder(VOLATILE);
    echo(&place.file("global.json"), &json("first"));
    let mut reader = command(TEST, "read", place.root.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap());
    wait_for(&mut lines, "watching");
    stop(&reader);
    // At least one event each; two names by turns, since equal ones in a row count as one.
    for _ in 0..=limit / 2 {
        for name in ["a.json", "b.json"] {
            echo(&place.file(name), &json("0"));
        }
    }
    // One of the lost events: the watched folder is another one from now on.
    fs::rename(place.folder(), place.root.join("/old")).unwrap();
    echo(&place.file("global.json"), &json("last"));
    kill(pid(&reader), Signal::SIGCONT).unwrap();
    wait_for(&mut lines, "events were lost, and made up for");
    assert!(reader.wait().unwrap().success());
    say("the queue of inotify overflowed; the last value was seen, and what came after it");
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

fn stop(child: &Child) {
    kill(pid(child), Signal::SIGSTOP).unwrap();
    let status = waitpid(pid(child), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)), "{status:?}");
}

#[track_caller]
fn wait_for(lines: &mut BufReader<ChildStdout>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the reader ended before `{text}`");
    }
}
