//! A D-Bus of the test's own, with a stand-in for systemd-logind on it. The machine's own bus is never used.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zbus::MessageStream;
use zbus::connection::Builder;
use zbus::message::{Message, Type};
use zbus::{Fd, Variant};

use super::{Inhibitor, MANAGER, PATH, SERVICE};

/// Time limit of a wait; it is reached only by a failure.
const TOO_LONG: Duration = Duration::from_mins(1);

/// A real `dbus-daemon` that serves as the system bus below a root. Dropping this value ends it.
pub(crate) struct PrivateBus {
    _daemon: Child,
    address: String,
}

/// A stand-in for logind on a bus.
pub(crate) struct StandIn {
    calls: mpsc::UnboundedReceiver<Call>,
    locks: mpsc::UnboundedReceiver<TakenLock>,
    connection: zbus::Connection,
    serving: JoinHandle<()>,
}

/// A lock that somebody has taken.
#[derive(Debug)]
pub(crate) struct TakenLock {
    pub(crate) mode: String,
    /// It ends when the lock is released.
    held: UnixStream,
}

impl TakenLock {
    pub(crate) async fn until_released(&mut self) {
        assert_eq!(in_time(self.held.read(&mut [0])).await.unwrap(), 0);
    }

    /// True if it was released already.
    pub(crate) fn is_released(&self) -> bool {
        self.held.try_read(&mut [0]).is_ok()
    }
}

/// A call that would take the device down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The method and its argument: `Reboot false`, `RebootWithFlags 16`.
    pub(crate) words: String,
    /// The contents of `/persist/reboot-reason` at the time of the call.
    pub(crate) reason: Option<String>,
}

/// The behaviour of the stand-in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// The answers to calls that take the device down, one after the other; later calls succeed.
    pub(crate) answers: VecDeque<Reply>,
    /// The inhibitors at each `ListInhibitors`, one after the other; later there are none. None: the call fails.
    pub(crate) inhibitors: Option<VecDeque<Vec<Inhibitor>>>,
    /// Methods with flags fail with this error, as in an older logind.
    pub(crate) flags_error: Option<&'static str>,
}

/// An answer of the stand-in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// This D-Bus error.
    Refuse(&'static str),
    /// No answer.
    Hang,
    /// The stand-in leaves the bus.
    Vanish,
}

impl PrivateBus {
    /// Starts a bus with its socket where the system bus of `root` is. `services` is the folder of the services that
    /// the bus can start.
    pub(crate) async fn start(root: &Path, services: Option<&Path>) -> Self {
        let socket = root.join("run/dbus/system_bus_socket");
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let config = root.join("dbus.conf");
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        std::fs::write(&config, config_text(&socket, services)).unwrap();
        let log = root.join("dbus.log");
        let mut daemon = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--print-address"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start dbus-daemon: {error}; install the package `dbus-daemon` (in older releases `dbus`)")
            });
        let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        let line = in_time(lines.next_line()).await.unwrap();
        assert!(line.is_some(), "dbus-daemon ended at once: {}", std::fs::read_to_string(&log).unwrap());
        Self { _daemon: daemon, address: format!("unix:path={}", socket.display()) }
    }

    /// Starts a stand-in for logind on the bus.
    pub(crate) async fn with_logind(&self, root: &Path, script: Script) -> StandIn {
        let connection = in_time(Builder::address(self.address.as_str()).build()).await.unwrap();
        let stream = MessageStream::from(&connection);
        in_time(connection.request_name(SERVICE)).await.unwrap();
        let (sender, calls) = mpsc::unbounded_channel();
        let (lock_sender, locks) = mpsc::unbounded_channel();
        let server = Server {
            connection: connection.clone(),
            script: Mutex::new(script),
            sender,
            locks: lock_sender,
            taken: Mutex::new(None),
            reason: root.join("persist/reboot-reason"),
        };
        StandIn { calls, locks, connection, serving: tokio::spawn(Arc::new(server).serve(stream)) }
    }
}

async fn in_time<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(TOO_LONG, event).await.expect("waited too long")
}

/// A policy that allows everything, because only the test knows of this bus.
fn config_text(socket: &Path, services: Option<&Path>) -> String {
    let services =
        services.map_or_else(String::new, |folder| format!("<servicedir>{}</servicedir>", folder.display()));
    format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={}</listen>
  <auth>EXTERNAL</auth>
  {services}
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*" eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#,
        socket.display()
    )
}

impl StandIn {
    /// Waits for the next call that would take the device down.
    pub(crate) async fn call(&mut self) -> Call {
        in_time(self.calls.recv()).await.expect("serves")
    }

    /// Waits for the next lock that somebody takes.
    pub(crate) async fn lock(&mut self) -> TakenLock {
        in_time(self.locks.recv()).await.expect("serves")
    }

    /// Announces that a shutdown begins, or was called off.
    pub(crate) async fn announce(&self, begins: bool) {
        let signal = "PrepareForShutdown";
        self.connection.emit_signal(None::<&str>, PATH, MANAGER, signal, &(begins,)).await.unwrap();
    }

    /// The calls received so far.
    pub(crate) fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Server {
    connection: zbus::Connection,
    script: Mutex<Script>,
    sender: mpsc::UnboundedSender<Call>,
    locks: mpsc::UnboundedSender<TakenLock>,
    taken: Mutex<Option<TakenLock>>,
    reason: PathBuf,
}

impl Server {
    async fn serve(self: Arc<Self>, mut stream: MessageStream) {
        while let Some(Ok(message)) = stream.next().await {
            let header = message.header();
            if header.message_type() != Type::MethodCall || header.path().is_none_or(|path| path != PATH) {
                continue;
            }
            let method = header.member().unwrap().as_str().to_owned();
            let done = match method.as_str() {
                "ListInhibitors" => self.list(&message).await,
                "Inhibit" => self.inhibit(&message).await,
                "Get" => self.get(&message).await,
                _ if self.obey(&message, &method).await => Ok(()),
                _ => {
                    self.connection.clone().close().await.unwrap();
                    return;
                }
            };
            done.unwrap();
        }
    }

    async fn inhibit(&self, message: &Message) -> zbus::Result<()> {
        let body = message.body();
        let (what, who, _, mode): (&str, &str, &str, &str) = body.deserialize().unwrap();
        assert_eq!((what, who), ("shutdown", "ebb"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = std::os::fd::OwnedFd::from(theirs.into_std().unwrap());
        self.connection.reply(&message.header(), &Fd::from(theirs)).await?;
        *self.taken.lock().unwrap() = Some(TakenLock { mode: mode.to_owned(), held: ours });
        Ok(())
    }

    async fn get(&self, message: &Message) -> zbus::Result<()> {
        let body = message.body();
        let (_, name): (&str, &str) = body.deserialize().unwrap();
        let value = match name {
            "PreparingForShutdown" => Variant::Bool(false),
            "InhibitDelayMaxUSec" => {
                // The taker asks for it last: nothing is under way any more.
                self.locks.send(self.taken.lock().unwrap().take().expect("a lock was taken")).unwrap();
                Variant::U64(5_000_000)
            }
            _ => panic!("nobody should ask for {name}"),
        };
        self.connection.reply(&message.header(), &value).await
    }

    async fn list(&self, message: &Message) -> zbus::Result<()> {
        let listed = self
            .script
            .lock()
            .unwrap()
            .inhibitors
            .as_mut()
            .map(|looks| looks.pop_front().unwrap_or_default());
        match listed {
            Some(listed) => self.connection.reply(&message.header(), &listed).await,
            None => self.refuse(message, "org.freedesktop.DBus.Error.UnknownMethod").await,
        }
    }

    /// True if the stand-in stays on the bus.
    async fn obey(&self, message: &Message, method: &str) -> bool {
        let argument = match method {
            "Reboot" | "PowerOff" => message.body().deserialize::<bool>().unwrap().to_string(),
            "RebootWithFlags" | "PowerOffWithFlags" => {
                message.body().deserialize::<u64>().unwrap().to_string()
            }
            _ => panic!("nobody should call {method}"),
        };
        let reason = std::fs::read_to_string(&self.reason).ok();
        self.sender.send(Call { words: format!("{method} {argument}"), reason }).unwrap();
        let answer = {
            let mut script = self.script.lock().unwrap();
            match script.flags_error {
                Some(error) if method.ends_with("Flags") => Some(Reply::Refuse(error)),
                Some(_) | None => script.answers.pop_front(),
            }
        };
        match answer {
            None => self.connection.reply(&message.header(), &()).await.unwrap(),
            Some(Reply::Refuse(error)) => self.refuse(message, error).await.unwrap(),
            Some(Reply::Hang) => {}
            Some(Reply::Vanish) => return false,
        }
        true
    }

    async fn refuse(&self, message: &Message, error: &str) -> zbus::Result<()> {
        self.connection.reply_error(&message.header(), error, &("because of the test",)).await
    }
}
