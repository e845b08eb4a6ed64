//! What an operator did, in the device's journal: the topics have no field for who and why.

use std::path::Path;

use pubsub::Root;
use runtime::logs;

/// Where journald listens.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Writes one record under the name `ebb`. Without a journal, and below another root than `/`, the line on the screen
/// is all there is.
pub(crate) fn record(root: &Root, text: &str) {
    if root.is_system() && Path::new(JOURNAL).exists() {
        // It is set up already if the operator wants to see the log.
        if let Err(error) = logs::init(None, "ebb") {
            tracing::debug!("{error}");
        }
    }
    tracing::info!("{text}");
}
