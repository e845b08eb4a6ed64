//! What happened, a line each: the time, who, and what.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::kernel;

/// Tells what the agents log from now on.
pub(crate) fn begin() {
    let subscriber = Registry::default().with(Logged);
    // A second call changes nothing.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Adds a line.
pub(crate) fn tell(who: &str, what: &str) {
    let millis = kernel::now() / 1_000_000;
    kernel::add_line(&format!("{:>6}.{:03} {who:<16} {what}", millis / 1000, millis % 1000));
}

struct Logged;

impl<S: Subscriber> Layer<S> for Logged {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let is_ours = [
            "zedkube",
            "device_op",
            "sentinel",
            "nodeagent",
            "baseos",
            "session",
            "drain",
            "cluster",
            "runtime",
            "pubsub",
            "schemas",
        ]
        .iter()
        .any(|name| metadata.target().starts_with(name));
        if !is_ours || *metadata.level() > Level::INFO {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = if *metadata.level() == Level::INFO { "" } else { metadata.level().as_str() };
        tell(&kernel::task_name(), &format!("{level}{}{}", if level.is_empty() { "" } else { ": " }, text.0));
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let result = if field.name() == "message" {
            write!(self.0, "{value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
        result.unwrap_or_default();
    }
}
