//! One inotify instance for all watches of a process.
//!
//! A user has 128 instances by default; root shares them with kubelet and every container's log, and an agent follows a
//! dozen topics. So the hub is global state, the only one of this crate: the kernel's limit is global too.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::Shared;

/// The hub of this process; it exists as long as anything is watched.
static HUB: Mutex<Weak<Hub>> = Mutex::new(Weak::new());

/// The one inotify watcher, and its readers.
pub(super) struct Hub {
    /// The inotify thread never takes this lock, because the watcher waits for that thread during its calls.
    folders: Mutex<Folders>,
    readers: Arc<Readers>,
}

struct Folders {
    watcher: RecommendedWatcher,
    /// For each folder the number of its readers, and the identity that the folder had when its watch was set.
    watched: BTreeMap<PathBuf, (usize, Option<Identity>)>,
}

/// Device and inode of a folder.
type Identity = (u64, u64);

#[derive(Default)]
struct Readers {
    all: Mutex<Vec<Weak<Shared>>>,
}

impl Hub {
    /// The hub of this process; created if there is none.
    pub(super) fn of_process() -> notify::Result<Arc<Self>> {
        let mut hub = lock(&HUB);
        if let Some(hub) = hub.upgrade() {
            return Ok(hub);
        }
        let made = Arc::new(Self::new()?);
        *hub = Arc::downgrade(&made);
        Ok(made)
    }

    fn new() -> notify::Result<Self> {
        let readers = Arc::new(Readers::default());
        let told = Arc::clone(&readers);
        let watcher = notify::recommended_watcher(move |event| told.handle(&event))?;
        let folders = Mutex::new(Folders { watcher, watched: BTreeMap::new() });
        Ok(Self { folders, readers })
    }

    /// Passes events to this reader from now on, as long as it lives. A reader that joins twice gets each event once:
    /// one that cannot watch tries again twice a second.
    pub(super) fn join(&self, reader: &Arc<Shared>) {
        let mut all = lock(&self.readers.all);
        all.retain(|known| known.strong_count() != 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(reader)));
        all.push(Arc::downgrade(reader));
    }

    /// Adds a reader of this folder. The watch is set again even if there is one, because that one may be dead.
    pub(super) fn watch(&self, folder: &Path) -> notify::Result<()> {
        let mut folders = lock(&self.folders);
        folders.watch(folder)?;
        folders.watched.entry(folder.to_owned()).or_default().0 += 1;
        folders.remember(folder);
        Ok(())
    }

    /// Removes a reader of this folder.
    pub(super) fn unwatch(&self, folder: &Path) {
        let mut folders = lock(&self.folders);
        let Some((readers, _)) = folders.watched.get_mut(folder) else { return };
        *readers = readers.saturating_sub(1);
        if *readers == 0 {
            folders.watched.remove(folder);
            folders.unwatch(folder);
        }
    }

    /// Sets the watch of this folder again. `is_sure` says that the present watch is known to be dead; otherwise the
    /// watch is set again only if the folder was replaced. Other readers may miss events meanwhile, so they are woken.
    pub(super) fn renew(&self, folder: &Path, is_sure: bool, reader: &Arc<Shared>) -> notify::Result<()> {
        let mut folders = lock(&self.folders);
        let known = folders.watched.get(folder).and_then(|(_, identity)| *identity);
        if !is_sure && known.is_some() && known == identity_of(folder) {
            return Ok(());
        }
        folders.unwatch(folder);
        folders.watch(folder)?;
        folders.remember(folder);
        drop(folders);
        self.readers.wake_all_but(reader);
        Ok(())
    }
}

impl Folders {
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }

    fn unwatch(&mut self, folder: &Path) {
        if let Err(error) = self.watcher.unwatch(folder) {
            // The kernel removes the watch of a removed folder by itself.
            tracing::trace!("unwatch {folder:?}: {error}");
        }
    }

    fn remember(&mut self, folder: &Path) {
        if let Some((_, identity)) = self.watched.get_mut(folder) {
            *identity = identity_of(folder);
        }
    }
}

impl Readers {
    /// Passes an event to all readers. Runs on the inotify thread, so it must wait for nothing except this short lock.
    fn handle(&self, event: &notify::Result<Event>) {
        self.living().iter().for_each(|reader| reader.handle(event));
    }

    fn wake_all_but(&self, one: &Arc<Shared>) {
        let others = self.living().into_iter().filter(|reader| !Arc::ptr_eq(reader, one));
        others.for_each(|reader| reader.look_again.notify_one());
    }

    fn living(&self) -> Vec<Arc<Shared>> {
        lock(&self.all).iter().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hub").field("folders", &lock(&self.folders).watched).finish_non_exhaustive()
    }
}

fn identity_of(folder: &Path) -> Option<Identity> {
    folder.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
