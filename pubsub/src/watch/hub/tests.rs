use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use notify::event::{Event, EventKind, Flag, ModifyKind};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{Hub, Known, Watched};
use crate::PathWatch;

/// Time limit of a wait: far above what inotify takes, far below the rescan after 30 s. So a test that passes was woken
/// by inotify.
const GUARD: Duration = Duration::from_secs(10);

/// What the kernel tells of each inotify instance of this process: a line for each watch.
fn instances() -> Vec<String> {
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let is_inotify = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.ends_with("anon_inode:inotify"));
    let told =
        |path: PathBuf| fs::read_to_string(path.to_string_lossy().replace("/fd/", "/fdinfo/")).unwrap();
    open.filter(is_inotify).map(told).collect()
}

fn put(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

async fn woken(watch: &mut PathWatch) {
    timeout(GUARD, watch.changed()).await.expect("no wake-up");
}

#[tokio::test]
async fn many_watches_share_one_instance() {
    let folder = TempDir::new().unwrap();
    let paths: Vec<_> = (0..30).map(|number| folder.path().join(format!("run/agent/T{number}"))).collect();
    let mut watches: Vec<_> = paths.iter().map(|path| PathWatch::new([path])).collect();
    // Other tests may use the instance too, if they run as threads of this process: it is the same one.
    assert_eq!(instances().len(), 1);
    for (path, watch) in paths.iter().zip(&mut watches) {
        put(&path.join("global.json"), "1");
        woken(watch).await;
    }
}

#[tokio::test]
async fn a_watch_that_ends_leaves_the_others_theirs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run/agent/T");
    fs::create_dir_all(&path).unwrap();
    let (first, mut second) = (PathWatch::new([&path]), PathWatch::new([&path]));
    drop(first);
    for round in 0..5 {
        put(&path.join("global.json"), &round.to_string());
        woken(&mut second).await;
    }
}

/// Each reader sets the same dead watch again, and none of them may miss a change meanwhile.
#[tokio::test]
async fn all_live_on_when_their_folder_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run/agent/T");
    fs::create_dir_all(&path).unwrap();
    let mut watches = [PathWatch::new([&path]), PathWatch::new([&path]), PathWatch::new([&path])];
    for round in 0..10 {
        fs::remove_dir_all(folder.path().join("run")).unwrap();
        put(&path.join("global.json"), &round.to_string());
        for watch in &mut watches {
            woken(watch).await;
        }
        // More rounds than there can be old events on their way.
        for again in 0..20 {
            put(&path.join("global.json"), &format!("{round} {again}"));
            for watch in &mut watches {
                woken(watch).await;
            }
        }
    }
}

/// What happened since the watch was dead is told to nobody.
#[tokio::test]
async fn whoever_watches_anew_has_the_others_look() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = folder.path().join("far/above/run/agent/T");
    fs::create_dir_all(&path).unwrap();
    let (mut first, mut second) = (PathWatch::new([&path, elsewhere.path()]), PathWatch::new([&path]));
    fs::rename(folder.path().join("far"), folder.path().join("old")).unwrap();
    put(&path.join("global.json"), "1");
    put(&elsewhere.path().join("file"), "1");
    woken(&mut first).await;
    woken(&mut second).await;
}

/// Whoever opens a file in a watched folder, a reader of this process or anybody else, wakes nobody.
#[tokio::test]
async fn reading_is_not_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    put(&path, "1");
    let mut watch = PathWatch::new([folder.path()]);
    for _ in 0..200 {
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    timeout(Duration::from_millis(200), watch.changed()).await.expect_err("woken by reading");
    // The kernel is not even asked for it, so notify's thread sleeps too. 0xfc6 are the eight kinds of change.
    let told = instances().concat();
    let watches: Vec<_> = told.lines().filter(|line| line.starts_with("inotify ")).collect();
    assert!(!watches.is_empty() && watches.iter().all(|line| line.contains(" mask:fc6 ")), "{told}");
    put(&path, "2");
    woken(&mut watch).await;
}

/// Whichever of them is given up, the other one is still told.
#[tokio::test]
async fn two_paths_may_lead_to_one_folder() {
    let folder = TempDir::new().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let [mut by_link, mut by_path] = [&link, &real].map(|path| PathWatch::new([path.join("file")]));
    put(&real.join("file"), "1");
    woken(&mut by_path).await;
    woken(&mut by_link).await;
    // notify names the newer path.
    fs::rename(&real, folder.path().join("spare")).unwrap();
    // More rounds than there can be old events on their way.
    for round in 0..20 {
        put(&real.join("file"), &round.to_string());
        woken(&mut by_path).await;
        woken(&mut by_link).await;
    }
    drop(by_path);
    put(&real.join("file"), "2");
    woken(&mut by_link).await;
}

/// As one does that meets a limit again and again.
#[tokio::test]
async fn who_joins_again_and_again_is_told_once() {
    let folder = TempDir::new().unwrap();
    let watch = PathWatch::new([folder.path()]);
    let hub = Hub::of_process().unwrap();
    for _ in 0..100 {
        hub.join(&watch.shared);
    }
    let joined = super::lock(&hub.known).living();
    assert_eq!(joined.iter().filter(|reader| std::sync::Arc::ptr_eq(reader, &watch.shared)).count(), 1);
}

/// Checks which watches may be dead after an event, when `/run/a/T` is watched, and the folders above it.
#[track_caller]
fn check(event: Event, dead: &[&str]) {
    let folders = ["/run", "/run/a", "/run/a/T"].map(|path| (path.into(), Watched::default())).into();
    let mut known = Known { folders, readers: Vec::new() };
    known.told(Ok(event));
    let found = known.folders.iter().filter(|(_, watched)| watched.is_dead);
    assert_eq!(found.map(|(path, _)| path.to_str().unwrap()).collect::<Vec<_>>(), dead);
}

#[test]
fn after_a_change_of_a_folder_the_watches_in_it_may_be_dead() {
    let at = |path: &str| Event::new(EventKind::Modify(ModifyKind::Any)).add_path(path.into());
    check(at("/run/a/T/global.json"), &[]);
    check(at("/run/a/T"), &["/run/a/T"]);
    check(at("/run/a"), &["/run/a", "/run/a/T"]);
    check(at("/run/a.touch"), &[]);
    check(at("/"), &["/run", "/run/a", "/run/a/T"]);
    check(at("/run/a/T2"), &[]);
    check(Event::new(EventKind::Other).set_flag(Flag::Rescan), &["/run", "/run/a", "/run/a/T"]);
}

/// As in a flood of events: notify answers when it has read them all.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "in its place notify's thread would have to hang")]
async fn while_notify_does_not_answer_readers_poll() {
    let folder = TempDir::new().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name).join("file"));
    let mut early = PathWatch::new([&paths[0]]);
    let hub = Hub::of_process().unwrap();
    let busy = super::lock(&hub.watcher);
    fs::create_dir(folder.path().join("b")).unwrap();
    let mut late = PathWatch::new([&paths[1]]);
    assert_eq!(Hub::of_process().unwrap_err(), super::Errno::EBUSY);
    woken(&mut early).await;
    for (path, watch) in paths.iter().zip([&mut early, &mut late]) {
        put(path, "1");
        woken(watch).await;
        assert!(watch.hub.is_none());
    }
    drop(busy);
    drop(hub);
    while early.hub.is_none() || late.hub.is_none() {
        woken(&mut early).await;
        woken(&mut late).await;
    }
    assert_eq!(instances().len(), 1);
}

#[test]
fn a_folder_that_went_is_no_limit() {
    assert_eq!(super::errno(notify::Error::path_not_found()), super::Errno::ENOENT);
}
