//! The log: records go to the journal if there is one, otherwise to stderr as text or JSON.
//!
//! The message of a record is written byte for byte in one line, so that EVE's users find the words that they grep
//! for: `kubevirt_node_drain_completion_time_seconds:12.500000` is a message, not a field. Line breaks and other
//! control characters in it are escaped.
//!
//! A thread of its own writes the records (`queue`), so that logging never blocks an agent.

mod escaped;
mod journal;
mod queue;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tracing::subscriber::SetGlobalDefaultError;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::flags::LogFormat;
use escaped::Escaped;
pub use journal::has_journal;
use journal::{JournalLayer, sent_to_journald};
use queue::{Queue, lines_to};

/// The environment variable that selects records, in `tracing`'s notation: `debug`, `pubsub=trace,info`.
pub const FILTER_VARIABLE: &str = "EBB_LOG";

/// Time limit at the end of the process for records that are not written yet.
const LAST_WAIT: Duration = Duration::from_millis(250);

/// Waits for the queue of this process, for [`flush`]. The log belongs to the process, as `tracing`'s subscriber does.
static FLUSH: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// The reason why the log cannot be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The log was set up before.
    #[error("cannot set up the log of {agent}")]
    Twice {
        /// Name of the program part that logs, such as `zedkube` or `demo`.
        agent: String,
        /// The error of `tracing`.
        source: SetGlobalDefaultError,
    },
    /// The thread that writes the log cannot be started.
    #[error("cannot start the thread that writes the log of {agent}")]
    Thread {
        /// Name of the program part that logs, such as `zedkube` or `demo`.
        agent: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Sends the records of this process to the journal if `format` is None and there is a journal, otherwise to stderr.
///
/// Call it once, in the binary, and [`flush`] at the end. The log is the only part of a process that all agents in it
/// share.
pub fn init(format: Option<LogFormat>, agent: &str) -> Result<(), LogError> {
    let output =
        output(format, agent).map_err(|source| LogError::Thread { agent: agent.to_owned(), source })?;
    let subscriber = Registry::default().with(filter()).with(output);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|source| LogError::Twice { agent: agent.to_owned(), source })
}

/// Waits until all records are written, for at most 250 ms. For the end of the process.
pub fn flush() {
    if let Some(flush) = FLUSH.get() {
        flush();
    }
}

fn output<S>(format: Option<LogFormat>, agent: &str) -> io::Result<Box<dyn Layer<S> + Send + Sync>>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    if format.is_none() && has_journal() {
        return Ok(Box::new(JournalLayer { queue: start(sent_to_journald(agent.to_owned()))? }));
    }
    // Not `io::stderr()`: its lock would make other writers wait for the reader of stderr.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    Ok(lines(format.unwrap_or(LogFormat::Text), agent, start(lines_to(stderr))?))
}

fn start<R: Send + 'static>(write: impl FnMut(R) + Send + 'static) -> io::Result<Arc<Queue<R>>> {
    let queue = Queue::start(write, |dropped| {
        tracing::warn!(
            "{dropped} log records were dropped: the reader of the log (journald or stderr) was too slow"
        );
    })?;
    let written = Arc::clone(&queue);
    FLUSH.get_or_init(|| Box::new(move || written.wait_until_written(LAST_WAIT)));
    Ok(queue)
}

/// The filter for records: from `info` on, unless the environment variable selects others.
fn filter() -> Targets {
    let chosen = std::env::var(FILTER_VARIABLE).unwrap_or_default();
    // kube_runtime warns at every retry of a watch, every few seconds in an outage; zedkube reports an outage once.
    chosen_by(&chosen).with_target("kube_runtime", LevelFilter::ERROR)
}

/// The filter for a list of directives such as `pubsub=trace,info`; from `info` on if it has none. Invalid directives
/// are ignored.
fn chosen_by(directives: &str) -> Targets {
    let directives = directives.split(',').filter(|directive| !directive.trim().is_empty());
    let mut chosen: Option<Targets> = None;
    for directive in directives.filter_map(|directive| directive.trim().parse::<Targets>().ok()) {
        let before = chosen.unwrap_or_default();
        let after = match directive.default_level() {
            Some(level) => before.with_default(level),
            None => before,
        };
        chosen = Some(after.with_targets(directive));
    }
    chosen.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}

/// The layer that writes one line per record.
fn lines<S, W>(format: LogFormat, agent: &str, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let agent = agent.to_owned();
    match format {
        LogFormat::Text => {
            Box::new(layer.event_format(TextLine { agent, inner: Format::default().with_ansi(false) }))
        }
        LogFormat::Json => {
            let inner = Format::default().json().flatten_event(true).with_span_list(false);
            Box::new(layer.fmt_fields(JsonFields::new()).event_format(JsonLine { agent, inner }))
        }
    }
}

/// A record as text: `zedkube 2026-… INFO …`. The agent comes first, because several agents may share a stderr.
struct TextLine<F> {
    agent: String,
    inner: F,
}

impl<S, N, F> FormatEvent<S, N> for TextLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut record = String::new();
        self.inner.format_event(context, Writer::new(&mut record), event)?;
        write!(writer, "{} ", self.agent)?;
        fmt::Write::write_str(&mut Escaped(&mut writer), record.trim_end_matches('\n'))?;
        writeln!(writer)
    }
}

/// A record as JSON: `{"source":"zedkube","pid":1234,…,"msg":"…"}`, with `source`, `pid` and `msg` as in the records of
/// EVE's own agents.
struct JsonLine<F> {
    agent: String,
    inner: F,
}

impl<S, N, F> FormatEvent<S, N> for JsonLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut record = String::new();
        self.inner.format_event(context, Writer::new(&mut record), event)?;
        let source = serde_json::Value::from(self.agent.as_str());
        // EVE's records have their text under this name, and recipes read it: `jq -r .msg`. A quotation mark within a text is
        // escaped, so the first match is the name.
        let record = record.replacen("\"message\":", "\"msg\":", 1);
        let fields = record.strip_prefix('{').unwrap_or(&record);
        write!(writer, "{{\"source\":{source},\"pid\":{},{fields}", std::process::id())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Sink {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn directives_choose_by_target_and_level() {
        use tracing::Level;
        for (directives, chosen, left_out) in [
            ("", ("zedkube", Level::INFO), ("zedkube", Level::DEBUG)),
            ("nonsense=loud", ("zedkube", Level::INFO), ("zedkube", Level::DEBUG)),
            ("debug", ("zedkube", Level::DEBUG), ("zedkube", Level::TRACE)),
            ("pubsub=trace,info", ("pubsub::server", Level::TRACE), ("zedkube", Level::DEBUG)),
            ("info, pubsub=trace", ("zedkube", Level::INFO), ("zedkube", Level::DEBUG)),
            ("pubsub=trace", ("pubsub", Level::TRACE), ("zedkube", Level::ERROR)),
            ("nonsense=loud,warn", ("zedkube", Level::WARN), ("zedkube", Level::INFO)),
        ] {
            let targets = chosen_by(directives);
            assert!(targets.would_enable(chosen.0, &chosen.1), "{directives}: {chosen:?}");
            assert!(!targets.would_enable(left_out.0, &left_out.1), "{directives}: {left_out:?}");
        }
    }

    const METRIC: &str = "kubevirt_node_drain_completion_time_seconds:12.500000";

    /// The lines that these records give.
    fn logged(format: LogFormat, records: impl FnOnce()) -> String {
        let sink = Sink::default();
        let subscriber = Registry::default().with(lines(format, "zedkube", sink.clone()));
        tracing::subscriber::with_default(subscriber, records);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_text_record_names_the_agent_and_keeps_the_message() {
        let log = logged(LogFormat::Text, || {
            tracing::info!("{METRIC}");
            tracing::warn!(drain_id = "d", pod = "ns/a", "waits");
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("zedkube 2"), "{log}");
        assert!(lines[0].contains(" INFO ") && lines[0].ends_with(METRIC), "{log}");
        assert!(lines[1].contains(r#"waits drain_id="d" pod="ns/a""#), "{log}");
        assert!(!log.contains('\u{1b}'), "no colours: {log}");
        let log = logged(LogFormat::Text, || tracing::info!("context: a\nzedkube 2026 INFO forged\0"));
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.ends_with("context: a\\nzedkube 2026 INFO forged\\u{0}\n"), "{log}");
    }

    #[test]
    fn a_json_record_is_one_object_per_line() {
        let log = logged(LogFormat::Json, || {
            let _span = tracing::info_span!("drain", drain_id = "d").entered();
            tracing::info!(attempt = 2, "{METRIC}");
            tracing::info!("two\nlines \"quoted\"");
        });
        assert!(log.contains(&format!("\"{METRIC}\"")), "{log}");
        let records: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0]["source"], "zedkube");
        assert_eq!(records[0]["pid"], std::process::id());
        assert_eq!(records[0]["msg"], METRIC);
        assert_eq!(records[0]["attempt"], 2);
        assert_eq!(records[0]["span"]["drain_id"], "d");
        assert_eq!(records[1]["msg"], "two\nlines \"quoted\"");
    }
}
