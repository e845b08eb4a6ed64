//! Stands in for functions of the C library that read a clock, wait, start threads or make random numbers.
//!
//! The linker takes a function of the program before the C library's. Outside a history, and for threads that the
//! kernel does not manage, each does what the C library's does.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the same register is an address, a number or a result"
)]

use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, c_long, c_uint, c_void, clockid_t, pthread_t, size_t, ssize_t, timespec};

use super::state::{Process, Task, Wait};
use super::{begin, current, end, give_up, inside, real, state};

const SECOND: u64 = 1_000_000_000;

fn set_errno(number: c_int) -> c_long {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = number };
    -1
}

/// Reads a clock.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let Some(task) = current() else {
        // SAFETY: as of our caller.
        let result = unsafe { real::syscall()(libc::SYS_clock_gettime, c_long::from(clock), time) };
        return c_int::try_from(result).unwrap_or(-1);
    };
    let now = inside(|| match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => state().wall_clock(task),
        libc::CLOCK_BOOTTIME => state().boottime(task),
        _ => state().monotonic(task),
    });
    let read = timespec {
        tv_sec: i64::try_from(now / SECOND).unwrap_or_default(),
        tv_nsec: i64::try_from(now % SECOND).unwrap_or_default(),
    };
    // SAFETY: the caller gives room for the time.
    unsafe { time.write(read) };
    0
}

/// Nanoseconds of a time; `None` for a null pointer.
///
/// # Safety
/// The pointer is null or leads to a time.
unsafe fn nanos(time: *const timespec) -> Option<u64> {
    // SAFETY: as of our caller.
    let time = unsafe { time.as_ref() }?;
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(seconds.saturating_mul(SECOND).saturating_add(nanos))
}

fn after_millis(millis: c_int) -> Option<u64> {
    let millis = u64::try_from(millis).ok()?;
    Some(inside(|| state().now()) + millis * 1_000_000)
}

/// Waits for events of an epoll instance.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let Some(task) = current() else {
        // SAFETY: as of our caller.
        let count = unsafe {
            real::syscall()(
                libc::SYS_epoll_pwait,
                epoll,
                events,
                most,
                timeout,
                ptr::null::<c_void>(),
                8_usize,
            )
        };
        return c_int::try_from(count).unwrap_or(-1);
    };
    let until = after_millis(timeout);
    loop {
        let wait = Wait::Ready { descriptors: vec![(epoll, libc::POLLIN)], until };
        give_up(task, wait);
        let count = real::epoll(epoll, events, most);
        if count != 0 || until.is_some_and(|until| until <= inside(|| state().now())) {
            return count;
        }
    }
}

/// Waits for descriptors.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    let Some(task) = current() else {
        let limit =
            timespec { tv_sec: i64::from(timeout / 1000), tv_nsec: i64::from(timeout % 1000) * 1_000_000 };
        let limit = if timeout < 0 { ptr::null() } else { &raw const limit };
        // SAFETY: as of our caller.
        let ready = unsafe {
            real::syscall()(libc::SYS_ppoll, descriptors, count, limit, ptr::null::<c_void>(), 8_usize)
        };
        return c_int::try_from(ready).unwrap_or(-1);
    };
    let until = after_millis(timeout);
    // SAFETY: the caller's array has this length.
    let asked =
        unsafe { std::slice::from_raw_parts_mut(descriptors, usize::try_from(count).unwrap_or_default()) };
    loop {
        let descriptors = asked.iter().map(|one| (one.fd, one.events)).collect();
        give_up(task, Wait::Ready { descriptors, until });
        let ready = real::poll(asked);
        if ready != 0 || until.is_some_and(|until| until <= inside(|| state().now())) {
            return ready;
        }
    }
}

/// Makes a call of the kernel by its number: the standard library waits for futexes this way.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    one: c_long,
    two: c_long,
    three: c_long,
    four: c_long,
    five: c_long,
    six: c_long,
) -> c_long {
    if let (libc::SYS_futex, Some(task)) = (number, current()) {
        // SAFETY: as of our caller.
        return unsafe { futex(task, one, two, three, four) };
    }
    if number == libc::SYS_getrandom && current().is_some() {
        // SAFETY: as of our caller.
        return unsafe { getrandom(one as *mut c_void, two as size_t, three as c_uint) } as c_long;
    }
    // SAFETY: as of our caller.
    unsafe { real::syscall()(number, one, two, three, four, five, six) }
}

/// Waits at an address, or wakes those who do.
///
/// # Safety
/// As of the kernel's call.
unsafe fn futex(task: Task, address: c_long, operation: c_long, value: c_long, timeout: c_long) -> c_long {
    let word = address as *const std::sync::atomic::AtomicU32;
    let command = c_int::try_from(operation).unwrap_or_default()
        & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            // SAFETY: the address of a futex leads to a word.
            let is_as_expected = unsafe { (*word).load(std::sync::atomic::Ordering::SeqCst) } == value as u32;
            if !is_as_expected {
                return set_errno(libc::EAGAIN);
            }
            // SAFETY: as of our caller.
            let time = unsafe { nanos(timeout as *const timespec) };
            let until = time.map(|time| match command {
                libc::FUTEX_WAIT => time + inside(|| state().now()),
                _ => inside(|| state().when_monotonic(task, time)),
            });
            give_up(task, Wait::Futex { address: address as usize, is_woken: false, until });
            if inside(|| state().was_woken(task)) { 0 } else { set_errno(libc::ETIMEDOUT) }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let most = usize::try_from(value).unwrap_or_default();
            inside(|| state().wake(task, address as usize, most)) as c_long
        }
        _ => set_errno(libc::ENOSYS),
    }
}

/// The id of the process: of the simulated one for a managed thread.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpid() -> libc::pid_t {
    let id = match current() {
        Some(task) => inside(|| {
            let state = state();
            state.process_of(task).id()
        }),
        None => real::pid(),
    };
    libc::pid_t::try_from(id).unwrap_or_default()
}

/// Sends a signal. Simulated processes are only asked whether they live.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kill(id: libc::pid_t, signal: c_int) -> c_int {
    let asked = u32::try_from(id).ok().and_then(Process::with_id);
    let result = match (current(), asked) {
        (Some(_), Some(process)) => {
            let lives = inside(|| state().lives(process));
            if lives && signal == 0 { 0 } else { set_errno(if lives { libc::EPERM } else { libc::ESRCH }) }
        }
        // SAFETY: the call takes two numbers.
        _ => unsafe { real::syscall()(libc::SYS_kill, id, signal) },
    };
    c_int::try_from(result).unwrap_or(-1)
}

/// Sleeps.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let Some(task) = current() else {
        // SAFETY: as of our caller.
        let result = unsafe { real::syscall()(libc::SYS_clock_nanosleep, clock, flags, time, left) };
        return c_int::try_from(-result).unwrap_or_default();
    };
    // SAFETY: as of our caller.
    let nanos = unsafe { nanos(time) }.unwrap_or_default();
    let until = if flags & libc::TIMER_ABSTIME == 0 {
        nanos + inside(|| state().now())
    } else {
        inside(|| state().when_monotonic(task, nanos))
    };
    give_up(task, Wait::Ready { descriptors: Vec::new(), until: Some(until) });
    0
}

/// Random bytes.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(bytes: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    if current().is_none() {
        // SAFETY: as of our caller.
        return unsafe { real::syscall()(libc::SYS_getrandom, bytes, length, flags) } as ssize_t;
    }
    // SAFETY: the caller gives room for so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), length) };
    inside(|| {
        let mut state = state();
        for byte in bytes.iter_mut() {
            *byte = state.random().to_le_bytes()[0];
        }
    });
    ssize_t::try_from(length).unwrap_or(-1)
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

struct Begun {
    start: Start,
    argument: *mut c_void,
    task: Task,
}

extern "C" fn managed(begun: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below made it, for this thread alone.
    let begun = unsafe { Box::from_raw(begun.cast::<Begun>()) };
    begin(begun.task);
    let result = (begun.start)(begun.argument);
    end(begun.task);
    result
}

/// Threads of tasks, for `pthread_join`.
static THREADS: std::sync::Mutex<std::collections::BTreeMap<pthread_t, Task>> =
    std::sync::Mutex::new(std::collections::BTreeMap::new());

type Create = unsafe extern "C" fn(
    *mut pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// Starts a thread, which is managed if the caller's is.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| real::next(c"pthread_create") as usize);
    // SAFETY: this is the address of a function of this type.
    let create = unsafe { std::mem::transmute::<usize, Create>(found) };
    let Some(by) = current() else {
        // SAFETY: as of our caller.
        return unsafe { create(thread, attributes, start, argument) };
    };
    inside(|| {
        let task = state().add(Some(by));
        let begun = Box::into_raw(Box::new(Begun { start, argument, task }));
        // SAFETY: as of our caller.
        let result = unsafe { create(thread, attributes, managed, begun.cast()) };
        if result == 0 {
            // SAFETY: the C library has written it.
            let thread = unsafe { *thread };
            THREADS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(thread, task);
        }
        result
    })
}

type SetName = unsafe extern "C" fn(pthread_t, *const libc::c_char) -> c_int;

/// Names a thread. notify's is the only one of a process, so it serves all machines here: it is known by its name.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: pthread_t, name: *const libc::c_char) -> c_int {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| real::next(c"pthread_setname_np") as usize);
    // SAFETY: this is the address of a function of this type.
    let set_name = unsafe { std::mem::transmute::<usize, SetName>(found) };
    // SAFETY: as of our caller.
    let is_shared = unsafe { std::ffi::CStr::from_ptr(name) } == c"notify-rs inoti";
    if let Some(task) = current().filter(|_| is_shared) {
        inside(|| state().is_notify(task));
    }
    // SAFETY: as of our caller.
    unsafe { set_name(thread, name) }
}

type Join = unsafe extern "C" fn(pthread_t, *mut *mut c_void) -> c_int;

/// Waits for the end of a thread.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let found = *FOUND.get_or_init(|| real::next(c"pthread_join") as usize);
    // SAFETY: this is the address of a function of this type.
    let join = unsafe { std::mem::transmute::<usize, Join>(found) };
    if let Some(task) = current() {
        let joined =
            inside(|| THREADS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&thread));
        if let Some(joined) = joined {
            give_up(task, Wait::End(joined));
        }
    }
    // SAFETY: as of our caller.
    unsafe { join(thread, result) }
}
