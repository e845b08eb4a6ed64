//! The accepted commands that are not done yet: the part of the state that survives a crash and a power cut.
//!
//! In a new boot, records on disk decide whether the earlier boot carried a command out. Any boot counts as a reboot. A
//! shutdown or poweroff was done only if nodeagent's ActionRecord of that boot says that it had begun: a power cut
//! loses a command that was only taken, and a device that was just switched on must not switch itself off.

use std::collections::{BTreeMap, BTreeSet};

use runtime::OwnRequest;
use schemas::{
    ActionRecord, CommandLine, CommandState, DoneCounters, GoTime, Operation, SCHEMA_VERSION, Source, Topic,
};
use serde::{Deserialize, Serialize};
use text::one_line;

use crate::facts::Kind;

/// Limit in bytes for a failure's reason in a record that was edited by hand; device-op writes shorter ones.
const MOST_ERROR_BYTES: usize = 4096;

/// Limit in bytes for the reason in the line of a command that is over.
const MOST_REASON_BYTES: usize = 512;

/// Reason shown for a poweroff if the power was cut before nodeagent had begun it.
const POWER_CUT_FIRST: &str = "the power was cut before it began: command it again. A device that was just switched on \
                               does not switch itself off";

/// The persistent record of device-op (agent `zedagent`, key `global`). It is written before a counter file is, so
/// that a command whose counter counts as done cannot be lost (D16).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperationRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which this was written.
    pub boot_id: String,
    /// The counters are kept per source. Until then, and after `/persist` was lost, every published command is only
    /// recorded, because it may have been done already.
    pub has_sources: bool,
    /// The operation that nodeagent was commanded to carry out.
    pub handed_over: Option<Accepted>,
    /// The commands that wait for the gate: at most one of each source and operation, the most far-reaching operation
    /// first.
    pub waiting: Vec<Accepted>,
    /// nodeagent has carried out the operation in `handed_over` and the device still runs: it is not carried out
    /// again.
    pub is_done: bool,
    /// device-op's own drain request.
    pub request: Option<OwnRequest>,
    /// The command for which the drain was requested: its answer serves this operation, and a window that closes does not
    /// end what has begun. None without a request, and once the operation is over.
    pub attempt: Option<Kind>,
    /// The failure of the last attempt. While its command is the next one, a pause runs.
    pub failed: Option<Failure>,
    /// Number of attempts in a row that failed after their drain, since the last new command.
    pub setbacks: u32,
    /// The counters that were carried out last.
    pub done: BTreeMap<Source, DoneCounters>,
    /// The last command of each source and operation that is over, and how it ended.
    pub ended: Vec<CommandLine>,
    /// The kinds whose command ended in this boot. Only these are reported in DeviceOpStatus without a request.
    pub of_this_boot: BTreeSet<Kind>,
}

/// An accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Accepted {
    pub operation: Operation,
    pub counter: u32,
    /// The agent that gave the command.
    #[serde(default)]
    pub source: Source,
    /// Accepted in an earlier boot: its file may be absent now without having been taken back.
    pub carried_over: bool,
    /// An operator's `--now`: neither a freeze nor the window holds this command.
    #[serde(default)]
    pub now: bool,
    /// An operator's `--at` or `--in`: no drain is requested for this command before.
    #[serde(default)]
    pub not_before: GoTime,
    /// An operator's `--without-record`: until this command is over, the whole record is in `/run` alone.
    #[serde(default)]
    pub without_record: bool,
}

impl Accepted {
    /// A command that is accepted in this boot.
    pub const fn new(kind: Kind, counter: u32) -> Self {
        let (source, operation) = kind;
        let not_before = GoTime::ZERO;
        Self {
            operation,
            counter,
            source,
            carried_over: false,
            now: false,
            not_before,
            without_record: false,
        }
    }

    /// Source and operation of the command.
    pub const fn kind(&self) -> Kind {
        (self.source, self.operation)
    }
}

/// The ways in which a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command was carried out.
    Done,
    /// The command was taken back before it was carried out.
    TakenBack,
    /// The command was never accepted, for this reason.
    OnlyRecorded(&'static str),
    /// A poweroff that may not have begun before the power was cut.
    PowerCutFirst,
}

/// A failed attempt to drain the node, or of nodeagent to carry out the operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Failure {
    /// The operation that was attempted.
    pub operation: Option<Operation>,
    /// The counter of its command.
    pub counter: u32,
    /// The source of its command.
    pub source: Source,
    /// The drain failed, not nodeagent.
    pub is_drain: bool,
    /// The reason, for display.
    pub error: String,
    /// Time of the failure, in milliseconds of this boot's clock.
    pub at_ms: u64,
}

impl Failure {
    /// A failure of nodeagent.
    pub(crate) const fn new(tried: Accepted, error: String, at_ms: u64) -> Self {
        let Accepted { operation, counter, source, .. } = tried;
        Self { operation: Some(operation), counter, source, is_drain: false, error, at_ms }
    }

    pub(crate) fn is_about(&self, accepted: &Accepted) -> bool {
        (self.operation, self.counter, self.source)
            == (Some(accepted.operation), accepted.counter, accepted.source)
    }
}

impl Topic for OperationRecord {
    const NAME: &'static str = "OperationRecord";
}

impl OperationRecord {
    /// An empty record.
    pub fn new(boot_id: &str) -> Self {
        Self { schema_version: SCHEMA_VERSION, boot_id: boot_id.to_owned(), ..Self::default() }
    }

    /// Brings a record that was read from a file into the order and the limits that the other functions rely on,
    /// because the file may have been edited by hand.
    pub(crate) fn within_limits(self) -> Self {
        let failed = self.failed.map(|failed| {
            let error = one_line(&failed.error, MOST_ERROR_BYTES);
            Failure { error, ..failed }
        });
        let is_done = self.is_done && self.handed_over.is_some();
        let of_this_boot = self.of_this_boot.clone();
        let mut record = Self { waiting: Vec::new(), ended: Vec::new(), is_done, failed, ..self };
        self.waiting.into_iter().for_each(|accepted| record.queue(accepted));
        for line in self.ended {
            let reason = one_line(&line.reason, MOST_REASON_BYTES);
            record.note(CommandLine { reason, ..line });
        }
        Self { of_this_boot, ..record }
    }

    /// True if the record holds nothing that has to survive a restart.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(&self.boot_id)
    }

    /// The current command: the one that was handed over, otherwise the most far-reaching that waits.
    pub fn current(&self) -> Option<&Accepted> {
        self.handed_over.as_ref().or_else(|| self.waiting.first())
    }

    /// The newest accepted command of this kind.
    pub fn latest(&self, kind: Kind) -> Option<&Accepted> {
        self.waiting.iter().chain(&self.handed_over).find(|accepted| accepted.kind() == kind)
    }

    /// The last command of this kind that is over.
    pub fn ended(&self, kind: Kind) -> Option<&CommandLine> {
        self.ended.iter().find(|line| (line.source, line.operation) == kind)
    }

    /// The commands that failed for good. Each stays until it is taken back or a new command of its kind comes.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = Accepted> {
        let failed = self.ended.iter().filter(|line| line.state == CommandState::Failed);
        failed.map(|line| Accepted {
            carried_over: true,
            ..Accepted::new((line.source, line.operation), line.counter)
        })
    }

    /// The commands that ended in this state in this boot.
    pub(crate) fn ended_now(&self, state: CommandState) -> impl Iterator<Item = &CommandLine> {
        let is_of_this_boot = move |line: &&CommandLine| {
            line.state == state && self.of_this_boot.contains(&(line.source, line.operation))
        };
        self.ended.iter().filter(is_of_this_boot)
    }

    /// True if a command without a record waits or is handed over: then the record is written to `/run` alone.
    pub fn is_without(&self) -> bool {
        self.waiting.iter().chain(&self.handed_over).any(|accepted| accepted.without_record)
    }

    /// Adds a waiting command in place of an older one of its kind. If two sources want the same operation, the
    /// source that comes first in [`Source::ALL`] goes first.
    pub(crate) fn queue(&mut self, accepted: Accepted) {
        self.waiting.retain(|waiting| waiting.kind() != accepted.kind());
        self.waiting.push(accepted);
        let rank = |operation| Operation::ALL.iter().position(|&rank| rank == operation);
        self.waiting.sort_by_key(|waiting| (rank(waiting.operation), waiting.source));
    }

    /// Moves a waiting command to `handed_over`.
    pub(crate) fn hand_over(&mut self, accepted: Accepted) {
        if self.handed_over.is_none() {
            self.waiting.retain(|waiting| waiting.kind() != accepted.kind());
            self.handed_over = Some(accepted);
        }
    }

    /// Moves the command from `handed_over` back to the waiting ones, unless it is done or a newer command of its
    /// kind waits.
    pub(crate) fn take_back_to_queue(&mut self) {
        if self.is_done {
            return self.drop_handed_over();
        }
        if let Some(accepted) = self.handed_over.take()
            && self.waiting.iter().all(|waiting| waiting.kind() != accepted.kind())
        {
            self.queue(accepted);
        }
    }

    /// Ends the command that was handed over. Its drain request serves no other command.
    pub(crate) fn drop_handed_over(&mut self) {
        if let Some(accepted) = self.handed_over.take()
            && !self.is_done
        {
            self.end(&accepted, Ended::TakenBack);
        }
        self.is_done = false;
        self.attempt = None;
    }

    /// Marks the command that was handed over as done, and with it every waiting command with this operation.
    /// Commands that come later are not done with it, so this happens only once.
    pub(crate) fn finish(&mut self) {
        let Some(done) = self.handed_over.filter(|_| !self.is_done) else { return };
        self.is_done = true;
        self.setbacks = 0;
        self.end(&done, Ended::Done);
        let served: Vec<_> =
            self.waiting.extract_if(.., |waiting| waiting.operation == done.operation).collect();
        for accepted in &served {
            self.end(accepted, Ended::Done);
        }
    }

    /// Notes how a command ended. A command without a record leaves no line, unless it was done.
    pub(crate) fn end(&mut self, accepted: &Accepted, how: Ended) {
        let Accepted { operation, counter, source, .. } = *accepted;
        let (state, reason) = match how {
            Ended::Done => {
                self.done.entry(source).or_default().set(operation, counter);
                (CommandState::Done, "")
            }
            Ended::TakenBack if accepted.without_record => return,
            Ended::TakenBack => (CommandState::TakenBack, ""),
            Ended::OnlyRecorded(why) => (CommandState::Recorded, why),
            Ended::PowerCutFirst => (CommandState::Failed, POWER_CUT_FIRST),
        };
        self.note(CommandLine { source, operation, counter, state, reason: reason.to_owned() });
    }

    /// Puts the line in place of the last one of its kind, and keeps the lines sorted by kind.
    fn note(&mut self, line: CommandLine) {
        let kind = |line: &CommandLine| (line.source, line.operation);
        self.of_this_boot.insert(kind(&line));
        self.ended.retain(|known| kind(known) != kind(&line));
        self.ended.push(line);
        self.ended.sort_by_key(kind);
    }

    /// The failure of this command, if its last attempt failed.
    pub(crate) fn failure_of(&self, accepted: Option<&Accepted>) -> Option<&Failure> {
        self.failed.as_ref().filter(|failed| accepted.is_some_and(|accepted| failed.is_about(accepted)))
    }

    /// Removes a failure whose command is over or was taken back.
    pub(crate) fn forget_stale_failure(&mut self) {
        let mut all = self.waiting.iter().chain(&self.handed_over);
        if self.failed.as_ref().is_some_and(|failed| all.all(|accepted| !failed.is_about(accepted))) {
            self.failed = None;
        }
    }

    /// The record as a new boot goes on from it. Any boot counts as a reboot, so every reboot is done. A shutdown or
    /// a poweroff is done if `acted` shows that nodeagent had begun it. If not, a shutdown goes on waiting, and a
    /// poweroff has failed.
    pub(crate) fn in_new_boot(self, boot_id: &str, acted: Option<&ActionRecord>) -> Self {
        let mut next = Self {
            has_sources: self.has_sources,
            request: self.request,
            done: self.done,
            ended: self.ended,
            ..Self::new(boot_id)
        };
        let has_begun = |accepted: &Accepted| {
            let is_it = |acted: &ActionRecord| {
                acted.boot_id == self.boot_id
                    && (acted.source, acted.command, acted.counter)
                        == (accepted.source, Some(accepted.operation), accepted.counter)
            };
            self.is_done || acted.is_some_and(is_it)
        };
        let begun = self.handed_over.filter(has_begun).map(|accepted| accepted.operation);
        for accepted in self.handed_over.into_iter().chain(self.waiting) {
            match accepted.operation {
                Operation::Reboot => next.end(&accepted, Ended::Done),
                Operation::Shutdown | Operation::Poweroff if begun == Some(accepted.operation) => {
                    next.end(&accepted, Ended::Done);
                }
                Operation::Shutdown => next.queue(Accepted { carried_over: true, ..accepted }),
                Operation::Poweroff => next.end(&accepted, Ended::PowerCutFirst),
            }
        }
        next
    }
}
