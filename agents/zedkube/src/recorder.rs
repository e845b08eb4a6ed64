//! The flight recorder: writes down what happens in each drain, for `ebb history` and `ebb report`. It is for people, and
//! nothing waits for it: a disk that takes nothing loses history, not drains.

mod known;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use drain::progress::attempt;
use drain::{Moment, diagnosis};
use pubsub::{Persistence, Root, TopicKey};
use runtime::drain_history::{self, DrainFile, MOST_BYTES_OF_ONE};
use runtime::retry::pause_after;
use runtime::{clock, error_chain, read_or_none, write_persistent};
use schemas::{
    DeviceAction, DrainEvent, DrainLine, DrainOrder, DrainRequester, DrainTotals, GoTime, Member,
    NodeDrainReport, NodeDrainStatus, Outcome, SCHEMA_VERSION, agent,
};
use session::{Phase, State};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use known::Known;

/// Longest time before a line is on disk; a change of the status is written at once.
const BATCH: Duration = Duration::from_secs(5);

/// Looks that wait for the recorder's task. If there are more, because the disk hangs, the newest are dropped: a later look
/// shows what has changed since.
const QUEUE: usize = 16;

/// Most bytes that wait for the disk.
const MOST_WAITING: usize = 256 * 1024;

/// A file has this much room for lines that are not about pods and volumes.
const ROOM_FOR_STATUS: u64 = 256 * 1024;

/// A file that has only this much room left is full.
const LAST_ROOM: u64 = 16 * 1024;

/// After the uncordon the node controller needs a moment to take its taint away: so long the Node may still show that it takes
/// no pods.
const LATE_TAINT: Duration = Duration::from_secs(20);

/// At a stop the last lines are written, if the disk needs no longer.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// What zedkube knows at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    at: GoTime,
    up: Moment,
    status: NodeDrainStatus,
    /// With all pods.
    report: NodeDrainReport,
    /// Why pods do not leave, by their UID.
    troubles: BTreeMap<String, String>,
    /// The pods of the report are those of a list, so one that it does not name has left.
    has_listed: bool,
    /// Nothing is left to do for a drain.
    is_over: bool,
    /// Our Node's kubelet says that it is ready; `None` while the API server has not shown the Node.
    is_ready: Option<bool>,
    action: Option<DeviceAction>,
    /// What operators have ordered since the last look, and who.
    orders: Vec<(String, String)>,
}

/// Hands what zedkube knows to the task that writes it down.
#[derive(Debug)]
pub(crate) struct Recorder {
    looks: mpsc::Sender<Box<Look>>,
    task: JoinHandle<()>,
    orders: Vec<(String, String)>,
    /// Nothing was left to do at the last look.
    was_over: bool,
}

impl Recorder {
    /// Starts the task. Has to be called in a tokio runtime; reads and writes nothing in this call.
    pub(crate) fn start(root: &Root) -> Self {
        let (looks, queue) = mpsc::channel(QUEUE);
        let task = tokio::spawn(record(root.clone(), queue));
        Self { looks, task, orders: Vec::new(), was_over: false }
    }

    /// Notes an operator's order.
    pub(crate) fn ordered(&mut self, order: DrainOrder, by: &str) {
        let order = match order {
            DrainOrder::Complete(DrainRequester::None) => {
                "every operation may go on WITHOUT a drain".to_owned()
            }
            DrainOrder::Complete(requester) => {
                format!("the operation of {requester} may go on WITHOUT a drain")
            }
            DrainOrder::Disable => "no drains until the next boot".to_owned(),
            DrainOrder::Enable => "drains are switched on again".to_owned(),
        };
        self.orders.push((order, by.to_owned()));
    }

    /// Has what has changed written down.
    pub(crate) fn look(
        &mut self,
        state: &State,
        status: NodeDrainStatus,
        report: &NodeDrainReport,
        action: Option<&DeviceAction>,
        now: Moment,
    ) {
        let is_over = is_over(state, report, now);
        if is_over && self.was_over {
            self.orders.clear();
            return;
        }
        let Ok(place) = self.looks.try_reserve() else { return };
        let attempt = attempt(&state.drain);
        place.send(Box::new(Look {
            at: clock::wall().into(),
            up: now,
            status,
            report: report.clone(),
            has_listed: attempt.is_some_and(|attempt| attempt.snapshot().is_some()),
            troubles: attempt.map(|attempt| troubles(attempt, now)).unwrap_or_default(),
            is_over,
            is_ready: state.own.as_ref().map(|own| own.ready),
            action: action.cloned(),
            orders: std::mem::take(&mut self.orders),
        }));
        self.was_over = is_over;
    }

    /// Writes what is left, if the disk does not need too long.
    pub(crate) async fn finish(self) {
        let Self { looks, task, .. } = self;
        drop(looks);
        if timeout(LAST_WRITE, task).await.is_err() {
            tracing::debug!("the last lines of the drain's history are not written: the disk takes too long");
        }
    }
}

/// Nothing is left to do for a drain: nobody asks for one, and what we had is given back. The Node shows for a moment after
/// the uncordon that it still takes no pods, so that counts only if it lasts.
fn is_over(state: &State, report: &NodeDrainReport, now: Moment) -> bool {
    let is_seen = state.own.is_some() || report.member == Member::No;
    let is_idle = state.phase == Phase::Idle && report.phase == Phase::Idle.name();
    let stays_cordoned = report.cordoned_before || state.since + LATE_TAINT <= now;
    is_seen && is_idle && (!report.cordoned || stays_cordoned)
}

/// Why pods do not leave, by their UID.
fn troubles(attempt: &drain::state::Attempt, now: Moment) -> BTreeMap<String, String> {
    let blocked = diagnosis::blocked(attempt, now);
    blocked.into_iter().map(|blocked| (blocked.pod.uid.clone(), blocked.trouble())).collect()
}

/// Lines that wait for the disk.
#[derive(Debug)]
struct Waiting {
    file: DrainFile,
    /// The file does not exist yet, so the oldest drains have to make room for it.
    is_new: bool,
    lines: Vec<u8>,
}

/// The drain that is recorded, and what is not on disk yet.
#[derive(Debug, Default)]
struct Recording {
    /// The file of the drain; `None` if there is none, or if it is over.
    file: Option<DrainFile>,
    /// The last drain, which may be over.
    last: Option<DrainFile>,
    known: Known,
    /// Bytes of the file, and of its lines that wait for the disk.
    bytes: u64,
    waiting: VecDeque<Waiting>,
    /// What is counted over all drains.
    totals: DrainTotals,
    /// The disk does not have the totals yet.
    is_uncounted: bool,
    /// When what waits is written; `None` if nothing waits.
    write_at: Option<Instant>,
    failures: u32,
}

/// Writes down what has changed between two looks, until nobody looks any more.
async fn record(root: Root, mut looks: mpsc::Receiver<Box<Look>>) {
    let from = root.clone();
    let mut recording = spawn_blocking(move || Recording::found(&from)).await.unwrap_or_default();
    loop {
        let looked = match recording.write_at {
            Some(at) => tokio::time::timeout_at(at, looks.recv()).await.ok(),
            None => Some(looks.recv().await),
        };
        match looked {
            Some(Some(look)) => recording.look(&look),
            Some(None) => {
                recording.write(&root).await;
                return;
            }
            None => {}
        }
        if recording.write_at.is_some_and(|at| at <= Instant::now()) {
            recording.write(&root).await;
        }
    }
}

impl Recording {
    /// What an earlier process has left: a drain that is not over is gone on with.
    fn found(root: &Root) -> Self {
        let folder = &drain_history::folder(root);
        let totals = read_or_none(root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global());
        let totals: DrainTotals = totals.unwrap_or_default();
        let files = drain_history::list(folder).unwrap_or_else(|refusal| {
            tracing::warn!("the history of earlier drains cannot be read: {refusal}");
            Vec::new()
        });
        let Some(file) = files.last() else { return Self { totals, ..Self::default() } };
        let last = Some(file.clone());
        let lines = drain_history::read(folder, file).unwrap_or_else(|refusal| {
            tracing::warn!("the history of the last drain cannot be read: {refusal}");
            Vec::new()
        });
        let known = Known::of(&lines);
        let bytes = lines.iter().map(|line| size(&line.to_line())).sum();
        let file = (!known.is_ended()).then(|| file.clone());
        let mut recording = Self { file, last, known, bytes, totals, ..Self::default() };
        // The earlier process may have been killed between the line and the count.
        recording.count(None);
        recording
    }

    /// Counts the outcome of the last drain, if it is not counted already.
    fn count(&mut self, reported: Option<Outcome>) {
        let Some(last) = &self.last else { return };
        let outcome = self.known.outcome().or_else(|| Some((reported?, None)));
        if let Some((outcome, took)) = outcome
            && self.totals.count(&last.drain_id, outcome, took)
        {
            self.totals.schema_version = SCHEMA_VERSION;
            self.is_uncounted = true;
            self.write_in(Duration::ZERO);
        }
    }

    /// Notes what has changed since the last look.
    fn look(&mut self, look: &Look) {
        let id = &look.report.drain_id;
        let is_another = |file: &DrainFile| !id.is_empty() && file.drain_id != *id;
        if self.file.as_ref().is_some_and(is_another) {
            let why = "another drain has begun".to_owned();
            self.add(look, DrainEvent::Ended { why });
            self.file = None;
        }
        if self.file.is_none() {
            // The report keeps the name of a drain that is over.
            let is_old = self.last.as_ref().is_some_and(|last| last.drain_id == *id);
            if id.is_empty() || is_old || look.is_over {
                return;
            }
            let number = self.last.as_ref().map_or(0, |last| last.number).saturating_add(1);
            self.file = Some(DrainFile { number, drain_id: id.clone() });
            self.last.clone_from(&self.file);
            (self.known, self.bytes) = (Known::default(), 0);
        }
        for event in self.known.changes(look) {
            self.add(look, event);
        }
        self.count(look.report.outcome);
        if self.known.is_ended() {
            self.file = None;
        }
    }

    /// Adds a line, if there is room for it.
    fn add(&mut self, look: &Look, event: DrainEvent) {
        let Some(file) = &self.file else { return };
        let is_urgent = is_urgent(&event);
        let line = DrainLine { at: look.at, up_millis: look.up.0, event };
        let was_cut = self.known.is_cut();
        // What has no room counts as written, so that it does not come up at each look.
        self.known.apply(&line);
        let is_detail = matches!(line.event, DrainEvent::Pod { .. } | DrainEvent::Volume { .. });
        let reserved = if is_detail { ROOM_FOR_STATUS } else { LAST_ROOM };
        let waits: usize = self.waiting.iter().map(|waiting| waiting.lines.len()).sum();
        let has_room = self.bytes + reserved < MOST_BYTES_OF_ONE && waits < MOST_WAITING;
        let line = match (has_room, was_cut) {
            (true, _) => line,
            (false, true) => return,
            (false, false) => {
                let cut = DrainLine { event: DrainEvent::LeftOut, ..line };
                self.known.apply(&cut);
                cut
            }
        };
        let bytes = line.to_line();
        let is_new = self.bytes == 0;
        self.bytes += size(&bytes);
        match self.waiting.back_mut().filter(|last| last.file == *file) {
            Some(last) => last.lines.extend(bytes),
            None => self.waiting.push_back(Waiting { file: file.clone(), is_new, lines: bytes }),
        }
        self.write_in(if is_urgent { Duration::ZERO } else { BATCH });
    }

    /// Writes after this time at the latest; after a failure its pause counts.
    fn write_in(&mut self, pause: Duration) {
        if self.failures == 0 {
            let at = Instant::now() + pause;
            self.write_at = Some(self.write_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Writes all that waits. What cannot be written waits on.
    async fn write(&mut self, root: &Root) {
        let (root, mut waiting) = (root.clone(), std::mem::take(&mut self.waiting));
        let totals = self.is_uncounted.then(|| self.totals.clone());
        let written = spawn_blocking(move || {
            let error = write_down(&root, &mut waiting, totals.as_ref()).err();
            (waiting, error)
        });
        let Ok((left, error)) = written.await else { return };
        self.waiting = left;
        self.write_at = None;
        self.is_uncounted &= error.is_some();
        let Some(error) = error else {
            if std::mem::take(&mut self.failures) > 0 {
                tracing::info!("the history of the drain can be written again");
            }
            return;
        };
        if self.failures == 0 {
            tracing::warn!("the history of the drain cannot be written (drains go on without it): {error}");
        }
        self.failures = self.failures.saturating_add(1);
        self.write_at = Some(Instant::now() + pause_after(self.failures));
    }
}

/// Writes file by file, and takes out what is written; then the totals.
fn write_down(
    root: &Root,
    waiting: &mut VecDeque<Waiting>,
    totals: Option<&DrainTotals>,
) -> Result<(), String> {
    let folder = &drain_history::folder(root);
    while let Some(next) = waiting.front() {
        if next.is_new {
            drain_history::make_room(folder)?;
        }
        drain_history::append(folder, &next.file, &next.lines).map_err(|error| error_chain(&error))?;
        waiting.pop_front();
    }
    let written = totals.map_or(Ok(()), |totals| write_persistent(root, agent::ZEDKUBE, totals));
    written.map_err(|error| error_chain(&error))
}

/// Such a line is written at once: the device may go down soon after it.
fn is_urgent(event: &DrainEvent) -> bool {
    match event {
        DrainEvent::Began { .. }
        | DrainEvent::Booted { .. }
        | DrainEvent::Phase { .. }
        | DrainEvent::Answered { .. }
        | DrainEvent::Operation { .. }
        | DrainEvent::Ordered { .. }
        | DrainEvent::Ended { .. } => true,
        DrainEvent::Restarted
        | DrainEvent::Asked { .. }
        | DrainEvent::Withdrawn { .. }
        | DrainEvent::Attempt { .. }
        | DrainEvent::AttemptEnded { .. }
        | DrainEvent::Pod { .. }
        | DrainEvent::Volume { .. }
        | DrainEvent::ApiAway { .. }
        | DrainEvent::ApiBack
        | DrainEvent::Node { .. }
        | DrainEvent::Slot { .. }
        | DrainEvent::LeftOut
        | DrainEvent::Unknown => false,
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
