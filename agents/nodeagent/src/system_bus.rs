//! The system bus of D-Bus: its address, and calls on it with a time limit.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pubsub::Root;
use runtime::error_chain;
use serde::Serialize;
use thiserror::Error;
use zbus::address::transport::{Transport, Unix, UnixSocket};
use zbus::connection::Builder;
use zbus::message::{Message, Type};
use zbus::{Connection, DBusError as _, MatchRule, MessageStream};

/// The path of the socket in the D-Bus specification, without the link `/var/run`.
const SOCKET: &str = "/run/dbus/system_bus_socket";
/// The environment variable of the D-Bus specification for another address.
const VARIABLE: &str = "DBUS_SYSTEM_BUS_ADDRESS";
/// Time limit for one answer of the bus or of a service on it.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Limit in characters for the text of a service.
const MAX_SHOWN: usize = 1024;

/// The address of the system bus of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SystemBus {
    /// The path of its socket.
    Socket(PathBuf),
    /// An address in the form of D-Bus.
    Address(String),
}

/// A connection to the system bus.
#[derive(Debug)]
pub(crate) struct Bus(Connection);

/// The reason why there is no connection. No call was sent.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    /// This device has no system bus.
    #[error("there is no system bus at {0}")]
    Absent(SystemBus),
    /// The system bus refuses the connection.
    #[error("cannot connect to the system bus at {0}")]
    Refused(SystemBus, #[source] zbus::Error),
    /// The system bus does not answer.
    #[error("the system bus at {bus} does not answer within {limit} s", limit = CALL_LIMIT.as_secs())]
    Silent { bus: SystemBus },
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    /// The service answered with an error: the call was not carried out.
    #[error("{name}: {text}")]
    Refused {
        /// The D-Bus name of the error.
        name: String,
        /// The text of the error.
        text: String,
    },
    /// No answer: the call may have been carried out.
    #[error("{0}")]
    Unanswered(String),
}

impl SystemBus {
    /// The system bus below a root.
    ///
    /// The environment variable counts for the running system only: below another root it may name the bus of the
    /// real machine.
    pub(crate) fn of(root: &Root) -> Self {
        let variable = if root.is_system() { std::env::var(VARIABLE).ok() } else { None };
        Self::at(root.join(SOCKET), variable)
    }

    fn at(socket: PathBuf, variable: Option<String>) -> Self {
        match variable {
            Some(address) if !address.trim().is_empty() => Self::Address(address),
            Some(_) | None => Self::Socket(socket),
        }
    }

    /// Connects, within the limit of a call.
    pub(crate) async fn connect(&self) -> Result<Bus, ConnectError> {
        let connecting = self.builder().build();
        match tokio::time::timeout(CALL_LIMIT, connecting).await {
            Ok(Ok(connection)) => Ok(Bus(connection)),
            Ok(Err(zbus::Error::Connection(error, _))) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ConnectError::Absent(self.clone()))
            }
            Ok(Err(error)) => Err(ConnectError::Refused(self.clone(), error)),
            Err(_) => Err(ConnectError::Silent { bus: self.clone() }),
        }
    }

    fn builder(&self) -> Builder<'static> {
        match self {
            Self::Socket(path) => {
                Builder::address(Transport::Unix(Unix::new(UnixSocket::File(path.clone()))))
            }
            Self::Address(address) => Builder::address(address.as_str()),
        }
    }
}

impl fmt::Display for SystemBus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(formatter),
            Self::Address(address) => formatter.write_str(address),
        }
    }
}

impl Bus {
    /// Calls a method of an object, with the time limit for its answer.
    pub(crate) async fn call<B>(
        &self,
        service: &str,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, CallError>
    where
        B: Serialize + zbus::DynamicType,
    {
        let calling = self.0.call_method(Some(service), path, Some(interface), method, body);
        let answer = tokio::time::timeout(CALL_LIMIT, calling).await;
        answer.map_or_else(|_| Err(unanswered()), |answer| answer.map_err(|error| classified(&error)))
    }

    /// The signals with this name that an object sends from now on. The stream ends with the connection.
    pub(crate) async fn signals(
        &self,
        service: &'static str,
        path: &'static str,
        interface: &'static str,
        signal: &'static str,
    ) -> Result<MessageStream, CallError> {
        let rule = MatchRule::builder().msg_type(Type::Signal).sender(service).path(path);
        let rule = rule.interface(interface).member(signal).build().map_err(|error| classified(&error))?;
        let subscribing = MessageStream::for_match_rule(rule, &self.0, None);
        let answer = tokio::time::timeout(CALL_LIMIT, subscribing).await;
        answer.map_or_else(|_| Err(unanswered()), |answer| answer.map_err(|error| classified(&error)))
    }
}

fn unanswered() -> CallError {
    CallError::Unanswered(format!("no answer within {} s", CALL_LIMIT.as_secs()))
}

/// Tells a call that was refused from a call that may have been carried out. After an error of the connection that is
/// not known. The same holds for the errors that the bus itself sends when a service went away or took too long.
fn classified(error: &zbus::Error) -> CallError {
    let Some((name, text)) = named(error) else {
        return CallError::Unanswered(shown(&error_chain(error)));
    };
    let text = shown(&text);
    match name.as_str() {
        "org.freedesktop.DBus.Error.NoReply"
        | "org.freedesktop.DBus.Error.Timeout"
        | "org.freedesktop.DBus.Error.TimedOut"
        | "org.freedesktop.DBus.Error.Disconnected" => CallError::Unanswered(format!("{name}: {text}")),
        _ => CallError::Refused { name, text },
    }
}

/// The name and the text of an error that came as an answer.
fn named(error: &zbus::Error) -> Option<(String, String)> {
    if let zbus::Error::MethodError(name, text, _) = error {
        return Some((name.to_string(), text.clone().unwrap_or_default()));
    }
    if let zbus::Error::FDO(known) = error {
        return Some((known.name().to_string(), known.description().unwrap_or_default().to_owned()));
    }
    None
}

/// A text of another program, cut to a length that fits into a status.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_root_has_only_its_own_socket() {
        let root = Root::new("/srv/test");
        let own = SystemBus::Socket(PathBuf::from("/srv/test/run/dbus/system_bus_socket"));
        assert_eq!(SystemBus::of(&root), own);
    }

    #[test]
    fn an_address_of_the_environment_counts_unless_it_is_empty() {
        let socket = || PathBuf::from("/s");
        for (variable, expected) in [
            (None, SystemBus::Socket(socket())),
            (Some(""), SystemBus::Socket(socket())),
            (Some("unix:path=/x"), SystemBus::Address("unix:path=/x".to_owned())),
        ] {
            assert_eq!(SystemBus::at(socket(), variable.map(str::to_owned)), expected);
        }
    }
}
