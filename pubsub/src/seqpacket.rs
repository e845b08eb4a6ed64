//! Unix sockets of type SOCK_SEQPACKET: each read and each write is one whole message.
//!
//! tokio has no such type and needs none: its streams wait for readiness, and the kernel keeps the messages apart.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
};
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// Only the owner may use the socket, as with the files.
const SOCKET_MODE: u32 = 0o600;
/// Number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Connection(UnixStream);

/// The process at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Id of the process; `None` if it is in another namespace.
    pub pid: Option<u32>,
    /// The process's user id.
    pub user: u32,
}

/// State of a topic's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicSocket {
    /// There is no file at the socket's path.
    Absent,
    /// There is a socket, but no process listens on it any more.
    Stale,
    /// There is a socket of another kind, or no socket: it belongs to no topic.
    Foreign,
    /// A process serves the socket. Which one is unknown if other connections already wait there.
    Served(Option<Peer>),
    /// The socket cannot be connected to, for this reason.
    Unreachable(String),
}

/// A socket that waits for connections.
#[derive(Debug)]
pub(crate) struct Listener {
    path: PathBuf,
    socket: UnixListener,
    /// Device and inode of the socket's file, to recognise whether it is still in its place.
    file: (u64, u64),
}

/// Reasons why listening failed.
#[derive(Debug)]
pub(crate) enum ListenError {
    /// A process listens there already, perhaps this one.
    Live(Option<u32>),
    /// Listening failed for another reason; it may succeed later.
    Io(io::Error),
}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Connection {
    /// Connects to the socket at `path`, which must be served by root or our own user, and sends `first`. Must be
    /// called in a tokio runtime.
    pub(crate) fn dial(path: &Path, first: &[u8]) -> io::Result<Self> {
        let mut stream = dial(path)?;
        let peer = Peer::of(&stream)?;
        if !peer.is_trusted() {
            return Err(io::Error::other(format!("it is served by {peer}; accepted: root and our own user")));
        }
        // A new connection always takes one message; asking tokio first would need a wait.
        let written = stream.write(first)?;
        if written != first.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(Self(UnixStream::from_std(stream)?))
    }

    /// The process at the other end.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        Peer::of(&self.0)
    }

    /// Waits until a message, or the end of the connection, can be read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Waits until a message can be sent.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// Reads a message; what does not fit into the buffer is cut off. 0 bytes mean the end of the connection, or an
    /// empty message, which no peer sends.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// Sends a message: all of it or nothing.
    pub(crate) fn try_write(&self, message: &[u8]) -> io::Result<()> {
        self.0.try_write(message).map(|_| ())
    }
}

impl Peer {
    /// The process as the kernel knows it.
    fn of(socket: &impl AsFd) -> io::Result<Self> {
        let found = getsockopt(socket, PeerCredentials)?;
        Ok(Self { pid: u32::try_from(found.pid()).ok().filter(|pid| *pid != 0), user: found.uid() })
    }

    /// True if the process belongs to root or to our own user.
    pub fn is_trusted(self) -> bool {
        self.user == 0 || self.user == geteuid().as_raw()
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(formatter, "process {pid} of user {}", self.user),
            None => write!(formatter, "a process of user {}", self.user),
        }
    }
}

impl Listener {
    /// Listens at `path`. A socket there on which no process listens any more is replaced. Must be called in a tokio
    /// runtime.
    pub(crate) fn bind(path: &Path) -> Result<Self, ListenError> {
        make_room(path)?;
        let (_folder, address) = address(path)?;
        let made = make_socket()?;
        bind(made.as_raw_fd(), &address).map_err(io::Error::from)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        let backlog = Backlog::new(BACKLOG).map_err(io::Error::from)?;
        listen(&made, backlog).map_err(io::Error::from)?;
        let file = file_of(path).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let socket = UnixListener::from_std(StdListener::from(made))?;
        Ok(Self { path: path.to_owned(), socket, file })
    }

    /// The next connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        self.socket.accept().await.map(|(stream, _)| Connection(stream))
    }

    /// Removes the socket's file, so that no new subscriber connects. A file that is not ours is left alone.
    pub(crate) fn unlink(&self) {
        if self.is_in_place()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!("cannot remove {:?}: {error}", self.path);
        }
    }

    /// True if a process that connects to the path reaches this listener.
    pub(crate) fn is_in_place(&self) -> bool {
        file_of(&self.path) == Some(self.file)
    }
}

/// The socket's file is removed together with the listener.
impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
    }
}

fn make_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?)
}

fn dial(path: &Path) -> io::Result<StdStream> {
    let (_folder, address) = address(path)?;
    let made = make_socket()?;
    connect(made.as_raw_fd(), &address)?;
    Ok(StdStream::from(made))
}

/// A short address for a path of any length: a socket address has at most 107 bytes. It is valid while the folder is
/// held open.
fn address(path: &Path) -> io::Result<(File, UnixAddr)> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(invalid)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(folder)?;
    let short = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(name);
    let address = UnixAddr::new(&short)?;
    Ok((opened, address))
}

/// Connects to the socket at `path` and hangs up without sending anything, as EVE's publisher does.
pub(crate) fn look_at(path: &Path) -> TopicSocket {
    let kind = match path.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return TopicSocket::Absent,
        Err(error) => return TopicSocket::Unreachable(error.to_string()),
    };
    if !kind.is_socket() {
        return TopicSocket::Foreign;
    }
    match dial(path) {
        Ok(stream) => TopicSocket::Served(Peer::of(&stream).ok()),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT) => TopicSocket::Absent,
            Some(Errno::ECONNREFUSED) => TopicSocket::Stale,
            Some(Errno::EPROTOTYPE) => TopicSocket::Foreign,
            Some(Errno::EAGAIN) => TopicSocket::Served(None),
            _ => TopicSocket::Unreachable(error.to_string()),
        },
    }
}

/// Removes a socket on which no process listens.
fn make_room(path: &Path) -> Result<(), ListenError> {
    match look_at(path) {
        TopicSocket::Absent => Ok(()),
        TopicSocket::Stale => Ok(fs::remove_file(path)?),
        TopicSocket::Served(peer) => Err(ListenError::Live(peer.and_then(|peer| peer.pid))),
        TopicSocket::Foreign => Err(io::Error::other("something else is in its place; remove it").into()),
        TopicSocket::Unreachable(error) => Err(io::Error::other(error).into()),
    }
}

fn file_of(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok().filter(|metadata| metadata.file_type().is_socket())?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
