//! Stands in for functions of the C library that make TCP connections: between managed tasks they are Unix sockets.
//!
//! What is sent over a Unix socket has arrived when the call returns. Over TCP it may arrive a moment later, even on
//! one machine, and then a history would depend on more than its seed.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use libc::{c_int, c_void, size_t, sockaddr, sockaddr_in, sockaddr_un, socklen_t, ssize_t};

use super::changes::admit;
use super::disk::Kind;
use super::files::{self, on_disk};
use super::{current, inside, real, state};

/// The next port for a socket that asks for any.
static NEXT_PORT: AtomicU16 = AtomicU16::new(40_000);

/// The length of a path in an address, and of the family before it.
const PATH: usize = 108;
const FAMILY: usize = 2;

fn length_of<T>() -> socklen_t {
    socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}

/// The port of an address of TCP; None for another family.
///
/// # Safety
/// The address has the length that its family needs.
unsafe fn port_of(address: *const sockaddr) -> Option<u16> {
    // SAFETY: as of our caller.
    let family = unsafe { (*address).sa_family };
    if c_int::from(family) != libc::AF_INET {
        return None;
    }
    // The port follows the family, in the network's order.
    // SAFETY: as of our caller.
    let port = unsafe { address.byte_add(FAMILY).cast::<[u8; 2]>().read() };
    Some(u16::from_be_bytes(port))
}

/// The abstract name that stands for a port of this process, as an address with its length. A socket that only reserves
/// its port has another name than the one that listens there.
fn name_of(port: u16, is_reserved: bool) -> (sockaddr_un, socklen_t) {
    let end = if is_reserved { "-reserved" } else { "" };
    let name = format!("\0ebb-simulator-{}-{port}{end}", real::pid());
    abstract_name(&name)
}

fn abstract_name(name: &str) -> (sockaddr_un, socklen_t) {
    let family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or_default();
    let mut address = sockaddr_un { sun_family: family, sun_path: [0; PATH] };
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    (address, socklen_t::try_from(FAMILY + name.len()).unwrap_or_default())
}

/// The port in an abstract name of [`name_of`]; 0 for a socket without a name, None for other names.
fn port_in(address: &sockaddr_un, length: socklen_t) -> Option<u16> {
    let length = usize::try_from(length).unwrap_or_default().saturating_sub(FAMILY);
    let bytes: Vec<u8> = address.sun_path.iter().take(length).map(|byte| byte.to_ne_bytes()[0]).collect();
    if bytes.is_empty() {
        return Some(0);
    }
    let name = String::from_utf8_lossy(&bytes);
    let rest = name.strip_prefix('\0')?.strip_prefix("ebb-simulator-")?;
    rest.split('-').nth(1)?.parse().ok()
}

/// The path in an address of a Unix socket, if it is on the simulated disk.
///
/// # Safety
/// As of [`port_of`].
unsafe fn path_of(address: *const sockaddr, length: socklen_t) -> Option<String> {
    // SAFETY: as of our caller.
    let family = c_int::from(unsafe { (*address).sa_family });
    let length = usize::try_from(length).unwrap_or_default().saturating_sub(FAMILY).min(PATH);
    if family != libc::AF_UNIX || length == 0 {
        return None;
    }
    // SAFETY: the path follows the family, and has this length.
    let bytes = unsafe { std::slice::from_raw_parts(address.byte_add(FAMILY).cast::<u8>(), length) };
    let text = std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()?;
    inside(|| state().disk.own(text))
}

/// The abstract name that stands for a socket on the simulated disk.
fn name_of_inode(inode: u64) -> (sockaddr_un, socklen_t) {
    abstract_name(&format!("\0ebb-simulated-{}-{inode}", real::pid()))
}

/// The abstract name that stands for the socket at this path; the number of the error if there is no socket.
fn name_at(path: &str) -> Result<(sockaddr_un, socklen_t), c_int> {
    match on_disk(|disk| disk.stat(path)) {
        Ok(stat) if stat.kind == Kind::Socket => Ok(name_of_inode(stat.inode)),
        Ok(_) => Err(libc::ECONNREFUSED),
        Err(error) => Err(error),
    }
}

/// Writes an address of TCP on this machine.
///
/// # Safety
/// There is room for it.
unsafe fn write_port(port: u16, address: *mut sockaddr, length: *mut socklen_t) {
    let family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    let local = libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) };
    let written =
        sockaddr_in { sin_family: family, sin_port: port.to_be(), sin_addr: local, sin_zero: [0; 8] };
    // SAFETY: as of our caller.
    unsafe {
        address.cast::<sockaddr_in>().write_unaligned(written);
        length.write(length_of::<sockaddr_in>());
    }
}

/// True for a stream socket: the agents' own Unix sockets are of other types.
fn is_stream(socket: RawFd) -> bool {
    let (mut kind, mut length) = (0_i32, length_of::<c_int>());
    let (kind_at, length_at) = (&raw mut kind, &raw mut length);
    // SAFETY: there is room for the answer.
    unsafe {
        real::syscall()(libc::SYS_getsockopt, socket, libc::SOL_SOCKET, libc::SO_TYPE, kind_at, length_at);
    }
    kind == libc::SOCK_STREAM
}

fn result(number: libc::c_long) -> c_int {
    c_int::try_from(number).unwrap_or(-1)
}

/// Notes who has made this socket.
fn made(socket: RawFd) -> RawFd {
    if let Some(task) = current().filter(|_| socket >= 0) {
        inside(|| state().add_socket(task, socket));
    }
    socket
}

/// Makes a socket.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let is_tcp = domain == libc::AF_INET && kind & 0xf == libc::SOCK_STREAM && current().is_some();
    let (domain, protocol) = if is_tcp { (libc::AF_UNIX, 0) } else { (domain, protocol) };
    // SAFETY: as of our caller.
    made(result(unsafe { real::syscall()(libc::SYS_socket, domain, kind, protocol) }))
}

/// Gives a socket its address.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(socket: RawFd, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: as of our caller.
    if let Some(path) = current().and_then(|_| unsafe { path_of(address, length) }) {
        let now = files::wall_clock();
        let made = on_disk(|disk| disk.make(&path, Kind::Socket, 0o755, now));
        return match made {
            Ok(inode) => {
                let (name, length) = name_of_inode(inode);
                // SAFETY: the name lives until the call returns.
                result(unsafe { real::syscall()(libc::SYS_bind, socket, &raw const name, length) })
            }
            Err(libc::EEXIST) => files::fail(libc::EADDRINUSE),
            Err(error) => files::fail(error),
        };
    }
    // SAFETY: as of our caller.
    let port = current().and_then(|_| unsafe { port_of(address) });
    let Some(port) = port else {
        // SAFETY: as of our caller.
        return result(unsafe { real::syscall()(libc::SYS_bind, socket, address, length) });
    };
    let is_reserved = port == 0;
    let port = if is_reserved { NEXT_PORT.fetch_add(1, Ordering::Relaxed) } else { port };
    let (name, length) = name_of(port, is_reserved);
    // SAFETY: the name lives until the call returns.
    result(unsafe { real::syscall()(libc::SYS_bind, socket, &raw const name, length) })
}

/// Connects.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(socket: RawFd, address: *const sockaddr, length: socklen_t) -> c_int {
    if !admit().0 {
        return -1;
    }
    // SAFETY: as of our caller.
    if let Some(path) = current().and_then(|_| unsafe { path_of(address, length) }) {
        return match name_at(&path) {
            Ok((name, length)) => {
                // SAFETY: the name lives until the call returns.
                result(unsafe { real::syscall()(libc::SYS_connect, socket, &raw const name, length) })
            }
            Err(error) => files::fail(error),
        };
    }
    // SAFETY: as of our caller.
    let port = current().and_then(|_| unsafe { port_of(address) });
    let Some(port) = port else {
        // SAFETY: as of our caller.
        return result(unsafe { real::syscall()(libc::SYS_connect, socket, address, length) });
    };
    let (name, length) = name_of(port, false);
    // SAFETY: the name lives until the call returns.
    result(unsafe { real::syscall()(libc::SYS_connect, socket, &raw const name, length) })
}

/// Sends to an address.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    socket: RawFd,
    bytes: *const c_void,
    size: size_t,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if !admit().0 {
        return -1;
    }
    // SAFETY: as of our caller.
    let path = if to.is_null() { None } else { current().and_then(|_| unsafe { path_of(to, length) }) };
    let sent = match path.map(|path| name_at(&path)) {
        Some(Ok((name, length))) => {
            let name = &raw const name;
            // SAFETY: the name lives until the call returns.
            unsafe { real::syscall()(libc::SYS_sendto, socket, bytes, size, flags, name, length) }
        }
        Some(Err(error)) => return files::fail(error) as ssize_t,
        // SAFETY: as of our caller.
        None => unsafe { real::syscall()(libc::SYS_sendto, socket, bytes, size, flags, to, length) },
    };
    ssize_t::try_from(sent).unwrap_or(-1)
}

/// Reads an address of a socket by this call of the kernel, and writes it as TCP's if it is one of ours.
///
/// # Safety
/// As of `getsockname`.
unsafe fn address(
    number: libc::c_long,
    socket: RawFd,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let is_ours = current().is_some() && is_stream(socket);
    if is_ours {
        let (mut name, _) = name_of(0, false);
        let mut name_length = length_of::<sockaddr_un>();
        // SAFETY: there is room for the name.
        let found = unsafe { real::syscall()(number, socket, &raw mut name, &raw mut name_length) };
        if found == 0
            && c_int::from(name.sun_family) == libc::AF_UNIX
            && let Some(port) = port_in(&name, name_length)
        {
            // SAFETY: as of our caller.
            unsafe { write_port(port, address, length) };
            return 0;
        }
    }
    // SAFETY: as of our caller.
    result(unsafe { real::syscall()(number, socket, address, length) })
}

/// The socket's own address.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(socket: RawFd, to: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as of our caller.
    unsafe { address(libc::SYS_getsockname, socket, to, length) }
}

/// The address of the other end.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(socket: RawFd, to: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as of our caller.
    unsafe { address(libc::SYS_getpeername, socket, to, length) }
}

/// Accepts a connection.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    socket: RawFd,
    to: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let is_ours = current().is_some() && is_stream(socket);
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: as of our caller; without an address there is none to write.
    let accepted = unsafe {
        if is_ours {
            real::syscall()(libc::SYS_accept4, socket, none, none, flags)
        } else {
            real::syscall()(libc::SYS_accept4, socket, to, length, flags)
        }
    };
    if is_ours && accepted >= 0 && !to.is_null() {
        // SAFETY: as of our caller.
        unsafe { write_port(0, to, length) };
    }
    made(result(accepted))
}

/// Sets an option. TCP's own mean nothing here.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    socket: RawFd,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if level == libc::IPPROTO_TCP && current().is_some() {
        return 0;
    }
    // SAFETY: as of our caller.
    result(unsafe { real::syscall()(libc::SYS_setsockopt, socket, level, option, value, length) })
}
