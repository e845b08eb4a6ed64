use std::fs::{self, File};
use std::io::Write;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Time limit of a wait: far above what inotify takes, far below the rescan after 30 s. So a test that passes was woken
/// by inotify.
const GUARD: Duration = Duration::from_secs(10);

/// Checks whether an event at this path needs a look at the files, when `/run/a/T` is watched.
#[track_caller]
fn check(path: &str, expected: bool) {
    let shared = Shared { paths: vec!["/run/a/T".into()], look_again: Notify::new() };
    assert_eq!(shared.concerns(Path::new(path)), expected, "{path}");
}

#[test]
fn a_change_means_look_again_or_nothing() {
    let (look, nothing) = (true, false);
    check("/run/a/T/global.json", look);
    check("/run/a/T", look);
    check("/run/a", look);
    check("/run/a.touch", nothing);
    check("/", look);
    check("/run/a/T2", nothing);
    check("/run/a/Other", nothing);
    check("/run/a/T/.tmp.1.1", nothing);
}

#[test]
fn a_slash_at_the_end_changes_nothing() {
    let watch = PathWatch::new(["/run/a/T/"]);
    let concerns = |path: &str| watch.shared.concerns(Path::new(path));
    assert!(concerns("/run/a/T/global.json") && concerns("/run/a/T"));
}

#[test]
fn the_deepest_folder_and_those_above_are_watched() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run/zedkube/NodeDrainStatus");
    let above = |path: &Path| folders_of(path).first().cloned();
    assert_eq!(above(&path).as_deref(), Some(folder.path()));
    fs::create_dir_all(&path).unwrap();
    let expected = [path.clone(), folder.path().join("run/zedkube"), folder.path().join("run")];
    assert_eq!(folders_of(&path), expected);
    assert_eq!(folders_of(&path.join("global.json")), expected);
    assert_eq!(folders_of(Path::new("/nowhere")), [PathBuf::from("/")]);
    assert_eq!(folders_of(Path::new("/tmp/nowhere-at-all")), [PathBuf::from("/tmp")]);
}

async fn woken(watch: &mut PathWatch) {
    timeout(GUARD, watch.changed()).await.expect("no wake-up");
}

/// Waits for wake-ups until the file at `path` has this text.
async fn woken_until(watch: &mut PathWatch, path: &Path, text: &str) {
    while fs::read_to_string(path).ok().as_deref() != Some(text) {
        woken(watch).await;
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_file_is_followed_through_all_that_happens_to_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("etc/rancher/k3s/k3s.yaml");
    let mut watch = PathWatch::new([&path]);
    put(&path, "1");
    woken(&mut watch).await;
    put(&path, "2");
    woken_until(&mut watch, &path, "2").await;
    fs::remove_dir_all(folder.path().join("etc")).unwrap();
    woken(&mut watch).await;
    for text in ["3", "4"] {
        put(&path, text);
        woken(&mut watch).await;
    }
    // The whole folder is replaced by another one.
    put(&folder.path().join("new/k3s/k3s.yaml"), "5");
    fs::rename(folder.path().join("etc/rancher"), folder.path().join("old")).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("etc/rancher")).unwrap();
    woken_until(&mut watch, &path, "5").await;
    put(&path, "6");
    woken(&mut watch).await;
}

#[tokio::test]
async fn watches_live_on_when_a_folder_went_and_came_back_between_two_looks() {
    for below in ["run", "run/zedagent", "run/zedagent/T"] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("run/zedagent/T/global.json");
        put(&path, "0");
        let mut watch = PathWatch::new([path.parent().unwrap()]);
        fs::rename(folder.path().join(below), folder.path().join("spare")).unwrap();
        fs::rename(folder.path().join("spare"), folder.path().join(below)).unwrap();
        // More rounds than there can be old events on their way.
        for round in 0..30 {
            put(&path, &round.to_string());
            woken(&mut watch).await;
        }
    }
}

#[tokio::test]
async fn several_paths_are_watched_at_once() {
    let folder = TempDir::new().unwrap();
    let paths = [folder.path().join("a/one"), folder.path().join("b/two")];
    let mut watch = PathWatch::new(&paths);
    for path in &paths {
        put(path, "1");
        woken(&mut watch).await;
    }
    put(&paths[0], "2");
    woken(&mut watch).await;
}

#[tokio::test]
async fn a_change_while_nobody_waits_wakes_the_next_who_does() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let mut watch = PathWatch::new([&path]);
    put(&path, "1");
    for _ in 0..3 {
        // The wait is dropped at once, as by a `select!` whose other branch is ready.
        tokio::select! { biased; () = std::future::ready(()) => {}, () = watch.changed() => {} }
    }
    woken(&mut watch).await;
}

#[tokio::test(start_paused = true)]
async fn without_events_there_is_a_look_every_30_seconds() {
    let folder = TempDir::new().unwrap();
    let mut watch = PathWatch::new([folder.path().join("file")]);
    let start = Instant::now();
    for looks in 1..4 {
        watch.changed().await;
        assert_eq!(start.elapsed().as_secs(), looks * 30);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_that_is_given_up_does_not_put_off_the_look() {
    let folder = TempDir::new().unwrap();
    let mut watch = PathWatch::new([folder.path().join("file")]);
    let start = Instant::now();
    while timeout(Duration::from_secs(7), watch.changed()).await.is_err() {}
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn without_inotify_there_is_a_look_twice_a_second() {
    let folder = TempDir::new().unwrap();
    let no_hub: FindHub = || Err(Errno::ENOSPC);
    let mut watch = PathWatch::with(no_hub, vec![folder.path().join("file")]);
    let start = Instant::now();
    for looks in 1..5 {
        watch.changed().await;
        assert_eq!(start.elapsed().as_millis(), looks * 500);
    }
    // The limit of inotify is lifted.
    watch.find_hub = Hub::of_process;
    watch.changed().await;
    watch.changed().await;
    assert_eq!(start.elapsed().as_millis(), 2500 + 30_000);
}
