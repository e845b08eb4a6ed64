//! Finds out which means this device has to go down, so that no node is drained for nothing.

use std::time::Duration;

use pubsub::Root;
use runtime::Task;
use runtime::settings::DeviceSettings;
use schemas::Operation;
use tokio::sync::mpsc;

use crate::device::means;
use crate::facts::Event;

/// Interval of the search while the device has no means: logind may start later than nodeagent.
const LOOK_FOR_ONE: Duration = Duration::from_mins(1);
/// Interval of the search while the device has means, which it may lose.
const LOOK_AGAIN: Duration = Duration::from_mins(10);

/// The task that searches for the means beside the loop.
#[derive(Debug, Default)]
pub(crate) struct KnownMeans {
    search: Option<(DeviceSettings, Task)>,
}

impl KnownMeans {
    /// Starts a task that searches for the means of these settings again and again, and sends each result to
    /// `sender`.
    pub(crate) fn look(
        &mut self,
        settings: &DeviceSettings,
        root: &Root,
        boot_id: &str,
        sender: &mpsc::Sender<Event>,
    ) {
        if self.search.as_ref().is_some_and(|(looked_for, _)| looked_for == settings) {
            return;
        }
        self.search = None;
        let (root, boot_id, sender, of) =
            (root.clone(), boot_id.to_owned(), sender.clone(), settings.clone());
        let task = Task::spawn(async move {
            loop {
                let found = find(&of, &root, &boot_id).await;
                let pause = if found.is_empty() { LOOK_FOR_ONE } else { LOOK_AGAIN };
                if sender.send(Event::MeansFound(found)).await.is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        });
        self.search = Some((settings.clone(), task));
    }
}

/// The names of the means for a reboot; a poweroff has the same.
async fn find(settings: &DeviceSettings, root: &Root, boot_id: &str) -> Vec<String> {
    let mut found = Vec::new();
    for device in means(settings, Operation::Reboot, settings.dry_run, root, boot_id) {
        if device.is_there().await {
            found.push(device.name().to_owned());
        }
    }
    found
}
