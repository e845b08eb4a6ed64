//! What has been accepted and is not done: the part of the state that survives a crash and a power cut.

use std::collections::{BTreeMap, BTreeSet};

use runtime::OwnRequest;
use schemas::{
    ActionRecord, CommandLine, CommandState, DoneCounters, Operation, SCHEMA_VERSION, Source, Topic,
};
use serde::{Deserialize, Serialize};
use text::one_line;

use crate::facts::Kind;

/// So much of a failure's reason is kept of a record that somebody has edited, in bytes; ours are shorter.
const MOST_ERROR_BYTES: usize = 4096;

/// The same for what is said of a command that is over.
const MOST_REASON_BYTES: usize = 512;

/// What an operator reads of a poweroff that a power cut came before.
const POWER_WENT_FIRST: &str = "the power went first: command it again. A site that was just switched on does not switch \
                                itself off";

/// The persistent record of zedagent, key `global`: on disk before a counter is, so that a command whose counter
/// counts as done cannot be lost (D16).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperationRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which this was written.
    pub boot_id: String,
    /// The device tells sources apart. Until then, and after `/persist` was lost, every command that stands is only
    /// recorded, since nobody can tell what was done.
    pub has_sources: bool,
    /// The one operation that nodeagent was told to carry out.
    pub handed_over: Option<Accepted>,
    /// The operations that wait for the gate, at most one of each source and operation, most far-reaching first.
    pub waiting: Vec<Accepted>,
    /// nodeagent is done with what was handed over, and the device still runs: it is not carried out again.
    pub is_done: bool,
    /// The drain request that is ours.
    pub request: Option<OwnRequest>,
    /// What that request was made for; nothing once that operation is over.
    pub asked_for: Option<Operation>,
    /// The last try of an operation failed; while that one is the next, a pause runs.
    pub failed: Option<Failure>,
    /// So many tries in a row failed after their drain, since the last new command.
    pub setbacks: u32,
    /// The counters that were carried out last.
    pub done: BTreeMap<Source, DoneCounters>,
    /// The last command of each source and operation that is over, and what became of it.
    pub ended: Vec<CommandLine>,
    /// The kinds whose command ended in this boot: only those are told without being asked for.
    pub of_this_boot: BTreeSet<Kind>,
}

/// One accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Accepted {
    /// What is to be done.
    pub operation: Operation,
    /// The command's counter.
    pub counter: u32,
    /// Where it comes from.
    #[serde(default)]
    pub source: Source,
    /// Accepted in an earlier boot: its command may be absent now without having been taken back.
    pub carried_over: bool,
    /// An operator's `--now`: a freeze does not hold it.
    #[serde(default)]
    pub now: bool,
    /// An operator's `--without-record`: the whole record is in `/run` alone while it is not over.
    #[serde(default)]
    pub without_record: bool,
}

impl Accepted {
    /// A command of this boot.
    pub const fn new(kind: Kind, counter: u32) -> Self {
        let (source, operation) = kind;
        Self { operation, counter, source, carried_over: false, now: false, without_record: false }
    }

    /// Who gave it, and what is to be done.
    pub const fn kind(&self) -> Kind {
        (self.source, self.operation)
    }
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was carried out.
    Done,
    /// Before it was carried out.
    TakenBack,
    /// It was never accepted, for this reason.
    OnlyRecorded(&'static str),
    /// A poweroff: nobody can tell that it had begun before the power went.
    PowerWentFirst,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Failure {
    /// What was tried.
    pub operation: Option<Operation>,
    /// The counter of its command.
    pub counter: u32,
    /// The source of its command.
    pub source: Source,
    /// It was the drain that failed, not nodeagent.
    pub is_drain: bool,
    /// Why.
    pub error: String,
    /// When, in milliseconds of this boot's clock.
    pub at_ms: u64,
}

impl Failure {
    /// nodeagent could not do it.
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
    /// Nothing accepted, nothing asked for.
    pub fn new(boot_id: &str) -> Self {
        Self { schema_version: SCHEMA_VERSION, boot_id: boot_id.to_owned(), ..Self::default() }
    }

    /// What can be made of a record that was read: in the order and the bounds that all others rely on, whoever wrote
    /// it.
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

    /// Nothing that has to survive.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(&self.boot_id)
    }

    /// The operation that counts now: the one handed over, else the most far-reaching that waits.
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

    /// The commands that failed for good, each until it is taken back or a new one of its kind comes.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = Accepted> {
        let failed = self.ended.iter().filter(|line| line.state == CommandState::Failed);
        failed.map(|line| Accepted {
            carried_over: true,
            ..Accepted::new((line.source, line.operation), line.counter)
        })
    }

    /// The commands of this state that ended in this boot.
    pub(crate) fn ended_now(&self, state: CommandState) -> impl Iterator<Item = &CommandLine> {
        let is_told = move |line: &&CommandLine| {
            line.state == state && self.of_this_boot.contains(&(line.source, line.operation))
        };
        self.ended.iter().filter(is_told)
    }

    /// It holds a command that is carried out although `/persist` takes no record: then it is in `/run` alone.
    pub fn is_without(&self) -> bool {
        self.waiting.iter().chain(&self.handed_over).any(|accepted| accepted.without_record)
    }

    /// Lets a command wait, in the place of an older one of its kind. Of two sources that want the same, the one that
    /// stands first in [`Source::ALL`] goes first.
    pub(crate) fn queue(&mut self, accepted: Accepted) {
        self.waiting.retain(|waiting| waiting.kind() != accepted.kind());
        self.waiting.push(accepted);
        let rank = |operation| Operation::ALL.iter().position(|&rank| rank == operation);
        self.waiting.sort_by_key(|waiting| (rank(waiting.operation), waiting.source));
    }

    /// Takes this operation, which waits, as handed over.
    pub(crate) fn hand_over(&mut self, accepted: Accepted) {
        if self.handed_over.is_none() {
            self.waiting.retain(|waiting| waiting.kind() != accepted.kind());
            self.handed_over = Some(accepted);
        }
    }

    /// The operation that was handed over waits again, unless it is done or a newer command of its kind waits.
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

    /// The operation that was handed over is over; its request serves no other one.
    pub(crate) fn drop_handed_over(&mut self) {
        if let Some(accepted) = self.handed_over.take()
            && !self.is_done
        {
            self.end(&accepted, Ended::TakenBack);
        }
        self.is_done = false;
        self.asked_for = None;
    }

    /// nodeagent is done with what was handed over. Whoever waits for the same has it now: once only, since what is
    /// commanded later was not done with it.
    pub(crate) fn finish(&mut self) {
        let Some(done) = self.handed_over.filter(|_| !self.is_done) else { return };
        self.is_done = true;
        self.setbacks = 0;
        self.end(&done, Ended::Done);
        let (served, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting: &Accepted| waiting.operation == done.operation);
        self.waiting = waiting;
        let served: Vec<Accepted> = served;
        for accepted in &served {
            self.end(accepted, Ended::Done);
        }
    }

    /// Notes how a command ended. One without a record leaves no trace in it, unless it was done.
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
            Ended::PowerWentFirst => (CommandState::Failed, POWER_WENT_FIRST),
        };
        self.note(CommandLine { source, operation, counter, state, reason: reason.to_owned() });
    }

    /// In the place of the last one of its kind, in a fixed order.
    fn note(&mut self, line: CommandLine) {
        let kind = |line: &CommandLine| (line.source, line.operation);
        self.of_this_boot.insert(kind(&line));
        self.ended.retain(|known| kind(known) != kind(&line));
        self.ended.push(line);
        self.ended.sort_by_key(kind);
    }

    /// The failure of this operation, if its last try failed.
    pub(crate) fn failure_of(&self, accepted: Option<&Accepted>) -> Option<&Failure> {
        self.failed.as_ref().filter(|failed| accepted.is_some_and(|accepted| failed.is_about(accepted)))
    }

    /// A failure of what is not to be done any more means nothing.
    pub(crate) fn forget_stale_failure(&mut self) {
        let mut all = self.waiting.iter().chain(&self.handed_over);
        if self.failed.as_ref().is_some_and(|failed| all.all(|accepted| !failed.is_about(accepted))) {
            self.failed = None;
        }
    }

    /// What is left after a boot. Any boot is a reboot: whoever waited for one has it. Of a shutdown and a poweroff
    /// `acted` tells whether nodeagent had begun: if not, a shutdown goes on waiting, and a poweroff has failed.
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
                Operation::Poweroff => next.end(&accepted, Ended::PowerWentFirst),
            }
        }
        next
    }
}
