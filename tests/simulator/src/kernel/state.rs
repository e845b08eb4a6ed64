//! The tasks, the clock, and the choice of the next task.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::real;

/// Switches without a moment of simulated time between them; more mean that the tasks turn in circles.
const MOST_SWITCHES: u64 = 2_000_000;

/// A thread that the kernel manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task(pub(super) u32);

/// What a task waits for.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    /// Nothing: it only lets others go first.
    Nothing,
    /// One of these descriptors is ready (`poll`'s events), or the time has come.
    Ready { descriptors: Vec<(RawFd, i16)>, until: Option<u64> },
    /// Somebody wakes this address, or the time has come.
    Futex { address: usize, is_woken: bool, until: Option<u64> },
    /// The task has ended.
    End(Task),
    /// A file was changed by another task, or the time has come.
    Change { until: u64 },
    /// The task was killed in the middle of a call, and waits for the world to clear up.
    Dead,
}

/// What becomes of a call that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is made.
    Granted,
    /// It is made when other tasks have gone first.
    Later,
    /// It is not made, and the task never goes on.
    Killed,
    /// It is not made, because the task is dead.
    Refused,
}

/// The place where a thread waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU32);

impl Turn {
    /// Waits until the turn was given, and takes it.
    pub(super) fn take(&self) {
        while self.0.swap(0, Ordering::Acquire) == 0 {
            real::futex_wait(&self.0, 0);
        }
    }

    fn give(&self) {
        self.0.store(1, Ordering::Release);
        real::futex_wake(&self.0);
    }
}

#[derive(Debug)]
struct Entry {
    name: String,
    wait: Wait,
    turn: Arc<Turn>,
}

/// All that a history's scheduling depends on.
#[derive(Debug)]
pub(super) struct State {
    now: u64,
    random: u64,
    tasks: BTreeMap<Task, Entry>,
    last: u32,
    next_name: Option<String>,
    switches: u64,
    has_changed: bool,
    dead: BTreeSet<Task>,
    /// The dead tasks that may end.
    released: BTreeSet<Task>,
    /// Number of calls that change something, until the task is killed in the middle of one.
    kill_after: BTreeMap<Task, u32>,
    /// One of so many calls that change something lets other tasks go first; 0 is none.
    yields: u64,
    /// Files that were put in place: who wrote, and the path.
    writes: Vec<(String, String)>,
    lines: Vec<String>,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            now: 0,
            random: 0,
            tasks: BTreeMap::new(),
            last: 0,
            next_name: None,
            switches: 0,
            has_changed: false,
            dead: BTreeSet::new(),
            released: BTreeSet::new(),
            kill_after: BTreeMap::new(),
            yields: 0,
            writes: Vec::new(),
            lines: Vec::new(),
        }
    }

    pub(super) fn with_seed(seed: u64) -> Self {
        Self { random: seed, ..Self::new() }
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// The next random number (splitmix64).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn name_next(&mut self, name: &str) {
        self.next_name = Some(name.to_owned());
    }

    /// A new task, which is ready to begin.
    pub(super) fn add(&mut self, default_name: &str) -> Task {
        self.last += 1;
        let task = Task(self.last);
        let name = self.next_name.take().unwrap_or_else(|| default_name.to_owned());
        self.tasks.insert(task, Entry { name, wait: Wait::Nothing, turn: Arc::default() });
        task
    }

    /// The newest task.
    pub(super) const fn newest(&self) -> Task {
        Task(self.last)
    }

    /// From now on nothing that the task does has an effect, and it may end.
    pub(super) fn kill(&mut self, task: Task) {
        self.dead.insert(task);
        self.released.insert(task);
        self.kill_after.remove(&task);
    }

    /// The task dies at its next call but `calls` that changes something.
    pub(super) fn kill_after(&mut self, task: Task, calls: u32) {
        self.kill_after.insert(task, calls);
    }

    pub(super) fn set_yields(&mut self, yields: u64) {
        self.yields = yields;
    }

    pub(super) fn is_dead(&self, task: Task) -> bool {
        self.dead.contains(&task)
    }

    /// What becomes of a call of this task that changes something.
    pub(super) fn admit(&mut self, task: Task) -> Admission {
        if self.is_dead(task) {
            return Admission::Refused;
        }
        if let Some(left) = self.kill_after.get_mut(&task) {
            if *left == 0 {
                self.kill_after.remove(&task);
                self.dead.insert(task);
                self.has_changed = true;
                return Admission::Killed;
            }
            *left -= 1;
        }
        let goes_first = self.yields != 0 && self.random().is_multiple_of(self.yields);
        if goes_first { Admission::Later } else { Admission::Granted }
    }

    /// Notes that a task has put a file in place.
    pub(super) fn note_write(&mut self, task: Task, path: String) {
        self.has_changed = true;
        let name = self.name_of(task);
        self.writes.push((name, path));
    }

    /// What was written since the last call.
    pub(super) fn take_writes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.writes)
    }

    /// Begins to wait for the next change.
    pub(super) fn changes_are_seen(&mut self) {
        self.has_changed = false;
    }

    pub(super) fn add_line(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    pub(super) fn name_of(&self, task: Task) -> String {
        self.tasks.get(&task).map(|entry| entry.name.clone()).unwrap_or_default()
    }

    pub(super) fn turn_of(&self, task: Task) -> Arc<Turn> {
        self.tasks.get(&task).map(|entry| Arc::clone(&entry.turn)).unwrap_or_default()
    }

    pub(super) fn waits(&mut self, task: Task, wait: Wait) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.wait = wait;
        }
    }

    pub(super) fn ends(&mut self, task: Task) {
        self.tasks.remove(&task);
    }

    pub(super) fn hand_over(&self, next: Task) {
        if let Some(entry) = self.tasks.get(&next) {
            entry.turn.give();
        }
    }

    /// Wakes at most `most` tasks that wait for this address. Returns how many.
    pub(super) fn wake(&mut self, woken: usize, most: usize) -> usize {
        let waiting = self.tasks.values_mut().filter_map(|entry| match &mut entry.wait {
            Wait::Futex { address, is_woken, .. } if *address == woken && !*is_woken => Some(is_woken),
            _ => None,
        });
        waiting.take(most).map(|is_woken| *is_woken = true).count()
    }

    /// True if the task was woken at its address, not by time.
    pub(super) fn was_woken(&self, task: Task) -> bool {
        matches!(self.tasks.get(&task), Some(Entry { wait: Wait::Futex { is_woken: true, .. }, .. }))
    }

    /// Chooses the next task. If none can go on, time passes until one can.
    pub(super) fn choose(&mut self) -> Task {
        self.switches += 1;
        if self.switches > MOST_SWITCHES {
            self.fail("the tasks turn in circles: no time passes");
        }
        loop {
            let ready = self.ready();
            if !ready.is_empty() {
                let index = self.random() % ready.len() as u64;
                return ready[usize::try_from(index).unwrap_or_default()];
            }
            let next = self.tasks.values().filter_map(|entry| entry.wait.until()).min();
            match next {
                Some(next) => self.now = self.now.max(next),
                None => self.fail("all tasks wait, and nothing will wake one"),
            }
            self.switches = 0;
        }
    }

    /// The tasks that can go on, in their order.
    fn ready(&self) -> Vec<Task> {
        let mut ready = Vec::new();
        let (mut asked, mut askers) = (Vec::new(), Vec::new());
        for (task, entry) in &self.tasks {
            let is_released = self.released.contains(task);
            if self.dead.contains(task) && !is_released {
                continue;
            }
            let is_time = entry.wait.until().is_some_and(|until| until <= self.now);
            let is_ready = is_time
                || match &entry.wait {
                    Wait::Nothing => true,
                    Wait::Ready { descriptors, .. } => {
                        asked.extend(descriptors.iter().copied());
                        askers.extend(descriptors.iter().map(|_| *task));
                        false
                    }
                    Wait::Futex { is_woken, .. } => *is_woken,
                    Wait::End(other) => !self.tasks.contains_key(other),
                    Wait::Change { .. } => self.has_changed,
                    Wait::Dead => is_released,
                };
            if is_ready {
                ready.push(*task);
            }
        }
        let found = real::ready_among(&asked);
        ready.extend(askers.into_iter().zip(found).filter(|(_, is_ready)| *is_ready).map(|(task, _)| task));
        ready.sort_unstable();
        ready.dedup();
        ready
    }

    fn fail(&self, why: &str) -> ! {
        for line in &self.lines {
            println!("{line}");
        }
        eprintln!("{why}, at {} ns", self.now);
        for (task, entry) in &self.tasks {
            eprintln!("  {} {}: {:?}", task.0, entry.name, entry.wait);
        }
        std::process::abort()
    }
}

impl Wait {
    const fn until(&self) -> Option<u64> {
        match self {
            Self::Ready { until, .. } | Self::Futex { until, .. } => *until,
            Self::Change { until } => Some(*until),
            Self::Nothing | Self::End(_) | Self::Dead => None,
        }
    }
}
