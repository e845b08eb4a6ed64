//! Runs the site's health check: setting `health.command`.

use runtime::program;
use runtime::settings::HealthSettings;
use session::Event;
use tokio::sync::mpsc;

use crate::link::tell;

/// Runs the command, and answers with [`Event::Health`]. Without a command the check passes.
pub(crate) fn ask(settings: HealthSettings, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = match &settings.command {
            Some(command) => program::run(command, &[], settings.timeout).await.map(|_| ()),
            None => Ok(()),
        };
        tell(&events, Event::Health { serial, result }).await;
    });
}
