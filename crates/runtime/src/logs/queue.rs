//! The queue of log records. Logging never blocks: if the reader does not read (a full pipe, a journald that hangs),
//! records are dropped and counted, and decisions go on. When agents waited for their log, all decisions stopped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Limit for records in the queue; further records are dropped.
const MOST_RECORDS: usize = 1024;
/// Limit for the bytes of all records in the queue; further records are dropped.
const MOST_BYTES: usize = 1024 * 1024;

/// The queue of one process, for records of type `R`.
#[derive(Debug)]
pub(super) struct Queue<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<R> {
    /// The records, each with its size in bytes.
    records: VecDeque<(R, usize)>,
    bytes: usize,
    /// Number of records dropped since it was last reported.
    dropped: u64,
    /// The thread is writing a record.
    is_writing: bool,
}

impl<R: Send + 'static> Queue<R> {
    /// Starts the thread that calls `write` with each record; `write` may wait. The thread calls `report_dropped` with
    /// the number of dropped records once records can be written again.
    pub(super) fn start(
        write: impl FnMut(R) + Send + 'static,
        report_dropped: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let state = State { records: VecDeque::new(), bytes: 0, dropped: 0, is_writing: false };
        let queue = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let carried = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || carried.carry(write, report_dropped))?;
        Ok(queue)
    }

    /// Waits until all records are written, for at most `limit`.
    pub(super) fn wait_until_written(&self, limit: Duration) {
        let is_busy = |state: &mut State<R>| state.is_writing || !state.records.is_empty();
        drop(self.changed.wait_timeout_while(self.lock(), limit, is_busy));
    }

    /// Adds a record of `size` bytes, or counts it as dropped. Never waits for the thread that writes.
    pub(super) fn push(&self, record: R, size: usize) {
        let mut state = self.lock();
        let bytes = state.bytes.saturating_add(size);
        if state.records.len() < MOST_RECORDS && bytes <= MOST_BYTES {
            state.records.push_back((record, size));
            state.bytes = bytes;
        } else {
            state.dropped = state.dropped.saturating_add(1);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn carry(&self, mut write: impl FnMut(R), report_dropped: impl Fn(u64)) {
        loop {
            write(self.next());
            let mut state = self.lock();
            state.is_writing = false;
            let dropped = if state.records.is_empty() { take(&mut state.dropped) } else { 0 };
            drop(state);
            self.changed.notify_all();
            if 0 < dropped {
                report_dropped(dropped);
            }
        }
    }

    /// Waits for the next record. Records are dropped only while others are in the queue, so there is always a record
    /// after which the number is reported.
    fn next(&self) -> R {
        let mut state = self.lock();
        loop {
            if let Some((record, size)) = state.records.pop_front() {
                state.bytes = state.bytes.saturating_sub(size);
                state.is_writing = true;
                return record;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes each record to `out`. A failed write of the log cannot be logged.
pub(super) fn lines_to(mut out: impl Write) -> impl FnMut(Vec<u8>) {
    move |line| out.write_all(&line).and_then(|()| out.flush()).unwrap_or_default()
}

/// `tracing` writes each record with one call.
impl Write for &Queue<Vec<u8>> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.push(record.to_owned(), record.len());
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc::channel;

    use super::*;

    const A_WHILE: Duration = Duration::from_mins(1);

    #[test]
    fn a_reader_that_does_not_read_stops_nobody() {
        let (reader, writer) = io::pipe().unwrap();
        let (told, dropped) = channel();
        let queue = Queue::start(lines_to(writer), move |number| told.send(number).unwrap()).unwrap();
        let most = 200_u64 * 1024;
        for number in 0..most {
            (&*queue).write_all(format!("record {number}\n").as_bytes()).unwrap();
        }
        assert!(queue.lock().records.len() <= MOST_RECORDS);
        // The end of a process does not wait for the reader either.
        queue.wait_until_written(Duration::from_millis(1));

        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        let reading = thread::spawn(move || lines.take_while(|line| line != "it flows").count());
        queue.wait_until_written(A_WHILE);
        (&*queue).write_all(b"it flows\n").unwrap();
        let read = u64::try_from(reading.join().unwrap()).unwrap();
        let dropped: u64 = dropped.try_iter().sum();
        assert!(0 < dropped);
        assert_eq!(read + dropped, most, "each record was read or counted");
    }

    #[test]
    fn huge_records_are_bounded_too() {
        let (_reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(lines_to(writer), |_| ()).unwrap();
        for _ in 0..100 {
            (&*queue).write_all(&vec![b'x'; MOST_BYTES / 4]).unwrap();
        }
        let state = queue.lock();
        assert!(state.bytes <= MOST_BYTES && 90 < state.dropped, "{} {}", state.bytes, state.dropped);
    }

    #[test]
    fn what_was_logged_is_out_after_a_flush() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(lines_to(writer), |_| ()).unwrap();
        (&*queue).write_all(b"last words\n").unwrap();
        queue.wait_until_written(A_WHILE);
        assert_eq!(queue.lock().bytes, 0, "its place is free again");
        assert_eq!(BufReader::new(reader).lines().next().unwrap().unwrap(), "last words");
    }
}
