//! systemd-logind as a means of the device: it stops everything in order.

use std::time::Duration;

use pubsub::Root;
use runtime::error_chain;
use schemas::Operation;

use crate::logind::{Answer, Inhibitors, Logind};
use crate::progress::Outcome;
use crate::system_bus::{ConnectError, SystemBus};

/// Asks systemd-logind, if this device has it.
///
/// A program that forbids the shutdown (an inhibitor in mode `block`) is waited for, about four minutes; after that
/// its lock is skipped. If that is refused, too, this means has failed and the next one follows: nothing keeps a
/// drained device up for ever.
#[derive(Debug)]
pub(crate) struct LogindDevice {
    bus: SystemBus,
    patience: Patience,
}

/// How long inhibitors are waited for.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// So many looks.
    looks: u32,
    /// The time between two.
    pause: Duration,
}

/// Together less than [`crate::progress::STILL_UP`], so that there is time left to ask once more.
const PATIENCE: Patience = Patience { looks: 48, pause: Duration::from_secs(5) };

impl LogindDevice {
    /// The logind of a root.
    pub(crate) fn new(root: &Root) -> Self {
        Self { bus: SystemBus::of(root), patience: PATIENCE }
    }

    /// There is a system bus, and logind on it.
    pub(crate) async fn is_there(&self) -> bool {
        let Ok(bus) = self.bus.connect().await else { return false };
        matches!(Logind::find(bus).await, Ok(Some(_)))
    }

    /// Asks for it, and waits for what forbids it.
    pub(crate) async fn take_down(&self, operation: Operation) -> Outcome {
        let bus = match self.bus.connect().await {
            Ok(bus) => bus,
            Err(error @ ConnectError::Absent(_)) => return absent(&error.to_string()),
            Err(error @ (ConnectError::Refused(..) | ConnectError::Silent { .. })) => {
                return failed(operation, &error_chain(&error));
            }
        };
        match Logind::find(bus).await {
            Ok(Some(logind)) => self.ask(&logind, operation).await,
            Ok(None) => absent(&format!("the system bus at {} has none", self.bus)),
            Err(error) => failed(operation, &format!("the system bus at {}: {error}", self.bus)),
        }
    }

    /// Waits for inhibitors, but not for ever.
    async fn ask(&self, logind: &Logind, operation: Operation) -> Outcome {
        let mut told = String::new();
        for _ in 0..self.patience.looks {
            let mut why = logind.holders().await.join(", ");
            if why.is_empty() {
                match logind.ask(operation, Inhibitors::Respected).await {
                    Answer::Inhibited(text) => why = text,
                    answer @ (Answer::Taken
                    | Answer::InProgress(_)
                    | Answer::Refused(_)
                    | Answer::Unanswered(_)) => return outcome(operation, answer, ""),
                }
            }
            if why != told {
                let seconds = self.patience.pause.saturating_mul(self.patience.looks).as_secs();
                tracing::warn!("{operation} waits, at most {seconds} s, for what forbids it: {why}");
                told = why;
            }
            tokio::time::sleep(self.patience.pause).await;
        }
        tracing::warn!("{operation} goes on over what forbids it: {told}");
        outcome(operation, logind.ask(operation, Inhibitors::Skipped).await, &told)
    }
}

/// A call without an answer may have been obeyed, and then everything is being stopped in order: the next means
/// must not cut into that before its time.
fn outcome(operation: Operation, answer: Answer, inhibitors: &str) -> Outcome {
    match answer {
        Answer::Taken => Outcome::Started(format!("systemd-logind has begun the {operation}")),
        Answer::InProgress(text) => {
            Outcome::Started(format!("systemd-logind is taking the device down already ({text})"))
        }
        Answer::Unanswered(text) => {
            Outcome::Started(format!("systemd-logind may have begun the {operation} ({text})"))
        }
        Answer::Inhibited(text) | Answer::Refused(text) if inhibitors.is_empty() => failed(operation, &text),
        Answer::Inhibited(text) | Answer::Refused(text) => {
            failed(operation, &format!("{text}; it is forbidden by {inhibitors}"))
        }
    }
}

fn absent(why: &str) -> Outcome {
    Outcome::Absent(format!("no systemd-logind: {why}"))
}

fn failed(operation: Operation, why: &str) -> Outcome {
    Outcome::Failed(format!(
        "systemd-logind does not {operation}: {why} (allow it to nodeagent's user in polkit, see \
         `systemd-inhibit --list` and `journalctl -u systemd-logind`, or set device.command)"
    ))
}

#[cfg(test)]
mod tests;
