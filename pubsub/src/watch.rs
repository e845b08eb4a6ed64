//! Wakes up readers when files or folders may have changed.
//!
//! inotify only says "look again". It loses events, goes silent when a folder is replaced, and has limits. So the
//! folders above a path are watched too, watches are set again after every event that concerns them, every path is read
//! every 30 s, and where inotify is not available, files are polled.

mod hub;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::moments::moment_within;
use crate::store::is_temporary;
use hub::Hub;

/// How long a change that inotify did not report may stay unseen.
const RESCAN: Duration = Duration::from_secs(30);
/// Poll interval without inotify: half of the second within which every change has to be seen.
const POLL: Duration = Duration::from_millis(500);
/// All watches of a process look at moments so far apart.
const TOGETHER: Duration = Duration::from_millis(2500);
/// Folders that are watched above the path, or above the deepest folder of it that exists: `<agent>` and `run`
/// above a topic's folder. A rename further up is found by the rescan.
const LEVELS_ABOVE: usize = 2;
/// Folders may appear while they are being watched; this is how often they are followed at once. Further ones are
/// followed at the next wake-up.
const MAX_ROUNDS: usize = 8;

/// Watches files and folders that may not exist yet, or may be replaced.
///
/// A folder includes the names in it, not deeper ones. For a symbolic link the link itself is watched, not its target.
#[derive(Debug)]
pub struct PathWatch {
    shared: Arc<Shared>,
    find_hub: FindHub,
    hub: Option<Arc<Hub>>,
    watched: BTreeSet<PathBuf>,
    next_look: Instant,
}

type FindHub = fn() -> nix::Result<Arc<Hub>>;

/// State that is shared by notify's thread and the reader.
#[derive(Debug)]
struct Shared {
    paths: Vec<PathBuf>,
    look_again: Notify,
}

impl PathWatch {
    /// Starts to watch. Changes after this call are not missed.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self::with(Hub::of_process, paths.into_iter().map(|path| absolute(path.as_ref())).collect())
    }

    fn with(find_hub: FindHub, paths: Vec<PathBuf>) -> Self {
        let shared = Arc::new(Shared { paths, look_again: Notify::new() });
        let watched = BTreeSet::new();
        let mut watch = Self { shared, find_hub, hub: None, watched, next_look: Instant::now() };
        watch.arm();
        watch
    }

    /// Returns when a path may have changed, and at least every 30 s; read the files then. If a change happens while
    /// you read, the next call returns at once. The call can be dropped and repeated without missing anything.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = self.shared.look_again.notified() => {}
            () = sleep_until(self.next_look) => {}
        }
        self.renew();
        self.arm();
    }

    /// Sets a watch on every folder that needs one. Folders that appear meanwhile are followed.
    fn arm(&mut self) {
        let result = self.try_arm();
        if let Err(error) = result {
            tell_once(error);
            self.disarm();
            self.hub = None;
        }
        self.next_look = moment_within(if result.is_ok() { RESCAN } else { POLL }, TOGETHER);
    }

    fn try_arm(&mut self) -> nix::Result<()> {
        for _ in 0..MAX_ROUNDS {
            let wanted: BTreeSet<PathBuf> =
                self.shared.paths.iter().flat_map(|path| folders_of(path)).collect();
            if wanted == self.watched {
                return Ok(());
            }
            for gone in self.watched.difference(&wanted).cloned().collect::<Vec<_>>() {
                self.unwatch(&gone);
            }
            for missing in wanted.difference(&self.watched).cloned().collect::<Vec<_>>() {
                self.watch(missing)?;
            }
        }
        // Folders are created and removed faster than we can follow: wake up again, and follow then.
        self.shared.look_again.notify_one();
        Ok(())
    }

    fn watch(&mut self, folder: PathBuf) -> nix::Result<()> {
        let shared = Arc::clone(&self.shared);
        match self.joined_hub()?.watch(&folder, &shared) {
            Ok(()) => {
                self.watched.insert(folder);
                Ok(())
            }
            // It went away between looking for it and watching it. Not a limit.
            Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The hub, which from now on tells this watch of events.
    fn joined_hub(&mut self) -> nix::Result<&Arc<Hub>> {
        let hub = if let Some(hub) = self.hub.take() {
            hub
        } else {
            let hub = (self.find_hub)()?;
            hub.join(&self.shared);
            hub
        };
        Ok(self.hub.insert(hub))
    }

    fn unwatch(&mut self, folder: &Path) {
        self.watched.remove(folder);
        if let Some(hub) = &self.hub {
            hub.unwatch(folder);
        }
    }

    /// Sees to it that what is watched are the folders that are there now. What cannot be watched any more is left to
    /// [`PathWatch::arm`].
    fn renew(&mut self) {
        let Some(hub) = self.hub.clone() else { return };
        for folder in self.watched.clone() {
            if let Err(error) = hub.renew(&folder, &self.shared) {
                tracing::trace!("watch {folder:?} anew: {error}");
                self.unwatch(&folder);
            }
        }
    }

    fn disarm(&mut self) {
        for folder in self.watched.clone() {
            self.unwatch(&folder);
        }
    }
}

impl Drop for PathWatch {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl Shared {
    /// Runs on notify's thread, so it must not wait for anything.
    fn handle(&self, changed: &[PathBuf]) {
        if changed.iter().any(|changed| self.concerns(changed)) {
            self.look_again.notify_one();
        }
    }

    /// True if a change at this path calls for a look.
    fn concerns(&self, changed: &Path) -> bool {
        self.paths.iter().any(|path| is_below(path, changed)) || self.is_inside(changed)
    }

    /// True for a finished file directly inside one of the paths.
    fn is_inside(&self, changed: &Path) -> bool {
        let (Some(folder), Some(name)) = (changed.parent(), changed.file_name()) else {
            return false;
        };
        !is_temporary(name) && self.paths.iter().any(|path| path.as_os_str() == folder.as_os_str())
    }
}

/// True if the path is `folder`, or below it. Both are absolute, and have no part that means nothing, so that their bytes
/// can be compared: each event is told to every reader.
fn is_below(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || folder == b"/")
}

/// The folders to watch for a path: the path itself if it is a folder, else the deepest existing folder above it; and
/// some folders above that one.
fn folders_of(path: &Path) -> Vec<PathBuf> {
    let existing = path.ancestors().skip_while(|folder| !folder.is_dir());
    // `/` is never replaced, so it is watched only if nothing else exists.
    existing
        .take(LEVELS_ABOVE + 1)
        .enumerate()
        .filter(|(level, folder)| *level == 0 || folder.parent().is_some())
        .map(|(_, folder)| folder.to_owned())
        .collect()
}

/// The path from the root, without a slash at its end.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components().collect()
}

/// One warning per process: the limits of inotify are the machine's.
fn tell_once(error: Errno) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let advice = if error == Errno::EBUSY {
            "somebody changes files faster than they can be watched"
        } else {
            "raise fs.inotify.max_user_watches, fs.inotify.max_user_instances, or this process's limit of open files"
        };
        tracing::warn!(
            "files cannot be watched ({error}): looking every {} ms instead; {advice}",
            POLL.as_millis()
        );
    }
}

#[cfg(test)]
mod tests;
