//! Calls of the real kernel.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use libc::{c_char, c_int, c_long, c_void};

type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

/// The C library's own function of this name, which ours stands in for.
pub(super) fn next(name: &std::ffi::CStr) -> *mut c_void {
    // SAFETY: `dlsym` reads a string that ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) }
}

/// The C library's `syscall`.
pub(super) fn syscall() -> Syscall {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| next(c"syscall") as usize);
    // SAFETY: this is the address of a function of this type.
    unsafe { std::mem::transmute::<usize, Syscall>(found) }
}

/// The id of the real process.
pub(super) fn pid() -> u32 {
    static FOUND: OnceLock<u32> = OnceLock::new();
    // SAFETY: the call has no arguments.
    *FOUND.get_or_init(|| u32::try_from(unsafe { syscall()(libc::SYS_getpid) }).unwrap_or_default())
}

/// Closes a descriptor.
pub(super) fn close(descriptor: RawFd) {
    // SAFETY: whoever had it open never runs again.
    unsafe { syscall()(libc::SYS_close, descriptor) };
}

/// Waits while the value is `expected`.
pub(super) fn futex_wait(word: &AtomicU32, expected: u32) {
    let none = ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the reference.
    unsafe {
        syscall()(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, none)
    };
}

/// Wakes one that waits for the word.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives as long as the reference.
    unsafe { syscall()(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Which of the descriptors are ready now for these events of `poll`.
pub(super) fn ready_among(descriptors: &[(RawFd, i16)]) -> Vec<bool> {
    let pollfd = |(fd, events): &(RawFd, i16)| libc::pollfd { fd: *fd, events: *events, revents: 0 };
    let mut asked: Vec<libc::pollfd> = descriptors.iter().map(pollfd).collect();
    if !asked.is_empty() {
        poll(&mut asked);
    }
    asked.iter().map(|asked| asked.revents != 0).collect()
}

/// Keeps this thread and those that it starts on one core: they run in turns, and a turn is handed over faster so.
pub(crate) fn stay_on_core(core: usize) {
    // SAFETY: a set of cores may be all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives until the calls return. If the call fails, the threads only run slower.
    unsafe {
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set);
    }
}

/// `poll` without waiting.
pub(super) fn poll(asked: &mut [libc::pollfd]) -> c_int {
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes only into the slice.
    let count = unsafe {
        syscall()(
            libc::SYS_ppoll,
            asked.as_mut_ptr(),
            asked.len(),
            &raw const none,
            ptr::null::<c_void>(),
            8_usize,
        )
    };
    c_int::try_from(count).unwrap_or(-1)
}

/// `epoll_wait` without waiting.
pub(super) fn epoll(epoll: RawFd, events: *mut libc::epoll_event, most: c_int) -> c_int {
    // SAFETY: the caller's events have room for `most`.
    let count =
        unsafe { syscall()(libc::SYS_epoll_pwait, epoll, events, most, 0, ptr::null::<c_void>(), 8_usize) };
    c_int::try_from(count).unwrap_or(-1)
}

/// Writes to the standard output; what cannot be written is lost.
pub(super) fn print(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads from the slice only.
        let written = unsafe { syscall()(libc::SYS_write, libc::STDOUT_FILENO, bytes.as_ptr(), bytes.len()) };
        let Ok(written @ 1..) = usize::try_from(written) else { return };
        bytes = &bytes[written..];
    }
}

/// Ends this process, whatever its other threads do.
pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// The process ends by SIGXCPU after so many seconds of processor time.
pub(crate) fn limit_time(seconds: u64) {
    let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds };
    // SAFETY: the pointer is to a value that lives. Without the limit a history that does not end goes on.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
}
