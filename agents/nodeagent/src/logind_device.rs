//! systemd-logind as a means to take the device down: it stops all services in order.

use std::time::Duration;

use pubsub::Root;
use runtime::error_chain;
use schemas::Operation;

use crate::facts::Outcome;
use crate::logind::{Answer, Inhibitors, Logind};
use crate::system_bus::{ConnectError, SystemBus};

/// Takes the device down by systemd-logind, if this device has it.
///
/// If a program forbids the shutdown (an inhibitor in mode `block`), nodeagent waits about four minutes, and then
/// skips its lock. If logind refuses that, too, this means has failed and the next one follows: an inhibitor must not
/// keep a drained device up for ever.
#[derive(Debug)]
pub(crate) struct LogindDevice {
    bus: SystemBus,
    patience: Patience,
}

/// Limits of the wait for inhibitors.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Number of checks.
    looks: u32,
    /// Time between two checks.
    pause: Duration,
}

/// In total less than [`crate::policy::STILL_UP`], so that one more request fits in.
const PATIENCE: Patience = Patience { looks: 48, pause: Duration::from_secs(5) };

impl LogindDevice {
    /// The logind on the system bus below `root`.
    pub(crate) fn new(root: &Root) -> Self {
        Self { bus: SystemBus::of(root), patience: PATIENCE }
    }

    /// True if there is a system bus with logind on it.
    pub(crate) async fn is_there(&self) -> bool {
        let Ok(bus) = self.bus.connect().await else { return false };
        matches!(Logind::find(bus).await, Ok(Some(_)))
    }

    /// Requests the operation from logind, and waits for inhibitors.
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

    /// Waits for inhibitors up to the limit, then requests the operation.
    async fn ask(&self, logind: &Logind, operation: Operation) -> Outcome {
        let mut holders = String::new();
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
            if why != holders {
                let seconds = self.patience.pause.saturating_mul(self.patience.looks).as_secs();
                tracing::warn!(
                    "{operation} waits at most {seconds} s for the programs that inhibit it: {why}"
                );
                holders = why;
            }
            tokio::time::sleep(self.patience.pause).await;
        }
        tracing::warn!("{operation} goes on and skips the locks of the programs that inhibit it: {holders}");
        outcome(operation, logind.ask(operation, Inhibitors::Skipped).await, &holders)
    }
}

/// The outcome of logind's answer. If logind did not answer, it may have begun and may be stopping services in order:
/// the next means must not interrupt that before the time is over.
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
