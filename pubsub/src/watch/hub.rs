//! One inotify instance for all watches of a process.
//!
//! A user has 128 instances by default; root shares them with kubelet and every container's log, and an agent follows a
//! dozen topics. So the hub is global state, the only one of this crate: the kernel's limit is global too.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::Shared;

/// What wakes this process. Opening, reading and closing are not among it: a process that watches `/run` or `/etc` would
/// be woken by whatever else runs on the device, and by its own reading.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF);

/// The hub of this process, as long as anybody watches.
static HUB: Mutex<Weak<Hub>> = Mutex::new(Weak::new());

/// The one instance of inotify, and who listens to it.
pub(super) struct Hub {
    shared: Arc<Listened>,
    /// Closed with the hub, which ends the thread.
    _life: PipeWriter,
}

/// What inotify has told.
#[derive(Debug)]
pub(super) enum Notice {
    /// What is at this path was made, removed, renamed, written, or has new metadata.
    Changed(PathBuf),
    /// Events were lost: anything may have changed.
    Lost,
}

/// What the hub shares with the thread that waits for events.
struct Listened {
    inotify: Inotify,
    folders: Mutex<Folders>,
    readers: Mutex<Vec<Weak<Shared>>>,
}

#[derive(Debug, Default)]
struct Folders {
    watched: BTreeMap<PathBuf, Watched>,
    /// Where each watch is: several paths may lead to one folder.
    paths: BTreeMap<WatchDescriptor, BTreeSet<PathBuf>>,
}

#[derive(Debug)]
struct Watched {
    /// How many readers want the folder.
    readers: usize,
    descriptor: WatchDescriptor,
}

impl Hub {
    /// The hub of this process.
    pub(super) fn of_process() -> nix::Result<Arc<Self>> {
        let mut hub = lock(&HUB);
        if let Some(hub) = hub.upgrade() {
            return Ok(hub);
        }
        let made = Arc::new(Self::new()?);
        *hub = Arc::downgrade(&made);
        Ok(made)
    }

    fn new() -> nix::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let shared = Listened { inotify, folders: Mutex::default(), readers: Mutex::default() };
        let shared = Arc::new(shared);
        let errno = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        let (end, life) = pipe().map_err(errno)?;
        let listening = Arc::clone(&shared);
        thread::Builder::new()
            .name("inotify".to_owned())
            .spawn(move || listening.listen(&end))
            .map_err(errno)?;
        Ok(Self { shared, _life: life })
    }

    /// Passes events to this reader from now on, as long as it lives. A reader that joins twice gets each event once:
    /// one that cannot watch tries again twice a second.
    pub(super) fn join(&self, reader: &Arc<Shared>) {
        let mut all = lock(&self.shared.readers);
        all.retain(|known| known.strong_count() != 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(reader)));
        all.push(Arc::downgrade(reader));
    }

    /// One more reader wants this folder. It is watched anew all the same: the watch that is there may be dead.
    pub(super) fn watch(&self, folder: &Path) -> nix::Result<()> {
        let mut folders = lock(&self.shared.folders);
        folders.watch(&self.shared.inotify, folder)?;
        if let Some(watched) = folders.watched.get_mut(folder) {
            watched.readers += 1;
        }
        Ok(())
    }

    /// Removes a reader of this folder.
    pub(super) fn unwatch(&self, folder: &Path) {
        let mut folders = lock(&self.shared.folders);
        let Some(watched) = folders.watched.get_mut(folder) else { return };
        watched.readers = watched.readers.saturating_sub(1);
        if watched.readers == 0 {
            let descriptor = watched.descriptor;
            folders.watched.remove(folder);
            folders.forget(&self.shared.inotify, descriptor, folder);
        }
    }

    /// Watches the folder that is there now. If it is another one than before, or its watch was dead, the other readers
    /// have missed what happened in between, so they look.
    pub(super) fn renew(&self, folder: &Path, reader: &Arc<Shared>) -> nix::Result<()> {
        let is_another = lock(&self.shared.folders).watch(&self.shared.inotify, folder)?;
        if is_another {
            self.shared.wake_all_but(reader);
        }
        Ok(())
    }
}

impl Folders {
    /// Gives whether this is another watch than before.
    fn watch(&mut self, inotify: &Inotify, folder: &Path) -> nix::Result<bool> {
        let descriptor = inotify.add_watch(folder, CHANGES)?;
        self.paths.entry(descriptor).or_default().insert(folder.to_owned());
        let Some(watched) = self.watched.get_mut(folder) else {
            self.watched.insert(folder.to_owned(), Watched { readers: 0, descriptor });
            return Ok(true);
        };
        let before = std::mem::replace(&mut watched.descriptor, descriptor);
        if before != descriptor {
            self.forget(inotify, before, folder);
        }
        Ok(before != descriptor)
    }

    /// The watch is not for this path any more. It ends with its last path.
    fn forget(&mut self, inotify: &Inotify, descriptor: WatchDescriptor, folder: &Path) {
        let Some(paths) = self.paths.get_mut(&descriptor) else { return };
        paths.remove(folder);
        if !paths.is_empty() {
            return;
        }
        self.paths.remove(&descriptor);
        if let Err(error) = inotify.rm_watch(descriptor) {
            // The kernel ends the watch of a removed folder by itself.
            tracing::trace!("unwatch {folder:?}: {error}");
        }
    }

    /// What an event means.
    fn told(&mut self, event: &InotifyEvent) -> Vec<Notice> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return vec![Notice::Lost];
        }
        // The watch has ended; if somebody removed the folder, that was told before.
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.paths.remove(&event.wd);
            return Vec::new();
        }
        let folders = self.paths.get(&event.wd).into_iter().flatten();
        let path = |folder: &PathBuf| match &event.name {
            Some(name) => folder.join(name),
            None => folder.clone(),
        };
        folders.map(|folder| Notice::Changed(path(folder))).collect()
    }
}

impl Listened {
    /// Tells the readers of events until the hub ends.
    fn listen(&self, end: &PipeReader) {
        loop {
            let wait = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
            let mut waiting = [wait(self.inotify.as_fd()), wait(end.as_fd())];
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return self.give_up(error),
            }
            let [_, end] = waiting;
            if end.any().unwrap_or(true) {
                return;
            }
            match self.inotify.read_events() {
                Ok(events) => self.tell(&events),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => return self.give_up(error),
            }
        }
    }

    fn tell(&self, events: &[InotifyEvent]) {
        let told: Vec<Notice> = {
            let mut folders = lock(&self.folders);
            events.iter().flat_map(|event| folders.told(event)).collect()
        };
        for reader in self.living() {
            for one in &told {
                reader.handle(one);
            }
        }
    }

    /// From here on only the looks by time are left.
    fn give_up(&self, error: Errno) {
        tracing::error!("changes of files are seen late from now on: inotify cannot be read: {error}");
        self.living().iter().for_each(|reader| reader.handle(&Notice::Lost));
    }

    fn wake_all_but(&self, one: &Arc<Shared>) {
        let others = self.living().into_iter().filter(|reader| !Arc::ptr_eq(reader, one));
        others.for_each(|reader| reader.look_again.notify_one());
    }

    fn living(&self) -> Vec<Arc<Shared>> {
        lock(&self.readers).iter().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hub").field("folders", &lock(&self.shared.folders)).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
