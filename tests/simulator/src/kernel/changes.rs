//! Stands in for functions of the C library that change files or send data: a task may die in the middle of one, and
//! other tasks may go first.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, mode_t, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use super::state::{Admission, Task, Wait};
use super::{current, give_up, inside, real, state};

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
    ($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $after:expr) => {
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
            let (is_admitted, task) = admit();
            if !is_admitted {
                return -1;
            }
            // SAFETY: as of our caller.
            let result = unsafe { original($($argument),*) };
            if let (Some(task), true) = (task, result == 0) {
                let after: fn(Task, $($kind),*) = $after;
                after(task, $($argument),*);
            }
            result
        }
    };
}

fn note(task: Task, path: *const c_char) {
    // SAFETY: the caller of the function gave a string that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    inside(|| state().note_write(task, path));
}

stands_in!(
    /// Renames.
    rename(from: *const c_char, to: *const c_char) -> c_int, |task, _, to| note(task, to)
);
stands_in!(
    /// Removes a file.
    unlink(path: *const c_char) -> c_int, |task, path| note(task, path)
);
stands_in!(
    /// Makes a folder.
    mkdir(path: *const c_char, mode: mode_t) -> c_int, |_, _, _| ()
);
stands_in!(
    /// Makes the file durable.
    fsync(descriptor: RawFd) -> c_int, |_, _| ()
);
stands_in!(
    /// Makes the file's data durable.
    fdatasync(descriptor: RawFd) -> c_int, |_, _| ()
);
stands_in!(
    /// Sends.
    send(socket: RawFd, bytes: *const c_void, length: size_t, flags: c_int) -> ssize_t, |_, _, _, _, _| ()
);
stands_in!(
    /// Sends to an address.
    sendto(
        socket: RawFd, bytes: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, size: socklen_t
    ) -> ssize_t, |_, _, _, _, _, _, _| ()
);
stands_in!(
    /// Sends a message.
    sendmsg(socket: RawFd, message: *const msghdr, flags: c_int) -> ssize_t, |_, _, _, _| ()
);
stands_in!(
    /// Writes several parts.
    writev(descriptor: RawFd, parts: *const libc::iovec, count: c_int) -> ssize_t, |_, _, _, _| ()
);

/// Writes.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: RawFd, bytes: *const c_void, length: size_t) -> ssize_t {
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
    let both = [now, now];
    let times = if task.is_some() { both.as_ptr() } else { times };
    // SAFETY: the times live until the call returns.
    let result =
        unsafe { real::syscall()(libc::SYS_utimensat, descriptor, std::ptr::null::<c_char>(), times, 0) };
    c_int::try_from(result).unwrap_or(-1)
}
