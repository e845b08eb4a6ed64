//! A kernel for threads of this process: one runs at a time, and time passes only when all of them wait.
//!
//! A managed thread gives up its turn where it would wait: in `epoll_wait`, `poll`, a futex or `pthread_join`. The
//! kernel then chooses the next thread, by the seed, among those that can go on. If there is none, the clock moves to
//! the next deadline. So a history depends on its seed only.

mod calls;
mod changes;
mod disk;
mod files;
mod real;
mod sockets;
mod state;

pub(crate) use disk::{DiskFault, ROOT};
pub(crate) use real::{limit_time, stay_on_core};
pub(crate) use state::{Stream, Task, Write};

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use state::{Random, State, Wait};

/// The task of this thread, also in the kernel's own code.
fn this_task() -> Task {
    Task(TASK.get())
}

/// True while a history runs.
static IS_ON: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<State> = Mutex::new(State::with_seed(0));

thread_local! {
    /// The task of this thread; 0 for a thread that is not managed.
    static TASK: Cell<u32> = const { Cell::new(0) };
    /// The thread runs code of the kernel, for which time and waiting are real.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The managed task of this thread, unless it is in the kernel's own code.
fn current() -> Option<Task> {
    if !IS_ON.load(Ordering::Relaxed) || IS_INSIDE.get() {
        return None;
    }
    let task = TASK.get();
    (task != 0).then_some(Task(task))
}

fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Runs code of the kernel.
fn inside<T>(run: impl FnOnce() -> T) -> T {
    let before = IS_INSIDE.replace(true);
    let result = run();
    IS_INSIDE.set(before);
    result
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives up the turn until `wait` is over and the kernel chooses this task again.
fn give_up(task: Task, wait: Wait) {
    inside(|| {
        let turn = {
            let mut state = state();
            state.waits(task, wait);
            let next = state.choose();
            if next == task {
                return;
            }
            state.hand_over(next);
            state.turn_of(task)
        };
        turn.take();
    });
}

/// Waits for the first turn of a new task, on its own thread.
fn begin(task: Task) {
    TASK.set(task.0);
    inside(|| {
        let turn = state().turn_of(task);
        turn.take();
    });
}

/// Ends the task of this thread and passes the turn on.
fn end(task: Task) {
    TASK.set(0);
    inside(|| {
        let mut state = state();
        state.ends(task);
        let next = state.choose();
        state.hand_over(next);
    });
}

/// Runs a history: `world` is its first task, and the threads that it starts are managed as well.
pub(crate) fn run<T>(seed: u64, world: impl FnOnce() -> T) -> T {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // With one core it was told where to run.
    if cores > 1 {
        stay_on_core(usize::try_from(seed).unwrap_or_default() % cores);
    }
    let first = inside(|| {
        let mut state = state();
        *state = State::with_seed(seed);
        state.add(None)
    });
    TASK.set(first.0);
    IS_ON.store(true, Ordering::Relaxed);
    let result = world();
    IS_ON.store(false, Ordering::Relaxed);
    TASK.set(0);
    result
}

/// Starts a thread with this name on this machine. Its task is what [`kill`] takes.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    machine: u32,
    run: impl FnOnce() -> T + Send + 'static,
) -> (Task, std::thread::JoinHandle<T>) {
    inside(|| state().name_next(name, machine));
    let thread = std::thread::spawn(run);
    (inside(|| state().newest()), thread)
}

/// From now on nothing that the task does has an effect; what waits in it may end.
pub(crate) fn kill(task: Task) {
    inside(|| state().kill(task));
}

/// The process of the task is gone at once: its threads stand still for good.
pub(crate) fn stop(task: Task) {
    inside(|| state().stop(task));
}

/// The process of the task stands still until this time, as after SIGSTOP.
pub(crate) fn stand_still(task: Task, until: u64) {
    inside(|| state().stand_still(task, until));
}

/// The task dies in the middle of a call: the next one but `calls` that changes something. [`is_dead`] tells when.
pub(crate) fn kill_after(task: Task, calls: u32) {
    inside(|| state().kill_after(task, calls));
}

/// The process with this name dies in one of its calls that change something, after so many others: in whichever life it
/// makes that call.
pub(crate) fn doom(name: &str, calls: u32) {
    inside(|| state().doom(name, calls));
}

/// True if the process that was doomed has not died yet.
pub(crate) fn is_doomed() -> bool {
    inside(|| state().is_doomed())
}

/// True if the task was killed.
pub(crate) fn is_dead(task: Task) -> bool {
    inside(|| state().is_dead(task))
}

/// One of so many calls that change something lets other tasks go first; 0 is none.
pub(crate) fn set_yields(one_of: u64) {
    inside(|| state().set_yields(one_of));
}

/// A random number below `limit`.
pub(crate) fn below(limit: u64) -> u64 {
    inside(|| state().draw() % limit.max(1))
}

/// From now on [`below`] draws from this stream. Faults have one of their own, so that a history without them is otherwise
/// the same.
pub(crate) fn draw_from(stream: Stream) {
    inside(|| state().draw_from(stream));
}

/// Waits until another task changes a file, or until this time.
pub(crate) fn wait_for_change(until: u64) {
    if let Some(task) = current() {
        give_up(task, Wait::Change { until });
        inside(|| state().changes_are_seen());
    }
}

/// The files that were put in place or removed since the last call.
pub(crate) fn take_writes() -> Vec<Write> {
    inside(|| state().take_writes())
}

/// Wakes the task that waits for a change.
pub(crate) fn note_change() {
    inside(|| state().note_change());
}

/// True if the process of this thread is dead.
pub(crate) fn is_this_dead() -> bool {
    let task = this_task();
    inside(|| state().is_dead(task))
}

/// Puts a file on the simulated disk, with the folders above it.
pub(crate) fn put_file(path: &str, text: &[u8]) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    files::on_disk(|disk| {
        disk.put_folder(folder, 0);
        disk.put(path, text, 0);
    });
}

/// Everything below this path is removed, as from a `tmpfs`.
pub(crate) fn clear(folder: &str) {
    files::on_disk(|disk| disk.clear(folder));
}

/// All that the device with this root has written is durable from now on.
pub(crate) fn sync_all(device: &str) {
    files::on_disk(|disk| disk.sync_all(device));
}

/// The machine's clocks begin again, as in a boot.
pub(crate) fn boots(machine: u32) {
    inside(|| state().boots(machine));
}

/// The machine is suspended for so many nanoseconds.
pub(crate) fn suspend(machine: u32, nanos: u64) {
    inside(|| state().suspend(machine, nanos));
}

/// Steps the machine's wall clock by so many nanoseconds.
pub(crate) fn step_clock(machine: u32, nanos: i64) {
    inside(|| state().step_clock(machine, nanos));
}

/// The power of the device with this root goes.
pub(crate) fn cut_power(device: &str) {
    inside(|| {
        let mut state = state();
        let mut numbers = Random(state.draw());
        state.disk.cut_power(device, || numbers.next());
    });
}

/// Sets what is wrong with the files whose path begins so; None ends it.
pub(crate) fn set_disk_fault(prefix: &str, fault: Option<DiskFault>) {
    files::on_disk(|disk| disk.set_fault(prefix, fault));
}

/// Adds a line to the story, unless the task is dead.
pub(crate) fn add_line(line: &str) {
    let task = TASK.get();
    inside(|| {
        let mut state = state();
        if !state.is_dead(Task(task)) {
            state.add_line(line);
        }
    });
}

/// Prints what was not printed yet of the story.
pub(crate) fn print_story() {
    inside(|| state().print_story());
}

/// The story tells `API` in place of this text, which is another one in each run.
pub(crate) fn hide(text: &str) {
    inside(|| state().hide(text));
}

/// Simulated time since the beginning of the history, in nanoseconds.
pub(crate) fn now() -> u64 {
    inside(|| state().now())
}

/// The wall clock of this machine, in nanoseconds of Unix time.
pub(crate) fn wall_clock(machine: u32) -> u64 {
    inside(|| state().wall_clock_on(machine))
}

/// The number of the machine on which this thread runs; 0 for the world.
pub(crate) fn this_machine() -> u32 {
    let task = this_task();
    inside(|| state().number_of_machine(task))
}

/// The name of the task that runs; empty outside a history.
pub(crate) fn task_name() -> String {
    let task = TASK.get();
    inside(|| state().name_of(Task(task)))
}
