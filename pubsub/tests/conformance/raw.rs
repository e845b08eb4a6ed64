//! EVE's two sides of a socket, as simple as possible: blocking, with a limit on every wait. Shares no code with the
//! crate.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, bind, connect, listen, recv, send,
    setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Time limit of a wait; reached only when a test fails. It is below the 10 s that a silent peer is given, so a test
/// that waits for that by mistake fails.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(8);
/// Buffer size: longer than any message.
const BUFFER: usize = 256 * 1024;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Link(UnixStream);

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// One whole datagram.
    Message(Vec<u8>),
    /// The other side has hung up.
    End,
    /// Nothing has arrived yet.
    Nothing,
}

/// A socket that waits for connections. Its file stays when it is dropped, as the file of a killed process does.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Link {
    /// Connects.
    pub(crate) fn dial(path: &Path) -> Self {
        Self::try_dial(path).unwrap_or_else(|error| panic!("dial {}: {error}", path.display()))
    }

    /// Connects, or returns the error.
    pub(crate) fn try_dial(path: &Path) -> io::Result<Self> {
        let made = make();
        connect(made.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(Self::of(UnixStream::from(made)))
    }

    /// Connects and asks for a topic.
    pub(crate) fn subscribe(path: &Path, topic: &str) -> Self {
        let link = Self::dial(path);
        link.say(&format!("request {topic}"));
        link
    }

    fn of(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        Self(stream)
    }

    /// Sends one datagram.
    pub(crate) fn send(&self, datagram: &[u8]) {
        assert_eq!(self.try_send(datagram), Ok(datagram.len()));
    }

    /// Sends one datagram; the other side may have hung up.
    pub(crate) fn try_send(&self, datagram: &[u8]) -> Result<usize, Errno> {
        send(self.0.as_raw_fd(), datagram, MsgFlags::MSG_NOSIGNAL)
    }

    /// Sends one datagram of text.
    pub(crate) fn say(&self, text: &str) {
        self.send(text.as_bytes());
    }

    /// Sends datagrams of text.
    pub(crate) fn say_all<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) {
        texts.into_iter().for_each(|text| self.say(text.as_ref()));
    }

    /// Waits for the next datagram or the end.
    pub(crate) fn receive(&self) -> Came {
        match self.read(MsgFlags::empty()) {
            Came::Nothing => panic!("nothing came for {} s", TOO_LONG.as_secs()),
            came @ (Came::Message(_) | Came::End) => came,
        }
    }

    /// Reads what has arrived, without waiting.
    pub(crate) fn receive_now(&self) -> Came {
        self.read(MsgFlags::MSG_DONTWAIT)
    }

    /// Waits for the next datagram, which is text.
    pub(crate) fn hear(&self) -> String {
        match self.receive() {
            Came::Message(datagram) => String::from_utf8(datagram).unwrap(),
            Came::End | Came::Nothing => panic!("a message was expected, not the end"),
        }
    }

    /// Waits for datagrams until one begins with `last`; returns all of them.
    pub(crate) fn hear_until(&self, last: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while !heard.last().is_some_and(|text: &String| text.starts_with(last)) {
            heard.push(self.hear());
        }
        heard
    }

    /// Waits for the end; datagrams before it are dropped.
    pub(crate) fn hear_the_end(&self) {
        while self.receive() != Came::End {}
    }

    fn read(&self, flags: MsgFlags) -> Came {
        let mut buffer = vec![0; BUFFER];
        match recv(self.0.as_raw_fd(), &mut buffer, flags | MsgFlags::MSG_TRUNC) {
            // ECONNRESET: the other side hung up before it had read all that we sent.
            Ok(0) | Err(Errno::ECONNRESET) => Came::End,
            Ok(length) => Came::Message(buffer[..length].to_vec()),
            Err(Errno::EAGAIN) => Came::Nothing,
            Err(error) => panic!("receive: {error}"),
        }
    }
}

impl Listener {
    /// Listens as EVE's publisher does; creates the folder.
    pub(crate) fn bind(path: &Path) -> Self {
        Self::bind_with_room(path, 128)
    }

    /// As [`Listener::bind`], with room for `room` connections that wait, and one more.
    pub(crate) fn bind_with_room(path: &Path, room: i32) -> Self {
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap()).unwrap();
        let made = make();
        bind(made.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        listen(&made, Backlog::new(room).unwrap()).unwrap();
        setsockopt(&made, ReceiveTimeout, &TimeVal::seconds(8)).unwrap();
        Self(UnixListener::from(made))
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> Link {
        Link::of(self.0.accept().expect("a connection").0)
    }

    /// Waits for a connection and its request.
    pub(crate) fn asked_for(&self, topic: &str) -> Link {
        let link = self.accept();
        assert_eq!(link.hear(), format!("request {topic}"));
        link
    }

    /// A connection that is waiting already; `None` if there is none.
    pub(crate) fn accept_now(&self) -> Option<Link> {
        self.0.set_nonblocking(true).unwrap();
        let accepted = self.0.accept();
        self.0.set_nonblocking(false).unwrap();
        match accepted {
            Ok((stream, _)) => Some(Link::of(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("accept: {error}"),
        }
    }
}

fn make() -> OwnedFd {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap()
}

/// An update message as EVE writes it.
pub(crate) fn update(topic: &str, key: impl AsRef<[u8]>, json: impl AsRef<[u8]>) -> String {
    format!("update {topic} {} {}", STANDARD.encode(key), STANDARD.encode(json))
}

/// A delete message as EVE writes it.
pub(crate) fn delete(topic: &str, key: impl AsRef<[u8]>) -> String {
    format!("delete {topic} {}", STANDARD.encode(key))
}

/// The JSON in an update message.
pub(crate) fn json_of(update: &str) -> String {
    let last = update.split(' ').nth(3).unwrap_or_else(|| panic!("an update was expected: {update}"));
    String::from_utf8(STANDARD.decode(last).unwrap()).unwrap()
}
