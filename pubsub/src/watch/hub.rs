//! One inotify instance for all watches of a process.
//!
//! A user has 128 instances by default; root shares them with kubelet and every container's log, and an agent follows a
//! dozen topics. So the hub is global state, the only one of this crate: the kernel's limit is global too.
//!
//! The library `notify` reads inotify. It does not know when one of its watches is dead, or has become one of another
//! folder, and it names one path where several lead to a folder. The hub makes up for that.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;

use nix::errno::Errno;
use notify::{Config, ErrorKind, Event, EventKindMask, INotifyWatcher, RecursiveMode, Watcher};

use super::{POLL, Shared, is_below};

/// What wakes this process. Opening, reading and closing are not among it: a process that watches `/run` or `/etc` would
/// be woken by whatever else runs on the device, and by its own reading. A rename is a modification.
const CHANGES: EventKindMask =
    EventKindMask::CREATE.union(EventKindMask::REMOVE).union(EventKindMask::ALL_MODIFY);

/// The hub of this process, as long as anybody watches.
static HUB: Mutex<Weak<Hub>> = Mutex::new(Weak::new());

/// The one instance of inotify, and who listens to it.
#[derive(Debug)]
pub(super) struct Hub {
    /// Whoever has this may wait for notify's thread. So that thread must never wait for this lock.
    watcher: Mutex<INotifyWatcher>,
    known: Arc<Mutex<Known>>,
    /// notify did not answer.
    is_stuck: AtomicBool,
}

/// What the hub shares with notify's thread; locked for moments only.
#[derive(Debug, Default)]
struct Known {
    folders: BTreeMap<PathBuf, Watched>,
    readers: Vec<Weak<Shared>>,
}

#[derive(Debug, Default)]
struct Watched {
    /// How many readers want the folder.
    readers: usize,
    /// Device and inode of what is watched.
    identity: Option<(u64, u64)>,
    /// The watch may be dead.
    is_dead: bool,
}

impl Hub {
    pub(super) fn of_process() -> nix::Result<Arc<Self>> {
        let mut hub = lock(&HUB);
        if let Some(hub) = hub.upgrade() {
            return if hub.is_stuck.load(Ordering::Relaxed) { Err(Errno::EBUSY) } else { Ok(hub) };
        }
        let made = Arc::new(Self::new()?);
        *hub = Arc::downgrade(&made);
        Ok(made)
    }

    fn new() -> nix::Result<Self> {
        // notify does not notice if its thread cannot be started, and later panics. So another one is tried first.
        let tried = thread::Builder::new().spawn(|| {}).map_err(|error| number(&error))?;
        tried.join().map_err(|_| Errno::EAGAIN)?;
        let known = Arc::<Mutex<Known>>::default();
        let telling = Arc::clone(&known);
        let config = Config::default().with_event_kinds(CHANGES);
        let watcher = INotifyWatcher::new(move |event| handle(&telling, event), config).map_err(errno)?;
        if let Err(error) = watcher.watched_paths() {
            // It has no thread, and would panic when it is dropped.
            std::mem::forget(watcher);
            return Err(errno(error));
        }
        Ok(Self { watcher: Mutex::new(watcher), known, is_stuck: AtomicBool::new(false) })
    }

    /// Passes events to this reader from now on, as long as it lives. A reader that joins twice gets each event once:
    /// one that cannot watch tries again twice a second.
    pub(super) fn join(&self, reader: &Arc<Shared>) {
        let all = &mut lock(&self.known).readers;
        all.retain(|known| known.strong_count() != 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(reader)));
        all.push(Arc::downgrade(reader));
    }

    /// This reader too wants this folder.
    pub(super) fn watch(self: &Arc<Self>, folder: &Path, reader: &Arc<Shared>) -> nix::Result<()> {
        let is_first = {
            let mut known = lock(&self.known);
            let watched = known.folders.entry(folder.to_owned()).or_default();
            watched.readers += 1;
            watched.readers == 1
        };
        let result = self.set(folder, reader, is_first);
        if result.is_err() {
            self.unwatch(folder);
        }
        result
    }

    /// Removes a reader of this folder.
    pub(super) fn unwatch(self: &Arc<Self>, folder: &Path) {
        {
            let mut known = lock(&self.known);
            let Some(watched) = known.folders.get_mut(folder) else { return };
            watched.readers = watched.readers.saturating_sub(1);
            if watched.readers > 0 {
                return;
            }
        }
        let (known, folder) = (Arc::clone(&self.known), folder.to_owned());
        let unwatch = move |watcher: &mut INotifyWatcher| {
            // Somebody may want it again by now. As long as it is watched, it is known: notify may tell of it by this path.
            if lock(&known).is_unwanted(&folder) {
                end(watcher, &folder);
            }
            let mut known = lock(&known);
            if known.is_unwanted(&folder) {
                known.folders.remove(&folder);
            }
            Ok(())
        };
        self.ask(unwatch).unwrap_or_else(|error| tracing::trace!("unwatch a folder: {error}"));
    }

    /// Watches the folder that is there now, if it is another one than before, or its watch may be dead. What happens
    /// to it in between is not told, so its other readers look.
    pub(super) fn renew(self: &Arc<Self>, folder: &Path, reader: &Arc<Shared>) -> nix::Result<()> {
        self.set(folder, reader, false)
    }

    fn set(self: &Arc<Self>, folder: &Path, reader: &Arc<Shared>, is_first: bool) -> nix::Result<()> {
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(Errno::EBUSY);
        }
        // This comes first: if the folder is replaced before it is watched, the next look finds a difference.
        let found = fs::metadata(folder).map_err(|error| number(&error))?;
        let found = Some((found.dev(), found.ino()));
        let is_other = |watched: &Watched| is_first || watched.is_dead || watched.identity != found;
        if !lock(&self.known).folders.get(folder).is_some_and(is_other) {
            return Ok(());
        }
        let (known, path) = (Arc::clone(&self.known), folder.to_owned());
        let result = self.ask(move |watcher| {
            // For a path that it knows, notify would do nothing, and say that all is well.
            end(watcher, &path);
            // Until here notify tells of the former folder by this path, from here on what it tells may end the new watch.
            if let Some(watched) = lock(&known).folders.get_mut(&path) {
                (watched.identity, watched.is_dead) = (found, false);
            }
            watcher.watch(&path, RecursiveMode::NonRecursive)
        });
        let mut known = lock(&self.known);
        let Some(watched) = known.folders.get_mut(folder) else { return result };
        watched.is_dead |= result.is_err();
        if watched.readers > 1 {
            known.tell(&[folder.to_owned()], Some(reader));
        }
        result
    }

    /// Has notify do something. Its thread answers when it has read all events, and in a flood there is always one more.
    /// So nobody waits for long: the hub then is of no use, its readers poll, and it goes when notify has answered.
    fn ask(
        self: &Arc<Self>,
        what: impl FnOnce(&mut INotifyWatcher) -> notify::Result<()> + Send + 'static,
    ) -> nix::Result<()> {
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(Errno::EBUSY);
        }
        let (answer, answered) = mpsc::channel();
        let hub = Arc::clone(self);
        let asking = move || answer.send(what(&mut lock(&hub.watcher)));
        thread::Builder::new().spawn(asking).map_err(|error| number(&error))?;
        if let Ok(result) = answered.recv_timeout(POLL) {
            return result.map_err(errno);
        }
        self.is_stuck.store(true, Ordering::Relaxed);
        lock(&self.known).tell(&[PathBuf::from("/")], None);
        Err(Errno::EBUSY)
    }
}

impl Known {
    /// The paths at which something was made, removed, renamed, written, or has new metadata. `/` if anything may have
    /// changed.
    fn told(&mut self, event: notify::Result<Event>) -> Vec<PathBuf> {
        let told = match event {
            Ok(event) if !event.need_rescan() => {
                event.paths.iter().flat_map(|path| self.names(path)).collect()
            }
            Ok(_) => vec![PathBuf::from("/")],
            Err(error) => {
                tracing::error!("changes of files may be seen late: inotify cannot be read: {error}");
                vec![PathBuf::from("/")]
            }
        };
        // With a folder that goes, notify gives up all watches below it.
        for (folder, watched) in &mut self.folders {
            if told.iter().any(|path| is_below(folder, path)) {
                watched.is_dead = true;
            }
        }
        told
    }

    fn is_unwanted(&self, folder: &Path) -> bool {
        self.folders.get(folder).is_some_and(|watched| watched.readers == 0)
    }

    /// This path, by each watched path that leads to it or to its folder.
    fn names(&self, path: &Path) -> Vec<PathBuf> {
        let mut names = vec![path.to_owned()];
        names.extend(self.others(path).cloned());
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            names.extend(self.others(folder).map(|other| other.join(name)));
        }
        names
    }

    /// The other paths at which this folder is watched.
    fn others(&self, folder: &Path) -> impl Iterator<Item = &PathBuf> {
        let identity = self.folders.get(folder).and_then(|watched| watched.identity);
        let same = move |watched: &Watched| identity.is_some() && watched.identity == identity;
        let same = self.folders.iter().filter(move |(_, watched)| same(watched));
        same.map(|(other, _)| other).filter(move |other| other.as_path() != folder)
    }

    /// Tells all readers but one of changes at these paths.
    fn tell(&self, told: &[PathBuf], but: Option<&Arc<Shared>>) {
        for reader in self.living().iter().filter(|reader| but.is_none_or(|but| !Arc::ptr_eq(reader, but))) {
            reader.handle(told);
        }
    }

    fn living(&self) -> Vec<Arc<Shared>> {
        self.readers.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Runs on notify's thread.
fn handle(known: &Mutex<Known>, event: notify::Result<Event>) {
    let mut known = lock(known);
    let told = known.told(event);
    known.tell(&told, None);
}

fn end(watcher: &mut INotifyWatcher, folder: &Path) {
    if let Err(error) = watcher.unwatch(folder) {
        // The watch of a removed folder ends by itself.
        tracing::trace!("unwatch {folder:?}: {error}");
    }
}

fn errno(error: notify::Error) -> Errno {
    match error.kind {
        ErrorKind::Io(error) => number(&error),
        ErrorKind::MaxFilesWatch => Errno::ENOSPC,
        ErrorKind::PathNotFound => Errno::ENOENT,
        ErrorKind::Generic(_) | ErrorKind::WatchNotFound | ErrorKind::InvalidConfig(_) => Errno::EIO,
    }
}

fn number(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
