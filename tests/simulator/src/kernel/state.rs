//! The tasks, the clock, and the choice of the next task.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::disk::{Disk, Kind};
use super::real;

/// The story is printed when so many bytes of it are there.
const MOST_STORY: usize = 64 << 10;
/// Switches within a second of simulated time; more mean that a task does the same again and again without a pause.
const MOST_SWITCHES: u64 = 200_000;

/// A thread that the kernel manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task(pub(super) u32);

/// A process is its first task, with the threads that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process(u32);

/// Ids of simulated processes begin here: the real kernel has none above 2^22.
const FIRST_PID: u32 = 5_000_000;
/// The folders of simulated processes, which are in `/proc` for those who look.
pub(super) const PROC: &str = "/simulated/proc";

impl Process {
    /// The first task of a history, and all that serves more than one device.
    pub(super) const WORLD: Self = Self(1);

    /// Its id, as `getpid` tells.
    pub(super) const fn id(self) -> u32 {
        FIRST_PID + self.0
    }

    /// The simulated process with this id; None for a process of the real kernel.
    pub(super) const fn with_id(id: u32) -> Option<Self> {
        match id.checked_sub(FIRST_PID) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    fn folder(self) -> String {
        format!("{PROC}/{}", self.id())
    }
}

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

/// The clocks of a machine. Its tasks are those that the world starts for it, and the threads that these start.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    /// Simulated time at which the clocks of the boot begin.
    booted_at: u64,
    /// How long it was suspended in this boot, in nanoseconds.
    suspended: u64,
    /// It is suspended until this time.
    stopped_until: u64,
    /// How far its wall clock is ahead, in nanoseconds; negative if it is behind.
    wall_ahead: i64,
}

/// Time between the beginning of a boot and the first agent that could start, in nanoseconds.
const UP: u64 = 20 * SECOND;
/// The wall clock at the beginning of a history: 2026-08-22T16:00:00Z, in nanoseconds.
const EPOCH: u64 = 1_787_414_400 * SECOND;
const SECOND: u64 = 1_000_000_000;

#[derive(Debug)]
struct Entry {
    name: String,
    machine: u32,
    process: Process,
    wait: Wait,
    turn: Arc<Turn>,
}

/// A file was put in place, or removed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The process.
    pub(crate) who: String,
    pub(crate) path: String,
    /// None if it was removed.
    pub(crate) content: Option<Vec<u8>>,
}

/// A stream of random numbers (splitmix64).
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A stream of random numbers of the world. What is drawn from one changes nothing that is drawn from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    World,
    Faults,
    /// Commands of the cluster.
    Commands,
    /// What the host asks for.
    Host,
    /// The times at which commands may begin.
    Times,
    /// Shutdowns that go round ebb.
    Shutdowns,
}

/// All that a history's scheduling depends on.
#[derive(Debug)]
pub(super) struct State {
    now: u64,
    /// The order of the tasks, and what they draw themselves.
    random: Random,
    /// What the world draws, by the stream.
    drawn: [Random; 6],
    /// The stream that is drawn from now.
    draws: Stream,
    tasks: BTreeMap<Task, Entry>,
    last: u32,
    next_name: Option<(String, u32)>,
    machines: BTreeMap<u32, Machine>,
    switches: u64,
    /// The second of simulated time in which they are counted.
    counted_second: u64,
    has_changed: bool,
    dead: BTreeSet<Process>,
    /// The dead processes whose tasks may end.
    released: BTreeSet<Process>,
    /// Processes that stand still until a time.
    stopped: BTreeMap<Process, u64>,
    /// Number of calls that change something, until the process is killed in the middle of one.
    kill_after: BTreeMap<Process, u32>,
    /// The name of a process, and how many calls it may still make before it dies in one; it counts in all its lives.
    doomed: Option<(String, u32)>,
    /// One of so many calls that change something lets other tasks go first; 0 is none.
    yields: u64,
    /// notify's thread, which all processes share here, and whom it has answered.
    notify: Option<Task>,
    answered: Vec<Task>,
    writes: Vec<Write>,
    /// What is not printed yet of the story.
    story: String,
    hidden: String,
    pub(super) disk: Disk,
    /// Sockets by their descriptor, and who made them.
    sockets: BTreeMap<RawFd, Process>,
}

impl State {
    pub(super) const fn with_seed(seed: u64) -> Self {
        Self {
            now: 0,
            random: Random(seed),
            drawn: [
                Random(!seed),
                Random(seed ^ (1 << 63)),
                Random(seed ^ (1 << 62)),
                Random(seed ^ (1 << 61)),
                Random(seed ^ (1 << 60)),
                Random(seed ^ (1 << 59)),
            ],
            draws: Stream::World,
            tasks: BTreeMap::new(),
            last: 0,
            next_name: None,
            machines: BTreeMap::new(),
            switches: 0,
            counted_second: 0,
            has_changed: false,
            dead: BTreeSet::new(),
            released: BTreeSet::new(),
            stopped: BTreeMap::new(),
            kill_after: BTreeMap::new(),
            doomed: None,
            yields: 0,
            notify: None,
            answered: Vec::new(),
            writes: Vec::new(),
            story: String::new(),
            hidden: String::new(),
            disk: Disk::new(),
            sockets: BTreeMap::new(),
        }
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// The next random number for a task.
    pub(super) const fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// The next random number for the world.
    pub(super) const fn draw(&mut self) -> u64 {
        self.drawn[self.draws as usize].next()
    }

    pub(super) const fn draw_from(&mut self, stream: Stream) {
        self.draws = stream;
    }

    pub(super) fn name_next(&mut self, name: &str, machine: u32) {
        self.next_name = Some((name.to_owned(), machine));
    }

    /// A new task, which is ready to begin. It has the name, machine and process of the task that starts it, unless
    /// [`name_next`](Self::name_next) has named others.
    pub(super) fn add(&mut self, by: Option<Task>) -> Task {
        self.last += 1;
        let task = Task(self.last);
        let parent = by.and_then(|by| self.tasks.get(&by));
        let of_parent = |entry: &Entry| (entry.name.clone(), entry.machine, entry.process);
        let inherited = parent.map_or_else(|| ("world".to_owned(), 0, Process::WORLD), of_parent);
        let (name, machine, process) = match self.next_name.take() {
            Some((name, machine)) => {
                let process = Process(task.0);
                self.show_process(process, &name);
                (name, machine, process)
            }
            None => inherited,
        };
        let (wait, turn) = (Wait::Nothing, Arc::default());
        self.tasks.insert(task, Entry { name, machine, process, wait, turn });
        task
    }

    /// What `/proc` tells of a process.
    fn show_process(&mut self, process: Process, name: &str) {
        let (folder, now) = (process.folder(), self.now);
        let name = name.rsplit(' ').next().unwrap_or(name);
        let files =
            [("stat", format!("{} ({name}) S 1", process.id())), ("status", "Uid:\t0\t0\t0\t0\n".to_owned())];
        self.disk.put_folder(&folder, now);
        for (file, text) in files {
            self.disk.put(&format!("{folder}/{file}"), text.as_bytes(), now);
        }
    }

    fn hide_process(&mut self, process: Process) {
        let folder = process.folder();
        self.disk.clear(&folder);
        // A process that never was shown has no folder.
        self.disk.remove(&folder, Kind::Folder).unwrap_or_default();
    }

    /// The process of a task. That of one that has ended is told as if it was its first.
    pub(super) fn process_of(&self, task: Task) -> Process {
        self.tasks.get(&task).map_or(Process(task.0), |entry| entry.process)
    }

    /// True if the process exists.
    pub(super) fn lives(&self, process: Process) -> bool {
        self.tasks.contains_key(&Task(process.0)) && !self.dead.contains(&process)
    }

    /// The task serves all machines and processes from now on.
    pub(super) fn is_notify(&mut self, task: Task) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            (entry.name, entry.machine, entry.process) = ("inotify".to_owned(), 0, Process::WORLD);
            self.notify = Some(task);
        }
    }

    fn machine_of(&self, task: Task) -> Machine {
        self.machines.get(&self.number_of_machine(task)).copied().unwrap_or_default()
    }

    /// The time of `CLOCK_MONOTONIC` on the machine of this task, in nanoseconds.
    pub(super) fn monotonic(&self, task: Task) -> u64 {
        let machine = self.machine_of(task);
        (UP + self.now).saturating_sub(machine.booted_at).saturating_sub(machine.suspended)
    }

    /// The time of `CLOCK_BOOTTIME`, in nanoseconds.
    pub(super) fn boottime(&self, task: Task) -> u64 {
        (UP + self.now).saturating_sub(self.machine_of(task).booted_at)
    }

    /// The time of `CLOCK_REALTIME`, in nanoseconds.
    pub(super) fn wall_clock(&self, task: Task) -> u64 {
        self.wall_clock_on(self.number_of_machine(task))
    }

    /// The same on this machine.
    pub(super) fn wall_clock_on(&self, machine: u32) -> u64 {
        let ahead = self.machines.get(&machine).map_or(0, |machine| machine.wall_ahead);
        (EPOCH + self.now).saturating_add_signed(ahead)
    }

    /// The simulated time at which the machine's `CLOCK_MONOTONIC` will have this value.
    pub(super) fn when_monotonic(&self, task: Task, value: u64) -> u64 {
        let machine = self.machine_of(task);
        (value + machine.booted_at + machine.suspended).saturating_sub(UP)
    }

    /// The machine's clocks begin again.
    pub(super) fn boots(&mut self, machine: u32) {
        let now = self.now;
        let machine = self.machines.entry(machine).or_default();
        (machine.booted_at, machine.suspended, machine.stopped_until) = (now, 0, 0);
    }

    /// The machine is suspended for so long: its tasks stand still, and their timers with them.
    pub(super) fn suspend(&mut self, machine: u32, nanos: u64) {
        let until = self.now + nanos;
        let suspended = self.machines.entry(machine).or_default();
        (suspended.suspended, suspended.stopped_until) = (suspended.suspended + nanos, until);
        for entry in self.tasks.values_mut().filter(|entry| entry.machine == machine) {
            if let Wait::Ready { until: Some(until), .. } | Wait::Futex { until: Some(until), .. } =
                &mut entry.wait
            {
                *until += nanos;
            }
        }
    }

    /// Sets the machine's wall clock by so many nanoseconds.
    pub(super) fn step_clock(&mut self, machine: u32, nanos: i64) {
        self.machines.entry(machine).or_default().wall_ahead += nanos;
    }

    /// The newest task.
    pub(super) const fn newest(&self) -> Task {
        Task(self.last)
    }

    /// From now on nothing that the task's process does has an effect, and it may end.
    pub(super) fn kill(&mut self, task: Task) {
        let process = self.process_of(task);
        self.die(process);
        self.released.insert(process);
    }

    /// The task's process is gone: its threads stand still for good, and what it had open is closed. To be used for one
    /// that cannot be told to end.
    pub(super) fn stop(&mut self, task: Task) {
        let process = self.process_of(task);
        self.die(process);
        self.disk.close_all(process);
        let sockets = std::mem::take(&mut self.sockets);
        let (closed, others) = sockets.into_iter().partition(|(_, of)| *of == process);
        self.sockets = others;
        let closed: BTreeMap<RawFd, Process> = closed;
        closed.into_keys().for_each(real::close);
    }

    /// Notes that the task has made this socket.
    pub(super) fn add_socket(&mut self, task: Task, socket: RawFd) {
        let process = self.process_of(task);
        self.sockets.insert(socket, process);
    }

    /// Notes that a descriptor was closed.
    pub(super) fn closed(&mut self, descriptor: RawFd) {
        self.sockets.remove(&descriptor);
    }

    pub(super) fn stand_still(&mut self, task: Task, until: u64) {
        let process = self.process_of(task);
        self.stopped.insert(process, until);
    }

    fn die(&mut self, process: Process) {
        self.stopped.remove(&process);
        self.kill_after.remove(&process);
        self.dead.insert(process);
        self.hide_process(process);
    }

    /// The task's process dies at its next call but `calls` that changes something.
    pub(super) fn kill_after(&mut self, task: Task, calls: u32) {
        let process = self.process_of(task);
        self.kill_after.insert(process, calls);
    }

    pub(super) fn set_yields(&mut self, yields: u64) {
        self.yields = yields;
    }

    pub(super) fn is_dead(&self, task: Task) -> bool {
        self.dead.contains(&self.process_of(task))
    }

    /// What becomes of a call of this task that changes something.
    pub(super) fn admit(&mut self, task: Task) -> Admission {
        if self.is_dead(task) {
            return Admission::Refused;
        }
        if self.is_last_call(task) {
            self.die(self.process_of(task));
            self.has_changed = true;
            return Admission::Killed;
        }
        let goes_first = self.yields != 0 && self.random().is_multiple_of(self.yields);
        if goes_first { Admission::Later } else { Admission::Granted }
    }

    /// Counts a call of this task that changes something. True if the task dies in it.
    fn is_last_call(&mut self, task: Task) -> bool {
        let process = self.process_of(task);
        let name = self.tasks.get(&task).map_or("", |entry| &entry.name);
        let doomed = self.doomed.as_mut().filter(|(doomed, _)| doomed == name).map(|(_, left)| left);
        if let Some(left) = doomed {
            if *left == 0 {
                self.doomed = None;
                return true;
            }
            *left -= 1;
        }
        match self.kill_after.get_mut(&process) {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// The process with this name dies in one of its calls that change something, after so many others.
    pub(super) fn doom(&mut self, name: &str, calls: u32) {
        self.doomed = Some((name.to_owned(), calls));
    }

    /// True if the process that was doomed has not died yet.
    pub(super) const fn is_doomed(&self) -> bool {
        self.doomed.is_some()
    }

    /// Notes that a task has put a file in place.
    pub(super) fn note_write(&mut self, task: Task, path: String) {
        self.has_changed = true;
        let content = self.disk.content(&path).map(<[u8]>::to_owned);
        self.writes.push(Write { who: self.name_of(task), path, content });
    }

    /// Wakes who waits for a change.
    pub(super) const fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// What was written since the last call.
    pub(super) fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// Begins to wait for the next change.
    pub(super) fn changes_are_seen(&mut self) {
        self.has_changed = false;
    }

    pub(super) fn add_line(&mut self, line: &str) {
        let hidden = if self.hidden.is_empty() { "\0" } else { &self.hidden };
        self.story.push_str(&line.replace(hidden, "API"));
        self.story.push('\n');
        if self.story.len() > MOST_STORY {
            self.print_story();
        }
    }

    /// Prints the story since the last call.
    pub(super) fn print_story(&mut self) {
        real::print(std::mem::take(&mut self.story).as_bytes());
    }

    /// The story tells `API` in place of this text.
    pub(super) fn hide(&mut self, text: &str) {
        text.clone_into(&mut self.hidden);
    }

    /// Notes what a task has written to its standard output.
    pub(super) fn said(&mut self, task: Task, bytes: &[u8]) {
        let (name, millis) = (self.name_of(task), self.now / 1_000_000);
        for line in String::from_utf8_lossy(bytes).lines() {
            self.add_line(&format!("{:>6}.{:03} {name:<16} says: {line}", millis / 1000, millis % 1000));
        }
    }

    /// The number of the task's machine; 0 for the world.
    pub(super) fn number_of_machine(&self, task: Task) -> u32 {
        self.tasks.get(&task).map_or(0, |entry| entry.machine)
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
        if let Some(Entry { process: Process(first), .. }) = self.tasks.remove(&task)
            && first == task.0
        {
            self.hide_process(Process(first));
        }
    }

    pub(super) fn hand_over(&self, next: Task) {
        if let Some(entry) = self.tasks.get(&next) {
            entry.turn.give();
        }
    }

    /// Wakes at most `most` tasks that wait for this address. Returns how many.
    pub(super) fn wake(&mut self, by: Task, woken: usize, most: usize) -> usize {
        let waiting = self.tasks.iter_mut().filter_map(|(task, entry)| match &mut entry.wait {
            Wait::Futex { address, is_woken, .. } if *address == woken && !*is_woken => {
                Some((task, is_woken))
            }
            _ => None,
        });
        let mut count = 0;
        for (task, is_woken) in waiting.take(most) {
            *is_woken = true;
            count += 1;
            if self.notify == Some(by) {
                self.answered.push(*task);
            }
        }
        count
    }

    /// True if the task was woken at its address, not by time.
    pub(super) fn was_woken(&self, task: Task) -> bool {
        matches!(self.tasks.get(&task), Some(Entry { wait: Wait::Futex { is_woken: true, .. }, .. }))
    }

    /// Chooses the next task. If none can go on, time passes until one can.
    pub(super) fn choose(&mut self) -> Task {
        self.switches += 1;
        if self.switches > MOST_SWITCHES {
            self.fail("nothing turns in circles: too many switches within a second");
        }
        loop {
            let ready = self.ready();
            // A watch is set in one go, as by a call of the kernel: whoever waits for it has a lock that all processes
            // share here, and would keep it if it were killed or suspended meanwhile.
            let first = self.answered.iter().chain(&self.notify).copied().find(|task| ready.contains(task));
            if let Some(first) = first {
                self.answered.retain(|task| *task != first);
                return first;
            }
            self.answered.clear();
            if !ready.is_empty() {
                let index = self.random() % ready.len() as u64;
                return ready[usize::try_from(index).unwrap_or_default()];
            }
            let can_go_on = self.tasks.values().filter(|entry| !self.stands_still(entry));
            let next = can_go_on.filter_map(|entry| self.ends_at(entry)).min();
            match next {
                Some(next) => self.now = self.now.max(next),
                None => self.fail("all tasks wait, and nothing will wake one"),
            }
            if self.counted_second != self.now / SECOND {
                (self.counted_second, self.switches) = (self.now / SECOND, 0);
            }
        }
    }

    /// When the task can go on at the latest.
    fn ends_at(&self, entry: &Entry) -> Option<u64> {
        match self.stopped_until(entry) {
            0 => entry.wait.until(),
            stopped => Some(stopped.max(entry.wait.until().unwrap_or_default())),
        }
    }

    /// The time until which the task's machine is suspended, or its process stands still; 0 if neither does.
    fn stopped_until(&self, entry: &Entry) -> u64 {
        // The world waits for the end of a process that it has killed, also on a suspended machine.
        if self.released.contains(&entry.process) {
            return 0;
        }
        let machine = self.machines.get(&entry.machine).map_or(0, |machine| machine.stopped_until);
        let until = self.stopped.get(&entry.process).map_or(machine, |until| machine.max(*until));
        if until > self.now { until } else { 0 }
    }

    /// True if the task's process is dead and its end is not allowed yet.
    fn stands_still(&self, entry: &Entry) -> bool {
        self.dead.contains(&entry.process) && !self.released.contains(&entry.process)
    }

    /// The tasks that can go on, in their order.
    fn ready(&self) -> Vec<Task> {
        let mut ready = Vec::new();
        let (mut asked, mut askers) = (Vec::new(), Vec::new());
        for (task, entry) in &self.tasks {
            if self.stands_still(entry) || self.stopped_until(entry) > 0 {
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
                    Wait::Dead => true,
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

    fn fail(&mut self, why: &str) -> ! {
        for line in self
            .tasks
            .iter()
            .map(|(task, entry)| format!("  {} {}: {:?}", task.0, entry.name, entry.wait))
            .collect::<Vec<_>>()
        {
            self.add_line(&line);
        }
        self.add_line(&format!("WRONG: {why}, at {} ns", self.now));
        self.print_story();
        // Other threads wait for their turn, and never get it.
        real::exit(1)
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
