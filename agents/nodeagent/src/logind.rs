//! The D-Bus interface of systemd-logind: the calls, and the meaning of its answers.
//!
//! The interface is described in org.freedesktop.login1(5). Only this module interprets the names of errors.

use std::time::Duration;

use futures::future::ready;
use futures::{Stream, StreamExt};
use schemas::Operation;
use zbus::message::Message;
use zbus::{OwnedFd, OwnedVariant};

use crate::system_bus::{Bus, CallError, shown};

const SERVICE: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// `SD_LOGIND_SKIP_INHIBITORS`, since systemd 257.
const SKIP_INHIBITORS: u64 = 1 << 4;
/// Limit for the number of inhibitors that are named in a text.
const MAX_HOLDERS: usize = 8;

/// A connection to systemd-logind.
#[derive(Debug)]
pub(crate) struct Logind {
    bus: Bus,
}

/// The treatment of inhibitor locks, by which programs forbid a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inhibitors {
    /// A lock forbids the shutdown.
    Respected,
    /// The shutdown ignores the locks.
    Skipped,
}

/// logind's answer to a reboot or poweroff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// logind has begun the operation.
    Taken,
    /// The device is going down already; the text is logind's.
    InProgress(String),
    /// An inhibitor lock forbids the operation.
    Inhibited(String),
    /// logind refuses for another reason.
    Refused(String),
    /// logind did not answer: it may have begun the operation.
    Unanswered(String),
}

/// An inhibitor in the answer to `ListInhibitors`: what, who, why, mode, user, process.
type Inhibitor = (String, String, String, String, u32, u32);

impl Logind {
    /// Finds logind: its name has an owner, or the bus can start it. None if the bus has no logind.
    pub(crate) async fn find(bus: Bus) -> Result<Option<Self>, CallError> {
        let is_there = ask_bus::<bool, _>(&bus, "NameHasOwner", &(SERVICE,)).await?
            || ask_bus::<Vec<String>, _>(&bus, "ListActivatableNames", &())
                .await?
                .iter()
                .any(|name| name == SERVICE);
        Ok(is_there.then_some(Self { bus }))
    }

    /// Takes a lock that delays a shutdown, or forbids it. It is held until the file descriptor is closed.
    pub(crate) async fn inhibit(&self, mode: &str, why: &str) -> Result<OwnedFd, CallError> {
        let answer =
            self.bus.call(SERVICE, PATH, MANAGER, "Inhibit", &("shutdown", "ebb", why, mode)).await?;
        answer.body().deserialize().map_err(|error| CallError::Unanswered(error.to_string()))
    }

    /// The announcements that a shutdown begins, or was called off, from now on.
    pub(crate) async fn announcements(&self) -> Result<impl Stream<Item = bool> + use<>, CallError> {
        let signals = self.bus.signals(SERVICE, PATH, MANAGER, "PrepareForShutdown").await?;
        let begins = |signal: zbus::Result<Message>| signal.ok()?.body().deserialize::<bool>().ok();
        Ok(signals.filter_map(move |signal| ready(begins(signal))))
    }

    /// True if logind has announced a shutdown, and not called it off.
    pub(crate) async fn is_preparing(&self) -> Result<bool, CallError> {
        self.property::<bool>("PreparingForShutdown").await
    }

    /// How long logind waits for the locks in mode `delay`.
    pub(crate) async fn longest_delay(&self) -> Result<Duration, CallError> {
        self.property::<u64>("InhibitDelayMaxUSec").await.map(Duration::from_micros)
    }

    async fn property<T: TryFrom<OwnedVariant>>(&self, name: &str) -> Result<T, CallError> {
        let answer = self.bus.call(SERVICE, PATH, PROPERTIES, "Get", &(MANAGER, name)).await?;
        let value = answer.body().deserialize::<OwnedVariant>();
        let value = value.map_err(|error| CallError::Unanswered(error.to_string()))?;
        T::try_from(value).map_err(|_| CallError::Unanswered(format!("property {name} is of another type")))
    }

    /// The programs that forbid a shutdown now, as texts. None if logind cannot list them: the answer to the
    /// operation will show it.
    pub(crate) async fn holders(&self) -> Vec<String> {
        let listed = match self.bus.call(SERVICE, PATH, MANAGER, "ListInhibitors", &()).await {
            Ok(answer) => answer.body().deserialize::<Vec<Inhibitor>>().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match listed {
            Ok(listed) => holders(&listed),
            Err(error) => {
                tracing::debug!("cannot list the inhibitors of systemd-logind: {error}");
                Vec::new()
            }
        }
    }

    /// Requests a reboot or a poweroff, and never asks for a password.
    pub(crate) async fn ask(&self, operation: Operation, inhibitors: Inhibitors) -> Answer {
        let Some((method, with_flags)) = methods(operation) else {
            return Answer::Refused(format!("systemd-logind has no {operation}"));
        };
        if inhibitors == Inhibitors::Skipped {
            match self.bus.call(SERVICE, PATH, MANAGER, with_flags, &(SKIP_INHIBITORS,)).await {
                // A logind that does not know the flag does not apply inhibitors to root, so the plain method is
                // enough.
                Err(CallError::Refused { name, .. }) if is_older(&name) => {}
                answer => return judged(answer.map(|_| ())),
            }
        }
        judged(self.bus.call(SERVICE, PATH, MANAGER, method, &(false,)).await.map(|_| ()))
    }
}

/// The methods of an operation: with `interactive`, and with flags.
const fn methods(operation: Operation) -> Option<(&'static str, &'static str)> {
    match operation {
        Operation::Reboot => Some(("Reboot", "RebootWithFlags")),
        Operation::Poweroff => Some(("PowerOff", "PowerOffWithFlags")),
        Operation::Shutdown => None,
    }
}

/// True if logind is older than systemd 246 (no such method) or 257 (no such flag).
fn is_older(error: &str) -> bool {
    matches!(error, "org.freedesktop.DBus.Error.UnknownMethod" | "org.freedesktop.DBus.Error.InvalidArgs")
}

fn judged(answer: Result<(), CallError>) -> Answer {
    match answer {
        Ok(()) => Answer::Taken,
        Err(CallError::Unanswered(text)) => Answer::Unanswered(text),
        Err(CallError::Refused { name, text }) => {
            let words = format!("{name}: {text}");
            match name.as_str() {
                "org.freedesktop.login1.OperationInProgress" => Answer::InProgress(words),
                "org.freedesktop.login1.BlockedByInhibitorLock" => Answer::Inhibited(words),
                _ => Answer::Refused(words),
            }
        }
    }
}

/// The inhibitors in mode `block` for a shutdown. logind waits for `delay` by itself, and `block-weak` does not apply
/// to root.
fn holders(inhibitors: &[Inhibitor]) -> Vec<String> {
    let forbids = |what: &str, mode: &str| mode == "block" && what.split(':').any(|what| what == "shutdown");
    inhibitors
        .iter()
        .filter(|(what, _, _, mode, _, _)| forbids(what, mode))
        .take(MAX_HOLDERS)
        .map(|(_, who, why, _, _, process)| shown(&format!("{who} (process {process}: {why})")))
        .collect()
}

/// Calls a method of the bus itself.
async fn ask_bus<T, B>(bus: &Bus, method: &str, body: &B) -> Result<T, CallError>
where
    T: serde::de::DeserializeOwned + zbus::Type,
    B: serde::Serialize + zbus::DynamicType,
{
    let name = "org.freedesktop.DBus";
    let answer = bus.call(name, "/org/freedesktop/DBus", name, method, body).await?;
    answer.body().deserialize().map_err(|error| CallError::Unanswered(error.to_string()))
}

#[cfg(test)]
pub(crate) mod stand_in;
#[cfg(test)]
mod tests;
