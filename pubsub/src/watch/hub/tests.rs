use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::Hub;
use crate::PathWatch;

/// Time limit of a wait: far above what inotify takes, far below the rescan after 30 s. So a test that passes was woken
/// by inotify.
const GUARD: Duration = Duration::from_secs(10);

/// Number of inotify instances of this process.
fn instances() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.as_os_str() == "anon_inode:inotify").count()
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
    assert_eq!(instances(), 1);
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

/// Whoever opens a file in a watched folder, a reader of this process or anybody else, wakes nobody.
#[tokio::test]
async fn reading_is_not_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    put(&path, "1");
    let mut watch = PathWatch::new([folder.path()]);
    for _ in 0..10 {
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    timeout(Duration::from_millis(200), watch.changed()).await.expect_err("woken by reading");
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
    let [mut by_path, mut by_link] = [&real, &link].map(|path| PathWatch::new([path.join("file")]));
    put(&real.join("file"), "1");
    woken(&mut by_path).await;
    woken(&mut by_link).await;
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
    let joined =
        hub.shared.living().into_iter().filter(|reader| std::sync::Arc::ptr_eq(reader, &watch.shared));
    assert_eq!(joined.count(), 1);
}
