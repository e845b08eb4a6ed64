//! The files of the simulated devices, in memory.
//!
//! Paths below [`ROOT`] are here, all others are real. What a power cut leaves of a file below a `/persist` is decided as
//! on ext4: contents that were not synchronised may be old, cut off or empty; of the names that were not synchronised
//! the later ones may be lost, but never an earlier one without them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::RawFd;

use libc::c_int;

use super::state::{PROC, Process};

/// Everything below it is in memory.
pub(crate) const ROOT: &str = "/simulated";
/// Contents below such a folder survive a power cut only when they were synchronised.
const DURABLE: &str = "/persist/";
/// Numbers of descriptors of files begin here, far above those of the real kernel.
pub(super) const FIRST_DESCRIPTOR: RawFd = 0x1000_0000;
/// What the real machine has there is hidden: a history must not depend on it, and it takes long to read.
const CERTIFICATES: [&str; 5] = [
    "/etc/ssl",
    "/usr/lib/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
/// Most events that wait in one instance of inotify (`fs.inotify.max_queued_events`).
const MOST_EVENTS: usize = 16_384;

type Fallible<T> = Result<T, c_int>;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Socket,
}

#[derive(Clone, Debug)]
struct Inode {
    kind: Kind,
    /// Its last name that was looked for.
    path: String,
    mode: u32,
    /// Last change of the contents, in nanoseconds of the wall clock.
    changed: u64,
    data: Vec<u8>,
    /// The contents as they were last synchronised.
    synced: Vec<u8>,
    /// The open file that has the lock.
    locked_by: Option<u64>,
}

/// An open file; descriptors that were duplicated share it.
#[derive(Clone, Debug)]
struct Open {
    inode: u64,
    path: String,
    offset: usize,
    is_append: bool,
    can_write: bool,
    by: Process,
}

/// An event of inotify.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    watch: c_int,
    mask: u32,
    name: String,
}

#[derive(Debug, Default)]
struct Watcher {
    last: c_int,
    /// Folder and mask by number.
    watches: BTreeMap<c_int, (u64, u32)>,
    events: VecDeque<Event>,
}

/// A change of names that is not synchronised.
#[derive(Clone, Debug)]
enum Pending {
    Made(String, u64),
    Gone(String),
    Renamed(String, String),
}

/// What is wrong with a device's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// There is no room: nothing can be written or made.
    Full,
    /// It was mounted again for reading only, after an error.
    ReadOnly,
    /// Every synchronisation takes so many nanoseconds.
    Slow(u64),
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) inode: u64,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) changed: u64,
}

/// All files in memory.
#[derive(Debug)]
pub(super) struct Disk {
    entries: BTreeMap<String, u64>,
    inodes: BTreeMap<u64, Inode>,
    /// The names as they would be after a power cut, and what is not synchronised yet.
    durable: BTreeMap<String, u64>,
    pending: Vec<Pending>,
    open: BTreeMap<u64, Open>,
    descriptors: BTreeMap<RawFd, u64>,
    watchers: BTreeMap<RawFd, Watcher>,
    /// Instances of inotify that have become ready since the last call of `take_ready`.
    ready: BTreeSet<RawFd>,
    faults: BTreeMap<String, DiskFault>,
    /// The process that makes the present call.
    caller: Process,
    last: u64,
}

impl Disk {
    pub(super) const fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            inodes: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            open: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            watchers: BTreeMap::new(),
            ready: BTreeSet::new(),
            faults: BTreeMap::new(),
            caller: Process::WORLD,
            last: 0,
        }
    }

    /// The path as it is kept, if it is here: without the parts that mean nothing.
    pub(super) fn own(&self, path: &str) -> Option<String> {
        let path = if let Some(rest) = path.strip_prefix("/proc/self/fd/") {
            let (number, name) = rest.split_once('/')?;
            let file = self.file(number.parse().ok()?).ok()?;
            format!("{}/{name}", file.path)
        } else if path == "/proc" {
            PROC.to_owned()
        } else if let Some(rest) = path.strip_prefix("/proc/") {
            // A process of the real kernel is not here.
            let id = rest.split('/').next()?.parse().ok()?;
            Process::with_id(id)?;
            format!("{PROC}/{rest}")
        } else if CERTIFICATES.iter().any(|folder| path.starts_with(folder)) {
            format!("{ROOT}{path}")
        } else {
            path.to_owned()
        };
        let is_here = path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Most paths are written as they are kept.
        let is_plain = !path.contains("//") && !path.contains("/./") && !path.ends_with(['/', '.']);
        if is_here && is_plain {
            return Some(path);
        }
        is_here.then(|| {
            let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
            parts.fold(String::new(), |path, part| path + "/" + part)
        })
    }

    pub(super) fn has(&self, descriptor: RawFd) -> bool {
        self.descriptors.contains_key(&descriptor)
    }

    fn file(&self, descriptor: RawFd) -> Fallible<&Open> {
        self.descriptors.get(&descriptor).and_then(|open| self.open.get(open)).ok_or(libc::EBADF)
    }

    pub(super) fn path_of(&self, descriptor: RawFd) -> Fallible<&str> {
        Ok(&self.file(descriptor)?.path)
    }

    fn file_mut(&mut self, descriptor: RawFd) -> Fallible<&mut Open> {
        self.descriptors.get(&descriptor).and_then(|open| self.open.get_mut(open)).ok_or(libc::EBADF)
    }

    fn find(&self, path: &str) -> Fallible<u64> {
        if let Some(inode) = self.entries.get(path) {
            return Ok(*inode);
        }
        // "Not a folder" has a number of its own.
        let above = path.rsplit_once('/').and_then(|(above, _)| self.entries.get(above));
        match above.and_then(|above| self.inodes.get(above)) {
            Some(above) if above.kind != Kind::Folder => Err(libc::ENOTDIR),
            _ => Err(libc::ENOENT),
        }
    }

    fn inode(&self, number: u64) -> Fallible<&Inode> {
        self.inodes.get(&number).ok_or(libc::ENOENT)
    }

    fn inode_mut(&mut self, number: u64) -> Fallible<&mut Inode> {
        self.inodes.get_mut(&number).ok_or(libc::ENOENT)
    }

    /// Sets what is wrong with the files whose path begins so; None ends it.
    pub(super) fn set_fault(&mut self, prefix: &str, fault: Option<DiskFault>) {
        match fault {
            Some(fault) => self.faults.insert(prefix.to_owned(), fault),
            None => self.faults.remove(prefix),
        };
    }

    fn fault(&self, path: &str) -> Option<DiskFault> {
        let found = self.faults.iter().find(|(prefix, _)| path.starts_with(*prefix));
        found.map(|(_, fault)| *fault)
    }

    /// Fails if the disk at this path takes no change; `grows` if the change needs room.
    pub(super) fn check(&self, path: &str, grows: bool) -> Fallible<()> {
        match self.fault(path) {
            Some(DiskFault::Full) if grows => Err(libc::ENOSPC),
            Some(DiskFault::ReadOnly) => Err(libc::EROFS),
            _ => Ok(()),
        }
    }

    /// How long a synchronisation of this descriptor takes, in nanoseconds.
    pub(super) fn sync_time(&self, descriptor: RawFd) -> u64 {
        match self.file(descriptor).ok().and_then(|open| self.fault(&open.path)) {
            Some(DiskFault::Slow(nanos)) => nanos,
            _ => 0,
        }
    }

    fn folder_of(&self, path: &str) -> Fallible<u64> {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let inode = self.find(above)?;
        if self.inode(inode)?.kind == Kind::Folder { Ok(inode) } else { Err(libc::ENOTDIR) }
    }

    /// Makes something new.
    pub(super) fn make(&mut self, path: &str, kind: Kind, mode: u32, now: u64) -> Fallible<u64> {
        if self.entries.contains_key(path) {
            return Err(libc::EEXIST);
        }
        if path != ROOT {
            self.folder_of(path)?;
        }
        self.check(path, true)?;
        self.last += 1;
        let (data, synced) = (Vec::new(), Vec::new());
        let inode = Inode { kind, path: path.to_owned(), mode, changed: now, data, synced, locked_by: None };
        self.inodes.insert(self.last, inode);
        self.entries.insert(path.to_owned(), self.last);
        self.note(Pending::Made(path.to_owned(), self.last));
        self.tell(path, libc::IN_CREATE, kind == Kind::Folder);
        Ok(self.last)
    }

    fn note(&mut self, change: Pending) {
        let path = match &change {
            Pending::Made(path, _) | Pending::Gone(path) | Pending::Renamed(_, path) => path,
        };
        if path.contains(DURABLE) {
            self.pending.push(change);
        }
    }

    /// Opens a file or folder.
    pub(super) fn open(&mut self, path: &str, flags: c_int, mode: u32, now: u64) -> Fallible<RawFd> {
        let can_write = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0;
        let inode = match self.find(path) {
            Ok(_) if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL => {
                return Err(libc::EEXIST);
            }
            Ok(inode) => inode,
            Err(libc::ENOENT) if flags & libc::O_CREAT != 0 => self.make(path, Kind::File, mode, now)?,
            Err(error) => return Err(error),
        };
        let kind = self.inode(inode)?.kind;
        match kind {
            Kind::Folder if can_write => return Err(libc::EISDIR),
            Kind::File if flags & libc::O_DIRECTORY != 0 => return Err(libc::ENOTDIR),
            Kind::Socket => return Err(libc::ENXIO),
            _ => {}
        }
        if can_write {
            self.check(path, false)?;
        }
        self.last += 1;
        let is_append = flags & libc::O_APPEND != 0;
        let (path, by) = (path.to_owned(), self.caller);
        self.open.insert(self.last, Open { inode, path, offset: 0, is_append, can_write, by });
        let open = self.last;
        let descriptor = self.add_descriptor(open);
        if can_write && flags & libc::O_TRUNC != 0 && !self.inode(inode)?.data.is_empty() {
            self.resize(descriptor, 0, now)?;
        }
        Ok(descriptor)
    }

    fn add_descriptor(&mut self, open: u64) -> RawFd {
        let mut descriptor = FIRST_DESCRIPTOR;
        while self.descriptors.contains_key(&descriptor) {
            descriptor += 1;
        }
        self.descriptors.insert(descriptor, open);
        descriptor
    }

    pub(super) fn duplicate(&mut self, descriptor: RawFd) -> Fallible<RawFd> {
        let open = *self.descriptors.get(&descriptor).ok_or(libc::EBADF)?;
        Ok(self.add_descriptor(open))
    }

    pub(super) fn close(&mut self, descriptor: RawFd) -> Fallible<()> {
        let open = self.descriptors.remove(&descriptor).ok_or(libc::EBADF)?;
        if !self.descriptors.values().any(|other| *other == open) {
            if let Some(closed) = self.open.remove(&open)
                && let Some(inode) = self.inodes.get_mut(&closed.inode)
                && inode.locked_by == Some(open)
            {
                inode.locked_by = None;
            }
            self.forget_unused();
        }
        Ok(())
    }

    /// Who makes the calls that follow.
    pub(super) const fn set_caller(&mut self, process: Process) {
        self.caller = process;
    }

    /// Closes what this process has open.
    pub(super) fn close_all(&mut self, process: Process) {
        let is_its = |open: &u64| self.open.get(open).is_some_and(|open| open.by == process);
        let its = self.descriptors.iter().filter(|(_, open)| is_its(open));
        let its: Vec<RawFd> = its.map(|(descriptor, _)| *descriptor).collect();
        for descriptor in its {
            self.close(descriptor).unwrap_or_default();
        }
    }

    /// Frees what has no name and is not open.
    fn forget_unused(&mut self) {
        if self.inodes.len() < 2 * self.entries.len() + 64 {
            return;
        }
        let named = self.entries.values().chain(self.durable.values()).copied();
        let made = self.pending.iter().filter_map(|change| match change {
            Pending::Made(_, inode) => Some(*inode),
            _ => None,
        });
        let used: BTreeSet<u64> =
            named.chain(made).chain(self.open.values().map(|open| open.inode)).collect();
        self.inodes.retain(|number, _| used.contains(number));
    }

    pub(super) fn read(&mut self, descriptor: RawFd, to: &mut [u8], at: Option<usize>) -> Fallible<usize> {
        let open = self.file(descriptor)?;
        let from = at.unwrap_or(open.offset);
        let inode = self.inode(open.inode)?;
        if inode.kind == Kind::Folder {
            return Err(libc::EISDIR);
        }
        let left = inode.data.get(from..).unwrap_or_default();
        let length = left.len().min(to.len());
        to[..length].copy_from_slice(&left[..length]);
        if at.is_none() {
            self.file_mut(descriptor)?.offset += length;
        }
        Ok(length)
    }

    pub(super) fn write(
        &mut self,
        descriptor: RawFd,
        bytes: &[u8],
        at: Option<usize>,
        now: u64,
    ) -> Fallible<usize> {
        let open = self.file(descriptor)?.clone();
        if !open.can_write {
            return Err(libc::EBADF);
        }
        self.check(&open.path, true)?;
        let inode = self.inode_mut(open.inode)?;
        let from = if open.is_append { inode.data.len() } else { at.unwrap_or(open.offset) };
        let end = from + bytes.len();
        if inode.data.len() < end {
            inode.data.resize(end, 0);
        }
        inode.data[from..end].copy_from_slice(bytes);
        inode.changed = now;
        if at.is_none() {
            self.file_mut(descriptor)?.offset = end;
        }
        self.tell_of(open.inode, libc::IN_MODIFY);
        Ok(bytes.len())
    }

    pub(super) fn seek(&mut self, descriptor: RawFd, by: i64, whence: c_int) -> Fallible<i64> {
        let open = self.file(descriptor)?;
        let size = self.inode(open.inode)?.data.len();
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => open.offset,
            libc::SEEK_END => size,
            _ => return Err(libc::EINVAL),
        };
        let to =
            usize::try_from(i64::try_from(from).map_err(|_| libc::EINVAL)? + by).map_err(|_| libc::EINVAL)?;
        self.file_mut(descriptor)?.offset = to;
        i64::try_from(to).map_err(|_| libc::EINVAL)
    }

    pub(super) fn resize(&mut self, descriptor: RawFd, size: usize, now: u64) -> Fallible<()> {
        let open = self.file(descriptor)?.clone();
        self.check(&open.path, false)?;
        let inode = self.inode_mut(open.inode)?;
        inode.data.resize(size, 0);
        inode.changed = now;
        self.tell_of(open.inode, libc::IN_MODIFY);
        Ok(())
    }

    fn told(&self, number: u64) -> Fallible<Stat> {
        let inode = self.inode(number)?;
        let size = inode.data.len() as u64;
        Ok(Stat { inode: number, kind: inode.kind, mode: inode.mode, size, changed: inode.changed })
    }

    /// The content of a file; None if there is none.
    pub(super) fn content(&self, path: &str) -> Option<&[u8]> {
        let inode = self.inode(self.find(path).ok()?).ok()?;
        (inode.kind == Kind::File).then_some(&inode.data)
    }

    pub(super) fn stat(&self, path: &str) -> Fallible<Stat> {
        self.told(self.find(path)?)
    }

    pub(super) fn stat_open(&self, descriptor: RawFd) -> Fallible<Stat> {
        self.told(self.file(descriptor)?.inode)
    }

    /// The names in a folder, with what they are.
    pub(super) fn list(&self, path: &str) -> Fallible<Vec<(String, u64, Kind)>> {
        if self.inode(self.find(path)?)?.kind != Kind::Folder {
            return Err(libc::ENOTDIR);
        }
        let inside = |(name, inode): (&str, u64)| (name.to_owned(), inode, self.inodes[&inode].kind);
        Ok(self.inside(path).map(inside).collect())
    }

    fn inside(&self, folder: &str) -> impl Iterator<Item = (&str, u64)> {
        let prefix = format!("{folder}/");
        let length = prefix.len();
        let from =
            self.entries.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix));
        from.filter_map(move |(path, inode)| {
            let name = &path[length..];
            (!name.contains('/')).then_some((name, *inode))
        })
    }

    pub(super) fn remove(&mut self, path: &str, kind: Kind) -> Fallible<()> {
        let number = self.find(path)?;
        let found = self.inode(number)?.kind;
        if (found == Kind::Folder) != (kind == Kind::Folder) {
            return Err(if found == Kind::Folder { libc::EISDIR } else { libc::ENOTDIR });
        }
        if found == Kind::Folder && self.inside(path).next().is_some() {
            return Err(libc::ENOTEMPTY);
        }
        self.check(path, false)?;
        self.entries.remove(path);
        self.note(Pending::Gone(path.to_owned()));
        self.tell(path, libc::IN_DELETE, found == Kind::Folder);
        self.end_watches(number);
        Ok(())
    }

    /// Renames a file, or anything in the place of which nothing is.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Fallible<()> {
        let number = self.find(from)?;
        self.folder_of(to)?;
        self.check(from, false)?;
        self.check(to, false)?;
        if let Ok(other) = self.find(to) {
            match (self.inode(number)?.kind, self.inode(other)?.kind) {
                (Kind::Folder, Kind::Folder) => return Err(libc::ENOTEMPTY),
                (Kind::Folder, _) => return Err(libc::ENOTDIR),
                (_, Kind::Folder) => return Err(libc::EISDIR),
                _ => {}
            }
        }
        let is_folder = self.inode(number)?.kind == Kind::Folder;
        to.clone_into(&mut self.inode_mut(number)?.path);
        move_names(&mut self.entries, from, to);
        self.note(Pending::Renamed(from.to_owned(), to.to_owned()));
        self.tell(from, libc::IN_MOVED_FROM, is_folder);
        self.tell(to, libc::IN_MOVED_TO, is_folder);
        Ok(())
    }

    pub(super) fn set_mode(&mut self, path: &str, mode: u32) -> Fallible<()> {
        let inode = self.find(path)?;
        self.check(path, false)?;
        self.inode_mut(inode)?.mode = mode & 0o7777;
        self.tell_of(inode, libc::IN_ATTRIB);
        Ok(())
    }

    pub(super) fn set_mode_open(&mut self, descriptor: RawFd, mode: u32) -> Fallible<()> {
        let inode = self.file(descriptor)?.inode;
        self.inode_mut(inode)?.mode = mode & 0o7777;
        self.tell_of(inode, libc::IN_ATTRIB);
        Ok(())
    }

    pub(super) fn touch(&mut self, descriptor: RawFd, now: u64) -> Fallible<String> {
        let open = self.file(descriptor)?.clone();
        self.check(&open.path, false)?;
        self.inode_mut(open.inode)?.changed = now;
        self.tell_of(open.inode, libc::IN_ATTRIB);
        Ok(open.path)
    }

    /// Makes a file's contents durable, or the names in a folder and all changes before.
    pub(super) fn sync(&mut self, descriptor: RawFd) -> Fallible<()> {
        let open = self.file(descriptor)?.clone();
        self.check(&open.path, false)?;
        let inode = self.inode_mut(open.inode)?;
        if inode.kind == Kind::File {
            inode.synced.clone_from(&inode.data);
            return Ok(());
        }
        let is_inside = |path: &str| path.rsplit_once('/').is_some_and(|(above, _)| above == open.path);
        let last = self.pending.iter().rposition(|change| match change {
            Pending::Made(path, _) | Pending::Gone(path) => is_inside(path),
            Pending::Renamed(from, to) => is_inside(from) || is_inside(to),
        });
        self.commit(last.map_or(0, |last| last + 1));
        Ok(())
    }

    fn commit(&mut self, number: usize) {
        for change in self.pending.drain(..number) {
            match change {
                Pending::Made(path, inode) => {
                    self.durable.insert(path, inode);
                }
                Pending::Gone(path) => {
                    self.durable.remove(&path);
                }
                Pending::Renamed(from, to) => move_names(&mut self.durable, &from, &to),
            }
        }
    }

    /// Locks the file for this open file; false if another has it.
    pub(super) fn lock(&mut self, descriptor: RawFd) -> Fallible<bool> {
        let (open, inode) = (self.descriptors[&descriptor], self.file(descriptor)?.inode);
        let inode = self.inode_mut(inode)?;
        let is_free = inode.locked_by.is_none_or(|other| other == open);
        if is_free {
            inode.locked_by = Some(open);
        }
        Ok(is_free)
    }

    pub(super) fn unlock(&mut self, descriptor: RawFd) -> Fallible<()> {
        let (open, inode) = (self.descriptors[&descriptor], self.file(descriptor)?.inode);
        let inode = self.inode_mut(inode)?;
        if inode.locked_by == Some(open) {
            inode.locked_by = None;
        }
        Ok(())
    }

    /// True if another open file has the lock.
    pub(super) fn is_locked(&self, descriptor: RawFd) -> Fallible<bool> {
        let open = self.descriptors[&descriptor];
        Ok(self.inode(self.file(descriptor)?.inode)?.locked_by.is_some_and(|other| other != open))
    }

    /// Makes everything of a device durable, as a shutdown does.
    pub(super) fn sync_all(&mut self, device: &str) {
        let prefix = format!("{device}{DURABLE}");
        let (its, others) = self.take_pending(&prefix);
        let number = its.len();
        self.pending = its;
        self.commit(number);
        self.pending = others;
        for (_, number) in
            self.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix))
        {
            if let Some(inode) = self.inodes.get_mut(number) {
                inode.synced.clone_from(&inode.data);
            }
        }
    }

    /// The changes of names below this path, and all others.
    fn take_pending(&mut self, prefix: &str) -> (Vec<Pending>, Vec<Pending>) {
        self.pending.drain(..).partition(|change| match change {
            Pending::Made(path, _) | Pending::Gone(path) | Pending::Renamed(_, path) => {
                path.starts_with(prefix)
            }
        })
    }

    /// Removes everything below a path, which is a folder.
    pub(super) fn clear(&mut self, folder: &str) {
        let prefix = format!("{folder}/");
        let below = self.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let gone: Vec<String> = below.map(|(path, _)| path.clone()).collect();
        for path in gone.iter().rev() {
            if let Some(inode) = self.entries.remove(path) {
                self.end_watches(inode);
            }
        }
    }

    /// Makes a folder, with those above it, unless it is there.
    pub(super) fn put_folder(&mut self, path: &str, now: u64) {
        let mut folder = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            folder = folder + "/" + part;
            // It may be there.
            self.make(&folder, Kind::Folder, 0o755, now).map(drop).unwrap_or_default();
        }
    }

    /// Makes a file with this text.
    pub(super) fn put(&mut self, path: &str, text: &[u8], now: u64) {
        if let Ok(number) = self.make(path, Kind::File, 0o644, now)
            && let Some(inode) = self.inodes.get_mut(&number)
        {
            (inode.data, inode.synced) = (text.to_owned(), text.to_owned());
        }
    }

    /// The power of the device at this path goes: what was not synchronised below its `/persist` may be lost, as the
    /// random numbers say.
    pub(super) fn cut_power(&mut self, device: &str, mut random: impl FnMut() -> u64) {
        let prefix = format!("{device}{DURABLE}");
        let (its, others) = self.take_pending(&prefix);
        let kept = usize::try_from(random() % (its.len() as u64 + 1)).unwrap_or_default();
        self.pending = its.into_iter().take(kept).collect();
        self.commit(kept);
        self.pending = others;
        self.entries.retain(|path, _| !path.starts_with(&prefix));
        let durable = self.durable.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let durable: Vec<(String, u64)> = durable.map(|(path, inode)| (path.clone(), *inode)).collect();
        for (path, number) in durable {
            if let Some(inode) = self.inodes.get_mut(&number) {
                if inode.data != inode.synced {
                    match random() % 4 {
                        0 => inode.data.clone_from(&inode.synced),
                        1 => inode.data.clear(),
                        2 => {
                            let length = inode.data.len() as u64 + 1;
                            inode.data.truncate(usize::try_from(random() % length).unwrap_or_default());
                        }
                        _ => {}
                    }
                    inode.synced.clone_from(&inode.data);
                }
                inode.locked_by = None;
                self.entries.insert(path, number);
            }
        }
    }

    // inotify

    pub(super) fn add_watcher(&mut self, descriptor: RawFd) {
        self.watchers.insert(descriptor, Watcher::default());
    }

    pub(super) fn is_watcher(&self, descriptor: RawFd) -> bool {
        self.watchers.contains_key(&descriptor)
    }

    pub(super) fn remove_watcher(&mut self, descriptor: RawFd) {
        self.watchers.remove(&descriptor);
    }

    pub(super) fn watch(&mut self, descriptor: RawFd, path: &str, mask: u32) -> Fallible<c_int> {
        let inode = self.find(path)?;
        if mask & libc::IN_ONLYDIR != 0 && self.inode(inode)?.kind != Kind::Folder {
            return Err(libc::ENOTDIR);
        }
        let watcher = self.watchers.get_mut(&descriptor).ok_or(libc::EBADF)?;
        let known = watcher.watches.iter_mut().find(|(_, (watched, _))| *watched == inode);
        if let Some((number, (_, known))) = known {
            *known = mask;
            return Ok(*number);
        }
        watcher.last += 1;
        watcher.watches.insert(watcher.last, (inode, mask));
        Ok(watcher.last)
    }

    pub(super) fn unwatch(&mut self, descriptor: RawFd, number: c_int) -> Fallible<()> {
        let watcher = self.watchers.get_mut(&descriptor).ok_or(libc::EBADF)?;
        watcher.watches.remove(&number).ok_or(libc::EINVAL)?;
        let ignored = Event { watch: number, mask: libc::IN_IGNORED, name: String::new() };
        add_event(watcher, ignored);
        self.ready.insert(descriptor);
        Ok(())
    }

    /// Tells those who watch the folder of this path.
    fn tell(&mut self, path: &str, mask: u32, is_folder: bool) {
        let Some((above, name)) = path.rsplit_once('/') else { return };
        let Some(folder) = self.entries.get(above).copied() else { return };
        let told = mask | if is_folder { libc::IN_ISDIR } else { 0 };
        self.add_events(folder, mask, told, name);
    }

    /// The name of a file or folder, if it has one: it may be that of one that was made later.
    fn path_to(&self, number: u64) -> Option<String> {
        let path = &self.inodes.get(&number)?.path;
        if self.entries.get(path) == Some(&number) {
            return Some(path.clone());
        }
        self.entries.iter().find(|(_, other)| **other == number).map(|(path, _)| path.clone())
    }

    /// Tells those who watch the folder in which this file is. A file has one name here.
    fn tell_of(&mut self, inode: u64, mask: u32) {
        if self.watchers.values().all(|watcher| watcher.watches.is_empty()) {
            return;
        }
        if let Some(path) = self.path_to(inode) {
            self.tell(&path, mask, false);
        }
        self.add_events(inode, mask, mask, "");
    }

    fn add_events(&mut self, watched: u64, mask: u32, told: u32, name: &str) {
        for (descriptor, watcher) in &mut self.watchers {
            let numbers: Vec<c_int> = watcher
                .watches
                .iter()
                .filter(|(_, (inode, wanted))| *inode == watched && wanted & mask != 0)
                .map(|(number, _)| *number)
                .collect();
            for watch in numbers {
                add_event(watcher, Event { watch, mask: told, name: name.to_owned() });
                self.ready.insert(*descriptor);
            }
        }
    }

    fn end_watches(&mut self, gone: u64) {
        self.add_events(gone, libc::IN_DELETE_SELF, libc::IN_DELETE_SELF, "");
        for (descriptor, watcher) in &mut self.watchers {
            let numbers: Vec<c_int> = watcher
                .watches
                .iter()
                .filter(|(_, (inode, _))| *inode == gone)
                .map(|(number, _)| *number)
                .collect();
            for watch in numbers {
                watcher.watches.remove(&watch);
                add_event(watcher, Event { watch, mask: libc::IN_IGNORED, name: String::new() });
                self.ready.insert(*descriptor);
            }
        }
    }

    /// Moves events into the buffer, in the kernel's form. None if there is no event.
    pub(super) fn read_events(&mut self, descriptor: RawFd, to: &mut [u8]) -> Fallible<Option<usize>> {
        let watcher = self.watchers.get_mut(&descriptor).ok_or(libc::EBADF)?;
        if watcher.events.is_empty() {
            return Ok(None);
        }
        let mut length = 0;
        while let Some(event) = watcher.events.front() {
            let padded = if event.name.is_empty() { 0 } else { (event.name.len() + 16) / 16 * 16 };
            let size = 16 + padded;
            let Some(room) = to.get_mut(length..length + size) else { break };
            room.fill(0);
            room[0..4].copy_from_slice(&event.watch.to_ne_bytes());
            room[4..8].copy_from_slice(&event.mask.to_ne_bytes());
            room[12..16].copy_from_slice(&u32::try_from(padded).unwrap_or_default().to_ne_bytes());
            room[16..16 + event.name.len()].copy_from_slice(event.name.as_bytes());
            length += size;
            watcher.events.pop_front();
        }
        if length == 0 { Err(libc::EINVAL) } else { Ok(Some(length)) }
    }

    /// True if no event waits.
    pub(super) fn is_quiet(&self, descriptor: RawFd) -> bool {
        self.watchers.get(&descriptor).is_none_or(|watcher| watcher.events.is_empty())
    }

    /// The instances of inotify that have become ready since the last call.
    pub(super) fn take_ready(&mut self) -> BTreeSet<RawFd> {
        std::mem::take(&mut self.ready)
    }
}

/// Renames what has this name, and what is below it.
fn move_names(names: &mut BTreeMap<String, u64>, from: &str, to: &str) {
    let prefix = format!("{from}/");
    let below = names.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    let below: Vec<String> = below.map(|(path, _)| path.clone()).collect();
    for path in below {
        if let Some(inode) = names.remove(&path) {
            names.insert(format!("{to}/{}", &path[prefix.len()..]), inode);
        }
    }
    if let Some(inode) = names.remove(from) {
        names.insert(to.to_owned(), inode);
    }
}

/// An event that is like the last one is not told again, as in the kernel.
fn add_event(watcher: &mut Watcher, event: Event) {
    if watcher.events.back() == Some(&event) {
        return;
    }
    if watcher.events.len() < MOST_EVENTS {
        watcher.events.push_back(event);
    } else if watcher.events.len() == MOST_EVENTS {
        watcher.events.push_back(Event { watch: -1, mask: libc::IN_Q_OVERFLOW, name: String::new() });
    }
}
