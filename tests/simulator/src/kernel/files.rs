//! Stands in for functions of the C library on files: paths below the simulated root are on the simulated [`Disk`].
//!
//! [`Disk`]: super::disk::Disk

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{
    DIR, c_char, c_int, c_long, c_uint, c_void, dirent64, mode_t, off64_t, size_t, ssize_t, timespec,
};

use super::changes::admit;
use super::disk::{Disk, FIRST_DESCRIPTOR, Kind, ROOT, Stat};
use super::state::Wait;
use super::{current, give_up, inside, real, state};

/// Nanoseconds of the wall clock.
pub(super) fn wall_clock() -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    unsafe { super::calls::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

pub(super) fn fail(number: c_int) -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = number };
    -1
}

/// Runs code on the disk. Instances of inotify that become ready by it are woken.
pub(super) fn on_disk<T>(run: impl FnOnce(&mut Disk) -> T) -> T {
    inside(|| {
        let mut state = state();
        let caller = state.process_of(super::this_task());
        state.disk.set_caller(caller);
        let result = run(&mut state.disk);
        for descriptor in state.disk.take_ready() {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: eight bytes are what an eventfd takes.
            unsafe { real::syscall()(libc::SYS_write, descriptor, one.as_ptr(), one.len()) };
        }
        result
    })
}

/// The path on the simulated disk, if it is there.
///
/// # Safety
/// The pointer leads to a string that ends with a zero.
pub(super) unsafe fn own(path: *const c_char) -> Option<String> {
    if !super::is_on() {
        return None;
    }
    // SAFETY: as of our caller.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    let may_be_own =
        [ROOT.as_bytes(), b"/proc", b"/etc/", b"/usr/"].iter().any(|begin| bytes.starts_with(begin));
    if !may_be_own {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    inside(|| state().disk.own(text))
}

/// The text of a string that ends with a zero.
///
/// # Safety
/// The pointer leads to one, which lives as long as the text is used.
unsafe fn text<'a>(path: *const c_char) -> &'a str {
    // SAFETY: as of our caller.
    unsafe { CStr::from_ptr(path) }.to_str().unwrap_or_default()
}

/// True if the descriptor is of a file on the simulated disk.
pub(super) fn is_own(descriptor: RawFd) -> bool {
    descriptor >= FIRST_DESCRIPTOR
}

fn done<T: Default>(result: Result<T, c_int>, number: impl FnOnce(T) -> c_int) -> c_int {
    match result {
        Ok(value) => number(value),
        Err(error) => fail(error),
    }
}

/// A call that changes the path on the disk, if it is there: None if it is not.
pub(super) unsafe fn change(
    path: *const c_char,
    run: impl FnOnce(&mut Disk, &str, u64) -> Result<(), c_int>,
) -> Option<c_int> {
    // SAFETY: as of our caller.
    let path = unsafe { own(path) }?;
    let (is_admitted, task) = admit();
    if !is_admitted {
        return Some(-1);
    }
    let now = wall_clock();
    let result = on_disk(|disk| run(disk, &path, now));
    if let (Some(task), Ok(())) = (task, result) {
        inside(|| state().note_write(task, path));
    }
    Some(done(result, |()| 0))
}

macro_rules! original {
    ($name:literal, $kind:ty) => {{
        static FOUND: OnceLock<usize> = OnceLock::new();
        let found = *FOUND.get_or_init(|| real::next($name) as usize);
        // SAFETY: this is the address of a function of this type.
        unsafe { std::mem::transmute::<usize, $kind>(found) }
    }};
}

/// Opens a file.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as of our caller.
    let Some(own) = (unsafe { own(path) }) else {
        let number = libc::SYS_openat;
        // SAFETY: as of our caller.
        let opened =
            unsafe { real::syscall()(number, libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode) };
        return c_int::try_from(opened).unwrap_or(-1);
    };
    if flags & (libc::O_CREAT | libc::O_TRUNC) != 0 && !admit().0 {
        return -1;
    }
    let now = wall_clock();
    done(on_disk(|disk| disk.open(&own, flags, mode & !0o022, now)), |descriptor| descriptor)
}

/// Opens a file.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as of our caller.
    unsafe { open64(path, flags, mode) }
}

/// Closes a descriptor.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: RawFd) -> c_int {
    if is_own(descriptor) {
        return done(on_disk(|disk| disk.close(descriptor)), |()| 0);
    }
    if super::is_on() {
        inside(|| state().closed(descriptor));
        on_disk(|disk| disk.remove_watcher(descriptor));
    }
    // SAFETY: as of our caller.
    let closed = unsafe { real::syscall()(libc::SYS_close, descriptor) };
    c_int::try_from(closed).unwrap_or(-1)
}

/// Reads.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(descriptor: RawFd, to: *mut c_void, length: size_t) -> ssize_t {
    if is_own(descriptor) {
        // SAFETY: the caller gives room for so many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
        return read_own(descriptor, to, None);
    }
    if super::is_on() && inside(|| state().disk.is_watcher(descriptor)) {
        // SAFETY: the caller gives room for so many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
        return read_events(descriptor, to);
    }
    // SAFETY: as of our caller.
    let read = unsafe { real::syscall()(libc::SYS_read, descriptor, to, length) };
    ssize_t::try_from(read).unwrap_or(-1)
}

fn read_own(descriptor: RawFd, to: &mut [u8], at: Option<usize>) -> ssize_t {
    match on_disk(|disk| disk.read(descriptor, to, at)) {
        Ok(length) => ssize_t::try_from(length).unwrap_or(-1),
        Err(error) => fail(error) as ssize_t,
    }
}

fn read_events(descriptor: RawFd, to: &mut [u8]) -> ssize_t {
    let read = on_disk(|disk| {
        let read = disk.read_events(descriptor, to)?;
        if disk.is_quiet(descriptor) {
            let mut count = [0_u8; 8];
            // SAFETY: there is room for the eight bytes of an eventfd, which does not wait.
            unsafe { real::syscall()(libc::SYS_read, descriptor, count.as_mut_ptr(), count.len()) };
        }
        Ok(read)
    });
    match read {
        Ok(Some(length)) => ssize_t::try_from(length).unwrap_or(-1),
        Ok(None) => fail(libc::EAGAIN) as ssize_t,
        Err(error) => fail(error) as ssize_t,
    }
}

/// Reads at an offset.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(descriptor: RawFd, to: *mut c_void, length: size_t, at: off64_t) -> ssize_t {
    if is_own(descriptor) {
        // SAFETY: the caller gives room for so many bytes.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), length) };
        return read_own(descriptor, to, Some(usize::try_from(at).unwrap_or_default()));
    }
    // SAFETY: as of our caller.
    let read = unsafe { real::syscall()(libc::SYS_pread64, descriptor, to, length, at) };
    ssize_t::try_from(read).unwrap_or(-1)
}

/// Writes to a file on the simulated disk.
pub(super) fn write_own(descriptor: RawFd, bytes: &[u8], at: Option<usize>) -> ssize_t {
    if !admit().0 {
        return -1;
    }
    let now = wall_clock();
    match on_disk(|disk| disk.write(descriptor, bytes, at, now)) {
        Ok(length) => ssize_t::try_from(length).unwrap_or(-1),
        Err(error) => fail(error) as ssize_t,
    }
}

/// Writes at an offset.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    descriptor: RawFd,
    bytes: *const c_void,
    length: size_t,
    at: off64_t,
) -> ssize_t {
    if is_own(descriptor) {
        // SAFETY: the caller gives so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        return write_own(descriptor, bytes, Some(usize::try_from(at).unwrap_or_default()));
    }
    // SAFETY: as of our caller.
    let written = unsafe { real::syscall()(libc::SYS_pwrite64, descriptor, bytes, length, at) };
    ssize_t::try_from(written).unwrap_or(-1)
}

/// Moves the place where the next read or write begins.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lseek64(descriptor: RawFd, by: off64_t, whence: c_int) -> off64_t {
    if is_own(descriptor) {
        return match on_disk(|disk| disk.seek(descriptor, by, whence)) {
            Ok(place) => place,
            Err(error) => off64_t::from(fail(error)),
        };
    }
    // SAFETY: as of our caller.
    unsafe { real::syscall()(libc::SYS_lseek, descriptor, by, whence) }
}

/// Sets a file's length.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(descriptor: RawFd, length: off64_t) -> c_int {
    if is_own(descriptor) {
        if !admit().0 {
            return -1;
        }
        let (length, now) = (usize::try_from(length).unwrap_or_default(), wall_clock());
        return done(on_disk(|disk| disk.resize(descriptor, length, now)), |()| 0);
    }
    // SAFETY: as of our caller.
    let result = unsafe { real::syscall()(libc::SYS_ftruncate, descriptor, length) };
    c_int::try_from(result).unwrap_or(-1)
}

/// Sets a file's times to now.
pub(super) fn touch_own(descriptor: RawFd) -> c_int {
    let now = wall_clock();
    match on_disk(|disk| disk.touch(descriptor, now)) {
        Ok(path) => {
            if let Some(task) = current() {
                inside(|| state().note_write(task, path));
            }
            0
        }
        Err(error) => fail(error),
    }
}

/// Makes a file durable: the simulated disk takes its time for that.
pub(super) fn sync_own(descriptor: RawFd) -> c_int {
    let (is_admitted, task) = admit();
    if !is_admitted {
        return -1;
    }
    let nanos = on_disk(|disk| disk.sync_time(descriptor));
    if let (Some(task), true) = (task, nanos > 0) {
        let until = Some(inside(|| state().now()) + nanos);
        give_up(task, Wait::Ready { descriptors: Vec::new(), until });
        if inside(|| state().is_dead(task)) {
            return fail(libc::EIO);
        }
    }
    done(on_disk(|disk| disk.sync(descriptor)), |()| 0)
}

type Statx = unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int;

/// What a path leads to, or a descriptor.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let is_open = is_own(folder);
    // SAFETY: as of our caller.
    let (own, name) = unsafe { if path.is_null() { (None, "") } else { (own(path), text(path)) } };
    let told = match own {
        Some(path) => on_disk(|disk| disk.stat(&path)),
        None if is_open && name.is_empty() => on_disk(|disk| disk.stat_open(folder)),
        None if is_open => on_disk(|disk| disk.stat(&format!("{}/{name}", disk.path_of(folder)?))),
        None => {
            let original = original!(c"statx", Statx);
            // SAFETY: as of our caller.
            return unsafe { original(folder, path, flags, mask, to) };
        }
    };
    match told {
        Ok(stat) => {
            // SAFETY: the caller gives room for the answer.
            unsafe { write_stat(&stat, to) };
            0
        }
        Err(error) => fail(error),
    }
}

/// Writes an answer of `statx`.
///
/// # Safety
/// There is room for it.
unsafe fn write_stat(stat: &Stat, to: *mut libc::statx) {
    let kind = match stat.kind {
        Kind::File => libc::S_IFREG,
        Kind::Folder => libc::S_IFDIR,
        Kind::Socket => libc::S_IFSOCK,
    };
    // SAFETY: an answer may be all zeros.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    answer.stx_mask = libc::STATX_BASIC_STATS;
    answer.stx_blksize = 4096;
    answer.stx_nlink = 1;
    // SAFETY: these calls only read.
    (answer.stx_uid, answer.stx_gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    answer.stx_mode = u16::try_from(kind | (stat.mode & 0o7777)).unwrap_or_default();
    answer.stx_ino = stat.inode;
    answer.stx_size = stat.size;
    answer.stx_blocks = stat.size.div_ceil(512);
    answer.stx_mtime.tv_sec = i64::try_from(stat.changed / 1_000_000_000).unwrap_or_default();
    answer.stx_mtime.tv_nsec = u32::try_from(stat.changed % 1_000_000_000).unwrap_or_default();
    answer.stx_atime = answer.stx_mtime;
    answer.stx_ctime = answer.stx_mtime;
    answer.stx_dev_major = 4711;
    // SAFETY: as of our caller.
    unsafe { to.write(answer) };
}

/// May a file be used?
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as of our caller.
    let Some(own) = (unsafe { own(path) }) else {
        // SAFETY: as of our caller.
        let result = unsafe { real::syscall()(libc::SYS_faccessat, libc::AT_FDCWD, path, mode) };
        return c_int::try_from(result).unwrap_or(-1);
    };
    let result = on_disk(|disk| {
        disk.stat(&own)?;
        if mode & libc::W_OK != 0 { disk.check(&own, false) } else { Ok(()) }
    });
    done(result, |()| 0)
}

/// Where a link leads to: there is none on the simulated disk.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, length: size_t) -> ssize_t {
    // SAFETY: as of our caller.
    if unsafe { own(path) }.is_some() {
        return fail(libc::EINVAL) as ssize_t;
    }
    // SAFETY: as of our caller.
    let result = unsafe { real::syscall()(libc::SYS_readlink, path, to, length) };
    ssize_t::try_from(result).unwrap_or(-1)
}

/// Sets a file's mode.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as of our caller.
    let changed = unsafe { change(path, |disk, path, _| disk.set_mode(path, mode)) };
    changed.unwrap_or_else(|| {
        // SAFETY: as of our caller.
        let result = unsafe { real::syscall()(libc::SYS_fchmodat, libc::AT_FDCWD, path, mode) };
        c_int::try_from(result).unwrap_or(-1)
    })
}

/// Sets an open file's mode.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmod(descriptor: RawFd, mode: mode_t) -> c_int {
    if is_own(descriptor) {
        return if admit().0 {
            done(on_disk(|disk| disk.set_mode_open(descriptor, mode)), |()| 0)
        } else {
            -1
        };
    }
    // SAFETY: as of our caller.
    let result = unsafe { real::syscall()(libc::SYS_fchmod, descriptor, mode) };
    c_int::try_from(result).unwrap_or(-1)
}

type Fcntl = unsafe extern "C" fn(c_int, c_int, c_long) -> c_int;

/// Does something with a descriptor: locks, copies.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(descriptor: RawFd, command: c_int, argument: c_long) -> c_int {
    if !is_own(descriptor) {
        let original = original!(c"fcntl", Fcntl);
        // SAFETY: as of our caller.
        return unsafe { original(descriptor, command, argument) };
    }
    let lock = argument as *mut libc::flock;
    match command {
        libc::F_GETFD | libc::F_GETFL | libc::F_SETFD | libc::F_SETFL => {
            let is_open = on_disk(|disk| disk.has(descriptor));
            if is_open { 0 } else { fail(libc::EBADF) }
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            done(on_disk(|disk| disk.duplicate(descriptor)), |descriptor| descriptor)
        }
        libc::F_OFD_SETLK => {
            // SAFETY: the caller gives a lock.
            let kind = c_int::from(unsafe { (*lock).l_type });
            if kind == libc::F_UNLCK {
                return done(on_disk(|disk| disk.unlock(descriptor)), |()| 0);
            }
            let locked = on_disk(|disk| disk.lock(descriptor));
            done(locked, |is_ours| if is_ours { 0 } else { fail(libc::EAGAIN) })
        }
        libc::F_OFD_GETLK => {
            let asked = on_disk(|disk| disk.is_locked(descriptor));
            done(asked, |is_locked| {
                if !is_locked {
                    let free = libc::c_short::try_from(libc::F_UNLCK).unwrap_or_default();
                    // SAFETY: the caller gives a lock.
                    unsafe { (*lock).l_type = free };
                }
                0
            })
        }
        _ => fail(libc::EINVAL),
    }
}

// Folders

struct Listing {
    /// The folder is open, so that what is in it can be asked for by this descriptor and a name.
    folder: RawFd,
    names: std::vec::IntoIter<(String, u64, Kind)>,
    entry: dirent64,
}

/// The listings that are open, by their address.
static LISTINGS: Mutex<BTreeMap<usize, Box<Listing>>> = Mutex::new(BTreeMap::new());

fn listings<T>(run: impl FnOnce(&mut BTreeMap<usize, Box<Listing>>) -> T) -> T {
    inside(|| run(&mut LISTINGS.lock().unwrap_or_else(PoisonError::into_inner)))
}

type OpenDir = unsafe extern "C" fn(*const c_char) -> *mut DIR;

/// Begins to list a folder.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: as of our caller.
    let Some(own) = (unsafe { own(path) }) else {
        let original = original!(c"opendir", OpenDir);
        // SAFETY: as of our caller.
        return unsafe { original(path) };
    };
    let listed = on_disk(|disk| {
        let names = disk.list(&own)?;
        Ok((names, disk.open(&own, libc::O_DIRECTORY, 0, 0)?))
    });
    match listed {
        Ok((names, folder)) => {
            // SAFETY: an entry may be all zeros.
            let entry = unsafe { std::mem::zeroed() };
            let mut listing = Box::new(Listing { folder, names: names.into_iter(), entry });
            let address = &raw mut *listing;
            listings(|listings| listings.insert(address as usize, listing));
            address.cast()
        }
        Err(error) => {
            fail(error);
            std::ptr::null_mut()
        }
    }
}

type ReadDir = unsafe extern "C" fn(*mut DIR) -> *mut dirent64;

/// The next name in a folder.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir64(folder: *mut DIR) -> *mut dirent64 {
    let found = listings(|listings| {
        let listing = listings.get_mut(&(folder as usize))?;
        let Some((name, inode, kind)) = listing.names.next() else { return Some(std::ptr::null_mut()) };
        let entry = &mut listing.entry;
        entry.d_ino = inode;
        entry.d_type = match kind {
            Kind::File => libc::DT_REG,
            Kind::Folder => libc::DT_DIR,
            Kind::Socket => libc::DT_SOCK,
        };
        entry.d_name.fill(0);
        for (to, from) in entry.d_name.iter_mut().zip(name.bytes().take(255)) {
            *to = c_char::from_ne_bytes([from]);
        }
        Some(&raw mut *entry)
    });
    found.unwrap_or_else(|| {
        let original = original!(c"readdir64", ReadDir);
        // SAFETY: as of our caller.
        unsafe { original(folder) }
    })
}

type CloseDir = unsafe extern "C" fn(*mut DIR) -> c_int;

/// Ends a listing.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(folder: *mut DIR) -> c_int {
    if let Some(listing) = listings(|listings| listings.remove(&(folder as usize))) {
        return done(on_disk(|disk| disk.close(listing.folder)), |()| 0);
    }
    let original = original!(c"closedir", CloseDir);
    // SAFETY: as of our caller.
    unsafe { original(folder) }
}

/// The descriptor of a listing.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(folder: *mut DIR) -> c_int {
    if let Some(own) = listings(|listings| listings.get(&(folder as usize)).map(|listing| listing.folder)) {
        return own;
    }
    let original = original!(c"dirfd", CloseDir);
    // SAFETY: as of our caller.
    unsafe { original(folder) }
}

// inotify

/// Makes an instance of inotify: its descriptor is one of an eventfd, so that it can be waited for.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inotify_init1(flags: c_int) -> c_int {
    if current().is_none() {
        // SAFETY: as of our caller.
        let made = unsafe { real::syscall()(libc::SYS_inotify_init1, flags) };
        return c_int::try_from(made).unwrap_or(-1);
    }
    let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
    // SAFETY: the call takes two numbers.
    let made = unsafe { real::syscall()(libc::SYS_eventfd2, 0, flags) };
    let descriptor = c_int::try_from(made).unwrap_or(-1);
    on_disk(|disk| disk.add_watcher(descriptor));
    descriptor
}

/// Watches a file or folder.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inotify_add_watch(descriptor: RawFd, path: *const c_char, mask: u32) -> c_int {
    if super::is_on() && inside(|| state().disk.is_watcher(descriptor)) {
        // SAFETY: as of our caller.
        let Some(own) = (unsafe { own(path) }) else { return fail(libc::ENOENT) };
        return done(on_disk(|disk| disk.watch(descriptor, &own, mask)), |number| number);
    }
    // SAFETY: as of our caller.
    let watch = unsafe { real::syscall()(libc::SYS_inotify_add_watch, descriptor, path, mask) };
    c_int::try_from(watch).unwrap_or(-1)
}

/// Ends a watch.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inotify_rm_watch(descriptor: RawFd, number: c_int) -> c_int {
    if super::is_on() && inside(|| state().disk.is_watcher(descriptor)) {
        return done(on_disk(|disk| disk.unwatch(descriptor, number)), |()| 0);
    }
    // SAFETY: as of our caller.
    let result = unsafe { real::syscall()(libc::SYS_inotify_rm_watch, descriptor, number) };
    c_int::try_from(result).unwrap_or(-1)
}
