//! Records for journald, which the library `tracing-journald` writes.
//!
//! The library waits while journald does not read: at each record, and already when its layer is built. So a record is
//! copied into the queue, and the thread of the log, which may wait, gives it to the library once more: as an event
//! with the same metadata (level, target, place in the code), the same fields, and the same spans around it.

use std::fmt::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use tracing::field::{Field, Value, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Span, Subscriber, dispatcher};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::{Layer, Registry};

use super::escaped::Escaped;
use super::queue::Queue;

/// The socket of journald. The library has the same path.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Limit for the value of a field in bytes; the rest is cut off. The library hands a record that is larger than a
/// datagram (208 KiB by default) to journald as a file in memory.
const MOST_BYTES: usize = 64 * 1024;

/// Says whether a journald listens. Does not wait for a journald that does not read.
pub fn has_journal() -> bool {
    UnixDatagram::unbound().and_then(|socket| socket.connect(JOURNAL)).is_ok()
}

/// A record: the spans around it from the outermost on, then the event.
type JournalRecord = Vec<Copied>;

/// A copy of an event or of a span.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    metadata: &'static Metadata<'static>,
    /// The values as text, in the order of the fields of `metadata`.
    values: Vec<Option<String>>,
}

impl Copied {
    fn new(metadata: &'static Metadata<'static>) -> Self {
        Self { metadata, values: vec![None; metadata.fields().len()] }
    }

    fn size(&self) -> usize {
        self.values.iter().flatten().map(String::len).sum()
    }
}

impl Visit for Copied {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // journalctl shows a value with line breaks in several lines, and one with control characters not at all.
        write!(Escaped(&mut text), "{value:?}").unwrap_or_default();
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        if let Some(place) = self.values.get_mut(field.index()) {
            *place = Some(text);
        }
    }
}

/// The layer that copies records into the queue.
pub(super) struct JournalLayer {
    pub(super) queue: Arc<Queue<JournalRecord>>,
}

impl<S> Layer<S> for JournalLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut copied = Copied::new(attributes.metadata());
        attributes.record(&mut copied);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(copied);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(copied) = span.extensions_mut().get_mut::<Copied>()
        {
            values.record(copied);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let spans = context.event_scope(event).into_iter().flat_map(Scope::from_root);
        let mut record: JournalRecord =
            spans.filter_map(|span| span.extensions().get::<Copied>().cloned()).collect();
        let mut copied = Copied::new(event.metadata());
        event.record(&mut copied);
        record.push(copied);
        let size = record.iter().map(Copied::size).sum();
        self.queue.push(record, size);
    }
}

/// Returns what sends a record to journald under the name `agent`. It may wait, so only the thread of the log may call
/// it. A record that cannot be sent is lost: a failed write of the log cannot be logged.
pub(super) fn sent_to_journald(agent: String) -> impl FnMut(JournalRecord) {
    let mut library = None;
    move |record| {
        library = library.take().or_else(|| open(&agent));
        if let Some(library) = &library {
            dispatcher::with_default(library, || send(&record));
        }
    }
}

/// Opens the connection to journald; None if no journald listens.
fn open(agent: &str) -> Option<Dispatch> {
    let layer = tracing_journald::layer().ok()?.with_syslog_identifier(agent.to_owned());
    // Only records that passed the filter come here. Without a second one `tracing` would take all others for wanted by
    // the library, and each of them would cost time.
    Some(Dispatch::new(Registry::default().with(super::filter()).with(layer)))
}

/// Makes the spans and the event of a record again, for the library.
fn send(record: &JournalRecord) {
    let mut spans = Vec::new();
    for Copied { metadata, values } in record {
        let values: Vec<Option<&dyn Value>> =
            values.iter().map(|value| value.as_ref().map(|text| text as &dyn Value)).collect();
        let values = metadata.fields().value_set_all(&values);
        if metadata.is_span() {
            spans.push(Span::new(metadata, &values).entered());
        } else {
            Event::dispatch(metadata, &values);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    const NOTHING: Option<&str> = None;

    /// Gives the calling thread, and the threads that it starts, a `/run` of their own, without a journald.
    fn without_journald() {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).unwrap();
        mount(NOTHING, "/run", Some("tmpfs"), MsFlags::empty(), NOTHING).unwrap();
        fs::create_dir_all(Path::new(JOURNAL).parent().unwrap()).unwrap();
    }

    /// The fields of a record as `NAME=value`. A name is followed by `=` and the value, or by the length and the value.
    fn fields(mut record: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        while let Some(end) = record.iter().position(|byte| b"=\n".contains(byte)) {
            let (name, rest) = record.split_at(end);
            let (start, length) = if rest[0] == b'\n' {
                (9, usize::from_le_bytes(rest[1..9].try_into().unwrap()))
            } else {
                (1, rest[1..].iter().position(|byte| *byte == b'\n').unwrap())
            };
            let value = String::from_utf8_lossy(&rest[start..start + length]);
            fields.push(format!("{}={value}", String::from_utf8_lossy(name)));
            record = &rest[start + length + 1..];
        }
        fields
    }

    /// The next record that journald gets. It ignores an empty one.
    fn receive(journald: &UnixDatagram) -> Vec<String> {
        let mut buffer = vec![0; 4 * MOST_BYTES];
        loop {
            let length = journald.recv(&mut buffer).unwrap();
            if 0 < length {
                return fields(&buffer[..length]);
            }
        }
    }

    fn log(queue: &Arc<Queue<JournalRecord>>) -> Dispatch {
        Dispatch::new(Registry::default().with(JournalLayer { queue: Arc::clone(queue) }))
    }

    #[test]
    fn as_root_a_record_keeps_its_fields() {
        without_journald();
        assert!(!has_journal());
        let journald = UnixDatagram::bind(JOURNAL).unwrap();
        assert!(has_journal());
        let queue = Queue::start(sent_to_journald("zedkube".to_owned()), |_| ()).unwrap();
        dispatcher::with_default(&log(&queue), || {
            let span = tracing::info_span!("drain", drain_id = "d", pass = tracing::field::Empty);
            span.record("pass", 1);
            let _entered = span.entered();
            tracing::warn!(pod.name = "ns/a", attempt = 2, "waits\nPRIORITY=0");
            tracing::info!(huge = "€".repeat(MOST_BYTES));
        });
        let record = receive(&journald);
        let is_place = |field: &&String| field.contains("CODE_");
        assert_eq!(
            record.iter().filter(|field| !is_place(field)).collect::<Vec<_>>(),
            [
                "SPAN_NAME=drain",
                "SPAN_TARGET=runtime::logs::journal::tests",
                "F_DRAIN_ID=d",
                "F_PASS=1",
                "PRIORITY=4",
                "TARGET=runtime::logs::journal::tests",
                "SYSLOG_IDENTIFIER=zedkube",
                "MESSAGE=waits\\nPRIORITY=0",
                "F_POD_NAME=ns/a",
                "F_ATTEMPT=2",
            ]
        );
        assert!(record.contains(&format!("CODE_FILE={}", file!())), "{record:?}");
        assert!(record.iter().any(|field| field.starts_with("CODE_LINE=")), "{record:?}");
        let record = receive(&journald);
        assert!(record.contains(&"PRIORITY=5".to_owned()), "{record:?}");
        let most = "€".repeat(MOST_BYTES / "€".len());
        assert!(record.contains(&format!("F_HUGE={most}")), "the rest is cut off");
    }

    /// Checks that threads log beside a journald that does not read, whose queue has `length` places.
    fn check_silent_journald(length: u32, threads: u64, is_full_before: bool) {
        let what = format!("{length} places, {threads} threads, full before: {is_full_before}");
        without_journald();
        let limit = File::options().write(true).open("/proc/sys/net/unix/max_dgram_qlen");
        limit.unwrap().write_all(length.to_string().as_bytes()).unwrap();
        let journald = UnixDatagram::bind(JOURNAL).unwrap();
        // A socket alone cannot fill the queue, because it may send only so much that is not read yet.
        let is_sent = || {
            let socket = UnixDatagram::unbound().unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.send_to(&[], JOURNAL).is_ok()
        };
        while is_full_before && is_sent() {}

        assert!(has_journal(), "{what}");
        let (told, dropped) = channel();
        let send = sent_to_journald("zedkube".to_owned());
        let queue = Queue::start(send, move |number| told.send(number).unwrap()).unwrap();
        let log = log(&queue);
        let each = 5_000 / threads;
        let records = move || (0..each).for_each(|_| tracing::info!("x"));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| dispatcher::with_default(&log, records));
            }
        });

        let is_last = |record: &Vec<String>| record.contains(&"MESSAGE=it flows".to_owned());
        let received = std::iter::repeat_with(move || receive(&journald));
        let reading = thread::spawn(move || received.take_while(|record| !is_last(record)).count());
        queue.wait_until_written(Duration::from_mins(1));
        dispatcher::with_default(&log, || tracing::info!("it flows"));
        let read = u64::try_from(reading.join().unwrap()).unwrap();
        let dropped: u64 = dropped.try_iter().sum();
        assert!(0 < dropped, "{what}");
        assert_eq!(read + dropped, each * threads, "{what}: each record was read or counted");
    }

    #[test]
    fn as_root_a_journald_that_does_not_read_stops_nobody() {
        for length in [10, 512] {
            for threads in [1, 8] {
                for is_full_before in [false, true] {
                    // A thread of its own, for namespaces of its own.
                    thread::spawn(move || check_silent_journald(length, threads, is_full_before))
                        .join()
                        .unwrap();
                }
            }
        }
    }
}
