//! Stands in for functions of the C library that change files or send data: a task may die in the middle of one, and
//! other tasks may go first.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, mode_t, msghdr, size_t, ssize_t, timespec};

use super::disk::{Disk, Kind};
use super::state::{Admission, Task, Wait};
use super::{current, files, give_up, inside, real, state};

/// True if the call is to be made; otherwise errno is set. The task, if it is managed.
pub(super) fn admit() -> (bool, Option<Task>) {
    let Some(task) = current() else { return (true, None) };
    match inside(|| state().admit(task)) {
        Admission::Granted => (true, Some(task)),
        Admission::Later => {
            give_up(task, Wait::Nothing);
            let is_alive = !inside(|| state().is_dead(task));
            (is_alive || refuse(), Some(task))
        }
        Admission::Killed => {
            give_up(task, Wait::Dead);
            (refuse(), None)
        }
        Admission::Refused => (refuse(), None),
    }
}

fn refuse() -> bool {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::EIO };
    false
}

macro_rules! stands_in {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) -> $result:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            type Original = unsafe extern "C" fn($($kind),*) -> $result;
            static FOUND: OnceLock<usize> = OnceLock::new();
            let name = concat!(stringify!($name), "\0");
            let found = *FOUND.get_or_init(|| {
                let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                real::next(name) as usize
            });
            // SAFETY: this is the address of a function of this type.
            let original = unsafe { std::mem::transmute::<usize, Original>(found) };
            if !admit().0 {
                return -1;
            }
            // SAFETY: as of our caller.
            unsafe { original($($argument),*) }
        }
    };
}

/// Renames.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as of our caller.
    let own = unsafe { files::own(from) };
    // SAFETY: as of our caller.
    let changed = own.and_then(|from| unsafe { files::change(to, |disk, to, _| disk.rename(&from, to)) });
    // SAFETY: as of our caller.
    changed.unwrap_or_else(|| number(unsafe { real::syscall()(libc::SYS_rename, from, to) }))
}

/// Removes a file.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as of our caller.
    let changed = unsafe { files::change(path, |disk, path, _| disk.remove(path, Kind::File)) };
    // SAFETY: as of our caller.
    changed.unwrap_or_else(|| number(unsafe { real::syscall()(libc::SYS_unlink, path) }))
}

/// Removes a folder.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: as of our caller.
    let changed = unsafe { files::change(path, |disk, path, _| disk.remove(path, Kind::Folder)) };
    // SAFETY: as of our caller.
    changed.unwrap_or_else(|| number(unsafe { real::syscall()(libc::SYS_rmdir, path) }))
}

/// Makes a folder.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    let make = |disk: &mut Disk, path: &str, now| disk.make(path, Kind::Folder, mode & !0o022, now).map(drop);
    // SAFETY: as of our caller.
    let changed = unsafe { files::change(path, make) };
    // SAFETY: as of our caller.
    changed.unwrap_or_else(|| number(unsafe { real::syscall()(libc::SYS_mkdir, path, mode) }))
}

/// Makes the file durable.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(descriptor: RawFd) -> c_int {
    if files::is_own(descriptor) {
        return files::sync_own(descriptor);
    }
    // SAFETY: as of our caller.
    number(unsafe { real::syscall()(libc::SYS_fsync, descriptor) })
}

/// Makes the file's data durable.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(descriptor: RawFd) -> c_int {
    // SAFETY: as of our caller.
    unsafe { fsync(descriptor) }
}

fn number(result: libc::c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

stands_in!(
    /// Sends.
    send(socket: RawFd, bytes: *const c_void, length: size_t, flags: c_int) -> ssize_t
);
stands_in!(
    /// Sends a message.
    sendmsg(socket: RawFd, message: *const msghdr, flags: c_int) -> ssize_t
);
/// Writes several parts.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(descriptor: RawFd, parts: *const libc::iovec, count: c_int) -> ssize_t {
    if files::is_own(descriptor) {
        let count = usize::try_from(count).unwrap_or_default();
        // SAFETY: the caller gives so many parts.
        let parts = unsafe { std::slice::from_raw_parts(parts, count) };
        let bytes: Vec<u8> = parts
            .iter()
            // SAFETY: each part has this length.
            .flat_map(|part| unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) })
            .copied()
            .collect();
        return files::write_own(descriptor, &bytes, None);
    }
    if !admit().0 {
        return -1;
    }
    // SAFETY: as of our caller.
    let written = unsafe { real::syscall()(libc::SYS_writev, descriptor, parts, count) };
    ssize_t::try_from(written).unwrap_or(-1)
}

/// Writes.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: RawFd, bytes: *const c_void, length: size_t) -> ssize_t {
    if files::is_own(descriptor) {
        // SAFETY: the caller gives so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        return files::write_own(descriptor, bytes, None);
    }
    if let (libc::STDOUT_FILENO | libc::STDERR_FILENO, Some(task)) = (descriptor, current()) {
        // SAFETY: the caller gives so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        inside(|| state().said(task, bytes));
        return ssize_t::try_from(length).unwrap_or(-1);
    }
    // Eight bytes wake a runtime through its eventfd: a dead task has to, so that its thread can end.
    let is_admitted = length == 8 || admit().0;
    if !is_admitted {
        return -1;
    }
    // SAFETY: as of our caller.
    let written = unsafe { real::syscall()(libc::SYS_write, descriptor, bytes, length) };
    ssize_t::try_from(written).unwrap_or(-1)
}

/// Sets a file's times; "now" is the simulated wall clock.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn futimens(descriptor: RawFd, times: *const timespec) -> c_int {
    let (is_admitted, task) = admit();
    if !is_admitted {
        return -1;
    }
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    unsafe { super::calls::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    if files::is_own(descriptor) {
        return files::touch_own(descriptor);
    }
    let both = [now, now];
    let times = if task.is_some() { both.as_ptr() } else { times };
    // SAFETY: the times live until the call returns.
    let result =
        unsafe { real::syscall()(libc::SYS_utimensat, descriptor, std::ptr::null::<c_char>(), times, 0) };
    c_int::try_from(result).unwrap_or(-1)
}
