//! The journal's native protocol: a record is one datagram with lines `FIELD=value`.
//!
//! The `tracing-journald` library sends from the thread that logs, which blocks while journald hangs; these records
//! go through the queue instead. The names of the fields are those of the library: `MESSAGE`, `F_POD`.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::escaped::Escaped;

/// The socket of journald.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Limit for a datagram in bytes, well below the default limit of a socket (208 KiB); the rest is cut off.
const MOST_BYTES: usize = 64 * 1024;

/// The connection to journald. Each write sends one record.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Opens the connection; None if no journald listens.
    pub(super) fn open() -> Option<Self> {
        Self::at(Path::new(JOURNAL)).ok()
    }

    fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        // An empty record, which journald ignores, shows whether journald listens.
        match socket.send_to(&[], path) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
        socket.set_nonblocking(false)?;
        Ok(Self { socket, path: path.to_owned() })
    }
}

impl Write for Journal {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let kept = record.get(..MOST_BYTES).unwrap_or(record);
        self.socket.send_to(kept, &self.path)?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A record in journald's form.
pub(super) struct JournalRecord {
    /// The value of `SYSLOG_IDENTIFIER`.
    pub(super) agent: String,
}

impl<S> FormatEvent<S, JournalFields> for JournalRecord
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JournalFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            writeln!(writer, "SPAN_NAME={}", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<JournalFields>>() {
                writer.write_str(&fields.fields)?;
            }
        }
        let metadata = event.metadata();
        writeln!(writer, "PRIORITY={}", priority(*metadata.level()))?;
        writeln!(writer, "TARGET={}", metadata.target())?;
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            writeln!(writer, "CODE_FILE={file}\nCODE_LINE={line}")?;
        }
        writeln!(writer, "SYSLOG_IDENTIFIER={}", self.agent)?;
        context.format_fields(writer, event)
    }
}

/// The priority as a number of syslog, as the library maps the levels.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 5,
        Level::DEBUG => 6,
        Level::TRACE => 7,
    }
}

/// The fields of a record in journald's form: the message as `MESSAGE`, each other field as `F_<NAME>`.
#[derive(Debug)]
pub(super) struct JournalFields;

impl<'writer> FormatFields<'writer> for JournalFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Fields { writer, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Fields<'writer> {
    writer: Writer<'writer>,
    result: fmt::Result,
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.result = put(&mut self.writer, field.name(), value);
        }
    }
}

fn put(writer: &mut Writer<'_>, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
    if name == "message" {
        writer.write_str("MESSAGE=")?;
    } else {
        let name = name.replace('.', "_").to_ascii_uppercase();
        write!(writer, "F_{name}=")?;
    }
    // A line break would begin a second field.
    write!(Escaped(writer), "{value:?}")?;
    writer.write_char('\n')
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, Registry};

    use super::super::queue::Queue;
    use super::*;

    #[test]
    fn a_record_has_journalds_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Journal::at(&path).is_err(), "nobody listens");
        let journald = UnixDatagram::bind(&path).unwrap();
        let queue = Queue::start(Journal::at(&path).unwrap(), |_| ()).unwrap();
        let layer = super::super::journal(queue, "zedkube").boxed();
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let _span = tracing::info_span!("drain", drain_id = "d").entered();
            tracing::warn!(pod = "ns/a", attempt = 2, "waits\nPRIORITY=0");
        });
        let mut buffer = [0; 4096];
        assert_eq!(journald.recv(&mut buffer).unwrap(), 0, "asked whether somebody listens");
        let length = journald.recv(&mut buffer).unwrap();
        let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("CODE_")).collect();
        assert_eq!(
            lines,
            [
                "SPAN_NAME=drain",
                "F_DRAIN_ID=d",
                "PRIORITY=4",
                "TARGET=runtime::logs::journal::tests",
                "SYSLOG_IDENTIFIER=zedkube",
                "MESSAGE=waits\\nPRIORITY=0",
                "F_POD=ns/a",
                "F_ATTEMPT=2",
            ]
        );
    }
}
